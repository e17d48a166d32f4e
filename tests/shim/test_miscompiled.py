"""Programs that a jaxlib compiles wrongly are right."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjaxlib_shim import executables

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5000, 7)).astype(np.float32)
W = RNG.random((1, 7)).astype(np.float32)


@pytest.mark.parametrize("name, f", [
    ("difference", lambda x, w: x - (w * x).sum(-1, keepdims=True)),
    ("product", lambda x, w: w * (x - (w * x).sum(-1, keepdims=True))),
    ("sum", lambda x, w: (w * x).sum(-1, keepdims=True) + w),
    ("mean", lambda x, w: x * (w * x).mean(-1, keepdims=True)),
    ("max", lambda x, w: x + (w * x).max(-1, keepdims=True))])
def test_sums_of_products_with_broadcast_arrays(name, f):
    """On jaxlib 0.10.2 elements beyond 16,384 were garbage; jax 0.10.2 has them."""
    want = f(X.astype(np.float64), W)
    np.testing.assert_allclose(mjax.jit(f)(jnp.asarray(X), jnp.asarray(W)), want, 1e-4, 1e-5)


def test_tangents_of_softmax_for_a_batch():
    with mjax.enable_x64(True):
        x, ts = RNG.standard_normal((40, 7)), RNG.standard_normal((100, 40, 7))
        f = lambda x: mjax.nn.softmax(x.astype("float32")).astype("float64")
        p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
        out = mjax.jit(mjax.vmap(lambda t: mjax.jvp(f, (x,), (t,))[1]))(ts)
        np.testing.assert_allclose(out, p * (ts - (p * ts).sum(-1, keepdims=True)), 1e-4, 1e-5)


@pytest.mark.parametrize("f", [
    mjax.nn.softmax, lambda x: x.var(-1), lambda x: x - x.mean(-1, keepdims=True),
    lambda x: W * (x - x.mean(-1, keepdims=True)) + W], ids=["softmax", "var", "mean", "scale"])
def test_other_programs_are_compiled_once(f, monkeypatch):
    """Without fusions they would take two to five times as long."""
    found, ask = [], executables.options_against
    monkeypatch.setattr(executables, "options_against",
                        lambda *args: found.append(ask(*args)) or found[-1])
    mjax.jit(f)(jnp.asarray(X))
    assert found == [{}] * len(found) != []
