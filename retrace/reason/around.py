"""Functions of one `def` that close over different functions: each needs its own jitted one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from retrace.model import Verdict
from retrace.model.advice import JitAndPass, JitOnce
from retrace.reason.fields import is_function


def one_for_each(verdicts: Sequence[Verdict]) -> Iterator[tuple[int, Verdict]]:
    """Advice to jit such a function once, with the names of what there must be one for each of.

    Their sites differ, so that each has its own history, in which nothing changes but what can be
    passed; but the user reads of one function.
    """
    groups: dict[tuple[str, str | None, int | None, str], list[int]] = defaultdict(list)
    for index, verdict in enumerate(verdicts):
        function = verdict.miss.function
        key = verdict.miss.run, function.file, function.line, function.qualname
        groups[key].append(index)
    for group in groups.values():
        functions = [verdicts[index].miss.function for index in group]
        if len({function.site for function in functions}) < 2:
            continue
        texts: dict[str, set[str]] = defaultdict(set)
        for function in functions:
            for name, value in function.closure:
                if is_function(value.text):
                    texts[name].add(value.text)
        names = tuple(name for name, found in texts.items() if len(found) > 1)
        for index in group if names else ():
            fix = verdicts[index].fix
            if isinstance(fix, JitOnce | JitAndPass):
                yield index, replace(verdicts[index], fix=fix.changed(each=names))
