"""Spike: the gradient through a shard_map over two devices, device variance in the types.

test_shard_map.py runs these tests in a process with two CPU devices. What they taught is in
docs/design/0001-spikes.md.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base.util import split_list
from mjax._engine.ir.jaxpr import jaxprs_in_params
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.lowering.module import lower_to_module
from mjax._engine.primitives.emit import hlo, ir, ir_type, reducer_region
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.linear import define_linear
from mjax._engine.tracing.interpreter import axes_in_scope
from mjax._engine.tracing.primitive import OperandsVaryError, Primitive
from mjax._engine.tracing.stage import eval_jaxpr, lift_tracers, stage, trace_to_jaxpr
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.tracing.variance import pvary_p, sorted_axes, vary_as
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr
from mjaxlib_shim import arrays, executables, shardings
from mjaxlib_shim.client import cpu_client
from mjaxlib_shim.mlir import sdy

MESH = (("i", 2),)

# ---- collectives of a checked shard_map ------------------------------------------------

psum_p = Primitive("psum_invariant", own_varying=True)


@psum_p.def_abstract_eval
def _psum_type(x, *, axes):
    if not x.varying.issuperset(axes):
        raise TypeError(f"psum over {axes} of {x}, which does not vary along all of them")
    return x.update(varying=x.varying - set(axes))


@psum_p.def_lowering
def _psum_lowering(ctx, x, *, axes):
    assert axes == ("i",)
    dtype = ctx.avals_in[0].dtype
    op = hlo.AllReduceOp(
        ctx.out_types, [x],
        ir.DenseIntElementsAttr.get(np.array([[0, 1]], np.int64)),
        channel_handle=hlo.ChannelHandle.get(1, 1), use_global_device_ids=ir.UnitAttr.get())
    reducer_region(op.regions[0], [dtype], lambda a, b: [hlo.add(a, b)])
    return op.results


define_linear(psum_p, lambda ct, x, *, axes: pvary_p.bind(ct, axes=axes))
define_linear(pvary_p, lambda ct, x, *, axes: psum_p.bind(ct, axes=axes))


def psum(x, axis):
    """Of an invariant value it is a product, without communication."""
    if axis not in typeof(x).varying:
        return lax.mul(x, np.asarray(dict(MESH)[axis], typeof(x).dtype))
    return psum_p.bind(x, axes=(axis,))


axis_index_p = Primitive("axis_index", own_varying=True)
axis_index_p.def_abstract_eval(lambda *, axis_name: ShapedArray((), np.int32,
                                                                varying=frozenset({axis_name})))


@axis_index_p.def_lowering
def _axis_index_lowering(ctx, *, axis_name):
    return [hlo.convert(ctx.out_types[0], hlo.partition_id())]


# ---- shard_map -------------------------------------------------------------------------

# A spec gives per dimension a tuple of mesh axes; dimensions at the end may be left out.
shard_map_p = Primitive("small_shard_map", multiple_results=True, types_cacheable=False,
                        own_varying=True)


def axes_of(spec):
    return frozenset(a for dim in spec for a in dim)


def scaled(aval, spec, up):
    """The type of a whole from that of a shard, or the other way round."""
    shape = list(aval.shape)
    for d, axes in enumerate(spec):
        for a in axes:
            shape[d] = shape[d] * dict(MESH)[a] if up else shape[d] // dict(MESH)[a]
    return aval.update(shape=tuple(shape), varying=frozenset() if up else axes_of(spec))


def bind(jaxpr, args, in_specs, out_specs):
    return shard_map_p.bind(*args, jaxpr=jaxpr, in_specs=tuple(in_specs),
                            out_specs=tuple(out_specs))


@shard_map_p.def_effectful_abstract_eval
def _type(*avals, jaxpr, in_specs, out_specs):
    return [scaled(a, s, True) for a, s in zip(jaxpr.out_avals, out_specs, strict=True)], \
        jaxpr.effects


def _typecheck(*avals, jaxpr, in_specs, out_specs):
    for aval, spec, inner in zip(avals, in_specs, jaxpr.in_avals, strict=True):
        if scaled(aval, spec, False) is not inner:
            raise TypeError(f"small_shard_map gives {aval} by {spec} to an input of type {inner}")
    for spec, inner in zip(out_specs, jaxpr.out_avals, strict=True):
        if inner.varying != axes_of(spec):
            raise TypeError(f"small_shard_map takes a result of type {inner} by {spec}")


shard_map_p.typecheck = _typecheck


@shard_map_p.def_lowering
def _lowering(ctx, *operands, jaxpr, in_specs, out_specs):
    module = ctx.module_context.module
    if not any(op.operation.name == "sdy.mesh" for op in module.body):
        with ir.InsertionPoint.at_block_begin(module.body):
            sdy.MeshOp("mesh", sdy.MeshAttr.get([sdy.MeshAxisAttr.get(n, s) for n, s in MESH]))
    op = ir.Operation.create(
        "sdy.manual_computation", results=ctx.out_types, operands=list(operands), regions=1,
        attributes={
            "in_shardings": per_value(ctx.avals_in, in_specs),
            "out_shardings": per_value(ctx.avals_out, out_specs),
            "manual_axes": sdy.ManualAxesAttr.get(ir.ArrayAttr.get(
                [ir.StringAttr.get(n) for n, _ in MESH]))})
    block = op.regions[0].blocks.append(*map(ir_type, jaxpr.in_avals))
    with ir.InsertionPoint(block):
        sdy.ReturnOp(ctx.inline(jaxpr, *block.arguments))
    return op.results


def per_value(avals, specs):
    return sdy.TensorShardingPerValueAttr.get([
        sdy.TensorShardingAttr.get("mesh", [
            sdy.DimensionShardingAttr.get(
                [sdy.AxisRefAttr.get(a) for a in dim], is_closed=True)
            for dim in [*spec, *[()] * (aval.ndim - len(spec))]])
        for aval, spec in zip(avals, specs, strict=True)])


def inside(f):
    """Rules transform the body with its axes in scope."""
    @functools.wraps(f)
    def rule(*args, **params):
        with axes_in_scope(MESH):
            return f(*args, **params)

    return rule


def _jvp(primals, tangents, *, jaxpr, in_specs, out_specs):
    nonzeros = [type(t) is not Zero for t in tangents]
    body, nonzero_outs = inside(jvp_jaxpr)(jaxpr, nonzeros, False)
    outs = bind(body, [*primals, *[t for t in tangents if type(t) is not Zero]],
                [*in_specs, *[s for s, nz in zip(in_specs, nonzeros) if nz]],
                [*out_specs, *[s for s, nz in zip(out_specs, nonzero_outs) if nz]])
    given = iter(outs[len(out_specs):])
    return outs[:len(out_specs)], [
        next(given) if nz else Zero(typeof(o).to_tangent()) for o, nz in zip(outs, nonzero_outs)]


shard_map_p.jvp = _jvp


def residual_spec(aval):
    """Shards of a residual are put together along a new axis, whatever its shape; one that
    does not vary stays as it is."""
    return ((sorted_axes(aval.varying)),) if aval.varying else ()


def new_axis(aval, out):
    if not aval.varying:
        return aval
    return aval.update(shape=(1, *aval.shape) if out else aval.shape[1:])


def _linearize(nonzeros, *primals, jaxpr, in_specs, out_specs):
    parts = inside(linearize_jaxpr)(jaxpr, nonzeros)
    n, m = len(jaxpr.invars), len(out_specs)
    avals = [*parts.known.in_avals, *parts.known.out_avals]
    made = sorted({s for s in parts.residual_forwarding if s >= n})

    def forward(*args):
        outs = eval_jaxpr(parts.known, parts.known.consts, *args)
        kept = [outs[s - n] for s in made]
        return [*outs[:m], *[lax.expand_dims(r, (0,)) if avals[s].varying else r
                             for r, s in zip(kept, made)]]

    body = inside(trace_to_jaxpr)(forward, jaxpr.in_avals)
    specs = [residual_spec(avals[s]) for s in made]
    outs = bind(body, primals, in_specs, [*out_specs, *specs])
    # An input is handed on whole, by its own spec.
    residuals = [primals[s] if s < n else outs[m + made.index(s)]
                 for s in parts.residual_forwarding]

    def linear(residuals, *tangents):
        ts = [t for t in tangents if type(t) is not Zero]

        def body(*args):
            rs, ts = split_list(args, [len(residuals)])
            return eval_jaxpr(parts.unknown, parts.unknown.consts, *[
                lax.squeeze(r, (0,)) if s >= n and avals[s].varying else r
                for r, s in zip(rs, parts.residual_forwarding)], *ts)

        rest = [new_axis(avals[s], True) if s >= n else avals[s] for s in parts.residual_forwarding]
        jaxpr = inside(trace_to_jaxpr)(
            body, [*rest, *parts.unknown.in_avals[len(residuals):]])
        outs = bind(jaxpr, [*residuals, *ts], [
            *[in_specs[s] if s < n else specs[made.index(s)] for s in parts.residual_forwarding],
            *[s for s, nz in zip(in_specs, nonzeros) if nz]],
            [s for s, nz in zip(out_specs, parts.unknown_outs) if nz])
        given = iter(outs)
        return [next(given) if nz else None for nz in parts.unknown_outs]

    return outs[:m], parts.unknown_outs, residuals, linear


shard_map_p.linearize = _linearize


def _transpose(cts, *args, jaxpr, in_specs, out_specs):
    undefined = [type(a) is UndefinedPrimal for a in args]
    nonzero = [type(ct) is not Zero for ct in cts]
    body, nonzero_ins = inside(transpose_jaxpr)(jaxpr, undefined, nonzero)
    linear_specs = [s for s, u in zip(in_specs, undefined) if u]
    outs = bind(body, [*[a for a, u in zip(args, undefined) if not u],
                       *[ct for ct, nz in zip(cts, nonzero) if nz]],
                [*[s for s, u in zip(in_specs, undefined) if not u],
                 *[s for s, nz in zip(out_specs, nonzero) if nz]],
                [s for s, nz in zip(linear_specs, nonzero_ins) if nz])
    given, nz = iter(outs), iter(nonzero_ins)
    return [(next(given) if next(nz) else Zero(a.aval)) if u else None
            for a, u in zip(args, undefined)]


shard_map_p.transpose = _transpose


def shard_map(f, in_specs, out_specs):
    def g(*args):
        leaves, tree = tree_flatten(args)
        trees = []

        def flat(*shards):
            outs, out_tree = tree_flatten(f(*tree.unflatten(shards)))
            trees.append(out_tree)
            return [fit(o, s) for o, s in zip(outs, out_specs, strict=True)]

        def fit(out, spec):
            aval = typeof(out)
            extra = aval.varying - axes_of(spec)
            if extra:
                raise ValueError(f"a result of type {aval} varies along {set(extra)}, which its "
                                 f"spec {spec} does not name")
            expected = aval.update(varying=axes_of(spec))
            return out if aval is expected else vary_as(out, aval, expected)

        body, consts = inside(lift_tracers_of)(flat, [
            scaled(typeof(x), s, False) for x, s in zip(leaves, in_specs)])
        outs = bind(body, [*consts, *leaves], [*[()] * len(consts), *in_specs], out_specs)
        return trees[0].unflatten(outs)

    return g


def lift_tracers_of(f, avals):
    jaxpr, consts = lift_tracers(stage(f, avals))
    assert not jaxpr.consts, "the spike passes no arrays that the body closes over"
    return jaxpr, consts


# ---- running on two devices ------------------------------------------------------------


@functools.cache
def devices():
    found = cpu_client().local_devices()
    assert len(found) == 2, "see test_shard_map.py for how to run this"
    return found


def run(f, *args):
    """Evaluates a function on two devices; arguments and results are whole on both of them."""
    leaves, tree = tree_flatten(args)
    trees = []

    def flat(*leaves):
        outs, out_tree = tree_flatten(f(*tree.unflatten(leaves)))
        trees.append(out_tree)
        return outs

    jaxpr = stage(flat, [typeof(x) for x in leaves])
    lowered = lower_to_module(jaxpr, "spike", "cpu")
    with lowered.context, ir.Location.unknown():
        number = ir.IntegerType.get_signless(32)
        attributes = lowered.module.operation.attributes
        attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(number, 2)
        attributes["mhlo.num_replicas"] = ir.IntegerAttr.get(number, 1)
        main = next(op for op in lowered.module.body if op.operation.name == "func.func"
                    and str(op.operation.attributes["sym_name"]) == '"main"')
        main.arg_attrs = whole([*map(typeof, lowered.constants), *jaxpr.in_avals])
        main.res_attrs = whole(jaxpr.out_avals)
        loaded = executables.compile_module(devices()[0].client, lowered.module, devices(),
                                            num_partitions=2)
    sharding = shardings.gspmd_sharding(devices(), shardings.replicated())
    buffers = [arrays.put_shards([np.asarray(x)] * 2, typeof(x), sharding, devices())
               for x in [*lowered.constants, *leaves]]
    handlers = [arrays.result_handler(a, sharding, True) for a in jaxpr.out_avals]
    outs = loaded.execute_sharded(buffers).consume_with_handlers(handlers)
    for out in outs:  # both devices must agree on what is called replicated
        first, second = map(arrays.to_numpy, arrays.shards(out))
        np.testing.assert_array_equal(first, second)
    return trees[0].unflatten([arrays.to_numpy(o) for o in outs])


def whole(avals):
    return ir.ArrayAttr.get([ir.DictAttr.get({"sdy.sharding": sdy.TensorShardingAttr.get(
        "mesh", [sdy.DimensionShardingAttr.get([], is_closed=True)] * a.ndim)}) for a in avals])


# ---- checks ----------------------------------------------------------------------------

CUT, NONE = (("i",),), ()
RNG = np.random.default_rng(0)
W = RNG.normal(size=3).astype("float32")
X, Y = RNG.normal(size=(2, 4, 3)).astype("float32")


def rows(w):
    return lax.broadcast_in_dim(w, (2, 3), (1,))


def total(x):
    return lax.reduce_sum(x, tuple(range(typeof(x).ndim)))


def model(w, x):
    """A weight on all devices, data cut in two; a loss on all, activations cut."""
    h = lax.tanh(lax.mul(rows(lax.sin(w)), x))
    again = lax.mul(h, rows(w))  # w is used twice
    mean = psum(total(lax.mul(again, 2.0)), "i")
    return lax.mul(mean, mean), again


def model_reference(w, x):
    def rows(w):
        return lax.broadcast_in_dim(w, (4, 3), (1,))

    h = lax.tanh(lax.mul(rows(lax.sin(w)), x))
    again = lax.mul(h, rows(w))
    mean = total(lax.mul(again, 2.0))
    return lax.mul(mean, mean), again


def replicated_out(w, x):
    """An invariant value as a result that the spec cuts: each device gives its copy."""
    return lax.sin(w), psum(w, "i"), lax.mul(x, 1.0)


def replicated_out_reference(w, x):
    return concatenate([lax.sin(w)] * 2, 0), lax.mul(w, 2.0), x


def jitted(w, x):
    """jit and grad inside of the body; a derivative of one shard's work by the weight."""
    inner = mjax.jit(lambda w, x: total(lax.sin(lax.mul(rows(w), x))))
    g = mjax.grad(inner)(w, x)  # summed over devices: w is the same on all of them
    return lax.mul(g, w), mjax.vmap(lambda row: lax.mul(row, w))(x)


