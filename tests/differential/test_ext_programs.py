"""Short programs of authors that run with jax and with mjax by a change of imports alone."""

from __future__ import annotations

import functools
import importlib
from types import SimpleNamespace

import jax
import jax.extend.core
import jax.extend.linear_util
import jax.extend.random
import jax.ffi
import numpy as np
import pytest
from jax._src import api_util as jax_api
from jax._src import core as jax_core
from jax._src.interpreters import ad as jax_ad
from jax._src.interpreters import batching as jax_batching
from jax._src.interpreters import mlir as jax_mlir
from jax._src.interpreters import partial_eval as jax_pe
from jax._src.lib.mlir.dialects import hlo as jax_hlo
from jax.interpreters import xla as jax_xla

import mjax
import mjax.ffi
import mjax_ext.api_util
import mjax_ext.core
import mjax_ext.linear_util
import mjax_ext.random
from mjax_ext.interpreters import ad, batching, mlir, partial_eval, xla

F32 = np.dtype("float32")


def module(n, name):
    """A public module of the library."""
    return importlib.import_module(f"{n.jax.__name__}.{name}")


OURS = SimpleNamespace(
    jax=mjax, core=mjax_ext.core, primitives=mjax_ext.core.primitives, ad=ad, batching=batching,
    mlir=mlir, pe=partial_eval, xla=xla, lu=mjax_ext.linear_util, api=mjax_ext.api_util,
    random=mjax_ext.random, ffi=mjax.ffi, hlo=mlir.hlo)
THEIRS = SimpleNamespace(
    jax=jax, core=jax_core, primitives=jax.extend.core.primitives, ad=jax_ad,
    batching=jax_batching, mlir=jax_mlir, pe=jax_pe, xla=jax_xla, lu=jax.extend.linear_util,
    api=jax_api, random=jax.extend.random, ffi=jax.ffi, hlo=jax_hlo)
for _n in OURS, THEIRS:
    _n.lax, _n.np, _n.vmap, _n.grad, _n.jit = (
        _n.jax.lax, module(_n, "numpy"), _n.jax.vmap, _n.jax.grad, _n.jax.jit)


def ones_to(*shape):
    return np.arange(1, 1 + np.prod(shape, dtype=int), dtype=F32).reshape(shape)


def primitive(n, name, fun, abstract_eval=lambda x, *more, **params: x, several=False):
    """A primitive that is what a function computes."""
    p = n.core.Primitive(name)
    p.multiple_results = several
    p.def_impl(functools.partial(n.xla.apply_primitive, p))
    p.def_abstract_eval(abstract_eval)
    n.mlir.register_lowering(p, n.mlir.lower_fun(fun, multiple_results=several))
    return p


def kind(call):
    """The value of a call, or the kind of its error."""
    kinds = (NotImplementedError, TypeError, ValueError)
    try:
        return call()
    except Exception as error:
        name = type(error).__name__  # errors of several kinds are named by the first
        known = [k.__name__ for k in kinds if isinstance(error, k)]
        return name if name in known or not known else known[0]


def shown(value):
    if isinstance(value, (list, tuple)):
        return list(map(shown, value))
    if type(value).__name__ == "ShapedArray":
        return value.str_short()
    if hasattr(value, "dtype"):
        return str(value.dtype), np.shape(value), np.asarray(value, float).round(4).tolist()
    return value


