"""Recording from inside a running program, for example while debugging."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from retrace.errors import UsageError
from retrace.failure import say
from retrace.inside.decorated import Decorated, decorate
from retrace.inside.explained import Misses, explained

if TYPE_CHECKING:
    from retrace.inside.notebook import Session
    from retrace.model import Miss
    from retrace.model import Recording as Recorded
    from retrace.present.notebook import Report
    from retrace.present.view import View
    from retrace.store.sinks import Memory
    from retrace.store.writer import Writer

_installed: Path | None = None
_ended: list[Path] = []


def is_off() -> bool:
    """Whether `RETRACE=0` turns all of retrace off."""
    return os.environ.get("RETRACE") == "0"


def judged(recorded: Recorded) -> View:
    """Explain a recording."""
    from retrace.present.view import View
    from retrace.reason.verdict import judge

    return View(recorded, judge(recorded), here())


def here() -> str:
    """The working directory, relative to which places are shown."""
    try:
        return os.getcwd()
    except OSError:  # it is gone
        return ""


class recording:  # noqa: N801 - it is used like a function
    """Record everything that JAX traces, lowers and compiles inside a block.

    Process-wide: misses of all threads are seen. Windows nest. As a decorator,
    each call of the function is a window of its own.

    Args:
        dir: where to write the recording (default: only keep it in memory).

    Raises:
        UsageError: `dir` cannot be written, or this object is already recording.

    Example:
        >>> import jax, retrace
        >>> with retrace.recording() as recorded:
        ...     for size in (2, 3):
        ...         _ = jax.eval_shape(abs, jax.ShapeDtypeStruct((size,), "float32"))
        >>> len(recorded.misses)
        2
    """

    def __init__(self, dir: str | os.PathLike[str] | None = None) -> None:
        self._directory = None if dir is None else Path(dir)
        self._writer: Writer | None = None
        self._lines: Memory | None = None
        self._is_on = False
        self._has_left = False

    def __enter__(self) -> Self:
        if is_off():
            return self
        if self._is_on:
            raise UsageError(
                "this object is already recording: create another for a nested block"
            )
        self._is_on = True
        from retrace.capture.session import begin_again, begin_file, begin_memory

        if self._writer is not None and self._has_left:
            begin_again(self._writer, self._lines)
        elif self._directory is None:
            self._writer, self._lines = begin_memory()
        else:
            from retrace.store.place import create

            self._writer = begin_file(create(self._directory))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        was_on, self._is_on = self._is_on, False
        if self._writer is not None and was_on:
            from retrace.capture.session import session

            session().detach(self._writer)

    def __call__(self, function: Decorated) -> Decorated:
        """Record each call of a function, coroutine or generator while its body runs."""
        # A new window for each call: a decorated function may call itself.
        return decorate(function, lambda: type(self)(self._directory))

    def pause(self) -> None:
        """The body of a generator waits at a `yield`; recording simply continues."""

    def resume(self) -> None:
        """The body continues."""

    def leave(self) -> None:
        """The function has returned a body, which may run later or never."""
        self.__exit__(None, None, None)
        self._has_left = True

    @property
    def misses(self) -> Misses:
        """The misses recorded so far, in order, each with its explanation."""
        if self._writer is None:
            return Misses()
        view = judged(self._read())
        return explained(view, view.verdicts)

    def __repr__(self) -> str:
        if self._writer is None:
            return "<retrace.recording, not started>"
        from retrace.present.tally import Tally
        from retrace.present.words import count, seconds

        total = Tally.of(judged(self._read())).totals
        text = "no misses"
        if total.misses:
            text = f"{count(total.misses, 'miss', 'misses')}, {seconds(total.all_seconds)}"
            text += f"; {total.worth}"
        return f"<retrace.recording: {text}{', still on' if self._is_on else ''}>"

    def _report(self) -> Report | None:
        from retrace.present.notebook import Report

        return None if self._writer is None else Report(judged(self._read()), "this recording")

    def _repr_html_(self) -> str | None:
        report = self._report()
        return None if report is None else report.html()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self._report() or repr(self)))

    def _read(self) -> Recorded:
        from retrace.capture.session import flush
        from retrace.store.reader import read, read_lines

        flush()
        if self._lines is not None:
            return read_lines(list(self._lines.lines))
        assert self._directory is not None
        assert self._writer is not None
        return read([self._directory], self._writer.run.attempt)


def install(dir: str | os.PathLike[str] | None = None) -> None:
    """Record everything in this process from now on, however it was jitted.

    Installing twice changes nothing. If jax is not imported yet, recording begins when
    the program imports it.

    Args:
        dir: the directory of the recording (default: `RETRACE_DIR`, or a new one under
            `.retrace/`).

    Raises:
        UsageError: `dir` cannot be written.

    Example:
        >>> import retrace
        >>> retrace.install()
        >>> retrace.uninstall()
    """
    global _installed
    if is_off() or _installed is not None:
        return
    from retrace.capture.on_import import start

    directory = _place(dir)
    if start(directory):  # False if `retrace run` records into it already
        _installed = directory


def install_or_warn() -> None:
    """Like `install`, for `RETRACE=1`: on an error, warn and let the program continue."""
    from retrace.capture.on_import import records

    if records():
        return  # `retrace run` is recording already
    try:
        install()
    except UsageError as error:
        say(f"retrace: nothing is recorded: {error}")


def uninstall() -> None:
    """Stop recording after `install`; `misses` still returns what was recorded."""
    global _installed
    if _installed is not None:
        from retrace.capture.on_import import stop

        stop(_installed)
        _ended.append(_installed)
        _installed = None


def dismiss() -> None:
    """Undo the effect of `RETRACE=1`, so that retrace's own commands are not recorded."""
    if _installed is not None:
        from retrace.store.place import discard

        directory = _installed
        uninstall()
        _ended.remove(directory)
        discard(directory)


