"""One name of JAX after the other is taken away, and what is then recorded is written down.

    python renamed.py RESULTS [ROW]...

Each runs in a child that is forked before JAX has touched a device. A row is a number in the
table of names, `source:NAME` for a JAX whose source has another name there, or
`never:EVENT` and `twice:EVENT`. Without rows, all of them.

That retrace looks for another name than JAX has is the same to it as JAX having renamed it:
so the rows of the table are changed, not JAX, which goes on working. Those of `source:` are
renamed in JAX, by an import hook, to see that both come to the same.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType
from typing import Any

EVENTS = {
    "lower": "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "compile": "/jax/core/compile/backend_compile_duration",
}


class _Renaming(importlib.abc.MetaPathFinder):
    """Loads JAX with one name changed everywhere."""

    def __init__(self, name: str) -> None:
        self.pattern = re.compile(rf"\b{re.escape(name)}\b")
        self.other = f"{name}_of_another_release"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Any:
        if not fullname.startswith("jax."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            return None
        with open(spec.origin, encoding="utf-8") as file:
            source = file.read()
        renamed = self.pattern.sub(self.other, source)
        if renamed == source:
            return None
        spec.loader = _Loader(fullname, spec.origin, renamed)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


def _rename(row: Any) -> None:
    object.__setattr__(row, "look", lambda: None)
    object.__setattr__(row, "name", f"{row.name}_of_another_release")


def _send(kind: str, event: str) -> None:
    """Make JAX send an event never, or twice."""
    from jax._src import dispatch, util
    from jax._src.interpreters import partial_eval

    times = 0 if kind == "never" else 2

    def changed(send: Any, names: tuple[str, ...]) -> Any:
        # With a frame of JAX's, as that of what it stands for.
        source = (
            "def sent(name, *args, **kwargs):\n"
            "    for _ in range(times if name in names else 1): send(name, *args, **kwargs)"
        )
        found: dict[str, Any] = {"times": times, "names": names, "send": send}
        exec(compile(source, str(dispatch.__file__), "exec"), found)
        return found["sent"]

    if event == "trace":
        names = ("trace_to_jaxpr", "create_pjit_jaxpr")
        told = changed(util.test_event, names)
        for module in (util, partial_eval):  # which has it by its own name in some releases
            if hasattr(module, "test_event"):
                setattr(module, "test_event", told)  # noqa: B010
        return
    for name in ("record_event_duration_secs", "record_scalar"):
        if hasattr(dispatch, name):  # jax 0.6.0 has no scalar events
            setattr(dispatch, name, changed(getattr(dispatch, name), (EVENTS[event],)))


def _program(say: Callable[[object], None]) -> None:
    import jax
    import jax.numpy as jnp
    import numpy as np

    x3, x4 = np.ones(3, np.float32), np.ones(4, np.float32)

    @jax.jit
    def shapes(x: Any) -> Any:
        return x * 2

    shapes(x3)
    say(shapes(x4))
    say(shapes(x3.astype(np.int32)))

    @jax.jit
    def inner(x: Any) -> Any:
        return x + 1

    @jax.jit
    def outer(x: Any) -> Any:
        return inner(x) * 3

    say(outer(x3))
    say(inner(x4))

    static = jax.jit(lambda x, n: x * n, static_argnums=1)
    static(x3, 2)
    say(static(x3, 5))
    for _ in range(2):
        say(jax.jit(lambda x: x - 1)(x3))

    @jax.jit
    def tree(d: Any) -> Any:
        return sum(jax.tree_util.tree_leaves(d))

    tree({"a": x3})
    say(tree({"a": x3, "b": x3}))

    @jax.jit
    def placed(x: Any) -> Any:
        return x / 2

    placed(x3)
    say(placed(jax.device_put(x3, jax.devices()[0])))

    @jax.jit
    def precise(x: Any) -> Any:
        return x @ x

    precise(x3)
    with jax.default_matmul_precision("float32"):
        say(precise(x3))

    hidden = [1.0]

    @jax.jit
    def reads(x: Any) -> Any:
        return x + hidden[0]

    reads(x3)
    hidden[0] = 2.0
    jax.clear_caches()
    say(reads(x3))

    @jax.jit
    def cleared(x: Any) -> Any:
        return x * 7

    cleared(x3)
    jax.clear_caches()
    say(cleared(x3))
    say(jax.grad(lambda x: shapes(x).sum())(jnp.asarray(x3)))
    say(jax.vmap(shapes)(np.ones((2, 3), np.float32)))
    for _ in range(2):
        say(jax.lax.scan(lambda c, y: (c + y, y), 0.0, x3)[0])

    @jax.jit
    def ahead(x: Any) -> Any:
        return x * 11

    say(ahead.lower(x3).compile()(x3))
    pull = jax.vjp(lambda x: x * 13, jnp.asarray(x3))[1]
    say(jax.jit(pull)(jnp.asarray(x3)))

    @jax.custom_vjp
    def ruled(x: Any) -> Any:
        return x * 2

    ruled.defvjp(lambda x: (x * 2, x), lambda x, g: (x * g,))
    for _ in range(2):
        jax.clear_caches()
        say(jax.jit(ruled)(x3))
    say(jnp.sin(jnp.asarray(x3)))
    say(jax.pmap(lambda x: x * 5)(np.ones((1, 3), np.float32)))


def _recorded() -> dict[str, Any]:
    from retrace.capture.session import begin_memory, session
    from retrace.present.sentences import explanation
    from retrace.present.terminal import summary
    from retrace.present.verdict_detail import in_words
    from retrace.present.view import View
    from retrace.reason.verdict import judge
    from retrace.store.reader import read_lines

    said: list[str] = []
    writer, lines = begin_memory()
    try:
        _program(lambda value: said.append(str(value)))
    finally:
        session().detach(writer)
    recording = read_lines(lines.lines)
    view = View(recording, judge(recording))
    return {
        "said": said,
        "losses": recording.runs[0].losses,
        "summary": summary(view, "."),
        "misses": [
            {
                "line": 0 if (at := v.miss.call_site) is None else at.line,
                "name": v.miss.function.name,
                "nested": v.miss.nested,
                "cause": v.cause.value,
                "detail": in_words(v.detail),
                "stages": sorted(stage.value for stage in v.miss.stages),
                "text": explanation(view, v),
            }
            for v in view.verdicts
        ],
    }


def _guarded() -> str:
    """What a guard makes of a call that hits."""
    import jax
    import numpy as np

    import retrace

    x = np.ones(3, np.float32)
    hits: Any = jax.jit(lambda x: x * 17)
    hits(x)
    try:
        with retrace.assert_no_retrace():
            hits(x)
    except AssertionError as error:
        return str(error)
    return "passed"


def _child(row: str, result: int) -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    kind, _, name = row.partition(":")
    if kind == "source":
        sys.meta_path.insert(0, _Renaming(name))
    about: dict[str, Any] = {"row": row, "name": name, "lost": None}
    if row.isdigit():
        from retrace.jax_internals import names

        changed = names.TABLE[int(row)]
        about |= {
            "name": f"{changed.where} {changed.name}",
            "lost": changed.lost if changed.expected else None,
            "without": changed.without,
        }
        _rename(changed)
    elif kind in ("never", "twice"):
        _send(kind, name)
    try:
        about |= _recorded()
        about["guard"] = _guarded()
    except BaseException:  # noqa: BLE001 - whatever it is, it is told
        about["error"] = traceback.format_exc()
    with os.fdopen(result, "w") as out:
        json.dump(about, out)


def _warm() -> None:
    """Import once, for all children, what takes longer to import than to run."""
    import jax

    from retrace.capture import session
    from retrace.present import sentences, terminal, view
    from retrace.reason import verdict

    assert jax and session and sentences and terminal and view and verdict


def forked(row: str, warm: bool) -> dict[str, Any]:
    """What a child of this process records where a row is taken away."""
    if warm:
        _warm()
    reading, writing = os.pipe()
    if not (child := os.fork()):
        code = 1
        try:
            os.close(reading)
            _child(row, writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as told:
        text = told.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"row": row, "name": row, "error": "it died"}


def main() -> None:
    results, rows = sys.argv[1], sys.argv[2:]
    # Those that rename in JAX come first: jax is not imported yet.
    rows.sort(key=lambda row: not row.startswith("source:"))
    with open(results, "w", encoding="utf-8") as out:
        for row in [*rows, ""]:
            out.write(json.dumps(forked(row, warm=not row.startswith("source:"))) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
