"""Explained misses, as a running program gets them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from retrace.model import Verdict
    from retrace.present.message import Message
    from retrace.present.view import View


class ExplainedMiss(Mapping[str, Any]):
    """One miss with its explanation: the fields of the JSON report, and its text.

    Every field is an attribute (`miss.cause`, `miss.function.name`) and an item
    (`miss["cause"]`); `str(miss)` is the message from the report, which a notebook
    shows as HTML.
    """

    def __init__(self, fields: dict[str, Any], message: Message) -> None:
        self._fields = fields
        self._message = message

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a copy is asked for these before it has fields
            raise AttributeError(name)
        try:
            return _attributes(self._fields[name])
        except KeyError:
            raise AttributeError(f"a miss has no field {name!r}") from None

    def __str__(self) -> str:
        from retrace.present.layout import written

        return written(self._message)

    def __repr__(self) -> str:
        return f"<{self._fields['label']}: {self._fields['cause']}>"

    @property
    def message(self) -> Message:
        """Its text in the report, line by line."""
        return self._message

    def _repr_html_(self) -> str:
        from retrace.present.notebook import page

        return page([self._message])


class Misses(list[ExplainedMiss]):
    """A list of misses, which a notebook shows with their explanations."""

    def _repr_html_(self) -> str:
        from retrace.present.notebook import page

        return page([miss.message for miss in self])


def _attributes(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return SimpleNamespace(**{name: _attributes(item) for name, item in fields.items()})
    if isinstance(value, list):
        return [_attributes(item) for item in cast(list[Any], value)]
    return value


def explained(view: View, verdicts: Iterable[Verdict]) -> Misses:
    """Each miss with its data and its text."""
    from retrace.present.group import Group
    from retrace.present.message import compose
    from retrace.present.report_json import miss_report

    return Misses(
        ExplainedMiss(miss_report(view, verdict, keys=True), compose(view, Group.alone(verdict)))
        for verdict in verdicts
    )
