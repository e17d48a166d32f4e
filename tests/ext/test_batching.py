"""mjax_ext.interpreters.batching: rules, their makers, the axis."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax_ext import core
from mjax_ext import linear_util as lu
from mjax_ext.interpreters import batching, mlir

RNG = np.random.default_rng(0)


def make(name, function, types=None):
    p = core.Primitive(name)
    p.def_abstract_eval(types or (lambda *avals, **params: core.ShapedArray(
        np.broadcast_shapes(*[a.shape for a in avals]), avals[0].dtype)))
    mlir.register_lowering(p, mlir.lower_fun(function, multiple_results=False))
    return p


def same_shape(*avals):
    assert len({a.shape for a in avals}) == 1, f"operands of one shape, not {avals}"
    return core.ShapedArray(avals[0].shape, avals[0].dtype)


def loop(f, dims, args):
    """What vmap must give: one call per batch element."""
    size = next(a.shape[d] for a, d in zip(args, dims, strict=True) if d is not None)
    return np.stack([np.asarray(f(*[a if d is None else np.take(a, i, d)
                                    for a, d in zip(args, dims, strict=True)]))
                     for i in range(size)])


@pytest.mark.parametrize("dims", [d for d in itertools.product((None, 0, 1), repeat=2)
                                  if d != (None, None)])
def test_defvectorized(dims):
    p = make("product", lambda x, y: lax.mul(x, y), same_shape)
    batching.defvectorized(p)
    args = [RNG.normal(size=(4, 4) if d is not None else (4,)).astype(np.float32) for d in dims]
    for run in (mjax.vmap(p.bind, dims), mjax.jit(mjax.vmap(p.bind, dims))):
        np.testing.assert_allclose(run(*args), loop(p.bind, dims, args), rtol=1e-6)
    assert p.rules()["batch"].startswith("derived")


@pytest.mark.parametrize("shapes, dims", [
    (((4, 3), (3,)), (0, None)), (((3, 4), (4, 3)), (1, 0)), (((4, 3), ()), (0, None)),
    (((4,), (3,)), (0, None)), (((2, 3), (4, 1, 3)), (None, 0)), (((4,), (2, 4)), (0, 1)),
])
def test_defbroadcasting(shapes, dims):
    def stretch(x, y):
        shape = np.broadcast_shapes(x.shape, y.shape)
        return lax.mul(*[lax.broadcast_in_dim(
            a, shape, range(len(shape) - a.ndim, len(shape))) for a in (x, y)])

    p = make("product", stretch)
    batching.defbroadcasting(p)
    args = [RNG.normal(size=s).astype(np.float32) for s in shapes]
    np.testing.assert_allclose(mjax.vmap(p.bind, dims)(*args), loop(p.bind, dims, args), rtol=1e-6)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), ()])
def test_defreducer(dim, axes):
    p = make("total", lambda x, *, axes: lax.reduce_sum(x, axes), lambda x, *, axes: x.update(
        shape=tuple(n for i, n in enumerate(x.shape) if i not in axes)))
    batching.defreducer(p)
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    out = mjax.vmap(lambda x: p.bind(x, axes=axes), dim)(x)
    np.testing.assert_allclose(out, loop(lambda x: x.sum(axes), [dim], [x]), rtol=1e-5)


def test_rule_is_not_asked_where_nothing_is_batched():
    p = make("product", lambda x, y: lax.mul(x, y))
    x = np.ones((3, 2), np.float32)

    def batch(args, dims):
        raise AssertionError(dims)

    p.def_batch(batch)
    out = mjax.vmap(lambda x: lax.add(x, p.bind(2.0, 3.0)))(x)
    np.testing.assert_array_equal(out, x + 6)


def test_result_that_is_the_same_for_the_whole_batch():
    p = make("rank", lambda x: lax.full((), float(x.ndim)),
             lambda x: core.ShapedArray((), np.float32))
    batching.primitive_batchers[p] = lambda args, dims: (
        np.float32(args[0].ndim - 1), batching.not_mapped)
    assert float(mjax.vmap(p.bind, out_axes=None)(np.ones((3, 2), np.float32))) == 1
    np.testing.assert_array_equal(mjax.vmap(p.bind)(np.ones((3, 2), np.float32)), [1, 1, 1])


def test_a_rule_may_make_the_dims_params():
    p, q = core.Primitive("plain"), core.Primitive("with_dims")
    q.def_impl(lambda x, *, dims, values: x)
    q.def_abstract_eval(lambda x, *, dims, values: x)
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: x)
    seen = []

    @p.def_batch
    def rule(args, dims):
        seen.append((type(args), dims))
        return q.bind(args[0], dims=dims, values=len(args)), dims[0]

    assert (mjax.vmap(p.bind)(np.arange(3)) == np.arange(3)).all()
    assert seen == [(tuple, (0,))]


def test_several_results_with_their_own_dims():
    p = core.Primitive("pair", multiple_results=True)
    p.def_abstract_eval(lambda x: [x, core.ShapedArray((), x.dtype)])
    mlir.register_lowering(p, mlir.lower_fun(lambda x: [lax.neg(x), lax.full((), 7.0)]))
    p.def_batch(lambda args, dims: ([lax.neg(args[0]), np.float32(7)], [dims[0], None]))
    x = RNG.normal(size=(2, 3)).astype(np.float32)
    for dim in (0, 1):
        neg, seven = mjax.vmap(p.bind, dim)(x)
        np.testing.assert_array_equal(neg, -np.moveaxis(x, dim, 0))
        np.testing.assert_array_equal(seven, [7] * x.shape[dim])


def test_rules_that_are_given_the_axis():
    p, seen = make("index", lambda x: x), []

    def rule(axis, args, dims):
        seen.append((axis.name, axis.size, dims))
        return p.bind(*args), dims[0]

    batching.fancy_primitive_batchers[p] = rule
    x = np.ones((3, 2), np.float32)
    mjax.vmap(mjax.vmap(p.bind, axis_name="inner"), 1)(x)
    assert seen == [("inner", 3, (0,)), (None, 2, (1,))]


def test_the_older_spelling_with_size_and_name():
    p, seen = make("index", lambda x: x), []

    def rule(size, name, main_type, args, dims):
        seen.append((size, name, main_type, dims))
        return args[0], dims[0]

    batching.axis_primitive_batchers[p] = rule
    assert p in batching.fancy_primitive_batchers
    mjax.vmap(p.bind, axis_name="i")(np.ones((3, 2), np.float32))
    assert seen == [(3, "i", None, (0,))]
    assert "test_batching" in p.rules()["batch"]


def test_helpers():
    x = RNG.normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_array_equal(batching.moveaxis(x, 1, 0), x.T)
    y = RNG.normal(size=(2, 3, 4, 5)).astype(np.float32)
    for src, dst in [((0, 2), (3, 1)), ([1], [-1]), ((3, 0, 1), (0, -1, 1)), (2, 0), (1, 1)]:
        np.testing.assert_array_equal(batching.moveaxis(y, src, dst), np.moveaxis(y, src, dst))
    np.testing.assert_array_equal(batching.bdim_at_front(x, 1, 3), x.T)
    np.testing.assert_array_equal(batching.bdim_at_front(x, None, 4), np.stack([x] * 4))
    np.testing.assert_array_equal(batching.broadcast(x, 4, 1), np.stack([x] * 4, 1))
    assert batching.broadcast(1.0, 2, 0).shape == (2,)
    jaxpr = mjax.make_jaxpr(lambda x, y: lax.mul(x, y))(x[0], x[0])
    batched, out_batched = batching.batch_jaxpr(jaxpr, batching.AxisData(None, 2), [True, False],
                                                False)
    assert out_batched == [True]
    np.testing.assert_allclose(core.jaxpr_as_fun(batched)(x, x[0])[0], x * x[0])
    with pytest.raises(TypeError, match="in_batched must be a bool, or a list of bools"):
        batching.batch_jaxpr(jaxpr, batching.AxisData(None, 2), [0, None], False)
    with pytest.raises(ValueError, match="in_batched has 1 entry for 2 inputs"):
        batching.batch_jaxpr(jaxpr, batching.AxisData(None, 2), [True], False)


# ---- programs for a batch ----------------------------------------------------------------


@pytest.mark.parametrize("in_axes", list(itertools.product([None, 0, 1, -1], [None, 0])))
def test_programs_with_their_axes(in_axes):
    size, inner = 4, (2, 3)
    jaxpr = mjax.make_jaxpr(lambda x, y: [lax.mul(x, y), lax.neg(y), lax.transpose(x, (1, 0))])(
        np.ones(inner, np.float32), np.float32(1))
    axis = batching.AxisData(None, size)

    def arg(shape, dim):
        if dim is None:
            return RNG.normal(size=shape).astype(np.float32)
        shape = [*shape]
        shape.insert(dim % (len(shape) + 1), size)
        return RNG.normal(size=shape).astype(np.float32)

    args = [arg(inner, in_axes[0]), arg((), in_axes[1])]
    wanted = [np.stack(outs) for outs in zip(*[core.jaxpr_as_fun(jaxpr)(*[
        a if d is None else np.take(a, i, d) for a, d in zip(args, in_axes, strict=True)])
        for i in range(size)], strict=True)]
    batched, dims = batching.batch_jaxpr2(jaxpr, axis, in_axes)
    assert batched is batching.batch_jaxpr2(jaxpr, axis, list(in_axes))[0]
    core.check_jaxpr(batched)
    for got, want, dim in zip(core.jaxpr_as_fun(batched)(*args), wanted, dims, strict=True):
        np.testing.assert_array_equal(got, want[0] if dim is None else np.moveaxis(want, 0, dim))
    dests = [-1, batching.zero_if_mapped, 1]
    batched, out_batched = batching.batch_jaxpr_axes(jaxpr, axis, in_axes, dests)
    assert out_batched == [True, in_axes[1] is not None, True]
    first, second, third = core.jaxpr_as_fun(batched)(*args)
    np.testing.assert_array_equal(first, np.moveaxis(wanted[0], 0, -1))
    np.testing.assert_array_equal(second, wanted[1] if in_axes[1] is not None else wanted[1][0])
    np.testing.assert_array_equal(third, np.moveaxis(wanted[2], 0, 1))


def test_programs_whose_axes_do_not_fit():
    jaxpr, axis = mjax.make_jaxpr(lax.neg)(1.0), batching.AxisData(None, 2)
    with pytest.raises(ValueError, match="mapped along axis 0, but is wanted without a batch axis"):
        batching.batch_jaxpr_axes(jaxpr, axis, [0], [None])
    for axes, dests in (([0, 0], [0]), ([0], [0, 0])):
        with pytest.raises(ValueError, match="has 2 entries for 1 (input|result)"):
            batching.batch_jaxpr_axes(jaxpr, axis, axes, dests)
    assert batching.zero_if_mapped is not None and isinstance(
        batching.zero_if_mapped, batching.ZeroIfMapped)


@pytest.mark.parametrize("src, dst", list(itertools.product([None, 0, 1], [None, 0, 1, -1])))
def test_matchaxis(src, dst):
    axis = batching.AxisData(None, 3)
    x = RNG.normal(size=(3, 3)).astype(np.float32) if src is not None else (
        RNG.normal(size=(2,)).astype(np.float32))
    if dst is None and src is not None:
        with pytest.raises(ValueError, match="wanted without a batch axis"):
            batching.matchaxis(axis, src, dst, x)
        np.testing.assert_allclose(batching.matchaxis(axis, src, dst, x, sum_match=True),
                                   x.sum(src), rtol=1e-6)
        return
    rows = x if src is None else np.moveaxis(x, src, 0)
    wanted = x if dst is None else np.moveaxis(np.stack([x] * 3) if src is None else rows, 0, dst)
    np.testing.assert_array_equal(batching.matchaxis(axis, src, dst, x), wanted)


# ---- transformations of wrapped functions ------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, lu.wrap_init])
def test_batches_of_wrapped_functions(wrap):
    x, y = RNG.normal(size=(3, 4)).astype(np.float32), np.float32(2)
    axis = batching.AxisData("i", 3)

    def f(x, y):
        return [lax.mul(x, y), lax.neg(y), lax.psum(x, "i")]

    outs, dims = batching.batch(wrap(f), axis, lambda: [0, None],
                                lambda: [1, None, 0]).call_wrapped(x, y)
    assert dims == [1, None, 0]
    np.testing.assert_array_equal(outs[0], 2 * x.T)
    np.testing.assert_array_equal(outs[1], -2)
    np.testing.assert_allclose(outs[2], np.stack([x.sum(0)] * 3), rtol=1e-6)
    with pytest.raises(ValueError, match="wanted without a batch axis"):
        batching.batch(wrap(f), axis, [0, None], [None] * 3).call_wrapped(x, y)
    same = wrap(lambda x: [x])
    total, _ = batching.batch(same, axis, [0], [None], sum_match=True).call_wrapped(x)
    np.testing.assert_allclose(total[0], x.sum(0), rtol=1e-6)
    g, out_dims = batching.batch_subtrace(
        wrap(lambda x, y: [lax.mul(x, y), y]), core.TraceTag(), axis, (1, None))
    outs = g.call_wrapped(x.T, y)
    np.testing.assert_array_equal(outs[0], 2 * x.T)
    assert out_dims() == [1, None] and outs[1] is y


def test_tiles():
    x = RNG.normal(size=(2, 6)).astype(np.float32)
    f = batching.vtile(lambda x, s: [lax.cumsum(x, 1), lax.mul(s, 2.0)], [1, None], [1, None], 3)
    sums, double = f.call_wrapped(x, 1.0)
    np.testing.assert_allclose(sums, np.cumsum(x.reshape(2, 3, 2), 2).reshape(2, 6), rtol=1e-5)
    assert float(double) == 2
    whole = batching.vtile(lambda x: [lax.reshape(x, (2,))], [1], [0], None)
    np.testing.assert_array_equal(whole.call_wrapped(x)[0], x.T.reshape(-1))
    with pytest.raises(ValueError, match="4 tiles do not divide mapped axes of sizes"):
        batching.vtile(lambda x: [x], [1], [1], 4).call_wrapped(x)
    with pytest.raises(ValueError, match="None tiles do not divide"):
        batching.vtile(lambda x: [x], [None], [None], None).call_wrapped(x)


def test_leaves_of_trees():
    tree = mjax.tree_util.tree_structure((({"a": 1},), {"k": 2}))
    flat, out_tree = batching.flatten_fun_for_vmap(lambda x, *, k: [x["a"], (k,)], tree)
    assert flat.call_wrapped(5, 6) == [5, 6]
    assert out_tree().unflatten("ab") == ["a", ("b",)]


def test_reducers_take_negative_axes():
    p = core.Primitive("total", params={"axes": tuple[int, ...]})
    p.def_impl(lambda x, *, axes: x.sum(axes))
    batching.defreducer(p)
    x = np.arange(27.0, dtype=np.float32).reshape(3, 3, 3)
    for dim, axes in itertools.product(range(3), [(-1,), (-2,), (-1, -2), (0, -1)]):
        found = mjax.vmap(lambda x, axes=axes: p.bind(x, axes=axes), dim)(x)
        np.testing.assert_array_equal(
            found, [np.take(x, i, dim).sum(axes) for i in range(3)])


def test_axes_of_programs_are_axes():
    jaxpr = mjax.make_jaxpr(lax.sin)(np.ones(2, np.float32))
    axis = batching.AxisData(None, 3)
    assert batching.batch_jaxpr2(jaxpr, axis, [-1])[0].in_avals[0].shape == (2, 3)
    for wrong in 2, -3, 5:
        with pytest.raises(ValueError, match=f"axis {wrong} is out of bounds"):
            batching.batch_jaxpr2(jaxpr, axis, [wrong])


def test_axes_may_be_numbers_of_numpy():
    p = make("doubled", lambda x: 2 * x)
    batching.primitive_batchers[p] = lambda args, dims: (p.bind(*args), np.int64(dims[0]))
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(mjax.vmap(p.bind, 1)(x), 2 * x.T)
    pair_p = core.Primitive("two of a number of NumPy", multiple_results=True)
    pair_p.def_abstract_eval(lambda x: [x, x])
    pair_p.def_impl(lambda x: [x, x])
    batching.primitive_batchers[pair_p] = lambda args, dims: (
        pair_p.bind(*args), np.int64(dims[0]))
    np.testing.assert_array_equal(mjax.vmap(pair_p.bind, 1)(x)[1], x.T)
    seen = mjax.make_jaxpr(mjax.vmap(lambda x: batching.BatchTracer(
        x.interp, x.val, np.int64(x.batch_dim)) + 1))(x)
    assert seen.out_avals[0].shape == (2, 3)


BATCH = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_axes_given_to_the_rules_themselves():
    """Axes count from the end, and may be of NumPy; before, results and axes were wrong."""
    largest, expected = lax.reduce_max_p, BATCH.max(0)
    for dim in (1, -2, np.int64(1)):
        out, where = batching.reducer_batcher(largest, None, [BATCH], [dim], axes=[np.int64(0)])
        np.testing.assert_array_equal(out, expected)
        assert where == 0
    out, where = batching.reducer_batcher(largest, None, [BATCH], [None], axes=(0,))
    np.testing.assert_array_equal(out, expected)
    assert where is None
    for rule in (batching.vectorized_batcher, batching.broadcast_batcher):
        out, where = rule(lax.add_p, None, [BATCH, BATCH], [None, None])
        np.testing.assert_array_equal(out, BATCH + BATCH)
        assert where is None
    moved = batching.moveaxis(BATCH, np.array([0, 1]), (-1, 0))
    np.testing.assert_array_equal(moved, np.moveaxis(BATCH, (0, 1), (-1, 0)))


@pytest.mark.parametrize("call, error, text", [
    (lambda: batching.reducer_batcher(lax.reduce_max_p, None, [BATCH], [3], axes=(0,)),
     IndexError, "axis 3 is out of bounds for an array of dimension 3"),
    (lambda: batching.reducer_batcher(lax.reduce_max_p, None, [BATCH], [1], axes=(2,)),
     IndexError, "axis 2 is out of bounds"),
    (lambda: batching.reducer_batcher(lax.reduce_max_p, None, [BATCH], [1, 1], axes=(0,)),
     ValueError, "reducer_batcher: batch_dims has 2 entries for 1 operand"),
    (lambda: batching.reducer_batcher(lax.reduce_max_p, None, [], [1], axes=(0,)),
     ValueError, "reducer_batcher: batched_args has 0 entries for 1 operand"),
    (lambda: batching.vectorized_batcher(lax.add_p, None, [BATCH] * 2, [1]),
     ValueError, "vectorized_batcher: batch_dims has 1 entry for 2 operands"),
    (lambda: batching.vectorized_batcher(lax.add_p, None, [BATCH] * 2, [3, 0]),
     ValueError, "axis 3 is out of bounds"),
    (lambda: batching.broadcast_batcher(lax.add_p, None, [BATCH] * 2, [1]),
     ValueError, "broadcast_batcher: dims has 1 entry for 2 operands"),
    (lambda: batching.moveaxis(BATCH, (0, 1), (0,)), ValueError, "dst has 1 entry for 2 sources"),
    (lambda: batching.moveaxis(BATCH, (0, 1), (0, -3)), ValueError, "dst names an axis twice"),
    (lambda: batching.make_iota(-1), TypeError, "must not hold negative sizes"),
    (lambda: batching.bdim_at_front(1.0, None, -3), TypeError, "sizes must not be negative"),
])
def test_wrong_axes_and_sizes_are_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def identity(x):
    return [x]


THREE = batching.AxisData(None, 3)


@pytest.mark.parametrize("call, error, text", [
    (lambda: batching.batch(identity, THREE, [0, 0], [0]).call_wrapped(BATCH), ValueError,
     "batch: in_dims has 2 entries for 1 argument"),
    (lambda: batching.batch(identity, THREE, [1], [0, 0]).call_wrapped(BATCH), ValueError,
     "batch: out_dim_dests has 2 entries for 1 result"),
    (lambda: batching.batch(identity, THREE, [0], [0]).call_wrapped(BATCH), ValueError,
     "batch: argument 0 has size 2 along axis 0, but the axis that is mapped has size 3"),
    (lambda: batching.batch(identity, 3, [1], [0]).call_wrapped(BATCH), TypeError,
     "batch: axis_data must be a batching.AxisData, got 3"),
    (lambda: batching.batch_subtrace(identity, core.TraceTag(), THREE, [5])[0].call_wrapped(BATCH),
     ValueError, "axis 5 is out of bounds"),
    (lambda: batching.batch_subtrace(identity, core.TraceTag(), THREE, [])[0].call_wrapped(BATCH),
     ValueError, "batch_subtrace: in_dims has 0 entries for 1 argument"),
    (lambda: batching.vtile(identity, [0], [0], 0).call_wrapped(BATCH), ValueError, "0 tiles do"),
    (lambda: batching.vtile(identity, [3], [0], 1).call_wrapped(BATCH), ValueError, "axis 3 is"),
])
def test_axes_that_do_not_fit_the_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call()
