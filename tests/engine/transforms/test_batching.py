"""vmap of functions and of jaxprs against Python loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.jaxpr import named_axes
from mjax._engine.ir.types import typeof
from mjax._engine.spmd.reductions import axis_index_p
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import stage
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from tests.engine.transforms.programs import NAMES, PROGRAMS, X, Y, close, evaluate, staged

SIZE = 3


def looped(f, args, dims):
    rows = [f(*[a if d is None else np.take(a, i, d) for a, d in zip(args, dims, strict=True)])
            for i in range(SIZE)]
    return [np.stack([np.asarray(r[k]) for r in rows]) for k in range(len(rows[0]))]


def batched_inputs(inputs, dims, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for x, d in zip(inputs, dims, strict=True):
        if d is None:
            out.append(x)
        elif x.dtype.kind == "f":
            out.append(rng.normal(size=(*x.shape[:d], SIZE, *x.shape[d:])).astype(x.dtype))
        else:
            out.append(rng.integers(-3, 4, (*x.shape[:d], SIZE, *x.shape[d:])).astype(x.dtype))
    return out


@pytest.mark.parametrize("name", NAMES)
def test_of_jaxprs(name):
    jaxpr, inputs = staged(name)
    n = len(jaxpr.outvars)
    for dims in itertools.product([None, 0, 1], repeat=len(inputs)):
        args = batched_inputs(inputs, dims)
        expected = looped(lambda *a: evaluate(jaxpr, *a), args, dims)
        for wanted in (False, True, [i % 2 == 0 for i in range(n)]):
            batched, out_dims = batch_jaxpr(jaxpr, AxisData(None, SIZE), dims, wanted)
            must = [wanted] * n if isinstance(wanted, bool) else wanted
            for out, d, w, e in zip(evaluate(batched, *args), out_dims, must, expected,
                                    strict=True):
                assert d == 0 or (d is None and not w)
                close([out], [e if d == 0 else e[0]])
        if all(d is None for d in dims):
            assert batch_jaxpr(jaxpr, AxisData(None, SIZE), dims)[1] == [None] * n


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_functions(name):
    f, inputs = PROGRAMS[name]
    dims = [i % 2 for i in range(len(inputs))]
    args = batched_inputs(inputs, dims)
    with mjax.disable_jit():
        expected = looped(lambda *a: f(*a), args, dims)
        close(mjax.vmap(lambda *a: f(*a), in_axes=tuple(dims))(*args), expected)
    # The axis last in the results; scalars have no other place for it than the first.
    ndims = [e.ndim for e in expected]
    with mjax.disable_jit():
        out = mjax.vmap(lambda *a: list(f(*a)), in_axes=tuple(dims),
                        out_axes=[d - 1 for d in ndims])(*args)
    close(out, [np.moveaxis(e, 0, -1) for e in expected])


def test_maps_within_maps():
    def f(x, y, z):
        return lax.mul(lax.sin(x), lax.add(y, z))

    xs, ys, zs = (np.random.default_rng(i).normal(size=s).astype("float32")
                  for i, s in enumerate([(3,), (4,), (3, 4, 2)]))
    out = mjax.vmap(lambda x, z: mjax.vmap(
        lambda y, z: mjax.vmap(lambda z: f(x, y, z))(z))(ys, z), in_axes=(0, 0))(xs, zs)
    close([out], [np.sin(xs)[:, None, None] * (ys[:, None] + zs)])
    # The inner function reads the outer one's value only: nothing of the inner map is in it.
    out = mjax.vmap(lambda x: mjax.vmap(lambda y: lax.sin(x))(ys))(xs)
    close([out], [np.tile(np.sin(xs)[:, None], 4)])


def test_results_that_do_not_depend_on_the_batch():
    table = np.arange(2.0, dtype="float32")
    a, b, c, d = mjax.vmap(lambda x: (x, 2.0, table, lax.sin(table)))(X)
    close([a, b, c, d], [X, [2, 2], [table] * 2, [np.sin(table)] * 2])
    out = mjax.vmap(lambda x, y: (x, lax.cos(y)), in_axes=(0, None), out_axes=(0, None))(X, Y)
    close(out, [X, np.cos(Y)])


def test_sizes_zero_and_one():
    for n in (0, 1):
        xs = np.ones((n, 3), "float32")
        out = mjax.vmap(mjax.jit(lambda x: lax.mul(lax.reduce_sum(x, (0,)), 2.0)))(xs)
        close([out], [np.full(n, 6.0)])


def test_batching_rules_are_checked():
    bad_p = Primitive("bad")
    bad_p.def_abstract_eval(lambda x: x)
    bad_p.def_impl(lambda x: x)
    xs = np.ones((3, 2), "float32")
    for rule, text in [
            (lambda args, dims: (args[0], 5), "batch dimension 5; that axis must exist"),
            (lambda args, dims: (args[0], 1), "must exist and have size 3"),
            (lambda args, dims: (args[0], None), "the abstract evaluation says float32"),
            (lambda args, dims: args[0], "must return a pair"),
            (lambda args, dims: (lax.sin(lax.index_in_dim(args[0], 0, 1)), 0),
             r"says float32\[2\]")]:
        bad_p.def_batch(rule)
        with pytest.raises((TypeError, ValueError), match=text):
            mjax.vmap(bad_p.bind)(xs)


def test_rules_run_outside_of_the_map():
    """A rule may vmap, jit and differentiate; it sees bare values."""
    sin_p = Primitive("sin")
    sin_p.def_abstract_eval(lambda x: x)
    sin_p.def_impl(lambda x: lax.sin(x))
    sin_p.def_batch(lambda args, dims: (mjax.jit(mjax.vmap(lax.sin))(
        lax.mul(args[0], 1.0)), dims[0]))
    xs = np.ones((3, 2), "float32")
    close([mjax.vmap(sin_p.bind, in_axes=1)(xs)], [np.sin(xs).T])
    close([mjax.vmap(mjax.vmap(sin_p.bind))(xs)], [np.sin(xs)])


def test_jit_within_vmap_is_traced_for_one_element():
    shapes = []
    f = mjax.jit(lambda x, y: shapes.append((x.shape, y.shape)) or lax.mul(x, lax.reduce_sum(
        y, (0,))))
    xs, ys = np.ones((3,), "float32"), np.ones((4, 3), "float32")
    close([mjax.vmap(f, in_axes=(0, 1))(xs, ys)], [np.full(3, 4.0)])
    close([mjax.vmap(f, in_axes=(None, 1))(np.float32(2), ys)], [np.full(3, 8.0)])
    assert shapes == [((), (4,))]


def test_named_axes_of_programs():
    inner = mjax.jit(lambda x: lax.psum(x, "i"))
    jaxpr = mjax.make_jaxpr(lambda x: mjax.jit(lambda x: (inner(x), lax.axis_index("j")))(x),
                            axis_env=[("i", 2), ("j", 3), ("k", 4)])(X)
    (eqn,) = jaxpr.eqns
    assert named_axes(eqn.params) == {"i", "j"}


def test_batches_are_cached_on_the_jaxpr():
    jaxpr = stage(lambda x: [lax.sin(x)], [typeof(X)])
    axis = AxisData(None, 3)
    assert batch_jaxpr(jaxpr, axis, [0]) is batch_jaxpr(jaxpr, AxisData(None, 3), (0,))
    assert batch_jaxpr(jaxpr, axis, [0]) is not batch_jaxpr(jaxpr, AxisData(None, 4), [0])


def test_a_function_goes_on_after_an_error_of_an_axis_name():
    class Name:
        def __hash__(self):
            raise ValueError("without a hash")

    def f(x):
        with pytest.raises(ValueError, match="without a hash"):
            axis_index_p.bind(axis_name=Name())
        return lax.neg(x)

    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(mjax.vmap(f, axis_name="i")(x), -x)
