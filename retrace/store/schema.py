"""The lines of a recording: one JSON object each, written as misses happen.

    {"retrace": 1, "run": {...}}                 the first line of every file
    {"part": 7, "kind": "leaves", "value": ...}  a long or repeated part, once a file
    {"part": 9, "kind": "leaves", "like": 7, "value": ...}    those of 7 in other shapes
    {"miss": 3, "at": ..., "function": 2, "leaves": 7, ...}   a miss began; parts by number
    {"miss": 8, "again": 3, "at": ...}           one began with the function and key of another
    {"amend": 3, "stages": {"trace": 0.1}, ...}  what became known of it later
    {"run": {"backend": "cpu"}}                  what became known of the run later: its devices,
                                                 its settings, whether files were changed
    {"audit": 1, "at": ..., "checked": [...], ...}   which programs are out of date (`audits`)
    {"loss": "unreadable static value"}          something could not be recorded; "count": 3
    {"end": true}                                the process closed its recording

`"program": [HASH, EQUATIONS]` of an amendment may have `"listing"`, the id of its text
(`store/programs.py`), `"arrays"`, the numbers of the device arrays that it captured,
`"held"`, those of what its custom rules hold, and where it calls back into Python:
`"callbacks": [[PRIMITIVE, FILE, LINE], ...]`, and `"results"`, a digest of the paths of its
results.

With `"stages": {"trace": 0.1}` comes `"began": {"trace": 1763666400.25}`: when it began.

A miss that is over when it is written has `"over": {...}`, all that amendments would say.

An amendment may have `"said": [["jax", TEXT], ...]`, what the log that it was imported from
says of it; the run of such a file has `"source": "log"`.
`"slow": {...}` says where its seconds went (`store/slow.py`).
`"processes": N` says on the devices of how many processes the program runs; `"since"`, beside
`"stage": "compile"`, when that began.

`"lowered_with"` is a digest of what its module holds besides the equations.

Both lines of a miss may have `"compiled_with"`: options that `Lowered.compile` was given.

Format 1: the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

from retrace.model import (
    JSON,
    Callback,
    CallSite,
    Function,
    Key,
    Kind,
    Miss,
    Node,
    PersistentCache,
    Program,
    Receiver,
    Stage,
    Value,
)
from retrace.store.decoded import class_ as _class
from retrace.store.decoded import number as _number
from retrace.store.decoded import seconds as _seconds
from retrace.store.decoded import text as _text
from retrace.store.decoded import text_or_none as _text_or_none
from retrace.store.decoded import value as _value
from retrace.store.leaves import decode_leaves
from retrace.store.slow import decode_slow

FORMAT = 1

LONGEST_LINE = 1 << 26
"""Bytes; no line is longer, and a reader takes no longer one."""

MOST_ITEMS = 1 << 23
"""Values that a reader takes in one line: a million equations, or leaves, are fewer."""

PARTS = ("function", *Key._fields, "call_site", "callers")
"""The kinds of parts; a miss names one of each by its number, or null."""


def check_items(text: str | bytes) -> None:
    """Raise ValueError on JSON that would take far more memory than it is long."""
    if len(text) > MOST_ITEMS:
        marks = (b",", b"[", b"{") if isinstance(text, bytes) else (",", "[", "{")
        if sum(map(cast(Any, text).count, marks)) > MOST_ITEMS:
            raise ValueError("too many values")


# Named tuples and string enums are JSON already: `json.dumps` writes them as
# arrays and strings. Only the dataclasses need a shape of their own.


def encode_function(function: Function) -> dict[str, JSON]:
    """A function part, without the fields that hold their defaults."""
    receiver = function.receiver
    fields: dict[str, JSON] = {
        "name": function.name,
        "jax_name": function.jax_name,
        "qualname": function.qualname,
        "kind": function.kind,
        "file": function.file,
        "line": function.line,
        "site": function.site,
        "object": function.object,
    }
    if function.code is not None:
        fields["code"] = function.code
    named = ("closure", "defaults", "bound", "wrappers", "reads", "base", "decorators", "around")
    for name in named:
        if value := getattr(function, name):
            fields[name] = value
    if receiver is not None:
        fields["receiver"] = [receiver.type, receiver.object, receiver.equal, receiver.value]
    if function.source is not None:
        fields["source"] = function.source
    if function.in_library:
        fields["library"] = True
    return fields


def encode_call_site(site: CallSite) -> list[JSON]:
    """A call site part."""
    return [*site[:5], True] if site.untraceable else [*site[:5]]


def _values(rows: Any) -> tuple[tuple[str, Value], ...]:
    return tuple((_text(name), _value(row)) for name, row in rows)


def _node(row: Any) -> Node:
    path, type_, children, meta, *later = row
    made = _class(later[0]) if later and later[0] is not None else None
    return Node(_text(path), _text(type_), tuple(map(_text, children)), _values(meta), made)


def _numbers(row: Any) -> tuple[int | None, ...]:
    return tuple(None if number is None else _number(number) for number in row)


def _callback(row: Any) -> Callback:
    primitive, file, line = row
    where = None if line is None else _number(line)
    return Callback(_text(primitive), _text_or_none(file), where)


def _receiver(row: Any) -> Receiver | None:
    if row is None:
        return None
    type_, number, equal, value = row
    return Receiver(
        _text(type_),
        None if number is None else _number(number),
        _text_or_none(equal),
        None if value is None else _value(value),
    )


def decode_function(fields: Any) -> Function:
    """The function of a part; raises TypeError, ValueError or LookupError on nonsense."""
    line = fields["line"]
    return Function(
        name=_text(fields["name"]),
        jax_name=_text(fields["jax_name"]),
        qualname=_text(fields["qualname"]),
        kind=Kind(fields["kind"]),
        file=_text_or_none(fields["file"]),
        line=None if line is None else _number(line),
        site=_text(fields["site"]),
        object=_number(fields["object"]),
        code=_text_or_none(fields.get("code")),
        closure=_values(fields.get("closure", ())),
        defaults=_values(fields.get("defaults", ())),
        bound=_values(fields.get("bound", ())),
        wrappers=tuple(map(_text, fields.get("wrappers", ()))),
        receiver=_receiver(fields.get("receiver")),
        source=_text_or_none(fields.get("source")),
        in_library=bool(fields.get("library", False)),
        reads=_values(fields.get("reads", ())),
        base=_number(fields.get("base", 0)),
        decorators=tuple(map(_text, fields.get("decorators", ()))),
        around=tuple(map(_text, fields.get("around", ()))),
    )


def decode_call_site(row: Any) -> CallSite:
    """The call site of a part."""
    file, line, function, source, library, *later = row
    return CallSite(
        _text(file),
        _number(line),
        _text(function),
        _text_or_none(source),
        bool(library),
        bool(later and later[0]),
    )


def decode_part(kind: str, value: Any) -> Any:
    """A part by its kind; raises TypeError, ValueError or LookupError on nonsense."""
    match kind:
        case "function":
            return decode_function(value)
        case "leaves":
            return decode_leaves(value)
        case "tree":
            return tuple(map(_node, value))
        case "signature":
            return tuple((_text(name), _text(passing)) for name, passing in value)
        case "static" | "options" | "config":
            return _values(value)
        case "call_site":
            return decode_call_site(value)
        case "callers":
            return tuple(map(decode_call_site, value))
        case _:
            raise ValueError(f"no such part: {kind!r}")


Parts: TypeAlias = Mapping[tuple[str, int], Any]
"""Decoded parts by kind and number."""


def _part(line: Mapping[str, Any], kind: str, parts: Parts) -> Any:
    number = line.get(kind)
    return () if number is None else parts[kind, number]


def _callers(line: Mapping[str, Any], parts: Parts) -> tuple[CallSite, ...]:
    # No part of the key: a miss is worth telling without it.
    number = line.get("callers")
    return (
        () if number is None else cast("tuple[CallSite, ...]", parts.get(("callers", number), ()))
    )


def decode_miss(
    line: Mapping[str, Any], parts: Parts, run: str, before: Miss | None = None
) -> Miss:
    """The miss that a line began; raises TypeError, ValueError or LookupError on nonsense.

    `before` is the miss that it has the function and the key of, where it names one.
    """
    number = _number(line["miss"])
    parent = line.get("parent")
    if before is None:
        function = cast(Function, parts["function", line["function"]])
        key = Key(*(_part(line, kind, parts) for kind in Key._fields))
    else:
        function, key = before.function, before.key
    return Miss(
        id=f"{run}-{number}",
        run=run,
        number=number,
        time=_seconds(line["at"]),
        thread=_text(line["thread"]),
        function=function,
        key=_compiled_with(key, line),
        call_site=_part(line, "call_site", parts) or None,
        callers=_callers(line, parts),
        parent=None if parent is None else f"{run}-{_number(parent)}",
        derived=_text_or_none(line.get("derived")),
        nested=bool(line.get("nested", False)),
        entry=decode_call_site(entry) if (entry := line.get("entry")) else None,
        through=_text_or_none(line.get("through")),
        via=_text_or_none(line.get("via")),
        within=_WITHIN[within] if (within := line.get("within")) else None,
        lines=_text_or_none(line.get("lines")),
        ahead=bool(line.get("ahead", False)),
        new_object=bool(line.get("new", False)),
        bodies=tuple(
            cast(Function, parts["function", index]) for index in line.get("bodies", ())
        ),
        new_bodies=tuple(map(bool, line.get("new_bodies", ()))),
        settings=tuple(
            [(name, decode_call_site(row)) for name, row in line.get("settings", {}).items()]
        ),
        unseen=tuple([_text(part) for part in line.get("unseen", ())]),
        epoch=_number(line.get("epoch", 0)),
        function_epoch=_number(line.get("function_epoch", 0)),
        in_flight=Stage(stage) if (stage := line.get("stage")) else None,
    )


_WITHIN: Mapping[str, Literal["callback", "import", "tree"]] = {
    "callback": "callback",
    "import": "import",
    "tree": "tree",
}


def _compiled_with(key: Key, line: Mapping[str, Any]) -> Key:
    if (options := line.get("compiled_with")) is None:
        return key
    return key._replace(options=tuple({**dict(key.options), **dict(_values(options))}.items()))


def _cached(row: Any) -> PersistentCache:
    outcome, key, reason, *later = row
    ingredients: Any = later[0] if later else ()
    own: Any = later[1] if len(later) > 1 else ()
    saved = later[2] if len(later) > 2 else None
    options: Any = later[3] if len(later) > 3 else ()
    if outcome not in ("hit", "miss", "not-stored", "off"):
        raise ValueError(f"no such outcome: {outcome!r}")
    return PersistentCache(
        outcome,
        _text_or_none(key),
        _text_or_none(reason),
        tuple((_text(name), _text(digest)) for name, digest in ingredients),
        tuple(map(_text, own)),
        None if saved is None else _seconds(saved),
        tuple((_text(name), _text(value)) for name, value in options),
    )


def _amend_slow(miss: Miss, line: Mapping[str, Any]) -> None:
    if (slow := line.get("slow")) is not None:
        miss.slow = decode_slow(slow, miss.slow)


def _count(miss: Miss, line: Mapping[str, Any]) -> None:
    if (calls := line.get("calls")) is not None:
        miss.calls = _number(calls)
    if (processes := line.get("processes")) is not None:
        miss.processes = _number(processes)


def amend(miss: Miss, line: Mapping[str, Any], parts: Parts) -> None:
    """Add to a miss what a later line says; raises as `decode_miss` does."""
    if not line.keys().isdisjoint(PARTS):
        if "function" in line:
            miss.function = cast(Function, parts["function", line["function"]])
        if "call_site" in line:
            miss.call_site = _part(line, "call_site", parts) or None
        miss.key = Key(
            *(
                _part(line, kind, parts) if kind in line else getattr(miss.key, kind)
                for kind in Key._fields
            )
        )
    miss.key = _compiled_with(miss.key, line)
    if (derived := line.get("derived")) is not None:
        miss.derived = _text(derived)
    _progress(miss, line)
    if "inner" in line:
        miss.inner += _number(line["inner"])
    _count(miss, line)
    if (cache := line.get("persistent_cache")) is not None:
        miss.persistent_cache = _cached(cache)
    if (digest := line.get("lowered_with")) is not None:
        miss.lowered_with = _text(digest)
    _amend_slow(miss, line)
    if said := line.get("said"):
        miss.said += tuple([(_text(who), _text(text)) for who, text in said])
    if line.get("program") is not None:
        miss.program = _program(line)


def _progress(miss: Miss, line: Mapping[str, Any]) -> None:
    for stage, seconds in line.get("stages", {}).items():
        stage = Stage(stage)
        miss.stages[stage] = miss.stages.get(stage, 0.0) + _seconds(seconds)
        if miss.in_flight is stage:
            miss.in_flight = None
    for stage, at in line.get("began", {}).items():
        miss.began.setdefault(Stage(stage), _seconds(at))
    # Lines of two threads may change places: a stage that has ended is not begun again.
    if (stage := line.get("stage")) is not None and Stage(stage) not in miss.stages:
        miss.in_flight = Stage(stage)
    if (since := line.get("since")) is not None:
        miss.since = _seconds(since)
    if (raised := line.get("raised")) is not None:
        miss.raised = _text(raised)
        miss.in_flight = None


def _program(line: Mapping[str, Any]) -> Program:
    hash_, equations = line["program"]
    return Program(
        _text(hash_),
        _number(equations),
        _text_or_none(line.get("listing")),
        _numbers(line.get("arrays", ())),
        _numbers(line.get("held", ())),
        tuple(map(_callback, line.get("callbacks", ()))),
        _text_or_none(line.get("results")),
    )
