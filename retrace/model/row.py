"""The base class of named tuples of which few are created.

Every command creates all its classes when it starts. `typing.NamedTuple` compiles a function for
each one, which takes ten times as long as creating a row. An instance takes three times as long,
so what is created for every miss is a `NamedTuple`. Type checkers see no difference.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

__all__ = ("Row",)

if TYPE_CHECKING:
    from typing import NamedTuple as Row
else:

    class Row(tuple):
        """A named tuple. Its fields are the annotations of its class."""

        __slots__ = ()

        def __init_subclass__(cls) -> None:
            super().__init_subclass__()
            cls._fields = cls.__match_args__ = tuple(cls.__annotations__)
            own = cls.__dict__
            cls._field_defaults = {name: own[name] for name in cls._fields if name in own}
            for place, name in enumerate(cls._fields):
                setattr(cls, name, property(itemgetter(place)))

        def __new__(cls, *values: Any, **named: Any) -> Self:
            if named or len(values) != len(cls._fields):
                values = cls._completed(values, named)
            return tuple.__new__(cls, values)

        @classmethod
        def _completed(cls, values: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
            given = cls._field_defaults | dict(zip(cls._fields, values, strict=False)) | named
            if len(values) > len(cls._fields) or given.keys() != {*cls._fields}:
                wrong = sorted(given.keys() ^ {*cls._fields})
                raise TypeError(f"{cls.__name__}: missing or unknown: {', '.join(wrong)}")
            return [given[name] for name in cls._fields]

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, **changes: Any) -> Self:
            return type(self)(**{**self._asdict(), **changes})

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            fields = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({fields})"
