"""Ways to damage a recording: some blind to its format, some that know it well."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias, cast

Files: TypeAlias = dict[str, bytes]
"""The contents of a recording's directory, by file name."""

DEEP = 5_000
BOMB = 1 << 27

_NUMBERS: tuple[object, ...] = (
    0,
    1,
    -1,
    2,
    7,
    100_000,
    2**31,
    2**63,
    -(2**63) - 1,
    10**30,
    10**4299,
    1e308,
    -0.0,
    float("nan"),
    float("inf"),
)
_TEXTS = (
    "",
    "\x1b]0;owned\x07\x1b[2J",
    "::error::owned",
    "\n::error::owned\r",
    "##[error]owned",
    "<script>alert(1)</script>",
    "`]|[x](javascript:x)",
    "\u202egnp.exe\u2066",
    "\ud800",
    "\U000e0041",
    "../../../../etc/passwd",
    "/" * 300,
    "\u00b2",
    "\u0663",
    "f32[\u00b2]",
    "f32[3,4,99999999999999999999999]",
    "scan\t$\tf32[3]\tlength=" + "9" * 5000,
    "scan\t$ $ $\tf32[3] f32[3]\tjaxpr=@" + "0" * 32,
    "\t\t\t\t",
    "$",
    "$99",
    "x" * 20_000,
    "a" * 40 + ".",
    "nan",
)
_WORDS = (
    "miss",
    "amend",
    "part",
    "kind",
    "value",
    "like",
    "function",
    "leaves",
    "tree",
    "static",
    "parent",
    "retrace",
    "run",
    "loss",
    "end",
    "stages",
    "program",
    "listing",
    "call_site",
)


def mutate(files: Files, random: Random) -> Files:
    """Return a damaged copy."""
    files = dict(files)
    for _ in range(random.choice((1, 1, 2, 4))):
        random.choice(_MUTATIONS)(files, random)
    return files


def _some(files: Files, random: Random) -> str:
    return random.choice(sorted(files))


def _flip(files: Files, random: Random) -> None:
    name = _some(files, random)
    data = bytearray(files[name])
    for _ in range(random.choice((1, 1, 8, 200))):
        if data:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    files[name] = bytes(data)


def _splice(files: Files, random: Random) -> None:
    """Cut a piece out, or copy a piece elsewhere."""
    name = _some(files, random)
    data = files[name]
    start = random.randrange(len(data) + 1)
    piece = data[start : start + random.choice((1, 10, 1000))]
    at = random.randrange(len(data) + 1)
    if random.random() < 0.5:
        files[name] = data[:start] + data[start + len(piece) :]
    else:
        files[name] = data[:at] + piece + data[at:]


def _truncate(files: Files, random: Random) -> None:
    name = _some(files, random)
    files[name] = files[name][: random.randrange(len(files[name]) + 1)]


def _lines(files: Files, random: Random) -> None:
    """Lose, duplicate or reorder lines."""
    name = _some(files, random)
    lines = files[name].split(b"\n")
    for _ in range(random.choice((1, 3, 30))):
        if not lines:
            break
        index = random.randrange(len(lines))
        how = random.randrange(3)
        if how == 0:
            del lines[index]
        elif how == 1:
            lines.insert(random.randrange(len(lines) + 1), lines[index])
        else:
            other = random.randrange(len(lines))
            lines[index], lines[other] = lines[other], lines[index]
    files[name] = b"\n".join(lines)


def _swap(files: Files, random: Random) -> None:
    """Replace a file by another one."""
    name, other = _some(files, random), _some(files, random)
    files[name], files[other] = files[other], files[name]


def _junk(random: Random) -> Any:
    how = random.randrange(6)
    if how == 0:
        return random.choice(_NUMBERS)
    if how == 1:
        return random.choice(_TEXTS)
    if how == 2:
        return json.loads(random.choice(("null", "true", "false", "[]", "{}", "[[]]", "[null]")))
    if how == 3:
        return [_junk(random) for _ in range(random.randrange(4))]
    if how == 4:
        return {random.choice(_WORDS): _junk(random)}
    return random.randrange(40)


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        for key, item in fields.items():
            found.append((fields, key))
            _places(item, found)
    elif isinstance(value, list):
        items = cast(list[Any], value)
        for index, item in enumerate(items):
            found.append((items, index))
            _places(item, found)
    return found


