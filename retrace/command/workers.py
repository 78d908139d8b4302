"""Executors that work on recordings in parallel: local processes, or a Dask cluster."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from retrace.errors import UsageError
from retrace.model.row import Row

if TYPE_CHECKING:
    from collections.abc import Generator
    from concurrent.futures import Executor

_CONNECT_TIMEOUT = 10
"""Seconds to wait for a cluster."""
_MIN_CLUSTER_TASKS = 8
"""Minimum number of tasks to submit to a cluster at a time: an adaptive cluster may have no
worker yet."""


class Workers(Row):
    """An executor and how many tasks it runs at a time."""

    executor: Executor
    number: int
    """How many tasks run at a time."""
    address: str | None = None
    """Address of the cluster; None for this machine."""


@contextmanager
def workers(jobs: int | None, address: str | None) -> Generator[Workers]:
    """Start `jobs` local processes, or connect to the cluster at `address`.

    Raises:
        UsageError: both were given; Dask or the cluster is missing; a worker was killed.
    """
    check(jobs, address)
    with _processes(jobs or 1) if address is None else _dask(address) as found:
        yield found


def check(jobs: int | None, address: str | None) -> None:
    """Raise UsageError if both --jobs and --dask were passed."""
    if jobs is not None and address is not None:
        raise UsageError("--jobs runs here and --dask on a cluster: pass only one of them")


@contextmanager
def _processes(number: int) -> Generator[Workers]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    # Spawned, not forked: pyarrow has threads.
    with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as pool:
        try:
            yield Workers(pool, number)
        except BrokenProcessPool:
            raise UsageError(
                "a process was killed, perhaps because memory ran out: "
                f"use fewer than --jobs {number}"
            ) from None


@contextmanager
def _dask(address: str) -> Generator[Workers]:
    from concurrent.futures import CancelledError

    try:
        dask: Any = import_module("dask.distributed")
    except ImportError as error:
        raise UsageError(
            f"--dask needs Dask, which is not installed ({error}): "
            "install it with `pip install 'retrace-jax[dask]'`"
        ) from None
    try:
        client = dask.Client(address, timeout=_CONNECT_TIMEOUT)
    except (OSError, ValueError) as error:
        raise UsageError(f"no Dask cluster at {address}: {_one_line(error)}") from None
    with client:
        executor: Executor = client.get_executor(pure=False)
        number = max(_MIN_CLUSTER_TASKS, sum(client.nthreads().values()))
        try:
            yield Workers(executor, number, address)
        except dask.KilledWorker:
            raise UsageError(
                f"a worker of the cluster at {address} was killed, perhaps because memory ran out"
            ) from None
        except (ImportError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "deserializ" not in str(error):
                raise
            raise UsageError(
                f"the cluster at {address} has no retrace, or a different release: "
                "install this release for its scheduler and its workers"
            ) from None
        except CancelledError:
            raise UsageError(f"the cluster at {address} went away") from None
        finally:
            executor.shutdown(wait=False)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
