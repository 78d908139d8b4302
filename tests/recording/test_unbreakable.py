"""What a machine, a user's object or a signal can do to a recording: never more than its loss."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrace.model import Recording, Stage
from retrace.store.reader import read

pytestmark = pytest.mark.drawn

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
START = """
import os, shutil, signal, sys
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np

@jax.jit
def step(x):
    return (x * 2).sum()

def misses(numbers):
    for number in numbers:
        print(number, step(np.ones((number, 2), np.float32)))

"""
LIMITED = """
import os, resource, sys
resource.setrlimit(int(sys.argv[1]), (int(sys.argv[2]),) * 2)
os.execv(sys.argv[3], sys.argv[3:])
"""


def run(
    program: str, tmp_path: Path, limit: tuple[int, int] | None = None, *options: str
) -> subprocess.CompletedProcess[str]:
    """Run a program under `retrace run`, and hold what it does to what it does without."""
    script = tmp_path / "program.py"
    script.write_text(START + textwrap.dedent(program))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment["RECORDED"] = str(tmp_path / "recorded")
    # Not by `preexec_fn`: it would fork this process, where JAX has threads.
    limited = [] if limit is None else [sys.executable, "-c", LIMITED, *map(str, limit)]
    retrace = ("-m", "retrace", "run", "--quiet", "--out", str(tmp_path / "recorded"))

    def started(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*limited, sys.executable, *arguments, str(script)],
            capture_output=True,
            text=True,
            timeout=300,
            env=environment,
            check=False,
        )

    plain, recorded = started(), started(*retrace, *options)
    assert (recorded.returncode, recorded.stdout) == (plain.returncode, plain.stdout)
    assert plain.stdout.endswith("done\n"), plain.stderr
    assert plain.stderr == ""
    assert "Traceback" not in recorded.stderr
    return recorded


def recorded_in(tmp_path: Path) -> Recording:
    return read([tmp_path / "recorded"])


def shapes(recording: Recording) -> list[int]:
    """The first axis of the argument of each miss."""
    return [
        int(miss.key.leaves[0].shape[0])
        for miss in recording.misses
        if miss.function.name == "step"
    ]


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    small_files = (resource.RLIMIT_FSIZE, 16_000)
    done = run("misses(range(2, 60)); print('done')", tmp_path, small_files)
    assert done.stderr.count("retrace: the recording ") == 1
    assert "File too large" in done.stderr
    recording = recorded_in(tmp_path)
    found = shapes(recording)
    assert found == list(range(2, 2 + len(found)))
    assert 5 < len(found) < 58


@pytest.mark.parametrize("action", ["signal.SIG_DFL", "lambda *_: print('told')"])
def test_a_limit_of_file_sizes_raises_no_signal(tmp_path: Path, action: str) -> None:
    """Python ignores it unless the program asks for it: then it ends the process."""
    small_files = (resource.RLIMIT_FSIZE, 16_000)
    done = run(
        f"import signal; signal.signal(signal.SIGXFSZ, {action})\n"
        "misses(range(2, 60)); print('done')",
        tmp_path,
        small_files,
    )
    assert done.stderr.count("retrace: the recording ") == 1
    assert shapes(recorded_in(tmp_path))


def test_static_data_is_not_asked_for_its_class(tmp_path: Path) -> None:
    """A lazy object computes its class, and JAX does not ask for it."""
    done = run(
        """
        class Lazy:
            @property
            def __class__(self):
                print("asked")
                raise SystemExit(7)

        class Held:
            def __init__(self, array, config):
                self.array, self.config = array, config

        jax.tree_util.register_pytree_node(
            Held, lambda one: ((one.array,), one.config), lambda config, held: Held(*held, config)
        )
        jax.jit(lambda one: Held(one.array * 2, one.config))(Held(np.ones(3), Lazy()))
        misses([2])
        print('done')
        """,
        tmp_path,
    )
    assert "retrace:" not in done.stderr
    assert shapes(recorded_in(tmp_path)) == [2]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    done = run(
        """
        misses([2])
        for path in Path(os.environ["RECORDED"]).glob("*.jsonl") if recorded else ():
            path.unlink()
            path.symlink_to("/dev/full")
        misses(range(3, 9))
        print('done')
        """.replace(" if recorded else ()", " if Path(os.environ['RECORDED']).exists() else ()"),
        tmp_path,
    )
    assert done.stderr.count("retrace: the recording ") == 1
    assert "retrace:" not in done.stderr.split("\n", 1)[1]


def test_a_directory_that_is_removed_while_recording(tmp_path: Path) -> None:
    done = run(
        """
        misses(range(2, 5))
        shutil.rmtree(os.environ["RECORDED"], ignore_errors=True)
        misses(range(5, 9))
        print('done')
        """,
        tmp_path,
    )
    assert done.stderr.count("retrace: the recording ") == 1
    assert str(tmp_path / "recorded") in done.stderr
    assert not (tmp_path / "recorded").exists()


def test_a_directory_that_is_removed_and_made_again_is_recorded_into(tmp_path: Path) -> None:
    done = run(
        """
        import time
        misses(range(2, 5))
        shutil.rmtree(os.environ["RECORDED"], ignore_errors=True)
        misses(range(5, 7))
        os.mkdir(os.environ["RECORDED"])
        time.sleep(1.2)
        misses(range(7, 9))
        print('done')
        """.replace("os.mkdir", "os.makedirs"),
        tmp_path,
    )
    assert done.stderr.count("retrace: the recording ") <= 1
    recording = recorded_in(tmp_path)
    assert shapes(recording)[-2:] == [7, 8]
    assert any(reason.startswith("not written") for reason in recording.runs[0].losses)


HELD_TO_PERMISSIONS = """
import ctypes, os, sys
if os.geteuid() == 0:
    # Root may write anywhere, but not without this capability (CAP_DAC_OVERRIDE).
    PR_CAPBSET_DROP, OVERRIDE = 24, 1
    if ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, OVERRIDE, 0, 0, 0):
        sys.exit(99)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def without_override(tmp_path: Path, *arguments: str, **options: str) -> tuple[str, str, int]:
    """What a process says for which a read-only folder is one; skips where root keeps its way."""
    done = subprocess.run(
        [sys.executable, "-c", HELD_TO_PERMISSIONS, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), **options},
        check=False,
    )
    if done.returncode == 99:
        pytest.skip("root that cannot be held to permissions")
    return done.stdout, done.stderr, done.returncode


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder with a program in it, and nothing may be added."""
    folder = tmp_path / "closed"
    (folder / "inner").mkdir(parents=True)
    (folder / "program.py").write_text("import jax; print(jax.jit(lambda x: x + 1)(1.0))")
    (folder / "inner").chmod(0o555)
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


@pytest.mark.parametrize("options", [(), ("--out", "inner"), ("--out", "new/deep")])
def test_a_read_only_folder_is_told_before_the_program_runs(
    options: tuple[str, ...], closed: Path
) -> None:
    out, err, code = without_override(
        closed, "-m", "retrace", "run", *options, "program.py", PYTHONDONTWRITEBYTECODE="1"
    )
    assert (out, code) == ("", 2)
    place = options[-1] if options else ".retrace"
    assert err.startswith("retrace: cannot write") and f" {place} (permission denied)" in err
    assert err.count("\n") == 1 and "--out DIR" in err


@pytest.mark.parametrize(("jit", "options"), [("jax", {"RETRACE": "1"}), ("retrace", {})])
def test_in_a_read_only_folder_a_program_goes_on_unrecorded(
    jit: str, options: dict[str, str], closed: Path
) -> None:
    program = f"import retrace, jax; print({jit}.jit(lambda x: x + 1)(1.0))"
    out, err, code = without_override(closed, "-c", program, **options)
    assert (out, code) == ("2.0\n", 0)
    assert err.count("retrace:") == 1 and "permission denied" in err
    assert "Traceback" not in err


def test_a_folder_that_becomes_read_only_while_recording(closed: Path) -> None:
    closed.chmod(0o755)
    program = """
    import time, warnings
    warnings.simplefilter("ignore")
    misses([1, 2])
    os.chmod("out", 0o555)
    misses([3, 4])
    if os.fork() == 0:
        # XLA's threads are not here: to compile or to exit would wait for them, plain or not.
        jax.eval_shape(step, np.ones((5, 2), np.float32))
        time.sleep(0.5)
        os._exit(0)
    os.wait()
    print("done")
    """
    (closed / "program.py").write_text(START + textwrap.dedent(program))
    out, err, code = without_override(
        closed, "-m", "retrace", "run", "--quiet", "--out", "out", "program.py"
    )
    assert code == 0 and out.endswith("done\n"), err
    # The file that is open is written on; the child cannot make its own.
    recording = read([closed / "out"])
    assert shapes(recording) == [1, 2, 3, 4] and recording.runs[0].losses == {}
    assert err.count("retrace: the recording ") == 1
    assert "Permission denied" in err and "Traceback" not in err
    (closed / "out").chmod(0o755)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no folder that refuses root")
def test_a_folder_that_cannot_be_written_is_told_before_the_program_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "retrace", "run", "--out", "/proc/self/recorded", __file__],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("retrace: ") and " /proc/self/recorded (" in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_descriptors_are_left(tmp_path: Path) -> None:
    few = (resource.RLIMIT_NOFILE, 60)
    done = run(
        """
        misses([2])
        held = []
        try:
            while True:
                held.append(open(os.devnull))
        except OSError:
            pass
        misses(range(3, 6))
        del held
        misses(range(6, 9))
        print('done')
        """,
        tmp_path,
        few,
    )
    assert done.stderr.count("retrace:") <= 1
    recording = recorded_in(tmp_path)
    assert {2, 6, 7, 8} <= set(shapes(recording))
    assert len(shapes(recording)) == 7 or recording.runs[0].losses


def test_programs_that_cannot_be_written_are_a_loss(tmp_path: Path) -> None:
    done = run(
        """
        for path in Path(os.environ["RECORDED"]).glob("*.jsonl"):
            path.with_suffix(".programs").mkdir()
        misses(range(2, 5))
        print('done')
        """,
        tmp_path,
    )
    assert done.stderr == ""
    recording = recorded_in(tmp_path)
    assert shapes(recording) == [2, 3, 4]
    assert recording.runs[0].losses == {"programs not written: Is a directory": 1}


def test_a_property_that_looks_at_its_caller_and_raises(tmp_path: Path) -> None:
    run(
        """
        class Odd:
            def told(self):
                caller = sys._getframe(1)
                raise RuntimeError(caller)
            dtype = shape = property(told)

        odd = Odd()
        def make(held):
            return lambda x: x + (held is odd)
        print(jax.jit(make(odd))(1.0))
        print('done')
        """,
        tmp_path,
    )
    assert all(run.losses == {} for run in recorded_in(tmp_path).runs)


OBJECTS = """
import functools, time
calls = {"repr": 0, "eq": 0, "hash": 0}

