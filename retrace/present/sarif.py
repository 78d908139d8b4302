"""The causes as SARIF 2.1.0, which code scanning and editors read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from retrace.causes import Cause
from retrace.present import glossary
from retrace.present.advice import advised
from retrace.present.github import place
from retrace.present.group import Group
from retrace.present.message import heading
from retrace.present.sentences import explanation
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.present.words import clean, seconds

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_BASE = "SRCROOT"
_CODES = [cause.value for cause in Cause]


def report(view: View, tally: Tally, version: str) -> dict[str, Any]:
    """The log as plain data, most expensive cause first. First traces are not results.

    Args:
        view: the whole recording.
        tally: the misses to include.
        version: the version of retrace.
    """
    # GitHub resolves files relative to the checkout, wherever the program ran.
    here = os.environ.get("GITHUB_WORKSPACE") or (view.bases[0] if view.bases else "")
    groups = [group for group in tally.groups() if group.cause is not Cause.FIRST_TRACE]
    run = {
        "tool": {
            "driver": {
                "name": "retrace",
                "version": version,
                "informationUri": glossary.HOME,
                "rules": [_rule(cause) for cause in Cause],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(view, group, here) for group in groups],
        "invocations": [
            {
                "executionSuccessful": not view.losses(),
                "toolExecutionNotifications": [
                    {"level": "warning", "message": {"text": f"{number:,} lost: {name}"}}
                    for name, number in view.losses().items()
                ],
            }
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(cause: Cause) -> dict[str, Any]:
    return {
        "id": cause.value,
        "name": "".join(part.capitalize() for part in cause.value.split("-")),
        "shortDescription": {"text": glossary.CAUSES[cause]},
        "helpUri": glossary.page(cause),
    }


def _result(view: View, group: Group, here: str) -> dict[str, Any]:
    verdict = group.shown
    function = verdict.miss.function
    texts = [f"{heading(view, group)}.", explanation(view, verdict)]
    texts.append(f"Cost: {seconds(group.seconds)}.")
    if verdict.fix is not None:
        texts.append(f"Fix: {clean(advised(verdict.fix), None)}")
    file, line = place(verdict)
    result: dict[str, Any] = {
        "ruleId": group.cause.value,
        "ruleIndex": _CODES.index(group.cause.value),
        # Only what is clearly avoidable deserves a warning in the code; the rest are notes.
        "level": "warning" if verdict.avoidable == "yes" else "note",
        "message": {"text": clean(" ".join(texts), None)},
        "locations": [*_location(file, line, here)],
        "occurrenceCount": group.count,
        "partialFingerprints": {"retrace/1": _fingerprint(group, file, here)},
        "properties": {
            "seconds": group.seconds,
            "avoidable": verdict.avoidable,
            "misses": group.count,
            "id": verdict.miss.id,
        },
    }
    if related := [*_location(function.file, function.line, here, "the function")]:
        result["relatedLocations"] = related
    return result


def _location(
    file: str | None, line: int | None, here: str, text: str | None = None
) -> Iterator[dict[str, Any]]:
    if not file or file.startswith("<"):  # code typed into an interpreter
        return
    physical: dict[str, Any] = {"artifactLocation": _artifact(file, here)}
    if line:
        physical["region"] = {"startLine": line}
    yield {"physicalLocation": physical} | ({"message": {"text": text}} if text else {})


def _artifact(file: str, here: str) -> dict[str, str]:
    path = PurePath(file)
    if here and path.is_relative_to(here):
        return {"uri": _uri(path.relative_to(here)), "uriBaseId": _BASE}
    return {"uri": _uri(path)}


def _uri(path: PurePath) -> str:
    # Not with `as_uri`: a name may not be encodable, and a redacted path has no root.
    text = quote(path.as_posix(), errors="surrogatepass")
    if not path.is_absolute():
        return text
    return f"file://{text}" if text.startswith("/") else f"file:///{text}"


def _fingerprint(group: Group, file: str | None, here: str) -> str:
    # The line is left out, so that a result stays the same while code above it grows.
    relative = os.path.relpath(file, here) if file and here else file or ""
    name = group.shown.miss.function.qualname
    text = f"{group.cause.value}\0{name}\0{relative}"
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()
