"""What changed among the values that a stale program had read, and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias, cast

from retrace.compare.programs import Difference
from retrace.compare.values import Difference as Part
from retrace.compare.values import differences, of_array
from retrace.model import JSON, Checked, Function, Reading, Source, Value
from retrace.reason.evidence import holds_arrays
from retrace.reason.fields import is_function
from retrace.reason.rules import root
from retrace.reason.used import Used, used

StaleVerdict: TypeAlias = Literal["proved", "each-trace", "perhaps", "not-checked"]
How: TypeAlias = Literal["argument", "static", "again", "result"]

_MAX_FIELDS = 4
_OTHER = "other contents"
"""What is told of an array that changed, but has the same type."""
_ARRAY = {"array", "content"}
"""What is recorded of a small host array: its type and a hash of its contents."""
_STATIC_TYPES = frozenset(
    ("bool", "str", "int", "float", "NoneType", "function", "type", "PjitFunction")
)
"""Types that can be static arguments."""


_NUMBERS = frozenset(("int", "float", "complex"))


class Change(NamedTuple):
    """A value that a function reads, before and now."""

    name: str
    old: object
    new: object
    """None if it is gone."""
    old_text: str
    new_text: str
    file: str | None
    line: int | None
    is_constant: bool = False
    """Whether it is a constant of the program that changed along with it."""
    how: How = "again"
    """How the function must receive it so that the program follows."""
    is_number: bool = False
    is_array: bool = False
    is_hashable: bool = False
    """Whether it can be a static argument."""


class Remedy(NamedTuple):
    """What to do about a stale program."""

    code: Literal["pass-state", "rejit"]
    function: str
    names: tuple[str, ...]
    """The changed values that it reads, or the sources that differ at each trace."""
    how: How
    """How to pass it, or that the function is jitted again."""
    is_attribute: bool = False
    """Whether the names are attributes of the object that the method belongs to."""


def changes(checked: Checked, difference: Difference | None) -> tuple[Change, ...]:
    """What a checked program had read that has changed since, without duplicates.

    Args:
        checked: what the audit observed.
        difference: between the old and the new program, if both are known.
    """
    reads = [read for read in checked.reads if not read.written] or list(checked.reads)
    constants: set[tuple[str, str]] = (
        set()
        if difference is None
        else {(_bare(one.old), _bare(one.new)) for one in difference.constants}
    )
    only = difference is not None and difference.kind == "constants-only"
    found: dict[str, Change] = {}
    # The code also reads what a closure holds, and shows its name and previous value.
    plain = [read for read in reads if read.old.data is None or _is_plain(read.old.data)]
    others = [read for read in reads if read not in plain]
    for change in (one for read in plain for one in _changes_of(read, constants, only=only)):
        found.setdefault(change.name, change)
    read_too = {(root(change.name), change.new_text) for change in found.values()}
    for change in (one for read in others for one in _changes_of(read, constants, only=only)):
        if (root(change.name), change.new_text) not in read_too:
            found.setdefault(change.name, change)
    told = [_as_used(one, used(one.name, checked.uses), difference) for one in found.values()]
    # Those that appear as constants in the program are the reason; the others may not be.
    return tuple(sorted((one for one in told if one), key=lambda change: not change.is_constant))


def _as_used(change: Change, way: Used, difference: Difference | None) -> Change | None:
    """The same, to be passed as its use allows; None if the functions do not use it."""
    if way is Used.NEVER and not change.is_constant:
        return None
    if way is Used.INSIDE:
        return change._replace(how="again", is_hashable=False)
    if change.how != "argument":
        return change
    if change.is_number or difference is None:
        is_data = difference is None or not difference.fixed
    elif change.is_array:
        # Other sizes in the program may be the numbers that the array holds.
        is_data = change.new_text != _OTHER or not difference.sizes
    else:
        is_data = difference.kind == "constants-only"
    if way is Used.BY_ITEM or (way is Used.AS_IT_IS and is_data):
        return change
    return change._replace(how="static" if change.is_hashable else "again")


def _is_plain(data: JSON) -> bool:
    return not isinstance(data, dict | list)


def others_wrote(checked: Checked) -> bool:
    """Whether anything changed that the function itself does not write.

    A helper in a closure that holds what it writes, such as a callback's counter, is also
    reported as a whole.
    """
    written = {_ends(read.name) for read in checked.reads if read.written}
    # Changes are named without an object's private dict.
    written |= {(root_, root_) for root_, last in written if last.startswith("_")}
    return any(
        _ends(change.name) not in written
        for read in checked.reads
        if not read.written
        for change in _changes_of(read, (), only=False)
    )


def _ends(name: str) -> tuple[str, str]:
    """The start of a read and the variable it leads to, e.g. both of `timer.func.total['f']`."""
    variable = name.partition("[")[0]
    return variable.partition(".")[0], variable.rpartition(".")[2]


def remedy(
    function: Function,
    verdict: StaleVerdict,
    found: tuple[Change, ...],
    sources: tuple[Source, ...],
    difference: Difference | None,
) -> Remedy | None:
    """What to do, or None if nothing is known to help.

    Args:
        function: the function that is out of date.
        verdict: what the audits found.
        found: what it reads that has changed.
        sources: what it asks at each trace.
        difference: between the old and the new program, if both are known.
    """
    name = function.name
    if verdict == "each-trace":
        return Remedy("pass-state", name, (sources[0].name,) if sources else (), "result")
    if verdict != "proved":
        return None
    constants = [one for one in found if one.is_constant]
    meant = constants if _explain(constants, difference) else found
    hows: set[How] = {one.how for one in meant} or {"again"}
    if len(hows) > 1 and all(one.is_hashable and one.how != "again" for one in meant):
        hows = {"static"}
    # A library that holds the function in a closure calls it with its own arguments.
    is_called_by_library = any(".<locals>." in wrapper for wrapper in function.wrappers)
    # If JAX gets all these as they are and other constants changed, something else did as well.
    is_part = meant is not constants and hows == {"argument"} and len(constants) == len(meant)
    how = hows.pop()
    if hows or how == "again" or is_called_by_library or is_part:
        return Remedy("rejit", name, (), "again")
    names = tuple(one.name for one in meant)
    is_attribute = any(each.startswith(("self.", "cls.")) for each in names)
    return Remedy("pass-state", name, names, how, is_attribute)


def _explain(found: Sequence[Change], difference: Difference | None) -> bool:
    """Whether changed values are all the constants in which the two programs differ."""
    if not found or difference is None or difference.kind != "constants-only":
        return False
    known = {(_bare(one.old_text), _bare(one.new_text)) for one in found}
    return all((_bare(one.old), _bare(one.new)) in known for one in difference.constants)


def _changes_of(
    read: Reading, constants: Collection[tuple[str, str]], *, only: bool
) -> Iterator[Change]:
    old, new = read.old, read.new
    parts = () if new is None else differences(old, new)
    is_apart = parts and len(parts) <= _MAX_FIELDS and all(part.path for part in parts)
    if is_apart and not _are_array(old, parts):
        for part in parts:
            yield _change_of_part(read, part, constants, only=only)
        return
    texts = old.text, "gone" if new is None else new.text
    if new is not None and texts[0] == texts[1]:
        texts = old.text, _OTHER if holds_arrays(old) else f"another {new.type}"
    how: How = "again"
    if new is not None and not _is_reordered(old, new):
        both = holds_arrays(old) and holds_arrays(new)
        how = (
            _how(old, new, only=only) if not both else "again" if _has_names(old) else "argument"
        )
    yield Change(
        read.name,
        old.text if old.data is None else old.data,
        None if new is None else new.text if new.data is None else new.data,
        *texts,
        read.file,
        read.line,
        _among(texts, constants),
        how,
        *_traits(old, new),
    )


def _has_names(array: Value) -> bool:
    """Whether the items of an array have fields with names, which no array of JAX has."""
    return array.text.startswith("[(")


def _is_reordered(old: Value, new: Value) -> bool:
    """Whether only the order of a dict differs. Passed, JAX would sort its keys."""
    before, after = old.data, new.data
    return type(before) is dict and before == after


def _change_of_part(
    read: Reading, part: Part, constants: Collection[tuple[str, str]], *, only: bool
) -> Change:
    held, through = _along(read.old.data, part.place)
    texts = (
        "not set" if part.kind == "added" else repr(part.old),
        "gone" if part.kind == "removed" else repr(part.new),
    )
    path = part.path
    how: How = _how(part.old, part.new, only=only) if part.kind == "changed" else "again"
    if held.keys() == _ARRAY and part.place[-1] == "content":
        path, how = of_array(path, part.old, part.new), "argument"
        texts = str(held.get("array")), _OTHER
    return Change(
        read.name + path,
        part.old,
        part.new,
        *texts,
        read.file,
        read.line,
        _among(texts, constants),
        "again" if through else how,
        *_traits(part.old, part.new),
    )


def _along(data: JSON, place: tuple[str | int, ...]) -> tuple[dict[str, JSON], bool]:
    """What directly holds a part of a value, and whether the path leads into a function.

    Nobody can pass what a library's function has in its closure cells.
    """
    held: dict[str, JSON] = {}
    through = False
    for name in place:
        if isinstance(data, list):
            items = cast(list[JSON], data)
            data = items[name] if isinstance(name, int) and name < len(items) else None
            held = {}
            continue
        if not isinstance(data, dict):
            return {}, True
        held = cast(dict[str, JSON], data)
        through = through or is_function(held.get("$type"))
        data = held.get(str(name))
    return held, through


def _are_array(old: Value, parts: tuple[Part, ...]) -> bool:
    """Whether the parts belong to an array."""
    return holds_arrays(old) and all(part.place in (("array",), ("content",)) for part in parts)


def _how(old: object, new: object, *, only: bool) -> How:
    """How a value can be passed.

    Args:
        old: the previous value: a `Value`, or a part of one as plain data.
        new: the current value.
        only: whether the programs differ only in constants, so that no Python branch depends on
            the value.
    """
    kinds = {_kind(one) for one in (old, new)}
    if kinds <= _NUMBERS and only:
        return "argument"
    if kinds <= {"numbers"}:
        return "argument"
    return "static" if kinds <= _STATIC_TYPES else "again"


def _traits(old: object, new: object) -> tuple[bool, bool, bool]:
    """Whether a value is a number, an array, and something that can be a static argument."""
    kinds = {_kind(one) for one in (old, new)}
    types = {one.type for one in (old, new) if isinstance(one, Value)}
    arrays = isinstance(old, Value) and holds_arrays(old)
    return kinds <= _NUMBERS, arrays, kinds <= _STATIC_TYPES or types == {"tuple"}


def _kind(one: object) -> str:
    if not isinstance(one, Value):
        if isinstance(one, str) and one.startswith("<"):
            return "function" if is_function(one) else "object"
        return "numbers" if _is_numbers(one) else type(one).__name__
    if _is_numbers(one.data):
        return "numbers"
    if is_function(one.text):
        return "function"
    if one.type in ("float", "complex"):
        return one.type  # also for NaN, which is recorded as text
    # An enum member is recorded by its name and only equals itself.
    return "str" if isinstance(one.data, str) and one.exact else one.type.rpartition(".")[2]


def _is_numbers(data: object) -> bool:
    """Whether it is a container of numbers only, which JAX flattens as a tree."""
    if isinstance(data, list):
        items = cast(list[object], data)
    elif isinstance(data, dict) and "$type" not in data and data.keys() != _ARRAY:
        items = list(cast(dict[str, object], data).values())
    else:
        return False
    return bool(items) and all(type(one) in (int, float) or _is_numbers(one) for one in items)


def _among(texts: tuple[str, str], constants: Collection[tuple[str, str]]) -> bool:
    return (_bare(texts[0]), _bare(texts[1])) in constants


def _bare(text: str) -> str:
    """A number without its type, such as `2.0` of `2.0:f32[]`."""
    number = text.partition(":")[0]
    try:
        return repr(float(number))
    except ValueError:
        return number
