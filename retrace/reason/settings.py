"""Advice for options of `jit` and for JAX's configuration."""

from __future__ import annotations

from typing import cast

from retrace.model import Change, Component, Dim, ShapeChange
from retrace.model.advice import Advice, FewMapped, OneConfig, OneOption, Proof
from retrace.model.parts import CONTEXT
from retrace.reason.evidence import Evidence, named_changes, paths
from retrace.reason.program import proof_of


def options(components: tuple[Component, ...], evidence: Evidence) -> Advice:
    """What to do if the options of `jit` changed."""
    found = tuple(paths(evidence.changes, *components))
    return OneOption(paths=found, name=evidence.miss.function.name, proof=Proof.MEANING)


def config(components: tuple[Component, ...], evidence: Evidence) -> Advice:
    """What to do if JAX's configuration changed."""
    nearest = evidence.nearest
    if axes := _remapped(evidence.changes, components):
        wasted = evidence.program is not None and evidence.program.is_wasted
        followed = [
            change.path
            for change in evidence.changes
            if isinstance(change, ShapeChange)
            and {(a, b) for _, a, b in change.resized or ((0, 0, 0),)} <= {*axes.values()}
        ]
        return FewMapped(
            paths=(*paths(evidence.changes, *components), *followed),
            name=evidence.miss.function.name,
            axes=tuple(axes),
            proof=Proof.PROGRAM if wasted else Proof.KEY,
        )
    later = _are_defined_later(evidence.changes, components)
    return OneConfig(
        paths=tuple(paths(evidence.changes, *components)),
        in_thread=not later and nearest is not None and nearest.thread != evidence.miss.thread,
        defined_later=later,
        proof=proof_of(evidence.program),
    )


def _are_defined_later(changes: tuple[Change, ...], components: tuple[Component, ...]) -> bool:
    """Whether JAX did not have these settings at the earlier call.

    A key holds every setting that exists, also those that nobody set. Importing a module of JAX
    that defines more of them, like Pallas, makes all functions miss once.
    """
    of_process = {name for row in CONTEXT for name in row.of_process}
    own = named_changes(changes, components)
    return bool(own) and all(
        change.old is None and change.new is not None and change.path not in of_process
        for change in own
    )


def _remapped(
    changes: tuple[Change, ...], components: tuple[Component, ...]
) -> dict[str, tuple[Dim, Dim]]:
    """The named axes being mapped over, if only their sizes changed in the settings.

    Each size is a separate entry, as with array sizes.
    """
    own = named_changes(changes, components)
    if len(own) != 1 or own[0].path != "axis_env":
        return {}
    sides = [value and value.data for value in (own[0].old, own[0].new)]
    old, new = [cast(dict[str, Dim], side) if isinstance(side, dict) else {} for side in sides]
    if old.keys() != new.keys():
        return {}
    return {axis: (old[axis], size) for axis, size in new.items() if old[axis] != size}
