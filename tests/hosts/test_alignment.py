"""Which processes are compared, and what raises no alarm, without JAX."""

from __future__ import annotations

from typing import Any

import pytest

from retrace.hosts.compare import diverge
from retrace.hosts.divergence import Divergence
from retrace.hosts.trail import Trails
from retrace.model import Function, Key, Program, Stage
from retrace.present.hosts import DivergenceReport
from tests.reading.story import Story, array, at, function, plain

STEP, EVAL, LOG = function("step", 10), function("evaluate", 20), function("log", 30)
COUNT = 3


class Job:
    """Processes of one job, each with its misses."""

    def __init__(self, count: int = COUNT, **fields: Any) -> None:
        self.stories = [
            Story(f"run{index}", process_index=index, process_count=count, **fields)
            for index in range(count)
        ]

    def does(
        self,
        what: Function,
        size: int,
        *,
        by: tuple[int, ...] | None = None,
        spans: bool = True,
        static: str | None = None,
        program: str | None = None,
        **fields: Any,
    ) -> None:
        """Add a miss to some processes, or to all."""
        key = Key(
            leaves=(array("x", "float32", size),),
            static=() if static is None else (("name", plain(static)),),
        )
        known = Program(program or f"{what.name}{size}", 3)
        for index, story in enumerate(self.stories):
            if by is None or index in by:
                told: dict[str, Any] = {
                    "program": known,
                    "processes": len(self.stories) if spans else None,
                    **fields,
                }
                story.miss(what, key, at(50, "step(x)"), **told)

    def found(self) -> Divergence:
        trails = Trails()
        for story in self.stories:
            trails.add(story.run, story.misses)
        found = diverge(trails, {})
        assert found is not None
        told = DivergenceReport(found, {})
        # Every finding can be worded.
        assert told.report() and told.json()
        return found

    def stops(self, *indices: int) -> None:
        for index in indices:
            self.stories[index].run.complete = False


def test_a_process_that_stopped_is_not_blamed_for_what_came_later() -> None:
    job = Job()
    job.does(STEP, 8)
    job.does(EVAL, 8, by=(0, 1))
    job.stops(2)
    found = job.found()
    assert found.equal
    assert [one.process for one in found.stopped] == [2]


def test_a_process_that_skipped_a_step_is_named_though_it_stopped() -> None:
    job = Job()
    job.does(STEP, 8, by=(0, 1))
    job.does(EVAL, 8)
    job.stops(2)
    (one,) = job.found().partings
    assert (one.how, one.function.name, one.minority) == ("missing", "step", (2,))


def test_the_process_that_all_wait_for_is_named_if_all_were_killed() -> None:
    job = Job()
    job.does(STEP, 8)
    job.does(EVAL, 8, by=(1,))
    job.stops(0, 1, 2)
    (one,) = job.found().partings
    assert (one.how, one.function.name, one.minority) == ("extra", "evaluate", (1,))


@pytest.mark.parametrize(
    ("odd", "of_others"),
    [((7, 8, 5, 9), 8), ((8, 7, 5, 9), 8), ((8, 5, 9, 7), 9)],
    ids=["first", "second", "last"],
)
def test_an_extra_program_is_compared_with_earlier_ones_of_others(
    odd: tuple[int, ...], of_others: int
) -> None:
    job = Job()
    for size in (8, 5, 9):
        job.does(STEP, size, by=(0, 1))
    for size in odd:
        job.does(STEP, size, by=(2,))
    (one,) = job.found().partings
    assert (one.how, one.minority) == ("extra", (2,))
    assert one.old is not None
    assert one.old.key.leaves[0].shape == (of_others,)


def test_an_equal_program_with_other_static_values_is_the_same() -> None:
    job = Job()
    for index in range(COUNT):
        job.does(STEP, 8, by=(index,), static=f"host {index}")
    assert job.found().equal


