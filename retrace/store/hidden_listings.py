"""The text of programs, without the values that Python put into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from retrace.model import Listing


class Listings(Mapping[str, Listing]):
    """The programs of a recording, each redacted when it is asked for."""

    def __init__(
        self,
        listings: Mapping[str, Listing],
        hide: Callable[[Listing], Listing],
        hide_id: Callable[[str], str],
    ) -> None:
        """Those of a recording, and how a listing and its id are redacted."""
        self._listings = listings
        self._hide, self._hide_id = hide, hide_id
        self._ids: dict[str, str] | None = None

    def _known(self) -> dict[str, str]:
        if self._ids is None:
            self._ids = {self._hide_id(id_): id_ for id_ in self._listings}
        return self._ids

    def __getitem__(self, id: str) -> Listing:
        return self._hide(self._listings[self._known()[id]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())
