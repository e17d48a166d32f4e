"""Products in groups, approximate searches, total order, upper halves: on both libraries."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.compare import assert_agree, assert_same_equations

rng = np.random.default_rng(0)
X, Y = [rng.normal(size=s).astype(np.float32) for s in ((6, 3), (4, 3, 5))]
SIZES = np.array([2, 0, 3, 1], np.int32)


@pytest.mark.parametrize("sizes", [SIZES, np.array([1, 1, 0, 2], np.int32),
                                   np.array([3, 3, 3, 0], np.int32)])
def test_ragged_dot(sizes):
    def pullback(m, x, y):
        out, vjp = m.vjp(lambda x, y: m.lax.ragged_dot(x, y, sizes), x, y)
        return vjp(m.lax.sin(out))

    for program in (lambda m, x, y: m.lax.ragged_dot(x, y, sizes), pullback):
        assert_agree(program, X, Y)
        assert_same_equations(program, X, Y)


def test_batches_of_ragged_dots():
    stacks = [np.stack([v, v[::-1]]) for v in (X, Y, SIZES)]
    assert_agree(lambda m, *args: m.vmap(m.lax.ragged_dot)(*args), *stacks)
    assert_same_equations(lambda m, *args: m.vmap(m.lax.ragged_dot)(*args), *stacks)


@pytest.mark.parametrize(("numbers", "shapes"), [
    (((((0,), (0,)), ((), ())), (0,), ()), [(6, 3), (6, 2)]),
    (((((1,), (1,)), ((0,), (2,))), (1,), ()), [(2, 6, 3), (4, 6, 2)]),
    (((((2,), (2,)), ((0,), (1,))), (1,), (0,)), [(2, 6, 3), (4, 2, 3, 2)]),
    (((((2,), (1,)), ((0,), (0,))), (0,), ()), [(6, 2, 3), (6, 3, 2)])])
def test_ragged_dot_general(numbers, shapes):
    def program(m, x, y):
        dims = m.lax.RaggedDotDimensionNumbers(*numbers)
        return m.lax.ragged_dot_general(x, y, SIZES, dims)

    args = [rng.normal(size=s).astype(np.float32) for s in shapes]
    assert_agree(program, *args)
    assert_same_equations(program, *args)


@pytest.mark.parametrize("name", ["approx_max_k", "approx_min_k"])
def test_searches(name):
    x = rng.permutation(40).reshape(4, 10).astype(np.float32)

    def search(m, x, axis=-1):
        return getattr(m.lax, name)(x, 3, axis)

    assert_agree(search, x)
    assert_agree(lambda m, x: search(m, x, 0), x)
    assert_agree(lambda m, x: m.vmap(lambda x: search(m, x), 1)(x), x)
    assert_agree(lambda m, x: m.jvp(lambda x: search(m, x)[0], (x,), (2 * x,)), x)
    assert_same_equations(search, x)


def test_total_order_and_upper_halves():
    x = np.array([-0.0, 0.0, np.nan, -np.nan, np.nan, 1, -np.inf], np.float32)
    y = np.array([0.0, -0.0, np.nan, np.nan, 1, np.nan, -1], np.float32)
    for name in ("eq_to_p", "le_to_p", "lt_to_p"):
        assert_agree(lambda m, x, y, name=name: getattr(m.lax, name).bind(x, y), x, y)
    for dtype in (np.int8, np.uint16, np.int32, np.uint32):
        info = np.iinfo(dtype)
        a, b = rng.integers(info.min, info.max, (2, 50), dtype, endpoint=True)
        assert_agree(lambda m, a, b: m.lax.mulhi(a, b), a, b)
        assert_same_equations(lambda m, a, b: m.lax.mulhi(a, b), a, b)
    assert_agree(lambda m: m.lax.shape_as_value((2, 3)))
