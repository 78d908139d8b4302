"""A program full of secrets is recorded with `--redact`; whoever gets that looks for them."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from retrace.command.report import FORMATS
from retrace.store.reader import read
from tests.hostile import commands

pytestmark = pytest.mark.drawn

ROOT = Path(__file__).parents[2]
RUN = (sys.executable, "-m", "retrace", "run")
PROGRAM = Path(__file__).parent / "programs" / "confidential.py"
OUTSIDE = """
import functools, jax

@functools.partial(jax.jit, static_argnums=1)
def compute(x, key):
    jax.debug.callback(lambda x: None, x)
    return x * 2  # SECRET-comment-outside
"""

TOLD = re.compile(
    # Texts and places, however they are written; then numbers, and what they are in float32.
    r"secret-folder|SECRET|(?<!secure_)credentials|48151623|42108090|MY_SECRET|in the text of|"
    # A time may end like one of them.
    r"(?<!\d)(?:4\.8151|4\.2108|0\.27182|0\.31415|2\.7182|3\.1415)",
    re.IGNORECASE,
)


SPENT = re.compile(
    r'"(?:at|ts|dur|startValue|endValue|time|seconds|trace|lower|compile|epoch_us)": [-\d.e]+'
)
"""Times, of thousands of which some begin like any number."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's folder with one recording of everything, and one that is redacted."""
    base = tmp_path_factory.mktemp("base")
    home, elsewhere = base / "project", base / "secret-folder"
    home.mkdir()
    elsewhere.mkdir()
    shutil.copy(PROGRAM, home / "program.py")
    (elsewhere / "outside.py").write_text(OUTSIDE)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{elsewhere}",
        "MY_SECRET": "SECRET-environment",
        "JAX_COMPILATION_CACHE_DIR": str(base / "SECRET-cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    for name, options in (("whole", []), ("redacted", ["--redact"])):
        shutil.rmtree(base / "SECRET-cache", ignore_errors=True)
        done = subprocess.run(
            [*RUN, *options, "--out", name, "program.py", "SECRET-argument", "--token=SECRET"],
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        if options:
            assert not TOLD.search(done.stderr), done.stderr
    return home


def files(directory: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(directory.iterdir()))


def unpacked(directory: Path) -> str:
    """The recording with its packed blocks unpacked: as it would be read."""
    recording = read([directory])
    return repr([recording.listings[id_] for id_ in recording.listings])


def test_secrets_are_in_a_whole_recording(home: Path) -> None:
    # Else the test below would look for what nobody records.
    found = set(TOLD.findall(files(home / "whole") + unpacked(home / "whole")))
    assert found >= {"SECRET", "secret-folder", "48151623", "42108090", "0.27182", "0.31415"}


def test_no_secret_is_in_a_redacted_recording(home: Path) -> None:
    for text in (files(home / "redacted"), unpacked(home / "redacted")):
        lines = [line for line in text.split("\n") if TOLD.search(line)]
        assert lines == []
        assert str(home.parent) not in text
        assert str(Path.home()) not in text


def test_the_host_is_left_out(home: Path) -> None:
    hosts = [{run.host for run in read([home / of]).runs} for of in ("whole", "redacted")]
    assert hosts == [{socket.gethostname()}, {"<redacted>"}]


def test_no_secret_is_in_any_output(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    (home / "pyproject.toml").write_text('[tool.retrace.budgets."*"]\ntraces = 1\n')
    told = commands.lines(
        Path("redacted"), Path("redacted"), Path("p.gz"), Path("pyproject.toml")
    )
    ids = [miss.id for miss in read([home / "redacted"]).misses]
    told += [
        ("show", id_, "redacted", "--program", "--format", how)
        for id_ in ids
        for how in ("text", "json")
    ]
    told += [("report", "--redact", "--keys", "--format", how, "whole") for how in FORMATS]
    for line in told:
        ended = commands.run(*line)
        assert ended.status in (0, 1), ended
        said = SPENT.sub("", ended.out + ended.err)
        found = [text for text in said.split("\n") if TOLD.search(text)]
        assert found == [], line
        assert str(home.parent) not in ended.out


def report(home: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[dict[str, Any]]:
    monkeypatch.chdir(home)
    return json.loads(commands.run("report", "--format", "json", *arguments).out)["misses"]


def concluded(miss: dict[str, Any]) -> object:
    """What is concluded of a miss, without the values."""
    changes = [(one["component"], one["path"], one["exact"]) for one in miss["changes"]]
    fix = miss["fix"] and miss["fix"]["code"]
    number = miss["nearest"] and miss["nearest"].rpartition("-")[2]
    program = miss["program"]["change"]
    who = miss["function"]["name"]
    lines = miss["function"]["line"], miss["call_site"] and miss["call_site"]["line"]
    return (
        who,
        lines,
        miss["cause"],
        changes,
        fix,
        number,
        miss["avoidable"],
        program,
        miss["pattern"],
    )


def test_the_explanations_are_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(map(concluded, report(home, monkeypatch, "whole")))
    assert len(whole) > 30
    assert list(map(concluded, report(home, monkeypatch, "redacted"))) == whole
    assert list(map(concluded, report(home, monkeypatch, "whole", "--redact"))) == whole


def hashes(text: str) -> set[str]:
    found = re.findall(r"(?<![0-9a-z.])[0-9a-f]{8,}(?![0-9a-z])", text)  # no digits of a float
    return {one for one in found if re.search("[a-f]", one)}


def test_no_hash_can_be_tried_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is hashed without a key, whoever knows the program could hash again with each
    # of a million PINs in it.
    plain = hashes(files(home / "whole") + unpacked(home / "whole"))
    hidden = hashes(files(home / "redacted") + unpacked(home / "redacted"))
    assert len(plain) > 50
    assert len(hidden) > 50
    assert not plain & hidden
    monkeypatch.chdir(home)
    command = ("report", "--redact", "--keys", "--format", "json", "whole")
    once, again = (hashes(commands.run(*command).out) for _ in range(2))
    assert len(once) > 50
    assert not once & again, "the key is no secret"


def test_equal_values_are_told_at_one_place_alone(home: Path) -> None:
    # What is known of one parameter must not tell what another one was given.
    tokens: dict[str, set[str]] = {}
    for miss in read([home / "redacted"]).misses:
        values = [*miss.key.static, *miss.function.closure, *miss.function.bound]
        for name, value in values:
            if value.type != "NoneType":
                tokens.setdefault(value.token or value.text, set()).add(
                    f"{miss.function.site} {name}"
                )
    assert len(tokens) > 10
    assert [places for places in tokens.values() if len(places) > 1] == []


def test_nan_and_none_are_told(home: Path) -> None:
    misses = read([home / "redacted"]).misses
    texts = {value.text for miss in misses for _, value in miss.key.static}
    assert {text for text in texts if not text.startswith("<redacted")} == {"None", "nan"}


def test_what_a_function_reads_is_told_without_the_keys(home: Path) -> None:
    whole, redacted = (
        {name for miss in read([home / of]).misses for name, _ in miss.function.reads}
        for of in ("whole", "redacted")
    )
    assert {"VAULT['SECRET-subscript'][3]", 'VAULT["SECRET-\']"]'} <= whole
    hidden = sorted(name for name in redacted if name.startswith("VAULT"))
    said = [re.sub("[0-9a-f]{8}", "#", name) for name in hidden]
    # A hash holds for one function alone, of which there is one at each line.
    assert sorted(said) == ["VAULT[<redacted #>]", "VAULT[<redacted #>][3]"]


STEP = """
import functools, os, sys, warnings
import jax, numpy as np, retrace
warnings.simplefilter("ignore")

def step(x, key):
    return x * 2  # SECRET-comment

def call(jit=jax.jit, size=2):
    jit(step, static_argnames="key")(np.ones(size, np.float32), key="SECRET-value")
"""
DOORS = {
    "install": "retrace.install('out')\ncall()",
    "retrace.jit": "call(retrace.jit)",
    "recording": "with retrace.recording('out'): call()",
    "fork": "retrace.install('out')\nif os.fork(): os.wait()\ncall()",  # before XLA has threads
    "pytest": "def test_it(): call()",
}


@pytest.mark.parametrize("door", DOORS)
def test_the_environment_is_heard_at_every_door(door: str, tmp_path: Path) -> None:
    (tmp_path / "test_program.py").write_text(f"{STEP}\n{DOORS[door]}\n")
    loaded = any(entry.name == "retrace" for entry in entry_points(group="pytest11"))
    ours = () if loaded else ("-p", "retrace.pytest_plugin")
    tests = ("-m", "pytest", *ours, "--retrace", "--retrace-dir=out")
    through = tests if door == "pytest" else ()
    found: list[str] = []
    for redact in ("0", "1"):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        done = subprocess.run(
            [sys.executable, *through, "test_program.py"],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "RETRACE_DIR": "out",
                "RETRACE_REDACT": redact,
            },
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        told = read([tmp_path / "out"])
        assert sum(miss.function.name == "step" for miss in told.misses) == len(told.runs)
        found.append(files(tmp_path / "out") + unpacked(tmp_path / "out"))
    assert len(told.runs) == (2 if door == "fork" else 1)
    # Each process draws a key of its own, a forked child too.
    keys = {
        value.text for miss in told.misses for name, value in miss.key.static if name == "key"
    }
    assert len(keys) == len(told.runs)
    assert "SECRET-value" in found[0] and "SECRET-comment" in found[0]
    assert "SECRET" not in found[1] and str(tmp_path) not in found[1]
