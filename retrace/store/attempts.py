"""Which processes belong together: a directory holds attempts, each of which is one run of a job.

An attempt is a small file whose lines name its processes. It is created together with its first
line and only grows, so processes that start at the same time agree without a lock.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

from retrace.model.row import Row
from retrace.regex import regex

_NAME = regex(r"\.attempt-(\d{1,9})")
_SAME_START_SECONDS = 60.0
"""Without a scheduler, processes on several hosts that start within this time belong together:
whether a process on another host is running cannot be seen."""
_PROCESS_VARIABLE = regex(
    r"(?:RANK|PROC_?ID|PROCESS_ID|TASK_ID|WORKER_ID|HOST_ID|INDEX)$", re.IGNORECASE
)
"""Environment variables of launchers that distinguish the processes of a job."""
_POD = regex(r"(?P<job>.+)-(?P<index>\d{1,9})(?:-[a-z0-9]{5})?", re.DOTALL)
"""Name of a pod of an indexed Kubernetes job, and of its host: `train-3`, `train-3-x7k2p`."""
_MAX_BYTES = 1 << 20
"""Maximum number of bytes read from an attempt's file."""


class Job(Row):
    """What the scheduler says about this process."""

    name: str | None = None
    rank: int | None = None
    """The index of this process in the job."""
    processes: int | None = None
    """How many processes the job has."""
    restart: int | None = None
    """How often the scheduler has restarted the job."""


class Attempt(Row):
    """The attempt that a process belongs to."""

    number: int = 1
    job: str | None = None
    processes: int | None = None


_joined: dict[str, Attempt] = {}


def attempt_of(directory: Path) -> Attempt:
    """Return the attempt that this process joined in a directory."""
    return _joined.get(str(directory), Attempt())


def assign(directory: Path, attempt: Attempt) -> None:
    """Assign this process to an attempt that was joined on its behalf."""
    _joined[str(directory)] = attempt


def known_job(named: str | None = None, variables: Mapping[str, str] = os.environ) -> Job:
    """The job of this process: named by the user, or else reported by the scheduler."""
    found = _of_scheduler(variables)
    return found._replace(name=named) if named else found


def _of_scheduler(variables: Mapping[str, str]) -> Job:
    def number(name: str) -> int | None:
        text = variables.get(name, "")
        return int(text) if text.isdecimal() and len(text) < 10 else None

    # An allocation runs many programs one after another, so only a step of it is a job.
    if (job := variables.get("SLURM_JOB_ID")) and number("SLURM_PROCID") is not None:
        name = "slurm-" + ".".join(filter(None, (job, variables.get("SLURM_STEP_ID"))))
        # A restart goes to the directory of its job.
        restart = number("SLURM_RESTART_COUNT")
        return Job(name, number("SLURM_PROCID"), number("SLURM_NTASKS"), restart)
    found = Job()
    for name in ("JAX_COORDINATOR_ADDRESS", "COORDINATOR_ADDRESS"):
        if address := variables.get(name):
            count = number("JAX_NUM_PROCESSES")
            found = Job(f"at-{address}", number("JAX_PROCESS_ID"), count)
            break
    if (index := number("JOB_COMPLETION_INDEX")) is not None:
        # With host networking, a pod has the name of its node, not of the job.
        host = _POD.fullmatch(variables.get("HOSTNAME") or _host())
        if host is not None and int(host["index"]) == index:
            return Job(f"kubernetes-{host['job']}", index, found.processes)
        return Job(found.name or "kubernetes", index, found.processes)
    return found


def _host() -> str:
    """The name of this host."""
    import socket  # 2 ms, and only processes that record join an attempt

    return socket.gethostname()


def command(variables: Mapping[str, str] = os.environ) -> str:
    """A digest that is equal if a job's process is restarted; too short to be reversed."""
    own = sorted(
        (name, value) for name, value in variables.items() if _PROCESS_VARIABLE.search(name)
    )
    text = repr((sys.orig_argv, own))
    return blake2b(text.encode("utf-8", "replace"), digest_size=2).hexdigest()


