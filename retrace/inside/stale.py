"""`retrace.audit()`: finds programs of this process that are out of date."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from retrace.errors import UsageError
from retrace.inside import live

if TYPE_CHECKING:
    from retrace.auditing.examination import Found
    from retrace.model import Recording
    from retrace.reason.stale import Audited


class Stale(Mapping[str, Any]):
    """What an audit found for one function: the fields of the JSON report, also as attributes."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._fields[name]
        except KeyError:
            raise AttributeError(f"no field {name!r}") from None

    def __repr__(self) -> str:
        return f"<{self._fields['function']}: {self._fields['verdict']}>"


class Audit(list[Stale]):
    """What an audit found, worst first; `print` shows the section of the report."""

    def __init__(self, found: list[Stale], text: str) -> None:
        super().__init__(found)
        self._text = text

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        from retrace.present.markup import text

        return f"<pre>{text(self._text)}</pre>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self._text)


def audit(*, seconds: float = 10.0, total: float = 60.0, effects: bool = False) -> Audit:
    """Find compiled programs that no longer match the code and the values it reads.

    What a function read while it was traced (a global, an attribute, the clock) is fixed in
    its program. Each function whose program JAX still keeps is traced again, without being
    lowered or compiled, and the two programs are compared. **This runs your functions**, with
    abstract values as `jax.jit` does. JAX's caches and configuration, random states and
    warnings are left as they were; output printed meanwhile is not shown.

    Args:
        seconds: time limit for each function.
        total: time limit for all functions.
        effects: also trace functions that write globals, attributes or containers, which
            they will then do again.

    Returns:
        An object for each function with something to report, with the fields of the `stale`
        section of the JSON report.

    Raises:
        UsageError: nothing is being recorded, or another thread is running an audit.

    Example:
        >>> import jax, retrace
        >>> scale = 2.0
        >>> with retrace.recording():
        ...     times = jax.jit(lambda x: x * scale)
        ...     _ = times(1.0)
        ...     scale = 3.0
        ...     [(one.function, one.verdict) for one in retrace.audit()]
        [('<lambda>', 'proved')]
    """
    if live.is_off():
        return Audit([], "retrace: RETRACE=0 is set: nothing is recorded\n")
    if not _records():
        raise UsageError(
            "nothing is recorded: use retrace.jit instead of jax.jit, or call "
            "retrace.install() before the functions run"
        )
    from retrace.auditing.examination import Limits
    from retrace.auditing.request import audit as examine

    found = examine(Limits(seconds, total, effects))
    if found is None:
        raise UsageError(
            "cannot audit: another thread is running an audit, or this JAX is unknown"
        )
    return report_of(found)


def _records() -> bool:
    if "retrace.capture.session" not in sys.modules:
        return False
    from retrace.capture.session import is_recording

    return is_recording()


def report_of(found: Found) -> Audit:
    """The report on an audit of this process, using earlier audits as well."""
    from retrace.present.stale import data, text
    from retrace.present.view import View

    recording, concluded = concluded_of(found)
    view = View(recording, [], live.here())
    return Audit(list(map(Stale, data(view, concluded))), "\n".join(text(view, concluded)) + "\n")


def concluded_of(found: Found) -> tuple[Recording, Audited]:
    """The conclusions of an audit, and a recording with the misses they refer to."""
    from retrace.auditing.request import history
    from retrace.model import Key, Miss, Recording
    from retrace.reason.stale import audited

    misses = [
        Miss(str(number), "", number, found.audit.time, "", function, Key())
        for number, function in found.functions.items()
    ]
    listings = {listing.id: listing for listing in found.listings}
    recording = Recording([], misses, listings, list(history))
    concluded = audited(recording)
    assert concluded is not None
    current = tuple([one for one in concluded.stale if one.until is None])
    return recording, concluded._replace(stale=current)