@functools.partial(jax.jit, static_argnums=1)
def scaled(x, strange):
    return x * strange.number

def work(repr_, hash_, eq):
    class Strange:
        def __init__(self, number):
            self.number = number
        def __repr__(self):
            calls["repr"] += 1
            return repr_(self)
        def __hash__(self):
            calls["hash"] += 1
            return hash_(self)
        def __eq__(self, other):
            calls["eq"] += 1
            return eq(self, other)
        __str__ = __format__ = __repr__

    for number in NUMBERS:
        try:
            print(scaled(np.ones(3, np.float32), Strange(number)))
        except Exception as error:
            print(type(error).__name__)
        print(jax.jit(lambda x, s=Strange(number): x * s.number)(np.float32(1)))

    class Bare:
        __slots__ = ()  # nothing is known of it but its type
        __repr__ = __str__ = __format__ = Strange.__repr__

    print(jax.jit(lambda x, s=Bare(): x)(np.float32(1)))

def fails(*_):
    raise ValueError("SECRET")

def same(self, other):
    return type(other) is type(self) and other.number == self.number

def late(self, other):
    time.sleep(0.02)
    return same(self, other)

def traces(self, other):
    step(np.ones((self.number, 3)))
    return same(self, other)

def number(self):
    return hash(self.number)

