"""Functions that write state of others, each in a different way, once per trace."""

# Some of the functions called here have no types.
# pyright: basic, reportSelfClsParameterName=false

from __future__ import annotations

import contextlib
import dataclasses
import functools
import heapq
import itertools
import logging
import operator
import os
import random
import struct
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FUNCTIONS: list[Callable[[Any], Any]] = []


def writing(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    FUNCTIONS.append(function)
    return function


class Counter:
    """Counts its own calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return x


def checked(method: Any) -> Any:
    @functools.wraps(method)
    def check(*arguments: Any) -> Any:
        return method(*arguments)

    return check


class Checked:
    """The same, behind a check of its types."""

    def __init__(self) -> None:
        self.calls = 0

    @checked
    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return x


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int = 0

    def bump(self) -> None:
        object.__setattr__(self, "n", self.n + 1)


class Rows:
    def __init__(self) -> None:
        self.held: list[int] = []

    def update(self, row: int) -> None:
        self.held.append(row)


kept: dict[str, Any] = {"n": 0, "rows": [{"n": 0}], "heap": [], "log": []}
order = [1, 2, 3, 4, 5, 6, 7, 8]
buffer, packed = np.zeros(3), bytearray(8)
counter, frozen, rows, holder = Counter(), Frozen(), Rows(), types.SimpleNamespace(n=0)
behind = Checked()
number_of_traces = 0
folder = Path()


def state() -> str:
    files = [(p.name, p.is_dir() or p.read_bytes()) for p in sorted(folder.iterdir())]
    objects = (counter.calls, Made.number, stream.at, behind.calls, frozen, rows.held, holder)
    counts = number_of_traces, Registry.count, Counting.made, repr(numbers)
    return str((kept, order, buffer, packed, objects, counts, files))


class Entered:
    """Counts how often a `with` begins."""

    def __enter__(self) -> None:
        kept["log"].append("entered")

    def __exit__(self, *_: object) -> None: ...


class Registered:
    """Each object is in a list of its class."""

    objects = kept["rows"]

    def __init__(self) -> None:
        self.objects.append({"n": 1})
        self.own: list[int] = []
        self.own.append(1)


numbers = itertools.count()
draw, following = functools.partial(next, numbers), numbers.__next__


class Numbered:
    """Each object has the next number."""

    of = numbers

    def __init__(self) -> None:
        self.number = next(type(self).of)


class Drawing:
    def __call__(this, x: Any) -> Any:
        kept["n"] += next(this.numbers)
        return x

    numbers = numbers


drawing = Drawing()
append = kept["log"].append
append_one = functools.partial(append, 1)


class Made:
    """Counts its instances."""

    number = 0

    def __init__(self) -> None:
        Made.number += 1


@writing
def by_a_class_of_its_instances(x: Any) -> Any:
    Made()
    return x


@writing
def by_the_first_of_a_container(x: Any) -> Any:
    next(iter(kept["rows"]))["n"] += 1
    return x


class Stream:
    """Hands out one row after the other."""

    __slots__ = ("at", "rows")

    def __init__(self) -> None:
        self.at = 0
        self.rows = self._count()

    def _count(self) -> Iterator[int]:
        while True:
            self.at += 1
            yield self.at


stream = Stream()


@writing
def by_the_next_of_a_slot(x: Any) -> Any:
    return x * next(stream.rows)


@writing
def by_entering(x: Any) -> Any:
    with Entered():
        return x * 2


@writing
def by_an_object_that_is_created(x: Any) -> Any:
    Registered()
    return x


@writing
def by_a_method_under_its_own_name(x: Any) -> Any:
    append(x.shape)
    return x


@writing
def by_a_partial_of_a_method(x: Any) -> Any:
    append_one()
    return x


@writing
def by_numpy(x: Any) -> Any:
    np.add(buffer, 1, out=buffer)
    return x


@writing
def by_a_view(x: Any) -> Any:
    view = buffer[:1]
    view += 1
    return x


@writing
def by_packing(x: Any) -> Any:
    struct.pack_into("d", packed, 0, 3.0)
    return x


@writing
def by_a_memoryview(x: Any) -> Any:
    memoryview(packed)[0] = 4
    return x


@writing
def by_attributes_as_a_dict(x: Any) -> Any:
    holder.__dict__.update(n=7)
    return x


def counts(into: dict[str, int]) -> None:
    into["n"] += 1


@writing
def by_globals(x: Any) -> Any:
    globals()["number_of_traces"] += 1
    return x


@writing
def by_vars(x: Any) -> Any:
    vars(holder)["n"] += 1
    return x


@writing
def by_elements(x: Any) -> Any:
    for row in kept["rows"]:
        row["n"] += 1
    return x


@writing
def by_items(x: Any) -> Any:
    for name, value in kept.items():
        if name == "log":
            value.append(x.shape)
    return x


@writing
def by_a_helper(x: Any) -> Any:
    counts(kept)
    return x


@writing
def by_a_keyword(x: Any) -> Any:
    counts(into=kept)
    return x


@writing
def by_a_call_of_an_object(x: Any) -> Any:
    return counter(x)


@writing
def behind_a_check(x: Any) -> Any:
    return behind(x)


@writing
def past_a_frozen_class(x: Any) -> Any:
    frozen.bump()
    return x


@writing
def by_a_method_named_update(x: Any) -> Any:
    rows.update(x.shape[0])
    return x


@writing
def by_an_operator(x: Any) -> Any:
    operator.setitem(kept, "n", kept["n"] + 1)
    return x


@writing
def by_a_heap(x: Any) -> Any:
    heapq.heappush(kept["heap"], x.shape[0])
    return x


@writing
def by_a_class(x: Any) -> Any:
    list.append(kept["log"], x.shape)
    return x


class Registry:
    count = 0

    @classmethod
    def register(cls) -> None:
        cls.count += 1

    @staticmethod
    def bump() -> None:
        Registry.count += 100


registry = Registry()


@writing
def by_a_class_method(x: Any) -> Any:
    Registry.register()
    return x


@writing
def by_a_class_method_of_an_object(x: Any) -> Any:
    registry.register()
    return x


@writing
def by_a_static_method(x: Any) -> Any:
    Registry.bump()
    return x


@writing
def by_shuffling(x: Any) -> Any:
    random.shuffle(order)
    return x


@writing
def in_place(x: Any) -> Any:
    log = kept["log"]
    log += [x.shape]
    return x


@writing
def into_a_buffer(x: Any) -> Any:
    np.add.at(buffer, 0, 1)
    return x


@writing
def into_a_file(x: Any) -> Any:
    with open(folder / "file", "a", encoding="utf-8") as opened:
        opened.write("traced")
    return x


@writing
def into_a_path(x: Any) -> Any:
    (folder / "path").write_text(str(random.random()))
    return x


MODE = "a"


@writing
def into_a_file_in_a_mode(x: Any) -> Any:
    with open(folder / "mode", MODE) as file:
        file.write("+")
    return x


@writing
def into_the_settings_of_numpy(x: Any) -> Any:
    np.seterr(over="warn")
    return x


@writing
def into_the_settings_of_jax(x: Any) -> Any:
    jax.config.update("jax_log_compiles", False)
    return x


@writing
def by_asking(x: Any) -> Any:
    breakpoint()  # noqa: T100 - it is what is tested
    return x


@writing
def by_a_process(x: Any) -> Any:
    line = f"open({str(folder / 'process')!r}, 'a').write('+')"
    subprocess.run([sys.executable, "-S", "-c", line], check=True)
    return x


def noted() -> None:
    with (folder / "noted").open("a") as file:
        file.write("+")


@writing
def by_a_helper_that_reads_nothing_of_the_users(x: Any) -> Any:
    _note(str(folder / "helped"))
    return x


def _note(path: str) -> None:
    with open(path, "a") as file:
        file.write("+")


@writing
def by_a_helper_into_the_interpreter(x: Any) -> Any:
    _deepen()
    return x


def _deepen() -> None:
    sys.setrecursionlimit(sys.getrecursionlimit())


@writing
def by_a_library(x: Any) -> Any:
    np.ones(1).tofile(folder / "array")
    random.choice([noted])()
    return x


@writing
def past_what_catches_errors(x: Any) -> Any:
    with contextlib.suppress(Exception):
        random.choice([noted])()
    return x


@writing
def past_what_catches_everything(x: Any) -> Any:
    try:
        random.choice([noted])()
    except BaseException:  # noqa: BLE001 - a program that does this
        return -x
    return x


@writing
def below_the_files_of_python(x: Any) -> Any:
    os.close(random.choice([os.open])(folder / "low", os.O_CREAT | os.O_WRONLY))
    return x


@writing
def into_the_folder_of_the_process(x: Any) -> Any:
    random.choice([os.chdir])(os.getcwd())
    return x


@writing
def into_a_folder_for_a_while(x: Any) -> Any:
    random.choice([tempfile.mkdtemp])(dir=folder)
    return x


@writing
def into_the_level_of_a_logger(x: Any) -> Any:
    logging.getLogger("retrace.writing").setLevel(logging.ERROR)
    return x


@writing
def by_a_partial_of_next(x: Any) -> Any:
    return x * draw()


@writing
def by_a_kept_next(x: Any) -> Any:
    return x * following()


@writing
def by_the_next_of_a_class(x: Any) -> Any:
    return x * Numbered().number


@writing
def by_a_default_that_is_an_iterator(x: Any, of: Any = numbers) -> Any:
    return x * sum(itertools.islice(of, 1))


@writing
def by_an_object_named_otherwise(x: Any) -> Any:
    return drawing(x)


class Counting(type):
    """Counts the objects of its classes."""

    made = 0

    def __call__(cls, *given: Any) -> Any:
        Counting.made += 1
        return super().__call__(*given)


class Counted(metaclass=Counting): ...


@writing
def by_a_metaclass(x: Any) -> Any:
    Counted()
    return x


@writing
def by_a_text(x: Any) -> Any:
    exec("kept['n'] += 1")
    return x


@writing
def by_a_text_with_a_result(x: Any) -> Any:
    return x * (eval("order.append(9)") or 2)


@writing
def by_computing_at_its_trace(x: Any) -> Any:
    with jax.ensure_compile_time_eval():
        return x * jnp.arange(7).sum()


@writing
def by_computing_at_its_trace_in_a_library(x: Any) -> Any:
    with random.choice([jax.ensure_compile_time_eval])():
        return x * jnp.arange(8).sum()


@writing
def by_compiling(x: Any) -> Any:
    return x * random.choice([jax.jit])(lambda: 2.0).lower().compile()()


Make = Callable[[], tuple[Any, Callable[[], int]]]
"""Returns a function that writes where no bytecode of its own shows it, and a count."""
UNSEEN: list[Make] = []
RUN: list[Make] = []
"""Those where a function writes that ran when the program was traced, and computed some of it."""


def unseen(make: Callable[[], Any]) -> Callable[[], Any]:
    UNSEEN.append(make)
    return make


def run(make: Callable[[], Any]) -> Callable[[], Any]:
    RUN.append(make)
    return make


@unseen
def by_a_layer_in_a_list() -> Any:
    class Net:
        def __init__(self) -> None:
            self.layers = [Counter()]

        def __call__(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return x

    net = Net()
    return lambda x: net(x), lambda: net.layers[0].calls


@run
def by_a_decorator() -> Any:
    calls: dict[str, int] = {}

    def counted(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*given: Any) -> Any:
            calls[function.__name__] = calls.get(function.__name__, 0) + 1
            return function(*given)

        return wrapper

    helper = counted(lambda x: x * 3)
    return lambda x: helper(x), lambda: sum(calls.values())


@unseen
def by_a_hook() -> Any:
    hooked = {"n": 0}

    def hook(x: Any) -> None:
        hooked["n"] += 1

    hooks = [hook]

    def function(x: Any) -> Any:
        for each in hooks:
            each(x)
        return x

    return function, lambda: hooked["n"]


def nth(seen: list[int] = []) -> list[int]:  # noqa: B006
    seen.append(1)
    return seen


@unseen
def into_a_default() -> Any:
    seen = (nth.__defaults__ or ([],))[0]
    seen.clear()
    return lambda x: x * min(1, len(nth())), lambda: len(seen)


@run
def by_an_attribute_of_a_decorated_function() -> Any:
    def counted(function: Any) -> Any:
        def wrapper(*given: Any) -> Any:
            counting.calls += 1
            return function(*given)

        counting: Any = functools.wraps(function)(wrapper)
        counting.calls = 0
        return counting

    helper: Any = counted(lambda x: x * 3)
    return lambda x: helper(x), lambda: helper.calls


@run
def behind_a_partial() -> Any:
    seen: list[int] = []

    def scaled(k: float, x: Any) -> Any:
        seen.append(1)
        return x * k

    double = functools.partial(scaled, 2.0)
    return lambda x: double(x), lambda: len(seen)


@run
def in_a_method_that_is_jitted() -> Any:
    seen: list[int] = []

    class Model:
        def __init__(self) -> None:
            self.go = jax.jit(self.run)

        def run(self, x: Any) -> Any:
            seen.append(1)
            return x * 2

    model = Model()
    return lambda x: model.go(x) + 1, lambda: len(seen)


@unseen
def by_what_python_calls() -> Any:
    seen: list[int] = []

    class Scale:
        def __format__(self, spec: str) -> str:
            seen.append(1)
            return "2"

    scale = Scale()
    return lambda x: x * float(f"{scale}"), lambda: len(seen)


@unseen
def by_the_class_of_a_class() -> Any:
    class Rated(type):
        seen = 0

        def __getattr__(cls, name: str) -> float:
            Rated.seen += 1
            return 2.0

    class Model(metaclass=Rated): ...

    return lambda x: x * Model.rate, lambda: Rated.seen


@unseen
def by_a_kept_property_of_a_new_object() -> Any:
    seen: list[int] = []

    class Model:
        @functools.cached_property
        def rate(self) -> float:
            seen.append(1)
            return 2.0

    return lambda x: x * Model().rate, lambda: len(seen)


@unseen
def by_a_partial_method_of_a_new_object() -> Any:
    seen: list[int] = []

    def rated(_: object, rate: float) -> float:
        seen.append(1)
        return rate

    class Model:
        rate = functools.partialmethod(rated, 2.0)

    return lambda x: x * Model().rate(), lambda: len(seen)


@unseen
def in_bytes() -> Any:
    seen = bytearray(1)

    class Counted:
        def __getattr__(self, name: str) -> float:
            seen[0] += 1
            return 2.0

    counted = Counted()
    return lambda x: x * counted.rate, lambda: seen[0]


@unseen
def by_a_method_that_is_mapped() -> Any:
    seen: list[int] = []
    append = seen.append
    return lambda x: x * len([*map(append, (1,))]), lambda: len(seen)


@run
def by_a_method_of_an_argument() -> Any:
    seen: list[int] = []

    @jax.tree_util.register_pytree_node_class
    class Model:
        def __call__(self, x: Any) -> Any:
            seen.append(1)
            return x * generator.random()

        def tree_flatten(self) -> Any:
            return (), None

        @classmethod
        def tree_unflatten(cls, *_: Any) -> Any:
            return cls()

    generator = np.random.default_rng(0)
    model = Model()
    inner = jax.jit(lambda model, x: model(x))
    return lambda x: inner(model, x), lambda: len(seen)
