"""The pytest plugin: inactive until a test or an option asks for it.

Every pytest run of the environment loads it by its entry point, so this module imports only
pytest and the standard library. The rest, including jax, is imported when a test is first
watched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from retrace.inside.live import recording
    from retrace.pytest_plugin.testing import Watched

_MARKER = (
    "retrace(max_traces=None, allow=None, functions=None, warmup=0, compiles=None, "
    "lowerings=None, seconds=None, causes=None, stale=None, audit_seconds=10, "
    "audit_total=60): fail if JAX traces or compiles too often, or a program is out of date; "
    "without arguments, fail if anything but a first trace misses JAX's caches"
)
WATCHED = pytest.StashKey["Watched"]()
"""The watch of a running test."""
BASELINE = "retrace-baseline"
"""The name of the plugin that compares tests with the baseline."""
_EXPLAINED = pytest.StashKey[str]()
_PLACES = pytest.StashKey[str]()
"""The lines of the failure that name places."""


class _Row(NamedTuple):
    """The misses of one function and cause in one test."""

    seconds: float
    text: str
    test: str


class _State:
    def __init__(self) -> None:
        self.rows: list[_Row] = []
        self.doubts: dict[str, None] = {}
        """Why misses may have gone unseen."""
        self.compiled: list[tuple[str, list[tuple[Any, ...]]]] = []
        """What each test compiled: the fields of `runs.again.Compiled`."""
        self.directory: Path | None = None
        self.is_watching = False
        """Whether misses are recorded between tests, too."""


_STATE = pytest.StashKey[_State]()


class _Finder:
    """Finds our modules before pytest's own finder does, which rewrites the assertions of each.

    They have none for users, and that takes longer than loading them: 0.1 s in all.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """The spec of a module of ours; None for all others."""
        del target
        is_ours = path is not None and name.startswith("retrace.")
        return PathFinder.find_spec(name, path) if is_ours else None


