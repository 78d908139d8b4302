"""The limits of a reader, as documented, and what happens beyond them."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

import pytest

from retrace.compare import programs as comparison
from retrace.compare import size
from retrace.compare import source_lines as line_counts
from retrace.compare.kernels import Kernels, kernels
from retrace.compare.programs import compare
from retrace.model import Listing, Recording, Run
from retrace.present.equations_by_line import table
from retrace.present.view import View
from retrace.store import decoded, programs, schema
from retrace.store.programs import Library
from retrace.store.reader import read
from retrace.store.shelf import encode

DOCS = Path(__file__).parents[2] / "docs" / "reliability.md"
RUN = (
    '{"retrace":1,"run":{"id":"abc","host":"h","pid":1,"process_index":null,"started":1.0,'
    '"argv":["p.py"],"python":"3.11","jax":"0.10","jaxlib":"0.10","backend":null}}'
)
FUNCTION = (
    '{"part":0,"kind":"function","value":{"name":"f","jax_name":"f","qualname":"f",'
    '"kind":"def","file":null,"line":1,"site":"s","object":1}}'
)
MISS = '{"miss":0,"at":1.0,"thread":"t","function":0}'
VALUES = ",".join(["0"] * (schema.MAX_ITEMS + 1))

ITEMS = f"{schema.MAX_ITEMS >> 20} million values"
NESTED_PROGRAMS = "programs inside programs"
LIMITS = [
    ("a line", f"{schema.MAX_LINE_BYTES >> 20} MiB and {ITEMS}"),
    ("nesting of a value", f"{decoded._MAX_DEPTH} levels"),
    ("a block of programs, unpacked", f"{programs._MAX_BLOCK_BYTES >> 20} MiB and {ITEMS}"),
    ("programs that are kept unpacked", f"{programs._MAX_CACHE_BYTES >> 20} MiB of text"),
    ("programs unpacked in total", f"{programs._MAX_UNPACKED >> 30} GiB of text"),
    *((NESTED_PROGRAMS, f"{part._MAX_DEPTH} levels") for part in (comparison, line_counts, size)),
    (
        "equations of programs that are repeatedly nested in others",
        f"{size._BUDGET // 10**6} million frames",
    ),
]


def test_the_limits_are_those_of_the_docs() -> None:
    text = DOCS.read_text()
    assert [row for row in LIMITS if f"| {' | '.join(row)} |" not in text] == []


def losses(directory: Path, line: str) -> dict[str, int]:
    """Return the losses of a recording with one additional line."""
    lines = [RUN, FUNCTION, MISS, line, '{"end":true}', ""]
    (directory / "abc.jsonl").write_text("\n".join(lines))
    recording = read([directory])
    assert len(recording.misses) == 1 and recording.runs[0].complete
    return recording.runs[0].losses


def nested(levels: int) -> str:
    data = "[" * levels + "]" * levels
    return f'{{"part":9,"kind":"static","value":[["x",["T","t",null,true,{data}]]]}}'


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        (f'{{"amend":0,"more":"{"x" * 1000}"}}', False),
        (f'{{"amend":0,"more":"{"x" * schema.MAX_LINE_BYTES}"}}', True),
        (f'{{"amend":0,"more":[{VALUES}]}}', True),
        (nested(64), False),
        (nested(65), True),
    ],
    ids=["short", "long", "values", "deep", "deeper"],
)
def test_a_line_beyond_the_limit_is_unreadable_and_counted(
    tmp_path: Path, line: str, lost: bool
) -> None:
    assert losses(tmp_path, line) == ({"unreadable line": 1} if lost else {})


def chained(number: int, *texts: str, inner: Sequence[Listing] = ()) -> Listing:
    return Listing(
        id=f"{number:024x}",
        hash=f"{number:032x}",
        size=len(texts),
        inputs=("f32[8]",),
        constants=(),
        equations=list(texts),
        wires=list(range(len(texts))),
        places=[],
        stacks=(),
        outputs=(f"${len(texts)}",),
        inner={program.hash: program.id for program in inner},
    )


@pytest.mark.parametrize(
    ("beside", "lost"),
    [('""', False), (f'"{" " * programs._MAX_BLOCK_BYTES}"', True), (f"[{VALUES}]", True)],
    ids=["short", "long", "values"],
)
def test_a_block_beyond_the_limit_is_unreadable_and_counted(
    tmp_path: Path, beside: str, lost: bool
) -> None:
    program = chained(1, "sin\t$\tf32[8]")
    block = encode([program]).partition('"block":')[2].removesuffix("}}")
    packed = b64encode(zlib.compress(f'{block},"beside":{beside}}}'.encode(), 1)).decode()
    (tmp_path / "abc.jsonl").write_text(RUN + "\n")
    line = f'{{"listings":["{program.id}"],"packed":"{packed}"}}\n'
    (tmp_path / "abc.programs").write_text(line)
    recording = read([tmp_path])
    assert (recording.listings.get(program.id) is None) is lost
    assert recording.runs[0].losses == ({"unreadable programs": 1} if lost else {})


def test_programs_beyond_the_total_limit_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [chained(number, *["sin\t$\tf32[8]"] * 1000) for number in range(20)]
    long = len(programs._unpacked(encode(found[:1])))
    monkeypatch.setattr(programs, "_MAX_UNPACKED", 4 * long + long // 2)
    path = tmp_path / "abc.programs"
    path.write_text("".join(f"{encode([program])}\n" for program in found))
    kept, run = Library(), Run("abc", "", 0, None, 0.0, [], "", "", "")
    kept.add_file(path, run)
    assert [number for number in range(20) if kept.get(found[number].id)] == list(range(5))
    assert run.losses == {"unreadable programs": 15}


def deep(levels: int, innermost: str, first: int) -> list[Listing]:
    """Nest a program in another, and so on; the outermost comes last."""
    found = [chained(first, innermost)]
    for number in range(first + 1, first + levels + 1):
        inside = found[-1]
        found.append(chained(number, f"jit\t$\tf32[8]\tjaxpr=@{inside.hash}", inner=[inside]))
    return found


@pytest.mark.parametrize(("levels", "compared"), [(35, True), (45, False), (5000, False)])
def test_programs_inside_programs(levels: int, compared: bool) -> None:
    old = deep(levels, "mul\t$ 2.0:f32[]\tf32[8]", 0)
    new = deep(levels, "mul\t$ 3.0:f32[]\tf32[8]", 10_000)
    other = deep(levels, "sin\t$\tf32[8]", 20_000)
    listings = {program.id: program for program in (*old, *new, *other)}
    assert compare(old[-1], new[-1], listings).kind == (
        "constants-only" if compared else "different"
    )
    found = compare(old[-1], other[-1], listings)
    assert found.kind == "different" and bool(found.lines) is compared
    samples = size.samples(old[-1:], listings)
    assert (sum(amount.equations for amount in samples.values()) == levels + 1) is compared
    printed = table(View(Recording([], []), [], ""), 1, samples, [])
    assert ("not counted" in printed) is not compared


def test_programs_that_are_repeatedly_nested() -> None:
    inside = chained(0, "sin\t$\tf32[8]")
    found = [inside]
    for number in range(1, 30):  # each is called twice by the next: a billion in total
        text = f"jit\t$\tf32[8]\tjaxpr=@{found[-1].hash}"
        found.append(chained(number, text, f"{text}\tname=again", inner=[found[-1]]))
    listings = {program.id: program for program in found}
    assert kernels(found[-1], listings) == Kernels({})
    around_itself = found[-1]._replace(inner={found[-2].hash: found[-1].id})
    assert not kernels(around_itself, {**listings, around_itself.id: around_itself}).whole
    samples = size.samples(found[-1:], listings)
    assert not samples.whole
    printed = table(View(Recording([], []), [], ""), 1, samples, [])
    assert "not counted" in printed
