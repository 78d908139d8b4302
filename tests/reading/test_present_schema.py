"""The shape of the JSON report, field by field: other programs rely on it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from retrace.causes import Cause
from retrace.model import Component, Key, Kind
from retrace.model.parts import PARTS, Arrays, Containers, Values, Words
from retrace.present import report_json
from tests.reading.story import Story, array, at, function, hostile, killed, training

TEXT = {"type": "string"}
WORDS = {"type": "string", "minLength": 1}
MAYBE_TEXT = {"type": ["string", "null"]}
NUMBER = {"type": "integer", "minimum": 0}
MAYBE_NUMBER = {"type": ["integer", "null"], "minimum": 0}
SECONDS = {"type": "number", "minimum": 0}
MAYBE_SECONDS = {"type": ["number", "null"], "minimum": 0}
FLAG = {"type": "boolean"}
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"}
ID = {"type": "string", "pattern": "^[0-9a-z.-]+$"}
MAYBE_ID = {"anyOf": [ID, {"type": "null"}]}
CODE = {"enum": [cause.value for cause in Cause]}
KIND = {"enum": [kind.value for kind in Kind]}


def record(maybe: bool = False, added: dict[str, Any] | None = None, **fields: Any) -> Any:
    """An object with exactly these fields, all required except those `added` later."""
    return {
        "type": ["object", "null"] if maybe else "object",
        "properties": {**fields, **(added or {})},
        "required": list(fields),
        "additionalProperties": False,
    }


def table(names: Any, values: Any) -> Any:
    return {"type": "object", "propertyNames": names, "additionalProperties": values}


def rows(of: Any) -> Any:
    return {"type": "array", "items": of}


VALUE = record(type=TEXT, text=TEXT, token=MAYBE_TEXT, exact=FLAG, data={})
VALUES = table(TEXT, VALUE)

_PARTS = {
    Arrays: rows(
        record(
            path=TEXT,
            shape=rows({"type": ["integer", "string"]}),
            dtype=TEXT,
            weak_type=FLAG,
            sharding=MAYBE_TEXT,
            committed=FLAG,
            memory_kind=MAYBE_TEXT,
            layout=MAYBE_TEXT,
        )
    ),
    Containers: rows(record(path=TEXT, type=TEXT, children=rows(TEXT), meta=VALUES)),
    Values: VALUES,
    Words: table(TEXT, TEXT),
}

KEY = record(
    function=record(
        object=NUMBER,
        site=TEXT,
        code=MAYBE_TEXT,
        closure=VALUES,
        defaults=VALUES,
        bound=VALUES,
        wrappers=rows(TEXT),
        decorators=rows(TEXT),
        around=rows(TEXT),
        reads=VALUES,
    ),
    **{row.name: _PARTS[type(row)] for row in PARTS},
)

CALL_SITE = record(
    maybe=True, file=TEXT, line=NUMBER, function=TEXT, source=MAYBE_TEXT, library=FLAG
)

MISS = record(
    id=ID,
    label=WORDS,
    run=ID,
    time=TIME,
    function=record(
        name=TEXT, jax_name=TEXT, qualname=TEXT, file=MAYBE_TEXT, line=MAYBE_NUMBER, kind=KIND
    ),
    call_site=CALL_SITE,
    parent=MAYBE_ID,
    derived=MAYBE_TEXT,
    inner=NUMBER,
    calls=MAYBE_NUMBER,
    thread=TEXT,
    stages=record(trace=MAYBE_SECONDS, lower=MAYBE_SECONDS, compile=MAYBE_SECONDS),
    in_flight={"enum": ["trace", "lower", "compile", None]},
    raised=MAYBE_TEXT,
    persistent_cache=record(
        maybe=True,
        outcome={"enum": ["hit", "miss", "not-stored", "off"]},
        key=MAYBE_TEXT,
        reason={
            "enum": [
                None,
                "min-compile-time",
                "min-entry-size",
                "corrupt-entry",
                "host-callback",
                "write-failed",
                "other",
            ]
        },
    ),
    cause=CODE,
    detail=MAYBE_TEXT,
    said=rows(record(by=TEXT, text=TEXT)),
    pattern=MAYBE_TEXT,
    nearest=MAYBE_ID,
    changes=rows(
        record(
            component={"enum": [component.value for component in Component]},
            path=MAYBE_TEXT,
            detail=TEXT,
            old={},
            new={},
            exact=FLAG,
        )
    ),
    reads=rows(record(path=TEXT, detail=TEXT, old={}, new={}, exact=FLAG)),
    program=record(
        hash=MAYBE_TEXT,
        equations=MAYBE_NUMBER,
        evidence={"type": "array", "items": TEXT},
        change={
            "enum": [
                None,
                "identical",
                "shapes-only",
                "constants-only",
                "repeated",
                "different",
            ]
        },
    ),
    avoidable={"enum": ["yes", "no", "maybe"]},
    explanation=WORDS,
    fix=record(maybe=True, code=WORDS, text=WORDS),
    findings=rows(
        record(
            code={"enum": ["slow-dispatch"]},
            primitive=TEXT,
            file=MAYBE_TEXT,
            line=MAYBE_NUMBER,
            text=WORDS,
        )
    ),
    added={"key": KEY},
)

CHANGE = record(
    component={"enum": [part.value for part in Component]},
    path=MAYBE_TEXT,
    detail=TEXT,
    old={},
    new={},
    exact=FLAG,
)
PROCESS = {"type": "string", "pattern": r"^\d+$"}
PARTING = record(
    function=TEXT,
    file=MAYBE_TEXT,
    line=MAYBE_NUMBER,
    occurrence=NUMBER,
    how={"enum": ["other", "extra", "missing", "environment"]},
    minority=rows(NUMBER),
    processes=table(PROCESS, record(miss=MAYBE_ID, program=MAYBE_TEXT, stopped=FLAG)),
    spans=MAYBE_NUMBER,
    call_site=record(True, file=TEXT, line=NUMBER, source=MAYBE_TEXT),
    changes=rows(CHANGE),
    reads=rows(CHANGE),
    explanation=WORDS,
)
UNSERVED = record(
    processes=rows(NUMBER),
    look_ups=NUMBER,
    seconds=SECONDS,
    why=table(
        {"enum": ["another-key", "stored-now", "elsewhere", "not-stored", "alone", "unknown"]},
        NUMBER,
    ),
    ingredients=rows(TEXT),
    compile_options=rows(record(name=TEXT, old=MAYBE_TEXT, new=MAYBE_TEXT)),
)
DIVERGENCE = record(
    equal=FLAG,
    processes=NUMBER,
    first={"anyOf": [PARTING, {"type": "null"}]},
    others=rows(PARTING),
    environment=rows(record(name=TEXT, values=table(PROCESS, {}), matters=FLAG)),
    stopped=rows(record(process=NUMBER, stage=MAYBE_TEXT, miss=MAYBE_ID, last=MAYBE_ID)),
    absent=rows(NUMBER),
    seconds=table(PROCESS, SECONDS),
    misses=table(PROCESS, NUMBER),
    disk_cache=rows(UNSERVED),
    comparable=FLAG,
)

PLACE: Any = {"file": MAYBE_TEXT, "line": MAYBE_NUMBER}
CUT = record(operations=NUMBER, seconds=SECONDS)
MAYBE_PLACE = record(maybe=True, **PLACE)
COPIES: Any = {
    "misses": rows(ID),
    "bytes": NUMBER,
    "constants": NUMBER,
    "equations": NUMBER,
    "text": MAYBE_NUMBER,
    "seconds": SECONDS,
    "differ": FLAG,
}
SLOW = record(
    schema={"const": "retrace-slow/1"},
    miss=ID,
    label=WORDS,
    stages=record(trace=MAYBE_SECONDS, lower=MAYBE_SECONDS, compile=MAYBE_SECONDS),
    observed=FLAG,
    trace=rows(
        record(
            **PLACE,
            function=MAYBE_TEXT,
            seconds=SECONDS,
            parts=table(WORDS, SECONDS),
            under=MAYBE_PLACE,
            inside=MAYBE_PLACE,
        )
    ),
    sampled=record(
        maybe=True,
        seconds=SECONDS,
        waited=SECONDS,
        samples=NUMBER,
        parts=table(WORDS, SECONDS),
        outermost=rows(record(**PLACE, function=TEXT, seconds=SECONDS)),
        functions=rows(record(**PLACE, function=TEXT, seconds=SECONDS)),
        collections=NUMBER,
        ended=FLAG,
    ),
    compile=record(
        passes=rows(
            record(
                name=WORDS,
                seconds=SECONDS,
                times=NUMBER,
                kind={"enum": ["pass", "code", "tuning", "other"]},
                **PLACE,
            )
        ),
        lines=rows(
            record(
                file=TEXT,
                line=NUMBER,
                function=MAYBE_TEXT,
                seconds=MAYBE_SECONDS,
                kernels=NUMBER,
                instructions=NUMBER,
                operations=rows(record(name=WORDS, count=NUMBER)),
            )
        ),
        kernels=MAYBE_NUMBER,
        unprofiled=MAYBE_TEXT,
        beside=FLAG,
    ),
    constants=rows(record(**PLACE, bytes=NUMBER, type=WORDS, on_device=FLAG)),
    unrolled=rows(record(**PLACE, times=NUMBER, equations=NUMBER)),
    repeated=rows(record(**PLACE, function=TEXT, times=NUMBER, equations=NUMBER)),
    nested=record(maybe=True, **PLACE, primitive=WORDS, depth=NUMBER, equations=NUMBER),
    heavy=rows(
        record(
            **PLACE,
            primitive=WORDS,
            times=NUMBER,
            arrays=NUMBER,
            largest=MAYBE_TEXT,
            bytes=NUMBER,
        )
    ),
    memory=record(
        maybe=True,
        arguments=NUMBER,
        outputs=NUMBER,
        temporaries=NUMBER,
        aliased=NUMBER,
        code=NUMBER,
    ),
    copies=record(maybe=True, **COPIES),
    donated=record(maybe=True, bytes=NUMBER, reused=NUMBER, refused=rows(WORDS)),
    growth=rows(
        record(
            stage={"enum": ["trace", "compile"]},
            power={"type": ["number", "null"]},
            by=MAYBE_TEXT,
            by_power={"type": ["number", "null"]},
            values=rows(NUMBER),
            points=rows(record(miss=ID, equations=NUMBER, seconds=SECONDS)),
        )
    ),
    advice=rows(
        record(
            code=WORDS,
            text=WORDS,
            **PLACE,
            seconds=MAYBE_SECONDS,
            before=MAYBE_NUMBER,
            after=MAYBE_NUMBER,
        )
    ),
    again=record(maybe=True, seconds=SECONDS),
    tried=rows(record(flags=MAYBE_TEXT, seconds=rows(SECONDS), processor=rows(SECONDS))),
    part=record(
        maybe=True,
        operations=NUMBER,
        seconds=SECONDS,
        whole=CUT,
        steps=rows(CUT),
        lines=rows(record(file=TEXT, line=NUMBER, operations=NUMBER)),
        kinds=rows(record(name=WORDS, count=NUMBER)),
    ),
    reproducer=record(maybe=True, file=WORDS, stand_ins=NUMBER),
)

REPORT = record(
    schema={"const": "retrace-report/1"},
    runs=rows(
        record(
            id=ID,
            host=TEXT,
            pid=NUMBER,
            process_index=MAYBE_NUMBER,
            job=MAYBE_TEXT,
            attempt=NUMBER,
            process_count=MAYBE_NUMBER,
            started=TIME,
            argv=rows(TEXT),
            python=TEXT,
            jax=TEXT,
            jaxlib=TEXT,
            backend=MAYBE_TEXT,
            source={"enum": ["program", "log"]},
            complete=FLAG,
            losses=table(TEXT, NUMBER),
        )
    ),
    summary=record(
        misses=NUMBER,
        traces=NUMBER,
        lowerings=NUMBER,
        compiles=NUMBER,
        seconds=record(trace=SECONDS, lower=SECONDS, compile=SECONDS),
        avoidable=record(misses=NUMBER, seconds=SECONDS),
        persistent_cache=record(
            hits=NUMBER,
            misses=NUMBER,
            off=NUMBER,
            not_stored=table(TEXT, NUMBER),
            seconds_saved={"type": ["number", "null"]},
            unserved=rows(UNSERVED),
        ),
        by_cause=table(CODE, record(misses=NUMBER, seconds=SECONDS)),
    ),
    slow=rows(SLOW),
    duplicates=rows(record(label=WORDS, **COPIES)),
    compiled_again=rows(
        record(
            function=TEXT,
            file=MAYBE_TEXT,
            line=MAYBE_NUMBER,
            times=NUMBER,
            processes=NUMBER,
            seconds=SECONDS,
            saved={"type": "array", "items": SECONDS, "minItems": 2, "maxItems": 2},
            stored_by_default=FLAG,
        )
    ),
    differ_by_constants=rows(
        record(
            function=TEXT,
            file=MAYBE_TEXT,
            line=MAYBE_NUMBER,
            programs=NUMBER,
            times=NUMBER,
            processes=NUMBER,
            seconds=SECONDS,
            saved={"type": "array", "items": SECONDS, "minItems": 2, "maxItems": 2},
            constants=rows(record(name=MAYBE_TEXT, values=rows(TEXT))),
        )
    ),
    stale=rows(
        record(
            function=TEXT,
            file=MAYBE_TEXT,
            line=MAYBE_NUMBER,
            verdict={"enum": ["proved", "perhaps", "each-trace", "not-checked"]},
            reads=rows(record(name=TEXT, old={}, new={}, file=MAYBE_TEXT, line=MAYBE_NUMBER)),
            reason=WORDS,
            fix=record(maybe=True, code=WORDS, text=WORDS),
            miss=ID,
            since=NUMBER,
            before=MAYBE_NUMBER,
            until=MAYBE_NUMBER,
            evidence=rows(WORDS),
        )
    ),
    divergence={"anyOf": [DIVERGENCE, {"type": "null"}]},
    functions=rows(
        record(
            name=TEXT,
            file=MAYBE_TEXT,
            line=MAYBE_NUMBER,
            kind=KIND,
            misses=NUMBER,
            first_traces=NUMBER,
            seconds=SECONDS,
            causes=table(CODE, NUMBER),
        )
    ),
    misses=rows(MISS),
)

VALIDATOR: Any = Draft202012Validator(REPORT)


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("story", [Story, training, killed, hostile])
def test_the_report_has_this_shape(story: Callable[[], Story], keys: bool) -> None:
    report = report_json.report(story().view(), keys=keys)
    VALIDATOR.validate(report)
    assert {"key" in miss for miss in report["misses"]} == (
        {keys} if story is not Story else set()
    )


def test_unknown_values_are_null() -> None:
    story = training()
    miss = story.misses[5]
    miss.call_site = miss.program = miss.persistent_cache = None
    miss.function = miss.function._replace(file=None, line=None)
    story.run.process_index = story.run.backend = None
    VALIDATOR.validate(report_json.report(story.view()))


@pytest.mark.parametrize(
    ("path", "field"),
    [((), "runs"), (("summary",), "traces"), (("misses", 0), "cause"), (("misses", 5), "fix")],
)
def test_a_field_that_is_missing_or_unknown_is_noticed(path: tuple[Any, ...], field: str) -> None:
    report = report_json.report(training().view())
    holder = report
    for step in path:
        holder = holder[step]
    spoilt = copy.deepcopy(report)
    del holder[field]
    with pytest.raises(ValidationError):
        VALIDATOR.validate(report)
    spoilt["more"] = 1
    with pytest.raises(ValidationError):
        VALIDATOR.validate(spoilt)


def test_another_program_of_a_call_says_how_it_was_derived() -> None:
    story = Story()
    step, key, site = function("step", 3), Key((array("x", "float32", 3),)), at(9, "step(x)")
    story.miss(step, key, site, derived="forward")
    story.miss(step, key, site, (None, 0.1, 0.2), derived="forward")
    story.miss(step, key, site, (0.1, 0.1, 0.2), derived="backward")
    told = report_json.report(story.view())["misses"]
    assert [miss["derived"] for miss in told] == [None, "forward", "backward"]
