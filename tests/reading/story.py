"""A small training run as it would be recorded, for testing presenters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from retrace.model import (
    Callback,
    CallSite,
    Change,
    CodeChange,
    Component,
    DtypeChange,
    FieldChange,
    Function,
    HeldChange,
    Key,
    Kind,
    Leaf,
    Miss,
    NamedChange,
    Node,
    ObjectChange,
    Passing,
    PassingChange,
    PersistentCache,
    Program,
    ProgramChange,
    Recording,
    Run,
    SettingChange,
    ShapeChange,
    ShardingChange,
    Stage,
    TreeChange,
    Value,
    WeakTypeChange,
)
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.store.parts import encode_call_site, encode_function
from retrace.store.sinks import File
from retrace.store.writer import Writer

HOME = "/home/ada/digits"
RUN = "k3x9f2a"
STARTED = 1_763_666_400.0


def array(path: str, dtype: str, *shape: int, weak: bool = False) -> Leaf:
    """An uncommitted array."""
    return Leaf(path, shape, dtype, weak, None, False, None)


def plain(value: object) -> Value:
    """A plain value, recorded whole."""
    return Value(type(value).__name__, repr(value), repr(value), True, value)


def function(name: str, line: int, kind: Kind = Kind.DEF, **fields: Any) -> Function:
    """A function of train.py."""
    number = fields.pop("object", line)
    known: dict[str, Any] = {"code": f"c{line}", "qualname": name, "jax_name": name, **fields}
    file = known.pop("file", f"{HOME}/train.py")
    site = known.pop("site", f"{file}:{line}:{name}")
    return Function(name=name, kind=kind, file=file, line=line, site=site, object=number, **known)


def at(line: int, source: str, name: str = "main", file: str = "train.py") -> CallSite:
    """A line of the program."""
    return CallSite(f"{HOME}/{file}", line, name, source, False)


class Story:
    """Misses, one after another."""

    def __init__(self, run: str = RUN, **fields: Any) -> None:
        self.misses: list[Miss] = []
        known: dict[str, Any] = {
            "host": "turing",
            "pid": 4242,
            "process_index": 0,
            "started": STARTED,
            "argv": [f"{HOME}/train.py", "--epochs", "3"],
            "python": "3.11.7",
            "jax": "0.10.2",
            "jaxlib": "0.10.2",
            "backend": "cpu",
            "off_fast_path": ("effects",),
            "complete": True,
        }
        self.run = Run(id=run, **{**known, **fields})

    def miss(
        self,
        what: Function,
        key: Key,
        site: CallSite | None,
        stages: tuple[float | None, ...] = (0.1, 0.05, 1.0),
        **fields: Any,
    ) -> Miss:
        """Add a miss; `stages` are the seconds of trace, lower and compile."""
        number = len(self.misses)
        ran = {
            stage: spent for stage, spent in zip(Stage, stages, strict=False) if spent is not None
        }
        known: dict[str, Any] = {"stages": ran, "new_object": False, **fields}
        told = Miss(
            id=f"{self.run.id}-{number}",
            run=self.run.id,
            number=number,
            time=STARTED + number,
            thread="MainThread",
            function=what,
            key=key,
            call_site=site,
            **known,
        )
        self.misses.append(told)
        return told

    def recording(self) -> Recording:
        """Everything so far, as it would be read."""
        return Recording([self.run], self.misses)

    def view(self) -> View:
        """The same, explained."""
        recording = self.recording()
        return View(recording, judge(recording), HOME)


TRAIN_STEP = function("train_step", 41)
LOSS = function("loss_fn", 30)
PRINT = Callback("debug_print", f"{HOME}/train.py", 45)


def step_key(batch: int, counter: Leaf) -> Key:
    """The key of `train_step(params, batch, step)`."""
    params = tuple(
        array(f"params['layer{n}']['{part}']", "float32", *shape)
        for n in range(3)
        for part, shape in (("b", (64,)), ("w", (64, 64)))
    )
    return Key(
        leaves=(
            *params,
            array("batch['image']", "float32", batch, 8, 8),
            array("batch['label']", "int32", batch),
            counter,
        ),
        tree=(Node("batch", "dict", ("['image']", "['label']")),),
        signature=(("params", "positional"), ("batch", "positional"), ("step", "positional")),
        config=(("jax_enable_x64", plain(False)),),
    )


def training(**fields: Any) -> Story:
    """A loop with a weak counter, a partial batch, a lambda and eager operations."""
    story = Story(**fields)
    first_line = at(12, "params = [jax.random.normal(key, shape) for shape in shapes]", "init")
    for name in ("random_bits", "erf_inv", "mul", "mul", "add"):
        op = function(name, 1, Kind.OP, file=None, site=f"op:{name}")
        story.miss(op, Key((array("a", "float32", 64, 64),)), first_line, (0.004, 0.006, 0.05))
    call = at(88, "params, step = train_step(params, batch, step)")
    weak, strong = array("step", "int32", weak=True), array("step", "int32")
    equations = ("p1", 412), ("p2", 412), ("p3", 412)
    for (batch, counter), (hash_, number), spent in zip(
        ((32, weak), (32, strong), (17, strong)),
        equations,
        ((0.31, 0.1, 12.4), (0.29, 0.1, 12.1), (0.3, 0.11, 11.8)),
        strict=True,
    ):
        outer = story.miss(
            TRAIN_STEP,
            step_key(batch, counter),
            call,
            spent,
            inner=23,
            program=Program(hash_, number, callbacks=(PRINT,)),
            persistent_cache=PersistentCache(
                "not-stored", "jit_train_step-5c01", "min-compile-time"
            ),
        )
        image = Key((array("image", "float32", batch, 8, 8),))
        inside = at(47, "loss, grads = loss_fn(params, batch['image'])", "train_step")
        story.miss(LOSS, image, inside, (0.08,), parent=outer.id, nested=True)
    scores = Key((array("w", "float32", 64, 10), array("x", "float32", 360, 64)))
    for n in range(5):
        evaluate = function("<lambda>", 97, Kind.LAMBDA, object=100 + n, qualname="main.<lambda>")
        story.miss(
            evaluate,
            scores,
            at(97, "accuracy = jax.jit(lambda w, x: (x @ w).argmax(1))(w, x)"),
            (0.01, 0.01, 0.08),
            program=Program("p9", 3),
            new_object=True,
        )
    history = at(104, "losses = jnp.concatenate([losses, loss[None]])")
    concatenate = function("concatenate", 1, Kind.OP, file=None, site="op:concatenate")
    for n in range(4):
        story.miss(
            concatenate,
            Key((array("operands[0]", "float32", n), array("operands[1]", "float32", 1))),
            history,
            (0.002, 0.004, 0.1),
        )
    return story


def killed() -> Story:
    """The same, killed while compiling, with one line lost."""
    story = training(complete=False, losses={"unreadable line": 2})
    last = story.misses[-1]
    export = function("export", 120)
    story.misses.append(
        replace(
            last,
            id=f"{RUN}-{last.number + 1}",
            number=last.number + 1,
            time=last.time + 1,
            function=export,
            key=Key((array("params", "float32", 64),)),
            call_site=at(130, "export(params)"),
            stages={Stage.TRACE: 0.2, Stage.LOWER: 0.1},
            in_flight=Stage.COMPILE,
        )
    )
    return story


def write(story: Story, directory: Path) -> Path:
    """The story as a recording on disk."""
    directory.mkdir(parents=True, exist_ok=True)
    writer = Writer(File(directory / f"{story.run.id}.jsonl"), story.run)
    for miss in story.misses:
        parts = {kind: writer.part(kind, getattr(miss.key, kind)) for kind in Key._fields}
        site = miss.call_site
        writer.miss(
            miss.number,
            {
                "at": miss.time,
                "thread": miss.thread,
                "function": writer.part("function", encode_function(miss.function)),
                "call_site": site and writer.part("call_site", encode_call_site(site)),
                "parent": miss.parent and int(miss.parent.rpartition("-")[2]),
                "nested": miss.nested,
                "new": miss.new_object,
                "stage": miss.in_flight,
                **parts,
            },
        )
        cache, program = miss.persistent_cache, miss.program
        writer.amend(
            miss.number,
            {
                "stages": miss.stages,
                "raised": miss.raised,
                "inner": miss.inner,
                "persistent_cache": cache and [cache.outcome, cache.key, cache.reason],
                "program": program and [program.hash, program.equations],
                "callbacks": program.callbacks if program else (),
            },
        )
    for reason, number in story.run.losses.items():
        writer.loss(reason, number)
    if story.run.complete:
        writer.end()
    else:
        writer.close()
    return directory


NASTY = "ev\x1b[31mil\n</script>`|*_[x](y)\u202e\ud800" + "A" * 10_000


def hostile() -> Story:
    """Names and values that no program should have."""
    story = Story(argv=[NASTY], host=NASTY, losses={NASTY: 1}, complete=False)
    for n in range(3):
        nasty = function(
            NASTY,
            5,
            Kind.LAMBDA,
            object=n,
            file=f"/tmp/{NASTY}.py",
            qualname=NASTY,
            jax_name=NASTY,
        )
        key = Key(
            (array(f"x[{NASTY!r}]", NASTY, n),),
            tree=(Node(NASTY, NASTY, (NASTY,), ((NASTY, Value(NASTY, NASTY, f"t{n}", False)),)),),
            static=((NASTY, Value(NASTY, NASTY + str(n), f"t{n}", False)),),
            signature=((NASTY, NASTY),),
            config=((NASTY, Value(NASTY, f"<object at 0x7f00deadbee{n}>", f"t{n}", False)),),
        )
        site = CallSite(f"/tmp/{NASTY}", 3, NASTY, NASTY, False)
        program = Program(NASTY, 1, callbacks=(Callback(NASTY, f"/tmp/{NASTY}", 3),))
        told = story.miss(nasty, key, site, raised=NASTY, new_object=True, program=program)
        told.thread = NASTY
        told.raised = NASTY if n == 2 else None
    return story


def changes_of_each_kind() -> tuple[Change, ...]:
    """One change of each kind, named `rate` if it has a name."""
    old, new = Value("float", "0.1", "0.1", True, 0.1), Value("float", "0.2", "0.2", True, 0.2)
    step = function("train_step", 41, Kind.DEF)
    leaf = array("rate", "float32", 3)
    set_here = at(12, "jax.config.update(...)")
    there = leaf._replace(sharding="SingleDevice(1)", committed=True)
    return (
        ShapeChange("rate", (3,), (4,)),
        DtypeChange("rate", "float32", "int32"),
        WeakTypeChange("rate", True, False),
        ShardingChange("rate", leaf, there),
        TreeChange("rate", (leaf,), (Node("rate", "NoneType", ()),)),
        FieldChange("rate", old, new, True, "start"),
        NamedChange(Component.STATIC, "rate", old, new, True, "0.3"),
        PassingChange("rate", Passing.POSITIONAL, Passing.KEYWORD),
        NamedChange(Component.OPTIONS, "rate", None, new, True),
        NamedChange(Component.CONFIG, "rate", old, new, True, set_at=(None, set_here)),
        HeldChange(Component.CLOSURE, "rate", old, new, True, is_bound=True),
        HeldChange(Component.DEFAULTS, "rate", old, new, True),
        ObjectChange(step, step._replace(object=2, wrappers=("partial",))),
        CodeChange("a", "b"),
        ProgramChange(Program("a", 3), Program("b", 4)),
        SettingChange("rate", None, "0.2"),
    )
