"""Two runs with one thing changed: `retrace diff` names that first, and an equal pair equal."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

from retrace.capture.session import begin_file, session
from retrace.command import cli
from retrace.compare.keys import NOT_IN_KEY
from retrace.reason.verdict import judge
from retrace.runs.difference import Difference, difference
from retrace.runs.expected import expected
from retrace.runs.sides import Side
from retrace.store.reader import read

PROGRAM = """
import functools, jax, numpy as np
import jax.numpy as jnp

LAYERS = 2
LR = 0.1
BATCH = 6

def forward(params, x):
    for w in params:
        x = jnp.tanh(x @ w)
    return x

@jax.jit
def step(params, x):
    grads = jax.grad(lambda p: jnp.mean(forward(p, x)))(params)
    return [w - LR * g for w, g in zip(params, grads)]

@jax.jit
def evaluate(params, x):
    return jnp.sum(forward(params, x))

params = [np.eye(3, dtype=np.float32)] * LAYERS
for size in (BATCH, 5, BATCH):
    params = step(params, np.ones((size, 3), np.float32))
evaluate(params, np.ones((2, 3), np.float32))
"""
STORED = Path(__file__).parents[1] / "reading" / "recordings"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def recorded(program: Path, into: Path) -> Path:
    """Run a program under recording, with nothing in JAX's caches."""
    into.mkdir(parents=True, exist_ok=True)
    jax.clear_caches()
    writer = begin_file(into)
    try:
        runpy.run_path(str(program))
    finally:
        session().detach(writer)
    return into


def written(folder: Path, name: str, text: str, file: str = "train.py") -> Path:
    program = folder / name / file
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(text)
    return recorded(program, folder / name / "recording")


@pytest.fixture(scope="module")
def base(folder: Path) -> Path:
    return written(folder, "base", PROGRAM)


def side(directory: Path) -> Side:
    recording = read([directory])
    return Side(recording, judge(recording), str(directory))


def held(old: Path, new: Path) -> Difference:
    return difference(side(old), side(new))


def named(found: Difference) -> Iterator[str]:
    """What differs, in the order in which it is told."""
    yield from (fact.name for fact in found.environment.facts)
    for pair in found.changed:
        keys = (change for change in pair.changes if change.component not in NOT_IN_KEY)
        yield from (f"{change.component.value} {change.path}" for change in keys)
    yield from ("new" for _ in found.added)
    yield from ("gone" for _ in found.gone)
    for program in found.programs:
        yield from (f"constant {name}" for _, names in program.names for name in names)
        yield program.kind
    for same in found.functions.both:
        yield from (f"{what} {same.old.function.name}" for what in same.changed)


EDITS = {
    "layers": ("LAYERS = 2", "LAYERS = 3", "tree params"),
    "lr": ("LR = 0.1", "LR = 0.2", "constant LR"),
    "batch": ("BATCH = 6", "BATCH = 7", "shape x"),
    "dtype": ("np.float32", "np.float16", "dtype params[0]"),
    "renamed": ("step", "update", "name step"),
    "moved": ("LR = 0.1\n", "\nLR = 0.1\n\n", "line step"),
}
EQUAL = ("renamed", "moved")


@pytest.mark.parametrize("name", EDITS)
def test_what_was_edited_is_named_first(name: str, folder: Path, base: Path) -> None:
    old, new, first = EDITS[name]
    found = held(base, written(folder, name, PROGRAM.replace(old, new)))
    assert next(named(found)) == first
    assert found.is_equal == (name in EQUAL)


def test_an_equal_pair_is_equal(folder: Path, base: Path) -> None:
    # In another folder, as from two checkouts.
    found = held(base, written(folder, "again", PROGRAM))
    assert (list(named(found)), found.is_equal) == ([], True)
    assert len(found.pairs) == 3


def test_a_file_of_another_name_is_named(folder: Path, base: Path) -> None:
    found = held(base, written(folder, "file", PROGRAM, "run_it.py"))
    assert list(named(found)) == ["file step", "file evaluate"]
    assert found.is_equal


@pytest.mark.parametrize(
    ("option", "value"),
    [("jax_enable_x64", True), ("jax_default_matmul_precision", "highest")],
)
def test_a_setting_is_named_first(option: str, value: object, folder: Path, base: Path) -> None:
    before = getattr(jax.config, option)
    try:
        jax.config.update(option, value)
        found = held(base, written(folder, option, PROGRAM))
    finally:
        jax.config.update(option, before)
    assert next(named(found)) == option
    assert not found.is_equal


