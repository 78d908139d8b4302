"""Numbers that a function of an installed package computes with before the program does."""

from __future__ import annotations

from retrace.model.advice import Advice, Proof
from retrace.reason.evidence import package_of
from retrace.reason.program import Comparison


def through_libraries(advised: Advice, *programs: Comparison | None) -> Advice:
    """Ask where a library's function gets a number: it may compare it in Python.

    Args:
        advised: the advice to pass the number.
        programs: what compares programs that differ in it.
    """
    made = [one for program in programs if program is not None for one in program.makers]
    if not made:
        return advised
    by = dict.fromkeys(f"{package_of(one.file)}:{one.function}" for one in made)
    return advised.changed(makers=tuple(by), proof=Proof.MEANING)