for case in CASES:
    work(*case)
print('done')
"""
CASES = """(
    (fails, number, same),
    (lambda self: "x" * (1 << 20), number, same),
    (repr, number, same),
    (lambda self: time.sleep(60), lambda self: 7, same),
    (str, fails, same),
    (str, hash, same),
    (str, lambda self: 7, fails),
    (str, lambda self: 7, lambda self, other: self == other),
    (str, lambda self: 7, late),
    (str, lambda self: 7, lambda self, other: np.ones(3) == 1),
    (str, lambda self: int(step(np.ones((self.number, 1)))), same),
    (str, lambda self: 7, traces),
)"""


def test_objects_that_do_anything(tmp_path: Path) -> None:
    told = "print('repr', calls['repr'])"
    program = OBJECTS.replace("CASES", CASES).replace("NUMBERS", "(1, 2, 3, 2)") + told
    done = run(program + "\nprint('done')", tmp_path)
    # No `__repr__` is called, whatever it does; and the program's own failures are its own.
    assert done.stderr == ""
    assert "repr 0" in done.stdout
    recording = recorded_in(tmp_path)
    assert recording.runs[0].losses == {}
    assert recording.runs[0].complete
    assert sum(miss.function.name == "<lambda>" for miss in recording.misses) == 12 * 5


ASKED = """
asked = {}

