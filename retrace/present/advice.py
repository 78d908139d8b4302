"""Advice in words: one sentence with the user's own names.

What was proved is told, what rests on the meaning of the program is asked. Nothing is looked
for in these texts: whoever wants to know what is advised reads the fields.
"""

from __future__ import annotations

from retrace.model.advice import Advice
from retrace.present.advice_arrays import of_arrays
from retrace.present.advice_functions import of_functions
from retrace.present.advice_operations import of_operations
from retrace.present.advice_values import of_values
from retrace.present.words import listed, quoted

_MOST_OTHERS = 2


def advised(advice: Advice) -> str:
    """What to do, in one sentence."""
    for words in (of_functions, of_values, of_arrays, of_operations):
        if (said := words(advice)) is not None:
            break
    else:
        raise TypeError(type(advice).__name__)
    if advice.remade is not None:
        said += f"; {quoted(advice.remade)} is a new function object as well: jit it once"
    if advice.others:
        others = [f"{quoted(path)} ({what.replace('_', ' ')})" for path, what in advice.others]
        said += f"; {listed(others, _MOST_OTHERS)} changed too"
    return f"{said}."
