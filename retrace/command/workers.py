"""Who works on the processes of recordings side by side: processes here, or a Dask cluster."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from retrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Generator
    from concurrent.futures import Executor

_PATIENCE = 10
"""Seconds to wait for a cluster."""
_FEWEST = 8
"""What a cluster is given at a time, at least: one that grows with what there is to do may have
no worker when it is asked."""


class Workers(NamedTuple):
    """Take tasks, several at a time."""

    executor: Executor
    number: int
    """So many tasks are worked on at a time."""
    address: str | None = None
    """Of the cluster; None where it is this machine."""


@contextmanager
def workers(jobs: int | None, address: str | None) -> Generator[Workers]:
    """So many processes, or the cluster at an address.

    Raises:
        UsageError: both were asked for; there is no Dask, or no cluster; a worker was killed.
    """
    check(jobs, address)
    with _processes(jobs or 1) if address is None else _dask(address) as found:
        yield found


def check(jobs: int | None, address: str | None) -> None:
    """Raises UsageError where both --jobs and --dask were passed."""
    if jobs is not None and address is not None:
        raise UsageError("--jobs works here and --dask on a cluster: pass one of them")


@contextmanager
def _processes(number: int) -> Generator[Workers]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    # Spawned: pyarrow has threads, which a fork would not survive.
    with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as pool:
        try:
            yield Workers(pool, number)
        except BrokenProcessPool:
            raise UsageError(
                "a process was killed, perhaps since memory ran out: "
                f"pass fewer than --jobs {number}"
            ) from None


@contextmanager
def _dask(address: str) -> Generator[Workers]:
    from concurrent.futures import CancelledError

    try:
        dask: Any = import_module("dask.distributed")
    except ImportError as error:
        raise UsageError(
            f"--dask needs Dask, which is not here ({error}): "
            "install it with `pip install 'retrace-jax[dask]'`"
        ) from None
    try:
        client = dask.Client(address, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise UsageError(f"no Dask cluster at {address}: {_said(error)}") from None
    with client:
        executor: Executor = client.get_executor(pure=False)
        number = max(_FEWEST, sum(client.nthreads().values()))
        try:
            yield Workers(executor, number, address)
        except dask.KilledWorker:
            raise UsageError(
                f"a worker of the cluster at {address} was killed, perhaps since memory ran out"
            ) from None
        except (ImportError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "deserializ" not in str(error):
                raise
            raise UsageError(
                f"the cluster at {address} has no retrace, or another release of it: "
                "install this one where its scheduler and its workers are"
            ) from None
        except CancelledError:
            raise UsageError(f"the cluster at {address} went away") from None
        finally:
            executor.shutdown(wait=False)


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())
