"""How programs under test are started."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """A parent may ignore SIGINT, as a shell does for what it starts in the background.

    Not by `preexec_fn`: it would fork this process, where JAX has threads.
    """
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