def names(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


# ---- rules -------------------------------------------------------------------------------


def fancy_batching(n):
    p = primitive(n, "times", lambda x, *, by: x * by)
    seen = []

    def rule(axis, args, dims, *, by):
        seen.append([axis.size, axis.name, list(dims), by])
        return p.bind(*args, by=by), dims[0]

    n.batching.fancy_primitive_batchers[p] = rule
    out = n.vmap(lambda x: p.bind(x, by=2), in_axes=1, axis_name="i")(ones_to(2, 3))
    return out, seen


def broadcasting_batching(n):
    p = primitive(n, "times", lambda x, y: x * y, lambda x, y: x.update(
        shape=np.broadcast_shapes(x.shape, y.shape)))
    n.ad.defjvp(p, lambda g, x, y: g * y, lambda g, x, y: g * x)
    n.batching.defbroadcasting(p)
    x, xs = ones_to(3), ones_to(2, 3)
    return [n.grad(lambda x, y: p.bind(x, y).sum(), (0, 1))(x, x), n.vmap(p.bind, (0, None))(xs, x),
            n.vmap(p.bind, (1, 0))(ones_to(3, 2), xs), n.vmap(p.bind, (0, None))(xs, F32.type(2))]


def reducing_batching(n):
    p = primitive(n, "total", lambda x, *, axes: x.sum(axes), lambda x, *, axes: x.update(
        shape=tuple(s for i, s in enumerate(x.shape) if i not in axes)))
    n.batching.defreducer(p)
    f = lambda x: p.bind(x, axes=(0,))
    return n.vmap(f, in_axes=1)(ones_to(2, 3)), n.vmap(f)(ones_to(2, 3, 4))


def several_results(n):
    p = primitive(n, "two", lambda x: [x + 1, x * 3], lambda x: [x, x], several=True)

    def jvp(primals, tangents):
        t = n.ad.instantiate_zeros(tangents[0])
        return p.bind(*primals), [t, t * 3]

    n.ad.primitive_jvps[p] = jvp
    n.batching.primitive_batchers[p] = lambda args, dims: (p.bind(*args), [dims[0]] * 2)
    return [n.jit(p.bind)(ones_to(2)), n.grad(lambda x: sum(p.bind(x)))(2.0),
            n.vmap(p.bind, in_axes=1, out_axes=[0, 1])(ones_to(2, 3))]


def transposing(n):
    p = primitive(n, "times", lambda x, y: x * y)
    seen = []

    def transpose(ct, x, y):
        wanted = [n.ad.is_undefined_primal(v) for v in (x, y)]
        seen.append(wanted)
        return [ct * y if wanted[0] else None, ct * x if wanted[1] else None]

    n.ad.primitive_transposes[p] = transpose
    n.ad.primitive_jvps[p] = lambda xs, ts: (
        p.bind(*xs), p.bind(n.ad.instantiate_zeros(ts[0]), xs[1]))
    y = n.np.float32(4)
    return [n.grad(lambda x: p.bind(x, 3.0))(2.0),
            n.jax.linear_transpose(lambda x: p.bind(x, y), 1.0)(F32.type(2)), seen]


def missing_rules(n):
    p = primitive(n, "nothing", lambda x: x)
    q = n.core.Primitive("bare")
    return [kind(lambda: n.grad(p.bind)(1.0)), kind(lambda: n.vmap(p.bind)(ones_to(2))),
            kind(lambda: n.jax.linear_transpose(p.bind, 1.0)(1.0)),
            kind(lambda: n.jax.make_jaxpr(q.bind)(1.0))]


def platforms(n):
    p = primitive(n, "place", lambda x: x + 1)
    for platform, by in (("cpu", 100), ("tpu", 7)):
        n.mlir.register_lowering(p, n.mlir.lower_fun(
            lambda x, by=by: x + by, multiple_results=False), platform=platform)
    text = n.jit(p.bind).trace(1.0).lower(lowering_platforms=("tpu",)).as_text()
    return n.jit(p.bind)(1.0), "7.000" in text


def constants(n):
    seen = []
    p = primitive(n, "constants", lambda x: x, lambda x: [x, x.update(shape=(2, 3))], several=True)

    def rule(ctx, x):
        values = np.int32(1), np.ones(2, np.float16), np.zeros((0, 3), bool), np.complex64(1)
        seen.append([str(n.mlir.ir_constant(np.asarray(v)).type) for v in values])
        two = n.mlir.ir_constant(np.float32(2))
        return [n.hlo.AddOp(x, two).result, n.mlir.full_like_aval(ctx, 3, ctx.avals_out[1])]

    n.mlir.register_lowering(p, rule)
    return n.jit(p.bind)(1.0), seen


def static_params(n):
    p = primitive(n, "length", lambda x, *, k: x * len(k))
    f = n.jit(lambda x, k: p.bind(x, k=k), static_argnums=1)
    tree = n.jax.tree.structure({"a": 1})
    q = primitive(n, "tree", lambda x, *, tree, f: f(tree.unflatten([x])["a"]))
    return [f(2.0, (1, 2)), kind(lambda: f(2.0, [1])), q.bind(2.0, tree=tree, f=n.np.cos)]


def saved_by_a_policy(n):
    p = primitive(n, "kept", lambda x: n.np.sin(x))
    n.ad.defjvp(p, lambda g, x: g * n.np.cos(x))
    f = n.jax.checkpoint(lambda x: n.np.exp(p.bind(x)), policy=lambda prim, *a, **k: prim is p)
    found = []

    def walk(jaxpr):
        found.extend(names(jaxpr))
        for eqn in jaxpr.eqns:
            for inner in n.core.jaxprs_in_params(eqn.params):
                walk(inner)

    walk(n.jax.make_jaxpr(n.grad(f))(1.0).jaxpr)
    return found.count("kept"), n.grad(f)(1.0)


def on_devices(n):
    p = primitive(n, "twice", lambda x: x * 2)
    n.ad.deflinear(p, lambda ct: [ct * 2])
    n.batching.defvectorized(p)
    spec = n.jax.sharding.PartitionSpec("i")
    mesh = n.jax.sharding.Mesh(np.array(n.jax.devices()[:2]), ("i",))
    f = n.jax.shard_map(p.bind, mesh=mesh, in_specs=spec, out_specs=spec)
    return [n.jit(f)(ones_to(2)), n.grad(lambda x: f(x).sum())(ones_to(2)),
            n.vmap(f)(ones_to(3, 2))]


def exported(n):
    export = module(n, "export")
    p = primitive(n, "twice", lambda x: x * 2)
    n.ad.deflinear(p, lambda ct: [ct * 2])
    blob = export.export(n.jit(p.bind))(n.jax.ShapeDtypeStruct((2,), F32)).serialize(vjp_order=1)
    again = export.deserialize(blob)
    return again.call(ones_to(2)), n.grad(lambda x: again.call(x).sum())(ones_to(2))


def of_symbolic_shape(n):
    export = module(n, "export")
    seen = []
    p = primitive(n, "next", lambda x: x + 1, lambda x: (seen.append(
        [n.core.is_constant_dim(x.shape[0]), n.core.is_constant_shape(x.shape)]), x)[1])
    (b,) = export.symbolic_shape("b")
    whole = export.export(n.jit(p.bind))(n.jax.ShapeDtypeStruct((b, 2), F32))
    return whole.call(ones_to(3, 2)), seen[0], str(whole.in_avals[0].shape)


# ---- programs ----------------------------------------------------------------------------


def applied_again(n):
    """Every equation bound again by its params, as interpreters do."""

    @n.jax.custom_vjp
    def g(x):
        return n.np.sin(x)

    g.defvjp(lambda x: (g(x), x), lambda x, ct: (7 * ct * x,))

    def f(x):
        y = n.lax.fori_loop(0, 3, lambda i, c: c * x, 1.0)
        z = n.lax.cond(x > 1, n.np.sin, n.np.cos, x)
        w, _ = n.lax.scan(lambda c, t: (c + t * x, None), 0.0, n.np.arange(3.0))
        v = n.lax.custom_root(lambda v: v - x, 1.0, lambda f, v: f(v) * 0 + x,
                              lambda h, y: y / h(1.0))
        return y + z + w + v + n.jax.checkpoint(n.np.tanh)(x) + n.jax.nn.relu(x) + g(x)

    jaxpr = n.jax.make_jaxpr(f)(2.0)

    def again(x):
        env = dict(zip(jaxpr.jaxpr.invars, [x], strict=True))
        env.update(zip(jaxpr.jaxpr.constvars, jaxpr.consts, strict=True))
        read = lambda v: v.val if isinstance(v, n.core.Literal) else env[v]
        for eqn in jaxpr.jaxpr.eqns:
            params = eqn.primitive.get_bind_params(eqn.params)
            functions, params = params if isinstance(params, tuple) else ((), params)
            out = eqn.primitive.bind(*functions, *map(read, eqn.invars), **params)
            env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out],
                           strict=True))
        return read(jaxpr.jaxpr.outvars[0])

    return [n.jit(again)(2.0), n.grad(again)(2.0), n.vmap(again)(ones_to(2))]


