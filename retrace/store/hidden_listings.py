"""Redacted programs: their text without values that came from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from retrace.model import Listing


class Listings(Mapping[str, Listing]):
    """The programs of a recording, each redacted on demand."""

    def __init__(
        self,
        listings: Mapping[str, Listing],
        hide: Callable[[Listing], Listing],
        hide_id: Callable[[str], str],
    ) -> None:
        """Take the listings of a recording, and how to redact a listing and an id."""
        self._listings = listings
        self._hide, self._hide_id = hide, hide_id
        self._ids: dict[str, str] | None = None

    def _original_ids(self) -> dict[str, str]:
        if self._ids is None:
            self._ids = {self._hide_id(id_): id_ for id_ in self._listings}
        return self._ids

    def __getitem__(self, id: str) -> Listing:
        return self._hide(self._listings[self._original_ids()[id]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._original_ids())

    def __len__(self) -> int:
        return len(self._original_ids())