def _replace(value: Any, random: Random) -> None:
    """Replace a few places in a JSON value."""
    places = _places(value, [])
    if not places:
        return
    for _ in range(random.choice((1, 1, 3, 10))):
        holder, at = random.choice(places)
        if isinstance(holder, dict) and at not in holder:
            continue
        how = random.randrange(8)
        if how == 0 and isinstance(holder, dict):
            del holder[at]
        elif how == 1:
            other, place = random.choice(places)
            if not isinstance(other, dict) or place in other:
                # Copy it as text: a value inside itself would not be JSON.
                holder[at] = json.loads(_dumps(other[place]))
        else:
            holder[at] = _junk(random)


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _json(files: Files, random: Random) -> None:
    """Change values in a line that stays JSON."""
    name = _some(files, random)
    lines = files[name].split(b"\n")
    for _ in range(random.choice((1, 2, 10))):
        index = random.randrange(len(lines))
        try:
            value = json.loads(lines[index])
        except (ValueError, RecursionError):
            continue
        _replace(value, random)
        lines[index] = _dumps(value).encode()
    files[name] = b"\n".join(lines)


def _block(files: Files, random: Random, *, rings: bool = False) -> None:
    """Change values inside a packed block of programs."""
    names = [name for name in sorted(files) if name.endswith(".programs")]
    if not names:
        return
    name = random.choice(names)
    lines = files[name].split(b"\n")
    index = random.randrange(len(lines))
    try:
        fields = json.loads(lines[index])
        packed = fields.pop("packed", None)
        block = fields.get("block") or json.loads(zlib.decompress(b64decode(packed)))
        _replace(block, random)
        if rings or random.random() < 0.3:
            _rings(block, random)
    except (ValueError, RecursionError, TypeError, AttributeError, LookupError, zlib.error):
        return
    if packed is None:
        fields["block"] = block
    else:
        fields["packed"] = b64encode(zlib.compress(_dumps(block).encode())).decode()
    lines[index] = _dumps(fields).encode()
    files[name] = b"\n".join(lines)


def _rings(block: dict[str, Any], random: Random) -> None:
    """Make programs contain themselves or each other, many times."""
    rows: list[list[Any]] = block["programs"]
    ids = [row[0] for row in rows]
    hashes = [f"{index:032x}" for index in range(len(rows))]
    for row in rows:
        row[10] = {hash_: random.choice(ids) for hash_ in hashes}
    inside = ",".join(f"@{random.choice(hashes)}" for _ in range(6))
    block["texts"] = [f"{text}\tbranches=({inside})" for text in block["texts"]]


