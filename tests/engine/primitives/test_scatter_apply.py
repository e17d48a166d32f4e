"""scatter_apply: values, transformations, and what it keeps of functions."""

from __future__ import annotations

import gc
import weakref
from functools import partial

import numpy as np
import pytest

import mjax
from mjax import lax

POINTS = lax.ScatterDimensionNumbers((), (0,), (0,))


@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_scatter_apply(mode):
    x = np.arange(4, dtype=np.float32)
    indices = np.array([[1], [3], [7]])
    out = lax.scatter_apply(x, indices, lambda v: lax.add(lax.mul(v, v), 10.0), POINTS,
                            update_shape=(3,), mode=mode)
    last = 9 + 10 if mode == "drop" else (9 + 10) ** 2 + 10
    np.testing.assert_array_equal(out, [0, 11, 2, last])


def test_scatter_apply_under_vmap_and_jit():
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    indices = np.array([[[1]], [[2]]])
    f = lambda x, i: lax.scatter_apply(x, i, lax.neg, POINTS, update_shape=(1,))
    out = mjax.jit(mjax.vmap(f))(x, indices)
    np.testing.assert_array_equal(out, [[0, -1, 2, 3], [4, 5, -6, 7]])


def test_scatter_apply_traces_a_function_once_and_keeps_it_not_alive():
    calls = []

    def func(v):
        calls.append(v)
        return lax.neg(v)

    for _ in range(3):
        lax.scatter_apply(np.zeros(3, np.float32), np.array([[1]]), func, POINTS,
                          update_shape=(1,))
    assert len(calls) == 1
    calls.clear()
    ref = weakref.ref(func)
    del func
    gc.collect()
    assert ref() is None


def test_scatter_apply_refuses():
    x, i = np.zeros(3, np.float32), np.array([[1]])
    apply = partial(lax.scatter_apply, x, i, dimension_numbers=POINTS, update_shape=(1,))
    with pytest.raises(TypeError, match="must return a scalar of the operand's dtype"):
        apply(lambda v: lax.eq(v, v))
    with pytest.raises(TypeError, match="must not close over arrays"):
        mjax.jit(lambda y: apply(lambda v: lax.add(v, y)))(1.0)
    with pytest.raises(NotImplementedError, match=r"scatter-apply.* has no jvp rule"):
        mjax.jvp(lambda x: lax.scatter_apply(x, i, lax.neg, POINTS, update_shape=(1,)), (x,), (x,))
