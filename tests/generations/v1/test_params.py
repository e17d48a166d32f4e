"""v1: params of primitives, by what they mean. Frozen: see `test_frozen.py`."""

from __future__ import annotations

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax_ext import v1
from mjax_ext.v1 import core
from mjax_ext.v1.core import primitives as prims

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def equation(p, f, *args):
    """The first equation of a primitive in the program of a function, or in an inner program."""
    def walk(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.primitive is p:
                yield eqn
            for inner in core.jaxprs_in_params(eqn.params):
                yield from walk(inner)

    return next(walk(v1.program(mjax.make_jaxpr(f)(*args))))


def test_scan():
    def f(c, xs):
        return lax.scan(lambda c, x: (c + x, c * x), c, xs, reverse=True)

    eqn = equation(prims.scan_p, f, 1.0, X[0])
    params = eqn.params
    assert params["length"] == 3 and params["reverse"] is True
    assert params["num_consts"] == 0 and params["num_carry"] == 1
    body = params["jaxpr"]
    assert isinstance(body, core.Jaxpr) and len(body.invars) == 2
    carry, ys = 1.0, []
    for x in X[0][::-1]:
        carry, y = core.eval_jaxpr(body, body.consts, jnp.float32(carry), x)
        ys.append(y)
    out = prims.scan_p.bind(jnp.float32(1), X[0], **params)
    np.testing.assert_allclose(out[0], carry)
    np.testing.assert_allclose(out[1], ys[::-1])


def test_while():
    def f(x):
        return lax.while_loop(lambda c: c < 10, lambda c: c * 2, x)

    eqn = equation(prims.while_p, f, 1.0)
    params = eqn.params
    assert params["cond_nconsts"] == 0 == params["body_nconsts"]
    x = jnp.float32(1)
    while core.jaxpr_as_fun(params["cond_jaxpr"])(x)[0]:
        x, = core.jaxpr_as_fun(params["body_jaxpr"])(x)
    assert x == 16.0 == prims.while_p.bind(jnp.float32(1), **params)[0]


def test_cond():
    eqn = equation(prims.cond_p, lambda i, x: lax.switch(i, [lax.sin, lax.cos, lax.neg], x), 1, 0.5)
    branches = eqn.params["branches"]
    assert isinstance(branches, tuple) and len(branches) == 3
    np.testing.assert_allclose(core.jaxpr_as_fun(branches[2])(0.5)[0], -0.5)
    index = np.int32(0)
    np.testing.assert_allclose(prims.cond_p.bind(index, jnp.float32(0.5), **eqn.params)[0],
                               np.sin(0.5), rtol=1e-6)


def test_jit():
    eqn = equation(prims.jit_p, mjax.jit(lambda x: lax.sin(x)), 0.5)
    assert eqn.params["name"] == "<lambda>" and isinstance(eqn.params["jaxpr"], core.Jaxpr)
    assert eqn.params["donated_invars"] == (False,)
    np.testing.assert_allclose(prims.jit_p.bind(0.5, **eqn.params)[0], np.sin(0.5), rtol=1e-6)


def test_calls_of_functions_with_rules():
    @mjax.custom_jvp
    def f(x):
        return lax.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), 3.0 * tangents[0]))
    eqn = equation(prims.custom_jvp_call_p, f, 0.5)
    np.testing.assert_allclose(core.jaxpr_as_fun(eqn.params["call_jaxpr"])(0.5)[0], np.sin(0.5),
                               rtol=1e-6)


def test_dot_general():
    dimensions = (((1,), (1,)), ((), ()))
    eqn = equation(prims.dot_general_p, lambda x: lax.dot_general(x, x, dimensions), X)
    (lhs, rhs), (lhs_batch, rhs_batch) = eqn.params["dimension_numbers"]
    assert ([*lhs], [*rhs], [*lhs_batch], [*rhs_batch]) == ([1], [1], [], [])
    assert {"precision", "preferred_element_type"} <= eqn.params.keys()
    np.testing.assert_allclose(prims.dot_general_p.bind(X, X, **eqn.params), X @ X.T)


