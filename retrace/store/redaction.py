"""Redacts a recording: no values of the program, no source, no paths outside the project.

Redacted text is replaced by a hash with a random key, which is kept in memory and never written.
So misses can still be compared, because equal values have equal hashes, but nobody can guess a
short secret by trying. For the same reason hashes also depend on the place: they do not reveal
that two parameters had the same value.

What stays: names (of functions, parameters, keys of dicts among the arguments, modules and
classes), shapes, dtypes, placements, times, lines, and numbers in programs that are axis sizes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import assert_never

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
    Node,
    PersistentCache,
    Program,
    Receiver,
    Recording,
    Run,
    Slow,
    Value,
    is_cut,
)
from retrace.model.parts import Hidden, Named, Values, by_kind, unchanged
from retrace.store import files
from retrace.store.equations import Equations
from retrace.store.fields import redacted
from retrace.store.header import RUN
from retrace.store.hidden_listings import Listings
from retrace.store.hidden_paths import Paths
from retrace.store.hidden_settings import Settings, is_of_jax
from retrace.store.parts import FUNCTION
from retrace.store.schema import MISS_LINE
from retrace.store.slow import decode_slow, encode_slow

_THREAD = re.compile(
    r"MainThread|Thread-\d+(?: \([\w<>]+\))?|ThreadPoolExecutor-\d+_\d+|asyncio_\d+|Dummy"
    r"|main|\d+"
)
"""Names given by Python (one of them includes the name of the function that the thread runs), or
those in an imported log, which at most has numbers of threads."""

_SUBSCRIPT = re.compile(
    r"""\[(?!-?\d+\])(?:(?:[^]'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*\]|.*)""", re.DOTALL
)
"""`['key']` in the name of what a function reads; the index of an item reveals nothing."""

_MAX_SHARED = 1 << 12
_MIN_KEY_BYTES = 32


def read_key(path: Path) -> bytes:
    """Read the key that the processes of a job share; raises UsageError if there is none."""
    try:
        with files.opened(path) as file:
            content = file.read(1 << 16)
    except OSError as error:
        raise UsageError(f"cannot read the key in {path} ({files.reason(error)})") from error
    if len(content) < _MIN_KEY_BYTES:
        raise UsageError(
            f"the key in {path} is shorter than {_MIN_KEY_BYTES} bytes: make one with "
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
"""Lines of JAX's own explanation that name nothing of the program."""


class Redaction:
    """Redacts the parts of a recording."""

    def __init__(self, roots: Iterable[str], key: bytes | None = None) -> None:
        """`roots` are the folders of the project; `key` is drawn at random by default."""
        self._key = os.urandom(32) if key is None else key
        self._paths = Paths(roots, self._hash)
        self._settings = Settings(self._hash)
        self._shared: dict[int, tuple[Named, Named]] = {}

    def _hash(self, size: int, *parts: str) -> str:
        digest = blake2b(key=self._key, digest_size=size)
        for part in parts:
            data = part.encode(errors="surrogatepass")
            digest.update(f"{len(data)} ".encode() + data)
        return digest.hexdigest()

    def run(self, run: Run) -> Run:
        """Redact a process: its arguments, host, environment and settings."""
        return replace(run, redaction=self._hash(8, "key"), **dict(redacted(run, RUN, self)))

    def argv(self, argv: list[str]) -> list[str]:
        """Redact a command line: its arguments."""
        program = argv[0] if argv else ""
        if program and not program.startswith("-"):
            program = self.path(os.path.abspath(program))
        return [program, *["<redacted>"] * (len(argv) - 1)][: len(argv)]

    def variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Redact the values of environment variables."""
        return {name: self._settings.flags(name, text) for name, text in variables.items()}

    def settings(self, settings: Mapping[str, JSON]) -> dict[str, JSON]:
        """Redact JAX's settings: string values other than the known ones."""
        return self._settings.of_jax(settings)

    def path(self, file: str) -> str:
        """Return a path relative to the project or package; of other paths only the last part."""
        return self._paths.path(file)

    def thread(self, name: str) -> str:
        """Redact the name of a thread, unless Python chose it."""
        return name if _THREAD.fullmatch(name) else f"thread {self._hash(4, 'thread', name)}"

    def function(self, function: Function) -> Function:
        """Redact a function: its source and the values that it holds."""
        fields = dict(redacted(function, FUNCTION, self, function.site))
        return function._replace(site=self.site(function), **fields)

    def code(self, code: str) -> str:
        """Redact the content hash of a function's code."""
        return self._hash(8, "code", code)

    def receiver(self, site: str, receiver: Receiver) -> Receiver:
        """Redact the object that a method is bound to: its contents."""
        return receiver._replace(
            equal=self._token(site, "", receiver.equal),
            value=receiver.value and self._value(site, "", receiver.value),
        )

    def reads(
        self, site: str, reads: tuple[tuple[str, Value], ...]
    ) -> tuple[tuple[str, Value], ...]:
        """Redact what a function reads from outside: keep only names."""
        return tuple(
            (self._read_name(site, name), self._value(site, name, held)) for name, held in reads
        )

    def audit(self, audit: Audit, functions: Mapping[int, Function]) -> Audit:
        """Redact the values in an audit; `functions` are those of its misses, not redacted."""
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
                        name=self._read_name(site, read.name),
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
            returned=one.returned and self._returned(site, one.returned),
            detail=self._read_name(site, one.detail),
            disturbed=tuple([self._read_name(site, name) for name in one.disturbed]),
        )

    def _read_name(self, site: str, name: str) -> str:
        """Redact the keys in the name of what a function reads."""
        pieces: list[str] = []
        at, hash_ = 0, ""
        for found in _SUBSCRIPT.finditer(name):
            # The hash also covers everything before it, through the previous hash.
            hash_ = self._hash(4, "read", site, hash_, name[at : found.end()])
            pieces += name[at : found.start()], f"[<redacted {hash_}>]"
            at = found.end()
        return "".join((*pieces, name[at:]))

    def site(self, function: Function) -> str:
        """Redact the paths in a definition site."""
        return self._paths.site(function)

    def key(self, key: Key, site: str) -> Key:
        """Redact the values in a cache key; `site` is that of the function, not redacted."""
        parts = by_kind(
            key,
            arrays=unchanged,
            containers=lambda tree: tuple([self._node(site, node) for node in tree]),
            values=lambda row, values: self._named(row, site, values),
            words=unchanged,
        )
        return Key(**parts)

    def _node(self, site: str, node: Node) -> Node:
        if not (node.meta or node.made):
            return node
        meta = tuple(
            (name, self._value(site, f"{node.path}.{name}", value)) for name, value in node.meta
        )
        return node._replace(meta=meta, made=node.made and self._class(node.made))

    def said(self, text: str) -> str:
        """Redact what JAX logged about a miss: keep only its fixed words."""
        kept = [line for line in text.split("\n") if _FIXED_WORDS.fullmatch(line)]
        return "\n".join([*kept, "<redacted>"])

    def call_site(self, site: CallSite) -> CallSite:
        """Redact a call site: its source text."""
        return site._replace(file=self.path(site.file), source=None)

    def lines(self, lines: str) -> str:
        """Redact a digest that distinguishes stacks of user lines."""
        return self._hash(8, "lines", lines)

    def lowered_with(self, digest: str) -> str:
        """Redact a digest that distinguishes modules of programs with equal equations."""
        return self._hash(8, "lowered_with", digest)

    def carried(self, digest: str) -> str:
        """Redact a digest of the static data that results carry."""
        return self._hash(6, "carried", digest)

    def program(self, program: Program) -> Program:
        """Redact the hash of a program and the id of its text; they still identify it."""
        return program._replace(
            hash=self._program_hash(program.hash),
            listing=program.listing and self.listing_id(program.listing),
            callbacks=tuple(map(self.callback, program.callbacks)),
            results=program.results and self.results(program.results),
        )

    def results(self, digest: str) -> str:
        """Redact a digest of the paths of a program's results."""
        return self._hash(6, "results", digest)

    def slow(self, slow: Slow) -> Slow:
        """Redact where the time of a miss went: its module, and paths outside the project."""
        return decode_slow(encode_slow(slow, self.frame), None)

    def callback(self, callback: Callback) -> Callback:
        """Redact where a program calls back into Python."""
        return callback._replace(file=callback.file and self.path(callback.file))

    def cache(self, cache: PersistentCache) -> PersistentCache:
        """Redact what the on-disk cache did; its key in JAX is a hash of the whole program."""
        key = self.cache_key(cache.key)
        return PersistentCache(cache.outcome, key, cache.reason, saved=cache.saved)

    def cache_key(self, key: str | None) -> str | None:
        """Redact a key of JAX's on-disk cache."""
        return key and self._hash(16, "cache", key)

    def listing(self, listing: Listing) -> Listing:
        """Redact the text of a program: values that came from Python."""
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
        """Redact a complete miss."""
        return replace(
            miss,
            function=self.function(miss.function),
            key=self.key(miss.key, miss.function.site),
            call_site=miss.call_site and self.call_site(miss.call_site),
            callers=tuple(map(self.call_site, miss.callers)),
            bodies=tuple(map(self.function, miss.bodies)),
            **dict(redacted(miss, MISS_LINE, self)),
        )

    def recording(self, recording: Recording) -> Recording:
        """Redact a whole recording; its programs on demand."""
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
        """Redact the texts of programs on demand."""
        return Listings(listings, self.listing, self.listing_id)

    def listing_id(self, id_: str) -> str:
        """Redact the id of a program's text."""
        return self._hash(12, "listing", id_)

    def _program_hash(self, hash_: str) -> str:
        return self._hash(16, "program", hash_)

    def _token(self, site: str, name: str, token: str | None) -> str | None:
        return None if token is None else self._hash(12, "token", site, name, token)

    def _returned(self, site: str, pair: tuple[Value, Value]) -> tuple[Value, Value]:
        old, new = pair
        return self._value(site, "returned", old), self._value(site, "returned", new)

    def _value(self, site: str, name: str, value: Value) -> Value:
        text = value.text
        # `None` reveals nothing beyond its type, and `nan` only that it equals nothing.
        if value.type != "NoneType" and text != "nan":
            # Two values that were cut may only look the same, so their hashes use the tokens.
            cut = is_cut(value.data, text, exact=value.exact)
            content = value.token if cut else repr(value.data)
            text = f"<redacted {self._hash(4, 'text', site, name, text, str(content))}>"
        token = self._token(site, name, value.token)
        classes = self._classes(value)
        return Value(value.type, text, token, value.exact, None, classes, value.is_leaf)

    def _classes(self, value: Value) -> tuple[Class, ...]:
        return tuple(map(self._class, value.classes))

    def _class(self, known: Class) -> Class:
        return known._replace(file=known.file and self.path(known.file))

    def values(
        self, site: str, values: tuple[tuple[str, Value], ...]
    ) -> tuple[tuple[str, Value], ...]:
        """Redact named values: keep only names and types."""
        return tuple((name, self._value(site, name, value)) for name, value in values)

    def _named(self, row: Values, site: str, values: Named) -> Named:
        """Redact one part of a key; what misses share is redacted only once."""
        if not row.is_context:
            return tuple([(name, self._one(row, site, name, value)) for name, value in values])
        known = self._shared.get(id(values))
        if known is None:
            found = tuple([(name, self._one(row, "", name, value)) for name, value in values])
            if len(self._shared) >= _MAX_SHARED:
                self._shared.clear()
            known = self._shared[id(values)] = values, found
        return known[1]

    def _one(self, row: Values, site: str, name: str, value: Value) -> Value:
        match row.hidden:
            case Hidden.ALL:
                is_kept = False
            case Hidden.LISTED:
                is_kept = name not in row.secret
            case Hidden.NOT_OF_JAX:
                is_kept = is_of_jax(name, value)
            case _:
                assert_never(row.hidden)
        if not is_kept:
            return self._value(site, name, value)
        return value._replace(classes=self._classes(value)) if value.classes else value

    def frame(self, frame: Frame) -> Frame:
        """Redact a line of a stack."""
        return frame._replace(file=self.path(frame.file))