def _place(dir: str | os.PathLike[str] | None = None) -> Path:
    from retrace.store.place import create, discard

    named = dir if dir is not None else os.environ.get("RETRACE_DIR") or None
    if named is not None:
        return create(Path(named))
    directory = create()
    atexit.register(discard, directory, os.getpid())
    return directory


def jit(fun: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """`jax.jit` that records the function's misses.

    Takes the same parameters as the installed `jax.jit` and returns a real `jax.jit`
    object: a call that hits the cache runs none of our code. The first miss starts a new
    recording under `.retrace/`.

    Args:
        fun: the function to jit; without it, returns a decorator.
        options: options of `jax.jit`.

    Example:
        >>> import jax, retrace
        >>> double = retrace.jit(lambda x: 2 * x)
        >>> int(double(3))
        6
        >>> [str(miss.cause) for miss in retrace.misses(double)]
        ['first-trace']
    """
    import jax

    if fun is None:
        return functools.partial(jit, **options)
    jitted: Any = jax.jit(fun, **options)  # pyright: ignore[reportUnknownMemberType]
    from retrace.capture.session import session

    session().own(jitted, _place)
    return jitted


if not TYPE_CHECKING and is_off():
    from jax import jit


def misses(f: Callable[..., Any] | str | None = None) -> Misses:
    """The misses recorded in this process so far, in order, each explained.

    Args:
        f: a function (jitted or not), or its name (default: all functions).

    Returns:
        An `ExplainedMiss` for each: the fields of the JSON report as attributes.

    Example:
        >>> import retrace
        >>> retrace.misses("no_such_function")
        []
    """
    view = _recorded_so_far()
    if view is None:
        return Misses()
    keep = _filter(f)
    return explained(view, [v for v in view.verdicts if keep is None or keep(v.miss)])


def _recorded_so_far() -> View | None:
    """Everything recorded in this process so far; None if nothing is being recorded."""
    if (notebook := _notebook()) is not None and not _records_all_into_files():
        return notebook.view()
    found = recorded_directories()
    if not found:
        return None
    from retrace.capture.session import flush
    from retrace.store.reader import read

    flush()
    return judged(read(found))


def _notebook() -> Session | None:
    if "retrace.inside.notebook" not in sys.modules:
        return None
    from retrace.inside.notebook import session

    return session()


def _records_all_into_files() -> bool:
    from retrace.capture.session import directories, session

    return any(path != session().own_directory for path in directories())


def recorded_directories() -> list[Path]:
    """The directories this process records or has recorded into."""
    running: list[Path] = []
    if "retrace.capture.session" in sys.modules:
        from retrace.capture.session import directories

        running = directories()
    found = (*running, _installed, *_ended)
    return list(dict.fromkeys(path for path in found if path is not None))


def _filter(f: Callable[..., Any] | str | None) -> Callable[[Miss], bool] | None:
    if f is None:
        return None
    if isinstance(f, str):
        return lambda miss: (
            f in (miss.function.name, miss.function.qualname, miss.function.jax_name)
        )
    from retrace.capture.session import site_of

    site = site_of(f)
    return lambda miss: miss.function.site == site


def explain(f: Callable[..., Any] | str | None = None) -> None:
    """Print why `f` was traced, lowered and compiled, latest miss first.

    Args:
        f: a function (jitted or not), or its name (default: all functions).

    Raises:
        UsageError: nothing is being recorded.
    """
    if is_off():
        sys.stdout.write("retrace: RETRACE=0 is set: nothing is recorded\n")
        return
    found = misses(f)
    if not found and not recorded_directories() and not _records_in_memory():
        raise UsageError(
            "nothing is recorded: use retrace.jit instead of jax.jit, or call "
            "retrace.install() before the functions run"
        )
    if not found:
        sys.stdout.write("retrace: no misses recorded\n")
    for miss in reversed(found):
        sys.stdout.write(f"{miss}\n")


def _records_in_memory() -> bool:
    if _notebook() is not None:
        return True
    if "retrace.capture.session" not in sys.modules:
        return False
    from retrace.capture.session import session

    return session().owns_any
