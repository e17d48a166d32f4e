"""Collectives over mesh axes against NumPy on the list of all devices' values."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from tests.engine.spmd.on_devices import BOTH, body, each, mesh, program, shard
from tests.engine.spmd.simulation import (
    all_gather,
    all_to_all,
    in_groups,
    on_mesh,
    pbroadcast,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
)

RNG = np.random.default_rng(0)
SIZES = {"i": 2, "j": 4}
AXES = ["i", "j", ("i", "j"), ("j", "i")]


def draw(*shape):
    return RNG.normal(size=shape).astype("float32")


def parties(axes):
    return math.prod(SIZES[n] for n in axes)


def pscatter(axis=0, tiled=False):
    """Of a value that all devices have: a part each."""
    def f(xs):
        parts = np.split(xs[0], len(xs), axis)
        return parts if tiled else [np.squeeze(p, axis) for p in parts]

    return f


def rotate(n):
    return [(k, (k + 1) % n) for k in range(n)]


def shuffle(n):
    return [*range(1, n, 2), *range(0, n, 2)]


# Name -> (function of a value and axis names, reference, shape of a device's value), the last
# two from the number of devices that talk.
LINEAR = {
    "psum": (lambda x, a: lax.psum(x, a), lambda n: psum, lambda n: (3,)),
    "pmean": (lambda x, a: lax.pmean(x, a), lambda n: pmean, lambda n: (3,)),
    "all_gather": (lambda x, a: lax.all_gather(x, a), lambda n: all_gather(), lambda n: (2, 3)),
    "all_gather of scalars": (lambda x, a: lax.all_gather(x, a), lambda n: all_gather(),
                              lambda n: ()),
    "all_gather axis": (lambda x, a: lax.all_gather(x, a, axis=-1), lambda n: all_gather(2),
                        lambda n: (2, 3)),
    "all_gather tiled": (lambda x, a: lax.all_gather(x, a, axis=1, tiled=True),
                         lambda n: all_gather(1, True), lambda n: (2, 3)),
    "all_gather_invariant": (lambda x, a: lax.all_gather_invariant(x, a, axis=1),
                             lambda n: all_gather(1), lambda n: (2, 3)),
    "all_gather_invariant tiled": (
        lambda x, a: lax.all_gather(x, a, tiled=True, to="invarying"),
        lambda n: all_gather(0, True), lambda n: (2, 3)),
    "psum_scatter": (lambda x, a: lax.psum_scatter(x, a, scatter_dimension=1),
                     lambda n: psum_scatter(1), lambda n: (2, n)),
    "psum_scatter tiled": (lambda x, a: lax.psum_scatter(x, a, tiled=True),
                           lambda n: psum_scatter(0, True), lambda n: (2 * n, 3)),
    "pscatter": (lambda x, a: lax.pscatter(x, a, axis=1), lambda n: pscatter(1),
                 lambda n: (2, n)),
    "pscatter tiled": (lambda x, a: lax.pscatter(x, a, tiled=True), lambda n: pscatter(0, True),
                       lambda n: (2 * n, 3)),
    "pvary": (lambda x, a: lax.pvary(x, a), lambda n: lambda xs: xs, lambda n: (3,)),
    "ppermute": (lambda x, a: lax.ppermute(x, a, rotate(lax.axis_size(a))),
                 lambda n: ppermute(rotate(n)), lambda n: (2,)),
    "ppermute in part": (lambda x, a: lax.ppermute(x, a, [(1, 0)]),
                         lambda n: ppermute([(1, 0)]), lambda n: (2,)),
    "pshuffle": (lambda x, a: lax.pshuffle(x, a, shuffle(lax.axis_size(a))),
                 lambda n: ppermute(list(zip(shuffle(n), range(n)))), lambda n: (2,)),
    "pbroadcast": (lambda x, a: lax.pbroadcast(x, a, 1), lambda n: pbroadcast(1),
                   lambda n: (2, 3)),
    "pswapaxes": (lambda x, a: lax.pswapaxes(x, a, 1), lambda n: all_to_all(1, 1),
                  lambda n: (2, n)),
    "all_to_all": (lambda x, a: lax.all_to_all(x, a, 0, 1), lambda n: all_to_all(0, 1),
                   lambda n: (n, 3)),
    "all_to_all back": (lambda x, a: lax.all_to_all(x, a, 2, 0), lambda n: all_to_all(2, 0),
                        lambda n: (2, 3, n)),
    "all_to_all tiled": (lambda x, a: lax.all_to_all(x, a, 0, 1, tiled=True),
                         lambda n: all_to_all(0, 1, True), lambda n: (2 * n, 3)),
}
#: Collectives that take values that are the same on all devices, and those that return them.
FROM_SAME, TO_SAME = {"pscatter", "pscatter tiled", "pvary"}, {
    "psum", "pmean", "all_gather_invariant", "all_gather_invariant tiled"}


def agreed(x, axes):
    """Values that are the same on all devices along axes: those of the first."""
    for name in axes:
        axis = BOTH.index(name)
        x = np.broadcast_to(np.take(x, [0], axis), x.shape)
    return x


def same(actual, expected):
    np.testing.assert_allclose(actual, expected, 1e-5, 1e-5)


FEW = [("checked", ("j", "i")), ("unchecked", ("i", "j"))]


@pytest.mark.parametrize(("mode", "axes"), [
    pytest.param(mode, axes, marks=[] if (mode, axes) in FEW else pytest.mark.slow)
    for mode in ("checked", "explicit", "unchecked") for axes in AXES], ids=str)
@pytest.mark.parametrize("name", LINEAR)
def test_value_derivatives_and_batches(name, axes, mode):
    """All in one program: the value, jvp, vjp, a batch of values, and one of vjps."""
    f, make, shape_of = LINEAR[name]
    n = parties(axes)
    shape, reference = shape_of(n), make(n)
    typed = set() if mode == "unchecked" else set(axes)
    x, t = draw(2, 4, *shape), draw(2, 4, *shape)
    batch = draw(2, 4, *shape, 3)
    if name in FROM_SAME:
        x, t, batch = (agreed(v, axes) for v in (x, t, batch))
    everything = set(BOTH) if mode != "unchecked" else set()
    given = everything - (typed if name in FROM_SAME else set())
    out = body(lambda x: f(x, axes), [shard(shape, varying=given)], mode).out_avals[0]
    assert out.varying == everything - (typed if name in TO_SAME else set())
    ct = draw(2, 4, *out.shape)
    if name in TO_SAME and mode != "unchecked":
        ct = agreed(ct, axes)

    def check(x, t, ct, batch):
        y, tangent = mjax.jvp(lambda x: f(x, axes), (x,), (t,))
        pull = mjax.vjp(lambda x: f(x, axes), x)[1]
        mapped = mjax.vmap(lambda x: f(x, axes), in_axes=-1)(batch)
        cts = mjax.vmap(pull)(jnp.stack([ct, 2 * ct]))[0]
        return y, tangent, pull(ct)[0], mapped, cts

    jaxpr = body(check, [shard(shape, varying=given), shard(shape, varying=given), out,
                         shard((*shape, 3), varying=given)], mode)
    y, tangent, back, mapped, cts = program(jaxpr, mode)(x, t, ct, batch)
    same(y, on_mesh(reference, axes, x))
    same(tangent, on_mesh(reference, axes, t))
    same(mapped, np.stack([on_mesh(reference, axes, batch[..., k]) for k in range(3)], 2))
    same(cts, np.stack([back, 2 * back], 2))

    # A value that all devices along the axes have is one value.
    def dot(a, b, once):
        return np.sum(a.astype("float64") * b) / (n if once else 1)

    np.testing.assert_allclose(
        dot(np.asarray(back), t, name in FROM_SAME and mode != "unchecked"),
        dot(ct, np.asarray(tangent), name in TO_SAME and mode != "unchecked"), 1e-4, 1e-4)
    if name in FROM_SAME and mode != "unchecked":
        same(back, agreed(np.asarray(back), axes))


@pytest.mark.parametrize("mode", ["checked", "unchecked"])
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_extrema_and_indices(axes, mode):
    x = draw(2, 4, 3)
    outs = each(lambda x: (lax.pmax(x, axes), lax.pmin(x, axes), lax.axis_index(axes),
                           mjax.vmap(lambda x: lax.pmax(x, axes))(x),
                           mjax.vmap(lambda x: lax.axis_index(axes) + 0 * x)(x)), x, mode=mode)
    index = on_mesh(lambda xs: [np.int32(k) for k in range(len(xs))], axes, x)
    for out, expected in zip(outs, [
            on_mesh(pmax, axes, x), on_mesh(pmin, axes, x), index, on_mesh(pmax, axes, x),
            np.broadcast_to(index[..., None], x.shape)], strict=True):
        np.testing.assert_array_equal(out, expected)


def test_types_of_extrema_and_indices():
    def f(x):
        assert mjax.typeof(lax.pmax(x, "i")).varying == {"j"}
        assert mjax.typeof(lax.pmin(x, ("i", "j"))).varying == set()
        assert mjax.typeof(lax.axis_index("i")).varying == {"i"}
        assert mjax.typeof(lax.axis_index(("j", "i"))).varying == {"i", "j"}
        assert mjax.typeof(lax.pmax(lax.pmax(x, "i"), ("i", "j"))).varying == set()
        return x

    body(f, [shard((3,))])


DTYPES = ["bool", "int8", "uint16", "int32", "uint8", "float16", "bfloat16", "complex64",
          "float8_e4m3fn"]


def values(dtype, *shape):
    x = RNG.integers(0, 5, shape)
    if dtype == "complex64":
        return (x + 1j * RNG.integers(0, 5, shape)).astype(dtype)
    return np.asarray(jnp.asarray(x % 2 if dtype == "bool" else x).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    x = values(dtype, 2, 4, 4)
    moved = {
        "all_gather": (lambda x: lax.all_gather(x, "j"), all_gather()),
        "all_to_all": (lambda x: lax.all_to_all(x, "j", 0, 0), all_to_all(0, 0)),
        "ppermute": (lambda x: lax.ppermute(x, "j", [(0, 2)]), ppermute([(0, 2)])),
        "pbroadcast": (lambda x: lax.pbroadcast(x, "j", 3), pbroadcast(3)),
        "pmax": (lambda x: lax.pmax(x, "j"), pmax), "pmin": (lambda x: lax.pmin(x, "j"), pmin),
        "psum": (lambda x: lax.psum(x, "j"), psum),
    }
    if dtype != "bool":
        moved["psum_scatter"] = (lambda x: lax.psum_scatter(x, "j"), psum_scatter())
    outs = each(lambda x: [f(x) for f, _ in moved.values()], x)
    for (name, (_, reference)), out in zip(moved.items(), outs, strict=True):
        wide = x.astype("int32") if dtype == "bool" and name == "psum" else x
        expected = on_mesh(reference, "j", wide)
        assert out.dtype == expected.dtype, name
        np.testing.assert_array_equal(out, expected, name)


def test_keys():
    """Extended dtypes move as their elements do."""
    def f(seed):
        key = mjax.random.fold_in(mjax.random.key(0), seed[0])
        keys = mjax.random.split(key, 4)
        data = mjax.random.key_data
        return (data(key), data(keys), data(lax.all_gather(key, "j")),
                data(lax.ppermute(keys, "j", rotate(4))), data(lax.all_to_all(keys, "j", 0, 0)),
                data(lax.all_gather(keys, "j", tiled=True)), data(lax.pbroadcast(key, "j", 2)))

    key, keys, *outs = map(np.asarray, each(f, np.arange(8, dtype="int32").reshape(2, 4, 1)))
    for out, expected in zip(outs, [
            on_mesh(all_gather(), "j", key), on_mesh(ppermute(rotate(4)), "j", keys),
            on_mesh(all_to_all(0, 0), "j", keys), on_mesh(all_gather(0, True), "j", keys),
            on_mesh(pbroadcast(2), "j", key)], strict=True):
        np.testing.assert_array_equal(out, expected)


# ---- groups ----------------------------------------------------------------------------

GROUPS = [[2, 0], [1, 3]]
GROUPED = {
    "psum": (lambda x: lax.psum(x, "j", axis_index_groups=GROUPS), psum, (3,)),
    "pmean": (lambda x: lax.pmean(x, "j", axis_index_groups=GROUPS), pmean, (3,)),
    "all_gather": (lambda x: lax.all_gather(x, "j", axis=1, axis_index_groups=GROUPS),
                   all_gather(1), (3,)),
    "all_gather tiled": (lambda x: lax.all_gather(x, "j", tiled=True, axis_index_groups=GROUPS),
                         all_gather(0, True), (3,)),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "j", axis_index_groups=GROUPS),
                     psum_scatter(0), (2, 3)),
    "all_to_all": (lambda x: lax.all_to_all(x, "j", 0, 1, axis_index_groups=GROUPS),
                   all_to_all(0, 1), (2, 3)),
    "pswapaxes": (lambda x: lax.pswapaxes(x, "j", 1, axis_index_groups=GROUPS),
                  all_to_all(1, 1), (3, 2)),
}


@pytest.mark.parametrize("mode", ["checked", "unchecked"])
@pytest.mark.parametrize("name", GROUPED)
def test_groups(name, mode):
    f, reference, shape = GROUPED[name]
    x, t = draw(2, 4, *shape), draw(2, 4, *shape)

    def check(x, t):
        y, tangent = mjax.jvp(f, (x,), (t,))
        assert mjax.typeof(y).varying == mjax.typeof(x).varying
        return y, tangent, mjax.vjp(f, x)[1](y)[0], mjax.vmap(f)(jnp.stack([x, t]))

    y, tangent, back, mapped = map(np.asarray, each(check, x, t, mode=mode))
    grouped = in_groups(reference, GROUPS)
    same(y, on_mesh(grouped, "j", x))
    same(tangent, on_mesh(grouped, "j", t))
    same(mapped, np.stack([y, tangent], 2))
    np.testing.assert_allclose(np.sum(back * t), np.sum(y * tangent), 1e-4)


UNEVEN = [[2, 0, 3], [1]]


@pytest.mark.parametrize("mode", ["checked", "explicit", "unchecked"])
@pytest.mark.parametrize(("reduction", "reference"), [
    (lax.psum, psum), (lax.pmean, pmean), (lax.pmax, pmax), (lax.pmin, pmin)])
def test_groups_of_different_sizes(reduction, reference, mode):
    x, t = draw(2, 4, 3), draw(2, 4, 3)
    grouped = in_groups(reference, UNEVEN)

    def f(x):
        return reduction(x, "j", axis_index_groups=UNEVEN)

    def check(x, t):
        assert mjax.typeof(f(x)).varying == mjax.typeof(x).varying
        return f(x), mjax.vmap(f)(jnp.stack([x, t]))

    y, mapped = map(np.asarray, each(check, x, t, mode=mode))
    same(y, on_mesh(grouped, "j", x))
    same(mapped, np.stack([y, on_mesh(grouped, "j", t)], 2))
    if reduction in (lax.psum, lax.pmean):
        tangent, back = map(np.asarray, each(
            lambda x, t: (mjax.jvp(f, (x,), (t,))[1], mjax.vjp(f, x)[1](f(x))[0]), x, t,
            mode=mode))
        same(tangent, on_mesh(grouped, "j", t))
        np.testing.assert_allclose(np.sum(back * t), np.sum(y * tangent), 1e-4)


def test_groups_of_different_sizes_over_several_axes():
    groups = [[5, 0, 3], [1, 7, 6, 4], [2]]
    x = draw(2, 4, 3)
    for reduction, reference in ((lax.psum, psum), (lax.pmean, pmean)):
        y, = each(lambda x, f=reduction: [f(x, BOTH, axis_index_groups=groups)], x)
        same(y, on_mesh(in_groups(reference, groups), BOTH, x))


def test_groups_of_different_sizes_of_complex_numbers():
    x = draw(2, 4) + 1j
    with pytest.raises(NotImplementedError, match="pmax of complex .* in groups of different"):
        each(lambda x: [lax.pmax(x, "j", axis_index_groups=UNEVEN)], x)
    total, = each(lambda x: [lax.psum(x, "j", axis_index_groups=UNEVEN)], x)
    same(total, on_mesh(in_groups(psum, UNEVEN), "j", x))


@pytest.mark.parametrize("axes", [("i", "j"), ("j", "i")])
def test_groups_over_several_axes(axes):
    """Indices are those of the axes together, the last of which varies fastest."""
    groups = [[5, 0], [1, 7], [2, 3], [6, 4]]
    x = draw(2, 4, 2, 3)
    for f, reference in [
            (lambda x: lax.psum(x, axes, axis_index_groups=groups), psum),
            (lambda x: lax.all_gather(x, axes, axis_index_groups=groups), all_gather()),
            (lambda x: lax.psum_scatter(x, axes, axis_index_groups=groups), psum_scatter(0)),
            (lambda x: lax.all_to_all(x, axes, 0, 1, axis_index_groups=groups), all_to_all(0, 1))]:
        y, back = map(np.asarray, each(lambda x, f=f: (f(x), mjax.vjp(f, x)[1](f(x))[0]), x))
        same(y, on_mesh(in_groups(reference, groups), axes, x))
        np.testing.assert_allclose(np.sum(back * x), np.sum(y * y), 1e-4)


def test_extrema_in_groups():
    x = draw(2, 4, 3)
    high, low = each(lambda x: (lax.pmax(x, "j", axis_index_groups=GROUPS),
                                lax.pmin(x, "j", axis_index_groups=GROUPS)), x)
    np.testing.assert_array_equal(high, on_mesh(in_groups(pmax, GROUPS), "j", x))
    np.testing.assert_array_equal(low, on_mesh(in_groups(pmin, GROUPS), "j", x))


# ---- what is the same on all devices -----------------------------------------------------


def names_in(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def test_sums_of_what_does_not_vary_are_products():
    jaxpr = body(lambda x: lax.psum(x, ("i", "j")), [shard((3,), varying="j")])
    assert names_in(jaxpr) == ["psum_invariant", "psum_invariant"]
    assert [eqn.params["axes"] for eqn in jaxpr.eqns] == [("j",), ("i",)]
    x = agreed(draw(2, 4, 3), "i")
    same(program(jaxpr)(x)[0], on_mesh(psum, BOTH, x))
    jaxpr = body(lambda x: (lax.psum(x, "i"), lax.pmax(x, "i"), lax.pmean(x, "i")),
                 [shard((3,), varying="j")])
    assert names_in(jaxpr) == ["psum_invariant", "pmax_invariant", "psum_invariant", "div"]
    assert [a.varying for a in jaxpr.out_avals] == [{"j"}] * 3
    assert "all_reduce" not in program(jaxpr).lower(x).as_text()


def test_constants():
    out = each(lambda x: (x * lax.psum(2, "i"), lax.psum(np.float32(3), BOTH) + x,
                          lax.psum(True, "j") * x), np.ones((2, 4), "float32"))
    for y, expected in zip(out, [4, 25, 4], strict=True):
        np.testing.assert_array_equal(y, np.full((2, 4), expected))
    body(lambda x: lax.psum(1, "i") * x, [shard(())], "explicit")


@pytest.mark.parametrize("f", [
    lambda x: lax.all_gather(x, "i"), lambda x: lax.psum_scatter(x, "i"),
    lambda x: lax.ppermute(x, "i", [(0, 1)]), lambda x: lax.all_to_all(x, "i", 0, 0),
    lambda x: lax.pbroadcast(x, "i", 1), lambda x: lax.all_gather_invariant(x, "i"),
    lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1]]),
], ids=["all_gather", "psum_scatter", "ppermute", "all_to_all", "pbroadcast",
        "all_gather_invariant", "psum"])
def test_exchanges_of_what_does_not_vary_cast_it_once(f):
    jaxpr = body(lambda x: (f(x), f(x)), [shard((2,), varying="j")])
    assert names_in(jaxpr)[0] == "pvary" and names_in(jaxpr).count("pvary") == 1
    with pytest.raises(TypeError,
                       match=r"over 'i' of float32\[2\]\{V:j\}, which does not vary along "
                                        r"it. Cast it with mjax.lax.pcast\(x, \('i',\), to="):
        body(f, [shard((2,), varying="j")], "explicit")


def test_pscatter_of_what_varies_takes_a_part_of_each():
    x = draw(2, 4, 8)
    out, = each(lambda x: lax.pscatter(x, "j", tiled=True), x)
    for j in range(4):
        np.testing.assert_array_equal(out[:, j], x[:, j, 2 * j:2 * j + 2])


# ---- maps inside -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["checked", "explicit", "unchecked"])
def test_beside_an_axis_of_vmap(mode):
    """One call over an axis of vmap and those of the mesh."""
    x = draw(2, 4, 3, 6)  # three elements of six values on each device

    def mapped(f):
        return lambda x: mjax.vmap(f, axis_name="b")(x)

    def all_of(x):
        return [mapped(f)(x) for f in (
            lambda v: lax.psum(v, ("b", "j")), lambda v: lax.pmax(v, ("j", "b")),
            lambda v: lax.all_gather(v, ("j", "b")), lambda v: lax.all_gather(v, ("b", "j")),
            lambda v: lax.all_gather_invariant(v, ("j", "b"), axis=1),
            lambda v: lax.all_gather_invariant(v, ("b", "j"), tiled=True),
            lambda v: lax.psum_scatter(v, ("i", "b")), lambda v: lax.psum_scatter(v, ("b", "i")),
            lambda v: lax.ppermute(v, ("i", "b"), [(0, 3), (4, 1)]),
            lambda v: lax.all_to_all(v, ("i", "b"), 0, 0),
            lambda v: lax.axis_index(("b", "i")) + 0 * v[0],
            lambda v: lax.pbroadcast(v, ("i", "b"), 4))]

    three = ("i", "j", "b")
    index = lambda xs: [np.float32(k) for k in range(len(xs))]
    outs = each(all_of, x, mode=mode)
    for out, (reference, names) in zip(outs, [
            (psum, "bj"), (pmax, "jb"), (all_gather(), "jb"), (all_gather(), "bj"),
            (all_gather(1), "jb"), (all_gather(0, True), "bj"), (psum_scatter(), "ib"),
            (psum_scatter(), "bi"), (ppermute([(0, 3), (4, 1)]), "ib"), (all_to_all(0, 0), "ib"),
            (index, "bi"), (pbroadcast(4), "ib")], strict=True):
        same(out, on_mesh(reference, names, x, three))


def test_a_map_shadows_the_mesh_axis_of_its_name():
    x = draw(2, 4, 3)
    inner, size, outer, back = each(lambda x: (
        mjax.vmap(lambda v: lax.psum(v, "i"), axis_name="i")(x),
        mjax.vmap(lambda v: v * lax.axis_size("i") + lax.axis_index("i"), axis_name="i")(x),
        mjax.vmap(lambda v: lax.psum(v, "i"), axis_name="b")(x),
        # A pullback made outside is a sum over the mesh.
        mjax.vmap(mjax.vjp(lambda v: lax.psum(v, "i"), x[0])[1], axis_name="i")(
            jnp.ones(3))[0]), x)
    same(inner, np.broadcast_to(x.sum(2, keepdims=True), x.shape))
    same(size, 3 * x + np.arange(3, dtype="float32"))
    same(outer, on_mesh(psum, "i", x))
    same(back, np.ones((2, 4, 3)))


def test_in_jitted_functions_called_twice():
    """One function of the module with a collective in it, called twice."""
    inner = mjax.jit(lambda x: lax.psum(x, "j") + x)
    x = draw(2, 4, 3)
    once = on_mesh(psum, "j", x) + x
    out, = each(lambda x: inner(inner(x)), x)
    same(out, on_mesh(psum, "j", once) + once)


# ---- meshes ------------------------------------------------------------------------------


@pytest.mark.parametrize("manual", ["i", "j"])
def test_partly_manual(manual):
    """XLA has the other axis."""
    n = SIZES[manual]
    x = draw(n, n, 6)
    outs = each(lambda x: (
        lax.psum(x, manual), lax.axis_index(manual), lax.all_gather(x, manual, tiled=True),
        lax.psum_scatter(x, manual), lax.all_to_all(x, manual, 0, 0),
        lax.ppermute(x, manual, rotate(n)), lax.pbroadcast(x, manual, 1),
        lax.pscatter(lax.psum(x, manual), manual), lax.pmax(x, manual)), x, manual=(manual,))
    for out, reference in zip(outs, [
            psum, lambda xs: [np.int32(k) for k in range(n)], all_gather(0, True), psum_scatter(),
            all_to_all(0, 0), ppermute(rotate(n)), pbroadcast(1), psum_scatter(), pmax],
            strict=True):
        same(out, on_mesh(reference, manual, x, (manual,)))


@pytest.mark.parametrize("order", [(3, 1, 2, 0, 7, 6, 5, 4), (4, 5, 6, 7, 0, 1, 2, 3)])
def test_two_meshes_of_the_same_devices(order):
    """Partitions are numbered by one of them."""
    x = draw(2, 4, 4)

    def f(x):
        return (lax.axis_index("i"), lax.axis_index("j"), lax.psum(x, "i"),
                lax.all_to_all(x, "j", 0, 0), lax.ppermute(x, ("j", "i"), rotate(8)))

    def both(x):
        return [program(body(f, [shard((4,))], on=on), on=on)(x)
                for on in (mesh(), mesh(order))]

    index = [on_mesh(lambda xs: [np.int32(k) for k in range(len(xs))], n, x) for n in BOTH]
    for outs in mjax.jit(both)(x):
        for out, expected in zip(outs, [
                *index, on_mesh(psum, "i", x), on_mesh(all_to_all(0, 0), "j", x),
                on_mesh(ppermute(rotate(8)), "ji", x)], strict=True):
            same(out, expected)


# ---- bad input ---------------------------------------------------------------------------


def refuse(f, error, match, shape=(3,), mode="checked", varying=BOTH):
    with pytest.raises(error, match=match):
        body(f, [shard(shape, varying=varying if mode != "unchecked" else ())], mode)


@pytest.mark.parametrize("mode", ["checked", "explicit", "unchecked"])
def test_unknown_axes(mode):
    for f in (lambda x: lax.psum(x, "k"), lambda x: lax.all_gather(x, "k"),
              lambda x: lax.all_gather_invariant(x, "k"), lambda x: lax.pvary(x, "k"),
              lambda x: lax.pscatter(x, "k"), lambda x: lax.axis_index("k"),
              lambda x: lax.axis_size("k"), lambda x: lax.ppermute(x, ("i", "k"), [(0, 1)]),
              lambda x: lax.pbroadcast(x, "k", 0), lambda x: lax.pmax(x, ("i", "k")),
              lambda x: lax.all_to_all(x, "k", 0, 0), lambda x: lax.psum_scatter(x, "k")):
        refuse(f, NameError, r"unbound axis name: k.*in scope: i \(size 2\), j \(size 4\)",
               mode=mode)


@pytest.mark.parametrize(("f", "match"), [
    (lambda x: lax.psum_scatter(x, "j"), r"psum_scatter: axis 0 .*\(3,\) must have 4 elements"),
    (lambda x: lax.psum_scatter(x, "j", tiled=True), r"must have a multiple of 4 elements"),
    (lambda x: lax.pscatter(lax.psum(x, "j"), "j"), r"pscatter: axis 0 .* must have 4 elements"),
    (lambda x: lax.pscatter(x, "j"), r"pscatter: axis 0 .* must have 4 elements"),
    (lambda x: lax.all_to_all(x, "j", 0, 0), r"must have 4 elements"),
    (lambda x: lax.all_to_all(x, "j", 0, 0, tiled=True), r"a multiple of 4 elements"),
    (lambda x: lax.ppermute(x, "j", [(0, 4)]), r"an index in \[0, 4\)"),
    (lambda x: lax.ppermute(x, "j", [(0, 1), (2, 1)]), r"stands once"),
    (lambda x: lax.pbroadcast(x, "j", 4), r"source 4 is not an index along j, of size 4"),
    (lambda x: lax.psum(x, "j", axis_index_groups=[[0, 1], [2]]), r"must cut the indices 0 to 3"),
    (lambda x: lax.psum_scatter(x, "j", axis_index_groups=[[0, 1, 3], [2]]),
     r"groups of one size"),
    (lambda x: lax.all_to_all(x, "j", 0, 0, axis_index_groups=[[0, 1, 3], [2]]),
     r"groups of one size"),
    (lambda x: lax.all_gather(x, "j", to="reduced"), r"must be 'varying' or 'invarying'"),
    (lambda x: lax.all_gather(x, "j", to="invarying", axis_index_groups=GROUPS),
     r"results differ between the groups"),
    (lambda x: lax.pcast(x, "j", to="invarying"), r"Only communication makes values"),
    (lambda x: lax.all_gather(x, "j", axis=3), r"axis 3"),
])
def test_bad_arguments(f, match):
    refuse(f, ValueError, match)


def test_casts_of_what_varies_already():
    for cast in (lambda x: lax.pvary(x, ("i", "j")), lambda x: lax.pcast(x, BOTH, to="varying")):
        refuse(cast, ValueError, r"float32\[3\]\{V:j\}, which varies along \('j',\) already",
               varying="j")


@pytest.mark.parametrize("f", [
    lambda x: lax.psum(x, ("i", "j")), lambda x: lax.pmax(x, "i"), lambda x: lax.pmean(x, "i")])
def test_reductions_of_what_does_not_vary_where_authors_write_the_casts(f):
    refuse(f, TypeError, r"over 'i' of float32\[3\]\{V:j\}, which does not vary along it",
           mode="explicit", varying="j")


def test_operands_that_differ_where_authors_write_the_casts():
    two = [shard((3,), varying="i"), shard((3,), varying="j")]
    with pytest.raises(TypeError, match=r"operands of mul vary along different mesh axes"):
        body(lambda x, y: x * y, two, "explicit")
    # Values made of constants do not have a cotangent to be summed.
    jaxpr = body(lambda x, y: lax.pvary(x * 2 + jnp.arange(3.0), "j") + jnp.zeros(3)
                 + lax.pvary(y, "i")[0] + lax.axis_index("i"), two, "explicit")
    assert jaxpr.out_avals[0].varying == {"i", "j"}


def test_extrema_have_no_derivative():
    with pytest.raises(NotImplementedError, match="pmax"):
        body(lambda x: mjax.grad(lambda x: lax.pmax(x, BOTH))(x), [shard(())])


def test_groups_over_axes_of_mesh_and_vmap():
    refuse(lambda x: mjax.vmap(lambda x: lax.psum(x, ("i", "v"), axis_index_groups=[[0, 1]]),
                               axis_name="v")(x), NotImplementedError, "needs one axis, or several")
    refuse(lambda x: lax.psum(x, BOTH, axis_index_groups=[[0, 1]]), ValueError,
           "must cut the indices 0 to 7 of axis i, j into groups")


EMPTY = {  # name -> (function of an empty (4, 0), shape of its result)
    "psum_scatter": (lambda x: lax.psum_scatter(x, "j", scatter_dimension=1, tiled=True), (4, 0)),
    "all_gather": (lambda x: lax.all_gather(x, "j", axis=1, tiled=True), (4, 0)),
    "all_to_all": (lambda x: lax.all_to_all(x, "j", 0, 1), (0, 4)),
    "tiled": (lambda x: lax.all_to_all(x, "j", 1, 0, tiled=True), (16, 0)),
    "psum": (lambda x: lax.psum(x, "j"), (4, 0)),
    "ppermute": (lambda x: lax.ppermute(x, "j", rotate(4)), (4, 0))}


def test_values_without_elements():
    """StableHLO refuses some of these, which move nothing."""
    @mjax.jit
    @mjax.shard_map(mesh=mjax.make_mesh((4,), ("j",)), in_specs=mjax.P("j"), out_specs=mjax.P("j"))
    def each_of_them(x):
        return {name: f(x) for name, (f, _) in EMPTY.items()}

    for dtype in ("float32", "complex64"):
        for name, out in each_of_them(jnp.zeros((16, 0), dtype)).items():
            rows, *rest = EMPTY[name][1]
            assert out.shape == (4 * rows, *rest) and out.dtype == dtype, name
