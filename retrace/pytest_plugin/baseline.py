"""Compares tests with the baseline; loaded only if the project has one."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from retrace.errors import UsageError
from retrace.guards import suite
from retrace.guards.baseline import Baseline, Functions, Names, difference, load, save
from retrace.guards.drift import head, not_yet, shown, unused, update_note
from retrace.guards.project import Project
from retrace.present.words import clean, count
from retrace.pytest_plugin import WATCHED

_UPDATE = "pytest --retrace-update"
_MAX_TESTS = 3
"""Maximum number of tests for which the misses of one function are explained."""

_ID = pytest.StashKey[str]()
_ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


class BaselinePlugin:
    """Collects the misses of each test, and compares or updates the baseline at the end."""

    def __init__(self, config: pytest.Config, project: Project, update: bool) -> None:
        self._config = config
        self._project = project
        self._file = project.baseline
        self._update = update
        self._baseline = load(self._file) or Baseline()
        self._known: dict[str, Functions] = self._baseline.tests or {}
        self._names = Names(project.root, config.invocation_params.dir)
        self._in_worker = hasattr(config, "workerinput")
        self._collected: set[str] = set()
        self._files: dict[str, bool] = {}
        """The collected test files, and whether they were collected without an error."""
        self._failed: set[str] = set()
        self._tested: list[suite.Tested] = []
        self._failure: list[str] = []
        self._doubts: dict[str, None] = {}
        """Why some misses may have gone unseen."""
        self._notes: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker where the baseline is."""
        node.workerinput["retrace_baseline"] = (str(self._project.root), str(self._file))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Receive the collected tests from a worker."""
        output: dict[str, Any] = getattr(node, "workeroutput", {})
        tests, files = output.get("retrace_collected", ((), {}))
        self._collected.update(tests)
        for file, whole in files.items():
            self._files[file] = whole and self._files.get(file, True)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note a test under its original id, before xdist groups it."""
        item.stash[_ID] = clean(item.nodeid, None)
        self._collected.add(item.stash[_ID])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a test file."""
        file = clean(report.nodeid, None).partition("::")[0]
        self._files[file] = report.passed and self._files.get(file, True)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add a test's misses to its last report, which xdist sends to the main process."""
        report = yield
        watched = item.stash.get(WATCHED, None)
        if watched is not None and call.when == "teardown":
            test = item.stash.get(_ID, item.nodeid)
            known = None if self._update else self._known.get(test, {})
            one = suite.tested(test, os.getpid(), watched.missed(), self._names, known)
            rows = [list(row) for row in one.rows]
            report.__dict__["retrace_missed"] = [one.test, one.process, rows, one.texts]
            report.__dict__["retrace_unsure"] = watched.doubt()
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the misses of a test, in the main process."""
        if self._in_worker:
            return
        if report.failed or (report.skipped and not hasattr(report, "wasxfail")):
            self._failed.add(report.nodeid)
        if (doubt := report.__dict__.pop("retrace_unsure", None)) is not None:
            self._doubts[doubt] = None
        missed: Any = report.__dict__.pop("retrace_missed", None)
        if missed is not None:
            test, process, rows, texts = missed
            passed = report.nodeid not in self._failed
            found = [suite.Row(*row) for row in rows]
            self._tested.append(suite.Tested(test, process, passed, found, texts))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare or update the baseline; fail the run if there are new misses."""
        if self._in_worker:
            whole = (sorted(self._collected), self._files)
            self._config.__dict__["workeroutput"]["retrace_collected"] = whole
            return
        if self._config.getoption("collectonly"):
            return
        if session.exitstatus not in _ENDED:
            if self._update:
                self._notes.append(f"the run was interrupted: {self._file.name} was not changed")
            return
        if self._update and not self._doubts:
            self._update_baseline()
        elif not self._update:
            self._compare()
        self._failure += self._doubts
        if self._failure and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the result."""
        if self._failure or self._notes:
            terminalreporter.section("retrace: baseline")
        for text in self._failure:
            first, _, rest = text.partition("\n")
            terminalreporter.write_line(first, red=True)
            terminalreporter.write_line(f"{rest}\n")
        for text in self._notes:
            terminalreporter.write_line(text)

    def _compare(self) -> None:
        file = self._file.name
        held = suite.hold(self._known, self._tested, self._gone())
        for one in held.excesses:
            own, now = _only(one.function, self._known), _only(one.function, held.raised)
            lines = shown(difference("tests", own, now))
            texts = one.texts[:_MAX_TESTS]
            if len(one.texts) > _MAX_TESTS:
                texts.append(f"and {count(len(one.texts) - _MAX_TESTS, 'more test')}")
            first = head(one.function, one.old, one.new, file)
            self._failure.append("\n\n".join(["\n".join([first, *lines]), *texts]))
        if held.excesses:
            self._notes.append(f"if this is intended, `{_UPDATE}` adds it to {file}")
        if held.new:
            self._notes.append(not_yet(held.new, file, _UPDATE))
        self._notes += unused(difference("tests", self._known, held.lowered), file, _UPDATE)

    def _update_baseline(self) -> None:
        gone = self._gone()
        left = {test: functions for test, functions in self._known.items() if test not in gone}
        updated = suite.hold(left, self._tested).updated
        if updated != self._baseline.tests:
            self._baseline.tests = updated
            try:
                save(self._file, self._baseline)
            except UsageError as error:
                self._failure.append(str(error))
                return
        self._notes.append(
            update_note(difference("tests", self._known, updated), self._file.name)
        )
        if self._failed:
            number = count(len(self._failed), "test")
            self._notes.append(f"{number} failed or skipped: their entries were not changed")

    def _gone(self) -> set[str]:
        """The tests in the baseline that no longer exist, as far as this run shows."""
        part = self._config.getoption("lf", False) or any("::" in a for a in self._config.args)
        gone: set[str] = set()
        for test in set(self._known) - self._collected:
            file = test.partition("::")[0]
            whole = not part and self._files.get(file, False)
            if whole or not Path(self._config.rootpath, file).exists():
                gone.add(test)
        return gone


def _only(function: str, tests: suite.Tests) -> dict[str, Functions]:
    return {test: {function: own[function]} for test, own in tests.items() if function in own}
