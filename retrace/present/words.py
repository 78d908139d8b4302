"""How names, values, places, counts and seconds are written for people.

Everything that comes from a program passes through `clean`: a name may contain anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from unicodedata import combining, east_asian_width

from retrace.model import CallSite, Function, Miss, Stage
from retrace.regex import regex

_COMMAND = regex(r"^(\s*)::", re.MULTILINE)
_ADDRESS = regex(r" at 0x[0-9a-fA-F]{4,}")
_CELL = regex(r"In \[(\d+| )\]")
_FOLDER = regex(r"[/\\](?=.)")
_PACKAGES = regex(r"^.*[/\\](?:site|dist)-packages[/\\]")

_PLAIN_PATH = regex(r"[\w@%+=:,./~-]+")
_WORD = regex(r"[^\W_]{3,}")
_WIDE = ("W", "F")

LONG = 72
"""Characters of a value that fit into a line next to its path."""


def clean(text: object, limit: int | None = LONG) -> str:
    """Text safe to show on a terminal: no control codes, no addresses, not too long.

    What Unicode calls non-printable is escaped: control codes, line breaks, marks that change
    the writing direction or are invisible, and lone surrogates.
    """
    phrase = text if isinstance(text, str) else str(text)
    if limit is not None and len(phrase) > 4 * limit:
        phrase = cut(phrase, 2 * limit)  # a hostile megabyte is not searched in full
    phrase = _ADDRESS.sub("", phrase)
    if not phrase.isprintable():
        phrase = "".join([one if one.isprintable() else ascii(one)[1:-1] for one in phrase])
    return phrase if limit is None else cut(phrase, limit)


def inert(text: str) -> str:
    """Lines that contain no workflow command if GitHub reads them in a log.

    GitHub obeys `::error` at the start of a line, and `##[error]` anywhere.
    """
    if "::" in text:
        text = _COMMAND.sub(r"\1:\\x3a", text)
    return text.replace("##[", "#\\x23[")


_QUOTED = regex(r"`([^`]+)`")


def cut(text: str, limit: int) -> str:
    """Text with its middle left out if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    head = (limit - 3) * 2 // 3
    return f"{text[:head]}...{text[len(text) - (limit - 3 - head) :]}"


