"""approx_max_k, approx_min_k: an exact search under the names of an approximate one."""

from __future__ import annotations

import doctest
import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from tests.engine.primitives.harness import Case, table


def distinct(rng, shape, dtype):
    """A permutation of numbers that all dtypes hold exactly."""
    return rng.permutation(int(np.prod(shape, dtype=int))).reshape(shape).astype(dtype)


def extreme(x, k, axis, sign):
    order = np.take(np.argsort(-sign * x, axis), np.arange(k), axis).astype(np.int32)
    return np.take_along_axis(x, order, axis), order


CASES = [
    Case("approx_top_k", lambda x, f=function, s=sign, k=k, axis=axis: f(x, k, axis),
         lambda x, s=sign, k=k, axis=axis: extreme(x, k, axis, s), types,
         T="f32 f64 f16 bf16" if axis == -1 else "f32", draw=distinct, result="T i32",
         label=f"{function.__name__}, {axis}")
    for function, sign in [(lax.approx_max_k, 1), (lax.approx_min_k, -1)]
    for types, k, axis in [("T[2,5]; T[3]; T[0,3]", 3, -1), ("T[4,2]", 2, 0), ("T[2,4,3]", 4, 1)]
]


@table(CASES)
def test_searches(check, sample):
    check(sample)


def test_parameters_are_kept():
    jaxpr = mjax.make_jaxpr(lambda x: lax.approx_max_k(x, 2, 0, 0.5, 100, False))(
        np.zeros(4, np.float32))
    params = jaxpr.eqns[0].params
    assert (params["recall_target"], params["aggregate_to_topk"]) == (0.5, False)
    assert (params["reduction_input_size_override"], params["is_max_k"]) == (100, True)


X = np.zeros((2, 5), np.float32)


@pytest.mark.parametrize(("args", "text"), [
    ((X, 6), "approx_max_k: k=6 must be positive and at most 5, the size of axis 1 of an operand"),
    ((X, 0), "approx_max_k: k=0 must be positive"),
    ((X, 1, 2), "axis 2 is out of bounds"),
    ((X.astype(np.int32), 1), "searches among floats, not int32; lax.top_k takes other dtypes."),
    ((X, 1, -1, 1.5), "recall_target=1.5 must be in the range from 0, excluded, to 1."),
    ((X, 1, -1, 0.0), "recall_target=0.0 must be"),
])
def test_what_is_refused(args, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        lax.approx_max_k(*args)


@pytest.mark.parametrize("f", [lax.approx_max_k, lax.approx_min_k])
def test_examples_run(f):
    examples = doctest.DocTestParser().get_doctest(f.__doc__, {"lax": lax, "jnp": jnp},
                                                   f.__name__, None, None)
    assert doctest.DocTestRunner().run(examples).failed == 0 < len(examples.examples)


def test_equations_may_count_axes_from_the_end():
    """As those of jax do: a library that repeats one gives the primitive its params."""
    x = np.array([[1.0, 5.0, 3.0], [2.0, 0.0, 4.0]], np.float32)
    (eqn,) = mjax.make_jaxpr(lambda x: lax.approx_max_k(x, 2))(x).eqns
    f = lambda x: eqn.primitive.bind(x, **{**eqn.params, "reduction_dimension": -1})
    for dims, batch in ((0, x[None]), (1, x[:, None]), (2, x[..., None])):
        for outs in f(x), [out[0] for out in mjax.vmap(f, in_axes=dims)(batch)]:
            np.testing.assert_array_equal(outs[0], [[5, 3], [4, 2]])
            np.testing.assert_array_equal(outs[1], [[1, 2], [2, 0]])
    np.testing.assert_array_equal(mjax.jvp(lambda x: f(x)[0], (x,), (2 * x,))[1],
                                  [[10, 6], [8, 4]])
