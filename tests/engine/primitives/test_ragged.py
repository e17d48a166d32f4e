"""ragged_dot_general: values against a loop over groups, every rule, refusals."""

from __future__ import annotations

import re
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import mjax
from mjax import lax
from tests.engine.primitives.harness import Case, normal, primitive_names, table


def groups(sizes):
    """The bounds of each group."""
    ends = np.cumsum(sizes)
    return zip(ends - sizes, ends, strict=True)


def product(lhs, rhs, sizes, contracting, batch, ragged, group):
    """ragged_dot_general, group by group, in NumPy's words."""
    (lc, rc), (lb, rb) = contracting, batch
    left, right = [chr(97 + i) for i in range(lhs.ndim)], [chr(65 + i) for i in range(rhs.ndim)]
    for i, j in [*zip(lc, rc, strict=True), *zip(lb, rb, strict=True)]:
        right[j] = left[i]
    free = [c for i, c in enumerate(left) if i not in (*lc, *lb)]
    free += [c for j, c in enumerate(right) if j not in (*rc, *rb, *group)]
    kept = [c for j, c in enumerate(right) if j not in group]
    out = "".join([left[i] for i in lb] + free)
    subscripts = f"{''.join(left)},{''.join(kept)}->{out}"
    if ragged in lb:
        return np.einsum(subscripts, lhs, rhs)
    terms = []
    for g, (start, stop) in enumerate(groups(sizes)):
        masked = np.zeros_like(lhs)
        index = [slice(None)] * lhs.ndim
        index[ragged] = slice(start, stop)
        masked[tuple(index)] = lhs[tuple(index)]
        terms.append(np.einsum(subscripts, masked, np.take(rhs, g, group[0]) if group else rhs))
    return np.stack(terms) if ragged in lc else sum(terms)


def row(label, contracting, batch, ragged, group, operands, **fields):
    numbers = lax.RaggedDotDimensionNumbers((contracting, batch), (ragged,), group)
    return Case("ragged_dot_general",
                lambda x, y, n: lax.ragged_dot_general(x, y, n, numbers),
                lambda x, y, n: product(x, y, n, contracting, batch, ragged, group),
                f"{operands} i32[3]", label=label, draw=[normal, normal, some_sizes],
                linear=[(0,), (1,)], **fields)


def some_sizes(rng, shape, dtype):
    """Three groups of five rows at most, one of them often empty."""
    return np.bincount(rng.integers(0, 3, rng.integers(2, 6)), minlength=3).astype(dtype)


NONE = ((), ())
CASES = [
    row("free", ((1,), (1,)), NONE, 0, (0,), "T[5,2] T[3,2,4]",
        T="f32 f64 bf16 c64 i32"),
    row("free, in order", ((0, 2), (3, 1)), NONE, 1, (2,), "T[2,5,3] T[4,3,3,2]"),
    row("free, several", ((0,), (1,)), NONE, 2, (0,), "T[2,3,5] T[3,2,2]"),
    row("free, batch", ((2,), (2,)), ((0,), (1,)), 1, (0,), "T[2,5,3] T[3,2,3,2]"),
    row("contracting", ((0,), (0,)), NONE, 0, (), "T[5,2] T[5,3]", T="f32 c64 i32"),
    row("contracting, several", ((2, 0), (0, 1)), NONE, 2, (), "T[2,3,5] T[5,2,4]"),
    row("contracting, batch", ((1,), (2,)), ((2,), (0,)), 1, (), "T[2,5,3] T[3,2,5]"),
    row("batch", ((2,), (1,)), ((0,), (2,)), 0, (), "T[5,2,3] T[4,3,5]"),
]


@table(CASES)
def test_ragged_dot_general(check, sample):
    check(sample)


X, Y = np.ones((5, 2), np.float32), np.ones((3, 2, 4), np.float32)
N = np.array([2, 0, 3], np.int32)