def cut_between(text: str, limit: int) -> str:
    """The same, cut between two words if it has spaces at the right places.

    Long names are cut first: a title that lacks the name it is about says nothing.
    """
    if len(text) > limit:
        text = _QUOTED.sub(lambda name: f"`{cut(name[1], limit // 4)}`", text)
    if len(text) <= limit:
        return text
    head = text[: (limit - 5) * 2 // 3].rpartition(" ")[0]
    if head.count("(") > head.count(")"):
        head = head.rpartition(" (")[0]
    tail = text[len(text) - (limit - 5 - len(head)) :].partition(" ")[2]
    bracket, closed, rest = tail.partition(") ")
    tail = rest if closed and "(" not in bracket else tail
    return f"{head} ... {tail}" if head and tail else cut(text, limit)


def cells(text: str) -> int:
    """The terminal columns that a text takes: a Chinese character takes two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(one) else 2 if east_asian_width(one) in _WIDE else 1 for one in text
    )


def padded(text: str, columns: int) -> str:
    """Text padded with spaces to the given columns."""
    return text + " " * (columns - cells(text))


def begun(text: str, limit: int) -> str:
    """Text with its end left out if it is longer than `limit`."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def cut_apart(old: str, new: str, limit: int) -> tuple[str, str]:
    """Two texts, each cut so that their first difference stays visible."""
    head = (limit - 3) * 2 // 3
    tail = limit - 3 - head
    pairs = enumerate(zip(old, new, strict=False))
    at = next((index for index, (a, b) in pairs if a != b), min(len(old), len(new)))
    if at < head - 4 or at >= max(len(old), len(new)) - tail:
        return cut(old, limit), cut(new, limit)
    lead = limit // 4
    start = max(at - limit // 8, lead)

    def shown(text: str) -> str:
        if len(text) <= limit:
            return text
        return begun(f"{text[:lead]}...{text[start:]}", limit)

    return shown(old), shown(new)


def turned(detail: str, limit: int = LONG) -> str:
    """`old -> new`, each side cut separately if both are too long."""
    old, arrow, new = detail.partition(" -> ")
    if not arrow or len(detail) <= limit or len(detail) > 16 * limit:
        return clean(detail, limit)
    sides = (clean(old, None), clean(new, None))
    return arrow.join(cut_apart(*sides, (limit - len(arrow)) // 2))


def seconds(value: float) -> str:
    """Seconds with two or three significant figures."""
    if value >= 100:
        return f"{value:,.0f} s"
    if value >= 9.95:
        return f"{value:.1f} s"
    if value >= 0.01 or value == 0:
        return f"{value:.2f} s"
    return "under 0.01 s"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 miss`, `1,204 misses`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    ending = (
        "th"
        if number % 100 in (11, 12, 13)
        else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    )
    return f"{number:,}{ending}"


def times(number: int) -> str:
    """`once`, `twice`, `17 times`."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def listed(items: Sequence[str], most: int = 3, more: str = "") -> str:
    """`a, b and c`; items beyond `most` are counted, as `2 more` or as a number of a noun."""
    if (rest := len(items) - most) > 0:
        items = [*items[:most], count(rest, more) if more else f"{rest:,} more"]
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def place(file: str | None, line: int | None, bases: Sequence[str] = ()) -> str:
    """`train.py:41`: short below one of `bases` and in installed packages, otherwise whole.

    A notebook's `In [3]` is `cell 3 line 41`.
    """
    if not file:
        return "an unknown place"
    if (cell := _CELL.fullmatch(file)) is not None:
        text = f"cell {cell[1]}" if cell[1] != " " else "a cell"
        return text if line is None else f"{text} line {line}"
    shown = _PACKAGES.sub("", file)
    for base in bases:
        if base and shown.startswith(beneath := base.rstrip(os.sep) + os.sep):
            shown = shown[len(beneath) :]
            break
    shown = clean(shown, None)
    if len(shown) > 48:  # the end of a path says more than its start
        end = shown[-45:]
        whole = _FOLDER.search(end)
        shown = f"...{end if whole is None else end[whole.start() :]}"
    return shown if line is None else f"{shown}:{line}"


_MAX_LINES = 12


def places(lines: Iterable[tuple[str, int]], bases: Sequence[str] = ()) -> str:
    """`train.py:31, 33, 40 and 2 more`, for lines in files."""
    by_file: dict[str, list[int]] = {}
    for file, line in sorted(lines):
        by_file.setdefault(file, []).append(line)
    texts: list[str] = []
    for file, (first, *rest) in by_file.items():
        text = place(file, first, bases)
        texts.append(listed([text, *(str(line) for line in rest)], _MAX_LINES))
    return "; ".join(texts)


def script(argv: Sequence[str]) -> str:
    """The name of what a process ran, without its folder."""
    program = argv[0] if argv and argv[0] else "python"
    return "python -c" if program == "-c" else clean(os.path.basename(program), 24)


def name(function: Function) -> str:
    """A function's name, as text."""
    return clean(function.name, 48)


def operation(miss: Miss) -> str:
    """JAX's name for an eager operation: `while`, where `name` is that of its body."""
    return clean(miss.function.jax_name, 48)


def called_from(site: CallSite | None, bases: Sequence[str] = ()) -> str | None:
    """The place of a call, or None if unknown."""
    return None if site is None else place(site.file, site.line, bases)


def did(miss: Miss, again: str = "again") -> str:
    """Which stages ran, as a verb: `traced again`."""
    ran = set(miss.stages)
    if miss.in_flight is not None:
        ran.add(miss.in_flight)
    after = f" {again}" if again else ""
    if Stage.TRACE in ran:
        return f"traced{after}"
    if Stage.COMPILE in ran:
        return f"compiled{after} without a trace"
    return f"lowered{after} without a trace" if Stage.LOWER in ran else f"looked up{after}"


def quoted(name: str) -> str:
    """A name in a sentence."""
    return f"`{name}`"


def argument(path: str) -> str:
    """A path as an argument of a command that can be copied into a shell."""
    path = f"./{path}" if path.startswith("-") else path
    if _PLAIN_PATH.fullmatch(path):
        return path
    import shlex  # rarely needed

    return shlex.quote(path)


_MOST_NAMES = 8
"""So many names in a sentence: what is to be done with each of them needs its name."""


def names(paths: Sequence[str]) -> str:
    """Names in a sentence: `a`, `b`, `c` and `d`, or how many more there are."""
    return listed([quoted(path) for path in paths], _MOST_NAMES)


def few_names(paths: Sequence[str]) -> str:
    """Names in a title: `a`, `b` and `c`, or how many more there are."""
    return listed([quoted(path) for path in paths])


def nearest(text: str, known: Iterable[str]) -> str:
    """`, did you mean shape-changed?`, to append to a complaint; empty if nothing is close.

    A word that only one of them contains is enough: `static` for `static-argument-changed`.
    """
    from difflib import get_close_matches

    known = list(dict.fromkeys(known))
    close = get_close_matches(text[:80], known, 1, 0.5)
    if not close:
        holders: dict[str, list[str]] = {}
        for one in known:
            for word in set(_WORD.findall(one)):
                holders.setdefault(word, []).append(one)
        only = [word for word, own in holders.items() if len(own) == 1]
        close = [holders[word][0] for word in get_close_matches(text[:80], only, 1, 0.8)]
    return f", did you mean {close[0]}?" if close else ""


def as_objects(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The paths, with an object in place of several of its attributes."""
    of = [path.rpartition(".")[0] or path for path in paths]
    return tuple(
        dict.fromkeys(
            whole if of.count(whole) > 1 else path for path, whole in zip(paths, of, strict=True)
        )
    )
