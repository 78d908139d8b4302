"""Which processes belong together: a directory holds attempts, each of them one run of a job.

An attempt is a small file whose lines name its processes. It appears with its first line in it
and only grows, so that processes that start at once need no lock to agree.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, cast

_NAME = re.compile(r"\.attempt-(\d{1,9})")
_TOGETHER = 60.0
"""Seconds within which processes of several hosts are taken to start together, where no
scheduler tells: whether a process of another host lives cannot be seen."""
_WHICH = re.compile(
    r"(?:RANK|PROC_?ID|PROCESS_ID|TASK_ID|WORKER_ID|HOST_ID|INDEX)$", re.IGNORECASE
)
"""Variables that tell the processes of a job apart, as launchers name them."""
_POD = re.compile(r"(?P<job>.+)-(?P<index>\d{1,9})(?:-[a-z0-9]{5})?", re.DOTALL)
"""How Kubernetes names a pod of an indexed job, and its host: `train-3`, `train-3-x7k2p`."""
_MAX_BYTES = 1 << 20
"""How much of such a file is read."""


class Job(NamedTuple):
    """What the scheduler says about this process."""

    name: str | None = None
    rank: int | None = None
    """Which of the job's processes this is."""
    processes: int | None = None
    """How many processes the job has."""
    restart: int | None = None
    """How often the scheduler has started it again."""


class Attempt(NamedTuple):
    """What a process belongs to."""

    number: int = 1
    job: str | None = None
    processes: int | None = None


_joined: dict[str, Attempt] = {}


def attempt_of(directory: Path) -> Attempt:
    """The attempt that this process joined in a directory."""
    return _joined.get(str(directory), Attempt())


def assign(directory: Path, attempt: Attempt) -> None:
    """Let this process belong to an attempt that was joined for it."""
    _joined[str(directory)] = attempt


def known_job(named: str | None = None, variables: Mapping[str, str] = os.environ) -> Job:
    """The job of this process: as it was named, or else as the scheduler tells."""
    found = _of_scheduler(variables)
    return found._replace(name=named) if named else found


def _of_scheduler(variables: Mapping[str, str]) -> Job:
    def number(name: str) -> int | None:
        text = variables.get(name, "")
        return int(text) if text.isdecimal() and len(text) < 10 else None

    # An allocation holds many programs, one after the other: only a step of it is a job.
    if (job := variables.get("SLURM_JOB_ID")) and number("SLURM_PROCID") is not None:
        name = "slurm-" + ".".join(filter(None, (job, variables.get("SLURM_STEP_ID"))))
        # A restart belongs into the folder of its job.
        restart = number("SLURM_RESTART_COUNT")
        return Job(name, number("SLURM_PROCID"), number("SLURM_NTASKS"), restart)
    found = Job()
    for name in ("JAX_COORDINATOR_ADDRESS", "COORDINATOR_ADDRESS"):
        if address := variables.get(name):
            count = number("JAX_NUM_PROCESSES")
            found = Job(f"at-{address}", number("JAX_PROCESS_ID"), count)
            break
    if (index := number("JOB_COMPLETION_INDEX")) is not None:
        # A pod of the host's network has the name of its node, which is not the job's.
        host = _POD.fullmatch(variables.get("HOSTNAME") or socket.gethostname())
        if host is not None and int(host["index"]) == index:
            return Job(f"kubernetes-{host['job']}", index, found.processes)
        return Job(found.name or "kubernetes", index, found.processes)
    return found


def command(variables: Mapping[str, str] = os.environ) -> str:
    """Equal where a process of a job is started again; too short to be turned back."""
    which = sorted((name, value) for name, value in variables.items() if _WHICH.search(name))
    said = repr((sys.orig_argv, which))
    return blake2b(said.encode("utf-8", "replace"), digest_size=2).hexdigest()


def join(
    directory: Path,
    job: Job,
    *,
    append: bool = False,
    variables: Mapping[str, str] = os.environ,
) -> Attempt:
    """Join the newest attempt in a directory where this process belongs to it, else begin one.

    Args:
        directory: exists.
        job: of this process.
        append: join the newest in any case.
        variables: the environment: what a recorded program starts belongs to its attempt.

    Raises:
        OSError: the directory cannot be written.
    """
    member = {
        "job": job.name,
        "rank": job.rank,
        "restart": job.restart,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "at": time.time(),
        "command": command(variables),
    }
    line = json.dumps(member).encode() + b"\n"
    while True:
        newest = _newest(directory)
        told = variables.get("RETRACE_ATTEMPT", "")
        if variables.get("RETRACE_DIR") == str(directory) and told.isdecimal() and newest:
            newest, append = min(int(told), newest), True
        members = _members(directory, newest)
        if newest and (append or _belongs(member, members)):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            _write(os.open(_file(directory, newest), flags, 0o666), line)
            number = newest
        elif _begin(directory, newest + 1, line):
            number = newest + 1
        else:
            continue  # another process was first: does this one belong to it?
        attempt = Attempt(number, job.name, job.processes)
        assign(directory, attempt)
        return attempt


