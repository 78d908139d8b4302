"""The source lines of equations: JAX's tracebacks as plain data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any, TypeAlias

from retrace.jax_internals.inner_programs import with_inner
from retrace.model import Frame, Stack

Frames: TypeAlias = dict[int, tuple[str, Frame] | None]
"""The frames of a function by instruction, each with its text; None for one of JAX."""

_BOUNDARY = frozenset(("trace_to_jaxpr_dynamic", "trace_to_jaxpr"))
"""Where the trace of a program begins; since jax 0.10 tracebacks already end there."""
_MAX_FRAMES = 32
_END: Frames = {}
"""In place of the frames of a function where a trace begins. Remains empty."""
_NEW = ("", Frame("", 0, "", 0, False))
"""In place of a frame that was not met before."""


class Stacks:
    """The stacks of one walk over a program."""

    def __init__(
        self,
        is_library: Callable[[str], bool | None],
        shown: Callable[[str], str],
        frames: Callable[[CodeType], Frames],
        stacks: dict[Any, tuple[str, Stack]],
    ) -> None:
        """Take what `jaxprs.transcribe` was given."""
        self._is_library = is_library
        self._shown = shown
        self._frames_of = frames
        self._stacks = stacks
        self._frames: dict[int, Frames] = {}
        self._latest: dict[str, tuple[CodeType, Frames]] = {}
        """The frames of the function met last under each qualified name: quicker than `id`."""

    def of(self, traceback: Any) -> tuple[str, Stack]:
        """The lines that a traceback names, innermost first, without those of JAX.

        Next to them is a digest of their text, which is quicker to compare and to hash.
        """
        if traceback is None:
            return "", ()
        found = self._stacks.get(traceback)
        if found is None:
            own: list[tuple[str, Frame]] = []
            get = self._latest.get
            for code, position in zip(*traceback.raw_frames(), strict=True):
                latest = get(code.co_qualname)
                known = latest[1] if latest and latest[0] is code else self._known_of(code)
                if (frame := known.get(position, _NEW)) is None:
                    continue
                if frame is _NEW:
                    if known is _END:
                        break
                    frame = known[position] = self._frame(traceback, code, position)
                if frame is not None:
                    own.append(frame)
            del own[_MAX_FRAMES:]
            texts, frames = zip(*own, strict=True) if own else ((), ())
            text = "".join(texts).encode(errors="surrogatepass")
            digest = hashlib.blake2b(text, digest_size=12).hexdigest() if own else ""
            found = self._stacks[traceback] = (digest, frames)
        return found

    def distinct(
        self, tracebacks: Iterable[Any], places: list[int]
    ) -> tuple[dict[str, int], list[Stack], list[int]]:
        """The stacks of some tracebacks, where columns of the same line count as one place.

        Args:
            tracebacks: the distinct ones of a program.
            places: the index of one of them for each equation.

        Returns:
            The number of each stack by its hash, the stacks, and the place of each equation
            among them.
        """
        known: dict[str, int] = {}
        found: list[Stack] = []
        renumbered: list[int] = []
        for traceback in tracebacks:
            digest, stack = self.of(traceback)
            renumbered.append(known.setdefault(digest, len(known)))
            if len(found) < len(known):
                found.append(stack)
        if len(known) < len(renumbered):
            places = [renumbered[index] for index in places]
        return known, found, places

    def _known_of(self, code: CodeType) -> Frames:
        known = self._frames.get(id(code))
        if known is None:
            is_end = _begins_trace(code)
            known = self._frames[id(code)] = _END if is_end else self._frames_of(code)
        self._latest[code.co_qualname] = code, known
        return known

    def _frame(self, traceback: Any, code: CodeType, position: int) -> tuple[str, Frame] | None:
        library = self._is_library(code.co_filename)
        if library is None:
            return None
        line = type(traceback).code_addr2line(code, position)
        file = self._shown(code.co_filename)
        frame = Frame(file, line, code.co_qualname, code.co_firstlineno, library)
        return repr(tuple(frame)), frame


def codes_of(jaxpr: Any) -> Iterator[CodeType]:
    """The code that ran when a program and its sub-jaxprs were traced, JAX's own included.

    What ran without adding an equation is not known.
    """
    seen = set[Any]()
    for inner in with_inner(jaxpr):
        for equation in inner.eqns:
            traceback = equation.source_info.traceback
            if traceback is None or traceback in seen:
                continue
            seen.add(traceback)
            for code in traceback.raw_frames()[0]:
                if _begins_trace(code):
                    break
                yield code


def _begins_trace(code: CodeType) -> bool:
    return code.co_name in _BOUNDARY and code.co_filename.endswith("partial_eval.py")
