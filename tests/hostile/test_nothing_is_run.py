"""Reading a recording executes nothing from it, imports nothing and starts nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.hostile.__main__ import record

ROOT = Path(__file__).parents[2]
PROGRAM = """
import re, sys
from pathlib import Path
from tests.hostile import commands
from tests.hostile.__main__ import ids

whole, home = map(Path, sys.argv[1:])
project = home / "pyproject.toml"
project.write_text('[tool.retrace.budgets."*"]\\ntraces = 1\\n')
lines = commands.lines(whole, whole, home / "profile.pb.gz", project)
lines += [("show", id_, str(whole), "--program") for id_ in ids(commands.read(whole))]
ANY = ("exec", "compile", "import", "pickle.find_class", "marshal.loads", "ctypes.dlopen")
ANY += ("subprocess.Popen", "os.exec", "os.system", "os.posix_spawn", "os.fork", "socket.connect")
seen = []

def reads():
    # Typer compiles its own annotations.
    frame = sys._getframe(2)
    while frame is not None:
        if re.search("retrace/(store|compare|reason|present)/", frame.f_code.co_filename):
            return True
        frame = frame.f_back

def note(event, arguments):
    if listening and event in ANY and reads():
        seen.append((event, str(arguments)[:200]))

listening = False
sys.addaudithook(note)
for listening in (False, True):  # the first run of a command has done its imports
    for line in lines:
        commands.run(*line)
listening = False
print(*seen, sep="\\n")
"""


def test_no_command_runs_anything(tmp_path: Path) -> None:
    whole = record(tmp_path / "whole")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(whole), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout == "\n"
