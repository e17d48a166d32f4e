"""Collectives under vmap against NumPy on the list of all elements' values."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.tracing.stage import eval_jaxpr
from tests.engine.spmd.simulation import (
    all_gather,
    all_to_all,
    axis_index,
    in_groups,
    pbroadcast,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
)

RNG = np.random.default_rng(0)
N = 4
GROUPS = [[2, 0], [1, 3]]


def draw(*shape):
    return RNG.normal(size=shape).astype("float32")


ROTATE = [(i, (i + 1) % N) for i in range(N)]
PARTIAL = [(0, 2), (3, 0)]

# Name -> (function of a value and axis names, reference, shape of an element's value).
LINEAR = {
    "psum": (lambda x, a: lax.psum(x, a), psum, (2, 4)),
    "pmean": (lambda x, a: lax.pmean(x, a), pmean, (2, 4)),
    "all_gather": (lambda x, a: lax.all_gather(x, a), all_gather(), (2, 3)),
    "all_gather of scalars": (lambda x, a: lax.all_gather(x, a), all_gather(), ()),
    "all_gather axis": (lambda x, a: lax.all_gather(x, a, axis=-1), all_gather(2), (2, 3)),
    "all_gather tiled": (lambda x, a: lax.all_gather(x, a, axis=1, tiled=True),
                         all_gather(1, True), (2, 3)),
    "psum_scatter": (lambda x, a: lax.psum_scatter(x, a, scatter_dimension=1), psum_scatter(1),
                     (2, N)),
    "psum_scatter tiled": (lambda x, a: lax.psum_scatter(x, a, tiled=True),
                           psum_scatter(0, True), (2 * N, 3)),
    "ppermute": (lambda x, a: lax.ppermute(x, a, ROTATE), ppermute(ROTATE), (2,)),
    "ppermute in part": (lambda x, a: lax.ppermute(x, a, PARTIAL), ppermute(PARTIAL), (2,)),
    "pshuffle": (lambda x, a: lax.pshuffle(x, a, [2, 0, 3, 1]),
                 ppermute([(2, 0), (0, 1), (3, 2), (1, 3)]), (2,)),
    "pbroadcast": (lambda x, a: lax.pbroadcast(x, a, 2), pbroadcast(2), (2,)),
    "pswapaxes": (lambda x, a: lax.pswapaxes(x, a, 1), all_to_all(1, 1), (2, N)),
    "all_to_all": (lambda x, a: lax.all_to_all(x, a, 0, 1), all_to_all(0, 1), (N, 3)),
    "all_to_all back": (lambda x, a: lax.all_to_all(x, a, 2, 0), all_to_all(2, 0), (2, 3, N)),
    "all_to_all tiled": (lambda x, a: lax.all_to_all(x, a, 0, 1, tiled=True),
                         all_to_all(0, 1, True), (2 * N, 3)),
    "all_to_all tiled back": (lambda x, a: lax.all_to_all(x, a, 2, 0, tiled=True),
                              all_to_all(2, 0, True), (2, 3, N)),
}
OTHERS = {
    "pmax": (lambda x, a: lax.pmax(x, a), pmax, (2,)),
    "pmin": (lambda x, a: lax.pmin(x, a), pmin, (2,)),
    "axis_index": (lambda x, a: lax.axis_index(a), axis_index, (2,)),
}
ALL = LINEAR | OTHERS
GROUPED = {
    "psum": (lambda x: lax.psum(x, "i", axis_index_groups=GROUPS), psum, (3,)),
    "pmean": (lambda x: lax.pmean(x, "i", axis_index_groups=GROUPS), pmean, (3,)),
    "pmax": (lambda x: lax.pmax(x, "i", axis_index_groups=GROUPS), pmax, (3,)),
    "all_gather": (lambda x: lax.all_gather(x, "i", axis=1, axis_index_groups=GROUPS),
                   all_gather(1), (3,)),
    "all_gather tiled": (lambda x: lax.all_gather(x, "i", tiled=True, axis_index_groups=GROUPS),
                         all_gather(0, True), (3,)),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i", axis_index_groups=GROUPS),
                     psum_scatter(0), (2, 3)),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 1, axis_index_groups=GROUPS),
                   all_to_all(0, 1), (2, 3)),
    "all_to_all tiled": (lambda x: lax.all_to_all(x, "i", 1, 0, axis_index_groups=GROUPS,
                                                  tiled=True), all_to_all(1, 0, True), (3, 4)),
}


def same(actual, expected):
    np.testing.assert_allclose(actual, np.stack(expected), 1e-5, 1e-5)


# ---- one axis --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_one_axis(name):
    f, reference, shape = ALL[name]
    xs = draw(N, *shape)
    expected = reference(list(xs))
    for axis in range(len(shape) + 1):
        moved = np.moveaxis(xs, 0, axis)
        same(mjax.vmap(lambda x: f(x, "i"), in_axes=axis, axis_name="i")(moved), expected)
    out = mjax.vmap(lambda x: f(x, "i"), axis_name="i", out_axes=-1)(xs)
    same(np.moveaxis(out, -1, 0), expected)


@pytest.mark.parametrize("name", ALL)
def test_of_the_same_value(name):
    f, reference, shape = ALL[name]
    x = draw(*shape)
    out = mjax.vmap(lambda x: f(lax.mul(x, 2.0), "i"), in_axes=None, axis_name="i",
                    axis_size=N)(x)
    same(out, reference([x * 2] * N))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_jit(name):
    f, reference, shape = ALL[name]
    xs = draw(N, *shape)
    expected = reference(list(xs))
    inside = mjax.vmap(mjax.jit(lambda x: f(x, "i")), axis_name="i")
    same(inside(xs), expected)
    same(mjax.jit(inside)(xs), expected)
    same(mjax.jit(mjax.vmap(lambda x: f(x, "i"), axis_name="i"))(xs), expected)


@pytest.mark.parametrize("name", GROUPED)
def test_groups(name):
    f, reference, shape = GROUPED[name]
    xs = draw(N, *shape)
    expected = in_groups(reference, GROUPS)(list(xs))
    same(mjax.vmap(f, axis_name="i")(xs), expected)
    same(mjax.jit(mjax.vmap(f, in_axes=-1, axis_name="i"))(np.moveaxis(xs, 0, -1)), expected)
    x = xs[0]
    same(mjax.vmap(lambda _: f(lax.mul(x, 1.0)), axis_name="i")(xs),
         in_groups(reference, GROUPS)([x] * N))


#: Groups of different sizes.
UNEVEN = ([2, 0, 3], [1])
UNEVENLY = {"psum": (lax.psum, psum), "pmean": (lax.pmean, pmean), "pmax": (lax.pmax, pmax),
            "pmin": (lax.pmin, pmin)}


@pytest.mark.parametrize("name", UNEVENLY)
def test_groups_of_different_sizes(name):
    reduction, reference = UNEVENLY[name]
    xs = draw(N, 3)
    f = functools.partial(reduction, axis_name="i", axis_index_groups=UNEVEN)
    expected = in_groups(reference, UNEVEN)
    same(mjax.vmap(f, axis_name="i")(xs), expected(list(xs)))
    same(mjax.jit(mjax.vmap(f, in_axes=-1, axis_name="i"))(xs.T), expected(list(xs)))
    same(mjax.vmap(lambda x: f(x[0]), axis_name="i")(xs), expected(list(xs[:, 0])))
    same(mjax.vmap(lambda x: x[0] * 0 + f(lax.mul(2.0, 1.0)), axis_name="i")(xs),
         expected([np.float32(2)] * N))
    whole = np.arange(N, dtype=np.int32)
    same(mjax.vmap(f, axis_name="i")(whole), expected(list(whole)))
    if name != "pmax" and name != "pmin":
        check_transpose(mjax.vmap(f, axis_name="i"), expected, (3,))


def test_sizes_of_groups_that_differ():
    def f(x):
        return (x + lax.psum(1, "i", axis_index_groups=UNEVEN),
                lax.pmean(np.float32(5), "i", axis_index_groups=UNEVEN))

    sizes, means = mjax.vmap(f, axis_name="i")(np.zeros(N, np.int32))
    assert sizes.dtype == np.int32 and sizes.tolist() == [3, 1, 3, 3]
    assert means.tolist() == [5.0] * N
    assert mjax.vmap(lambda x: lax.psum(x, "i", axis_index_groups=UNEVEN), axis_name="i")(
        np.ones((N, 0), np.float32)).shape == (N, 0)
    every = [[i] for i in range(N)]
    np.testing.assert_array_equal(mjax.vmap(lambda x: lax.psum(
        x, "i", axis_index_groups=every), axis_name="i")(np.arange(N)), np.arange(N))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in GROUPED if n != "pmax"])
def test_transposes_in_groups(name):
    f, reference, shape = GROUPED[name]
    check_transpose(mjax.vmap(f, axis_name="i"), in_groups(reference, GROUPS), shape)


# ---- several axes ----------------------------------------------------------------------


def over(names, sizes):
    """How elements of nested axes i, j, k are counted along the axes named."""
    places = ["ijk".index(n) for n in names]
    return [tuple(index[p] for p in places)
            for index in itertools.product(*(range(s) for s in sizes))]


def reference_over(reference, names, sizes, xs):
    """Results in the order of i, j, k: elements that agree off the axes named talk."""
    indices = list(itertools.product(*(range(s) for s in sizes)))
    places = ["ijk".index(n) for n in names]
    out = [None] * len(indices)
    others = {tuple(v for p, v in enumerate(index) if p not in places) for index in indices}
    for rest in others:
        members = [n for n, index in enumerate(indices)
                   if tuple(v for p, v in enumerate(index) if p not in places) == rest]
        members.sort(key=lambda n: tuple(indices[n][p] for p in places))
        for n, y in zip(members, reference([xs[n] for n in members]), strict=True):
            out[n] = y
    return out


@pytest.mark.slow
@pytest.mark.parametrize("names", ["ij", "ji", "ik", "j", "k"])
@pytest.mark.parametrize("name", [n for n in ALL if "axis" not in n or n == "axis_index"])
def test_several_axes(name, names):
    f, reference, shape = ALL[name]
    sizes = {"ij": (2, 2, 3), "ji": (2, 2, 3), "ik": (2, 3, 2), "j": (2, 4, 3), "k": (2, 3, 4)}
    size = sizes[names]
    xs = draw(*size, *shape)
    axes = tuple(names) if len(names) > 1 else names
    mapped = mjax.vmap(mjax.vmap(mjax.vmap(lambda x: f(x, axes), axis_name="k"), axis_name="j"),
                       axis_name="i")
    expected = reference_over(reference, names, size, list(xs.reshape(-1, *shape)))
    out = np.asarray(mapped(xs))
    same(out.reshape(-1, *out.shape[3:]), expected)


@pytest.mark.parametrize("name", ["psum", "all_gather axis", *[
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("all_gather tiled", "pmax", "axis_index")]])
def test_three_axes(name):
    f, reference, shape = ALL[name]
    size = (2, 3, 2)
    xs = draw(*size, *shape)
    for names in itertools.permutations("ijk"):
        mapped = mjax.vmap(mjax.vmap(mjax.vmap(lambda x, names=names: f(x, names), axis_name="k"),
                                     axis_name="j"), axis_name="i")
        out = np.asarray(mapped(xs))
        same(out.reshape(-1, *out.shape[3:]),
             reference_over(reference, names, size, list(xs.reshape(-1, *shape))))


@pytest.mark.slow
def test_three_axes_scattered():
    xs = draw(2, 3, 2, 12)
    for names in itertools.permutations("ijk"):
        mapped = mjax.vmap(mjax.vmap(mjax.vmap(lambda x, names=names: lax.psum_scatter(x, names),
                                               axis_name="k"), axis_name="j"), axis_name="i")
        same(np.asarray(mapped(xs)).reshape(-1), reference_over(
            psum_scatter(), names, (2, 3, 2), list(xs.reshape(-1, 12))))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_beside_other_maps(name):
    """A vmap without a name inside or outside of the named one."""
    f, reference, shape = ALL[name]
    xs = draw(3, N, *shape)
    expected = [np.stack(reference(list(x))) for x in xs]
    named = mjax.vmap(lambda x: f(x, "i"), axis_name="i")
    same(mjax.vmap(named)(xs), expected)
    last = np.moveaxis(xs, 0, -1)
    inner = mjax.vmap(lambda x: mjax.vmap(lambda x: f(x, "i"), in_axes=-1)(x), axis_name="i")
    same(np.swapaxes(inner(last), 0, 1), expected)


def test_the_innermost_axis_of_a_name_counts():
    xs = draw(2, 3)
    out = mjax.vmap(mjax.vmap(lambda x: lax.psum(x, "i"), axis_name="i"), axis_name="i")(xs)
    np.testing.assert_allclose(out, np.tile(xs.sum(1, keepdims=True), 3), 1e-5)
    sizes = mjax.vmap(mjax.vmap(lambda x: lax.mul(x, float(lax.axis_size("i"))), axis_name="i"),
                      axis_name="i")(np.ones((2, 3), "float32"))
    np.testing.assert_array_equal(sizes, 3)


def test_closing_over_a_mapped_value():
    xs, ys = draw(2), draw(3)

    def f(x):
        # x differs along i, y along j; only the inner map has tracers of its own.
        return mjax.vmap(lambda y: lax.psum(lax.mul(x, y), ("i", "j")), axis_name="j")(ys)

    out = mjax.vmap(f, axis_name="i")(xs)
    np.testing.assert_allclose(out, np.full((2, 3), xs.sum() * ys.sum()), 1e-4)


# ---- derivatives -----------------------------------------------------------------------


def check_transpose(f, reference, shape):
    """The matrix of a linear map, element by element, against jvp and vjp."""
    size = int(np.prod((N, *shape)))
    basis = np.eye(size, dtype="float32").reshape(size, N, *shape)
    columns = np.stack([np.stack(reference(list(b))).ravel() for b in basis], 1)
    x, t = draw(N, *shape), draw(N, *shape)
    out, pull = mjax.vjp(f, x)
    ct = draw(*out.shape)
    _, tangent = mjax.jvp(f, (x,), (t,))
    back = mjax.linear_transpose(f, x)(ct)
    for found, expected in ((pull(ct)[0], columns.T @ ct.ravel()),
                            (back[0], columns.T @ ct.ravel()), (tangent, columns @ t.ravel())):
        np.testing.assert_allclose(np.ravel(found), expected, 1e-4, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", LINEAR)
def test_derivatives(name):
    f, reference, shape = LINEAR[name]
    check_transpose(mjax.vmap(lambda x: f(x, "i"), axis_name="i"), reference, shape)
    check_transpose(mjax.jit(mjax.vmap(mjax.jit(lambda x: f(x, "i")), axis_name="i")), reference,
                    shape)


@pytest.mark.parametrize("name", LINEAR)
def test_derivatives_inside(name):
    """vmap of vjp: each element pulls back its own cotangent, and the sum is over elements."""
    f, _, shape = LINEAR[name]
    x = draw(N, *shape)

    def pulled(x, ct):
        return mjax.vjp(mjax.jit(lambda x: f(x, "i")), x)[1](ct)[0]

    mapped = mjax.vmap(lambda x: f(x, "i"), axis_name="i")
    ct = draw(*mapped(x).shape)
    inside = mjax.vmap(pulled, axis_name="i")(x, ct)
    np.testing.assert_allclose(inside, mjax.vjp(mapped, x)[1](ct)[0], 1e-5, 1e-5)


@pytest.mark.slow
def test_higher_derivatives():
    xs = draw(N)

    def f(xs):
        # sum_i sin(x_i * s) with s = sum x; its derivatives by hand, below.
        g = mjax.vmap(mjax.jit(lambda x: lax.sin(lax.mul(x, lax.psum(x, "i")))), axis_name="i")
        return lax.reduce_sum(g(xs), (0,))

    x, s = np.asarray(xs, "f8"), np.sum(xs, dtype="f8")
    c = np.cos(x * s)
    gradient = c * s + np.sum(c * x)
    np.testing.assert_allclose(mjax.grad(f)(xs), gradient, 1e-4)
    d, e = -np.sin(x * s), np.eye(N)
    inner = e * s + x[:, None]  # d(x_i s)/dx_j
    hessian = np.einsum("ia,i,ib->ab", inner, d, inner) + c[:, None] + c[None, :]
    np.testing.assert_allclose(mjax.hessian(f)(xs), hessian, 1e-3, 1e-3)
    np.testing.assert_allclose(mjax.jacrev(mjax.grad(f))(xs), hessian, 1e-3, 1e-3)


def test_pmax_has_no_derivative():
    with pytest.raises(NotImplementedError, match="'pmax' has no jvp rule"):
        mjax.vmap(mjax.grad(lambda x: lax.pmax(x, "i")), axis_name="i")(draw(3))
    # It is fine without differentiation.
    out = mjax.vmap(mjax.grad(lambda x, y: lax.mul(x, lax.pmax(y, "i"))), axis_name="i")(
        draw(3), np.arange(3, dtype="float32"))
    np.testing.assert_array_equal(out, 2)


# ---- types, trees, constants -----------------------------------------------------------


def staged(f, *args, env=(("i", 4), ("j", 3))):
    return mjax.make_jaxpr(f, axis_env=env)(*args)


def equations(f, *args):
    return [(e.primitive.name, e.params) for e in staged(f, *args).eqns]


def test_names_and_params_are_those_of_jax():
    x = draw(4, 3)
    groups = ((0, 1), (2, 3))
    table = [
        (lambda x: lax.psum(x, "i"), [("psum", {"axes": ("i",), "axis_index_groups": None})]),
        (lambda x: lax.pmax(x, ("i", "j")),
         [("pmax", {"axes": ("i", "j"), "axis_index_groups": None})]),
        (lambda x: lax.pmin(x, "i", axis_index_groups=[[0, 1], [2, 3]]),
         [("pmin", {"axes": ("i",), "axis_index_groups": groups})]),
        (lambda x: lax.all_gather(x, ("i", "j"), axis=1),
         [("all_gather", {"all_gather_dimension": 1, "axis_index_groups": None,
                          "axis_name": ("i", "j"), "axis_size": 12, "tiled": False})]),
        (lambda x: lax.psum_scatter(x, "i", tiled=True, axis_index_groups=groups),
         [("reduce_scatter", {"axis_index_groups": groups, "axis_name": ("i",), "axis_size": 2,
                              "scatter_dimension": 0, "tiled": True})]),
        (lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]),
         [("ppermute", {"axis_name": ("i",), "perm": ((0, 1), (1, 2))})]),
        (lambda x: lax.pshuffle(x, "i", [1, 2, 3, 0]),
         [("ppermute", {"axis_name": ("i",), "perm": ((1, 0), (2, 1), (3, 2), (0, 3))})]),
        (lambda x: lax.pswapaxes(x, "i", 0),
         [("all_to_all", {"axis_name": "i", "split_axis": 0, "concat_axis": 0, "tiled": False,
                          "axis_index_groups": None})]),
        (lambda x: lax.axis_index("i"), [("axis_index", {"axis_name": "i"})]),
        (lambda x: lax.pbroadcast(x, "i", 1), [("pbroadcast", {"axis_name": "i", "source": 1})]),
    ]
    for f, expected in table:
        assert equations(f, x) == expected
    names = [n for n, _ in equations(lambda x: lax.all_to_all(x, "j", 1, 0), x)]
    assert names == ["broadcast_in_dim", "all_to_all", "squeeze"]
    names = [n for n, _ in equations(lambda x: lax.axis_index(("i", "j")), x)]
    assert names == ["axis_index", "mul", "add", "axis_index", "mul", "add"]


def test_result_types():
    x = draw(4, 3)
    for f, expected in [
            (lambda x: lax.all_gather(x, "j"), "float32[3,4,3]"),
            (lambda x: lax.all_gather(x, ("i", "j"), tiled=True), "float32[48,3]"),
            (lambda x: lax.psum_scatter(x, "j", scatter_dimension=1), "float32[4]"),
            (lambda x: lax.psum_scatter(x, "i", tiled=True), "float32[1,3]"),
            (lambda x: lax.all_to_all(x, "i", 0, 1), "float32[3,4]"),
            (lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True), "float32[1,12]"),
            (lambda x: lax.pmean(lax.convert_element_type(x, "int32"), "i"), "float32[4,3]"),
            (lambda x: lax.psum(lax.gt(x, x), "i"), "int32[4,3]"),
            (lambda x: lax.pmax(lax.gt(x, x), "i"), "bool[4,3]")]:
        assert str(staged(f, x).out_avals[0]) == expected


def test_dtypes():
    xs = np.array([3, 1, 2])
    for dtype in ("int8", "uint16", "float16", "bfloat16", "complex64", "bool"):
        x = lax.convert_element_type(xs, dtype)
        out = mjax.vmap(lambda x: lax.psum(x, "i"), axis_name="i")(x)
        assert out.dtype == ("int32" if dtype == "bool" else dtype)
        np.testing.assert_array_equal(np.asarray(out).astype("complex64"),
                                      [3 if dtype == "bool" else 6] * 3)
        gathered = mjax.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(x)
        assert gathered.dtype == dtype and gathered.shape == (3, 3)
    maxima = mjax.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(xs > 2)
    assert maxima.dtype == bool and np.all(np.asarray(maxima))


def test_trees():
    xs = {"a": draw(4, 4), "b": (draw(4, 4), np.arange(4))}
    for f in (lambda x: lax.psum(x, "i"), lambda x: lax.pmean(x, "i"), lambda x: lax.pmax(x, "i"),
              lambda x: lax.all_gather(x, "i"), lambda x: lax.ppermute(x, "i", ROTATE),
              lambda x: lax.pbroadcast(x, "i", 1)):
        out = mjax.vmap(f, axis_name="i")(xs)
        single = [mjax.vmap(f, axis_name="i")(leaf) for leaf in tree_flatten(xs)[0]]
        for a, e in zip(tree_flatten(out)[0], single, strict=True):
            np.testing.assert_array_equal(a, e)
    out = mjax.vmap(lambda x: lax.all_to_all((x, x), "i", 0, 0, tiled=True), axis_name="i")(
        xs["a"])
    np.testing.assert_array_equal(out[1], xs["a"].T)


def test_psum_of_constants():
    def f(x):
        assert lax.psum(1, "i") == 4 and type(lax.psum(1, "i")) is int
        assert lax.psum(2.5, ("i", "j")) == 30.0
        assert lax.psum(True, "i") == 4
        assert lax.psum(1, "i", axis_index_groups=[[0, 1], [2, 3]]) == 2
        assert lax.pmean(3, "i") == 3.0
        return lax.psum(np.ones(3, "float32"), "i"), lax.psum(lax.full((2,), 1.5), "i")

    jaxpr = staged(f, 1.0)
    assert [e.primitive.name for e in jaxpr.eqns].count("psum") == 1  # that of full, a tracer
    x = lax.full((2,), 1.5)
    out = mjax.vmap(lambda _: (lax.psum(np.ones(3, "float32"), "i"), lax.psum(x, "i")),
                    axis_name="i")(draw(4))
    np.testing.assert_array_equal(out[0], np.full((4, 3), 4))
    np.testing.assert_array_equal(out[1], np.full((4, 2), 6))


def test_array_axes_among_the_names():
    xs = draw(4, 3, 2)
    out = mjax.vmap(lambda x: lax.psum(x, ("i", 0)), axis_name="i")(xs)
    np.testing.assert_allclose(out, np.tile(xs.sum((0, 1)), (4, 1)), 1e-5)
    out = mjax.vmap(lambda x: lax.pmax(x, (-1, "i")), axis_name="i")(xs)
    np.testing.assert_allclose(out, np.tile(xs.max((0, 2)), (4, 1)))


def test_no_axes():
    x = draw(3)
    assert not staged(lambda x: (lax.psum(x, ()), lax.pmax(x, ())), x).eqns


def test_axis_size():
    sizes = []
    mjax.vmap(lambda x: sizes.append((lax.axis_size("i"), lax.axis_size(("i",)))) or x,
              axis_name="i")(draw(5))
    assert sizes == [(5, 5)]


def test_names_may_be_any_hashable():
    name = object()
    out = mjax.vmap(lambda x: lax.psum(x, name), axis_name=name)(draw(3))
    assert out.shape == (3,)


# ---- errors ----------------------------------------------------------------------------


@pytest.mark.parametrize("f", [
    lambda x: lax.psum(x, "k"), lambda x: lax.psum(1, "k"), lambda x: lax.pmax(x, "k"),
    lambda x: lax.pmean(x, ("i", "k")), lambda x: lax.all_gather(x, "k"),
    lambda x: lax.ppermute(x, "k", [(0, 1)]), lambda x: lax.pshuffle(x, "k", [0]),
    lambda x: lax.all_to_all(x, "k", 0, 0), lambda x: lax.psum_scatter(x, "k"),
    lambda x: lax.axis_index("k"), lambda x: lax.axis_size("k"), lambda x: lax.pswapaxes(x, "k", 0),
    lambda x: lax.pbroadcast(x, "k", 0)])
def test_unbound_axes(f):
    with pytest.raises(NameError, match=r"unbound axis name: k.*in scope: i \(size 4\)\. Call "
                                        r"the function under mjax\.vmap\(\.\.\., axis_name='k'\)"):
        mjax.vmap(f, axis_name="i")(draw(4, 4))
    with pytest.raises(NameError, match=r"unbound axis name: \w.*Axes in scope: none"):
        f(draw(4))
    with pytest.raises(NameError, match=r"unbound axis name: \w.*Axes in scope: none"):
        mjax.jit(f)(draw(4))


def test_a_jaxpr_outside_of_its_axes():
    jaxpr = staged(lambda x: lax.psum(x, "i"), 1.0)
    with pytest.raises(NameError, match="unbound axis name: i, used by psum"):
        eval_jaxpr(jaxpr, [], 1.0)
    with pytest.raises(NameError, match="unbound axis name: i"):
        mjax.jit(lambda x: eval_jaxpr(jaxpr, [], x))(1.0)
    # The axis is left when the function returns or raises.
    with pytest.raises(ZeroDivisionError):
        mjax.vmap(lambda x: 1 // 0, axis_name="i")(draw(3))
    with pytest.raises(NameError):
        lax.psum(1, "i")


@pytest.mark.parametrize(("f", "text"), [
    (lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]), "each source is an index in \\[0, 4\\)"),
    (lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)]), "each destination is an index"),
    (lambda x: lax.ppermute(x, "i", [(0, 7)]), "each destination is an index in \\[0, 4\\)"),
    (lambda x: lax.pshuffle(x, "i", [0, 0, 1, 2]), "each index from 0 to 3 along i once"),
    (lambda x: lax.pbroadcast(x, "i", 4), "source 4 is not an index along i, of size 4"),
    (lambda x: lax.all_to_all(x, "i", 1, 0), r"axis 1 of an operand of shape \(4, 3\) mus"),
    (lambda x: lax.pswapaxes(x, "i", 1), r"axis 1 of an operand of shape \(4, 3\) must have 4"),
    (lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True), "must have a multiple of 4 elements"),
    (lambda x: lax.psum_scatter(x, "i", scatter_dimension=1), r"axis 1 .*\(4, 3\) must have 4"),
    (lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True), "a multiple of 4"),
    (lambda x: lax.all_gather(x, "i", axis=4), "axis 4 is out of bounds"),
    (lambda x: lax.all_gather(x, "i", axis_index_groups=[[0, 1, 3], [2]]),
     "groups of one size, got"),
    (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2]]), "must cut the indices 0 to 3"),
    (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1, 2, 3], []]), "that are not empty"),
    (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 2]]), "must cut the indices 0 to 3"),
])
def test_errors(f, text):
    with pytest.raises(ValueError, match=text):
        mjax.vmap(f, axis_name="i")(draw(4, 4, 3))


def test_groups_over_several_axes():
    with pytest.raises(NotImplementedError, match="axis_index_groups needs one axis"):
        staged(lambda x: lax.psum(x, ("i", "j"), axis_index_groups=[[0]]), 1.0)


@pytest.mark.parametrize("f", [
    lambda x: lax.psum(x, ("i", "i")), lambda x: lax.pmean(x, ["i", "i"]),
    lambda x: lax.all_gather(x, ("i", "i")), lambda x: lax.ppermute(x, ("i", "i"), [(0, 1)]),
], ids=["psum", "pmean", "all_gather", "ppermute"])
def test_an_axis_is_named_once(f):
    with pytest.raises(ValueError, match="duplicate value in axis_name"):
        mjax.vmap(f, axis_name="i")(np.ones((2, 3), np.float32))