_FINDER = _Finder()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    group = parser.getgroup("retrace", "what JAX traces and compiles")
    group.addoption(
        "--retrace", action="store_true", help="record every test and list the slowest misses"
    )
    group.addoption(
        "--retrace-dir",
        metavar="DIR",
        help="record the whole run in DIR, for `retrace report DIR`",
    )
    group.addoption(
        "--retrace-top",
        type=int,
        metavar="N",
        help="number of slowest misses to list (default: 10); implies --retrace",
    )
    group.addoption(
        "--retrace-update",
        action="store_true",
        help="write the baseline: how often functions are traced and why, by test",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and start recording if requested."""
    config.addinivalue_line("markers", _MARKER)
    config.stash[_STATE] = _State()
    named = config.getoption("--retrace-dir")
    if named and not _is_off():
        _begin(config, Path(named))
    _register_baseline(config)


def _register_baseline(config: pytest.Config) -> None:
    """Register the baseline plugin if the project has a baseline or is to get one."""
    update = bool(config.getoption("--retrace-update"))
    if _is_off():
        if update:
            raise pytest.UsageError("--retrace-update: RETRACE=0 turns all recording off")
        return
    from retrace.errors import UsageError
    from retrace.guards.project import Project, around

    # Under xdist only the main process looks for it: a worker may run in another folder.
    given: Any = getattr(config, "workerinput", {}).get("retrace_baseline")
    try:
        if given is not None:
            project = Project(Path(given[0]), None, {"baseline": given[1]})
        elif hasattr(config, "workerinput"):
            return
        else:
            project = around(config.rootpath, quick=True)
    except UsageError as error:
        if update:
            raise pytest.UsageError(f"--retrace-update: {error}") from None
        return  # perhaps the file of another project
    try:
        if given is None and not update and not project.has_tests:
            return
        from retrace.pytest_plugin.baseline import BaselinePlugin

        config.pluginmanager.register(BaselinePlugin(config, project, update), BASELINE)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def _begin(config: pytest.Config, named: Path) -> None:
    from retrace.capture.on_import import start
    from retrace.errors import RetraceError
    from retrace.store.place import create

    worker = hasattr(config, "workerinput")
    try:
        directory = create(config.invocation_params.dir / named, append=worker)
    except RetraceError as error:
        raise pytest.UsageError(f"--retrace-dir: {error}") from None
    # Under xdist the tests run in the workers, each of which writes its own file.
    if worker or not getattr(config.option, "numprocesses", None):
        config.stash[_STATE].directory = directory
        start(directory)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the recording."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    state = config.stash.get(_STATE, None)
    if state is not None and state.is_watching:
        from retrace.guards.watch import watch

        watch().hold(False)
    if state is not None and state.directory is not None:
        from retrace.capture.on_import import stop

        stop(state.directory)


def _is_off() -> bool:
    return os.environ.get("RETRACE") == "0"


def _lists(config: pytest.Config) -> bool:
    return bool(config.getoption("--retrace")) or config.getoption("--retrace-top") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Watch a test from its setup on, so that misses in its fixtures are known."""
    marked = item.get_closest_marker("retrace") is not None
    held = item.config.pluginmanager.has_plugin(BASELINE)
    if _is_off() or not (marked or held or _lists(item.config)):
        return (yield)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    from retrace.pytest_plugin.testing import Watched

    lists, state = _lists(item.config), item.config.stash[_STATE]
    if lists and not state.is_watching:
        from retrace.guards.watch import watch

        state.is_watching = True
        watch().hold(True)
    with Watched(lists=lists) as watched:
        item.stash[WATCHED] = watched
        try:
            return (yield)
        finally:
            del item.stash[WATCHED]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Clear the caches of functions named by markers, before the fixtures and at each rerun."""
    if (watched := item.stash.get(WATCHED, None)) is not None:
        watched.set_up([(mark.args, mark.kwargs) for mark in item.iter_markers("retrace")])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check the test against its markers."""
    # This frame is not hidden: if all frames were, pytest would say so instead of the failure.
    watched = item.stash.get(WATCHED, None)
    if watched is None:
        return (yield)
    from retrace.errors import UsageError

    try:
        watched.begin()
    except UsageError as error:
        failed = f"@pytest.mark.retrace: {error}\n{_place(item)}"
        raise pytest.fail.Exception(failed, pytrace=False) from None
    try:
        result = yield
    except BaseException:
        _explain(item, watched)
        raise
    if heads := _explain(item, watched):
        summary = "\n".join(heads)
        # The failure shows it, so the section below need not repeat it.
        item.stash[_EXPLAINED] = item.stash[_EXPLAINED].removeprefix(summary).lstrip("\n")
        places = "".join(f"\n{place}" for place in (_place(item), *watched.places))
        item.stash[_PLACES] = places
        raise pytest.fail.Exception(summary + places, pytrace=False)
    return result


def _place(item: pytest.Item) -> str:
    """The place of a test in pytest's format, which editors and terminals turn into links."""
    file, line, name = item.reportinfo()
    shown = os.fspath(file)
    with suppress(ValueError):  # another drive of Windows
        shown = os.path.relpath(file, item.config.invocation_params.dir)
    return f"{shown}:{(line or 0) + 1}: {name}"


def _explain(item: pytest.Item, watched: Watched) -> list[str]:
    """The exceeded limits; the explanation goes into a section of the test's report."""
    found = watched.excesses()
    item.stash[_EXPLAINED] = found.text
    if found.doubt and not found.heads:
        from retrace.errors import RetraceWarning

        item.warn(RetraceWarning(found.doubt))
    return found.heads


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the test's misses to its report, which xdist sends to the main process."""
    report = yield
    watched = item.stash.get(WATCHED, None)
    if call.when == "call" and (text := item.stash.get(_EXPLAINED, "")):
        report.sections.append(("retrace", text))
    crash = getattr(report.longrepr, "reprcrash", None)
    if call.when == "call" and crash is not None:
        # In CI, pytest's summary has the full messages: the places would be annotated twice.
        crash.message = crash.message.removesuffix(item.stash.get(_PLACES, ""))
    if watched is not None and call.when == "teardown":
        report.user_properties += watched.properties()
    if watched is not None and call.when == "teardown" and _lists(item.config):
        rows, compiled = watched.listed()
        report.__dict__["retrace_rows"] = rows
        report.__dict__["retrace_doubt"] = watched.doubt()
        report.__dict__["retrace_compiled"] = compiled
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> None:
    """Collect the rows of a finished test, in the process that prints."""
    if hasattr(config, "workerinput"):
        return
    rows: list[tuple[float, str]] = report.__dict__.pop("retrace_rows", [])
    state = config.stash[_STATE]
    if (doubt := report.__dict__.pop("retrace_doubt", None)) is not None:
        state.doubts[doubt] = None
    state.rows += [_Row(seconds, text, report.nodeid) for seconds, text in rows]
    state.compiled.append((report.nodeid, report.__dict__.pop("retrace_compiled", [])))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """List the slowest misses."""
    if not _lists(config) or _is_off():
        return
    rows = sorted(config.stash[_STATE].rows, reverse=True)
    top: Any = config.getoption("--retrace-top")
    shown = rows[: 10 if top is None else max(0, top)]
    terminalreporter.section("retrace: slowest misses")
    for doubt in config.stash[_STATE].doubts:
        terminalreporter.write_line(doubt, red=True)
    if not rows and not config.stash[_STATE].doubts:
        terminalreporter.write_line("no misses: nothing was traced or compiled")
    for row in shown:
        terminalreporter.write_line(f"{row.seconds:8.2f} s  {row.text}  {row.test}")
    if len(rows) > len(shown):
        rest = rows[len(shown) :]
        spent = sum(row.seconds for row in rest)
        terminalreporter.write_line(f"and {len(rest):,} more, {spent:.2f} s")
    for line in _compiled_again(config.stash[_STATE]):
        terminalreporter.write_line(line)


def _compiled_again(state: _State) -> Iterator[str]:
    """Programs that several tests compiled separately."""
    from shutil import get_terminal_size

    from retrace.present.again import text
    from retrace.runs.again import Again, Compiled

    found = Again()
    for test, rows in state.compiled:
        found.add([Compiled(*row) for row in rows], test)
    width = max(60, min(100, get_terminal_size().columns))
    programs, families = found.programs(within=True), found.families({})
    if lines := list(text(programs, families, "test", (str(Path.cwd()),), width)):
        yield ""
        yield from lines


@pytest.fixture
def retrace_recording() -> Iterator[recording]:
    """A recording of this test; `retrace_recording.misses` has its misses so far."""
    import retrace

    with retrace.recording() as recorded:
        yield recorded
