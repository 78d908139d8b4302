"""Sends a recording to an object store while it is written, by a process of its own.

A recording is written to files here, whatever becomes of the network. An object is put whole:
what is new of a file goes as a part, named by the bytes that it holds, and at the end the whole
file takes the place of its parts. The process that sends is no child of the program's, and
nothing of it is in the program: it follows the files, and ends when the program has.
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
from retrace.store.remote import OURS, Store, part_name

_ANSWER = 60.0
"""Seconds until a store has to have answered before the program starts."""
_END = 120.0
"""Seconds that the end of a program waits for the rest to be sent."""
_POLL_SECONDS = 0.1
"""Seconds between two looks at whether the program has ended."""
_SEND_SECONDS = 30.0
"""Seconds after which what is new is sent, however little it is."""
_SEND_BYTES = 8 << 20
"""As soon as this much is waiting, it is sent, however recently it was written."""
_WHOLE = 64 << 20
"""Bytes up to which a file takes the place of its parts at the end."""
_END_MARK, _DONE_MARK, _OWN_MARK = ".sending-end", ".sending-done", ".sending"


class Order(NamedTuple):
    """The arguments of the sending process."""

    address: str
    directory: str
    process: int
    """The number of the program's process."""
    began: float
    """When it had begun, in seconds since the epoch."""
    job: Job
    append: bool
    command: str = ""
    """As `attempts.command` tells it of the program."""


def begin(address: str, directory: Path, job: Job, *, append: bool) -> Attempt:
    """Send what will be recorded into a directory, from here on.

    Args:
        address: of a folder in an object store, which may hold recordings.
        directory: of this program alone.
        job: that the program is part of.
        append: whether it joins the newest attempt there in any case.

    Returns:
        the attempt that the program belongs to, among those that are there.

    Raises:
        UsageError: nothing can be written there.
    """
    if find_spec("fsspec") is None:
        raise UsageError(
            f"{address} is in an object store: to record there, pip install 'retrace-jax[remote]'"
        )
    if os.name != "posix":
        raise UsageError(
            f"{address} is in an object store, to which retrace can record on Linux and macOS "
            "alone: name a directory with --out DIR, and copy it there at the end"
        )
    order = Order(address, str(directory), os.getpid(), time.time(), job, append, command())
    answer = _answer(_started(order))
    if "error" in answer:
        raise UsageError(
            f"cannot record to {address}: {answer['error']}; name a directory with --out DIR"
        )
    attempt = Attempt(int(answer["attempt"]), job.name, job.processes)
    assign(directory, attempt)
    return attempt


