"""Sends a recording to an object store while it is written, from a separate process.

A recording is always written to local files, whatever the network does. Objects cannot be
appended to, so new data of a file is sent as a part, named by its range of bytes, and in the end
the whole file replaces its parts. The sending process is not a child of the program and shares
nothing with it: it follows the files, and ends after the program.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from select import select
from typing import Any, NamedTuple, cast

from retrace.errors import RetraceError, UsageError
from retrace.store.attempts import Attempt, Job, assign, command, is_running, newest_of
from retrace.store.processes import headers
from retrace.store.remote import SUFFIXES, Store, part_name

_START_SECONDS = 60.0
"""How long a store may take to answer before the program starts."""
_END_SECONDS = 120.0
"""How long the program waits at its end for the rest to be sent."""
_POLL_SECONDS = 0.1
"""How often to check whether the program has ended."""
_SEND_SECONDS = 30.0
"""New data is sent after this time, even if it is little."""
_SEND_BYTES = 8 << 20
"""New data is sent immediately once it reaches this size."""
_MAX_WHOLE_BYTES = 64 << 20
"""Maximum size of a file that replaces its parts in the end."""
_END_FILE, _DONE_FILE, _PROCESS_FILE = ".sending-end", ".sending-done", ".sending"


class Order(NamedTuple):
    """The arguments of the sending process."""

    address: str
    directory: str
    process: int
    """The number of the program's process."""
    began: float
    """When it had started, in seconds since the epoch."""
    job: Job
    append: bool
    command: str = ""
    """The program's `attempts.command`."""


def begin(address: str, directory: Path, job: Job, *, append: bool) -> Attempt:
    """Start sending what will be recorded into a directory.

    Args:
        address: a folder in an object store, which may already hold recordings.
        directory: a directory of this program alone.
        job: the job of the program.
        append: whether it always joins the newest attempt in the store.

    Returns:
        the attempt in the store that the program belongs to.

    Raises:
        UsageError: nothing can be written there.
    """
    if find_spec("fsspec") is None:
        raise UsageError(
            f"{address} is in an object store: to record there, pip install 'retrace-jax[remote]'"
        )
    if os.name != "posix":
        raise UsageError(
            f"{address} is in an object store, to which retrace can record only on Linux and "
            "macOS: name a directory with --out DIR, and copy it there at the end"
        )
    order = Order(address, str(directory), os.getpid(), time.time(), job, append, command())
    answer = _answer(_start_process(order))
    if "error" in answer:
        raise UsageError(
            f"cannot record to {address}: {answer['error']}; name a directory with --out DIR"
        )
    attempt = Attempt(int(answer["attempt"]), job.name, job.processes)
    assign(directory, attempt)
    return attempt