def jitted_reference(w, x):
    def f(w):
        return total(lax.sin(lax.mul(lax.broadcast_in_dim(w, (4, 3), (1,)), x)))

    return lax.mul(mjax.grad(f)(w), w), lax.mul(x, lax.broadcast_in_dim(w, (4, 3), (1,)))


PROGRAMS = {
    "model": (model, (NONE, CUT), (NONE, CUT), model_reference),
    "replicated out": (replicated_out, (NONE, CUT), (CUT, NONE, CUT), replicated_out_reference),
    "jitted": (jitted, (NONE, CUT), (NONE, CUT), jitted_reference),
}
WEIGHTS = RNG.normal(size=100).astype("float32")


def loss(outs):
    def weigh(o):
        shape = typeof(o).shape
        return lax.mul(lax.sin(o), WEIGHTS[:int(np.prod(shape))].reshape(shape))

    return functools.reduce(lax.add, [total(weigh(o)) for o in outs])


WAYS = {
    "value": lambda f: f,
    "grad": lambda f: mjax.grad(lambda w, x: loss(f(w, x)), (0, 1)),
    "grad jit": lambda f: mjax.grad(mjax.jit(lambda w, x: loss(f(w, x)))),
    "jvp": lambda f: lambda w, x: mjax.jvp(f, (w, x), (lax.sin(w), lax.cos(x))),
    "jvp of one": lambda f: lambda w, x: mjax.jvp(lambda w: f(w, x), (w,), (lax.sin(w),)),
    "grad grad": lambda f: mjax.grad(lambda w, x: total(mjax.grad(
        lambda w: loss(f(w, x)))(lax.cos(w)))),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("way", WAYS)
def test_against_one_device(program, way):
    f, in_specs, out_specs, reference = PROGRAMS[program]
    found = run(WAYS[way](shard_map(f, in_specs, out_specs)), W, X)
    expected = WAYS[way](reference)(W, X)
    for a, b in zip(tree_flatten(found)[0], tree_flatten(expected)[0], strict=True):
        np.testing.assert_allclose(a, b, 2e-4, 2e-4)


def primitives(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for inner in jaxprs_in_params(eqn.params):
            yield from primitives(inner)


def test_a_value_used_several_times_is_cast_once():
    def body(w, x):
        return lax.sub(lax.mul(w, x), lax.mul(lax.add(w, x), 2.0)),

    f = shard_map(lambda w, x: (psum(total(body(w, x)[0]), "i"),), (NONE, CUT), (NONE,))
    w = np.ones((2, 3), np.float32)
    names = list(primitives(mjax.make_jaxpr(f)(w, X)))
    assert names.count("pvary") == 1  # of w; the literal takes the type it needs
    names = list(primitives(mjax.make_jaxpr(mjax.grad(lambda w: f(w, X)[0]))(w)))
    assert names.count("psum_invariant") == 2  # one forward, one of the cotangent of w


def test_types():
    jaxpr = mjax.make_jaxpr(shard_map(model, (NONE, CUT), (NONE, CUT)))(W, X)
    (eqn,) = jaxpr.eqns
    assert "f32[2,3]{V:i} = tanh" in str(eqn.params["jaxpr"])
    assert "f32[] = psum_invariant" in str(eqn.params["jaxpr"])
    assert [str(a) for a in jaxpr.out_avals] == ["float32[]", "float32[4,3]"]


def test_zeros_vary_as_what_they_are_the_cotangent_of():
    f = shard_map(lambda x: (lax.reduce_sum(mjax.jit(lambda x: (x, lax.sin(x)))(x)[1], (0,)),),
                  (CUT,), (CUT,))
    found = run(mjax.grad(lambda x: total(f(x)[0])), X)
    np.testing.assert_allclose(found, np.cos(X), 1e-5, 1e-5)


def test_a_result_that_varies_needs_a_spec():
    with pytest.raises(ValueError, match=r"varies along {'i'}, which its spec \(\) does not"):
        mjax.make_jaxpr(shard_map(lambda x: (x,), (CUT,), (NONE,)))(X)


def test_operands_that_differ_are_refused_where_nobody_casts():
    varying = ShapedArray((), np.float32, varying=frozenset({"i"}))
    with pytest.raises(OperandsVaryError, match=r"vary along different mesh axes: float32\[\], "):
        lax.add_p.type_of((ShapedArray((), np.float32), varying), {})


def test_axis_index_varies():
    def f(x):
        i = lax.convert_element_type(axis_index_p.bind(axis_name="i"), np.float32)
        return lax.mul(x, lax.broadcast(lax.add(i, 1.0), (2, 3))), psum(i, "i")

    y, total_index = run(shard_map(f, (CUT,), (CUT, NONE)), X)
    np.testing.assert_allclose(y, X * np.array([1, 1, 2, 2], "float32")[:, None])
    assert total_index == 1