@pytest.mark.parametrize("by", [(0,), (0, 1)])
def test_a_process_may_do_more_by_itself(by: tuple[int, ...]) -> None:
    job = Job()
    job.does(STEP, 8)
    job.does(LOG, 8, by=by, spans=False)
    job.does(LOG, 9, by=by, spans=False)
    assert job.found().equal
    job.does(LOG, 10, by=by, spans=True)
    (one,) = job.found().partings
    assert (one.function.name, one.minority) == ("log", (0,) if by == (0,) else (2,))


def test_an_unrecorded_program_is_identified_by_its_arguments() -> None:
    job = Job()
    job.does(STEP, 8, by=(0, 1))
    job.does(STEP, 8, by=(2,), in_flight=Stage.COMPILE)
    job.stories[2].misses[0].program = None
    assert job.found().equal
    job.does(STEP, 9, by=(0, 1))
    job.does(STEP, 7, by=(2,))
    job.stories[2].misses[1].program = None
    (one,) = job.found().partings
    assert [(change.path, change.new) for change in one.changes] == [("x", (7,))]


def test_the_later_attempt_of_a_restarted_process_counts() -> None:
    job = Job()
    job.does(STEP, 8, by=(0, 1))
    again = Story("again", process_index=2, process_count=COUNT, attempt=2)
    job.stories[2].miss(STEP, Key(), None, processes=COUNT, program=Program("other", 1))
    job.stories.append(again)
    job.does(STEP, 8, by=(3,))
    assert job.found().equal


def test_processes_without_a_job_are_not_compared() -> None:
    job = Job()
    job.does(STEP, 8, by=(0,))
    for story in job.stories:
        story.run.process_index, story.run.process_count = 0, 1
    trails = Trails()
    for story in job.stories:
        trails.add(story.run, story.misses)
    assert diverge(trails, {}) is None
    assert diverge(trails, {}, any_processes=True) is not None


def test_recordings_redacted_with_different_keys_are_compared_by_types() -> None:
    job = Job()
    for index, story in enumerate(job.stories):
        story.run.redaction = f"key {index}"
        story.run.settings = {"jax_x": f"<redacted {index}>"}
        story.run.variables = {"XLA_FLAGS": f"--xla_a=<redacted {index}> --xla_b"}
        job.does(STEP, 8, by=(index,), static=f"<redacted {index}>", program=f"hash {index}")
    found = job.found()
    assert found.equal and found.incomparable
    assert found.environment == ()
    assert f"{len(job.stories)} processes" in DivergenceReport(found, {}).report()
    job.stories[1].run.variables = {"XLA_FLAGS": "--xla_a=<redacted 1>"}
    assert [one.name for one in job.found().environment] == ["XLA_FLAGS"]
    for story in job.stories:
        story.run.redaction = "one key"
    assert not job.found().equal
    assert len(job.found().environment) == 2


@pytest.mark.parametrize(
    ("name", "value", "equal"),
    [
        ("XLA_FLAGS", "--xla_gpu_autotune_level=0", False),
        ("XLA_FLAGS", "--xla_dump_to=/tmp/host2", True),
        ("TPU_WORKER_ID", "2", True),
        ("LIBTPU_INIT_ARGS", "--xla_tpu_spmd=true", False),
        ("jax_enable_x64", True, False),
        ("jax_compilation_cache_dir", "/tmp/host2", True),
    ],
)
def test_settings_that_change_programs_are_distinguished(
    name: str, value: Any, equal: bool
) -> None:
    job = Job()
    job.does(STEP, 8)
    for index, story in enumerate(job.stories):
        held: dict[str, Any] = {name: value} if index == 1 else {"JAX_PLATFORMS": "tpu"}
        if name.startswith("jax_"):
            story.run.settings = {"jax_x": 1, **held}
            story.run.settings.pop("JAX_PLATFORMS", None)
        else:
            story.run.variables = {"JAX_PLATFORMS": "tpu", **held}
    found = job.found()
    assert found.equal is equal
    if not equal:
        assert found.partings[0].minority == (1,)
        assert [change.path for change in found.partings[0].changes] == [name]