def _start_process(order: Order) -> int:
    """Start the sending process; its first answer can be read from the descriptor."""
    # The package's folder comes last, in case the interpreter does not find the package itself.
    begin = (
        "import sys; sys.path.append(sys.argv[1]); "
        "from retrace.store.sending import main; main(sys.argv[2])"
    )
    package = str(Path(__file__).parents[2])
    source, sink = os.pipe()
    try:
        # It forks immediately, so the program that will start has no child process.
        subprocess.run(  # noqa: S603
            [sys.executable, "-P", "-c", begin, package, json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "RETRACE": "0"},
            start_new_session=True,
            check=True,
            timeout=_START_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        os.close(source)
        raise UsageError(
            f"cannot start the process that sends to {order.address} ({error}): name a "
            "directory with --out DIR"
        ) from error
    finally:
        os.close(sink)
    return source


def _answer(source: int) -> dict[str, Any]:
    text = b""
    deadline = time.monotonic() + _START_SECONDS
    try:
        while not text.endswith(b"\n"):
            ready, _, _ = select([source], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(source, 1 << 16) if ready else b""
            if not piece:
                error = "it ended silently" if ready else f"no answer in {_START_SECONDS:.0f} s"
                return {"error": error}
            text += piece
    finally:
        os.close(source)
    return cast(dict[str, Any], json.loads(text))


def end(directory: Path) -> None:
    """Mark a recording passed to `begin` as closed, so that the rest of it is sent."""
    with suppress(OSError):  # `finish` reports it
        (directory / _END_FILE).touch()


def finish(directory: Path) -> str | None:
    """Wait until an ended recording is sent completely; return what failed, if anything."""
    done = directory / _DONE_FILE
    try:
        process, began = json.loads((directory / _PROCESS_FILE).read_text("ascii"))
        deadline = time.monotonic() + _END_SECONDS
        while not done.exists():
            if not is_running(process, began):
                return "the process that sends was killed"
            if time.monotonic() > deadline:
                return f"it was not sent completely within {_END_SECONDS:.0f} s"
            time.sleep(_POLL_SECONDS / 4)
        return done.read_text("utf-8") or None
    except (OSError, ValueError) as error:
        return str(error)
    finally:
        for name in (_END_FILE, _DONE_FILE, _PROCESS_FILE):
            with suppress(OSError):
                (directory / name).unlink()


class Sender:
    """Follows the files of a directory and sends them."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._directory = Path(order.directory)
        self._store = Store(order.address)
        self._sent: dict[str, int] = {}
        """How many bytes of each file have been sent."""
        self._parts: dict[str, list[str]] = {}
        self._whole: dict[str, int] = {}
        """The size of each file that was sent as one object."""
        self._last = time.monotonic()
        self._failure: str | None = None

    def join(self) -> int:
        """Join an attempt in the store, which also proves write access; return its number."""
        job = self._order.job
        member = {
            "job": job.name,
            "rank": job.rank,
            "restart": job.restart,
            "host": socket.gethostname(),
            "pid": self._order.process,
            "at": self._order.began,
            "command": self._order.command,
        }
        there = self._store.members()
        number = newest_of(member, there, append=self._order.append)
        # In containers, another process may have the same host name and process number.
        self._store.put(
            f".attempt-{number}.{os.urandom(8).hex()}", json.dumps(member).encode() + b"\n"
        )
        return number

    def follow(self) -> None:
        """Send until the program and all processes that it started have ended."""
        while not self._is_over():
            self.send_new(due=self._is_due())
            time.sleep(_POLL_SECONDS)
        self.end()
        with suppress(OSError):  # the directory was removed
            if (self._directory / _END_FILE).exists():
                self._answer()
            else:  # the program was killed: nobody waits
                (self._directory / _PROCESS_FILE).unlink()
        while any(self._running_children()):
            self.send_new(due=self._is_due())
            time.sleep(_SEND_SECONDS)
        self.end()

    def _is_over(self) -> bool:
        if (self._directory / _END_FILE).exists():
            return True
        return not is_running(self._order.process, self._order.began)

    def _running_children(self) -> Iterator[int]:
        """Recorded processes started by the program that are still running."""
        for _, run in headers(self._directory):
            if run.pid != self._order.process and is_running(run.pid, run.started):
                yield run.pid

    def _is_due(self) -> bool:
        if time.monotonic() - self._last < _SEND_SECONDS:
            return False
        self._last = time.monotonic()
        return True

    def send_new(self, *, due: bool) -> None:
        """Send the new data of each file: all of it if `due`, otherwise only large amounts."""
        for file in self._files():
            new = file.stat().st_size - self._sent.get(file.name, 0)
            if new >= _SEND_BYTES or (due and new):
                self._guarded(file, self._send_part)

    def end(self) -> None:
        """Send the rest."""
        self._failure = None
        for file in self._files():
            self._guarded(file, self._send_whole)

    def _answer(self) -> None:
        """Report that everything was sent, or what failed, in an atomically written file."""
        done = self._directory / _DONE_FILE
        made = done.with_name(f"{_DONE_FILE}.{os.getpid()}")
        made.write_text(self._failure or "", "utf-8")
        made.replace(done)

    def _guarded(self, file: Path, send: Any) -> None:
        try:
            send(file)
        except (RetraceError, OSError) as error:
            self._failure = str(error)  # the next part will contain what was not sent

    def _files(self) -> list[Path]:
        return sorted(file for file in self._directory.glob("*") if file.suffix in SUFFIXES)

    def _send_part(self, file: Path) -> None:
        start = self._sent.get(file.name, 0)
        with file.open("rb") as source:
            source.seek(start)
            data = source.read(_MAX_WHOLE_BYTES)
        name = part_name(file.name, start, start + len(data))
        self._store.put(name, data)
        self._parts.setdefault(file.name, []).append(name)
        self._sent[file.name] = start + len(data)

    def _send_whole(self, file: Path) -> None:
        """Send the rest of a file; if it is not too long, send it whole, replacing its parts."""
        size = file.stat().st_size
        if size > _MAX_WHOLE_BYTES:
            while self._sent.get(file.name, 0) < size:
                self._send_part(file)
        elif self._whole.get(file.name) != size:
            self._store.put(file.name, file.read_bytes())
            self._whole[file.name] = self._sent[file.name] = size
            self._store.remove(self._parts.pop(file.name, []))


def main(text: str) -> None:
    """Run the sending process; `text` is an `Order` as JSON."""
    given = Order(*json.loads(text))
    order = given._replace(job=Job(*given.job))
    directory = order.directory
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # it must not end before the program
    try:
        sender = Sender(order)
        answer: dict[str, Any] = {"attempt": sender.join()}
        own = Path(directory) / _PROCESS_FILE
        own.write_text(json.dumps([os.getpid(), time.time()]), "ascii")
    except (RetraceError, OSError) as error:
        sender = None
        answer = {"error": str(error)}
    os.write(1, json.dumps(answer).encode() + b"\n")
    os.close(1)
    if sender is not None:
        sender.follow()
