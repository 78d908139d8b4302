"""Names, values, places and source lines of a program that would rather be commands."""

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
    "\udfff \ud800",  # the other way round they would be one character, once read
)
NOT_OURS = ("kind", "part", "id", "stages", "stage", "persistent_cache", "program", "listing")
"""Fields of the format, which no program writes."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("escaping")
    record(home / "whole")
    return home


def with_text(value: Any, text: str) -> Any:
    """Every name, value, place and line of the program, with `text` in it."""
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {
            name: item if name in NOT_OURS else with_text(item, text)
            for name, item in fields.items()
        }
    if isinstance(value, list):
        return [with_text(item, text) for item in cast(list[Any], value)]
    if isinstance(value, str) and re.search("step|scanned|everything|settings|Settings", value):
        return value[:30] + text
    return value + text if value in ("train", "test", "'train'", "'test'", "x") else value


def damaged(files: Files, text: str) -> Files:
    """The recording of a program that has `text` everywhere."""
    found: Files = {}
    for name, data in files.items():
        lines = [json.loads(line) for line in data.splitlines()]
        told = [json.dumps(with_text(line, text), separators=(",", ":")) for line in lines]
        found[name] = "".join(f"{line}\n" for line in told).encode()
    return found


@pytest.mark.parametrize("text", FRAGMENTS, ids=ascii)
def test_no_output_has_a_command_in_it(home: Path, text: str) -> None:
    files = damaged(commands.read(home / "whole"), text)
    told = commands.write(files, home / "told")
    project = home / "pyproject.toml"
    project.write_text('[tool.retrace.budgets."*"]\ntraces = 1\n')
    lines = commands.lines(told, home / "whole", home / "profile.pb.gz", project)
    lines += [("show", id_, str(told), "--program") for id_ in ids(files)]
    lines.append(("diff", *ids(files), "--recording", str(told)))
    for line in lines:
        ended = commands.run(*line)
        assert ended.status in (0, 1), ended
        assert commands.complaint(ended) is None, ended
        ended.out.encode()
        if "github" in line:
            held_to_commands(ended.out)
        if "markdown" in line:
            held_to_markdown(ended.out)
        if "html" in line:
            held_to_page(ended.out)


def held_to_commands(out: str) -> None:
    """Each line is a command of ours: what the program wrote stands behind its `::`."""
    assert "a%0A" not in out, "GitHub would end the line there"
    for line in out.splitlines():
        found = re.fullmatch(r"::(error|warning|notice) ([^\r\n]*?)::([^\r\n]*)", line)
        assert found, line
        for pair in found[2].split(","):
            assert re.match("(file|line|title)=[^:,]*$", pair), line


def held_to_markdown(out: str) -> None:
    """Outside of code there is nothing of the program's that Markdown or GitHub would obey."""
    block = re.sub(r"````text\n.*?\n````\n", "", out, flags=re.DOTALL)
    outside = re.sub(r"(?<!\\)(`+)(?!`).*?(?<!`)\1(?!`)", "", block)
    assert not re.search(r"(?<!\\)<(?!!-- -->)", outside), outside
    assert not re.search(r"(?<!\\)\]\(|(?<!\\)&lt;", outside), outside
    assert not re.search(r"@\w|://\w|(?<!\\)#\d|www\.\w", outside), outside
    for line in out.splitlines():
        assert not re.match("#+ owned|````<", line)
    for line in block.splitlines():
        if line.startswith("|"):  # a row ends at a bar, within code as well
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


def held_to_page(out: str) -> None:
    """Nothing of the program's is more than text: no tag, no link, no script of its own."""
    page = Page()
    page.feed(out)
    assert page.tags["script"] == 3 and page.tags["style"] == page.tags["html"] == 1
    assert not {"img", "iframe", "object", "embed", "form", "base", "link", "b"} & {*page.tags}
    *data, ours = page.scripts
    for packed in data:
        json.loads(zlib.decompress(b64decode(packed, validate=True)))
    assert "owned" not in ours


def test_a_line_that_begins_as_a_command_does_is_none() -> None:
    # Where a line is wrapped, any word of the program's may come to stand first.
    told = "a because\n  ::error::owned\n::x ##[error]y\nb::c [::2]\n"
    shown = "a because\n  :\\x3aerror::owned\n:\\x3ax #\\x23[error]y\nb::c [::2]\n"
    assert inert(told) == shown


def test_what_is_kept_from_a_log_is_still_told_in_json(home: Path) -> None:
    text = "##[error]owned"
    files = damaged(commands.read(home / "whole"), text)
    told = commands.write(files, home / "told")
    report = json.loads(commands.run("report", str(told), "--format", "json").out)
    assert {miss["function"]["name"] for miss in report["misses"]} >= {f"step{text}"}