def test_flags_are_named_first(folder: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    found = held(base, written(folder, "flags", PROGRAM))
    assert list(named(found)) == ["XLA_FLAGS"]


@pytest.mark.parametrize(
    ("old", "new", "first"),
    [("jax-0.12-python-3.13", "jax-0.6-python-3.11", "jax"),
     ("jax-0.12-python-3.13", "jax-0.12-python-3.12", "python")],
)  # fmt: skip
def test_another_release_is_named_first(old: str, new: str, first: str) -> None:
    found = held(STORED / old, STORED / new)
    assert next(named(found)) == first
    # Another Python's bytecode is no edited source.
    assert not any("source" in same.changed for same in found.functions.both)
    assert found.is_equal == (first == "python")
    assert not found.gone
    assert not found.added


def test_two_functions_of_one_name_are_two(folder: Path) -> None:
    text = """
import jax, numpy as np
def make(k):
    if k:
        @jax.jit
        def loss(x):
            return x * 2
    else:
        @jax.jit
        def loss(x):
            return x + 1
    return loss
make(True)(np.ones(3, np.float32))
make(False)(np.ones(3, np.float32))
"""
    one = "@jax.jit\n        def loss(x):\n            return x * 2\n"
    two = "@jax.jit\n        def loss(x):\n            return x + 1\n"
    swapped = text.replace(one, "ONE").replace(two, one).replace("ONE", two)
    found = held(written(folder, "two", text), written(folder, "swapped", swapped))
    assert [same.changed for same in found.functions.both] == [("line",), ("line",)]
    assert found.is_equal


def test_a_static_function_that_moved_is_the_same_and_another_program_is_told(
    folder: Path,
) -> None:
    text = """
import functools, jax, numpy as np
@functools.partial(jax.jit, static_argnums=0)
def run(f, x):
    return f(x)
run(lambda x: x * 2, np.ones(3, np.float32))
"""
    base = written(folder, "static", text)
    assert held(base, written(folder, "static-moved", f"# More.\n{text}")).is_equal
    found = held(base, written(folder, "static-other", text.replace("x * 2", "x - 1")))
    assert not found.is_equal and [program.kind for program in found.programs] == ["different"]


def test_eager_operations_are_known_by_their_lines(folder: Path) -> None:
    text = "import jax.lax as lax, numpy as np\n\n"
    text += "lax.add(np.ones(3), np.ones(3))\n\nlax.add(np.ones((2, 2)), np.ones((2, 2)))\n"
    moved = text.replace("\n\n", "\n\n\n\n", 1)
    found = held(written(folder, "eager", text), written(folder, "eager_moved", moved))
    assert len(found.pairs) == 2
    assert (list(named(found)), found.is_equal) == ([], True)


def test_a_size_that_missed_before_is_not_new(folder: Path, base: Path) -> None:
    more = PROGRAM.replace("(BATCH, 5, BATCH)", "(5, BATCH, 9)")
    found = held(base, written(folder, "more", more))
    assert [v.miss.key.leaves[-1].shape for v in found.added] == [(9, 3)]
    # Which of them is the first trace is another one now: that is told as the cause.
    assert not found.gone
    assert all(pair.old.cause is not pair.new.cause for pair in found.changed)


def test_programs_that_differ_are_never_the_same(folder: Path, base: Path) -> None:
    edited = PROGRAM.replace("jnp.sum(forward", "jnp.max(forward")
    found = held(base, written(folder, "edited", edited))
    (program,) = found.programs
    assert (program.kind, found.is_equal) == ("different", False)
    assert not found.changed
    assert [s.changed for s in found.functions.both] == [(), ("source",)]


# What the command does.

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def retrace(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["retrace", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out + said.err

    return run


def test_json_is_as_the_interface_says(folder: Path, base: Path, retrace: Run) -> None:
    new = written(folder, "lr_json", PROGRAM.replace("LR = 0.1", "LR = 0.3"))
    status, said = retrace("diff", base, new, "--format", "json")
    told: dict[str, Any] = json.loads(said)
    assert status == 0
    assert told["equal"] is False
    assert told["misses"] == {"new": [], "gone": [], "changed": []}
    assert told["environment"] == []
    program = told["programs"][0]
    assert (program["function"], program["change"]) == ("step", "constants-only")
    assert program["old"] != program["new"]
    assert program["evidence"][0]["file"].endswith("train.py")
    assert program["evidence"][0]["line"] == 17
    assert program["constants"] == [{"old": "0.1", "new": "0.3", "names": ["LR"]}]
    assert program["shareable"] is True
    assert told["seconds"]["old"] > 0
    for kind in ("text", "markdown"):
        assert "LR" in retrace("diff", base, new, "--format", kind)[1]


def test_a_run_that_was_killed_is_never_equal(folder: Path, base: Path, retrace: Run) -> None:
    killed = folder / "killed"
    killed.mkdir()
    for file in base.iterdir():
        kept = [line for line in file.read_bytes().splitlines(True) if line[:6] != b'{"end"']
        (killed / file.name).write_bytes(b"".join(kept))
    status, said = retrace("diff", base, killed, "--format", "json")
    told: dict[str, Any] = json.loads(said)
    assert (status, told["equal"], told["misses"]["gone"]) == (0, False, [])
    assert len(told["unknown"]["unfinished"]) == 1
    assert "did not end" in " ".join(retrace("diff", base, killed)[1].split())


def test_two_misses_of_two_recordings(folder: Path, base: Path, retrace: Run) -> None:
    new = written(folder, "batch_ids", PROGRAM.replace("BATCH = 6", "BATCH = 8"))
    first = f"{base}:step #1", f"{new}:step #1"
    status, said = retrace("diff", *first, "--format", "json")
    told = json.loads(said)
    assert status == 0
    changes = [(c["component"], c["path"]) for c in told["changes"]]
    assert ("shape", "x") in changes
    # That they are objects of two processes is no difference.
    assert "function" not in {component for component, _ in changes}
    assert told["program"]["change"] == "shapes-only"
    assert retrace("diff", *first)[0] == 0
    assert retrace("diff", f"{base}:step #1", f"{new}:step #9")[0] == 2
    assert retrace("diff", base, f"{new}:step #1")[0] == 2


def test_the_last_two_attempts_of_a_directory(folder: Path, base: Path, retrace: Run) -> None:
    both = folder / "attempts"
    one, two = base, folder / "lr" / "recording"
    if not two.exists():
        two = written(folder, "lr", PROGRAM.replace("LR = 0.1", "LR = 0.2"))
    assert retrace("diff", one)[0] == 2  # it holds one attempt alone
    both.mkdir()
    for number, source in enumerate((one, two), 1):
        for file in source.iterdir():
            if file.is_file():
                shutil.copy(file, both / file.name)
        (header,) = source.glob("*.jsonl")
        text = header.read_text().replace('"attempt":1', f'"attempt":{number}', 1)
        (both / header.name).write_text(text)
    status, said = retrace("diff", both, "--format", "json")
    assert status == 0
    assert json.loads(said)["programs"][0]["constants"][0]["names"] == ["LR"]


def test_what_is_hidden_under_several_keys_is_not_compared(
    folder: Path, base: Path, retrace: Run
) -> None:
    sides: list[Path] = []
    for name, key in (("one", b"k" * 32), ("two", b"k" * 32), ("three", b"l" * 32)):
        hidden = folder / "hidden" / name
        hidden.mkdir(parents=True)
        for file in base.glob("*.jsonl"):
            (header, *rest) = file.read_text().splitlines(keepends=True)
            told = json.loads(header)
            told["run"] |= {"redaction": key.hex(), "host": "<redacted>", "id": name}
            (hidden / f"{name}.jsonl").write_text("".join([json.dumps(told) + "\n", *rest]))
        sides.append(hidden)
    one, two, three = sides
    assert retrace("diff", one, two)[0] == 0
    for other in (three, base):
        for arguments in ((one, other), (f"{one}:step #1", f"{other}:step #1")):
            status, said = retrace("diff", *arguments)
            assert status == 2
            assert "--redact-key" in said
    assert retrace("diff", f"{three}:step #1", f"{three}:step #2")[0] == 0


PLANNED = """
import jax, numpy as np
def scaled(x, by):
    return x * by
f = jax.jit(scaled, static_argnames="by")
for rate in (0.1, 0.2, 0.3, 0.4):
    f(np.ones(3, np.float32), by=rate)
"""


EAGER = """
import jax, jax.numpy as jnp, numpy as np
def f(x):
    y = jnp.sin(x) + jnp.cos(x) * 3
    z = jnp.exp(-(y**2)) / (1 + jnp.abs(y))
    return jnp.sum(jnp.cumsum(jnp.log1p(jnp.abs(z)) - jnp.tanh(y)) + z)
for _ in range(3):
    f(np.arange(1, 30, dtype=np.float32))
"""


def test_a_function_that_a_step_jits_is_traced_once(folder: Path) -> None:
    old = written(folder, "eager", EAGER)
    new = written(folder, "jitted", EAGER.replace("def f", "@jax.jit\ndef f"))
    found = expected(held(old, new), "1")
    assert [step.proposal.code for step in found.steps] == ["jit-block"]
    assert (found.actual.calls.high, found.actual.eager.high) == (1, 0)
    assert found.came_true


def test_a_program_that_takes_longer_than_what_it_replaces_saves_nothing(
    folder: Path, retrace: Run
) -> None:
    """As the steps of a Python loop do, which all become part of it."""
    old = written(folder, "eager", EAGER)
    new = written(folder, "unrolled", EAGER.replace("def f", "@jax.jit\ndef f"))
    (lines,) = new.glob("*.jsonl")
    text, number = re.subn(r'("stages":{"compile":)', r"\g<1>100", lines.read_text())
    assert number == 1
    lines.write_text(text)
    status, said = retrace("diff", old, new, "--expect", "1", "--format", "json")
    told = json.loads(said)["expected"]
    assert (status, told["came_true"], told["slower"]) == (1, False, True)
    assert not told["still"] and not told["new"]
    assert "jax.lax.scan" in retrace("diff", old, new, "--expect", "1")[1]


ONE_OF_TWO = """
import jax, numpy as np
from functools import partial
class Rule:
    def __init__(self, by):
        self.by = by
    def __call__(self, x):
        return x * self.by
@partial(jax.jit, static_argnames=("loss", "rule"))
def step(x, *, loss, rule):
    return rule(helper(x, loss=loss))
@partial(jax.jit, static_argnames="loss")
def helper(x, *, loss):
    return loss(x)
@jax.jit
def other(x):
    return x + 1
LOSS = Rule(2.0)
for rate in (0.1, 0.2, 0.3):
    step(np.ones(3, np.float32), loss=Rule(2.0), rule=Rule(rate))
"""


def test_a_function_that_misses_as_often_for_something_else_has_saved_nothing(
    folder: Path,
) -> None:
    old = written(folder, "both", ONE_OF_TWO)
    new = written(folder, "one", ONE_OF_TWO.replace("loss=Rule(2.0), ", "loss=LOSS, "))
    found = expected(held(old, new), "1")
    assert found.gone, "what the step calls inside is gone"
    assert found.is_unchanged and not found.came_true


def test_what_makes_the_array_that_a_step_asks_for_is_no_new_miss(folder: Path) -> None:
    old = written(folder, "numbers", PLANNED)
    as_array = PLANNED.replace(', static_argnames="by"', "").replace(
        "by=rate", "by=jax.numpy.asarray(rate)"
    )
    new = written(folder, "arrays", as_array)
    found = expected(held(old, new), "1")
    assert found.actual.eager.high == found.conversions == 1
    assert found.came_true and found.new == ()
    # Only of as many values as the step is about.
    two = f"{as_array}jax.numpy.float32(2) * jax.numpy.asarray(3)\n"
    assert not expected(held(old, written(folder, "two", two)), "1").came_true


TOGETHER = """
import jax, numpy as np
def made():
    def doubled(x):
        return x * 2
    return jax.jit(doubled)
halved = jax.jit(lambda x: x / 2)
for size in (3, 4):
    x = np.ones(size, np.float32)
    halved(x)
    made()(x)
"""


def test_a_step_that_saves_nothing_alone_is_said_to(folder: Path, retrace: Run) -> None:
    old = written(folder, "together", TOGETHER)
    found = [expected(held(old, old), number) for number in ("1", "2")]
    nothing = [one.is_nothing for one in found]
    assert sorted(nothing) == [False, True] and not any(one.came_true for one in found)
    status, said = retrace("diff", old, old, "--expect", str(nothing.index(True) + 1))
    assert status == 1 and "alone promised nothing" in said


LOOP = """
import jax, numpy as np
source = '''
def solve(x):
    return jax.lax.fori_loop(0, 5, lambda _, x: x * 2, x)
'''
own = {"jax": jax}
exec(compile(source, "/opt/site-packages/package/module.py", "exec"), own)
solve = own["solve"]
for _ in range(4):
    solve(np.ones(3, np.float32))
"""


def test_the_call_of_a_librarys_loop_that_a_step_jits_is_traced_once(folder: Path) -> None:
    jitted = LOOP.replace('own["solve"]\n', 'jax.jit(own["solve"])\n')
    old = written(folder, "loop", LOOP)
    assert expected(held(old, written(folder, "loop-jitted", jitted)), "1").came_true
    assert not expected(held(old, old), "1").came_true


def test_a_step_that_came_true_and_one_that_did_not(folder: Path, retrace: Run) -> None:
    old = written(folder, "planned", PLANNED)
    applied = PLANNED.replace(', static_argnames="by"', "").replace(
        "by=rate", "by=np.float32(rate)"
    )
    new = written(folder, "applied", applied)
    found = expected(held(old, new), "1")
    assert found.came_true
    assert (found.before.calls, found.actual.calls) == ((4, 4), (1, 1))
    assert retrace("diff", old, new, "--expect", "1")[0] == 0
    assert retrace("diff", old, old, "--expect", "1")[0] == 1
    status, said = retrace("diff", old, old, "--expect", "1", "--format", "json")
    told = json.loads(said)["expected"]
    assert (status, told["came_true"], len(told["still"])) == (1, False, 3)
    # What is gone does not make up for what is new.
    more = applied + "jax.jit(lambda x: x - 5)(np.ones(3, np.float32))\n"
    other = written(folder, "other", more)
    assert [v.miss.function.name for v in expected(held(old, other), "1").new] == ["<lambda>"]
    assert retrace("diff", old, other, "--expect", "1")[0] == 1
    # Nor does what misses less often than was promised.
    wider = "f(np.ones(5, np.float32), by=0.1)\n"
    before = written(folder, "wider", PLANNED + wider)
    kept = expected(held(before, other), "1")
    assert (kept.promised.calls, kept.actual.calls) == ((2, 2), (2, 2))
    assert (len(kept.new), kept.came_true) == (1, False)
    for steps in ("2", "0", "2-3", "x"):
        assert retrace("diff", old, new, "--expect", steps)[0] == 2


MADE = """
import flax.linen as nn, jax, numpy as np
class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (16, 8, 4, 2):
            x = nn.relu(nn.Dense(width)(x))
        return x
Net().init(jax.random.key(0), np.ones((2, 32), np.float32))
"""


def test_a_step_that_may_save_nothing_and_was_not_taken_did_not_come_true(
    folder: Path, retrace: Run
) -> None:
    old = written(folder, "made", MADE)
    found = expected(held(old, old), "1")
    # The promise alone would pass: all may be left.
    assert found.promised.eager.high == found.actual.eager.high
    assert not found.came_true
    assert retrace("diff", old, old, "--expect", "1")[0] == 1


TWO_WEAK = """
import jax, numpy as np
@jax.jit
def step(x, lr, mom):
    return x - lr * x + mom * x
x, lr, mom = np.ones(3, np.float32), 0.1, 0.9
for t in range(9):
    if t == 3: lr = np.float32(0.05)
    if t == 6: mom = np.float32(0.8)
    x = step(x, lr, mom)
"""


def test_of_two_steps_only_the_one_that_was_applied_came_true(folder: Path) -> None:
    """Which of two calls that now share a program is left says nothing."""
    old = written(folder, "two-weak", TWO_WEAK)
    for applied in ("lr", "mom"):
        line = "for t in range(9):\n"
        mended = TWO_WEAK.replace(line, f"{applied} = np.float32({applied})\n{line}")
        found = held(old, written(folder, f"strong-{applied}", mended))
        both = [expected(found, number) for number in ("1", "2")]
        named = {one.steps[0].proposal.changes[0].paths[0]: one for one in both}
        assert {name for name, one in named.items() if one.came_true} == {applied}
        (other,) = {*named} - {applied}
        assert named[other].varying == (("weak_type", other),)
