"""Every kind of advice has a sentence, and the names in a program never change which one."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from retrace.model import CallSite, advice
from retrace.model.advice import Advice, LeaveOutArray, OneKeyType, OneScope, Proof
from retrace.present.advice import advised
from tests.reading.test_present import says

HOSTILE = ("None", "a -> b", "it's `x` and, y", "line\nbreak", "x" * 5_000, "{0}", "changed too.")
ABSTRACT = (advice.Advice, advice.OfFunction)


def kinds_of(kind: type[Advice]) -> Iterator[type[Advice]]:
    """The kind and all its subclasses, including ones that nobody imports yet."""
    yield kind
    for one in kind.__subclasses__():
        yield from kinds_of(one)


KINDS = [kind for kind in kinds_of(Advice) if kind not in ABSTRACT]
PLAIN: dict[str, Any] = {
    "name": "step",
    "package": "flax",
    "by": "Model.fit",
    "type": "Config",
    "is_method": True,
    "same": True,
    "way": "nodes",
    "dtype": "float32",
    "line": 3,
    "types": (("float32", False),),
    "bodies": ("body",),
    "why": "shapes",
    "who": "library",
    "in_tree": False,
    "seen": True,
    "values": (("1", "2"), ("3",)),
    "holder": "state.tx",
    "classes": ("Mode",),
    "axes": ("batch",),
}


def filled(kind: type[Advice], **fields: Any) -> Advice:
    needed = {name: PLAIN[name] for name in kind.fields if name not in kind.defaults}
    return kind(**{**needed, **fields})


def every() -> Iterator[Advice]:
    for kind in KINDS:
        for proof in Proof:
            yield filled(kind, proof=proof)
            yield filled(kind, proof=proof, paths=("a", "b.c"))


VARIANTS: list[tuple[type[Advice], dict[str, Any]]] = [
    (advice.CompareByValue, {"package": "package"}),
    (advice.CompareByValue, {"package": "package", "varies": True}),
    (advice.DefineBodyOnce, {"partial": True}),
    (advice.DefineBodyOnce, {"holds": ("a", "b"), "flags": ("b",)}),
    (advice.FewValues, {"why": "separate", "paths": ("c.a", "c.b")}),
    (advice.DefineBodyOnce, {"package": "package"}),
    (advice.DefineBodyOnce, {"holds": ("a", "b"), "unknown": ("b",)}),
    (advice.EnableJit, {"at": CallSite("a/train.py", 7, "fit", "with f():", in_library=False)}),
    (advice.FewValues, {"why": "functions"}),
    (advice.FewValues, {"why": "program"}),
    (advice.FewValues, {"why": "flags"}),
    (advice.FewValues, {"why": "flags", "paths": ("c.a", "c.b")}),
    (advice.JitAndPass, {"what": advice.What.WRAPPED, "static": ("axis",)}),
    (advice.JitAndPass, {"traced": ("parameters",)}),
    (advice.LeaveEager, {"in_trace": True}),
    (advice.LeaveOutValue, {"type": "Config"}),
    (advice.JitAndPass, {"traced": ("a", "b"), "numbers": True, "by_type": True}),
    (
        advice.JitAndPass,
        {"traced": ("a",), "numbers": True, "by_type": True, "dtype": "bfloat16"},
    ),
    (advice.ToArray, {"in_tree": True, "leaf_of": ("decay", "norm")}),
    (advice.ToArray, {"in_tree": True, "by_type": True, "dtype": "float32"}),
    (advice.ToArgument, {"by_type": True, "dtype": "float32"}),
    (advice.ToArgument, {"paths": ("c.a", "c.b"), "texts": ("c.b",), "outside": ("c",)}),
    (advice.Library, {"is_body": True}),
    (advice.Library, {"maker": "fit", "wraps": True}),
    (advice.Library, {"maker": "fit", "is_body": True}),
    (advice.OneStructure, {"way": "none", "proof": Proof.MEANING}),
    (
        advice.CastCarry,
        {
            "types": (("float32", False), ("int32", False)),
            "each": (("a", "float32", False), ("b", "int32", False), ("c", "float32", False)),
            "paths": ("a", "b"),
        },
    ),
    (advice.OneCallStyle, {"variadic": True}),
    (advice.OneCallStyle, {"computed": True}),
    (advice.OneCallStyle, {"branches": True}),
    (advice.OneCallStyle, {"typed": "float32"}),
    (advice.OneCallStyle, {"folded": True}),
    (advice.JitAndPass, {"traced": ("x",), "folded": True}),
    (advice.ToArgument, {"folded": True}),
    (advice.OneDtype, {"dtypes": ("int32", "float32"), "seen_with": ("mode",)}),
    (advice.OneMesh, {"specs": True, "split": True}),
    (advice.PlaceFirst, {"always": True, "split": True}),
    (advice.ToArgument, {"needed": ("c.n",), "read_by": ("fit",), "outside": ("c",)}),
    (advice.ToArgument, {"needed": ("c.n",), "read_by": ("fit",), "also": True}),
    (advice.ToArgument, {"needed": ("c.n",), "may_read": ("f", "g"), "outside": ("c",)}),
    (advice.PadBatch, {"passed_by": "package:fit"}),
    (advice.PadShape, {"ordered": ("scan",)}),
    (advice.PadShape, {"square": ("cov",)}),
    (advice.ToArray, {"in_tree": True}),
    (advice.ToArray, {"mixed": True}),
    (advice.ToArray, {"outside": ("c",), "kept": ("tx",)}),
    (advice.JitOnce, {"each": ("loss",)}),
    (advice.JitAndPass, {"traced": ("x",), "mapped": True}),
    (advice.JitAndPass, {"traced": ("x",), "what": advice.What.TRANSFORMED}),
    (advice.InjectHyperparams, {"holder": "self.tx", "kept": "Agent"}),
    (advice.LeaveOutValue, {"of_object": True, "type": None}),
    (advice.ToArgument, {"outside": ("c",), "proof": Proof.CONSTANTS}),
    (advice.ToArgument, {"outside": ("c",), "computed": True}),
]
"""Fields that change the sentence more than by a name."""


def test_the_sentences() -> None:
    plain = [
        filled(kind, paths=("a", "b.c"))
        for kind in sorted(KINDS, key=lambda it: (it.code, it.__name__))
    ]
    others = [filled(kind, **{"paths": ("c.rate",), **fields}) for kind, fields in VARIANTS]
    said = [f"{one.code}: {advised(one)}\n" for one in (*plain, *others)]
    says("advice.txt", "".join(said))


def test_every_advice_is_exported() -> None:
    assert {kind.__name__ for kind in KINDS} <= {*advice.__all__}


def test_every_advice_has_a_sentence_and_a_code() -> None:
    for one in every():
        assert one.code, one
        said = advised(one)
        assert said.endswith(".") and not said.endswith(".."), one
        assert said.count("`") % 2 == 0, said


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_name_is_one_name_in_the_same_sentence(path: str) -> None:
    for kind in KINDS:
        plain, other = (advised(filled(kind, paths=(name,))) for name in ("plain", path))
        assert other == plain.replace("plain", path), kind
        plain, other = (
            advised(filled(kind, paths=("a",), others=((name, "weak_type"),)))
            for name in ("plain", path)
        )
        assert other == plain.replace("plain", path), kind


def test_advice_that_depends_on_meaning_is_a_question() -> None:
    assert {one.sure for one in every() if one.proof is Proof.MEANING} == {"ask"}
    assert {one.sure for one in every() if one.proof is Proof.KEY} == {"likely"}


def test_an_advice_is_immutable_data() -> None:
    """Its base class stands in for a frozen dataclass, whose making takes too long."""
    one = OneKeyType(paths=("key",))
    assert one == OneKeyType(paths=("key",)) != OneKeyType(paths=("other",))
    assert one != OneScope(paths=("key",))
    assert len({one, OneKeyType(paths=("key",)), one.changed(proof=Proof.MEANING)}) == 2
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one).startswith("OneKeyType(paths=('key',), proof=")
    with pytest.raises(AttributeError, match="paths"):
        one.paths = ()  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError, match="LeaveOutArray: missing or unknown: name, nme"):
        LeaveOutArray(nme="x")  # pyright: ignore[reportCallIssue]