def same_and_told(self, other):
    by = os.path.basename(sys._getframe(2).f_code.co_filename)
    asked[by] = asked.get(by, 0) + 1
    return self.number == other.number
"""


def test_an_equality_is_asked_once_for_each_object_under_the_same_hash(tmp_path: Path) -> None:
    program = OBJECTS.replace("CASES", "[(str, lambda self: 7, same_and_told)]")
    script = tmp_path / "program.py"
    told = "print(asked.get('tokens.py', 0), len(asked))\n"
    script.write_text(START + ASKED + program.replace("NUMBERS", "range(12)") + told)
    asked: list[list[str]] = []
    for arguments in ((), ("-m", "retrace", "run", "-q", "--out", str(tmp_path / "recorded"))):
        done = subprocess.run(
            [sys.executable, *arguments, str(script)],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
        )
        asked.append(done.stdout.split()[-2:])
    (plain, others), (recorded, with_ours) = asked
    # JAX's own caches ask as well, more or less often from run to run.
    assert (plain, recorded) == ("0", str(sum(range(12))))
    assert int(with_ours) == int(others) + 1


def test_signals_that_come_at_any_moment_and_miss_themselves(tmp_path: Path) -> None:
    done = run(
        """
        seen = []

        def handler(*_):
            if len(seen) < 300:
                seen.append(None)
                if len(seen) % 10 == 0:
                    jax.eval_shape(lambda x: x + 1, np.ones(len(seen), np.float32))

        misses([1])
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        misses(range(2, 30))
        signal.setitimer(signal.ITIMER_REAL, 0)
        print('done')
        """,
        tmp_path,
    )
    assert done.stderr == ""
    recording = recorded_in(tmp_path)
    assert recording.runs[0].losses == {}
    assert shapes(recording) == list(range(1, 30))
    steps = [miss for miss in recording.misses if miss.function.name == "step"]
    assert all(set(miss.stages) == set(Stage) for miss in steps), "all that was known of each"
    assert len(recording.misses) > 29


# A thousand: python tests/recording/programs/killed.py DIR 1000
def test_whatever_was_recorded_when_the_process_was_killed_is_read(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "killed.py"), str(tmp_path), "10"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == 10
    assert sum(one["done"] for one in told) > 20
    lags = [lag(Path(one["in"]), one["done"]) for one in told]
    # Lines go to a thread of our own; where it runs late, the last few are still with it.
    assert sum(lags) < sum(one["done"] for one in told) / 2


def lag(directory: Path, done: int) -> int:
    """Hold a killed process's recording to what it did; how many misses are not in it."""
    if not list(directory.glob("*.jsonl")):
        assert done == 0
        return 0
    recording = read([directory])
    (process,) = recording.runs
    assert process.losses == {}
    assert not process.complete
    # All from the first one on, each whole.
    assert shapes(recording) == list(range(1, len(recording.misses) + 1))
    shutil.rmtree(directory)
    return max(0, done - len(recording.misses))


def test_a_failure_at_the_end_of_a_thread_of_ours_is_told(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
import jax
from retrace.capture.background import Background

def fails(self):
    Background._empty = before
    raise LookupError("a bug")

before, Background._empty = Background._empty, fails
for size in (2, 3):
    jax.jit(lambda x: x + 1)(jax.numpy.ones(size)).block_until_ready()
print("done")
"""
    )
    command = [sys.executable, "-m", "retrace", "run", "-q", "--out", "recorded", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "a bug" in done.stderr and done.stderr.count("retrace: ") == 1
    assert len(read([tmp_path / "recorded"]).misses) >= 2