def newest_of(
    member: Mapping[str, Any], there: Mapping[int, list[dict[str, Any]]], *, append: bool
) -> int:
    """The number of the attempt that a process belongs to, as `join` finds it.

    Args:
        member: the process, as a line of an attempt names it.
        there: the members of each attempt, by its number.
        append: whether it belongs to the newest in any case.
    """
    newest = max(there, default=0)
    is_in = newest and (append or _belongs(member, there[newest]))
    return newest if is_in else newest + 1


def clear(directory: Path, numbers: Iterable[int]) -> None:
    """Remove what says that there were these attempts."""
    for number in numbers:
        with suppress(OSError):
            _file(directory, number).unlink()


def _newest(directory: Path) -> int:
    """The number of the newest attempt; 0 where there is none."""
    numbers = numbers_of(directory)
    # What was recorded before there were attempts is the first.
    return max(numbers) if numbers else int(any(directory.glob("*.jsonl")))


def numbers_of(directory: Path) -> list[int]:
    """The numbers of the attempts in a directory."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [int(found[1]) for name in names if (found := _NAME.fullmatch(name))]


def _file(directory: Path, number: int) -> Path:
    return directory / f".attempt-{number}"


def _members(directory: Path, number: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    try:
        with _file(directory, number).open("rb") as file:
            lines = file.read(_MAX_BYTES).splitlines()
    except OSError:
        return []
    for line in lines:
        with suppress(ValueError, RecursionError):
            if isinstance(member := json.loads(line), dict):
                found.append(cast(dict[str, Any], member))
    return found


def _begin(directory: Path, number: int, line: bytes) -> bool:
    """Make the file of an attempt with its first line; False where it is there already."""
    own = directory / f".attempt-{number}.{os.getpid()}.{os.urandom(4).hex()}"
    _write(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), line)
    try:
        os.link(own, _file(directory, number))
    except FileExistsError:
        return False
    except (OSError, AttributeError, NotImplementedError):  # a disk without links
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            _write(os.open(_file(directory, number), flags, 0o666), line)
        except FileExistsError:
            return False
    finally:
        own.unlink(missing_ok=True)
    return True


def _write(descriptor: int, line: bytes) -> None:
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def _belongs(member: Mapping[str, Any], members: list[dict[str, Any]]) -> bool:
    """Whether a process is one of those of an attempt."""
    if any(_is_again(member, other) for other in members):
        return False
    if member["job"] is not None:
        which = member["job"], member["restart"]
        of_job = [other for other in members if (other.get("job"), other.get("restart")) == which]
        return bool(of_job) and not _is_restart(member, of_job)
    return any(other.get("job") is None and _lives(member, other) for other in members)


def _is_again(member: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the same part of the job was begun before: this is another attempt at it."""
    if member["rank"] is not None and member["job"] is not None:
        return other.get("rank") == member["rank"] and other.get("job") == member["job"]
    return (other.get("host"), other.get("pid")) == (member["host"], member["pid"])


def _is_restart(member: Mapping[str, Any], of_job: list[dict[str, Any]]) -> bool:
    """Whether the same command ran here before, and nothing of its job does now.

    Where nobody numbers the processes of a job, nothing else tells.
    """
    if member["rank"] is not None:
        return False
    here = [other for other in of_job if other.get("host") == member["host"]]
    ran = any(other.get("command") == member["command"] for other in here)
    return ran and not any(_lives(member, other) for other in here)


def _lives(member: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    pid, began = other.get("pid"), other.get("at")
    if type(pid) is not int or pid <= 0 or not isinstance(began, int | float):
        return False
    if other.get("host") != member["host"]:
        return abs(member["at"] - began) < _TOGETHER
    if os.name != "posix":
        return abs(member["at"] - began) < _TOGETHER
    return is_running(pid, began)


def is_running(process: int, began: float) -> bool:
    """Whether a process of this host runs that had started when it told so. On POSIX alone."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    except OSError:
        pass
    with suppress(OSError, IndexError, ValueError):
        status = (
            Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        )
        up = float(Path("/proc/uptime").read_text("ascii").split()[0])
        started = time.time() - up + int(status[19]) / os.sysconf("SC_CLK_TCK")
        # Dead and not yet buried, or another that was given its number.
        return status[0] not in ("Z", "X") and started < began + 5
    return True


def members(directory: Path) -> list[tuple[str, int, float]]:
    """The processes that joined the newest attempt: host, number, and when each did."""
    return [
        (host, process, float(began))
        for one in _members(directory, _newest(directory))
        if isinstance(host := one.get("host"), str)
        and type(process := one.get("pid")) is int
        and process > 0
        and isinstance(began := one.get("at"), int | float)
    ]
