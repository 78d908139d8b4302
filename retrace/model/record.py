"""The base class of immutable data with named fields, like a frozen dataclass.

Every command creates all its classes when it starts. `dataclasses` compiles several functions for
each one, which takes about half a millisecond, and a record a hundredth of that.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Self, dataclass_transform


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Record:
    """Immutable data. Its fields are the annotations of its class and of its base classes."""

    fields: ClassVar[tuple[str, ...]] = ()
    _names: ClassVar[frozenset[str]] = frozenset()
    """The same, to compare with."""
    defaults: ClassVar[dict[str, object]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = [name for name, kind in cls.__annotations__.items() if "ClassVar" not in str(kind)]
        cls.fields = (*cls.fields, *own)
        cls._names = frozenset(cls.fields)
        cls.defaults = cls.defaults | {
            name: cls.__dict__[name] for name in own if name in cls.__dict__
        }

    def __init__(self, **values: object) -> None:
        given = self.defaults | values
        if given.keys() != self._names:
            wrong = sorted(given.keys() ^ self._names)
            raise TypeError(f"{type(self).__name__}: missing or unknown: {', '.join(wrong)}")
        self.__dict__.update(given)

    def changed(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return type(self)(**self.__dict__ | changes)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self.fields)))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__qualname__}({fields})"
