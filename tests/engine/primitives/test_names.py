"""checkpoint_name: the identity, under every transformation."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.ad_checkpoint import checkpoint_name
from tests.engine.primitives.harness import Case, table

X = np.arange(3, dtype="float32")


def named(x):
    return checkpoint_name(x, "a")


# Outside of transformations what is given comes back, a NumPy array too.
CASES = [Case("name", lambda x: named(mjax.numpy.asarray(x)), np.copy, "T[3]; T[]; T[0,2]",
              T="f32 bf16 c64 i32 u8 bool", linear=[(0,)])]


@table(CASES)
def test_rules(check, sample):
    check(sample)


def test_values_and_trees_pass():
    tree = {"a": [X, 2.0], "b": None, "c": mjax.random.key(0)}
    out = checkpoint_name(tree, "a")
    assert out["a"][0] is X and out["a"][1] == 2.0 and out["b"] is None and out["c"] is tree["c"]
    np.testing.assert_array_equal(mjax.jit(named)(X), X)
    keys = mjax.vmap(named)(mjax.random.split(mjax.random.key(0), 3))
    assert keys.shape == (3,)


def test_derivatives():
    f = lambda x: lax.mul(named(lax.sin(x)), 2.0)
    np.testing.assert_allclose(mjax.grad(f)(1.0), 2 * np.cos(1), 1e-6)
    np.testing.assert_allclose(mjax.jvp(f, (X,), (X,))[1], 2 * X * np.cos(X), 1e-5)
    np.testing.assert_allclose(mjax.grad(mjax.grad(f))(1.0), -2 * np.sin(1), 1e-6)
    np.testing.assert_array_equal(mjax.linear_transpose(named, X)(X)[0], X)
    np.testing.assert_allclose(mjax.vmap(mjax.grad(f))(X), 2 * np.cos(X), 1e-5)


def test_a_tangent_has_no_name():
    jaxpr = mjax.make_jaxpr(lambda x: mjax.jvp(named, (x,), (x,)))(X)
    assert [e.primitive.name for e in jaxpr.eqns] == ["name"]
    assert jaxpr.eqns[0].params == {"name": "a"}


@pytest.mark.parametrize(("call", "text"), [
    (lambda: checkpoint_name("a", X), "checkpoint_name: the name must be a string, got array"),
    (lambda: checkpoint_name(X, 3), "the name must be a string, got 3 of type int. The value "
                                    "comes first"),
    (lambda: checkpoint_name({"b": "x"}, "a"), r"checkpoint_name: x\['b'\] is not a valid array"),
])
def test_bad_input(call, text):
    with pytest.raises(TypeError, match=text):
        call()
