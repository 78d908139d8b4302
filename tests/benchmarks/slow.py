"""What `retrace run --slow` adds to a long trace and a long compilation."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter, process_time, thread_time

import jax
import jax.numpy as jnp

from retrace.capture.sampling import Sampler
from retrace.capture.session import session
from tests.benchmarks.commands import environment
from tests.benchmarks.inside import measured
from tests.benchmarks.measure import Ratio, compare, processor_seconds
from tests.benchmarks.recording import recorded

_BOUND = 1.03
_TURN = 25

_TRACE = """
import jax, jax.numpy as jnp
def step(x):
    for i in range({rounds}):
        x = jnp.sin(x) * 2.0 + i
    return x.sum()
jitted = jax.jit(jax.grad(step))
jitted.trace(jnp.ones(3))
"""

_COMPILE = """
import jax, jax.numpy as jnp
def step(x):
    for i in range({rounds}):
        x = jnp.sort(jnp.sin(x) * i + jnp.cumsum(x)) + jnp.fft.irfft(jnp.fft.rfft(x))
    return x.sum()
jax.jit(step)(jnp.ones(64)).block_until_ready()
"""


def rows(quick: bool) -> Iterator[Callable[[], Ratio | None]]:
    """The rows, each measured when called."""
    pairs = 2 if quick else 7
    yield lambda: _measured(
        "a trace that takes many seconds", _TRACE, 3_000 if quick else 12_000, pairs
    )
    yield lambda: _measured(
        "a compilation that takes many seconds", _COMPILE, 60 if quick else 250, pairs
    )
    yield lambda: _inside("a compilation that takes a few seconds", 100)
    yield lambda: _small(10 if quick else 20)
    if not quick:
        yield lambda: _measured("a compilation that takes about a minute", _COMPILE, 900, 3)
        yield lambda: _inside("a compilation that takes about a minute", 1_250, _BOUND)


def _inside(name: str, rounds: int, bound: float | None = None) -> Ratio:
    """Everything retrace itself does for a slow miss with `--slow`.

    Two runs of one compilation differ by more than the bound. This measures the processor time of
    the thread that misses, of the sampling thread and of the writing thread.
    """
    program = compile(_COMPILE.format(rounds=rounds), "train.py", "exec")
    name_of_look = "_look"
    look = vars(Sampler)[name_of_look]
    looked = 0.0

    def timed(self: Sampler, late: float) -> None:
        nonlocal looked
        began = thread_time()
        look(self, late)
        looked += thread_time() - began

    recorder = session().recorder
    recorder.observe_slow(5.0)
    setattr(Sampler, name_of_look, timed)
    try:
        with measured() as inside, recorded():
            began = perf_counter()
            exec(program, {})
            lasted = perf_counter() - began
            spent = inside.both() + looked
    finally:
        setattr(Sampler, name_of_look, look)
        recorder.slow = None
    share = 1 + spent / (lasted - inside.missing)
    label = f"{name}, processor time inside retrace with `--slow`"
    return Ratio(label, lasted, lasted * share, share, (share, share), bound)


def _small(turns: int) -> Ratio:
    """What `--slow` adds to the smallest miss, of which a program may have a thousand.

    Processor time inside retrace, of the thread that misses and of the one that writes, in turns
    of 25 misses with it and without, as a share of all processor time of a miss.
    """
    recorder = session().recorder
    value = jnp.ones(3)

    def miss(times: int) -> None:
        for _ in range(times):
            jax.jit(lambda x: x + 1)(value)

    miss(_TURN)
    recorder.observe_slow(5.0)
    clock = recorder.slow
    plain: list[float] = []
    shares: list[float] = []
    try:
        with measured() as inside, recorded():
            for _ in range(turns):
                spent: list[float] = []
                for recorder.slow in (None, clock):
                    before, began = inside.both(), process_time()
                    miss(_TURN)
                    whole = (process_time() - began) / _TURN
                    spent += [(inside.both() - before) / _TURN, whole]
                without, whole, within, _ = spent
                plain.append(whole)
                shares.append(1 + (within - without) / whole)
    finally:
        recorder.slow = None
    typical, share = statistics.median(plain), statistics.median(shares)
    quarter = statistics.quantiles(shares, n=4)
    label = "the smallest miss, processor time that `--slow` adds inside retrace"
    return Ratio(label, typical, typical * share, share, (quarter[0], quarter[2]))


def _measured(name: str, program: str, rounds: int, pairs: int) -> Ratio:
    folder = Path(tempfile.mkdtemp(prefix="retrace-"))
    try:
        script = folder / "train.py"
        script.write_text(program.format(rounds=rounds), encoding="utf-8")
        run = ["-m", "retrace", "run", "-q", "--force", "--out", str(folder / "out")]
        plain = partial(processor_seconds, [*run, str(script)], environment())
        slow = partial(processor_seconds, [*run, "--slow", str(script)], environment())
        label = f"{name}, processor time of the whole process, without `--slow` and with it"
        return compare(label, plain, slow, pairs, _BOUND)
    finally:
        shutil.rmtree(folder)