def built(n):
    aval = n.core.ShapedArray((), F32)
    x, y = n.core.Var(aval), n.core.Var(aval)
    eqn = n.core.new_jaxpr_eqn([x], [y], n.primitives.sin_p, {"accuracy": None},
                               n.core.no_effects)
    named = n.jax.make_jaxpr(lambda x: x)(1.0).jaxpr.debug_info
    jaxpr = n.core.Jaxpr([], [x], [y], [eqn], debug_info=named)
    n.core.check_jaxpr(jaxpr)
    wrong = jaxpr.replace(eqns=[])
    return [n.core.jaxpr_as_fun(n.core.ClosedJaxpr(jaxpr, []))(3.0),
            len(jaxpr.replace(outvars=[y, y]).outvars), kind(lambda: n.core.check_jaxpr(wrong)),
            n.grad(lambda v: n.core.eval_jaxpr(jaxpr, [], v)[0])(2.0)]


def cut_by_saveables(n):
    f = lambda x, y: n.np.cos(n.np.sin(x)) * y
    jaxpr = n.jax.make_jaxpr(f)(1.0, 2.0).jaxpr
    for policy in (lambda *a, **k: True, lambda *a, **k: False, lambda p, *a, **k: str(p) == "sin"):
        known, staged, unknown, inst, count = n.pe.partial_eval_jaxpr_custom(
            jaxpr, [False, True], [False, True], False, False, policy)
        yield len(known.eqns), len(staged.eqns), list(unknown), list(inst), count


