"""`%load_ext retrace`: shows below each notebook cell what JAX traced and compiled for it.

All misses of the session are recorded from then on, so a cell that runs again is compared with
its earlier runs. They are kept in memory; nothing is written to disk.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from retrace.inside.explained import Misses, explained
from retrace.inside.live import is_off

if TYPE_CHECKING:
    from retrace.model import Verdict
    from retrace.present.view import View

_ERROR_METHODS = ("showtraceback", "showsyntaxerror", "showindentationerror")


class Session:
    """Records all misses of this process and their programs, in memory."""

    def __init__(self) -> None:
        from retrace.capture.session import begin_memory
        from retrace.store.programs import Library
        from retrace.store.reader import Reader

        self._writer, self._lines = begin_memory()
        self._read = 0
        self._reader = Reader()
        self._programs = Library()

    def view(self) -> View:
        """Everything recorded so far, explained."""
        from retrace.capture.session import flush
        from retrace.inside.live import judged
        from retrace.model import Recording
        from retrace.store.programs import BEGINNING

        flush()
        lines = self._lines.lines[self._read :]
        self._read += len(lines)
        for line in lines:
            if line.startswith(BEGINNING):
                self._programs.add_line(line)
            else:
                self._reader.add(line)
        run, misses = self._reader.result()
        return judged(Recording([run], misses, self._programs))

    def end(self) -> None:
        """Stop recording."""
        from retrace.capture.session import session

        session().detach(self._writer)


_loaded = False
_session: Session | None = None
"""None until the program imports jax."""


def load_ipython_extension(shell: Any) -> None:
    """Start recording and register the magics; called by `%load_ext retrace`."""
    global _loaded
    if not _loaded and not is_off():
        from retrace.capture.on_import import call

        _loaded = True
        call(_begin)
    shell.register_magic_function(_magic(shell), "line_cell", "retrace")
    if _allow_bare_help not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(_allow_bare_help)


def unload_ipython_extension(shell: Any) -> None:
    """Stop recording and remove the magics; called by `%unload_ext retrace`."""
    global _loaded, _session
    if _session is not None:
        _session.end()
    _loaded, _session = False, None
    if _allow_bare_help in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(_allow_bare_help)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("retrace", None)


def _allow_bare_help(lines: list[str]) -> list[str]:
    """Turn `%%retrace --help` into a line magic; IPython rejects a cell magic without a cell."""
    if re.fullmatch(r"%%retrace[ \t]+(-h|--help)\s*", "".join(lines)):
        return ["%retrace --help\n"]
    return lines


def _begin() -> None:
    global _session
    if _loaded and _session is None:
        _session = Session()


def session() -> Session | None:
    """The recording of this session; None if there is none."""
    return _session


def _view() -> View:
    from retrace.model import Recording
    from retrace.present.view import View

    return View(Recording([], []), []) if _session is None else _session.view()


class Explanation:
    """Why JAX traced and compiled, shown as HTML or text; `misses` has the data."""

    def __init__(self, view: View, program: str, verdicts: list[Verdict]) -> None:
        from retrace.present.notebook import Report

        self._view = view
        self._verdicts = verdicts
        self._report = Report(view, program, verdicts)

    @property
    def misses(self) -> Misses:
        """The misses, in order."""
        return explained(self._view, self._verdicts)

    def __repr__(self) -> str:
        return str(self._report)

    def _repr_html_(self) -> str:
        return self._report.html()


class PlanReport:
    """What to change first in this session: shown as HTML or text."""

    def __init__(self, view: View) -> None:
        from retrace.plan.order import plan
        from retrace.present.plan_text import whole

        self._view = view
        self._plan = plan(view.recording, view.verdicts)
        self._text = whole(view, self._plan, ended=False).rstrip("\n")

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        from retrace.present.notebook import planned

        return planned(self._view, self._plan)


def _magic(shell: Any) -> Callable[[str, str | None], None]:
    def retrace(line: str, cell: str | None = None) -> None:
        """Explain why JAX traced and compiled.

        %%retrace         at the top of a cell: run it, then explain what missed JAX's caches
        %%retrace NAME    the same, also stored in the variable NAME; NAME.misses has the data
        %retrace          everything since `%load_ext retrace`
        %retrace step     only the function `step`
        %retrace plan     what to change first, and what remains then
        %retrace audit    which compiled functions are out of date
        """
        __tracebackhide__ = True
        if cell is None and line.strip() == "audit":
            _audit()
            return
        if cell is None and line.strip() == "plan" and not is_off():
            _display(PlanReport(_view()))
            return
        name = line.strip()
        if name in ("-h", "--help"):
            sys.stdout.write(f"{inspect.cleandoc(retrace.__doc__ or '')}\n")
            return
        if cell is None and name.isidentifier() and not is_off():
            view = _view()
            if own := [one for one in view.verdicts if one.miss.function.name == name]:
                _display(Explanation(view, f"this session, of {name}", own))
                return
        if name and (cell is None or not name.isidentifier()):
            from IPython.core.error import UsageError

            if cell is None and name.isidentifier() and not is_off():
                from retrace.present.words import nearest

                known = [*(one.miss.function.name for one in _view().verdicts), "plan", "audit"]
                raise UsageError(
                    f"nothing named {name!r} missed JAX's caches in this session"
                    f"{nearest(name, known)}"
                )
            raise UsageError(
                "put %%retrace [NAME] at the top of a cell, with at most the name of a variable; "
                "%retrace takes nothing, a function that missed, `plan` or `audit`"
            )
        before = frozenset[str]()
        if cell is not None:
            before = frozenset(miss.id for miss in _view().recording.misses)
        error = None if cell is None else _run(shell, cell)
        if is_off():
            sys.stdout.write("retrace: RETRACE=0 is set: nothing is recorded\n")
        else:
            program = "this session"
            if cell is not None:
                program = f"cell {_number(shell, _calling_cell())}"
            view = _view()
            new = [verdict for verdict in view.verdicts if verdict.miss.id not in before]
            found = Explanation(view, program, new)
            if name:
                shell.push({name: found})
            _display(found)
        if error is not None:
            raise error

    return retrace


def _audit() -> None:
    from IPython.core.error import UsageError as IPythonUsageError

    from retrace.errors import UsageError
    from retrace.inside.stale import audit

    if "jax" not in sys.modules and not is_off():
        sys.stdout.write("retrace: nothing to audit: jax has not been imported yet\n")
        return
    try:
        found = audit()
    except UsageError as error:
        raise IPythonUsageError(str(error)) from None
    _display(found)


def _display(found: object) -> None:
    import IPython.display

    module: Any = IPython.display
    module.display(found)


def _run(shell: Any, cell: str) -> BaseException | None:
    """Run the rest of a cell as the shell runs cells; returns the error it raised, if any."""
    frame = _calling_cell()
    number = _number(shell, frame)
    compiler = shell.compile
    named = compiler.cache

    def cache(code: str, _: int = 0, raw_code: str | None = None) -> str:
        return named(code, number, raw_code)

    # The shell shows the error of the whole cell once, and newer shells have already counted up.
    silent: dict[str, Any] = dict.fromkeys(_ERROR_METHODS, _do_nothing)
    with _patched(shell, silent), _patched(compiler, {"cache": cache}):
        done = shell.run_cell(
            cell if frame is None else _with_original_lines(cell), store_history=False
        )
    if done.error_before_exec is not None:
        return done.error_before_exec.with_traceback(None)
    return done.error_in_exec


def _calling_cell() -> FrameType | None:
    from retrace.capture.notebook_cells import is_cell

    frame = inspect.currentframe()
    while frame is not None and not is_cell(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _number(shell: Any, frame: FrameType | None) -> int:
    """The number of the running cell."""
    from retrace.capture.notebook_cells import shown

    found = re.search(r"\d+", shown(frame.f_code.co_filename)) if frame is not None else None
    return int(found[0]) if found is not None else shell.execution_count


def _with_original_lines(cell: str) -> str:
    """The rest of a cell, its line numbers as the user sees them below `%%retrace`."""
    if cell.lstrip().startswith("%%"):
        return cell  # another cell magic must come first
    indent = re.match(r"(?:[ \t]*\n)*([ \t]*)", cell)
    return f"{indent[1] if indent else ''}# %%retrace\n{cell}"


@contextmanager
def _patched(thing: Any, attributes: dict[str, Any]) -> Generator[None]:
    """Temporarily replace attributes of an object."""
    held = cast(dict[str, Any], vars(thing)).copy()
    try:
        for name, value in attributes.items():
            setattr(thing, name, value)
        yield
    finally:
        for name in attributes:
            delattr(thing, name)
            if name in held:
                setattr(thing, name, held[name])


def _do_nothing(*_: Any, **__: Any) -> None:
    """Show nothing."""