def _started(order: Order) -> int:
    """A process that sends; what it says first can be read from the descriptor."""
    # Behind all else, where the interpreter would not find it by itself.
    begin = (
        "import sys; sys.path.append(sys.argv[1]); "
        "from retrace.store.sending import main; main(sys.argv[2])"
    )
    package = str(Path(__file__).parents[2])
    source, sink = os.pipe()
    try:
        # It forks at once, so that nothing of it is a child of the program that is to begin.
        subprocess.run(  # noqa: S603
            [sys.executable, "-P", "-c", begin, package, json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "RETRACE": "0"},
            start_new_session=True,
            check=True,
            timeout=_ANSWER,
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
    until = time.monotonic() + _ANSWER
    try:
        while not text.endswith(b"\n"):
            ready, _, _ = select([source], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(source, 1 << 16) if ready else b""
            if not piece:
                said = "it ended without a word" if ready else f"no answer in {_ANSWER:.0f} s"
                return {"error": said}
            text += piece
    finally:
        os.close(source)
    return cast(dict[str, Any], json.loads(text))


def end(directory: Path) -> None:
    """Mark a recording passed to `begin` as closed, so that the rest of it is sent."""
    with suppress(OSError):  # `finish` tells
        (directory / _END_MARK).touch()


def finish(directory: Path) -> str | None:
    """Wait until all was sent of a recording that has ended; what is wrong, if something is."""
    done = directory / _DONE_MARK
    try:
        process, began = json.loads((directory / _OWN_MARK).read_text("ascii"))
        until = time.monotonic() + _END
        while not done.exists():
            if not is_running(process, began):
                return "the process that sends was killed"
            if time.monotonic() > until:
                return f"not all was sent within {_END:.0f} s"
            time.sleep(_POLL_SECONDS / 4)
        return done.read_text("utf-8") or None
    except (OSError, ValueError) as error:
        return str(error)
    finally:
        for name in (_END_MARK, _DONE_MARK, _OWN_MARK):
            with suppress(OSError):
                (directory / name).unlink()


class Sender:
    """Follows the files of a directory."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._directory = Path(order.directory)
        self._store = Store(order.address)
        self._sent: dict[str, int] = {}
        """Bytes of each file that are there."""
        self._parts: dict[str, list[str]] = {}
        self._whole: dict[str, int] = {}
        """Of files that are there as one object, their bytes."""
        self._last = time.monotonic()
        self._wrong: str | None = None

    def join(self) -> int:
        """Join an attempt in the store, which shows that it can be written; its number."""
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
        # In containers both host and number may be another's as well.
        self._store.put(
            f".attempt-{number}.{os.urandom(8).hex()}", json.dumps(member).encode() + b"\n"
        )
        return number

    def follow(self) -> None:
        """Send until the program has ended, and all that it started."""
        while not self._is_over():
            self.send_new(due=self._is_due())
            time.sleep(_POLL_SECONDS)
        self.end()
        with suppress(OSError):  # a directory that was removed
            if (self._directory / _END_MARK).exists():
                self._answer()
            else:  # nobody waits: the program was killed
                (self._directory / _OWN_MARK).unlink()
        while any(self._living()):
            self.send_new(due=self._is_due())
            time.sleep(_SEND_SECONDS)
        self.end()

    def _is_over(self) -> bool:
        if (self._directory / _END_MARK).exists():
            return True
        return not is_running(self._order.process, self._order.began)

    def _living(self) -> Iterator[int]:
        """What the program has started, and still runs."""
        for _, run in headers(self._directory):
            if run.pid != self._order.process and is_running(run.pid, run.started):
                yield run.pid

    def _is_due(self) -> bool:
        if time.monotonic() - self._last < _SEND_SECONDS:
            return False
        self._last = time.monotonic()
        return True

    def send_new(self, *, due: bool) -> None:
        """Send what is new of each file: where it is `due` in any case, else where it is much."""
        for file in self._files():
            new = file.stat().st_size - self._sent.get(file.name, 0)
            if new >= _SEND_BYTES or (due and new):
                self._guarded(file, self._send_part)

    def end(self) -> None:
        """Send the rest."""
        self._wrong = None
        for file in self._files():
            self._guarded(file, self._send_whole)

    def _answer(self) -> None:
        """Say that all was sent, or what is wrong: whole, or not yet."""
        done = self._directory / _DONE_MARK
        made = done.with_name(f"{_DONE_MARK}.{os.getpid()}")
        made.write_text(self._wrong or "", "utf-8")
        made.replace(done)

    def _guarded(self, file: Path, send: Any) -> None:
        try:
            send(file)
        except (RetraceError, OSError) as error:
            self._wrong = str(error)  # what was not sent is sent with the next part

    def _files(self) -> list[Path]:
        return sorted(file for file in self._directory.glob("*") if file.suffix in OURS)

    def _send_part(self, file: Path) -> None:
        start = self._sent.get(file.name, 0)
        with file.open("rb") as source:
            source.seek(start)
            data = source.read(_WHOLE)
        name = part_name(file.name, start, start + len(data))
        self._store.put(name, data)
        self._parts.setdefault(file.name, []).append(name)
        self._sent[file.name] = start + len(data)

    def _send_whole(self, file: Path) -> None:
        """The rest of a file; of one that is not too long, all of it in place of its parts."""
        size = file.stat().st_size
        if size > _WHOLE:
            while self._sent.get(file.name, 0) < size:
                self._send_part(file)
        elif self._whole.get(file.name) != size:
            self._store.put(file.name, file.read_bytes())
            self._whole[file.name] = self._sent[file.name] = size
            self._store.remove(self._parts.pop(file.name, []))


def main(text: str) -> None:
    """Be the process that sends; `text` is an `Order` as JSON."""
    told = Order(*json.loads(text))
    order = told._replace(job=Job(*told.job))
    directory = order.directory
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # it ends with the program, and not before
    try:
        sender = Sender(order)
        answer: dict[str, Any] = {"attempt": sender.join()}
        own = Path(directory) / _OWN_MARK
        own.write_text(json.dumps([os.getpid(), time.time()]), "ascii")
    except (RetraceError, OSError) as error:
        sender = None
        answer = {"error": str(error)}
    os.write(1, json.dumps(answer).encode() + b"\n")
    os.close(1)
    if sender is not None:
        sender.follow()
