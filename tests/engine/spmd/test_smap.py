"""`smap` against loops over the pieces."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax

X = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.fixture
def mesh():
    mesh = mjax.make_mesh((2, 2), ("x", "y"))
    with mjax.set_mesh(mesh):
        yield mesh


def test_axes_are_cut_and_put_together(mesh):
    f = mjax.smap(lambda a, b: (a - a.sum(), b + a[0, 0]), in_axes=(1, None), out_axes=(1, 0),
                  axis_name="y")
    left, right = f(X, X[:1])
    pieces = np.split(X, 2, 1)
    np.testing.assert_allclose(left, np.concatenate([p - p.sum() for p in pieces], 1))
    np.testing.assert_allclose(right, np.concatenate([X[:1] + p[0, 0] for p in pieces]))


def test_nested_over_another_axis(mesh):
    @mjax.smap(in_axes=0, out_axes=0, axis_name="x")
    def f(a):
        inner = mjax.smap(lambda b: lax.psum(b, "y"), in_axes=1, out_axes=None, axis_name="y")
        return inner(a)

    np.testing.assert_allclose(mjax.jit(f)(X), X[:, :3] + X[:, 3:])


def test_derivatives(mesh):
    f = mjax.smap(lambda a: lax.sin(a), in_axes=0, out_axes=0, axis_name="x")
    np.testing.assert_allclose(mjax.grad(lambda x: f(x).sum())(X), np.cos(X), rtol=1e-5)


@pytest.mark.parametrize("options, text", [
    ({"in_axes": "a"}, "in_axes holds integers"), ({"out_axes": 1.0}, "out_axes holds integers"),
    ({"axis_name": ("x", "y")}, "one axis of a mesh"), ({"in_axes": -1}, "from the front"),
])
def test_errors(mesh, options, text):
    with pytest.raises(ValueError, match=text):
        mjax.smap(lambda x: x, **{"in_axes": 0, "out_axes": 0, "axis_name": "x", **options})
    with pytest.raises(TypeError, match="in_axes must be given"):
        mjax.smap(lambda x: x, out_axes=0, axis_name="x")
