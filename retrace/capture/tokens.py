"""Equality tokens: which values JAX takes as equal, told without keeping them.

Measured on jax 0.6.0, 0.10.2 and 0.12.0:

- A static argument is compared by the type of the value itself, its hash and `==`:
  3, 3.0, True and np.int64(3) are four entries, and so are a named tuple and a
  tuple. Inside a container Python's `==` decides alone: (1,), (1.0,) and (True,)
  are one entry. An object is equal to itself before `==` is asked, so a NaN equals
  itself and no other NaN, also inside a tuple; 0.0 and -0.0 are one entry.
- Before jax 0.9 a static argument that is passed by keyword is compared without
  its type: s=1 and s=1.0 are one entry there.
- The metadata of pytree nodes is compared by `==` alone, and may be unhashable.
- `jax.jit(f)` made twice, and two equal partials, are unequal; a bound method taken
  twice of one object is equal.

Plain data is told by its content, everything else by a number that stands for the
object, found through weak references alone: a strong one would keep entries of
JAX's caches alive, and `id()` is used again once an object has died.
"""

from __future__ import annotations

import hashlib
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from retrace.capture import lock
from retrace.capture.canonical import CannotTellError, Content
from retrace.capture.lock import Count
from retrace.capture.objects import defined, kind_of, package, type_name
from retrace.capture.weak import ByObject
from retrace.failure import asked

_LONGEST = 96
_MAX_CANDIDATES = 256
_MAX_KEYWORDS = 10_000
_STABLE = frozenset(("builtins", "numpy", "ml_dtypes", "jax", "jaxlib"))
"""Packages whose classes are never made again in a process."""

Bucket = tuple[int | None, int]
"""The class, of objects without a hash, and the hash."""


class Tokens:
    """The tokens of one recording, and the numbers of the objects it has met."""

    def __init__(self) -> None:
        self._lock = lock.make()
        self._counter = Count(1)
        self._numbers: ByObject[int] = ByObject(self._forget)
        self._buckets: dict[Bucket, dict[int, _Equal]] = {}
        self._dead: deque[Any] = deque()
        """Of the buckets, those that died, put there by C alone."""
        self._keywords: dict[str, str] = {}
        self.forgotten: list[Callable[[int], object]] = []
        """Told the number of each object that died: it is given to no other."""
        self.tables: list[dict[int, Any]] = []
        """What is kept by number elsewhere, and goes with the object."""

    def __len__(self) -> int:
        """How many objects it knows; the dead are none of them."""
        self._forget_equal()
        return len(self._numbers) + sum(map(len, list(self._buckets.values())))

    def static(self, value: object) -> str | None:
        """The token of a static argument: its type counts, and it must be hashable."""
        try:
            content = Content(self, hashable=True).write(value)
            return _bounded(f"{self.type(kind_of(value))} {content}")
        except CannotTellError:
            return None

    def keyword(self, value: object) -> str | None:
        """The token of a static argument by keyword, before jax 0.9: its type does not count.

        It is that of the first equal one, so that a value passed by position as well as
        by keyword counts as one value.
        """
        content, token = self.metadata(value), self.static(value)
        if content is None or token is None:
            return content
        if len(self._keywords) >= _MAX_KEYWORDS:
            self._keywords.clear()
        return self._keywords.setdefault(content, token)

    def metadata(self, value: object) -> str | None:
        """The token of tree metadata, or of anything else that `==` alone compares."""
        try:
            return _bounded(Content(self, hashable=False).write(value))
        except CannotTellError:
            return None

    def held(self, value: object) -> str | None:
        """The token of what a function closes over or binds, which JAX compares with nothing.

        No `==` or hash of the user's is called: that of an array's wrapper would be a
        program of its own, traced and compiled because retrace looked.
        """
        try:
            return _bounded(Content(_Apart(self), hashable=False).write(value))
        except CannotTellError:
            return None

    def number(self, value: object) -> int | None:
        """A number for an object's identity; None where it takes no weak reference."""
        try:
            return self._numbers.of(value, self._counter)
        except TypeError:
            return None

    def seen(self, value: object) -> bool:
        """Whether the object has a number already."""
        return self._numbers.get(value) is not None

    def type(self, kind: type) -> str:
        """A token of a class."""
        # Two classes of one name are the same class before and after a reload.
        return type_name(kind) if package(kind) in _STABLE else f"#{self.number(kind)}"

    def identity(self, value: object) -> str:
        """A token of an object that is equal to itself alone."""
        if (number := self.number(value)) is None:
            raise CannotTellError
        return f"#{number}"

    def equal(self, value: object) -> str:
        """A token that the live objects share that `==` takes as equal.

        The dead ones do not matter: what JAX has an entry for, it keeps alive.
        """
        # JAX calls `__hash__` and `__eq__` of this object as well, at this very miss. They
        # are the user's own, and may raise or answer anything.
        if (found := asked(self._find_equal, value)) is None:
            raise CannotTellError
        return found

    def _find_equal(self, value: object) -> str | None:
        self._forget_equal()
        kind = kind_of(value)
        unhashable = defined(kind, "__hash__") is None
        place: Bucket = (self.number(kind), 0) if unhashable else (None, hash(value))
        token: str | None = None
        compared: set[int] = set()
        while True:
            # Nothing is held while `==` runs: it is the user's. What other threads have added
            # meanwhile is compared in the next round.
            with self._lock:
                bucket = self._buckets.setdefault(place, {})
                others = [one for one in list(bucket.items()) if one[0] not in compared]
                if not others:
                    number = self._counter()
                    token = token or f"={number}"
                    reference = bucket[number] = _Equal(value, self._dead.append)
                    reference.place, reference.number, reference.token = place, number, token
                    return token
            known = [
                (reference.token, entry)
                for _, reference in others
                if (entry := reference()) is not None
            ]
            # An object found again under another hash was changed: JAX does not find it either.
            for other, entry in known:
                if entry is value:
                    return other
            compared.update(number for number, _ in others)
            if len(compared) > _MAX_CANDIDATES:
                return None
            if token is None:
                token = next((other for other, entry in known if bool(value == entry)), None)

    def _forget(self, number: int) -> None:
        for table in self.tables:
            table.pop(number, None)
        for forget in self.forgotten:
            forget(number)

    def _forget_equal(self) -> None:
        while self._dead:
            with self._lock:
                try:
                    gone = self._dead.popleft()
                except IndexError:  # another thread was first
                    return
                if (bucket := self._buckets.get(gone.place)) is not None:
                    bucket.pop(gone.number, None)
                    if not bucket:
                        self._buckets.pop(gone.place, None)


class _Equal(weakref.ref[Any]):
    """An object that was compared, and its token."""

    __slots__ = ("number", "place", "token")

    place: Bucket
    number: int
    token: str


class _Apart:
    """Each object that is not plain data is equal to itself alone."""

    def __init__(self, tokens: Tokens) -> None:
        self.identity = self.equal = tokens.identity
        self.type = tokens.type


def _bounded(token: str) -> str:
    if len(token) <= _LONGEST:
        return token
    return hashlib.blake2b(token.encode(errors="surrogatepass"), digest_size=16).hexdigest()
