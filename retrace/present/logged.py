"""What JAX and XLA logged of a miss, in their words and marked as theirs."""

from __future__ import annotations

import re

from retrace.model import Miss
from retrace.present.words import clean

_LONGEST = 160
_WHO = {"jax": "JAX says", "xla": "XLA says"}
_FRAME = re.compile(
    r"^\s*(?:for .+ defined at|all previously seen cache keys|never seen function|types now:"
    r"|See https?:|where weak_type|weak_type=False means|now: PyTreeDef|before: PyTreeDef"
    r"|.+ id=\d+)"
)
_ID = re.compile(r" id=\d+")


def brief(miss: Miss) -> str | None:
    """JAX's reason in one line; None where it logged none."""
    text = next((text for who, text in miss.said if who == "jax"), None)
    if text is None:
        return None
    told = [line.strip().removeprefix("* ") for line in text.split("\n")]
    kept = [said for said, line in zip(told, text.split("\n"), strict=True) if _tells(line)]
    if not kept and "never seen function" in text:
        kept = ["never seen function"]
    said = " ".join(kept).replace("maybe the function is being", "maybe it is being")
    return clean(said, _LONGEST) if said else None


def _tells(line: str) -> bool:
    return bool(line.strip()) and not _FRAME.match(line)


def whole(miss: Miss) -> list[tuple[str, str]]:
    """Everything that was logged of it, a line each, with who says it before the first."""
    found: list[tuple[str, str]] = []
    for who, text in miss.said:
        label = _WHO.get(who, "logged")
        for line in text.split("\n"):
            # Addresses are used again: two objects may have one.
            found.append((label, clean(_ID.sub("", line), 400)))
            label = ""
    return found
