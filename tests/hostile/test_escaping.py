"""Names, values, places and source lines of a program that contain commands."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import pytest

from retrace.present.words import inert
from tests.hostile import commands
from tests.hostile.__main__ import ids, record
from tests.hostile.mutations import Files

FRAGMENTS = (
    "\x1b[2J\x1b]0;owned\x07",
    "\x9b31m\x90q\x9c",
    "\n::error::owned\r\n##[error]owned",
    "::warning file=owned::owned",
    "##[add-mask]owned",
    "a%0A::error::owned",
    "<script>owned</script>&lt;",
    "](javascript:owned)![x](http://owned.example/a.png)",
    "`` ` ``` <b>owned @owned",
    "\n# owned\n\n````\n<b>",
    "| owned | @owned #1 owned/owned#1 http://owned.example www.owned.example",
    "\u202egpj\u2066\u200f\u2028",
    "\U000e0041\u00ad\u200b\ufeff",
    "\udfff \ud800",  # in the other order, they would be read as one character
)
FORMAT_FIELDS = (
    "kind",
    "part",
    "id",
    "stages",
    "stage",
    "persistent_cache",
    "program",
    "listing",
)
"""Fields of the format, whose values never come from the program."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("escaping")
    record(home / "whole")
    return home


def with_text(value: Any, text: str) -> Any:
    """Add `text` to every name, value, place and line of the program."""
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {
            name: item if name in FORMAT_FIELDS else with_text(item, text)
            for name, item in fields.items()
        }
    if isinstance(value, list):
        return [with_text(item, text) for item in cast(list[Any], value)]
    if isinstance(value, str) and re.search("step|scanned|everything|settings|Settings", value):
        return value[:30] + text
    return value + text if value in ("train", "test", "'train'", "'test'", "x") else value


def damaged(files: Files, text: str) -> Files:
    """Create the recording of a program that has `text` everywhere."""
    found: Files = {}
    for name, data in files.items():
        lines = [json.loads(line) for line in data.splitlines()]
        changed = [json.dumps(with_text(line, text), separators=(",", ":")) for line in lines]
        found[name] = "".join(f"{line}\n" for line in changed).encode()
    return found


@pytest.mark.parametrize("text", FRAGMENTS, ids=ascii)
def test_no_output_contains_a_command(home: Path, text: str) -> None:
    files = damaged(commands.read(home / "whole"), text)
    damaged_copy = commands.write(files, home / "damaged")
    project = home / "pyproject.toml"
    project.write_text('[tool.retrace.budgets."*"]\ntraces = 1\n')
    lines = commands.lines(damaged_copy, home / "whole", home / "profile.pb.gz", project)
    lines += [("show", id_, str(damaged_copy), "--program") for id_ in ids(files)]
    lines.append(("diff", *ids(files), "--recording", str(damaged_copy)))
    for line in lines:
        ended = commands.run(*line)
        assert ended.status in (0, 1), ended
        assert commands.complaint(ended) is None, ended
        ended.out.encode()
        if "github" in line:
            check_commands(ended.out)
        if "markdown" in line:
            check_markdown(ended.out)
        if "html" in line:
            check_page(ended.out)


def check_commands(out: str) -> None:
    """Each line is one of our commands; text of the program only follows its `::`."""
    assert "a%0A" not in out, "GitHub would end the line here"
    for line in out.splitlines():
        found = re.fullmatch(r"::(error|warning|notice) ([^\r\n]*?)::([^\r\n]*)", line)
        assert found, line
        for pair in found[2].split(","):
            assert re.match("(file|line|title)=[^:,]*$", pair), line


def check_markdown(out: str) -> None:
    """Outside code, no text of the program has an effect in Markdown or on GitHub."""
    block = re.sub(r"````text\n.*?\n````\n", "", out, flags=re.DOTALL)
    outside = re.sub(r"(?<!\\)(`+)(?!`).*?(?<!`)\1(?!`)", "", block)
    assert not re.search(r"(?<!\\)<(?!!-- -->)", outside), outside
    assert not re.search(r"(?<!\\)\]\(|(?<!\\)&lt;", outside), outside
    assert not re.search(r"@\w|://\w|(?<!\\)#\d|www\.\w", outside), outside
    for line in out.splitlines():
        assert not re.match("#+ owned|````<", line)
    for line in block.splitlines():
        if line.startswith("|"):  # a cell ends at a bar, even within code
            assert len(re.findall(r"(?<!\\)\|", line)) in (5, 7), line


class Page(HTMLParser):
    """The tags of a page, and what could run in it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.scripts: list[str] = []
        self._open: str = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self._open = tag
        for name, value in attrs:
            assert not name.startswith("on") and name not in ("src", "style", "srcset"), name
            assert name != "href" or re.fullmatch(r"#[0-9a-z.-]+", value or ""), value

    def handle_data(self, data: str) -> None:
        if self._open == "script":
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._open = ""


def check_page(out: str) -> None:
    """All content of the program is plain text: no tag, no link, no script."""
    page = Page()
    page.feed(out)
    assert page.tags["script"] == 3 and page.tags["style"] == page.tags["html"] == 1
    assert not {"img", "iframe", "object", "embed", "form", "base", "link", "b"} & {*page.tags}
    *data, ours = page.scripts
    for packed in data:
        json.loads(zlib.decompress(b64decode(packed, validate=True)))
    assert "owned" not in ours


def test_a_line_that_looks_like_a_command_is_escaped() -> None:
    # After wrapping, any word of the program may come first in a line.
    text = "a because\n  ::error::owned\n::x ##[error]y\nb::c [::2]\n"
    shown = "a because\n  :\\x3aerror::owned\n:\\x3ax #\\x23[error]y\nb::c [::2]\n"
    assert inert(text) == shown


def test_json_holds_names_unchanged(home: Path) -> None:
    text = "##[error]owned"
    files = damaged(commands.read(home / "whole"), text)
    changed = commands.write(files, home / "damaged")
    report = json.loads(commands.run("report", str(changed), "--format", "json").out)
    assert {miss["function"]["name"] for miss in report["misses"]} >= {f"step{text}"}
