"""A program that compiles in, what the on-disk cache did for each compilation out."""

from __future__ import annotations

import inspect
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import jax
import pytest

from retrace.jax_internals.disk_cache import Lookup

pytestmark = pytest.mark.drawn

_PROGRAM = """
import json, sys, warnings
import jax
import jax.numpy as jnp
from retrace.jax_internals.disk_cache import Lookup

options, body = json.loads(sys.argv[1]), sys.argv[2]
warnings.simplefilter("ignore")
for name, value in options.items():
    jax.config.update(name, value)
x = jnp.ones(3)
lookups = [Lookup()]
outcomes = []

def event(name, **_):
    lookups[-1].event(name, sys._getframe(1))

def duration(name, seconds, **_):
    if name.endswith("backend_compile_duration"):
        outcomes.append(lookups.pop().outcome(seconds))
        lookups.append(Lookup())

jax.monitoring.register_event_listener(event)
jax.monitoring.register_event_duration_secs_listener(duration)
exec(body)
print(json.dumps([[o.outcome, o.key, o.reason] for o in outcomes]))
"""

_ONE = "jax.jit(lambda x: jnp.sin(x) + 1)(x)"
_DIR = "jax_compilation_cache_dir"
_SECONDS = "jax_persistent_cache_min_compile_time_secs"
_BYTES = "jax_persistent_cache_min_entry_size_bytes"


def run(options: dict[str, Any], body: str = _ONE) -> list[list[str | None]]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("JAX_")
    }
    environment |= {
        "JAX_PLATFORMS": os.environ["JAX_PLATFORMS"],
        "PYTHONPATH": ":".join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps(options), body],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_off_without_a_directory() -> None:
    assert run({}) == [["off", None, None]]


def test_off_where_it_is_disabled(tmp_path: pathlib.Path) -> None:
    options = {_DIR: str(tmp_path), "jax_enable_compilation_cache": False}
    assert run(options) == [["off", None, None]]


def test_a_miss_is_a_hit_in_the_next_process(tmp_path: pathlib.Path) -> None:
    options = {_DIR: str(tmp_path), _SECONDS: 0, _BYTES: -1}
    [[first, key, reason]] = run(options)
    assert (first, reason) == ("miss", None)
    assert key is not None
    assert any(file.name.startswith(key) for file in tmp_path.iterdir())
    assert run(options) == [["hit", key, None]]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({_SECONDS: 100.0, _BYTES: -1}, "min-compile-time"),
        ({_SECONDS: 0, _BYTES: 10**9}, "min-entry-size"),
        ({_SECONDS: 100.0, _BYTES: 10**9}, "min-compile-time"),
        ({_SECONDS: 0, _BYTES: -1, "jax_compilation_cache_max_size": 10}, "other"),
    ],
    ids=["time", "size", "time before size", "larger than the cache"],
)
def test_not_stored(options: dict[str, Any], reason: str, tmp_path: pathlib.Path) -> None:
    if "jax_compilation_cache_max_size" in options:
        pytest.importorskip("filelock")
    [[outcome, key, found]] = run({_DIR: str(tmp_path), **options})
    assert (outcome, found) == ("not-stored", reason)
    assert key is not None


