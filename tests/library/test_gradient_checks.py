"""`check_grads` and kin: right derivatives pass, wrong ones fail, and the message says which."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax.test_util import check_grads, check_jvp, check_vjp

rng = np.random.default_rng(0)
X = rng.normal(size=(3, 2)).astype(np.float32)
C = (X + 1j * X[::-1]).astype(np.complex64)


def with_slope(factor: float) -> Any:
    """`sin`, whose derivative is so many times what it should be."""
    f = mjax.custom_jvp(jnp.sin)
    f.defjvps(lambda t, out, x: factor * t * jnp.cos(x))
    return f


@pytest.mark.parametrize("x", [X, C, X.astype(np.float16), X.astype(ml_dtypes.bfloat16), 0.5],
                         ids=lambda x: str(getattr(x, "dtype", "float")))
def test_right_derivatives_pass(x: Any) -> None:
    half = getattr(x, "dtype", None) in (np.float16, ml_dtypes.bfloat16)
    check_grads(lambda x: x * x, (x,), 1, ("fwd", "rev", "lin"), atol=0.1 if half else None,
                rtol=0.1 if half else None, eps=0.5 if half else None)


def test_trees_and_orders() -> None:
    def f(tree: Any, y: Any) -> Any:
        return {"sum": tree["a"] @ y, "other": (jnp.sin(tree["b"]) * tree["a"],)}

    with mjax.enable_x64(True):
        args = {"a": X.astype(np.float64), "b": 0.5}, X[0].astype(np.float64)
        check_grads(f, args, 2, ("fwd", "rev", "lin"))


@pytest.mark.parametrize(("mode", "text"), [
    ("fwd", "JVP tangent"), ("rev", "VJP cotangent projection"), ("lin", "LIN tangent")])
def test_wrong_derivatives_fail(mode: str, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_grads(with_slope(1.1), (X,), 1, (mode,))


def test_wrong_second_derivatives_fail() -> None:
    f = mjax.custom_jvp(jnp.sin)
    f.defjvps(lambda t, out, x: t * mjax.lax.stop_gradient(jnp.cos(x)))
    check_grads(f, (X,), 1)
    with pytest.raises(AssertionError, match="JVP of VJP tangent|JVP of JVP tangent"):
        check_grads(f, (X,), 2)


def test_values_that_differ_and_dtypes_that_differ() -> None:
    with pytest.raises(AssertionError, match="here primal"):
        check_jvp(jnp.sin, partial(mjax.jvp, jnp.cos), (X,), err_msg="here")
    with pytest.raises(AssertionError, match="primal"):
        check_vjp(jnp.sin, partial(mjax.vjp, jnp.cos), (X,))
    with pytest.raises(AssertionError, match="tangent: dtype float16, not float32|float32, not"):
        check_jvp(jnp.sin, lambda p, t: (jnp.sin(*p), jnp.cos(*p).astype(np.float16)), (X,))
    with pytest.raises(AssertionError, match="shape"):
        check_jvp(jnp.sin, lambda p, t: (jnp.sin(*p), jnp.cos(*p)[0]), (X,))


def test_tolerances() -> None:
    close = with_slope(1 + 1e-3)
    check_grads(close, (X,), 1)
    for given in (1e-6, {np.float32: 1e-6}, {"float32": 1e-6}):
        with pytest.raises(AssertionError, match="JVP tangent"):
            check_grads(close, (X,), 1, atol=given, rtol=given)
    with mjax.enable_x64(True):
        with pytest.raises(AssertionError, match="JVP tangent"):
            check_grads(close, (X.astype(np.float64),), 1)
        check_grads(close, (X.astype(np.float64),), 1, rtol={np.float64: 1e-2})


def test_infinite_values_and_results_without_derivatives() -> None:
    check_grads(lambda x: jnp.where(x > 10, x, -jnp.inf), (X,), 1, ("fwd",))
    check_jvp(jnp.sin, partial(mjax.jvp, jnp.sin), (X[:0],))
    check_vjp(jnp.sin, partial(mjax.vjp, jnp.sin), (X[:0],))
