"""`%load_ext retrace` in a real IPython shell: explanations appear below the cells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.drawn

pytest.importorskip("IPython")

ROOT = Path(__file__).resolve().parents[2]
SHELL = """
import hashlib, json, sys
from IPython.core.compilerop import CachingCompiler
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

class Kernel(CachingCompiler):  # names cells as ipykernel does
    def get_code_name(self, raw_code, transformed_code, number):
        return f"/tmp/ipykernel_1/{hashlib.md5(raw_code.encode()).hexdigest()}.py"

kernel, cells = json.load(sys.stdin)
shell = InteractiveShell.instance(colors="NoColor")
if kernel:
    shell.compile = Kernel()

def lines(error):
    at = error and error.__traceback__
    while at:
        if "ipython-input" in at.tb_frame.f_code.co_filename:
            yield at.tb_lineno
        at = at.tb_next

told = []
for cell in cells:
    with capture_output() as seen:
        done = shell.run_cell(cell, store_history=True)
    error = done.error_in_exec or done.error_before_exec
    told.append({
        "text": seen.stdout + "".join(o.data["text/plain"] for o in seen.outputs),
        "html": "".join(o.data.get("text/html", "") for o in seen.outputs),
        "errors": seen.stderr,
        "raised": error and type(error).__name__,
        "lines": list(lines(error)),
    })
