"""Every string that a recording can hold: redaction hides it, or it is listed here as public."""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import Enum
from itertools import count
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from retrace.model import Audit, Listing, Miss, Recording, Run
from retrace.model.parts import PARTS, VALUES, Hidden, Values, Words
from retrace.store.redaction import Redaction

_NAMES = "names of the user's code stay"
_PARAMETERS = "names of parameters, options and settings stay"
_TYPES = "names of types stay"
_KEY = "paths of arrays, with the keys of dicts among the arguments, stay"
_ARRAYS = "what an array is, not what it holds"
_JAX = "JAX's own words and options"
_MACHINE = "describes what it ran on"
_OURS = "made by retrace"

PUBLIC = {
    **dict.fromkeys(("Run.id", "Audit.run", "Miss.id", "Miss.parent", "Miss.run"), _OURS),
    **dict.fromkeys(("Miss.derived", "Miss.unseen", "Run.losses", "Run.off_fast_path"), _OURS),
    **dict.fromkeys(("Compiling.unprofiled",), _OURS),
    **dict.fromkeys(("Run.backend", "Run.device_kind", "Run.platform_version"), _MACHINE),
    **dict.fromkeys(("Run.jax", "Run.jaxlib", "Run.python"), _MACHINE),
    "Run.commit": "which version of the program it was",
    "Run.job": "the name of the job, so that its processes are found",
    **dict.fromkeys(("Run.settings", "Run.variables", "Miss.settings"), _PARAMETERS),
    **dict.fromkeys(("CallSite.function", "Frame.function", "Kernel.function"), _NAMES),
    **dict.fromkeys(("Function.name", "Function.jax_name", "Function.qualname"), _NAMES),
    **dict.fromkeys(("Function.around", "Function.decorators", "Function.wrappers"), _NAMES),
    **dict.fromkeys(("Function.closure", "Function.defaults", "Function.bound"), _NAMES),
    **dict.fromkeys(("Function.reads", "Reading.name", "Source.name"), _NAMES),
    **dict.fromkeys(("Checked.detail", "Checked.disturbed", "Use.path"), _NAMES),
    **dict.fromkeys(
        ("Miss.through", "Miss.via", "Miss.picked", "Miss.raised", "Run.raised"), _NAMES
    ),
    **dict.fromkeys(
        (f"Key.{row.name}" for row in PARTS if isinstance(row, Values | Words)), _PARAMETERS
    ),
    **dict.fromkeys(("Leaf.path", "Node.path", "Node.children", "Node.meta"), _KEY),
    **dict.fromkeys(("Leaf.dtype", "Leaf.shape", "Leaf.sharding", "Leaf.layout"), _ARRAYS),
    **dict.fromkeys(("Leaf.memory_kind", "Listing.inputs"), _ARRAYS),
    **dict.fromkeys(("Node.type", "Receiver.type"), _TYPES),
    **dict.fromkeys(("Callback.primitive", "Kernel.operations"), _JAX),
    **dict.fromkeys(("Pass.kind", "Pass.name", "PersistentCache.reason", "Miss.said"), _JAX),
    **{
        f"Key.{row.name} Value.{one}": _JAX
        for row in VALUES
        if row.hidden is Hidden.LISTED
        for one in ("text", "data", "token")
    },
}
"""Strings that a redacted recording still holds, each with the reason. For a field of pairs this
is the name in each pair; the values have their own rows."""

_VALUES = (
    *("Function.closure", "Function.defaults", "Function.bound", "Function.reads"),
    *(f"Key.{row.name}" for row in VALUES),
    *("Node.meta", "Receiver.value"),
    *("Reading.old", "Reading.new", "Checked.returned"),
)
for _place in _VALUES:
    PUBLIC[f"{_place} Value.type"] = _TYPES
    PUBLIC[f"{_place} Value.classes Class.name"] = _TYPES
PUBLIC["Node.made Class.name"] = _TYPES


class Filled:
    """Creates instances of the model in which all strings differ, and remembers their fields."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self._numbers = count(1)

    def make(self, hint: Any, owner: str = "", within: str = "") -> Any:
        """Create a value of a type for the field `owner`."""
        origin, args = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            # Choose the most revealing type: a string rather than a number.
            kinds = [kind for kind in args if kind is not type(None)]
            return self.make(str if str in kinds else kinds[0], owner, within)
        if origin is Literal:
            return args[0]
        if origin is tuple:
            kinds = args[:1] if args[1:] == (...,) else args
            return tuple(self.make(kind, owner, within) for kind in kinds)
        if origin is list:
            return [self.make(args[0], owner, within)]
        if origin in (dict, Mapping) or getattr(origin, "__name__", "") == "Mapping":
            return {self.make(args[0], owner, within): self.make(args[1], owner, within)}
        if hint in (bool, int, float):
            return hint(0)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return next(iter(hint))
        if hint in (str, object):
            text = f"/home/secret{next(self._numbers)}/x.py"
            self.owners[text.split("/")[2]] = owner
            # Put the string where an equation may hold a value: in a parameter.
            return f"sin\t$\tf32[2]\tvalue={text!r}" if owner == "Listing.equations" else text
        return self._instance(hint, within)

    def _instance(self, kind: Any, within: str) -> Any:
        name = kind.__name__
        # Whether a value is public depends on the field that holds it.
        own = f"{within} {name}" if name in ("Value", "Class") else name
        hints = get_type_hints(kind)
        names = kind._fields if hasattr(kind, "_fields") else kind.__dataclass_fields__
        return kind(
            **{one: self.make(hints[one], f"{own}.{one}", f"{own}.{one}") for one in names}
        )


def test_every_string_is_hidden_or_listed() -> None:
    filled = Filled()
    run, miss = filled.make(Run), cast(Miss, filled.make(Miss))
    audit, listing = filled.make(Audit), filled.make(Listing)
    redaction = Redaction([])
    shown = redaction.recording(Recording([run], [miss], {}, [audit]))
    text = repr((shown.runs, shown.misses, shown.audits, redaction.listing(listing)))
    public = {owner for secret, owner in filled.owners.items() if f"{secret}/" in text}
    forgotten = sorted(public - PUBLIC.keys())
    assert not forgotten, f"hide these in store/redaction, or give a reason: {forgotten}"
    assert sorted(PUBLIC.keys() - public) == [], "these are hidden"
