"""Numbers that the program gets through a library's function, or through a custom rule.

Python in the library may compare the number, and `nondiff_argnums` take no array: either raises.
"""

from __future__ import annotations

from retrace.model.advice import Advice, Proof
from retrace.reason.evidence import package_of
from retrace.reason.program import Comparison


def through_libraries(advised: Advice, *programs: Comparison | None) -> Advice:
    """Ask where a library's function, or a custom rule, may get a number and take no array.

    Args:
        advised: the advice to pass the number.
        programs: what compares programs that differ in it.
    """
    compared = [program for program in programs if program is not None]
    made = [one for program in compared for one in program.makers]
    by = dict.fromkeys(f"{package_of(one.file)}:{one.function}" for one in made)
    by |= dict.fromkeys(f":{name}" for program in compared for name in program.static_rules)
    if not by:
        return advised
    return advised.changed(makers=tuple(by), proof=Proof.MEANING)
