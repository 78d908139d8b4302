"""Reading the stack of a thread that runs on, with collections of garbage at every chance.

Up to Python 3.11 a collection could start while such a stack was read, and its callbacks let the
other thread leave a frame of it: the program crashed. So this runs in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.process import environment

PROGRAM = """
import gc, sys, threading, time, weakref
from types import CodeType
from retrace.capture.other_threads import local, stack

class Value:
    pass

def last(died, value):
    died.append(value)
    if sys.argv[1] == "local":
        time.sleep(0.0005)  # otherwise the other thread would never meet one twice

# Frames of many sizes: what is left of one is no frame for the next.
made = {}
for width in range(1, 24):
    names = " = ".join(f"a{i}" for i in range(width))  # all the same value
    calls = "return fs[n * 7 % 23](n - 1, died) if n else last(died, weakref.ref(a0))"
    made |= {"weakref": weakref, "Value": Value, "last": last}
    exec(f"def f{width}(n, died):\\n    {names} = Value()\\n    {calls}", made)
fs = made["fs"] = [made[f"f{width}"] for width in range(1, 24)]
program = threading.get_ident()
seen, off, late, found = 0, 0, 0, 0
sys.setswitchinterval(1e-5)

def samples():
    global seen, found
    me = threading.get_ident()
    gc.callbacks.append(lambda *_: time.sleep(0.0002) if threading.get_ident() == me else None)
    gc.set_threshold(1)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        functions = stack(program, 1000)
        names = [code.co_name for code, _, _ in functions]
        assert names[-1] == "<module>", names
        for depth, (code, line, instruction) in enumerate(functions):
            assert isinstance(code, CodeType), code
            assert line is None or line > 0
            if sys.argv[1] == "local":
                # Not bound to a name: it would live on.
                found += type(local(program, depth, code, "n")) is int
                assert local(program, depth, code, "no such") is None
            seen += 1
    assert stack(me + 1, 1000) == []

sampling = threading.Thread(target=samples)
sampling.start()
while sampling.is_alive():
    for depth in range(40):
        died = []
        fs[depth % 23](depth, died)
        late += died[0]() is not None
        off += not gc.isenabled()
print("seen", seen > 50 or seen, "found", found > 5, "off", off, "late", late)
"""


@pytest.mark.parametrize("what", ["frames", "local"])
def test_a_thread_runs_on_while_its_stack_is_read(what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = f"seen True found {what == 'local'} off 0 late 0\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


MOVES = """
import sys, threading, time
from retrace.capture.other_threads import local

def function(argument):
    only_here = argument
    return only_here

MODULE = compile("for i in range(30): pass", "module", "exec")
program = threading.get_ident()
met = elsewhere = 0
sys.setswitchinterval(1e-6)

def samples():
    global met
    end = time.monotonic() + 2
    while time.monotonic() < end:
        met += local(program, 0, function.__code__, "argument") is not None

sampling = threading.Thread(target=samples)
sampling.start()
while sampling.is_alive():
    for number in range(20):
        function(number)
        names = {}
        exec(MODULE, names)
        elsewhere += "only_here" in names
print("met", met > 50, "elsewhere", elsewhere)
"""


def test_a_function_that_a_thread_has_left_gets_nothing() -> None:
    # At the same depth, the local variables of a module are those that it keeps.
    done = subprocess.run(
        [sys.executable, "-c", MOVES],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "met True elsewhere 0\n", "")