def test_a_directory_that_cannot_be_made(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    [[outcome, _, reason]] = run(
        {_DIR: str(tmp_path / "file" / "folder"), _SECONDS: 0, _BYTES: -1}
    )
    assert (outcome, reason) == ("not-stored", "write-failed")


def _skip_where_xla_writes_too() -> None:
    if jax.default_backend() != "cpu":
        pytest.skip("XLA keeps what it tuned in the same folder, and makes it anew or fails")


def test_a_file_that_cannot_be_written(tmp_path: pathlib.Path) -> None:
    _skip_where_xla_writes_too()
    folder = tmp_path / "cache"
    body = f"{_ONE}\nimport shutil; shutil.rmtree({str(folder)!r})\n{_ONE.replace('sin', 'cos')}"
    first, second = run({_DIR: str(folder), _SECONDS: 0, _BYTES: -1}, body)
    assert first[0] == "miss"
    assert (second[0], second[2]) == ("not-stored", "write-failed")


_LIMITED = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
"""


@pytest.mark.parametrize("most", [None, 10**7], ids=["unbounded", "bounded"])
def test_a_disk_that_is_full(most: int | None, tmp_path: pathlib.Path) -> None:
    _skip_where_xla_writes_too()
    options: dict[str, Any] = {_DIR: str(tmp_path), _SECONDS: 0, _BYTES: -1}
    if most is not None:
        pytest.importorskip("filelock")
        options["jax_compilation_cache_max_size"] = most
    # What had found room stays there: nothing, or a part.
    for size, body in ((0, _ONE), (100, _ONE.replace("sin", "cos"))):
        [[outcome, key, reason]] = run(options, _LIMITED.format(size=size) + body)
        assert (outcome, reason) == ("not-stored", "write-failed")
        left = [file for file in tmp_path.glob(f"{key}*") if not file.name.endswith("atime")]
        # A bounded cache may fail before it comes to that.
        assert [file.stat().st_size for file in left] in (
            [[size]] if most is None else [[size], []]
        )
    # JAX cannot read what was left there, and does not write over it.
    [[outcome, _, reason]] = run(options)
    assert (outcome, reason) == ("not-stored", "corrupt-entry")


def test_a_corrupt_entry(tmp_path: pathlib.Path) -> None:
    options: dict[str, Any] = {_DIR: str(tmp_path), _SECONDS: 0, _BYTES: -1}
    [[_, key, _]] = run(options)
    [file] = tmp_path.glob(f"{key}*-cache")
    whole = file.read_bytes()
    for content in (b"", b"garbage", whole[: len(whole) // 2], whole + whole):
        file.write_bytes(content)
        said = run(options)
        assert said in ([["not-stored", key, "corrupt-entry"]], [["hit", key, None]])
        assert (said[0][0] == "hit") is (content == whole + whole)
        # Nor is it stored anywhere else; how quickly it compiled is not why.
        assert file.read_bytes() == content
        if said[0][0] != "hit":
            assert run({**options, _SECONDS: 100.0}) == said
    file.unlink()
    assert run(options) == [["miss", key, None]]


def test_an_entry_that_another_process_wrote_first(tmp_path: pathlib.Path) -> None:
    options = {_DIR: str(tmp_path), _SECONDS: 0, _BYTES: -1}
    [[_, key, _]] = run(options)
    assert key is not None
    [file] = tmp_path.glob(f"{key}*-cache")
    whole = file.read_bytes()
    file.unlink()
    # Between the look-up and the write, and of another length.
    body = f"""
from jax._src import compilation_cache as cache
real = cache.put_executable_and_time
def put(*given):
    import pathlib
    pathlib.Path({str(file)!r}).write_bytes({whole[:-3]!r})
    real(*given)
cache.put_executable_and_time = put
{_ONE}
"""
    assert run(options, body) == [["miss", key, None]]


def test_a_host_callback(tmp_path: pathlib.Path) -> None:
    body = "jax.jit(lambda x: (jax.debug.print('{}', x), x * 3)[1])(x)"
    [[outcome, key, reason]] = run({_DIR: str(tmp_path), _SECONDS: 0, _BYTES: -1}, body)
    stored = any(file.name.startswith(str(key)) for file in tmp_path.iterdir())
    # jax 0.11 and later store them.
    assert (outcome, reason) == (("miss", None) if stored else ("not-stored", "host-callback"))


def test_events_of_no_interest_are_passed_over() -> None:
    lookup = Lookup()
    frame = inspect.currentframe()
    assert frame is not None
    lookup.event("/jax/compilation_cache/tasks_using_cache", frame)
    outcome = lookup.outcome(1.0)
    assert outcome is not None
    assert outcome.outcome == "off"


CACHED = """
import sys
import jax
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
step = jax.jit(lambda x: x * float(sys.argv[2]))
step.lower(jax.ShapeDtypeStruct((3,), "float32")).compile()
"""


def test_two_recordings_show_what_made_a_key_another_one(
    tmp_path: pathlib.Path,
) -> None:
    script = tmp_path / "program.py"
    script.write_text(CACHED)
    command = [sys.executable, "-m", "retrace"]
    environment = dict(os.environ)

    def record(name: str, number: str, **variables: str) -> pathlib.Path:
        out = tmp_path / name
        arguments = ["-q", "-o", str(out), str(script), str(tmp_path / "cache"), number]
        subprocess.run([*command, "run", *arguments], env=environment | variables, check=True)
        return out

    fields: list[set[str]] = []

    def told(later: pathlib.Path) -> list[tuple[str, ...]]:
        done = subprocess.run(
            [*command, "diff", str(first), str(later), "--format", "json"],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        found = json.loads(done.stdout)["disk_cache"]
        assert found["new"]["hits"] + found["new"]["misses"] == 1
        assert (found["new"]["seconds_saved"] is not None) == bool(found["new"]["hits"])
        fields.append({one["name"] for row in found["in_vain"] for one in row["compile_options"]})
        return [(row["why"], *row["ingredients"]) for row in found["in_vain"]]

    first = record("first", "2")
    assert told(record("again", "2")) == []
    # Each ingredient by its own hash: what stands behind the first that differs is told as well.
    flags = record("other", "3", XLA_FLAGS="--xla_cpu_enable_fast_math=true")
    [(why, *ingredients)] = told(flags)
    assert why == "another-key"
    assert {"computation", "XLA flags", "compile_options"} <= {*ingredients}
    assert fields.pop() == {"xla_cpu_enable_fast_math"}
    assert "jax_lib version" not in ingredients
    shutil.rmtree(tmp_path / "cache")
    gone = record("gone", "2")
    assert told(gone) == [("gone",)]