def dead_code(n):
    def f(x):
        body = lambda c, t: ((c[0] + t, c[1] * 2), c)
        return n.lax.scan(body, (x, x), n.np.arange(3.0))

    jaxpr = n.jax.make_jaxpr(f)(1.0).jaxpr
    for used in ([True, False, False, False], [False, True, False, True], [False] * 4):
        smaller, kept = n.pe.dce_jaxpr(jaxpr, used)
        yield names(smaller), [len(eqn.outvars) for eqn in smaller.eqns], list(kept)
    yield n.pe.dce_jaxpr(jaxpr, [False] * 4, instantiate=True)[1]


def effects(n):
    class Noted(n.core.Effect):
        pass

    noted, p = Noted(), n.core.Primitive("noted")
    p.multiple_results = True
    p.def_effectful_abstract_eval(lambda x: ([x], {noted}))
    jaxpr = n.jax.make_jaxpr(lambda x: p.bind(x)[0])(1.0)
    smaller, _ = n.pe.dce_jaxpr(jaxpr.jaxpr, [False])
    return len(jaxpr.effects), noted in jaxpr.effects, len(smaller.eqns)


def partly_known(n):
    f = lambda x, y: n.lax.fori_loop(0, 3, lambda i, c: (c[0] * y, n.np.sin(c[1])), (x, y))
    jaxpr = n.jax.make_jaxpr(f)(1.0, 2.0)
    known, unknown, outs, *_ = n.pe.partial_eval_jaxpr_nounits(jaxpr, [True, False], False)
    return list(outs), len(known.jaxpr.invars), len(unknown.jaxpr.outvars)


def derivative_programs(n):
    jaxpr = n.jax.make_jaxpr(lambda x, y: (x * y, y))(1.0, 2.0)
    jvp, nonzeros = n.ad.jvp_jaxpr(jaxpr, [True, False], False)
    yield len(jvp.in_avals), list(nonzeros), n.core.jaxpr_as_fun(jvp)(2.0, 3.0, 1.0)
    data = n.batching.AxisData(None, 3, None, None)
    batched, outs = n.batching.batch_jaxpr(jaxpr, data, [True, False], [False, False])
    yield batched.in_avals, batched.out_avals, list(outs)
    moved = n.pe.move_binders_to_front(n.jax.make_jaxpr(lambda x, y: (x - y,))(1.0, 2.0),
                                       [False, True])
    yield n.core.jaxpr_as_fun(moved)(5.0, 1.0)


# ---- foreign functions and generators ------------------------------------------------------


def factor(n, method):
    def f(x):
        call = n.ffi.ffi_call("lapack_spotrf_ffi", (
            n.jax.ShapeDtypeStruct(x.shape, x.dtype),
            n.jax.ShapeDtypeStruct(x.shape[:-2], np.int32)), vmap_method=method)
        return call(x, uplo=np.uint8(ord("L")))

    return f


def foreign(n):
    n.np.linalg.cholesky(n.np.eye(2))  # jax registers LAPACK's functions then
    m = np.stack([np.eye(2, dtype=F32) * 4, np.eye(2, dtype=F32) * 9])
    for method in ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", None):
        yield kind(lambda method=method: n.vmap(factor(n, method))(m))
    yield kind(lambda: n.grad(lambda x: factor(n, None)(x)[0].sum())(m[0]))
    yield kind(lambda: n.ffi.ffi_call("f", n.jax.ShapeDtypeStruct((), F32), vmap_method="never"))


