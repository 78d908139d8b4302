"""Reading the frames of a thread that runs on, with collections of garbage at every chance.

Up to Python 3.11 a collection could start while such a frame was read, and its callbacks let the
other thread leave that frame: the program crashed. So this runs in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.process import environment

PROGRAM = """
import gc, sys, threading, time
from types import CodeType
from retrace.capture.other_threads import back, innermost, local_of

# Frames of many sizes: what is left of one is no frame for the next.
made = {}
for width in range(1, 24):
    names = " = ".join(f"a{i}" for i in range(width))  # all the same list
    calls = "return fs[n * 7 % 23](n - 1) if n else 0"
    exec(f"def f{width}(n):\\n    {names} = [n]\\n    {calls}", made)
fs = made["fs"] = [made[f"f{width}"] for width in range(1, 24)]
program = threading.get_ident()
seen, off, kept = 0, 0, []

def samples():
    global seen, off
    me = threading.get_ident()
    gc.callbacks.append(lambda *_: time.sleep(0.0002) if threading.get_ident() == me else None)
    gc.set_threshold(1)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        frame = innermost()[program]
        while frame is not None:
            assert isinstance(frame.f_code, CodeType), frame.f_code
            if sys.argv[1] == "local":
                local = local_of(frame)
                kept.append(local)  # Python reuses dictionaries that are let go
                assert len({id(local[name]) for name in local if name[0] == "a"}) <= 1, local
            frame = back(frame)
            seen += 1

sampling = threading.Thread(target=samples)
sampling.start()
while sampling.is_alive():
    for depth in range(40):
        fs[depth % 23](depth)
        off += not gc.isenabled()
print("seen", seen > 50 or seen, "off", off)
"""


@pytest.mark.parametrize("what", ["frames", "local"])
def test_a_thread_runs_on_while_its_frames_are_read(what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "seen True off 0\n", "")
