"""The nouns of retrace: what a miss in JAX's caches is, and what is concluded about it.

Everything here is plain data. The recording wing writes it, the store keeps it, and the reading
wing explains it. Nothing here imports jax or does I/O.

Modules with many named tuples do without `from __future__ import annotations`: where annotations
are texts, `NamedTuple` compiles each of them, which took 3 ms of every command.
"""

from __future__ import annotations

from retrace.model.audit import Audit, Checked, Outcome, Reading, Reason, Source, Use
from retrace.model.change import (
    Change,
    CodeChange,
    DtypeChange,
    FieldChange,
    HeldChange,
    NamedChange,
    ObjectChange,
    PassingChange,
    ProgramChange,
    SettingChange,
    ShapeChange,
    ShardingChange,
    Subtree,
    TreeChange,
    ValueChange,
    WeakTypeChange,
)
from retrace.model.function import CallSite, Function, Kind, Receiver
from retrace.model.key import (
    ENCLOSING,
    JSON,
    Class,
    Dim,
    Key,
    Leaf,
    Leaves,
    Node,
    Passing,
    Value,
    by_column,
    is_cut,
)
from retrace.model.miss import Miss, PersistentCache, Recording, Run, Stage
from retrace.model.parts import Component
from retrace.model.program import Callback, Frame, Listing, Program, Stack
from retrace.model.slow import Slow, Tracing
from retrace.model.verdict import Detail, How, Pattern, Verdict

__all__ = [
    "ENCLOSING",
    "JSON",
    "Audit",
    "CallSite",
    "Callback",
    "Change",
    "Checked",
    "Class",
    "CodeChange",
    "Component",
    "Detail",
    "Dim",
    "DtypeChange",
    "FieldChange",
    "Frame",
    "Function",
    "HeldChange",
    "How",
    "Key",
    "Kind",
    "Leaf",
    "Leaves",
    "Listing",
    "Miss",
    "NamedChange",
    "Node",
    "ObjectChange",
    "Outcome",
    "Passing",
    "PassingChange",
    "Pattern",
    "PersistentCache",
    "Program",
    "ProgramChange",
    "Reading",
    "Reason",
    "Receiver",
    "Recording",
    "Run",
    "SettingChange",
    "ShapeChange",
    "ShardingChange",
    "Slow",
    "Source",
    "Stack",
    "Stage",
    "Subtree",
    "Tracing",
    "TreeChange",
    "Use",
    "Value",
    "ValueChange",
    "Verdict",
    "WeakTypeChange",
    "by_column",
    "is_cut",
]
