"""batching.register_vmappable: vmap over values of classes of one's own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax_ext.interpreters import batching


class Named:
    """An array whose axes have names."""

    def __init__(self, names, data):
        assert len(names) == jnp.ndim(data)
        self.names, self.data = tuple(names), data


class Over:
    """A spec: the name of the axis that is mapped."""

    def __init__(self, name):
        self.name = name


class Count:
    """A size of an axis that is not an int."""

    def __init__(self, n):
        self.n = n


@pytest.fixture(params=[int, Count])
def sizes(request):
    """The class of axis sizes, registered; and a size of it."""
    asked = []

    def to_elt(cont, get_idx, value, spec):
        asked.append(get_idx)
        if spec is None:
            return value
        if isinstance(spec, int):
            return Named(value.names[:spec] + value.names[spec + 1:], cont(value.data, spec))
        axis = value.names.index(spec.name)
        return Named([n for n in value.names if n != spec.name], cont(value.data, axis))

    def from_elt(cont, axis_size, element, spec):
        assert type(axis_size) is request.param
        name = spec.name if isinstance(spec, Over) else "rows"
        return Named((name, *element.names), cont(axis_size, element.data, 0))

    batching.register_vmappable(Named, Over, request.param, to_elt, from_elt,
                                None if request.param is int else lambda c: jnp.arange(c.n))
    yield request.param, asked
    batching.unregister_vmappable(Named)
    assert not batching.is_vmappable(Named((), 1.0)) and Over not in batching.spec_types


X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("which", range(3))
def test_values_are_mapped_by_their_specs(sizes, which):
    size, _ = sizes
    names = ("a", "b", "c")
    x = Named(names, X)
    assert batching.is_vmappable(x) and Over in batching.spec_types
    n = X.shape[which]

    def f(x, y):
        assert "abc"[which] not in x.names and x.data.ndim == 2
        return Named(x.names, lax.sin(x.data)), x.data.sum() + y

    mapped = mjax.vmap(f, (Over(names[which]), 0), (Over("out"), 0), axis_size=size(n))
    for run in (mapped, lambda *args: mapped(*args)):
        named, total = run(x, np.arange(n, dtype=np.float32))
        rows = np.moveaxis(X, which, 0)
        assert named.names == ("out", *[m for m in names if m != names[which]])
        np.testing.assert_allclose(named.data, np.sin(rows), rtol=1e-6)
        np.testing.assert_allclose(total, rows.sum((1, 2)) + np.arange(n), rtol=1e-5)


def test_transformations_inside_and_outside(sizes):
    size, _ = sizes

    def loss(data):
        out = mjax.vmap(lambda x: Named(x.names, lax.mul(x.data, x.data)), Over("a"), Over("a"),
                        axis_size=size(2))(Named("abc", data))
        return out.data.sum()

    np.testing.assert_allclose(mjax.jit(mjax.grad(loss))(X), 2 * X, rtol=1e-6)
    outer = mjax.vmap(loss)(np.stack([X, 2 * X]))
    np.testing.assert_allclose(outer, [(X ** 2).sum(), 4 * (X ** 2).sum()], rtol=1e-5)
    inner = mjax.vmap(lambda x: mjax.vmap(lambda y: y.data.sum(), Over("b"), axis_size=size(3))(x),
                      Over("c"), axis_size=size(4))(Named("abc", X))
    np.testing.assert_allclose(inner, X.sum(0).T, rtol=1e-5)


def test_ints_and_none_are_specs_too(sizes):
    size, _ = sizes
    x = Named("abc", X)
    out = mjax.vmap(lambda x, y: x.data.sum() + y.data[0, 0, 0], (1, None), axis_size=size(3))(x, x)
    np.testing.assert_allclose(out, X.sum((0, 2)) + X[0, 0, 0], rtol=1e-5)
    rows = mjax.vmap(lambda *, x: Named(x.names, x.data), axis_size=size(2))(x=x)
    assert rows.names == ("rows", "b", "c")  # keyword arguments are mapped along axis 0


def test_the_number_of_the_element(sizes):
    size, asked = sizes

    def f(x):
        return x.data[0, 0] * 0 + asked[-1]()

    out = mjax.vmap(f, Over("b"), axis_size=size(3))(Named("abc", X))
    np.testing.assert_array_equal(out, [0, 1, 2])
    np.testing.assert_array_equal(batching.make_iota(size(3)), [0, 1, 2])


def test_named_axes_and_sizes(sizes):
    size, _ = sizes
    out = mjax.vmap(lambda x: lax.psum(x.data, "i"), Over("a"), axis_name="i", axis_size=size(2))(
        Named("abc", X))
    np.testing.assert_allclose(out, np.stack([X.sum(0)] * 2), rtol=1e-6)
    with pytest.raises(ValueError, match="must have at least one mapped argument"):
        mjax.vmap(lambda x: x.data, Over("a"))(Named("abc", X))
    with pytest.raises(ValueError, match=r"has size 4 along axis 0"):
        mjax.vmap(lambda x, y: y, (Over("a"), 0), axis_size=size(2))(Named("abc", X), np.ones(4))


def test_trees_hold_values_and_specs(sizes):
    size, _ = sizes
    tree = {"x": Named("ab", X[0]), "y": [X[1], None]}
    out = mjax.vmap(lambda t, s: {"r": (Named("a", t["x"].data), t["y"][0] * s)},
                    ({"x": Over("b"), "y": 1}, None), {"r": (Over("b"), None)}, axis_size=size(4),
                    sum_match=True)(tree, 2.0)
    np.testing.assert_allclose(out["r"][0].data, X[0].T)
    np.testing.assert_allclose(out["r"][1], 2 * X[1].sum(1), rtol=1e-5)
    with pytest.raises(ValueError, match="vmap has mapped output but out_axes is None"):
        mjax.vmap(lambda t: t["y"][0], ({"x": Over("b"), "y": 1},), None, axis_size=size(4))(tree)


def test_leaks_are_found(sizes):
    size, _ = sizes
    kept = []
    with mjax.checking_leaks(), pytest.raises(mjax.errors.UnexpectedTracerError):
        mjax.vmap(lambda x: kept.append(x.data) or x.data, Over("a"), axis_size=size(2))(
            Named("abc", X))
    kept.clear()
    with mjax.checking_leaks():
        mjax.vmap(lambda x: x.data, Over("a"), axis_size=size(2))(Named("abc", X))


def test_a_class_that_is_a_pytree_too():
    mjax.tree_util.register_pytree_node(
        Named, lambda x: ([x.data], x.names), lambda names, parts: Named(names, *parts))
    plain = mjax.vmap(lambda x: Named(x.names[1:], x.data).data, axis_size=None)
    with pytest.raises(AssertionError):
        plain(Named("abc", X))  # the tree of one element has as many names as the whole
    batching.register_vmappable(
        Named, Over, int, lambda cont, get_idx, x, spec: Named(x.names[1:], cont(x.data, 0)),
        lambda cont, size, x, spec: Named(("new", *x.names), cont(size, x.data, 0)), None)
    try:
        out = mjax.vmap(lambda x: x, Over("a"), Over("a"), axis_size=2)(Named("abc", X))
        assert out.names == ("new", "b", "c")
    finally:
        batching.unregister_vmappable(Named)


def test_registrations_that_are_refused():
    def function(*args):
        return args

    good = [Named, Over, int, function, function, None]
    for i, word in itertools.product(range(5), [3]):
        given = [word if i == j else g for j, g in enumerate(good)]
        with pytest.raises(TypeError, match=r"must be a (class|function), got 3"):
            batching.register_vmappable(*given)
    with pytest.raises(TypeError, match="make_iota must be a function, got 3"):
        batching.register_vmappable(*good[:5], 3)
    assert not batching.is_vmappable(Named((), 1.0))
    with pytest.raises(KeyError):
        batching.unregister_vmappable(Named)
    with pytest.raises(TypeError, match="in_axes must be an int, None or a tree of them"):
        mjax.vmap(lambda x: x, Over("a"))
