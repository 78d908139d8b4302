"""Programs for two sizes go in; whether rows may be added comes out, and is tried."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.capture.programs import transcript
from retrace.compare.along import Along, Step, along
from retrace.plan.order import plan
from retrace.present.padding_words import although, masked, neutral
from retrace.present.plan_words import sentence
from tests.generated import rows as generated
from tests.recording.conftest import JudgeAll

_SMALL, _LARGE, _WIDE = 3, 5, 4
_W = np.linspace(-1, 1, _WIDE * _WIDE, dtype=np.float32).reshape(_WIDE, _WIDE)
_GENERATED = 120
"""`python -m tests.generated --count 5000` makes thousands."""
_PLACES = np.array([0, 2])
Function = Callable[[Any], Any]


def _rows(size: int) -> Any:
    return np.sin(np.arange(_LARGE * _WIDE, dtype=np.float32)).reshape(_LARGE, _WIDE)[:size]


def _along(function: Function) -> Along:
    found = [transcript(jax.make_jaxpr(function)(_rows(size))) for size in (_SMALL, _LARGE)]
    listings = {one.id: one for each in found for one in each.listings}
    old, new = [listings[each.program.listing or ""] for each in found]
    config: Any = jax.config
    return along(old, new, listings, stable=config.jax_threefry_partitionable)


def _keeps_rows(function: Function) -> bool:
    """Whether the first rows of all results are as without the others, whatever these hold."""
    alone = jax.tree.leaves(jax.jit(function)(_rows(_SMALL)))
    for rest in (_rows(_LARGE)[_SMALL:], np.full((_LARGE - _SMALL, _WIDE), 7, np.float32)):
        whole = jax.tree.leaves(jax.jit(function)(np.concatenate([_rows(_SMALL), rest])))
        for a, b in zip(alone, whole, strict=True):
            if a.ndim != b.ndim or not np.allclose(a, b[: a.shape[0]] if a.ndim else b, 1e-5):
                return False
    return True


def _scan(step: Function, x: Any) -> Any:
    return jax.lax.scan(lambda c, row: (c + step(row), c), jnp.zeros(_WIDE), x)[1]


def _convolved(x: Any, w: Any = None) -> Any:
    kernel = jnp.ones((2, 1, 3)) if w is None else w
    return jax.lax.conv_general_dilated(
        x, kernel, (1,), "SAME", dimension_numbers=("NHC", "HIO", "NHC")
    )


SEPARATE: dict[str, Function] = {
    "each element": lambda x: jnp.tanh(x) * 2 + 1,
    "a layer": lambda x: jax.nn.relu(x @ _W + 1),
    "softmax over the other axis": lambda x: jax.nn.softmax(x, -1),
    "norm": lambda x: x / jnp.sqrt((x**2).mean(-1, keepdims=True)),
    "vmap": jax.vmap(lambda row: jnp.cumsum(row).max()),
    "heads": lambda x: x.reshape(x.shape[0], 2, 2).swapaxes(1, 2),
    "attention within a row": lambda x: jnp.einsum("nh,nk->nhk", x, x),
    "number of the row": lambda x: x + jnp.arange(x.shape[0])[:, None],
    "of a table": lambda x: jnp.asarray(_W)[(x[:, 0] > 0).astype(np.int32)],
    "condition": lambda x: jax.lax.cond(True, jnp.sin, jnp.cos, x),
    "loop of its own length": lambda x: jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y), x),
    "a rule of its own": jax.nn.silu,
    "sort within a row": lambda x: jnp.sort(x, -1),
    "the largest of each row": lambda x: jax.lax.top_k(x, 2)[0],
    "noise": lambda x: x + jax.random.normal(jax.random.key(0), x.shape),
    "a spectrum of each row": lambda x: jnp.abs(jnp.fft.rfft(x, axis=1)),
    "zeros beside each row": lambda x: jnp.pad(x, ((0, 0), (1, 2))),
    "a convolution of each row": lambda x: _convolved(x[:, :, None]),
    "a scatter into each row": jax.vmap(lambda row: jnp.zeros(4).at[_PLACES].add(row[:2])),
    "a scatter that replaces": jax.vmap(lambda row: jnp.zeros(4).at[_PLACES].set(row[:2])),
    "a scatter at places of each row": jax.vmap(
        lambda row: jnp.zeros(4).at[(row[:2] > 0).astype(np.int32)].add(row[:2])
    ),
    "a lookup in each row": jax.vmap(
        lambda row: row.at[(row[:2] > 0).astype(np.int32)].get(mode="clip")
    ),
}
SEPARATE["an element of each row, by its number"] = lambda x: x[
    jnp.arange(x.shape[0]), (x[:, 0] > 0).astype(np.int32)
]
SEPARATE["every other element of each row"] = lambda x: x[:, ::2] + x[:, 1::2]
MASKED: dict[str, Function] = {
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x - x.mean(0),
    "largest": lambda x: x.max(),
    "gradient of a loss": jax.grad(lambda x: ((x @ _W) ** 2).mean()),
    "weights of a gradient": lambda x: jax.grad(lambda w: ((x @ w) ** 2).sum())(jnp.asarray(_W)),
    "attention": lambda x: jax.nn.softmax(x @ x.T, -1) @ x,
    "inside a nested jit": lambda x: jax.jit(lambda y: y.sum(0))(jnp.sin(x)),
    "inside a condition": lambda x: jax.lax.cond(True, lambda y: y.sum(), lambda y: y.max(), x),
    "the size itself": lambda x: x / x.shape[0],
    "weights of a convolution": lambda x: jax.grad(
        lambda w: (_convolved(x[:, :, None], w) ** 2).sum()
    )(jnp.ones((2, 1, 3))),
    "segments": lambda x: jax.ops.segment_sum(x, (x[:, 0] > 0).astype(np.int32), 2),
    "segments of each column": jax.vmap(
        lambda one: jnp.zeros(2).at[(one > 0).astype(np.int32)].add(one), in_axes=1
    ),
    "segments in each of the rows": lambda x: jax.vmap(
        lambda row: jnp.zeros(2).at[(x[:, 0] > 0).astype(np.int32)].add(x[:, 1] * row[0])
    )(x),
}
ORDERED: dict[str, Function] = {
    "a scan, backwards": lambda x: _scan(jnp.tanh, x[::-1])[::-1],
    "scan": lambda x: jax.lax.scan(lambda c, row: (c + row, None), jnp.zeros(_WIDE), x)[0],
    "sums so far": lambda x: jnp.cumsum(x, 0, dtype=np.float32)[-1],
    "sort": lambda x: jnp.sort(x, 0),
    # A newer JAX has `axis=0` here, where an older one turns the array.
    "the largest rows": jax.vmap(lambda one: jax.lax.top_k(one, 2)[0], in_axes=1),
    "concatenation": lambda x: jnp.concatenate([x, x]),
    "last row": lambda x: x[-1],
    "all but the last": lambda x: x[1:] - x[:-1],
    "every other row": lambda x: jax.lax.slice_in_dim(x, 0, x.shape[0], 2),
    "reversed": lambda x: x[::-1],
    "flattened the other way": lambda x: x.T.reshape(-1),
    "noise along it": lambda x: (
        x + jax.random.normal(jax.random.key(0), (x.shape[1], x.shape[0])).T
    ),
    "a convolution along it": lambda x: _convolved(x[None, :, :1]),
    "a loop that ends with the rows": lambda x: jax.lax.while_loop(
        lambda c: c[0] < x.shape[0], lambda c: (c[0] + 1, c[1] * 2 + x[c[0]]), (0, x[0])
    )[1],
    "a loop over them": lambda x: jax.lax.fori_loop(
        0, x.shape[0], lambda i, c: c * 2 + x[i], x[0]
    ),
    "a shuffle": lambda x: jax.random.permutation(jax.random.key(0), x),
    "a spectrum": lambda x: jnp.abs(jnp.fft.fft(x, axis=0)),
    "zeros below the last": lambda x: jax.lax.pad(x, 0.0, ((0, 2, 0), (0, 0, 0))),
    "a system": lambda x: jnp.linalg.qr(x)[0],
}
_TABLE = np.sin(np.arange(80, dtype=np.float32)).reshape(20, _WIDE)
OF_THE_SIZE: dict[str, Function] = {
    "a power": lambda x: x * (jnp.abs(jnp.asarray(_TABLE)[1, 1]) + 0.5) ** x.shape[0],
    "a row of a table": lambda x: x + jnp.sin(jnp.asarray(_TABLE))[x.shape[0]],
    "a result": lambda x: (x * 2, x.shape[0]),
    "a result of a nested jit": lambda x: x / jax.jit(lambda y: y.shape[0])(x),
    "what a scan carries": lambda x: (
        x / jax.lax.scan(lambda c, _: (x.shape[0] * 1.0, None), 0.0, None, length=2)[0]
    ),
    "which result it is": lambda x: (jnp.sin(x), jnp.cos(x))[x.shape[0] > _SMALL],
    "looked up behind the last": lambda x: jnp.take(
        x, jnp.arange(x.shape[0]) + 1, axis=0, mode="clip"
    ),
    # JAX adds the size to a signed index, which would be seen by itself.
    "filled behind the last": lambda x: x.at[
        jnp.arange(x.shape[0], dtype=jnp.uint32) + jnp.uint32(1)
    ].get(mode="fill", fill_value=0),
    "a window that ends with the rows": lambda x: jax.lax.dynamic_slice(
        x, (jnp.uint32(2), jnp.uint32(0)), (2, _WIDE)
    ),
    "written behind the last": lambda x: x.at[jnp.uint32(9)].set(0.0, mode="clip"),
    "which columns": lambda x: x[:, x.shape[0] - _SMALL :][:, :2],
    "which axis comes first": lambda x: x[:, :, None].transpose(
        (0, 2, 1) if x.shape[0] > _SMALL else (0, 1, 2)
    ),
    "the way of sums": lambda x: jax.lax.cumsum(x, 1, reverse=x.shape[0] > _SMALL),
    "keys folded with the size": lambda x: (
        x
        + jax.vmap(lambda k: jax.random.normal(jax.random.fold_in(k, x.shape[0])))(
            jax.random.split(jax.random.key(0), x.shape[0])
        )[:, None]
    ),
}


@pytest.mark.parametrize("name", OF_THE_SIZE)
def test_what_follows_the_size_is_not_told_to_keep_its_rows(name: str) -> None:
    assert not _along(OF_THE_SIZE[name]).separate
    assert not _keeps_rows(OF_THE_SIZE[name])


@pytest.mark.parametrize("drawn", ["split", "gamma"])
def test_keys_of_rows_follow_the_size_unless_each_is_drawn_by_its_place(drawn: str) -> None:
    def noise(x: Any) -> Any:
        key = jax.random.key(0)
        if drawn == "gamma":
            return x + jax.random.gamma(key, jnp.abs(x) + 1)
        return x + jax.vmap(jax.random.normal)(jax.random.split(key, x.shape[0]))[:, None]

    with jax.threefry_partitionable(False):
        assert not _along(noise).separate
        assert not _keeps_rows(noise)


@pytest.mark.parametrize("name", SEPARATE)
def test_rows_that_keep_their_results_are_told(name: str) -> None:
    assert _along(SEPARATE[name]).separate
    assert _keeps_rows(SEPARATE[name])


@pytest.mark.parametrize("name", MASKED)
def test_what_must_be_masked_is_told(name: str) -> None:
    found = _along(MASKED[name])
    assert found.masked
    assert not found.ordered
    assert found.whole
    assert not _keeps_rows(MASKED[name])


@pytest.mark.parametrize("name", ORDERED)
def test_what_goes_through_the_rows_is_told(name: str) -> None:
    found = _along(ORDERED[name])
    assert found.ordered
    assert not found.separate


@pytest.mark.parametrize("name", [*SEPARATE, *MASKED, *ORDERED])
def test_it_is_told_whether_added_rows_come_back(name: str) -> None:
    function = (SEPARATE | MASKED | ORDERED)[name]
    results = [jax.eval_shape(function, _rows(size)) for size in (_SMALL, _LARGE)]
    small, large = ([leaf.shape for leaf in jax.tree.leaves(one)] for one in results)
    found = _along(function)
    assert found.returned == (small != large)
    if not found.separate:
        assert ("added rows" in masked(found)) == found.returned


@pytest.mark.parametrize("name", [*SEPARATE, *MASKED, *ORDERED])
def test_added_rows_are_cut_off_where_they_are(name: str) -> None:
    function = (SEPARATE | MASKED | ORDERED)[name]
    small, large = (jax.tree.leaves(jax.jit(function)(_rows(n))) for n in (_SMALL, _LARGE))
    if not (ends := _along(function).ends):
        return
    for a, b in zip(small, large, strict=True):
        kept = [slice(_SMALL) if axis in ends else slice(None) for axis in range(b.ndim)]
        cut = b if a.shape == b.shape else b[tuple(kept)]
        assert a.shape == cut.shape
        assert name in MASKED or np.allclose(a, cut, 1e-5)


PLACES: dict[str, tuple[Function, str]] = {
    "each row": (jnp.tanh, "[:n]`"),
    "each row, and a sum": (lambda x: (jnp.tanh(x), x.sum()), "[:n]`"),
    "turned": (jnp.transpose, "[:, :n]`"),
    "within others": (lambda x: x[None, None], "on axis 2"),
    "pairs": (lambda x: x @ x.T, "[:n, :n]`"),
    "each twice": (lambda x: jnp.repeat(x, 2, axis=0), "real rows"),
    "all twice": (lambda x: jnp.tile(x, (2, 1)), "real rows"),
    "and their negatives": (lambda x: jnp.concatenate([x, -x]), "real rows"),
    "reversed": (lambda x: x[::-1], "real rows"),
    "both ways": (lambda x: (x, x.T), "real rows"),
    "flattened beside": (lambda x: (jnp.tanh(x), x.reshape(-1)), "real rows"),
}


@pytest.mark.parametrize("name", PLACES)
def test_where_added_rows_are_is_told_only_if_it_is_known(name: str) -> None:
    function, told = PLACES[name]
    assert told in (text := masked(_along(function)))
    assert ("NumPy" in text) == (told != "real rows")


def test_an_array_that_follows_the_size_may_have_other_rows() -> None:
    def scaled(x: Any) -> Any:
        return x * np.linspace(0, 1, x.shape[0], dtype=np.float32)[:, None]

    found = _along(scaled)
    assert not found.separate
    assert not _keeps_rows(scaled)


@pytest.mark.drawn
def test_generated_programs_that_are_told_to_keep_their_rows_keep_them() -> None:
    kinds = Counter(
        None
        if (found := generated.claimed(generated.drawn(seed).function)) is None
        else "separate"
        if found.separate
        else "masked"
        if not found.ordered
        else "ordered"
        for seed in range(_GENERATED)
    )
    assert min(kinds["separate"], kinds["masked"], kinds["ordered"]) > _GENERATED / 12
    assert [said for seed in range(_GENERATED) for said in generated.prove(seed)] == []


def test_a_plan_names_what_must_be_masked_and_asks_where_rows_follow_each_other(
    judge_all: JudgeAll,
) -> None:
    @jax.jit
    def loss(x: Any) -> Any:
        return (x**2).sum()

    @jax.jit
    def states(y: Any) -> Any:
        return _scan(jnp.tanh, y)

    def program() -> None:
        for size in (3, 8, 5, 9):
            loss(np.ones((size, _WIDE), np.float32))
        for size in (2, 12, 4, 11):
            states(np.ones((size, _WIDE), np.float32))

    recording, verdicts = judge_all(program)
    steps = {step.functions: step for step in plan(recording, verdicts).steps}
    assert {functions: step.proposal.code for functions, step in steps.items()} == {
        ("loss",): "few-sizes",
        ("states",): "few-sizes",
    }
    by_name = {name: step for (name,), step in steps.items()}
    assert by_name["loss"].sure == "likely"
    assert "in `reduce_sum` at test_along.py:" in sentence(by_name["loss"].proposal)
    assert by_name["states"].sure == "ask"
    assert "through `scan` at test_along.py:" in sentence(by_name["states"].proposal)


def test_a_matrix_that_is_decomposed_is_padded_as_the_identity() -> None:
    def solved(x: Any, real: Any) -> Any:
        both = real[:, None] & real[None]
        matrix = jnp.where(both, x @ x.T + jnp.eye(len(x)), jnp.eye(len(x)))
        factor = jnp.linalg.cholesky(matrix)
        right = jnp.where(real, x[:, 0], 0)
        return jax.scipy.linalg.cho_solve((factor, True), right), factor

    alone = _along(lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(len(x))))
    assert "identity" in masked(alone)
    assert "identity" not in masked(_along(lambda x: jnp.cumsum(x, 0)))
    rows, more = _rows(_SMALL), np.pad(_rows(_SMALL), ((0, 3), (0, 0)), mode="edge")
    plain = solved(rows, np.ones(_SMALL, bool))
    padded = solved(more, np.arange(_SMALL + 3) < _SMALL)
    for one, other in zip(plain, padded, strict=True):
        np.testing.assert_allclose(one, other[tuple(slice(size) for size in one.shape)], 1e-5)


def test_a_size_that_no_mask_changes_is_asked(judge_all: JudgeAll) -> None:
    @jax.jit
    def scaled(x: Any) -> Any:
        return x / x.shape[0]

    @jax.jit
    def centred(x: Any) -> Any:
        return x - x.mean(0)

    def program() -> None:
        for size in (3, 8, 5, 9):
            scaled(np.ones((size, _WIDE), np.float32))
        for size in (2, 12, 4, 11):
            centred(np.ones((size, _WIDE), np.float32))

    recording, verdicts = judge_all(program)
    steps = {step.functions: step.sure for step in plan(recording, verdicts).steps}
    assert steps == {("scaled",): "ask", ("centred",): "likely"}


def test_a_number_computed_from_the_size_is_named_beside_the_sums() -> None:
    found = _along(lambda x: -(x.sum(1)).sum() * (7 / x.shape[0]))
    named = {one.primitive for one in found.masked}
    assert named == {"reduce_sum", None}
    assert "real rows" in masked(found)
    assert "real rows" not in masked(_along(lambda x: x.sum()))


def test_each_place_to_mask_is_named_also_inside_a_function_of_jax() -> None:
    def normalised(x: Any) -> Any:
        for _ in range(3):
            x = x - x.mean(0)
            x = x / (x.std(0))
            x = x / jnp.abs(x).max(0)
        return (x**2).sum()

    found = _along(normalised)
    first = normalised.__code__.co_firstlineno
    lines = {one.place and one.place.line - first for one in found.masked}
    assert lines == {2, 3, 4, 5}
    assert all(str(first + line) in masked(found) for line in (2, 3, 4, 5))


def test_rows_do_not_go_through_a_size() -> None:
    through, sized = Step("slice", None), Step(None, None)
    assert although(Along(ordered=(through,))) == "they go through `slice`"
    both = although(Along(ordered=(through, sized)))
    assert both.startswith("they go through `slice` and") and "size" in both
    assert "they" not in although(Along(ordered=(sized,)))


def test_a_result_for_each_pair_of_rows_has_added_columns_as_well() -> None:
    found = _along(lambda x: jnp.abs(x[:, None] - x[None]).sum(-1))
    assert found.twice and not found.separate
    assert "[:n, :n]" in masked(found)


def test_a_result_that_is_the_size_is_to_be_counted() -> None:
    counted = _along(lambda x: {"correct": (x > 0).sum(), "rows": x.shape[0]})
    assert counted.counts and counted.whole and counted.masked and not counted.separate
    assert "mask.sum()" in masked(counted)
    # Beside a loop over the rows there may be more to mask.
    looped = masked(_along(lambda x: (_scan(jnp.tanh, x)[-1], x.shape[0])))
    assert "mask.sum()" in looped and "mask the padding" in looped
    for one in (lambda x: x.sum(), lambda x: (x.sum(), _WIDE), OF_THE_SIZE["which result it is"]):
        assert not _along(one).counts and "mask.sum()" not in masked(_along(one))


def test_a_plan_for_two_axes_names_all_arrays_and_what_goes_over_either(
    judge_all: JudgeAll,
) -> None:
    @jax.jit
    def evaluate(ids: Any, y: Any) -> Any:
        logits = jnp.where(ids > 0, ids, 0).sum(1)
        rows = jnp.tanh(logits - y)
        return rows.prod(0), ids.shape[0]

    def program() -> None:
        # Only the last of them has fewer rows.
        for rows, length in ((16, 20), (16, 21), (16, 22), (16, 23), (16, 24), (12, 19)):
            evaluate(np.ones((rows, length), np.int32), np.ones(rows, np.float32))

    recording, verdicts = judge_all(program)
    (step,) = plan(recording, verdicts).steps
    told = sentence(step.proposal)
    assert step.proposal.pairs is not None
    assert step.proposal.pairs.axes == ("ids axis 0", "ids axis 1")
    assert all(one in told for one in ("`y axis 0`", "`reduce_sum`", "`reduce_prod`"))
    assert "mask.sum()" in told


def test_that_other_numbers_are_drawn_comes_before_all_else(judge_all: JudgeAll) -> None:
    @jax.jit
    def train(key: Any, x: Any) -> Any:
        for _ in range(9):
            x = _scan(jnp.tanh, x[::-1])
        return x.sum() + jax.random.normal(key, (2, x.shape[0])).sum()

    def program() -> None:
        for size in (3, 8, 5, 9):
            train(jax.random.key(0), np.ones((size, _WIDE), np.float32))

    recording, verdicts = judge_all(program)
    (step,) = [one for one in plan(recording, verdicts).steps if one.functions == ("train",)]
    assert step.sure == "ask"
    assert "through `random_bits`" in (told := sentence(step.proposal))
    assert "random numbers" in told


def test_the_padding_is_masked_with_what_changes_no_result() -> None:
    def function(x: Any) -> Any:
        return jax.nn.logsumexp(x, 0), jnp.argmin(x, 0), x.prod(0)

    values = neutral(_along(function))
    assert values == {
        "reduce_max": ("jnp.finfo(x.dtype).min",),
        "argmin": ("jnp.finfo(x.dtype).max",),
        "reduce_prod": ("1",),
    }
    assert all(f"`{value}` in" in masked(_along(function)) for (value,) in values.values())
    assert "0 in the others" in masked(_along(function))
    assert neutral(_along(lambda x: x.sum(0))) == {}
    # Followed: the sum of `exp` is masked by its argument.
    x, mask = _rows(_LARGE), np.arange(_LARGE)[:, None] < _SMALL
    alone = function(_rows(_SMALL))
    for index, (value,) in enumerate(values.values()):
        padded = function(jnp.where(mask, x, eval(value)))
        np.testing.assert_allclose(alone[index], padded[index], rtol=1e-5)


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (lambda x: x.astype(np.int32), "jnp.iinfo(x.dtype).min"),
        (lambda x: jnp.abs(x).astype(np.uint8), "jnp.iinfo(x.dtype).min"),
        (lambda x: x > 0, "False"),
        (lambda x: x.astype(jnp.bfloat16), "jnp.finfo(x.dtype).min"),
    ],
    ids=["integers", "unsigned", "bools", "bfloat16"],
)
def test_the_largest_is_masked_with_the_least_value_of_its_type(of: Function, value: str) -> None:
    assert neutral(_along(lambda x: jnp.argmax(of(x), 0))) == {"argmax": (value,)}
    x, mask = of(_rows(_LARGE)), np.arange(_LARGE)[:, None] < _SMALL
    masked_with = jnp.where(mask, x, eval(value))
    assert masked_with.dtype == x.dtype
    np.testing.assert_array_equal(jnp.argmax(masked_with, 0), jnp.argmax(x[:_SMALL], 0))


def test_a_program_that_compares_two_types_masks_each_with_its_own_value() -> None:
    told = masked(_along(lambda x: (x.max(0), x.astype(np.int32).max(0))))
    assert "`jnp.finfo(x.dtype).min` or `jnp.iinfo(x.dtype).min` in `reduce_max`" in told


def test_a_softmax_over_padding_alone_has_finite_gradients() -> None:
    # As in attention: rows added to a batch hold no position that is not padding.
    def loss(v: Any, least: Any) -> Any:
        weights = jax.nn.softmax(jnp.where(nothing, _rows(_LARGE), least), axis=0)
        return jnp.where(nothing, weights * v, 0).sum()

    assert neutral(_along(lambda x: jnp.max(x, 0))) == {"reduce_max": ("jnp.finfo(x.dtype).min",)}
    nothing = np.zeros((_LARGE, 1), bool)
    v = jnp.ones((_LARGE, 1))
    assert np.isfinite(jax.grad(loss)(v, jnp.finfo(v.dtype).min)).all()
    assert not np.isfinite(jax.grad(loss)(v, -jnp.inf)).all()


def _summed(messages: Any, receivers: Any) -> Any:
    return jax.ops.segment_sum(messages, receivers, num_segments=4)


def _looked_up(table: Any, senders: Any, mask: Any) -> Any:
    rows = jnp.tanh(jnp.take(table, senders, axis=0))
    return jnp.where(mask[:, None], rows, 0)


@pytest.mark.parametrize(
    ("function", "past_the_end", "to_rows_that_exist"),
    [
        (lambda t, s, r, m: _summed(r * m, r), True, False),
        (jax.grad(lambda t, s, r, m: _looked_up(t, s, m).sum()), False, False),
        (jax.grad(lambda t, s, r, m: (_summed(_looked_up(t, s, m), r) ** 2).sum()), True, True),
    ],
    ids=["rows are added at padded indices", "rows are looked up", "both"],
)
def test_padded_indices_go_past_the_end_only_where_rows_are_added(
    judge_all: JudgeAll,
    function: Callable[..., Any],
    past_the_end: bool,
    to_rows_that_exist: bool,
) -> None:
    step = jax.jit(function)
    table = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    edges = np.arange(9) % 4

    def called(size: int, padded: int = 0) -> Any:
        mask = np.arange(size + padded) < size
        senders, receivers = (
            np.pad(edges[:size], (0, padded), constant_values=value)
            for value in (0 if to_rows_that_exist or not past_the_end else 4, 4)
        )
        return step(table, senders, receivers, mask)

    recording, verdicts = judge_all(lambda: [called(size) for size in (9, 7, 5)])
    (padding,) = plan(recording, verdicts).steps
    said = sentence(padding.proposal)
    assert ("past the end" in said) is past_the_end
    assert ("that exists" in said) is to_rows_that_exist
    np.testing.assert_allclose(called(5, 4), called(5), 1e-5)


def test_no_indices_are_told_to_be_padded_where_none_are_passed(judge_all: JudgeAll) -> None:
    def product(x: Any, y: Any) -> Any:
        return jnp.sum(jnp.log(jnp.diag(jnp.outer(x, y) @ jnp.outer(y, x))))

    step = jax.jit(jax.grad(product))

    def program() -> None:
        for size in (4, 6, 8):
            step(*np.ones((2, size), np.float32))

    recording, verdicts = judge_all(program)
    (padding,) = plan(recording, verdicts).steps
    assert "past the end" not in sentence(padding.proposal)
