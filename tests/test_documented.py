"""Commands in docs and messages: their options exist, and those in code blocks run."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from retrace.command.cli import application
from tests import sample
from tests.process import environment

ROOT = Path(__file__).parents[1]
ACTION = ROOT / ".github" / "actions" / "retrace" / "action.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SAMPLE = 3
"""Number of pages whose commands run in CI; with RETRACE_TEST_ALL_COMMANDS=1, all do."""
LONG = ("tutorial.md",)
"""Never sampled: tests/test_tutorial.py follows it, including its edits."""
NOT_RUN = {
    "python3 -m venv": "creates an environment; CI runs the line that runs the tests",
    ".venv/bin/python -m tests.benchmarks": "takes minutes",
    "git clone --depth 1": "needs the network",
    ".venv/bin/python -m tests.suites": "also needs the network; tests/running/test_suites.py",
    "claude mcp add": "needs that program; tests/reading/test_agents.py is a client",
    "retrace audit 14658": "needs a program that runs; tests/auditing/test_asked.py has one",
    "retrace run --out s3:": "needs a bucket; tests/store/test_remote.py has one",
    "retrace hosts s3:": "the same",
    "retrace diff s3:": "the same",
    "retrace report /shared/recording --dask": "needs a cluster; tests/reading/test_workers.py",
}
"""Commands that are only parsed, by their beginning."""
FINDS = ("--expect", "--fail-on", "retrace check", "retrace hosts")
"""A block with one of these may exit with 1, because something was found."""

TRAIN = """
import jax, numpy as np

@jax.jit
def train_step(state, step, batch):
    return state + batch["ids"].sum() * 0.1, step + np.int32(1)

def main():
    state, step = np.zeros(()), 0
    for size in (4, 4, 4, 3, 2):
        state, step = train_step(state, step, {"ids": np.ones(size, np.int32)})

main()
"""
PROFILED = """retrace run -q --out recording --count --slow --slow-over 0.001 - <<END
import jax, runpy
with jax.profiler.trace("profile"):
    runpy.run_path("train.py")
END
"""
STUBS = {
    "retrace": '#!/bin/sh\nexec "{python}" -m retrace "$@"\n',
    "python": '#!/bin/sh\nexec "{python}" "$@"\n',
    # The scheduler just starts the command.
    "srun": '#!/bin/sh\nexec "$@"\n',
    # Only our own extras may be installed, and only files of the repository downloaded.
    "pip": (
        "#!{python}\nimport pathlib, sys, tomllib\n"
        "text = pathlib.Path({root!r}, 'pyproject.toml').read_text()\n"
        "project = tomllib.loads(text)['project']\n"
        "name, _, extra = sys.argv[2].rstrip(']').partition('[')\n"
        "assert sys.argv[1] == 'install' and name == project['name'], sys.argv\n"
        "assert not extra or extra in project['optional-dependencies'], sys.argv\n"
    ),
    "curl": (
        "#!{python}\nimport sys, shutil\n"
        "_, _, path = sys.argv[-1].partition('/retrace-jax/retrace/main/')\n"
        "shutil.copy({root!r} + '/' + path, '.')\n"
    ),
    "duckdb": (
        "#!{python}\nimport sys, duckdb, pathlib\nhow, what = sys.argv[1:]\n"
        "print(duckdb.sql(what if how == '-c' else pathlib.Path(what).read_text()))\n"
    ),
}


BESIDE = {
    "metrics.md": "following/test_metrics.py",
    "tables.md": "tables/test_export.py",
    "notebook.md": "running/test_notebook.py",
    "causes": "cause_pages.py",
}
"""Pages, or folders of pages, whose Python blocks have their own test."""
AROUND = """
import logging
import jax, numpy as np, pytest, retrace

@jax.jit
def step(state, batch):
    return state + batch.sum()

@jax.jit
def train_step(state, batch):
    return state - batch.mean()

