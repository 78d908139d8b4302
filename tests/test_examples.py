"""The example programs, recorded as by a user: every miss is explained, and fixing works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.drawn

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def retrace(*arguments: str, cwd: Path) -> str:
    """Run a `retrace` command that must succeed; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "retrace", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def recorded(program: str, folder: Path) -> dict[str, Any]:
    printed = retrace("run", "--out", "recording", str(EXAMPLES / program), cwd=folder)
    accuracy = float(printed.split()[-1])
    assert accuracy > 0.85, "the program does not learn"
    return json.loads(retrace("report", "recording", "--format", "json", cwd=folder))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("digits")


@pytest.fixture(scope="module")
def report(folder: Path) -> dict[str, Any]:
    return recorded("train_digits.py", folder)


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return recorded("train_digits_fixed.py", tmp_path_factory.mktemp("fixed"))


def test_a_program_that_compiles_once_is_reported_as_such(
    fixed: dict[str, Any], tmp_path: Path
) -> None:
    folder = next(path for path in tmp_path.parent.glob("fixed*") if path.is_dir())
    compiles = fixed["summary"]["compiles"]
    first = retrace("report", "recording", cwd=folder).splitlines()[0]
    assert first.startswith(f"retrace: {compiles} programs in train_digits_fixed.py")
    assert first.endswith("each compiled once")


_EDITS = {
    "reuse-object": [
        ("def new_state(params, steps):", "def new_state(params, tx):"),
        ("    tx = optax.adam(optax.cosine_decay_schedule(5e-3, steps))\n", ""),
        (
            (
                "    for _ in range(RESTARTS):\n"
                "        state = new_state(params, steps=EPOCHS * len(train_images) // BATCH)\n"
            ),
            (
                "    steps = EPOCHS * len(train_images) // BATCH\n"
                "    tx = optax.adam(optax.cosine_decay_schedule(5e-3, steps))\n"
                "    for _ in range(RESTARTS):\n"
                "        state = new_state(params, tx)\n"
            ),
        ),
    ],
    "few-sizes": [
        ("return optax.softmax", "losses = optax.softmax"),
        (
            'batch["label"]).mean()',
            (
                'batch["label"])\n        mask = batch["mask"]\n'
                "        return (losses * mask).sum() / mask.sum()"
            ),
        ),
        (
            (
                '                batch = {"image": train_images[rows], "label": '
                "train_labels[rows]}\n"
            ),
            (
                "                add = BATCH - len(rows)\n"
                "                add = [(0, add), (0, 0), (0, 0), (0, 0)]\n"
                "                batch = {\n"
                '                    "image": np.pad(train_images[rows], add),\n'
                '                    "label": np.pad(train_labels[rows], add[0]),\n'
                '                    "mask": (np.arange(BATCH) < len(rows)).astype(np.float32),\n'
                "                }\n"
            ),
        ),
    ],
    "cast-carry": [("    step = 0  #", "    step = np.int32(0)  #")],
    "jit-once": [
        (
            "def evaluate(",
            (
                "@jax.jit\ndef predict(p, x):\n    return model.apply("
                '{"params": p}, x, train=False).argmax(-1)\n\n\ndef evaluate('
            ),
        ),
        (
            (
                '    predict = jax.jit(lambda p, x: model.apply({"params": p}, x, train=False)'
                ".argmax(-1))\n"
            ),
            "",
        ),
    ],
}
"""Each step of the plan that is worth doing, as an edit of the program."""


