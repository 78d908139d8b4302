"""What JAX and XLA logged about a miss, quoted and attributed to them."""

from __future__ import annotations

from retrace.model import Miss
from retrace.present.words import clean
from retrace.regex import regex

_MAX_LENGTH = 160
_WHO = {"jax": "JAX says", "xla": "XLA says"}
_FRAME = regex(
    r"^\s*(?:for .+ defined at|all previously seen cache keys|never seen function|types now:"
    r"|See https?:|where weak_type|weak_type=False means|now: PyTreeDef|before: PyTreeDef"
    r"|.+ id=\d+)"
)
_ID = regex(r" id=\d+")


def brief(miss: Miss) -> str | None:
    """JAX's reason in one line, or None if it logged none."""
    text = next((text for who, text in miss.said if who == "jax"), None)
    if text is None:
        return None
    texts = [line.strip().removeprefix("* ") for line in text.split("\n")]
    kept = [phrase for phrase, line in zip(texts, text.split("\n"), strict=True) if _tells(line)]
    if not kept and "never seen function" in text:
        kept = ["never seen function"]
    phrase = " ".join(kept).replace("maybe the function is being", "maybe it is being")
    return clean(phrase, _MAX_LENGTH) if phrase else None


def _tells(line: str) -> bool:
    return bool(line.strip()) and not _FRAME.match(line)


def whole(miss: Miss) -> list[tuple[str, str]]:
    """Everything logged about it, by line; the speaker is named before the first."""
    found: list[tuple[str, str]] = []
    for who, text in miss.said:
        label = _WHO.get(who, "logged")
        for line in text.split("\n"):
            # Addresses are reused: two objects may have the same one.
            found.append((label, clean(_ID.sub("", line), 400)))
            label = ""
    return found
