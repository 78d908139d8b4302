"""A recording without what the program was given: no values, no source, no foreign paths.

What is left out is replaced by a hash under a key that is drawn at random, kept in memory and
never written. So equal things stay equal and others stay others, as far as misses are
compared, and nobody can try out what a short secret might have been. For the same reason a
hash holds for one place alone: that two parameters were given the same value is not told.

What stays: names (of functions, parameters, keys of dicts among the arguments, modules
and classes), shapes, dtypes, placements, times, lines, and the numbers in programs that
are sizes of axes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from retrace.errors import UsageError
from retrace.model import (
    JSON,
    Audit,
    Callback,
    CallSite,
    Checked,
    Class,
    Frame,
    Function,
    Key,
    Listing,
    Miss,
    PersistentCache,
    Program,
    Receiver,
    Recording,
    Run,
    Slow,
    Value,
    is_cut,
)
from retrace.store import files
from retrace.store.equations import Equations
from retrace.store.fields import hidden
from retrace.store.header import RUN
from retrace.store.hidden_listings import Listings
from retrace.store.hidden_paths import Paths
from retrace.store.hidden_settings import Settings, is_of_jax
from retrace.store.parts import FUNCTION
from retrace.store.schema import OF_LINE
from retrace.store.slow import decode_slow, encode_slow

_THREAD = re.compile(
    r"MainThread|Thread-\d+(?: \([\w<>]+\))?|ThreadPoolExecutor-\d+_\d+|asyncio_\d+|Dummy"
)
"""Names that Python gives, one of them with that of the function that the thread runs."""

_SUBSCRIPT = re.compile(
    r"""\[(?!-?\d+\])(?:(?:[^]'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*\]|.*)""", re.DOTALL
)
"""`['key']`, in the name of what a function reads; the number of an item says nothing."""

_TELLING = frozenset(("compiler_options",))
"""Options of `jit` that may hold anything."""

_MAX_KEPT = 1 << 12
_SHORTEST_KEY = 32


def read_key(path: Path) -> bytes:
    """The key that the processes of a job share; raises UsageError where the file holds none."""
    try:
        with files.opened(path) as file:
            content = file.read(1 << 16)
    except OSError as error:
        raise UsageError(f"cannot read the key in {path} ({files.reason(error)})") from error
    if len(content) < _SHORTEST_KEY:
        raise UsageError(
            f"the key in {path} is shorter than {_SHORTEST_KEY} bytes: make one with "
            f"`head -c 32 /dev/urandom > {path}`"
        )
    return blake2b(content, digest_size=32).digest()


_FIXED_WORDS = re.compile(
    r" *(?:\* key with )?(?:never seen function|different input types|different input pytree"
    r"|different value of static (?:kw)?args|different static_argnums"
    r"|but seen another function defined on the same line; maybe the function is"
    r"|being re-defined repeatedly, preventing caching\?|cache miss explanation unavailable"
    r"|all previously seen cache keys [\w. ]+|Tracing context doesn't match[\w., ]+):?"
)
"""The lines of an explanation of JAX's that name nothing of the program's."""


class Redaction:
    """Takes out of the parts of a recording what shall not be given away."""

    def __init__(self, roots: Iterable[str], key: bytes | None = None) -> None:
        """`roots` are the folders of the project; `key` is drawn at random by default."""
        self._key = os.urandom(32) if key is None else key
        self._paths = Paths(roots, self._hash)
        self._settings = Settings(self._hash)
        self._config: dict[int, tuple[object, tuple[tuple[str, Value], ...]]] = {}

    def _hash(self, size: int, *parts: str) -> str:
        digest = blake2b(key=self._key, digest_size=size)
        for part in parts:
            data = part.encode(errors="surrogatepass")
            digest.update(f"{len(data)} ".encode() + data)
        return digest.hexdigest()

    def run(self, run: Run) -> Run:
        """The process, without its arguments and its host."""
        return replace(run, redaction=self._hash(8, "key"), **dict(hidden(run, RUN, self)))

    def argv(self, argv: list[str]) -> list[str]:
        """A command line without its arguments."""
        program = argv[0] if argv else ""
        if program and not program.startswith("-"):
            program = self.path(os.path.abspath(program))
        return [program, *["<redacted>"] * (len(argv) - 1)][: len(argv)]

    def variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Environment variables, without what they may say of the program."""
        return {name: self._settings.flags(name, text) for name, text in variables.items()}

    def settings(self, settings: Mapping[str, JSON]) -> dict[str, JSON]:
        """All of JAX's settings, without those that may hold anything."""
        return self._settings.of_jax(settings)

    def path(self, file: str) -> str:
        """A path within the project or a package; of another one its last part."""
        return self._paths.path(file)

    def thread(self, name: str) -> str:
        """A thread's name, where the program did not choose it."""
        return name if _THREAD.fullmatch(name) else f"thread {self._hash(4, 'thread', name)}"

    def function(self, function: Function) -> Function:
        """A function without its source and the values that it holds."""
        told = dict(hidden(function, FUNCTION, self, function.site))
        return function._replace(site=self.site(function), **told)

    def code(self, code: str) -> str:
        """The content hash of a function's code."""
        return self._hash(8, "code", code)

    def receiver(self, site: str, receiver: Receiver) -> Receiver:
        """The object that a method is bound to, without what it holds."""
        return receiver._replace(
            equal=self._token(site, "", receiver.equal),
            value=receiver.value and self._value(site, "", receiver.value),
        )

    def reads(
        self, site: str, reads: tuple[tuple[str, Value], ...]
    ) -> tuple[tuple[str, Value], ...]:
        """What a function reads from outside: the names alone."""
        return tuple(
            (self._read(site, name), self._value(site, name, held)) for name, held in reads
        )

    def audit(self, audit: Audit, functions: Mapping[int, Function]) -> Audit:
        """An audit without values; `functions` are those of its misses, as they were."""
        return audit._replace(
            checked=tuple(
                [
                    self._checked(one, found.site if (found := functions.get(one.miss)) else "")
                    for one in audit.checked
                ]
            )
        )

    def _checked(self, one: Checked, site: str) -> Checked:
        return one._replace(
            reads=tuple(
                [
                    read._replace(
                        name=self._read(site, read.name),
                        old=self._value(site, read.name, read.old),
                        new=read.new and self._value(site, read.name, read.new),
                        file=read.file and self.path(read.file),
                    )
                    for read in one.reads
                ]
            ),
            old=one.old and self.listing_id(one.old),
            new=one.new and self.listing_id(one.new),
            again=one.again and self.listing_id(one.again),
            sources=tuple([each._replace(file=self.path(each.file)) for each in one.sources]),
            detail=self._read(site, one.detail),
            disturbed=tuple([self._read(site, name) for name in one.disturbed]),
        )

    def _read(self, site: str, name: str) -> str:
        """The name of what a function reads, without the keys that stand in it."""
        told: list[str] = []
        at, hash_ = 0, ""
        for found in _SUBSCRIPT.finditer(name):
            # Of all that stands before it as well, by the hash of that.
            hash_ = self._hash(4, "read", site, hash_, name[at : found.end()])
            told += name[at : found.start()], f"[<redacted {hash_}>]"
            at = found.end()
        return "".join((*told, name[at:]))

    def site(self, function: Function) -> str:
        """The definition site, with redacted paths."""
        return self._paths.site(function)

    def key(self, key: Key, site: str) -> Key:
        """A cache key without its values; `site` is that of the function, as it was."""
        # All parts at once, so that the type checker finds a new one that is missing here.
        leaves, tree, static, signature, options, config = key
        return Key(
            leaves=leaves,
            tree=tuple(
                node._replace(
                    meta=tuple(
                        (name, self._value(site, f"{node.path}.{name}", value))
                        for name, value in node.meta
                    ),
                    made=node.made and self._class(node.made),
                )
                if node.meta or node.made
                else node
                for node in tree
            ),
            static=self.values(site, static),
            signature=signature,
            options=tuple(
                (name, self._value(site, name, value) if name in _TELLING else self._whole(value))
                for name, value in options
            ),
            config=self._of_config(config),
        )

    def said(self, text: str) -> str:
        """What JAX logged of a miss, without names and values: its fixed words alone."""
        kept = [line for line in text.split("\n") if _FIXED_WORDS.fullmatch(line)]
        return "\n".join([*kept, "<redacted>"])

    def call_site(self, site: CallSite) -> CallSite:
        """The line that called, without its text."""
        return site._replace(file=self.path(site.file), source=None)

    def lines(self, lines: str) -> str:
        """Distinguishes one stack of user lines from another."""
        return self._hash(8, "lines", lines)

    def lowered_with(self, digest: str) -> str:
        """Distinguishes programs with equal equations that become different modules."""
        return self._hash(8, "lowered_with", digest)

    def program(self, program: Program) -> Program:
        """A program's hash and the id of its text, which identify it and reveal nothing else."""
        return program._replace(
            hash=self._program_hash(program.hash),
            listing=program.listing and self.listing_id(program.listing),
            callbacks=tuple(map(self.callback, program.callbacks)),
            results=program.results and self.results(program.results),
        )

    def results(self, digest: str) -> str:
        """Distinguishes the paths of a program's results."""
        return self._hash(6, "results", digest)

    def slow(self, slow: Slow) -> Slow:
        """Where the seconds of a miss went, without its module and foreign paths."""
        return decode_slow(encode_slow(slow, self.frame), None)

    def callback(self, callback: Callback) -> Callback:
        """Where a program calls back into Python."""
        return callback._replace(file=callback.file and self.path(callback.file))

    def cache(self, cache: PersistentCache) -> PersistentCache:
        """What the on-disk cache did; JAX's key of it is a hash of the whole program."""
        key = self.cache_key(cache.key)
        return PersistentCache(cache.outcome, key, cache.reason, saved=cache.saved)

    def cache_key(self, key: str | None) -> str | None:
        """JAX's key of the on-disk cache."""
        return key and self._hash(16, "cache", key)

    def listing(self, listing: Listing) -> Listing:
        """The text of a program without the values that Python put into it."""
        equations = Equations(listing, self._hash, self._program_hash)
        stacks = tuple(tuple(map(self.frame, stack)) for stack in listing.stacks)
        return listing._replace(
            id=self.listing_id(listing.id),
            hash=self._program_hash(listing.hash),
            constants=tuple(map(equations.literal, listing.constants)),
            equations=equations.redacted(),
            stacks=stacks,
            outputs=tuple(
                text if text.startswith("$") else equations.literal(text)
                for text in listing.outputs
            ),
            inner={
                self._program_hash(hash_): self.listing_id(id_)
                for hash_, id_ in listing.inner.items()
            },
        )

    def miss(self, miss: Miss) -> Miss:
        """A miss that was recorded with all that it had."""
        return replace(
            miss,
            function=self.function(miss.function),
            key=self.key(miss.key, miss.function.site),
            call_site=miss.call_site and self.call_site(miss.call_site),
            callers=tuple(map(self.call_site, miss.callers)),
            bodies=tuple(map(self.function, miss.bodies)),
            **dict(hidden(miss, OF_LINE, self)),
        )

    def recording(self, recording: Recording) -> Recording:
        """A whole recording; its programs as they are asked for."""
        runs = [self.run(run) for run in recording.runs]
        misses = [self.miss(miss) for miss in recording.misses]
        known = {(miss.run, miss.number): miss.function for miss in recording.misses}
        audits = [
            self.audit(
                one, {n: function for (run, n), function in known.items() if run == one.run}
            )
            for one in recording.audits
        ]
        return Recording(runs, misses, self.listings(recording.listings), audits)

    def listings(self, listings: Mapping[str, Listing]) -> Listings:
        """The texts of programs, each as it is asked for."""
        return Listings(listings, self.listing, self.listing_id)

    def listing_id(self, id_: str) -> str:
        """What the id of a program's text becomes."""
        return self._hash(12, "listing", id_)

    def _program_hash(self, hash_: str) -> str:
        return self._hash(16, "program", hash_)

    def _token(self, site: str, name: str, token: str | None) -> str | None:
        return None if token is None else self._hash(12, "token", site, name, token)

    def _value(self, site: str, name: str, value: Value) -> Value:
        text = value.text
        # Neither says more than the type, or than that it equals nothing.
        if value.type != "NoneType" and text != "nan":
            # Two that were cut may look the same: that they are is not to be read off the hash.
            cut = is_cut(value.data, text, exact=value.exact)
            content = value.token if cut else repr(value.data)
            text = f"<redacted {self._hash(4, 'text', site, name, text, str(content))}>"
        token = self._token(site, name, value.token)
        return Value(value.type, text, token, value.exact, None, self._classes(value))

    def _whole(self, value: Value) -> Value:
        """A value that says nothing of the program's, but for where its classes are defined."""
        return value._replace(classes=self._classes(value)) if value.classes else value

    def _classes(self, value: Value) -> tuple[Class, ...]:
        return tuple(map(self._class, value.classes))

    def _class(self, known: Class) -> Class:
        return known._replace(file=known.file and self.path(known.file))

    def values(
        self, site: str, values: tuple[tuple[str, Value], ...]
    ) -> tuple[tuple[str, Value], ...]:
        """Named values, by the names and types alone."""
        return tuple((name, self._value(site, name, value)) for name, value in values)

    def _of_config(self, config: tuple[tuple[str, Value], ...]) -> tuple[tuple[str, Value], ...]:
        known = self._config.get(id(config))
        if known is not None:
            return known[1]
        found = tuple(
            (
                name,
                self._whole(value) if is_of_jax(name, value) else self._value("", name, value),
            )
            for name, value in config
        )
        if len(self._config) >= _MAX_KEPT:
            self._config.clear()
        self._config[id(config)] = config, found
        return found

    def frame(self, frame: Frame) -> Frame:
        """A line of a stack."""
        return frame._replace(file=self.path(frame.file))