def test_following_the_plan_leaves_what_it_promises(
    report: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    plan = json.loads(retrace("plan", "recording", "--format", "json", cwd=folder))
    steps = [step for step in plan["steps"] if step["worth"]]
    assert [step["fix"]["code"] for step in steps if step["gone"]["calls"] == 0] == []
    assert sorted(step["fix"]["code"] for step in steps) == sorted(_EDITS)
    text = (EXAMPLES / "train_digits.py").read_text()
    for step in steps:
        for old, new in _EDITS[step["fix"]["code"]]:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
    (tmp_path / "followed.py").write_text(text)
    after = recorded(str(tmp_path / "followed.py"), tmp_path)
    calls = [m for m in after["misses"] if m["parent"] is None and m["cause"] != "eager-op"]
    assert len(calls) == steps[-1]["left"]["calls"] == 2
    # `train_digits_fixed.py` also jits what creates parameters and state.
    assert plan["floor"]["calls"] == 2


def misses_of(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [
        miss
        for miss in report["misses"]
        if miss["function"]["name"] == name and miss["parent"] is None
    ]


def test_each_compilation_of_the_training_step_is_explained(report: dict[str, Any]) -> None:
    misses = misses_of(report, "train_step")
    assert [miss["cause"] for miss in misses] == [
        "first-trace",
        "weak-type-changed",  # the step counter comes back as an array
        "shape-changed",  # the last batch of the first epoch
        "tree-structure-changed",  # another optimizer, at the second restart
        "shape-changed",
        "tree-structure-changed",  # and at the third
        "shape-changed",
    ]
    assert all(None not in miss["stages"].values() for miss in misses)
    paths = [
        {change["path"] for change in miss["changes"] if change["component"] != "program"}
        for miss in misses
    ]
    last_batch = {"batch['image']", "batch['label']"}
    assert paths[1] == {"step"}
    assert paths[2] == paths[4] == paths[6] == last_batch
    assert paths[3] == paths[5]
    assert any(path.startswith("state.tx") for path in paths[3])
    assert all(miss["call_site"]["function"] == "main" for miss in misses)


def test_a_lambda_in_the_evaluation_is_a_new_function_each_time(report: dict[str, Any]) -> None:
    first, *again = misses_of(report, "<lambda>")
    assert first["cause"] == "first-trace"
    assert [miss["cause"] for miss in again] == ["lambda-recreated"] * 8
    assert {miss["nearest"] for miss in again} <= {miss["id"] for miss in [first, *again]}
    assert {miss["avoidable"] for miss in again} == {"yes"}


def test_initialisation_is_many_eager_operations(report: dict[str, Any]) -> None:
    eager = [miss for miss in report["misses"] if miss["cause"] == "eager-op"]
    sites = Counter(miss["call_site"]["function"] for miss in eager)
    assert sites["Network.__call__"] >= 10
    assert sites["initial_params.<locals>.<lambda>"] >= 4
    assert all(miss["function"]["kind"] == "op" for miss in eager)


def test_nothing_is_left_unexplained(report: dict[str, Any]) -> None:
    by_cause = report["summary"]["by_cause"]
    assert set(by_cause) == {
        "first-trace",
        "weak-type-changed",
        "shape-changed",
        "tree-structure-changed",
        "lambda-recreated",
        "eager-op",
    }
    assert sum(row["misses"] for row in by_cause.values()) == len(report["misses"])
    assert [run["complete"] for run in report["runs"]] == [True]
    assert [run["losses"] for run in report["runs"]] == [{}]


def test_the_advice_leaves_first_traces_alone(fixed: dict[str, Any]) -> None:
    assert fixed["summary"]["avoidable"]["misses"] == 0
    calls = [miss for miss in fixed["misses"] if miss["parent"] is None]
    assert sorted((miss["function"]["name"], miss["cause"]) for miss in calls) == [
        ("evaluate", "first-trace"),
        ("initial_params", "first-trace"),
        ("new_state", "first-trace"),
        ("train_step", "first-trace"),
    ]
    # Inside these, Flax and optax trace their own small functions, Flax a new lambda for each
    # parameter. The user cannot change that, and nothing of it is compiled.
    nested = [miss for miss in fixed["misses"] if miss["parent"] is not None]
    assert not any(miss["function"]["file"].startswith(str(EXAMPLES)) for miss in nested)
    assert all(miss["stages"]["compile"] is None for miss in nested)