def test_sizes_for_each_element_of_the_batch():
    rng = np.random.default_rng(0)
    x, y = normal(rng, (2, 5, 3), np.dtype("f4")), normal(rng, (3, 2, 3, 2), np.dtype("f4"))
    sizes = np.array([[1, 3, 1], [0, 2, 2]], np.int32)
    numbers = lax.RaggedDotDimensionNumbers((((2,), (2,)), ((0,), (1,))), (1,), (0,))
    f = partial(lax.ragged_dot_general, ragged_dot_dimension_numbers=numbers)
    rows = np.stack([lax.ragged_dot(x[i], y[:, i], sizes[i]) for i in range(2)])
    np.testing.assert_allclose(f(x, y, sizes), rows, rtol=1e-5, atol=1e-6)
    _, vjp = mjax.vjp(lambda x, y: f(x, y, sizes), x, y)
    cts = [mjax.vjp(lambda x, y, i=i: lax.ragged_dot(x, y, sizes[i]), x[i], y[:, i])[1](rows[i])
           for i in range(2)]
    np.testing.assert_allclose(vjp(rows)[0], np.stack([c[0] for c in cts]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(vjp(rows)[1], np.stack([c[1] for c in cts], 1), rtol=1e-4,
                               atol=1e-5)
    # Two batch axes: one was there, with sizes of its own, the other comes.
    stack = mjax.vmap(f, (0, None, 0))(np.stack([x, 2 * x]), y, np.stack([sizes, sizes[::-1]]))
    np.testing.assert_allclose(stack[0], rows, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(stack[1], f(2 * x, y, sizes[::-1]), rtol=1e-5, atol=1e-6)


def test_narrow_sizes_do_not_overflow():
    x, sizes = np.ones((300, 1), np.float32), np.full(3, 100, np.int8)
    out = lax.ragged_dot(x, np.arange(3, dtype=np.float32).reshape(3, 1, 1), sizes)
    np.testing.assert_array_equal(np.asarray(out)[:, 0], np.repeat([0, 1, 2], 100))


def test_nan_outside_of_groups_has_no_effect():
    x = np.full((4, 1), np.nan, np.float32)
    x[:2] = 1
    out = lax.ragged_dot(x, np.ones((2, 1, 1), np.float32), np.array([1, 1]))
    np.testing.assert_array_equal(np.asarray(out)[:, 0], [1, 1, 0, 0])


def test_dtypes_and_precision():
    narrow = X.astype(ml_dtypes.bfloat16)
    f = partial(lax.ragged_dot, preferred_element_type=np.float32, precision=("high", "highest"))
    out, vjp = mjax.vjp(lambda x, y: f(x, y, N), narrow, Y)
    assert out.dtype == np.float32
    assert [c.dtype for c in vjp(out)] == [narrow.dtype, Y.dtype]
    jaxpr = mjax.make_jaxpr(lambda x, y, ct: mjax.vjp(lambda x, y: f(x, y, N), x, y)[1](ct))(
        narrow, Y, out)
    high, highest = lax.Precision.HIGH, lax.Precision.HIGHEST
    assert [e.params["precision"] for e in jaxpr.eqns
            if e.primitive.name == "ragged_dot_general"] == [(high, highest)] * 3


def test_derivatives_keep_operands_only():
    _, vjp = mjax.vjp(lambda x, y: lax.ragged_dot(x, y, N), X, Y)
    kept = {np.shape(leaf) for leaf in mjax.tree_util.tree_leaves(vjp)}
    assert kept <= {X.shape, Y.shape, N.shape}
    assert primitive_names(mjax.make_jaxpr(lambda x, y, ct: mjax.vjp(
        lambda x, y: lax.ragged_dot(x, y, N), x, y)[1](ct))(X, Y, np.ones((5, 4), np.float32))
    ).count("ragged_dot_general") == 3


def numbers(contracting, batch=NONE, ragged=(0,), group=(0,)):
    return lax.RaggedDotDimensionNumbers((contracting, batch), ragged, group)


FREE = ((1,), (1,))


@pytest.mark.parametrize(("args", "text"), [
    ((X, Y, N[:2], numbers(FREE)), "axis 0 of the rhs, of shape (3, 2, 4), must have an element "
                                   "for each of the 2 groups"),
    ((X, Y, N.astype(np.float32), numbers(FREE)), "group_sizes must be integers, not float32."),
    ((X, Y, np.ones((2, 3), int), numbers(FREE)), "must be a vector, or one for each element of "
                                                  "the batch, of shape ('g',); got shape (2, 3)."),
    ((X, Y, N[0], numbers(FREE)), "got shape ()."),
    ((X, Y[0], N, numbers(((1,), (0,)), group=())), "rhs_group_dimensions () must be one axis, "
     "since the ragged axis of the lhs, 0, is a free one."),
    ((X, X, N, numbers(((0,), (0,)))), "(0, 0) of the rhs, of shape (5, 2), that"),
    ((X, Y, N, numbers(((1,), (2,)))), "contracting axes must have equal sizes, but "
     "axis 1 of the lhs"),
    ((X, Y, N, numbers(FREE, ragged=(0, 1))), "lhs_ragged_dimensions (0, 1) must be one axis"),
    ((X, Y, N, numbers(FREE, ragged=(2,))), "lhs_ragged_dimensions (2,) must be one axis"),
    ((X, X, N, numbers(((0,), (0,)), group=(1,))), "rhs_group_dimensions (1,) must be none, since "
     "the ragged axis of the lhs, 0, is a contracting one."),
])
def test_what_is_refused(args, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        lax.ragged_dot_general(*args)


def test_group_offset_is_refused():
    with pytest.raises(NotImplementedError, match="does not support group_offset"):
        lax.ragged_dot(X, Y, N, group_offset=np.array([0]))