json.dump(told, sys.__stdout__)
"""
LOAD = "%load_ext retrace"
IMPORTS = "import jax, jax.numpy as jnp, json, retrace, sys\nx = jnp.arange(5.0)"
STEP = "@jax.jit\ndef smooth(x):\n    return 0.5 * x + jnp.sin(x)\n"
kernels = pytest.mark.parametrize("kernel", [False, True], ids=["terminal", "kernel"])


class Told(NamedTuple):
    """The output of a cell."""

    text: str
    html: str
    errors: str
    raised: str | None
    lines: list[int]


def session(*cells: str, kernel: bool = False, **environment: str) -> list[Told]:
    done = subprocess.run(
        [sys.executable, "-c", SHELL],
        input=json.dumps([kernel, cells]),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": "/nonexistent", **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Told(**one) for one in json.loads(done.stdout.splitlines()[-1])]


@kernels
def test_rerunning_a_cell_differs_from_editing_it(kernel: bool) -> None:
    again = f"%%retrace\n{STEP}\nsmooth(x)"
    edited = again.replace("0.5", "0.25")
    causes = "print(*(f'{m.cause}/{m.fix and m.fix.code}' for m in retrace.misses('smooth')))"
    told = session(
        LOAD, IMPORTS, again, again, edited, "%%retrace\nsmooth(x)", causes, kernel=kernel
    )
    first, second, third, hit, listed = told[2:]
    assert "1 function ran" in first.text
    assert "smooth traced again (2nd time, avoidable)" in second.text
    assert "nearest   smooth #1, called from cell 3 line 6" in second.text
    assert listed.text.split() == [
        "first-trace/None",
        "function-redefined/own-cell",
        "source-changed/None",
    ]
    assert "cell 5 line 4 has 0.5 -> 0.25" in third.text
    assert "no misses in cell 6" in hit.text
    for one in (first, second, third, hit):
        assert "retrace" in one.html
        for said in (one.text, one.html):
            assert "ipython-input" not in said and "ipykernel" not in said


@kernels
def test_cells_have_the_numbers_and_lines_users_see(kernel: bool) -> None:
    show = "print(json.dumps([[m.function.file, m.function.line, m.call_site.file, "
    show += "m.call_site.line] for m in retrace.misses('smooth')]))"
    told = session(
        LOAD,
        IMPORTS,
        f"\n{STEP}",
        "%%retrace kept\n\nsmooth(x)",
        "y = 1\n%time smooth(x[:2])",
        "print(kept.misses)",
        show,
        kernel=kernel,
    )
    assert all(one.raised is None for one in told)
    assert "[<smooth #1: first-trace>]" in told[5].text
    assert json.loads(told[6].text) == [["In [3]", 1, "In [4]", 3], ["In [3]", 1, "In [5]", 2]]


def test_a_cell_that_fails_fails_once_and_is_explained() -> None:
    told = session(
        LOAD,
        IMPORTS + "\n" + STEP,
        "%%retrace\nsmooth(x)\n1 / 0",
        "%%retrace\nif 1\n    2",
        "%%retrace\n  smooth(x)",
        "%%retrace\n%%time\nsmooth(x)",
    )
    failed, syntax, indented, timed = told[2:]
    assert failed.raised == "ZeroDivisionError"
    assert failed.lines[-1] == 3
    assert failed.text.count("Traceback (most recent call last)") == 1
    assert "1 function ran" in failed.text
    assert syntax.raised == "SyntaxError"
    assert syntax.text.count("SyntaxError") == 1
    assert indented.raised is None and timed.raised is None
    assert "Wall time" in timed.text


def test_the_whole_session_and_a_wrong_line() -> None:
    told = session(
        LOAD,
        IMPORTS + "\n" + STEP,
        "smooth(x); smooth(x[:2])",
        "%retrace",
        "retrace.explain('smooth')",
        "with retrace.recording() as seen:\n    smooth(x[:3])\ndisplay(seen)",
        "%retrace smooth(x)",
        "%retrace audit",
        "half = 0.5\n@jax.jit\ndef halved(x):\n    return half * x\n",
        "halved(x)\nhalf = 0.25",
        "%retrace audit",
        "%retrace halved",
        "%%retrace --help\n1 / 0",
        "%%retrace --help",
        "%retrace plan",
        "%retrace halfed",
        "%unload_ext retrace",
        "%retrace",
    )
    assert told[15].raised == "UsageError" and "'halfed'" in told[15].errors
    assert "did you mean halved?" in told[15].errors
    assert told[13].text == told[12].text
    assert "needed:" in told[14].text and "<th scope=" in told[14].html
    # The calling line, and what differs in the program.
    assert "smooth(x); smooth(x[:2])</pre>" in told[3].html
    assert "<mark>2</mark>" in told[3].html
    assert "of halved" in told[11].text and "smooth" not in told[11].text
    assert told[12].raised is None and "%retrace audit" in told[12].text
    assert "in this session" in told[3].text and "float32[5] -> float32[2]" in told[3].text
    assert "smooth traced again (2nd time" in told[4].text
    assert "1 function ran" in told[5].text
    assert "1 function ran" in told[5].html
    assert told[6].raised == "UsageError" and "Traceback" not in told[6].text
    assert "%%retrace [NAME]" in told[6].errors
    assert "OUT OF DATE" not in told[7].text and "halved" in told[10].text
    assert "OUT OF DATE" in told[10].text and "0.5 when traced -> 0.25 now" in told[10].text
    assert "OUT OF DATE" in told[10].html and "0.25" in told[10].html
    assert "`%retrace` not found" in told[17].text + told[17].errors


def test_loading_imports_no_jax_and_off_is_off() -> None:
    loaded = session(LOAD, "import sys; print('jax' in sys.modules)")
    assert loaded[1].text == "False\n"
    off = session(LOAD, IMPORTS, "%%retrace\nprint('ran')", "%retrace", RETRACE="0")
    assert off[2].text == off[3].text.join(("ran\n", ""))
    assert "RETRACE=0 is set" in off[2].text
    assert off[2].html == ""


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.shown = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        assert {name for name, _ in attrs} <= {"class", "open", "scope"}, attrs

    def handle_data(self, data: str) -> None:
        self.shown += data


TAGS = frozenset(
    "div style p b br span details summary code table thead tbody tr th td pre mark".split(" ")  # noqa: SIM905
)


def test_names_and_values_of_the_program_are_escaped() -> None:
    hostile = "</td><script>alert(1)</script><img src=x onerror='alert(2)'>"
    told = session(
        LOAD,
        f"{IMPORTS}\nhostile = {hostile!r}\n"
        "def step(batch, mode): return batch[hostile] + 1\n"
        "step.__name__ = step.__qualname__ = hostile\n"
        "step = jax.jit(step, static_argnames='mode')",
        "%%retrace\nstep({hostile: x}, mode=hostile); step({hostile: x[:2]}, mode='`' + hostile)",
        "display(retrace.misses())",
        "display(retrace.misses()[-1])",
    )
    for one in told[2:]:
        assert one.raised is None
        tags = _Tags()
        tags.feed(one.html)
        assert tags.found <= TAGS
        assert "<script>" in tags.shown


def test_the_escaping_test_can_fail() -> None:
    tags = _Tags()
    tags.feed("<p><script>alert(1)</script>")
    assert not tags.found <= TAGS
    with pytest.raises(AssertionError):
        tags.feed("<p onclick='x'>")


def test_an_audit_before_there_is_anything_to_audit() -> None:
    told = session(LOAD, "%retrace audit")
    assert (told[1].raised, "jax has not" in told[1].text) == (None, True)
