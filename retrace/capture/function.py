"""Which user function is behind the object that was passed to JAX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from types import FrameType, FunctionType
from typing import Any

from retrace.capture.argument_packing import Packed
from retrace.capture.class_values import ClassValues
from retrace.capture.definition import Definitions
from retrace.capture.function_reads import Reads
from retrace.capture.held import all_cells, defaults
from retrace.capture.kept import Static
from retrace.capture.notebook_cells import is_cell, shown
from retrace.capture.objects import kind_of, own, package
from retrace.capture.of_jax import is_own
from retrace.capture.place import Owner, owner
from retrace.capture.site import Sites
from retrace.capture.snapshot import snapshot
from retrace.capture.tokens import Tokens
from retrace.capture.unwrapped import Unwrapped, is_internal, unwrap
from retrace.capture.weak import ByObject
from retrace.capture.wrappers import jax_name_of, unwrap_plain
from retrace.jax_internals.linear import Made, made
from retrace.model import Function, Kind, Receiver, Value

_LIBRARY, _JAX = Owner.LIBRARY, Owner.JAX
_SOURCE = re.compile(r"(.+) at (.+):(\d+)")
"""JAX's name for the source of a function: "step at train.py:41"."""


class Functions:
    """Describes the function objects of one recording."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._definitions = Definitions()
        self._reads = Reads(tokens.number)
        self._sites = Sites(tokens, self._definitions)
        self._plain: ByObject[Function] = ByObject()
        """Functions without state, by code object: a loop recreates its `lambda` each time."""
        self._kept: ByObject[Function] = ByObject()
        self._operations: ByObject[Function] = ByObject()
        """Functions of JAX."""

    def describe_bodies(self, bodies: Iterable[Any]) -> list[Function]:
        """Describe the functions given to one operation, which often hold the same objects."""
        snapshots: dict[int, Value] = {}
        return [self.describe(body, traced=True, snapshots=snapshots) for body in bodies]

    def describe(
        self,
        function: Any,
        jax_name: str | None = None,
        *,
        traced: bool = False,
        jitted: bool = False,
        snapshots: dict[int, Value] | None = None,
    ) -> Function:
        """Describe a function for the recording.

        Args:
            function: what `jax.jit` was given.
            jax_name: JAX's name for it, if known.
            traced: whether it is about to be traced, so that what it reads is recorded.
            jitted: whether somebody jitted it, which JAX does to its own functions as well.
            snapshots: those of objects that functions of the same miss hold, by `id`; others are
                added.
        """
        if jax_name is None and (known := self._operations.get(function)) is not None:
            return known
        number = self._tokens.number(function)
        if (known := self._plain_one(function)) is not None and jax_name is None:
            reads = self._reads.of(function) if traced else ()
            return known._replace(object=number or 0, reads=reads)
        if (linear := made(function)) is not None:
            return self._linear(linear, function, number or 0, jax_name)
        found = unwrap(function)
        base = found.base
        if base is None or (
            is_internal(function, found) and not (jitted and not is_own(function))
        ):
            operation = self._operation(function, found, number or 0, jax_name)
            if jax_name is None and type(function) is FunctionType:
                self._operations.put(function, operation)
            return operation
        definition = self._definitions.of(base.__code__)
        in_library = owner(definition.file) in (_LIBRARY, _JAX)
        name = base.__name__
        kind = found.kind or (Kind.LAMBDA if base.__code__.co_name == "<lambda>" else Kind.DEF)
        receiver = None
        site = definition.site
        if found.has_receiver:
            receiver = self._receiver(found.receiver, kind)
            site = f"{site} of {receiver.type}"
            if "callable" in found.wrappers:
                name = str(own(type(found.receiver), "__name__"))
                if package(kind_of(found.receiver)) == "jax":  # a `jnp.ufunc`
                    name = str(getattr(found.receiver, "__name__", name))
                    site = f"{site} {name}"
        around = self._sites.around(base)
        if "callable" in found.wrappers and not around.site:
            around = self._sites.within(found.receiver)
        if around.site:
            site = f"{site} around {around.site}"
        if found.maker is not None:
            # One library function may wrap the user's around another of its own: `hmc`, `nuts`.
            inside = self._sites.around(found.maker).site
            maker = self._definitions.of(found.maker.__code__).site
            site = f"{site} in {maker}{f' around {inside}' if inside else ''}"
        if in_library and base.__closure__:
            site = f"{site} at {self._sites.called_at(number or 0)}"
        described = Function(
            name=name,
            jax_name=jax_name or jax_name_of(function),
            qualname=base.__qualname__,
            kind=kind,
            file=definition.file,
            line=definition.line,
            site=site,
            object=number or 0,
            code=definition.code,
            closure=tuple(
                [
                    (name, self._once(value, snapshots))
                    for name, value in all_cells(
                        base, found.layers, found.maker, found.transforms
                    ).items()
                ]
            )
            if base.__closure__ or found.layers or found.maker or found.transforms
            else (),
            defaults=tuple([(name, self.value(value)) for name, value in defaults(base)]),
            bound=tuple([(name, self.value(value)) for name, value in found.bound]),
            wrappers=tuple(found.wrappers),
            receiver=receiver,
            source=definition.source,
            in_library=in_library,
            reads=self._reads.of(base, *found.receivers) if traced else (),
            base=0 if base is function else self._tokens.number(base) or 0,
            decorators=tuple(found.decorators),
            around=around.names,
        )
        if jax_name is None and _is_plain(function) and owner(definition.file) is not _JAX:
            self._plain.put(function.__code__, described._replace(reads=()))
        return described

    def describe_now(
        self, function: Any, static: Sequence[Static]
    ) -> tuple[Function, ClassValues]:
        """Describe a function as if it were traced now, with all that it reads."""
        described = self.describe(function, jitted=True)
        base = (found := unwrap(function)).base
        if base is None or described.kind is Kind.OP:
            return described, {}
        receivers = found.receivers or _static_self(base, static)
        reads, class_values = self._reads.every(base, *receivers)
        return described._replace(reads=reads), class_values

    def packed(self, call: Packed, *, traced: bool) -> Function:
        """Describe the function of a call whose arguments a wrapper packed.

        If something that the user keeps creates it again at each call, it is one function as long
        as that is one object, and so is what it holds.
        """
        new = self.describe(call.function, traced=traced, jitted=True)
        if call.binds_first and new.receiver is not None:
            # What it is bound to is compared, and read, as an argument.
            method = unwrap(call.function).base
            return new._replace(
                object=new.base,
                receiver=Receiver(new.receiver.type, None, None),
                reads=self._reads.of(method) if traced and method is not None else (),
            )
        if call.kept is None:
            return new
        known = self._kept.of(call.kept, lambda: new._replace(reads=()))
        return new._replace(
            object=known.object,
            bound=tuple(map(_unless_other, known.bound, new.bound)),
            receiver=known.receiver,
        )

    def _plain_one(self, function: Any) -> Function | None:
        """The description of a function with the same code, which differs only in its number."""
        if not _is_plain(function):
            return None
        known = self._plain.get(function.__code__)
        alike = known is not None and (known.name, known.qualname) == (
            function.__name__,
            function.__qualname__,
        )
        return known if alike else None

    def value(self, value: Any) -> Value:
        """A snapshot of a value that a function holds."""
        return snapshot(value, self._tokens.held)

    def _once(self, value: Any, snapshots: dict[int, Value] | None) -> Value:
        """The same, taken from `snapshots` if it is there, else added to it."""
        if snapshots is None:
            return self.value(value)
        if (known := snapshots.get(id(value))) is None:
            known = snapshots[id(value)] = self.value(value)
        return known

    def running(self, function: Any, static: Sequence[Static] = ()) -> list[tuple[Any, Any]]:
        """The user functions that run when it does, each with the object it is bound to.

        Args:
            function: what `jax.jit` was given.
            static: the static arguments of the call.
        """
        found = unwrap(function)
        if found.base is None:
            return []
        # Wrappers that decorators returned run too.
        own = [(layer, None) for layer in found.layers if layer is not found.base]
        receivers = found.receivers or _static_self(found.base, static)
        return [*self._reads.functions(found.base, *receivers), *own]

    def of_method(self, described: Function, function: Any, static: Sequence[Static]) -> Function:
        """The same function, with what it reads of the object that is its static `self`."""
        base = unwrap(function).base
        if base is None or not (receivers := _static_self(base, static)):
            return described
        return described._replace(reads=self._reads.of(base, *receivers))

    def jitted(self, function: Any, frame: FrameType) -> None:
        """Note where `jit` was called."""
        if _is_plain(function):
            return  # nothing tells two of them apart
        self._sites.jitted(function, unwrap_plain(function), frame)

    def from_source(self, source: str | None, name: str) -> Function:
        """A function whose object JAX does not show: only its name, and at best its place."""
        match = _SOURCE.fullmatch(source or "")
        file, line = (match[2], int(match[3])) if match else (None, None)
        operation = file is None or owner(file) is _JAX
        where = "<cell>" if file is not None and is_cell(file) else f"{file}:{line}"
        return Function(
            name=match[1] if match else name,
            jax_name=name,
            qualname=match[1] if match else name,
            kind=Kind.OP if operation else Kind.DEF,
            file=None if operation or file is None else shown(file),
            line=None if operation else line,
            site=f"op:{name}" if operation else f"{where} {name}",
            object=0,
        )

    def _operation(
        self, function: Any, found: Unwrapped, number: int, jax_name: str | None
    ) -> Function:
        name = jax_name or jax_name_of(function)
        return Function(
            name=name,
            jax_name=name,
            qualname=name,
            kind=Kind.OP,
            file=None,
            line=None,
            site=f"op:{name}",
            object=number,
            wrappers=tuple(found.wrappers),
        )

    def _linear(self, linear: Made, function: Any, number: int, jax_name: str | None) -> Function:
        """A function that JAX made from a trace, named after the traced function."""
        name = jax_name or jax_name_of(function)
        traced = self.from_source(linear.source, linear.by)
        if traced.kind is Kind.OP and linear.source is not None:
            return traced._replace(jax_name=name, object=number)
        return traced._replace(
            jax_name=name,
            kind=Kind.TRANSFORM,
            site=f"{linear.by} of {traced.site} at {self._sites.called_at(number)}"
            if linear.source is None
            else f"{linear.by} of {traced.site}",
            object=number,
            wrappers=(linear.by,),
            in_library=traced.file is not None and owner(traced.file) is _LIBRARY,
        )

    def _receiver(self, receiver: Any, kind: Kind) -> Receiver:
        type_ = type(receiver)
        # Methods are equal if bound to the same object; only callable instances does JAX
        # compare with `==`.
        token = self._tokens.metadata if kind is Kind.CALLABLE else self._tokens.held
        return Receiver(
            type=f"{own(type_, '__module__')}.{own(type_, '__qualname__')}",
            object=self._tokens.number(receiver),
            equal=token(receiver),
            value=snapshot(receiver, token),
        )


def _is_plain(function: Any) -> bool:
    """Whether it is nothing but code: no closure, no defaults, no attributes."""
    return (
        type(function) is FunctionType
        and not function.__closure__
        and not function.__dict__
        and not function.__defaults__
        and not function.__kwdefaults__
    )


def _unless_other(known: tuple[str, Value], new: tuple[str, Value]) -> tuple[str, Value]:
    """The known value, or the new one if its contents differ."""
    return known if known[1]._replace(token=new[1].token) == new[1] else new


def _static_self(function: FunctionType, static: Sequence[Static]) -> tuple[Any, ...]:
    """The object that is given for the first parameter, if that is static."""
    if not static or function.__code__.co_varnames[:1] != (static[0].name,):
        return ()
    value = static[0].object()
    return () if value is None else (value,)
