"""v1: batching rules. Frozen: `tests/generations/test_frozen.py` refuses edits."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax_ext.v1 import core
from mjax_ext.v1.interpreters import batching

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def primitive(name, f, result=lambda x, *rest: x):
    p = core.Primitive(name)
    p.def_impl(f)
    p.def_abstract_eval(result)
    return p


def test_rules_take_values_and_axes():
    p, seen = primitive("v1_batch", lambda x, y: x + y), []

    def rule(args, dims):
        seen.append(dims)
        x, y = args
        return p.bind(jnp.moveaxis(x, dims[0], 0), jnp.full((3, 2), y)), 0

    batching.primitive_batchers[p] = rule
    out = mjax.vmap(lambda x: p.bind(x, 1.0), in_axes=1)(X)
    np.testing.assert_array_equal(out, X.T + 1)
    assert [tuple(d) for d in seen] == [(1, None)] and batching.not_mapped is None


def test_the_axis_of_the_result_may_be_any():
    p = primitive("v1_last", lambda x: x)
    batching.primitive_batchers[p] = lambda args, dims: (
        jnp.moveaxis(args[0], dims[0], -1), args[0].ndim - 1)
    np.testing.assert_array_equal(mjax.vmap(p.bind)(X), X)
    np.testing.assert_array_equal(mjax.vmap(p.bind, out_axes=1)(X), X.T)


def test_a_result_may_be_the_same_for_all():
    p = primitive("v1_same", lambda x: np.float32(1), lambda x: core.ShapedArray((), x.dtype))
    batching.primitive_batchers[p] = lambda args, dims: (jnp.float32(1), batching.not_mapped)
    np.testing.assert_array_equal(mjax.vmap(p.bind)(X), np.ones(2))


def test_helpers_for_elementwise_primitives():
    p = primitive("v1_elementwise", np.negative)
    batching.defvectorized(p)
    np.testing.assert_array_equal(mjax.vmap(p.bind, in_axes=1)(X), -X.T)
    q = primitive("v1_broadcasting", np.add)
    batching.defbroadcasting(q)
    out = mjax.vmap(q.bind, in_axes=(0, None))(X, np.ones(3, np.float32))
    np.testing.assert_array_equal(out, X + 1)


def test_rules_that_ask_for_the_axis():
    p, seen = primitive("v1_axis", lambda x: x), []

    def rule(axis, args, dims):
        seen.append((axis.size, axis.name))
        return args[0], dims[0]

    batching.fancy_primitive_batchers[p] = rule
    np.testing.assert_array_equal(mjax.vmap(p.bind, axis_name="i")(X), X)
    assert seen == [(2, "i")]


def test_a_wrong_axis_is_named():
    p = primitive("v1_bad_axis", lambda x: x)
    batching.primitive_batchers[p] = lambda args, dims: (args[0], 5)
    with pytest.raises((TypeError, ValueError), match="v1_bad_axis"):
        mjax.vmap(p.bind)(X)


def test_axes_are_moved_and_made():
    np.testing.assert_array_equal(batching.moveaxis(X, 0, 1), X.T)
    assert batching.bdim_at_front(X, 1, 3).shape == (3, 2)
    assert batching.bdim_at_front(X, None, 4).shape == (4, 2, 3)
    assert batching.broadcast(X, 5, 1).shape == (2, 5, 3)


def test_batched_functions_of_functions():
    p, inner = primitive("v1_nested", np.negative), []
    batching.primitive_batchers[p] = lambda args, dims: (
        inner.append(args[0].shape), (p.bind(args[0]), dims[0]))[1]
    np.testing.assert_array_equal(mjax.vmap(mjax.vmap(p.bind))(X), -X)
    assert inner == [(2,), (2, 3)] or inner == [(3,), (2, 3)]