def join(
    directory: Path,
    job: Job,
    *,
    append: bool = False,
    variables: Mapping[str, str] = os.environ,
) -> Attempt:
    """Join the newest attempt in a directory if this process belongs to it, or else begin one.

    Args:
        directory: must exist.
        job: the job of this process.
        append: always join the newest attempt.
        variables: the environment; processes started by a recorded program join its attempt.

    Raises:
        OSError: the directory cannot be written.
    """
    member = {
        "job": job.name,
        "rank": job.rank,
        "restart": job.restart,
        "host": _host(),
        "pid": os.getpid(),
        "at": time.time(),
        "command": command(variables),
    }
    line = json.dumps(member).encode() + b"\n"
    while True:
        newest = _newest(directory)
        given = variables.get("RETRACE_ATTEMPT", "")
        if variables.get("RETRACE_DIR") == str(directory) and given.isdecimal() and newest:
            newest, append = min(int(given), newest), True
        members = _members(directory, newest)
        if newest and (append or _belongs(member, members)):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            _write(os.open(_file(directory, newest), flags, 0o666), line)
            number = newest
        elif _begin(directory, newest + 1, line):
            number = newest + 1
        else:
            continue  # another process was faster: check if this one belongs to its attempt
        attempt = Attempt(number, job.name, job.processes)
        assign(directory, attempt)
        return attempt


def newest_of(
    member: Mapping[str, Any], there: Mapping[int, list[dict[str, Any]]], *, append: bool
) -> int:
    """Return the number of the attempt that a process belongs to, as `join` would.

    Args:
        member: the process, as in a line of an attempt's file.
        there: the members of each attempt, by its number.
        append: whether it always belongs to the newest.
    """
    newest = max(there, default=0)
    belongs = newest and (append or _belongs(member, there[newest]))
    return newest if belongs else newest + 1


def clear(directory: Path, numbers: Iterable[int]) -> None:
    """Remove the files of these attempts."""
    for number in numbers:
        with suppress(OSError):
            _file(directory, number).unlink()


def _newest(directory: Path) -> int:
    """The number of the newest attempt, or 0 if there is none."""
    numbers = numbers_of(directory)
    # A recording made before attempts existed counts as the first.
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
    """Create the file of an attempt with its first line; False if it already exists."""
    own = directory / f".attempt-{number}.{os.getpid()}.{os.urandom(4).hex()}"
    _write(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), line)
    try:
        os.link(own, _file(directory, number))
    except FileExistsError:
        return False
    except (OSError, AttributeError, NotImplementedError):  # a disk without hard links
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
    """Whether a process belongs to the attempt with these members."""
    if any(_has_started_before(member, other) for other in members):
        return False
    if member["job"] is not None:
        start = member["job"], member["restart"]
        of_job = [other for other in members if (other.get("job"), other.get("restart")) == start]
        return bool(of_job) and not _is_restart(member, of_job)
    return any(other.get("job") is None and _is_alive(member, other) for other in members)


def _has_started_before(member: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the same process of the job already started: then this is another attempt."""
    if member["rank"] is not None and member["job"] is not None:
        return other.get("rank") == member["rank"] and other.get("job") == member["job"]
    return (other.get("host"), other.get("pid")) == (member["host"], member["pid"])


def _is_restart(member: Mapping[str, Any], of_job: list[dict[str, Any]]) -> bool:
    """Whether the same command ran on this host before, and none of its job is running now.

    If the processes of a job are not numbered, nothing else distinguishes a restart.
    """
    if member["rank"] is not None:
        return False
    here = [other for other in of_job if other.get("host") == member["host"]]
    ran = any(other.get("command") == member["command"] for other in here)
    return ran and not any(_is_alive(member, other) for other in here)


def _is_alive(member: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    pid, began = other.get("pid"), other.get("at")
    if type(pid) is not int or pid <= 0 or not isinstance(began, int | float):
        return False
    if other.get("host") != member["host"]:
        return abs(member["at"] - began) < _SAME_START_SECONDS
    if os.name != "posix":
        return abs(member["at"] - began) < _SAME_START_SECONDS
    return is_running(pid, began)


def is_running(process: int, began: float) -> bool:
    """Whether a process of this host is running and had started by `began`; only on POSIX."""
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
        # A zombie has ended; a later start means another process with the same number.
        return status[0] not in ("Z", "X") and started < began + 5
    return True


def members(directory: Path) -> list[tuple[str, int, float]]:
    """The processes that joined the newest attempt: host, process number, and time."""
    return [
        (host, process, float(began))
        for one in _members(directory, _newest(directory))
        if isinstance(host := one.get("host"), str)
        and type(process := one.get("pid")) is int
        and process > 0
        and isinstance(began := one.get("at"), int | float)
    ]