def test_shapes():
    eqn = equation(prims.broadcast_in_dim_p, lambda x: lax.broadcast_in_dim(x, (2, 3), (1,)), X[0])
    assert eqn.params["shape"] == (2, 3) and eqn.params["broadcast_dimensions"] == (1,)
    eqn = equation(prims.reshape_p, lambda x: lax.reshape(x, (3, 2)), X)
    assert eqn.params["new_sizes"] == (3, 2)
    eqn = equation(prims.transpose_p, lambda x: lax.transpose(x, (1, 0)), X)
    assert tuple(eqn.params["permutation"]) == (1, 0)
    eqn = equation(prims.concatenate_p, lambda x: lax.concatenate([x, x], 1), X)
    assert eqn.params["dimension"] == 1
    eqn = equation(prims.slice_p, lambda x: lax.slice(x, (0, 1), (2, 3)), X)
    assert (eqn.params["start_indices"], eqn.params["limit_indices"]) == ((0, 1), (2, 3))
    assert eqn.params["strides"] is None
    eqn = equation(prims.pad_p, lambda x: lax.pad(x, jnp.float32(0), ((1, 0, 0), (0, 2, 1))), X)
    assert eqn.params["padding_config"] == ((1, 0, 0), (0, 2, 1))


def test_reductions_and_cumulative_sums():
    eqn = equation(prims.reduce_sum_p, lambda x: jnp.sum(x, 1), X)
    assert tuple(eqn.params["axes"]) == (1,)
    np.testing.assert_allclose(prims.reduce_sum_p.bind(X, **eqn.params), X.sum(1))
    eqn = equation(prims.reduce_max_p, lambda x: jnp.max(x, 0), X)
    assert tuple(eqn.params["axes"]) == (0,)
    eqn = equation(prims.cumsum_p, lambda x: lax.cumsum(x, 1, reverse=True), X)
    assert eqn.params == {"axis": 1, "reverse": True}
    eqn = equation(prims.argmax_p, lambda x: lax.argmax(x, 1, np.int32), X)
    assert tuple(eqn.params["axes"]) == (1,) and eqn.params["index_dtype"] == np.int32


def test_conversions_and_powers():
    eqn = equation(prims.convert_element_type_p, lambda x: lax.convert_element_type(x, np.int32), X)
    assert eqn.params["new_dtype"] == np.int32 and eqn.params["weak_type"] is False
    eqn = equation(prims.integer_pow_p, lambda x: lax.integer_pow(x, 3), X)
    assert eqn.params == {"y": 3}
    eqn = equation(prims.iota_p, lambda: lax.iota(np.int32, 4))
    assert (eqn.params["shape"], eqn.params["dimension"]) == ((4,), 0)
    assert eqn.params["dtype"] == np.int32
    eqn = equation(prims.select_n_p, lambda x: lax.select(x > 0, x, -x), X)
    assert len(eqn.invars) == 3 and eqn.params == {}
    which = np.array([False, True])
    np.testing.assert_array_equal(prims.select_n_p.bind(which, X[0, :2], X[1, :2]), [0.0, 4.0])


def test_sort_and_gather():
    eqn = equation(prims.sort_p, lambda x, y: lax.sort((x, y), dimension=1, num_keys=2), X, X)
    assert eqn.params == {"dimension": 1, "num_keys": 2, "is_stable": True}
    eqn = equation(prims.gather_p, lambda x: x[jnp.array([1, 0])], X)
    assert {"dimension_numbers", "slice_sizes", "mode", "fill_value", "indices_are_sorted",
            "unique_indices"} <= eqn.params.keys()
    assert eqn.params["slice_sizes"] == (1, 3)


def test_collectives():
    seen = []

    class Watch(core.Interpreter):
        def named_axes(self):
            return {"i": 2}

        def apply(self, primitive, values, params):
            seen.append((primitive, params))
            return values[0] if not primitive.multiple_results else [*values]

    Watch().run(lambda x: lax.psum(x, "i"), 1.0)
    (primitive, params), = seen
    assert primitive is prims.psum_p and tuple(params["axes"]) == ("i",)


def test_random_bits():
    key = mjax.random.key(0)
    eqn = equation(prims.random_bits_p, lambda k: mjax.random.bits(k, (3,), np.uint32), key)
    assert eqn.params == {"bit_width": 32, "shape": (3,)}