w, x, state, batch = np.float32(1), np.float32(1), np.float32(0), np.ones(4, np.float32)
batches, log = [batch, batch], logging.getLogger()

def train():
    for one in batches:
        step(state, one)

def serve(state):
    step(state, batch)

{page}

def test_its_blocks_ran():
    pass
"""
DIGITS = """
import jax

@jax.jit
def train_step(x):
    return x

@jax.jit
def predict(x):
    return x

def main():
    for _ in range(2):
        train_step(1.0), predict(1.0)
"""
"""A short version of the program on its page."""


def blocks(page: Path) -> Iterator[str]:
    """Yield what a reader would type, block by block."""
    for kind, text in re.findall(
        r"^```(sh|console)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
    ):
        lines = text.splitlines()
        if kind == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        yield "\n".join(line for line in lines if not line.startswith(tuple(NOT_RUN)))


def commands_in(page: Path) -> Iterator[str]:
    """Yield each `retrace ...` on a page, in code blocks and in text."""
    text = page.read_text()
    yield from re.findall(r"`(retrace [a-z][^`\n]*)`", text)
    shown = re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for block in [*shown, *re.findall(r"^- run: (.*)$", text, re.MULTILINE)]:
        yield from re.findall(r"(?:^|[\s/])(?<!add )(retrace [a-z-][^\n]*)", block, re.MULTILINE)


def _wrong(line: str, commands: dict[str, Any]) -> str | None:
    """What is wrong with a command line, if anything."""
    words = shlex.shlex(line, posix=True, punctuation_chars="&;<>")
    words.whitespace_split = True
    _, name, *rest = itertools.takewhile(lambda word: not set(word) <= set("&;<>"), words)
    if name not in commands:
        return f"there is no command {name!r}"
    if name == "run":
        # Everything after the script belongs to the script.
        whole = "|".join(rest)
        rest = re.split(r"(?:^|\|)(?:-m\||[^|]+\.py)", whole)[0].split("|")
    known = {opt for one in commands[name].params for opt in [*one.opts, *one.secondary_opts]}
    given = [word.partition("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)]
    lost = [word for word in given if word not in known | {"--help"}]
    return f"there is no {', '.join(lost)}" if lost else None


def test_options_named_in_docs_and_messages_exist() -> None:
    group: Any = typer.main.get_command(application())
    sources = sorted((ROOT / "retrace").rglob("*.py"))
    found = [(page, line) for page in [*PAGES, *sources] for line in commands_in(page)]
    assert len(found) > 250
    wrong = [
        f"{page.name}: {line}: {why}"
        for page, line in found
        if (why := _wrong(line, group.commands))
    ]
    assert wrong == []
    assert _wrong("retrace report --fromat html", group.commands) == "there is no --fromat"
    assert _wrong("retrace run train.py --epochs 3", group.commands) is None


def test_commands_that_are_not_run_are_still_in_the_docs() -> None:
    lines = [line for page in PAGES for line in page.read_text().splitlines()]
    gone = [start for start in NOT_RUN if not any(line.startswith(start) for line in lines)]
    assert gone == []


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder, with programs and recordings named as on the pages."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "bin").mkdir()
    for name, text in STUBS.items():
        path = folder / "bin" / name
        path.write_text(text.format(python=sys.executable, root=str(ROOT)))
        path.chmod(0o755)
    work = folder / "work"
    (work / "package").mkdir(parents=True)
    for name in ("train.py", "server.py", "package/train.py", "package/module.py"):
        (work / name).write_text(TRAIN)
    (work / "package" / "__init__.py").touch()
    (work / "docs").symlink_to(ROOT / "docs")
    (work / "examples").symlink_to(ROOT / "examples")
    (work / "pyproject.toml").write_text('[tool.retrace.budgets."train_step"]\ntraces = 1\n')
    _run("python -c 'import numpy; numpy.save(\"lengths\", numpy.arange(1, 9))'", folder)
    _run(PROFILED, folder)
    _run("JAX_LOG_COMPILES=1 JAX_EXPLAIN_CACHE_MISSES=1 python train.py 2> train.log", folder)
    shutil.copy(work / "train.log", work / "job.log")
    _run(
        "mkdir .retrace runs tables shared\n"
        "for to in .retrace/a .retrace/b .retrace/ci before after monday friday runs/pod-17\n"
        "do cp -r recording $to; done",
        folder,
    )
    return folder


def _run(script: str, folder: Path, work: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"set -e\n{script}"],
        cwd=work or folder / "work",
        env=environment(PATH=path, NO_COLOR="1", JOB="17"),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )
    assert work or done.returncode == 0, done.stderr
    return done


def _sample() -> list[Path]:
    pages = [page for page in PAGES if any(block.strip() for block in blocks(page))]
    assert len(pages) > 12
    if sample.all_of("COMMANDS"):
        return pages
    pages = [page for page in pages if page.name not in LONG]
    return sorted(pages, key=lambda page: sample.number(page.name))[:SAMPLE]


@pytest.mark.drawn
@pytest.mark.skipif(shutil.which("bash") is None, reason="the commands are for a shell")
def test_the_commands_in_the_docs_run(prepared: Path) -> None:
    wrong: list[str] = []
    for page in _sample():
        work = prepared / f"{page.parent.name}-{page.stem}"
        shutil.copytree(prepared / "work", work, symlinks=True)
        for block in blocks(page):
            script = block.replace("/shared/", f"{work}/shared/")
            # Our programs are too small for the default of this option.
            script = script.replace("run --slow ", "run --slow --slow-over 0.001 ")
            script = script.replace("/tmp/profile", f"{work}/profile")
            done = _run(script, prepared, work)
            found = done.returncode == 1 and any(word in script for word in FINDS)
            # What an older JAX lacks is said in one line, and the block ends there.
            found = found or (done.returncode == 2 and "needs jax" in done.stderr)
            if (done.returncode and not found) or "Traceback" in done.stderr:
                wrong.append(
                    f"{page.relative_to(ROOT)} ({done.returncode})\n{block}\n{done.stderr}"
                )
        shutil.rmtree(work)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.drawn
def test_the_python_in_the_docs_runs(tmp_path: Path) -> None:
    assert [name for name in BESIDE.values() if not (ROOT / "tests" / name).is_file()] == []
    (tmp_path / "train_digits.py").write_text(DIGITS)
    for page in PAGES:
        found = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        if found and page.name not in BESIDE and page.parent.name not in BESIDE:
            # One module for each page, because blocks continue earlier ones.
            name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
            (tmp_path / f"test_{name}.py").write_text(AROUND.format(page="\n\n".join(found)))
    assert len(list(tmp_path.glob("test_*.py"))) >= 10
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:jaxtyping",
            ".",
        ],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflows_in_the_docs_use_existing_inputs() -> None:
    ours, hooks = yaml.safe_load(ACTION.read_text()), yaml.safe_load(HOOKS.read_text())
    steps: list[dict[str, Any]] = []
    hooked: list[str] = []
    for page in PAGES:
        for text in re.findall(
            r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
        ):
            found: Any = yaml.safe_load(text)
            if isinstance(found, list):
                steps += found
            elif "jobs" in found:
                steps += [step for job in found["jobs"].values() for step in job["steps"]]
            else:
                hooked += [hook["id"] for repo in found["repos"] for hook in repo["hooks"]]
    used = [step for step in steps if "/.github/actions/retrace@" in step.get("uses", "")]
    assert used
    for step in used:
        assert set(step["with"]) <= set(ours["inputs"])
        assert all(
            name in step["with"] for name, one in ours["inputs"].items() if "required" in one
        )
    table = (ROOT / "docs" / "how" / "ci.md").read_text()
    assert [name for name in ours["inputs"] if f"| `{name}` |" not in table] == []
    assert hooked and set(hooked) == {hook["id"] for hook in hooks}