def attributes(n):
    values = (1, 2.5, True, "a", F32.type(1), np.arange(3), (1, 2), {"a": 1}, None, b"x", [1.5],
              np.int8(3), 1 + 2j)
    for value in values:
        f = lambda x, value=value: n.ffi.ffi_call("nope", x)(x, k=value)

        def text(f=f):
            lowered = n.jit(f).lower(n.jax.ShapeDtypeStruct((2,), F32)).as_text()
            return lowered.partition("backend_config = {")[2].partition("}")[0]

        yield kind(text)


def generator(n):
    return n.random.define_prng_impl(
        key_shape=(2,), seed=lambda s: n.np.stack([s.astype("uint32"), n.np.uint32(1)]),
        split=lambda k, shape: n.np.broadcast_to(k, (*shape, 2)),
        random_bits=lambda k, width, shape: n.np.full(shape, k[0]).astype(f"uint{width}"),
        fold_in=lambda k, m: k + m.astype("uint32"), name="own", tag="own")


def own_keys(n):
    random = n.jax.random
    keys = random.wrap_key_data(np.array([[1, 2], [3, 4]], np.uint32), impl=generator(n))
    yield keys.shape, str(keys.dtype), random.key_data(keys[1]), keys == keys
    yield random.key_data(n.jit(lambda k: random.fold_in(k, 1))(keys[0]))
    yield random.key_data(n.np.where(np.array([True, False]), keys, keys[::-1]))
    step = lambda k, _: (random.fold_in(k, 1), None)
    yield random.key_data(n.lax.scan(step, keys[0], length=3)[0])
    yield random.key_data(n.vmap(lambda k, i: random.fold_in(k, i))(keys, np.arange(2)))
    yield random.bits(keys[1], (2,)), random.uniform(keys[0], (2,))
    yield kind(lambda: random.wrap_key_data(np.zeros(3, np.uint32), impl=generator(n)))
    yield kind(lambda: keys[0] + 1), kind(lambda: np.asarray(keys)), kind(
        lambda: random.split(keys[0], -1)), random.split(keys[0], (2, 3)).shape


def equations_by_hand(n):
    closed = n.jax.make_jaxpr(lambda x, y: (n.lax.sin(x) + y, x))(1.0, 2.0)
    old, *rest = closed.jaxpr.eqns
    for new in (n.core.JaxprEqn(old.invars, old.outvars, n.primitives.cos_p, old.params,
                                old.effects, old.source_info, old.ctx),
                n.core.new_jaxpr_eqn(old.invars, old.outvars, n.primitives.cos_p, old.params,
                                     old.effects, old.source_info, old.ctx)):
        other = closed.map_jaxpr(lambda jaxpr, new=new: jaxpr.replace(eqns=[new, *rest]))
        yield names(other.jaxpr), n.core.jaxpr_as_fun(other)(0.0, 1.0)
    info = closed.jaxpr.debug_info
    yield info.safe_arg_names(2), info.filter_arg_names([False, True]), info.func_name
    yield info.with_unknown_names().safe_arg_names(2), info.replace_func_name("f").func_name
    yield info.with_unknown_names().safe_result_paths(1), info.func_filename, info.func_lineno
    yield info.with_unknown_names().filter_result_paths([True])
    yield info._replace(result_paths=lambda: ["result"]).resolve_result_paths().result_paths


def symbolic_values_in_trees(n):
    aval = n.core.ShapedArray((2,), F32)
    for value in n.ad.Zero(aval), n.ad.UndefinedPrimal(aval):
        yield n.jax.tree.leaves([value, 1.0]), str(n.jax.tree.map(lambda x: 2 * x, value))
        yield n.jax.tree.structure(value) == n.jax.tree.structure(type(value)(aval))
        yield str(n.jit(lambda x: x)(value)), str(n.jax.tree.map(
            lambda x: 3, value, is_leaf=lambda x: type(x) in (n.ad.Zero, n.ad.UndefinedPrimal)))


PROGRAMS = {f.__name__: f for f in (
    fancy_batching, broadcasting_batching, reducing_batching, several_results, transposing,
    missing_rules, platforms, constants, static_params, saved_by_a_policy, on_devices, exported,
    of_symbolic_shape, applied_again, built, cut_by_saveables, dead_code, effects, partly_known,
    derivative_programs, foreign, attributes, own_keys, equations_by_hand,
    symbolic_values_in_trees)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_do_the_same(name):
    ours, theirs = (shown(list(found) if hasattr(found, "send") else found)
                    for found in (PROGRAMS[name](OURS), PROGRAMS[name](THEIRS)))
    assert ours == theirs
