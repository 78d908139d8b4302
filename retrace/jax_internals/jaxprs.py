"""Jaxprs as plain data, independent of variable names.

    { lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b 2.0 in (c,) }

becomes the types of its inputs, the text of each equation with `$` for each variable,
the numbers of these variables, and the outputs:

    f32[3]
    sin $ -> f32[3]            0
    mul $ 2.0:f32[] -> f32[3]  1
    $2
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import math
from array import array
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, cast

import jax
import numpy as np

from retrace.jax_internals import hi_primitives, result_paths
from retrace.jax_internals.callbacks import CALLBACKS, printed
from retrace.jax_internals.custom_rules import Rules
from retrace.jax_internals.dims import symbolic, written
from retrace.jax_internals.equation_contexts import DRAWING, context_texts
from retrace.jax_internals.literals import (
    MAX_CONTENT,
    SCALARS,
    WRITERS,
    array_text,
    captured_by,
    is_on_host,
    narrowed,
    type_text,
)
from retrace.jax_internals.names_values import (
    ABSTRACT,
    CLOSED,
    JAXPR,
    LITERAL,
    WEAK_TYPE,
)
from retrace.jax_internals.row import resolve
from retrace.jax_internals.shardings import describe, dtype_name, mesh_text
from retrace.jax_internals.source_stacks import Frames, Stacks
from retrace.jax_internals.transcript import Known, TooLargeError, Transcript
from retrace.model import Listing, Program, Stack

_MAX_DEPTH = 20
_MAX_TYPES = 2048
_SHAPED: Any = resolve(WEAK_TYPE.where)
_types: dict[Any, str] = {}
"""The texts of avals in earlier programs: most programs have a few types."""


def transcribe(
    jaxpr: Any,
    is_library: Callable[[str], bool | None] | None = None,
    shown: Callable[[str], str] = str,
    plain: Callable[[Any], str | None] = lambda _: None,
    *,
    frames: Callable[[CodeType], Frames] = lambda _: {},
    stacks: dict[Any, tuple[str, Stack]] | None = None,
    known: Known | None = None,
    is_part: bool = False,
    with_rules: bool = True,
    with_callbacks: bool = False,
    with_names: bool = True,
    with_unused: bool = True,
    most: float = math.inf,
) -> Transcript:
    """Convert a jaxpr and its sub-jaxprs to plain data, in one walk.

    Args:
        jaxpr: open or closed.
        is_library: whether a file belongs to a library; None omits its frames.
            Without it, no source lines are recorded.
        shown: the display name of a file.
        plain: the content of a value held by a custom rule; None if unknown.
        frames: the known frames of a code object by instruction; others are added.
        stacks: the known tracebacks, with what `Stacks.of` tells of each; others are added.
        known: sub-jaxprs that earlier walks with the same arguments met; others are added.
        is_part: whether the whole is a sub-jaxpr too, of a program still being traced.
        with_rules: whether to include the content of custom rules.
        with_callbacks: whether to include that of host callbacks, of which a program keeps the
            first, as far as it is plain data.
        with_names: whether to include the names of functions called inside, and the digits of
            numbers that their dtypes do not hold.
        with_unused: whether to include captured arrays that nothing uses.
        most: the largest number of equations to convert, without those that are known.

    Raises:
        TooLargeError: there are more.
    """
    located = None
    if is_library is not None:
        located = Stacks(is_library, shown, frames, {} if stacks is None else stacks)
    parts = (with_rules, with_callbacks, with_names, with_unused)
    walk = _Walk(located, plain, known, is_part, *parts)
    walk.room = most
    top = walk.program(jaxpr)
    program = Program(top.hash, top.size, top.id, results=result_paths.digest(jaxpr))
    return Transcript(
        program,
        tuple(walk.listings.values()),
        tuple(walk.arrays),
        tuple(walk.held),
        tuple(walk.large),
        tuple(walk.host),
        tuple(walk.called),
        tuple(walk.unknown),
        tuple(walk.ruling),
    )


def is_jaxpr(value: Any) -> bool:
    """Whether a value is a jaxpr, open or closed."""
    return isinstance(getattr(value, "jaxpr", value), JAXPR.get())


class _Walk:
    """One walk over a program, which remembers what it has seen by `id`."""

    def __init__(
        self,
        stacks: Stacks | None,
        plain: Callable[[Any], str | None],
        known: Known | None,
        is_part: bool,
        with_rules: bool,
        with_callbacks: bool,
        with_names: bool,
        with_unused: bool,
    ) -> None:
        self.listings: dict[str, Listing] = {}
        self.arrays: list[Any] = []
        self.held, self.large, self.unknown = list[Any](), list[Any](), list[Any]()
        self.host: list[str] = []
        self.room = math.inf
        self.called, self.ruling = list[tuple[Any, Any]](), list[tuple[Any, Any]]()
        self._rules = Rules(plain, self.held.append, self.ruling.append)
        self._callbacks = Rules(plain, self.unknown.append, self.called.append, takes_all=True)
        self._in: Rules | None = None
        """What writes down the functions of the current equation; None if they are no part."""
        self._rule_names: tuple[str, ...] = ("custom_",) if with_rules else ()
        self._callback_names = CALLBACKS if with_callbacks else ()
        self._with_names, self._with_unused = with_names, with_unused
        self._stacks = stacks
        self._known, self._is_part = known, is_part
        # How much was met that is more than its text: in all, and in each sub-jaxpr.
        self._held_by_parts, self._held_in = 0, dict[int, int]()
        self._programs: dict[int, Listing] = {}
        self._alive: list[Any] = []
        """Objects that JAX may create on access, kept so that their `id` is not reused."""
        self._inner: dict[str, Listing] = {}
        """The sub-jaxprs of the current program, by hash."""
        self._size = 0

    def program(self, jaxpr: Any) -> Listing:
        listing = self._programs.get(id(jaxpr))
        if listing is None:
            is_part = self._is_part or bool(self._alive)
            self._alive.append(jaxpr)
            if self._known is not None and (known := self._known.get(jaxpr)) is not None:
                self.listings.update([(one.id, one) for one in known])
                listing = known[-1]
            else:
                outer, size, self._inner, self._size = self._inner, self._size, {}, 0
                within, before = self._in, self._held_by_parts
                listing = self._listing(jaxpr)
                self._inner, self._size, self._in = outer, size, within
                self.listings[listing.id] = listing
                self._held_in[id(jaxpr)] = self._held_by_parts - before
                if self._known is not None and is_part and before == self._held_by_parts:
                    self._known.put(jaxpr, self._with_parts(listing))
            self._programs[id(jaxpr)] = listing
        else:
            self._held_by_parts += self._held_in.get(id(jaxpr), 0)
        self._inner[listing.hash] = listing
        self._size += listing.size
        return listing

    def _with_parts(self, listing: Listing) -> tuple[Listing, ...]:
        """A program and its sub-jaxprs, innermost first."""
        found: dict[str, Listing] = {}
        for inner in (listing.inner or {}).values():
            found.update([(one.id, one) for one in self._with_parts(self.listings[inner])])
        return (*found.values(), listing)

    def _listing(self, jaxpr: Any) -> Listing:
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        self.room -= len(inner.eqns)
        if self.room < 0:
            raise TooLargeError
        numbers: dict[Any, int] = {}
        types, shaped = _types, _SHAPED
        captured, values = captured_by(jaxpr, unused=self._with_unused)
        variables = [*captured, *inner.invars]
        for variable in variables:
            numbers[variable] = len(numbers)
        made = len(variables)
        inputs = tuple([self._type(variable.aval) for variable in variables])
        constants = tuple([self._constant(value) for value in values])
        equations: list[str] = []
        wires: list[int] = []
        places: list[int] = []
        stacks: dict[Any, int] = {}
        literal = LITERAL.get()
        located = self._stacks
        context, around, drawn = None, "", ""
        for equation in inner.eqns:
            arguments: list[str] = []
            for variable in equation.invars:
                if type(variable) is literal:
                    arguments.append(self._literal(variable))
                else:
                    arguments.append("$")
                    wires.append(numbers[variable])
            results: list[str] = []
            for variable in equation.outvars:
                numbers[variable] = made
                made += 1
                aval = variable.aval
                results.append((type(aval) is shaped and types.get(aval)) or self._type(aval))
            name = equation.primitive.name
            if name.startswith(self._rule_names):
                self._in = self._rules
            elif name in self._callback_names:
                self._in = self._callbacks
            parameters = self._parameters(equation.params) if equation.params else ""
            self._in = None
            taken = " ".join(arguments)
            made_of = f"{name}\t{taken}\t{' '.join(results)}"
            if (own := getattr(equation, "ctx", None)) is not context:
                context = own  # since jax 0.8 one object for all that are the same
                around, drawn = context_texts(context)
            made_of += parameters + around
            equations.append(made_of + drawn if drawn and name.startswith(DRAWING) else made_of)
            if located is not None:
                places.append(stacks.setdefault(equation.source_info.traceback, len(stacks)))
        outputs = tuple(
            [
                self._literal(variable) if type(variable) is literal else f"${numbers[variable]}"
                for variable in inner.outvars
            ]
        )
        content = "\n".join((*inputs, "", *constants, "", *equations, "", *outputs))
        digest = hashlib.blake2b(content.encode(errors="surrogatepass"), digest_size=16)
        digest.update(array("q", wires).tobytes())
        hash_ = digest.hexdigest()
        known, distinct = dict[str, int](), list[Stack]()
        if located is not None:
            known, distinct, places = located.distinct(stacks, places)
        contained = {hash_: listing.id for hash_, listing in self._inner.items()}
        named = f"{hash_} {' '.join(known)} {array('l', places).tobytes().hex()} {contained}"
        return Listing(
            id=hashlib.blake2b(named.encode(errors="replace"), digest_size=12).hexdigest(),
            hash=hash_,
            size=len(equations) + self._size,
            inputs=inputs,
            constants=constants,
            equations=equations,
            wires=wires,
            places=places,
            stacks=tuple(distinct),
            outputs=outputs,
            inner=contained,
        )

    def _type(self, aval: Any) -> str:
        # Of JAX's own class: others may run the user's code to be hashed or compared.
        if type(aval) is not _SHAPED:
            return type_text(aval)
        text = _types.get(aval)
        if text is None:
            if len(_types) >= _MAX_TYPES:
                _types.clear()
            text = _types[aval] = type_text(aval)
        return text

    def _literal(self, literal: Any) -> str:
        value = literal.val if self._with_names else narrowed(literal.val, literal.aval)
        return f"{self._constant(value)}:{self._type(literal.aval)}"

    def _constant(self, value: Any) -> str:
        for base in SCALARS:
            if isinstance(value, base):  # includes JAX's subclasses, which have a dtype
                return base.__repr__(value)
        if is_on_host(value):
            held = np.asarray(value)
            self._held_by_parts += bool(held.shape)
            if held.shape and not self._with_names:  # XLA does not see where it lies
                self.arrays.append(held)
                return f"<array>{held.shape}"
            if held.nbytes > MAX_CONTENT:
                self.large.append(held)
            text = array_text(held)
            self.host += [text] if held.shape else []
            return text
        aval = getattr(value, "aval", None)
        if aval is None:
            return f"<{type(value).__name__}>"
        self._held_by_parts += 1
        self.arrays.append(value)
        return f"<array>{self._type(aval) if self._with_names else getattr(aval, 'shape', ())}"

    def _parameters(self, parameters: dict[str, Any]) -> str:
        found: list[str] = []
        if not self._with_names and any(isinstance(v, _JAXPRS) for v in parameters.values()):
            parameters = {name: value for name, value in parameters.items() if name != "name"}
        for name, value in parameters.items():
            writer = WRITERS.get(type(value))
            text = writer(value) if writer is not None else self._value(value, 0)
            found.append(f"\t{name}={text}")
        return "".join(found)

    def _value(self, value: Any, depth: int) -> str:
        kind = type(value)
        if (writer := WRITERS.get(kind)) is not None:
            return writer(value)
        if depth > _MAX_DEPTH:
            return f"<{kind.__name__}>"
        if kind is tuple or kind is list:
            return f"({self._join(value, depth)})"
        if isinstance(value, _JAXPRS):
            return f"@{self.program(value).hash}"
        if isinstance(value, tuple):
            return f"{kind.__name__}({self._join(cast(Iterable[Any], value), depth)})"
        if isinstance(value, dict):
            items = cast(dict[Any, Any], value).items()
            pairs = sorted(
                f"{self._value(k, depth + 1)}:{self._value(v, depth + 1)}" for k, v in items
            )
            return f"{{{','.join(pairs)}}}"
        if isinstance(value, set | frozenset):
            members = cast(Iterable[Any], value)
            return f"{{{','.join(sorted(self._value(item, depth + 1) for item in members))}}}"
        return self._object(value, kind, depth)

    def _object(self, value: Any, kind: type, depth: int) -> str:
        if isinstance(value, ABSTRACT.get() or ()):
            return self._type(value)
        if isinstance(value, np.dtype):
            return dtype_name(value)
        if isinstance(value, enum.Enum):
            return f"{kind.__name__}.{value.name}"
        if is_on_host(value) or isinstance(value, jax.Array):
            return self._constant(value)
        if isinstance(value, jax.sharding.Sharding):
            return describe(value)
        if isinstance(value, jax.sharding.Mesh | jax.sharding.AbstractMesh):
            return mesh_text(value)
        if isinstance(value, jax.sharding.PartitionSpec):
            return repr(value)
        if kind.__module__.startswith("jax") and dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            texts = [
                f"{name}={self._value(getattr(value, name, None), depth + 1)}" for name in names
            ]
            return f"{kind.__name__}({','.join(texts)})"
        if (held := hi_primitives.parameters(value, kind)) is not None:
            self._held_by_parts += 1
            return f"{kind.__name__}{self._value(held, depth + 1)}"
        if kind.__module__ == "jax._src.flattree":
            return repr(value)  # the arguments that a scan carries; since jax 0.12
        if symbolic(value) is not None:
            return written(value)
        if (within := self._in) is not None and within.takes(value, kind):
            self._held_by_parts += 1
            return within.text(value, self._constant)
        # User functions and objects: their content is not part of the program.
        name = getattr(value, "__name__", "") if isinstance(value, _NAMED) else ""
        name += printed(value) if isinstance(value, FunctionType) else ""
        return f"<{kind.__name__} {name}>"

    def _join(self, values: Iterable[Any], depth: int) -> str:
        writers = WRITERS
        return ",".join(
            [
                writer(value)
                if (writer := writers.get(type(value))) is not None
                else self._value(value, depth + 1)
                for value in values
            ]
        )


_JAXPRS: tuple[Any, ...] = tuple([kind for row in (JAXPR, CLOSED) if (kind := row.get())])
"""Open and closed jaxprs; since jax 0.12 they are one class."""
_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType)
