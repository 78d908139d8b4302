"""Every text that a recording can hold: redaction hides it, or it is listed here as told."""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import Enum
from itertools import count
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from retrace.model import Audit, Listing, Miss, Recording, Run
from retrace.store.redaction import Redaction

_NAMES = "names of the user's code stay"
_PARAMETERS = "names of parameters, options and settings stay"
_TYPES = "names of types stay"
_KEY = "paths of arrays, with the keys of dicts among the arguments, stay"
_ARRAYS = "what an array is, not what it holds"
_JAX = "JAX's own words and options"
_MACHINE = "says what it ran on"
_OURS = "made by retrace"

TOLD = {
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
    **dict.fromkeys(("Checked.detail", "Checked.disturbed"), _NAMES),
    **dict.fromkeys(("Miss.through", "Miss.via", "Miss.raised", "Run.raised"), _NAMES),
    **dict.fromkeys(("Key.static", "Key.signature"), _PARAMETERS),
    **dict.fromkeys(("Key.options", "Key.config"), _PARAMETERS),
    **dict.fromkeys(("Leaf.path", "Node.path", "Node.children", "Node.meta"), _KEY),
    **dict.fromkeys(("Leaf.dtype", "Leaf.shape", "Leaf.sharding", "Leaf.layout"), _ARRAYS),
    **dict.fromkeys(("Leaf.memory_kind", "Listing.inputs"), _ARRAYS),
    **dict.fromkeys(("Node.type", "Receiver.type"), _TYPES),
    **dict.fromkeys(("Callback.primitive", "Kernel.operations"), _JAX),
    **dict.fromkeys(("Pass.kind", "Pass.name", "PersistentCache.reason", "Miss.said"), _JAX),
    **dict.fromkeys((f"Key.options Value.{one}" for one in ("text", "data", "token")), _JAX),
}
"""Texts that a redacted recording still holds, each with the reason. Of a field of pairs this is
the name in each pair; the values have rows of their own."""

_VALUES = (
    *("Function.closure", "Function.defaults", "Function.bound", "Function.reads"),
    *("Key.static", "Key.options", "Key.config", "Node.meta", "Receiver.value"),
    *("Reading.old", "Reading.new"),
)
for _place in _VALUES:
    TOLD[f"{_place} Value.type"] = _TYPES
    TOLD[f"{_place} Value.classes Class.name"] = _TYPES
TOLD["Node.made Class.name"] = _TYPES


class Filled:
    """Makes instances of the model in which each text is another one, and knows whose it is."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self._numbers = count(1)

    def make(self, hint: Any, owner: str = "", within: str = "") -> Any:
        """Something of a type; `owner` is the field that it is for."""
        origin, args = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            # The one that can say most: a text where it may be a number or a text.
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
            # An equation has a form: of these it is the parameter that may hold a value.
            return f"sin\t$\tf32[2]\tvalue={text!r}" if owner == "Listing.equations" else text
        return self._instance(hint, within)

    def _instance(self, kind: Any, within: str) -> Any:
        name = kind.__name__
        # A value is told or not by where it stands.
        own = f"{within} {name}" if name in ("Value", "Class") else name
        hints = get_type_hints(kind)
        names = kind._fields if hasattr(kind, "_fields") else kind.__dataclass_fields__
        return kind(
            **{one: self.make(hints[one], f"{own}.{one}", f"{own}.{one}") for one in names}
        )


def test_no_text_is_told_because_it_was_forgotten() -> None:
    filled = Filled()
    run, miss = filled.make(Run), cast(Miss, filled.make(Miss))
    audit, listing = filled.make(Audit), filled.make(Listing)
    hidden = Redaction([])
    shown = hidden.recording(Recording([run], [miss], {}, [audit]))
    text = repr((shown.runs, shown.misses, shown.audits, hidden.listing(listing)))
    told = {owner for secret, owner in filled.owners.items() if f"{secret}/" in text}
    forgotten = sorted(told - TOLD.keys())
    assert not forgotten, f"to be hidden in store/redaction, or given a reason: {forgotten}"
    assert sorted(TOLD.keys() - told) == [], "these are hidden"
