"""shard_map: values and derivatives against the same program on one device, types, modes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.ir.jaxpr import jaxprs_in_params
from mjax._engine.ir.mesh import AbstractMesh, Mesh
from mjax._engine.ir.source import summarize
from mjax._engine.spmd.shard_map import shard_map
from mjax.experimental import io_callback

from .cut_programs import CUT, PROGRAMS, WHOLE, W, X
from .mapped import WAYS, P, check, loss, mesh, same, sharded

FAST = [("data parallel", w) for w in ("value", "grad jit", "jvp", "vmap")] + [
    (p, "grad") for p in ("data parallel", "two layers", "pipeline", "gathers", "extremes")]
SLOW = [pytest.param(p, w, marks=pytest.mark.slow) for p in PROGRAMS for w in WAYS
        if (p, w) not in FAST]


@pytest.mark.parametrize(("program", "way"), [*FAST, *SLOW])
def test_against_one_device(program, way):
    check(way, *PROGRAMS[program], (W, X))


# ---- calls -----------------------------------------------------------------------------


def test_called_directly_it_is_staged_and_run():
    seen = []

    def f(x):
        seen.append(mjax.typeof(x))
        return x * 2

    g = sharded(f, CUT, CUT)
    for _ in range(3):
        same(g(X), X * 2)
    assert [str(a) for a in seen] == ["float32[2,4]{V:i}"]  # traced once
    assert g(X).sharding.shard_shape((8, 4)) == (2, 4)


@pytest.mark.parametrize("place", ["cut", "whole", "host"])
def test_a_second_eager_call_derives_nothing(place, monkeypatch):
    def f(x):
        return {"sum": lax.psum(x * 2, "i"), "own": x}

    def mapped():
        return shard_map(f, mesh=row, in_specs=P("i"), out_specs={"sum": P(), "own": P("i")})

    row = mjax.make_mesh((8,), ("i",))
    x, g = X, mapped()
    if place != "host":
        x = mjax.device_put(X, mjax.NamedSharding(row, P("i")) if place == "cut" else None)
    first = mjax.block_until_ready(g(x))
    for name in ("tracing.stage.stage", "runtime.dispatch.runners.lower"):
        monkeypatch.setattr(f"mjax._engine.{name}", None)
    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append(frame) if event == "call" else None)
    try:
        second = g(x)
    finally:
        sys.setprofile(None)
    assert len(calls) < (20 if place == "cut" else 120), len(calls)
    # Whoever maps the function anew, in the same way, has the same programs.
    for out in (second, mapped()(x)):
        assert out["own"].sharding == first["own"].sharding
        mjax.tree.map(np.testing.assert_array_equal, out, first)
    with pytest.raises(TypeError, match="arguments by position alone"):
        g(x=x)


def test_programs_of_eager_calls_know_what_they_are_of():
    """Calls that differ in settings, specs, mesh or mode do not share a program."""
    row, other = mjax.make_mesh((8,), ("i",)), mjax.make_mesh((2, 4), ("i", "j"))
    f = lambda x: x + lax.axis_index("i") * np.float32(100)
    for over, spec, mode in ((row, P("i"), True), (other, P("i"), True), (row, P("i"), False),
                             (other, P(("i", "j")), True), (row, P("i"), True)):
        g = shard_map(f, mesh=over, in_specs=spec, out_specs=spec, check_vma=mode)
        for k in (0, 1):
            place = np.repeat(np.arange(over.shape["i"]), len(X) // over.shape["i"])
            np.testing.assert_allclose(g(X + k), X + k + 100 * place.reshape(
                -1, *[1] * (X.ndim - 1)))
    with mjax.enable_x64(True):
        assert shard_map(f, mesh=row, in_specs=P("i"), out_specs=P("i"))(
            X.astype(np.float64)).dtype == np.float64


def test_decorator_and_trees():
    @shard_map(mesh=mesh(), in_specs=({"w": WHOLE, "b": [WHOLE, CUT]}, CUT), out_specs=[CUT, WHOLE])
    def f(params, x):
        return [x @ params["w"] + params["b"][1], params["b"][0] * 1.0]

    a, b = f({"w": W, "b": [np.float32(2.0), X]}, X)
    same((a, b), (X @ W + X, np.float32(2.0)), 1e-5, 1e-5)


def test_one_spec_for_all_and_arguments_without():
    f = sharded(lambda x, scale, y: x * scale + y, (CUT, None, CUT), CUT)
    same(f(X, 3.0, X), X * 3 + X)
    same(sharded(lambda x, y: x + y, CUT, CUT)(X, X), X + X)
    assert sharded(lambda: np.float32(1.0), (), WHOLE)() == 1


def test_mesh_from_outside():
    with mjax.set_mesh(mesh()):
        same(shard_map(lambda x: x * 2, in_specs=CUT, out_specs=CUT)(X), X * 2)
    f = shard_map(lambda x: x * 2, in_specs=CUT, out_specs=CUT)
    with pytest.raises(ValueError, match=r"shard_map has no mesh: give one by mesh="):
        f(X)


def test_abstract_mesh():
    abstract = AbstractMesh((4, 2), ("i", "j"))
    f = shard_map(lambda x: lax.psum(x, "i"), mesh=abstract, in_specs=CUT, out_specs=WHOLE)
    assert mjax.eval_shape(f, X).shape == (2, 4)
    x = mjax.device_put(X, mjax.NamedSharding(mesh(), CUT))
    same(mjax.jit(f)(x), X.reshape(4, 2, 4).sum(0), 1e-5, 1e-5)


def test_mesh_of_one_device():
    one = Mesh(np.array(mjax.devices()[:1]), ("i",))
    f = shard_map(lambda x: x * lax.psum(x.sum(), "i") + lax.axis_index("i"), mesh=one,
                  in_specs=CUT, out_specs=CUT)
    same(f(X), X * X.sum(), 1e-4, 1e-4)
    same(mjax.grad(lambda x: f(x).sum())(X), np.full_like(X, 2 * X.sum()), 1e-4, 1e-4)


def test_tracers_of_outside():
    """Closed-over values may be traced, differentiated or batched outside."""
    def f(w):
        return loss(sharded(lambda x: jnp.sin(x @ w), CUT, CUT)(X))

    def reference(w):
        return loss(jnp.sin(X @ w))

    same(mjax.grad(f)(W), mjax.grad(reference)(W), 1e-4, 1e-4)
    same(mjax.jit(mjax.grad(f))(W), mjax.grad(reference)(W), 1e-4, 1e-4)
    many = np.stack([W, -W])
    same(mjax.vmap(f)(many), mjax.vmap(reference)(many), 1e-4, 1e-4)


def test_arguments_on_the_mesh_stay_where_they_are():
    x = mjax.device_put(X, mjax.NamedSharding(mesh(), CUT))
    y = mjax.jit(sharded(lambda x: x + 1, CUT, CUT))(x)
    assert y.sharding.is_equivalent_to(x.sharding, 2)
    same(y, X + 1)


def test_keys_are_cut():
    keys = mjax.random.split(mjax.random.key(0), 8)
    f = sharded(lambda k: mjax.vmap(lambda k: mjax.random.normal(k, (3,)))(k), CUT, CUT)
    same(f(keys), mjax.vmap(lambda k: mjax.random.normal(k, (3,)))(keys))
    out = sharded(lambda k: mjax.vmap(mjax.random.fold_in, (0, None))(k, 7), CUT, CUT)(keys)
    same(mjax.random.key_data(out), mjax.random.key_data(
        mjax.vmap(mjax.random.fold_in, (0, None))(keys, 7)))


def test_callbacks_run_on_each_device_and_vary():
    seen = []

    def f(x):
        mjax.debug.callback(lambda v: seen.append(float(v)), x[0, 0])
        return mjax.pure_callback(lambda v: np.sin(v), x, x)

    same(sharded(f, P("i", "j"), P("i", "j"))(X), np.sin(X), 1e-5, 1e-5)
    mjax.effects_barrier()
    assert sorted(seen) == sorted(X[::2, ::2].reshape(-1).tolist())
    with pytest.raises(ValueError, match=r"It varies along 'i' because of pure_callback at"):
        sharded(lambda x: mjax.pure_callback(np.sin, x, x), WHOLE, WHOLE)(X)


@pytest.mark.parametrize("call", [mjax.pure_callback, io_callback])
def test_callbacks_vary_as_is_said_of_them(call):
    def f(x):
        varying = mjax.typeof(x).manual_axis_type
        like = mjax.ShapeDtypeStruct((2, 4), np.float32)
        along_i = call(lambda v: v * 2, like.update(manual_axis_type=varying), x)
        nowhere = call(lambda: np.float32(3), mjax.ShapeDtypeStruct((), np.float32, vma=set()))
        anywhere = call(lambda v: v * 2, like, x)
        pair = call(lambda v: [v, v], [like, like.update(vma={"i", "elsewhere"})], x)
        types.append([sorted(mjax.typeof(v).vma)
                      for v in (x, along_i, nowhere, anywhere, *pair)])
        return along_i, nowhere

    types = []
    outs = sharded(f, CUT, (CUT, WHOLE))(X)
    assert types == [[["i"], ["i"], [], ["i", "j"], ["i", "j"], ["i"]]]
    same(outs, (X * 2, np.float32(3)))
    mapped = mjax.jit(mjax.vmap(sharded(lambda x: mjax.pure_callback(
        lambda v: v * 2, mjax.ShapeDtypeStruct(x.shape, x.dtype, vma={"i"}), x,
        vmap_method="expand_dims"), CUT, CUT)))
    same(mapped(np.stack([X, -X])), np.stack([X * 2, -X * 2]))
    types.clear()
    sharded(f, CUT, (CUT, WHOLE), check_vma=False)(X)
    assert types == [[[]] * 6]


def test_structs_in_the_body_know_what_varies():
    def f(x, w):
        out = mjax.eval_shape(lambda x, w: (x * w, w, lax.psum(x, "i")), x, w)
        again = mjax.eval_shape(lambda x: x + 1, out[0])
        seen.extend([o.vma for o in (*out, again)])
        return x

    seen = []
    sharded(f, (CUT, WHOLE), CUT)(X, 2.0)
    assert seen == [{"i"}, set(), set(), {"i"}]


def test_ordered_effects_are_in_each_devices_order():
    seen = []

    def f(x):
        for n in range(3):
            io_callback(lambda v, n=n: seen.append((float(v), n)), None, x[0, 0], ordered=True)
        return lax.psum(x, "i")

    sharded(f, CUT, WHOLE)(X)
    mjax.effects_barrier()
    assert len(seen) == 24  # the devices along j have copies of a piece
    for value in set(X[::2, 0].tolist()):
        assert sorted(n for v, n in seen if v == value) == [0, 0, 1, 1, 2, 2]
        first = [n for v, n in seen if v == value]
        assert first.index(0) < first.index(1) < first.index(2)


def test_disable_jit_is_the_same():
    with mjax.disable_jit():
        same(sharded(lambda x: lax.psum(jnp.sin(x), "i"), CUT, WHOLE)(X),
             np.sin(X).reshape(4, 2, 4).sum(0), 1e-5, 1e-5)


# ---- some axes only --------------------------------------------------------------------


def test_partly_manual():
    def f(x):
        assert x.shape == (2, 4)
        return jnp.sin(x) @ W + lax.axis_index("i")

    g = sharded(f, CUT, CUT, axis_names={"i"})
    expected = np.sin(X) @ W + np.repeat(np.arange(4, dtype="float32"), 2)[:, None]
    same(g(X), expected, 1e-5, 1e-5)
    x = mjax.device_put(X, mjax.NamedSharding(mesh(), P("i", "j")))
    same(mjax.jit(g)(x), expected, 1e-5, 1e-5)
    same(mjax.grad(lambda x: loss(g(x)))(x), mjax.grad(
        lambda x: loss(jnp.sin(x) @ W + np.repeat(np.arange(4), 2)[:, None]))(X), 1e-4, 1e-4)


def nested(w, x):
    y = lax.psum(jnp.sin(x @ w).sum(), "i")
    inner = shard_map(lambda z, w: lax.psum(z @ w, "j") * y, in_specs=(P(None, "j"), P("j")),
                      out_specs=WHOLE, axis_names={"j"})
    return inner(x, w), inner(jnp.cos(x), w * 2.0)


def unnested(w, x):
    y = jnp.sin(x @ w).sum()
    return (x @ w) * y, jnp.cos(x) @ (w * 2.0) * y


SLOW_WAYS = ("grad jit", "vmap", "vmap grad", "remat", "linearize", "grad grad")


@pytest.mark.parametrize("way", [
    "value", "grad", "jvp", *[pytest.param(w, marks=pytest.mark.slow) for w in SLOW_WAYS]])
def test_nested(way):
    f = sharded(nested, (WHOLE, CUT), CUT, axis_names={"i"})
    same(WAYS[way](f)(W, X), WAYS[way](unnested)(W, X), 1e-3, 1e-3)


def test_a_nested_map_of_a_carry_that_comes_to_vary():
    """Its body is staged before it is known that the carry varies along an axis of the outer."""
    def inner(c):
        return shard_map(lambda z: jnp.sin(z) * lax.psum(z.sum(), "j"), in_specs=P("j"),
                         out_specs=P("j"), axis_names={"j"})(c)

    def step(c, row, inner=inner):
        return inner(c) + row, c

    def reference(w, x):
        def plain(c, row):
            return step(c, row, lambda c: jnp.sin(c) * c.sum())

        rows = mjax.vmap(lambda x: lax.scan(plain, w, x)[1])(x.reshape(4, 2, 4))
        return rows.reshape(8, 4)

    f = sharded(lambda w, x: lax.scan(step, w, x)[1], (WHOLE, CUT), CUT, axis_names={"i"})
    for way in ("jit", "grad jit"):
        same(WAYS[way](f)(W[0], X), WAYS[way](reference)(W[0], X), 1e-3, 1e-3)

    def two_carries(w, x):
        return lax.scan(lambda c, row: ((inner(c[1]), c[1] + row), None), (w, w), x)[0][0]

    with pytest.raises(ValueError, match="devices may hold different values"):
        sharded(two_carries, (WHOLE, CUT), WHOLE, axis_names={"i"})(W[0], X)


def test_nested_maps_need_one_mesh_and_other_axes():
    def f(**options):
        return sharded(lambda x: shard_map(lambda y: y, in_specs=P(), out_specs=P(),
                                           **options)(x), CUT, CUT, axis_names={"i"})(X)

    with pytest.raises(ValueError, match=r"are mapped already|is mapped already: 'i'"):
        f(axis_names={"i"})
    other = Mesh(mesh().devices[::-1], ("i", "j"))
    with pytest.raises(ValueError, match=r"has the mesh .* of other devices\. Both need the same"):
        f(mesh=other, axis_names={"j"})
    with pytest.raises(ValueError, match=r"the inner one has the mesh Mesh\('a': 8\)"):
        f(mesh=Mesh(np.array(mjax.devices()[:8]), ("a",)))
    with pytest.raises(ValueError, match="within shard_map: are mapped already: 'i', 'j'"):
        sharded(lambda x: shard_map(lambda y: y, in_specs=P(), out_specs=P())(x), CUT, CUT)(X)


# ---- vmap ------------------------------------------------------------------------------


def test_spmd_axis_name_spreads_the_batch():
    f = sharded(lambda w, x: (lax.psum(jnp.sin(x @ w), "i"), w.sum()), (WHOLE, CUT),
                (WHOLE, WHOLE))
    xs = np.stack([X, -X, X * 2, X + 1])
    g = mjax.vmap(f, (None, 0), spmd_axis_name="j")
    eqn = mjax.make_jaxpr(g)(W, xs).eqns[0]
    assert eqn.params["in_specs"] == (P(), P("j", "i"))
    assert str(eqn.params["jaxpr"].in_avals[1]) == "float32[2,2,4]{V:(i,j)}"
    expected = mjax.vmap(f, (None, 0))(W, xs)
    same(g(W, xs), expected, 1e-4, 1e-4)
    same(mjax.grad(lambda w: loss(g(w, xs)))(W),
         mjax.grad(lambda w: loss(mjax.vmap(f, (None, 0))(w, xs)))(W), 1e-3, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [True, False])
def test_spmd_axis_name_of_derivatives(mode):
    """Residuals of the first half of a map are spread too."""
    f = sharded(lambda w, x: jnp.sin(jnp.sin(x @ w)), (WHOLE, CUT), CUT, check_vma=mode)
    xs = np.stack([X, -X, X * 2, X + 1])
    for g in (mjax.grad(lambda w, x: loss(f(w, x)), (0, 1)),
              mjax.grad(lambda w, x: loss(mjax.checkpoint(f)(w, x)), (0, 1)),
              lambda w, x: mjax.linearize(f, w, x)[1](w, x)):
        expected = mjax.vmap(g, (None, 0))(W, xs)
        same(mjax.vmap(g, (None, 0), spmd_axis_name="j")(W, xs), expected, 1e-3, 1e-3)
        same(mjax.jit(mjax.vmap(g, (None, 0), spmd_axis_name="j"))(W, xs), expected, 1e-3, 1e-3)


@pytest.mark.parametrize("mode", [True, False])
def test_a_batch_is_not_spread_over_axes_that_the_body_knows(mode):
    """Each element is on all devices along these: sums over them are not sums over the batch."""
    xs = np.stack([X, -X, X * 2, X + 1])
    for body, spec in [(lambda x: lax.psum(jnp.sin(x), ("i", "j")), WHOLE),
                       (lambda x: lax.psum(x * lax.axis_index("j"), "j"), CUT)]:
        f = sharded(body, CUT, spec, check_vma=mode)
        for g in (f, mjax.grad(lambda x, f=f: loss(f(x)))):
            same(mjax.vmap(g, spmd_axis_name="j")(xs), mjax.vmap(g)(xs), 1e-3, 1e-3)


def test_spmd_axis_name_refused():
    f = sharded(lambda x: x, CUT, CUT)
    with pytest.raises(ValueError, match=r"over the mesh axis 'i', which in_specs or out"):
        mjax.vmap(f, spmd_axis_name="i")(np.stack([X, X]))
    with pytest.raises(ValueError, match=r"a batch of 3 over 2 devices: 3 = 1 \* 2 \+ 1"):
        mjax.vmap(f, spmd_axis_name="j")(np.stack([X, X, X]))


def test_collectives_over_the_axis_of_vmap_inside():
    def f(x):
        return x - lax.pmean(x, ("b", "i"))

    xs = np.stack([X, X * 2, X + 1]).astype("float32")
    g = mjax.vmap(sharded(f, CUT, CUT), axis_name="b")
    expected = xs - xs.reshape(3, 4, 2, 4).mean((0, 1))[None, None].repeat(4, 1).reshape(1, 8, 4)
    same(g(xs), expected, 1e-5, 1e-5)
    spread = mjax.vmap(sharded(f, CUT, CUT), axis_name="b", spmd_axis_name="j")
    same(spread(xs), expected, 1e-5, 1e-5)  # the batch has to be together


def test_a_vmap_may_have_the_name_of_a_mesh_axis():
    xs = np.stack([X, X * 2]).astype("float32")
    g = mjax.vmap(sharded(lambda x: lax.psum(x, "i"), CUT, WHOLE), axis_name="i")
    same(g(xs), xs.reshape(2, 4, 2, 4).sum(1), 1e-5, 1e-5)


# ---- types -----------------------------------------------------------------------------


def primitives(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for inner in jaxprs_in_params(eqn.params):
            yield from primitives(inner)


def test_types_are_printed():
    text = str(mjax.make_jaxpr(sharded(lambda w, x: x @ w, (WHOLE, CUT), CUT))(W, X))
    assert "e:f32[2,4]{V:i}. let" in text
    assert "{V:i} = pvary[axes=('i',)]" in text
    assert "in_specs=(PartitionSpec(), PartitionSpec('i',))" in text
    assert "mesh=Mesh('i': 4, 'j': 2)" in text
    assert "manual_axes" not in text and "check_vma" not in text
    partly = sharded(lambda x: x, CUT, CUT, axis_names={"i"}, check_vma=False)
    text = str(mjax.make_jaxpr(partly)(X))
    assert "manual_axes=('i',)" in text and "check_vma=False" in text and "V:i" not in text


def test_a_value_used_several_times_is_cast_once():
    def f(w, x):
        return lax.psum((w * x - (w + x) * 2.0).sum(), "i")

    g = sharded(f, (WHOLE, CUT), WHOLE)
    w = np.ones((2, 4), "float32")
    assert list(primitives(mjax.make_jaxpr(g)(w, X))).count("pvary") == 1
    names = list(primitives(mjax.make_jaxpr(mjax.grad(g))(w, X)))
    assert names.count("psum_invariant") == 2  # one forward, one of the cotangent of w


def test_cotangents_of_results_that_nobody_uses_vary_as_these():
    f = sharded(lambda x: mjax.jit(lambda x: (x, lax.sin(x)))(x)[1], CUT, CUT)
    np.testing.assert_allclose(mjax.grad(lambda x: jnp.sum(f(x)))(X), np.cos(X), 1e-5, 1e-5)


def test_casts_say_which_line_needs_them():
    def f(w, x):
        y = jnp.sin(x)
        return w * y

    (eqn,) = mjax.make_jaxpr(sharded(f, (WHOLE, CUT), CUT))(W[:2], X).eqns
    cast, product = [e for e in eqn.params["jaxpr"].eqns if e.primitive.name in {"pvary", "mul"}]
    line = f.__code__.co_firstlineno + 2
    places = [summarize(e.source).split(" ")[0] for e in (cast, product)]
    assert places == [f"{__file__}:{line}"] * 2


def test_constants_keys_and_literals_are_the_same_on_all_devices():
    def f(x):
        assert not mjax.typeof(jnp.ones(3)).varying
        assert not mjax.typeof(mjax.random.normal(mjax.random.key(1))).varying
        assert mjax.typeof(lax.axis_index("i")).varying == {"i"}
        assert mjax.typeof(x * 2.0).varying == {"i"}
        return x

    sharded(f, CUT, CUT)(X)


def test_linear_transpose_twice():
    f = sharded(lambda x: lax.psum(x * 2.0, "i"), CUT, WHOLE)
    transposed = mjax.linear_transpose(f, X)
    again = mjax.linear_transpose(lambda ct: transposed(ct)[0], f(X))
    same(again(X)[0], f(X))


def test_tangents_that_vary_less_are_cast_inside():
    def f(w, x):
        out, tangent = mjax.jvp(lambda x: jnp.sin(x), (x,), (w,))
        _, pullback = mjax.vjp(lambda x: jnp.sin(x).sum(0), x)
        _, linear = mjax.linearize(jnp.sin, x)
        return out, tangent, pullback(w[0])[0], linear(w)

    w = W[:2]
    found = sharded(f, (WHOLE, CUT), CUT)(w, X)
    same(found, (np.sin(X), np.cos(X) * np.tile(w, (4, 1)), np.cos(X) * w[0],
                 np.cos(X) * np.tile(w, (4, 1))), 1e-5, 1e-5)