def _bomb(files: Files, random: Random) -> None:
    """Add a few kilobytes that unpack to more than any memory."""
    unit = random.choice((b"[],", b"0,", b'"",', b"[" * 64, b'{"a":', b" "))
    zipper = zlib.compressobj(9)
    data = zipper.compress(b'{"texts":[')
    chunk = unit * ((1 << 16) // len(unit))
    for _ in range(BOMB // len(chunk)):
        data += zipper.compress(chunk)
    data += zipper.compress(b'0],"frames":[],"programs":[]}') + zipper.flush()
    names = [name for name in sorted(files) if name.endswith(".programs")]
    lines = files[names[0]].split(b"\n") if names else []
    ids = b",".join(_ids(line) for line in lines if line)
    packed = b64encode(data)
    line = b'{"listings":[' + ids + b'],"packed":"' + packed + b'"}'
    name = names[0] if names else "k3x9f2a.programs"
    files[name] = b"\n".join([line, *lines, b""])


def _deep(files: Files, random: Random) -> None:
    """Add endless nesting."""
    name = _some(files, random)
    depth = random.choice((100, 900, DEEP, 200_000))
    opening, closing = random.choice((("[", "]"), ('{"a":', "}")))
    nested = opening * depth + "0" + closing * depth
    template = random.choice(
        (
            '{"part":900,"kind":"static","value":[["x",["t","t",null,true,%s]]]}',
            '{"part":900,"kind":"tree","value":%s}',
            '{"listings":["a"],"block":%s}',
            '{"loss":%s}',
            '{"miss":900,"at":1.0,"thread":"t","function":0,"bodies":%s}',
            "%s",
        )
    )
    lines = files[name].split(b"\n")
    lines.insert(random.randrange(len(lines) + 1), (template % nested).encode())
    files[name] = b"\n".join(lines)


def _likes(files: Files, random: Random) -> None:
    """Add a chain of leaves, each like the previous one, or a circle of them."""
    names = [name for name in sorted(files) if name.endswith(".jsonl")]
    name = random.choice(names)
    leaves = [[f"x[{n}]", [n], "float32", False, None, False, None, None] for n in range(5)]
    lines = [_dumps({"part": 1000, "kind": "leaves", "value": leaves})]
    for number in range(1001, 1001 + random.choice((3, 2000))):
        like = random.choice((number - 1, number - 1, number, 1000, number + 1))
        shapes = [[random.choice((0, 3, 10**20, -5))] for _ in range(random.choice((5, 5, 4)))]
        lines.append(_dumps({"part": number, "kind": "leaves", "like": like, "value": shapes}))
        lines.append(
            _dumps({"miss": number, "at": 1.0, "thread": "t", "function": 0, "leaves": number})
        )
    files[name] = files[name] + "\n".join(lines).encode() + b"\n"


def _climb(files: Files, random: Random) -> None:
    """Use names and paths that lead out of the directory."""
    name = _some(files, random)
    data = files[name]
    old = random.choice((b".py", b'"id":"', b'"listing":"', b'"listings":["'))
    files[name] = data.replace(old, old + b"../../../../../../etc/passwd\\u0000")


def _same_run(files: Files, random: Random) -> None:
    """Add a second process with the same id, or another one with the same misses."""
    names = [name for name in sorted(files) if name.endswith(".jsonl")]
    name = random.choice(names)
    stem = name.removesuffix(".jsonl").encode()
    other = b"zz" + stem[2:]
    copy = files[name] if random.random() < 0.5 else files[name].replace(stem, other)
    files[f"{other.decode()}.jsonl"] = copy


_MUTATIONS: tuple[Callable[[Files, Random], None], ...] = (
    *(_json,) * 6,
    *(_block,) * 6,
    *(_flip,) * 2,
    *(_lines,) * 2,
    _splice,
    _truncate,
    _swap,
    _deep,
    _likes,
    _climb,
    _same_run,
)


def nested_programs(files: Files, random: Random) -> None:
    """Replace real programs, under their ids, by endlessly nested blocks."""
    for name in [name for name in files if name.endswith(".programs")]:
        ids = b",".join(_ids(line) for line in files[name].split(b"\n") if line)
        depth = random.choice((DEEP, 200_000))
        block = b"[" * depth + b"]" * depth
        files[name] = b'{"listings":[' + ids + b'],"block":' + block + b"}\n" + files[name]


def _ids(line: bytes) -> bytes:
    return line[line.find(b"[") + 1 : line.find(b"]")]


def rings(files: Files, random: Random) -> None:
    """Replace programs by ones that contain themselves and each other."""
    for _ in range(4):
        _block(files, random, rings=True)


NAMED: tuple[Callable[[Files, Random], None], ...] = (
    _deep,
    _likes,
    _climb,
    _same_run,
    rings,
    nested_programs,
)
"""Kinds of damage that a short random run may not try."""


def bomb(files: Files, random: Random) -> Files:
    """Return a copy with a compressed bomb among its programs; creating one takes a second."""
    files = dict(files)
    _bomb(files, random)
    return files
