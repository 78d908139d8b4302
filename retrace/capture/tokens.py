"""Equality tokens: which values JAX considers equal, without keeping the values.

Measured on jax 0.6.0, 0.10.2 and 0.12.0:

- A static argument is compared by the type of the value itself, its hash and `==`:
  3, 3.0, True and np.int64(3) are four entries, and a named tuple and a tuple are
  two. Inside a container only Python's `==` counts: (1,), (1.0,) and (True,) are one
  entry. An object is compared by identity before `==`, so a NaN equals itself and
  no other NaN, also inside a tuple; 0.0 and -0.0 are one entry.
- Before jax 0.9, a static argument passed by keyword is compared without its type:
  s=1 and s=1.0 are one entry.
- The metadata of pytree nodes is compared by `==` alone, and may be unhashable.
- Two results of `jax.jit(f)`, and two partials with equal contents, are unequal; a
  bound method taken twice from one object is equal.

Plain data is identified by its content, everything else by a number for the object.
The number is found through weak references only: strong ones would keep entries of
JAX's caches alive, and an `id()` can be reused once its object has died.
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

_MAX_TOKEN_LENGTH = 96
_MAX_CANDIDATES = 256
_MAX_KEYWORDS = 10_000
_STABLE = frozenset(("builtins", "numpy", "ml_dtypes", "jax", "jaxlib"))
"""Packages whose classes are never redefined in a process."""

Bucket = tuple[int | None, int]
"""The class, if its objects are unhashable, and the hash."""


class Tokens:
    """The tokens of this process, and the numbers of the objects it has met."""

    def __init__(self) -> None:
        self._lock = lock.make()
        self._counter = Count(1)
        self._numbers: ByObject[int] = ByObject(self._forget)
        self._buckets: dict[Bucket, dict[int, _Equal]] = {}
        self._dead: deque[Any] = deque()
        """References from the buckets whose objects died; appended only by C code."""
        self._keywords: dict[str, str] = {}
        self.forgotten: list[Callable[[int], object]] = []
        """Called with the number of each object that died. Numbers are not reused."""
        self.tables: list[dict[int, Any]] = []
        """Tables elsewhere, keyed by number; their entries are dropped with the object."""

    def __len__(self) -> int:
        """Number of live objects that are known."""
        self._forget_equal()
        return len(self._numbers) + sum(map(len, list(self._buckets.values())))

    def static(self, value: object) -> str | None:
        """Return the token of a static argument: its type counts, and it must be hashable."""
        try:
            content = Content(self, hashable=True).write(value)
            return _bounded(f"{self.type(kind_of(value))} {content}")
        except CannotTellError:
            return None

    def keyword(self, value: object) -> str | None:
        """Return the token of a static keyword argument before jax 0.9, where types do not count.

        It is the token of the first equal value, so that a value passed both by position
        and by keyword counts as one value.
        """
        content, token = self.metadata(value), self.static(value)
        if content is None or token is None:
            return content
        if len(self._keywords) >= _MAX_KEYWORDS:
            self._keywords.clear()
        return self._keywords.setdefault(content, token)

    def metadata(self, value: object) -> str | None:
        """Return the token of pytree metadata, or of anything else compared by `==` alone."""
        try:
            return _bounded(Content(self, hashable=False).write(value))
        except CannotTellError:
            return None

    def held(self, value: object) -> str | None:
        """Return the token of a value closed over or bound, which JAX never compares.

        The user's `==` and hash are not called: for a wrapper of an array they would be a
        program, traced and compiled only because of retrace.
        """
        try:
            return _bounded(Content(_Apart(self), hashable=False).write(value))
        except CannotTellError:
            return None

    def number(self, value: object) -> int | None:
        """A number for an object's identity; None if it does not support weak references."""
        try:
            return self._numbers.of(value, self._counter)
        except TypeError:
            return None

    def seen(self, value: object) -> bool:
        """Whether the object already has a number."""
        return self._numbers.get(value) is not None

    def type(self, kind: type) -> str:
        """Return the token of a class."""
        # Two classes of the same name may be one class before and after a reload.
        return type_name(kind) if package(kind) in _STABLE else f"#{self.number(kind)}"

    def identity(self, value: object) -> str:
        """Return the token of an object that is equal only to itself."""
        if (number := self.number(value)) is None:
            raise CannotTellError
        return f"#{number}"

    def equal(self, value: object) -> str:
        """Return a token shared by all live objects that are equal by `==`.

        Dead objects do not matter, since JAX keeps alive what it has an entry for.
        """
        # JAX itself calls `__hash__` and `__eq__` of this object at this miss. They are user
        # code, and may raise or return anything.
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
            # No lock is held while `==` runs, since it is user code. What other threads add in
            # the meantime is compared in the next round.
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
            # An object that returns with another hash was mutated; JAX does not find it either.
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
    """A weak reference to an object that was compared, with its token."""

    __slots__ = ("number", "place", "token")

    place: Bucket
    number: int
    token: str


class _Apart:
    """Tokens under which an object that is not plain data is equal only to itself."""

    def __init__(self, tokens: Tokens) -> None:
        self.identity = self.equal = tokens.identity
        self.type = tokens.type


def _bounded(token: str) -> str:
    if len(token) <= _MAX_TOKEN_LENGTH:
        return token
    return hashlib.blake2b(token.encode(errors="surrogatepass"), digest_size=16).hexdigest()
