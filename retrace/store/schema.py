"""The lines of a recording: one JSON object each, written as misses happen.

    {"retrace": 1, "run": {...}}                 the first line of every file
    {"part": 7, "kind": "leaves", "value": ...}  a long or repeated part, once per file
    {"part": 9, "kind": "leaves", "like": 7, "value": ...}    the leaves of 7 in other shapes
    {"miss": 3, "at": ..., "function": 2, "leaves": 7, ...}   a miss started; parts by number
    {"miss": 8, "again": 3, "at": ...}           a miss with the function and key of another
    {"amend": 3, "stages": {"trace": 0.1}, ...}  what became known about a miss later
    {"run": {"backend": "cpu"}}                  what became known about the run later: devices,
                                                 settings, whether files were changed
    {"audit": 1, "at": ..., "checked": [...], ...}   which programs are out of date (`audits`)
    {"loss": "unreadable static value"}          something could not be recorded; "count": 3
    {"end": true}                                the process closed its recording

Next to `"program": [HASH, EQUATIONS]`, an amendment may have `"listing"`, the id of the program's
text (`store/programs.py`); `"arrays"`, the numbers of captured device arrays; `"held"`, the
numbers of what its custom rules hold; `"callbacks": [[PRIMITIVE, FILE, LINE], ...]`, where it
calls back into Python; and `"results"`, a digest of the paths of its results.

Next to `"stages": {"trace": 0.1}`, `"began": {"trace": 1763666400.25}` tells when each started.

A miss that has ended when it is written has `"over": {...}`, the contents of its amendments.

Further fields of an amendment: `"said": [["jax", TEXT], ...]`, what an imported log says about
the miss (the run of such a file has `"source": "log"`); `"slow": {...}`, where its seconds went
(`store/slow.py`); `"processes": N`, on the devices of how many processes the program runs;
`"since"`, next to `"stage": "compile"`, when that stage started; `"lowered_with"`, a digest of
what its module holds besides the equations; and `"carried"`, one of the static data that its
results carry.

Both lines of a miss may have `"compiled_with"`, options passed to `Lowered.compile`.

Format 1: the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from retrace.model import (
    JSON,
    Callback,
    CallSite,
    Key,
    Miss,
    PersistentCache,
    Program,
    Stage,
    Value,
)
from retrace.model.miss_fields import MissFields
from retrace.store import slow
from retrace.store.decoded import (
    named_values,
    number,
    number_or_none,
    seconds,
    text,
    text_or_none,
    texts,
)
from retrace.store.fields import Field, encode_fields, non_defaults, read_into
from retrace.store.parts import PARTS, Parts, call_site

if TYPE_CHECKING:
    from retrace.store.redaction import Redaction

FORMAT = 1

# The names of losses: what could not be written or read, as counted in `Run.losses`.
UNREADABLE_LINE = "unreadable line"
LATER_LINE_ALONE = "a later line about a miss that is missing"
KEY_MISSING = "a miss whose key is missing"
PARENT_MISSING = "the enclosing miss is missing"
CALL_SITE_MISSING = "a call site is missing"
SECOND_FILE = "a second file of the same process was left out"
TOO_LARGE = "too large to be recorded"

MAX_LINE_BYTES = 1 << 26
"""Maximum length of a line, for writers and readers."""

MAX_ITEMS = 1 << 23
"""Maximum number of JSON values in one line; a million equations or leaves have fewer."""


def check_items(text: str | bytes) -> None:
    """Raise ValueError on JSON that would need far more memory than its length."""
    if len(text) > MAX_ITEMS:
        marks = (b",", b"[", b"{") if isinstance(text, bytes) else (",", "[", "{")
        if sum(map(cast(Any, text).count, marks)) > MAX_ITEMS:
            raise ValueError("too many values")


def _pairs(rows: Any) -> tuple[tuple[str, str], ...]:
    return tuple((text(name), text(value)) for name, value in rows)


def _numbers(row: Any) -> tuple[int | None, ...]:
    return tuple(map(number_or_none, row))


def _unchanged(value: Any) -> Any:
    return value


# A program.


def _callback(row: Any) -> Callback:
    primitive, file, line = row
    return Callback(text(primitive), text_or_none(file), number_or_none(line))


PROGRAM: Mapping[str, Field[Program]] = {
    "listing": Field("listing", text),
    "arrays": Field("arrays", _numbers),
    "held": Field("held", _numbers),
    "callbacks": Field("callbacks", lambda rows: tuple(map(_callback, rows))),
    "results": Field("results", text),
}
"""Fields next to `"program": [HASH, EQUATIONS]`. `Redaction.program` redacts all of them."""


def decode_program(line: Mapping[str, Any]) -> Program:
    """Decode the program of a line; raises one of `decoded.NONSENSE`."""
    hash_, equations = line["program"]
    given = [(field, line.get(name)) for name, field in PROGRAM.items()]
    return Program(
        text(hash_),
        number(equations),
        **{field.attribute: field.read(row) for field, row in given if row is not None},
    )


# A miss.


def _persistent_cache(row: Any) -> PersistentCache:
    outcome, key, reason, *later = row
    ingredients: Any = later[0] if later else ()
    own: Any = later[1] if len(later) > 1 else ()
    saved = later[2] if len(later) > 2 else None
    options: Any = later[3] if len(later) > 3 else ()
    if outcome not in ("hit", "miss", "not-stored", "off"):
        raise ValueError(f"invalid outcome: {outcome!r}")
    return PersistentCache(
        outcome,
        text_or_none(key),
        text_or_none(reason),
        _pairs(ingredients),
        texts(own),
        None if saved is None else seconds(saved),
        _pairs(options),
    )


_WITHIN: Mapping[str, Literal["callback", "import", "tree"]] = {
    "callback": "callback",
    "import": "import",
    "tree": "tree",
}


_STAGES: Mapping[str, Stage] = {stage.value: stage for stage in Stage}


def _by_stage(rows: Any) -> dict[Stage, float]:
    return {_STAGES[stage]: seconds(value) for stage, value in rows.items()}


def _rounded(times: Mapping[Stage, float]) -> JSON:
    return {stage: round(at, 6) for stage, at in times.items()}


def _put_parent(miss: Miss, parent: int) -> None:
    miss.parent = f"{miss.run}-{parent}"


def _put_durations(miss: Miss, stages: dict[Stage, float]) -> None:
    for stage, spent in stages.items():
        miss.stages[stage] = miss.stages.get(stage, 0.0) + spent
        if miss.in_flight is stage:
            miss.in_flight = None


def _put_starts(miss: Miss, stages: dict[Stage, float]) -> None:
    for stage, at in stages.items():
        miss.began.setdefault(stage, at)


def _put_in_flight(miss: Miss, stage: Stage) -> None:
    # Lines of two threads may be out of order: a stage that has ended does not restart.
    if stage not in miss.stages:
        miss.in_flight = stage


def _add_inner(miss: Miss, inner: int) -> None:
    miss.inner += inner


def _add_said(miss: Miss, said: tuple[tuple[str, str], ...]) -> None:
    miss.said += said


def _add_slow(miss: Miss, fields: Any) -> None:
    miss.slow = slow.decode_slow(fields, miss.slow)


def _put_compile_options(miss: Miss, options: tuple[tuple[str, Value], ...]) -> None:
    both = {**dict(miss.key.options), **dict(options)}
    miss.key = miss.key._replace(options=tuple(both.items()))


def _hide_sites(
    hide: Redaction, _: str, named: tuple[tuple[str, CallSite], ...]
) -> tuple[tuple[str, CallSite], ...]:
    return tuple((name, hide.call_site(at)) for name, at in named)


MISS: Mapping[str, Field[Miss]] = {
    "at": Field("time", seconds),
    "thread": Field("thread", text, lambda hide, _, name: hide.thread(name)),
    "parent": Field("", number, put=_put_parent),
    "derived": Field("derived", text),
    "nested": Field("nested", bool),
    "entry": Field("entry", call_site, lambda hide, _, at: hide.call_site(at)),
    "through": Field("through", text),
    "via": Field("via", text),
    "within": Field("within", _WITHIN.__getitem__),
    "picked": Field("picked", text),
    "disabled": Field("disabled", bool),
    "lines": Field("lines", text, lambda hide, _, lines: hide.lines(lines)),
    "ahead": Field("ahead", bool),
    "new": Field("new_object", bool),
    "new_bodies": Field("new_bodies", lambda rows: tuple(map(bool, rows))),
    "settings": Field(
        "settings",
        lambda rows: tuple([(text(name), call_site(row)) for name, row in rows.items()]),
        _hide_sites,
        dict,
    ),
    "unseen": Field("unseen", texts),
    "epoch": Field("epoch", number),
    "function_epoch": Field("function_epoch", number),
    "cold": Field("cold", bool),
    "stages": Field("stages", _by_stage, put=_put_durations),
    "began": Field("began", _by_stage, write=_rounded, put=_put_starts),
    "stage": Field("in_flight", _STAGES.__getitem__, put=_put_in_flight),
    "since": Field("since", seconds),
    "raised": Field("raised", text),
    "inner": Field("inner", number, put=_add_inner),
    "calls": Field("calls", number),
    "processes": Field("processes", number),
    "persistent_cache": Field(
        "persistent_cache", _persistent_cache, lambda hide, _, held: hide.cache(held)
    ),
    "compiled_with": Field(
        "",
        named_values,
        lambda hide, _, held: hide.key(Key(options=held), "").options,
        put=_put_compile_options,
    ),
    "lowered_with": Field("lowered_with", text, lambda hide, _, held: hide.lowered_with(held)),
    "carried": Field("carried", text, lambda hide, _, held: hide.carried(held)),
    "slow": Field(
        "slow",
        _unchanged,
        lambda hide, _, held: hide.slow(held),
        slow.encode_slow,
        _add_slow,
    ),
    "said": Field(
        "said",
        _pairs,
        lambda hide, _, held: tuple((who, hide.said(words)) for who, words in held),
        put=_add_said,
    ),
}
"""Fields of a miss besides its parts (`parts.PARTS`) and its program."""

MISS_LINE: Mapping[str, Field[Any]] = {
    **MISS,
    "program": Field("program", _unchanged, lambda hide, _, program: hide.program(program)),
}
"""All fields of a line about a miss that are not parts. Its program takes several (`PROGRAM`)."""


def encode_miss(known: MissFields, hide: Redaction | None) -> dict[str, JSON]:
    """The fields of a line about a miss, redacted if `hide` is given."""
    line = encode_fields(known, MISS_LINE, hide)
    if (program := cast(Program | None, line.get("program"))) is not None:
        line |= {"program": program[:2], **non_defaults(program, PROGRAM)}
    return line


def decode_miss(
    line: Mapping[str, Any], parts: Parts, run: str, before: Miss | None = None
) -> Miss:
    """Decode the line of a new miss; raises one of `decoded.NONSENSE`.

    `before` is the miss whose function and key it has, if it names one.
    """
    index = number(line["miss"])
    if before is None:
        function = parts["function", line["function"]]
        key = Key(*[_part(line, kind, parts) for kind in Key._fields])
    else:
        function, key = before.function, before.key
    miss = Miss(
        id=f"{run}-{index}",
        run=run,
        number=index,
        time=seconds(line["at"]),
        thread=text(line["thread"]),
        function=function,
        key=key,
        call_site=_part(line, "call_site", parts) or None,
        # Not part of the key: the miss is useful without it.
        callers=parts.get(("callers", line.get("callers", -1)), ()),
        new_object=False,
        bodies=tuple([parts["function", body] for body in line.get("bodies", ())]),
    )
    read_into(miss, line, MISS)
    return miss


def amend(miss: Miss, line: Mapping[str, Any], parts: Parts) -> None:
    """Add the fields of a later line to a miss; raises as `decode_miss` does."""
    if not line.keys().isdisjoint(PARTS):
        if "function" in line:
            miss.function = parts["function", line["function"]]
        if "call_site" in line:
            miss.call_site = _part(line, "call_site", parts) or None
        miss.key = Key(
            *(
                _part(line, kind, parts) if kind in line else getattr(miss.key, kind)
                for kind in Key._fields
            )
        )
    read_into(miss, line, MISS)
    if miss.raised is not None:
        miss.in_flight = None
    if line.get("program") is not None:
        miss.program = decode_program(line)


def _part(line: Mapping[str, Any], kind: str, parts: Parts) -> Any:
    index = line.get(kind)
    return () if index is None else parts[kind, index]
