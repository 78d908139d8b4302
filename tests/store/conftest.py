"""An object store for the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an empty S3 bucket, served by moto."""
    moto: Any = __import__("moto.server").server
    fsspec: Any = __import__("fsspec")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        found = fsspec.filesystem("s3", skip_instance_cache=True)
        name = f"bucket-{os.urandom(4).hex()}"  # all servers of a process share their buckets
        found.mkdir(name)
        yield f"s3://{name}"
    finally:
        server.stop()
