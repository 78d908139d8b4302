"""What an agent can ask about recordings, using the protocol's own SDK as the client."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters, stdio_client

from retrace.command.cli import application
from tests.process import environment, retrace
from tests.reading.story import Story, training, write

SKILL = Path(__file__).parents[2] / "docs" / "skills" / "retrace" / "SKILL.md"


def asked(folder: Path, *calls: tuple[str, dict[str, Any]]) -> tuple[list[str], list[Any]]:
    """The names of the tools, and the result of each call: data, or the text of an error."""

    async def ask() -> tuple[list[str], list[Any]]:
        variables = environment()
        # Warnings from the SDK's own dependencies do not matter here.
        del variables["PYTHONWARNINGS"]
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "retrace", "mcp"], cwd=folder, env=variables
        )
        found: list[Any] = []
        async with Client(stdio_client(server)) as client:
            tools = await client.list_tools()
            for name, arguments in calls:
                answer = await client.call_tool(name, arguments)
                text: Any = getattr(answer.content[0], "text", "")
                found.append(text if answer.is_error else json.loads(text))
        return [tool.name for tool in tools.tools], found

    return anyio.run(ask)


def test_an_agent_finds_and_proves(tmp_path: Path) -> None:
    before = write(training(), tmp_path / ".retrace" / "2025-01-02T10-00-00")
    after = write(Story("after01"), tmp_path / ".retrace" / "2025-01-01T10-00-00")
    tools, answers = asked(
        tmp_path,
        ("list_recordings", {}),
        ("plan", {"top": 1}),
        ("report", {"tokens": 1500}),
        ("explain_miss", {"miss": "train_step #3"}),
        ("compare", {"old": str(before), "new": str(after), "expect": "1"}),
        ("compare", {"old": str(after), "new": str(after)}),
        ("explain_miss", {"miss": "no such"}),
        ("plan", {"recording": str(tmp_path / "nowhere")}),
    )
    assert tools == ["list_recordings", "plan", "report", "explain_miss", "compare"]
    listed, plan, report, miss, changed, same, unknown, nowhere = answers
    assert [Path(one["recording"]) for one in listed["recordings"]] == [before, after]
    own = json.loads(retrace("plan", before, "--format", "json", "--top", "1").stdout)
    assert plan == own
    assert report["schema"] == "retrace-extract/1"
    assert report["tokens"]["counted"] <= 1500
    assert (miss["label"], miss["cause"]) == ("train_step #3", "shape-changed")
    assert not changed["equal"]
    assert "expected" in changed
    assert same["equal"]
    assert "no miss 'no such'" in unknown
    assert f"cannot read {tmp_path / 'nowhere'}" in nowhere


def test_without_the_sdk_it_is_one_line(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None; sys.argv[1:] = ['mcp']\n"
    code += "from retrace.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("retrace: ") and done.stderr.count("\n") == 1
    assert done.stderr.endswith(" pip install 'retrace-jax[mcp]'\n")


def test_the_skill_names_what_there_is() -> None:
    text = SKILL.read_text()
    assert re.match(r"---\nname: retrace\ndescription: .+\n---\n", text)
    known = {
        (each.name or getattr(each.callback, "__name__", ""))
        for each in application().registered_commands
    }
    lines = [line for line in text.splitlines() if line.startswith("retrace ")]
    assert len(lines) == 6
    assert {line.split()[1] for line in lines} <= known
    for tool in ("list_recordings", "plan", "report", "explain_miss", "compare"):
        assert f"`{tool}`" in text
