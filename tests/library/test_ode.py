"""`odeint`: against solutions that are known, and finite differences of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax.experimental.ode import odeint
from mjax.test_util import check_grads

TIMES = np.array([0.0, 0.3, 0.4, 2.0])


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with mjax.enable_x64(True):
        yield


def swing(state: Any, t: Any, rate: Any, push: Any) -> Any:
    """An oscillator that is pushed."""
    return {"x": state["v"][0], "v": (-rate * state["x"][0] + push["a"] * t,)}


def swung(x: Any, v: Any, t: Any, rate: Any, push: Any) -> Any:
    """Its solution: where it is."""
    w = np.sqrt(rate)
    return (x * np.cos(w * t) + (v - push / rate) / w * np.sin(w * t) + push / rate * t)


START = np.array([1.0, -0.5]), np.array([0.0, 2.0])


def test_values_of_trees() -> None:
    found = odeint(swing, {"x": (START[0],), "v": (START[1],)}, TIMES, 2.0, {"a": 0.7})
    assert found["v"][0].shape == (4, 2)
    np.testing.assert_allclose(found["x"][0], swung(*START, TIMES[:, None], 2.0, 0.7), 1e-7)


@pytest.mark.slow
def test_gradients_in_trees() -> None:
    def where(x: Any, v: Any, rate: Any, push: Any) -> Any:
        return odeint(swing, {"x": (x,), "v": (v,)}, TIMES, rate, {"a": push})["x"][0]

    args = *START, 2.0, 0.7
    weights = np.random.default_rng(0).normal(size=(4, 2))
    found, slopes = mjax.jit(mjax.value_and_grad(lambda *args: jnp.sum(
        weights * where(*args)), (0, 1, 2, 3)))(*args)
    exact = lambda *args: np.sum(weights * swung(args[0], args[1], TIMES[:, None], *args[2:]))
    np.testing.assert_allclose(found, exact(*args), 1e-7)
    for i, slope in enumerate(slopes):
        for k in np.ndindex(np.shape(args[i])):
            step = np.zeros(np.shape(args[i]))
            step[k] = 1e-6
            ends = [exact(*[a + s * step if i == j else a for j, a in enumerate(args)])
                    for s in (1, -1)]
            np.testing.assert_allclose(slope[k], (ends[0] - ends[1]) / 2e-6, 1e-5, 1e-6)


def decay(y: Any, t: Any, rate: Any) -> Any:
    return -rate * y


@pytest.mark.slow
def test_times_and_batches() -> None:
    run = lambda t: odeint(decay, 1.0, t, 0.5)
    np.testing.assert_allclose(run(TIMES), np.exp(-0.5 * TIMES), 1e-7)
    np.testing.assert_allclose(run(TIMES[:1]), [1.0])
    twice = np.repeat(TIMES, 2)
    np.testing.assert_allclose(run(twice), np.exp(-0.5 * twice), 1e-7)
    np.testing.assert_allclose(
        mjax.grad(lambda y: jnp.sum(odeint(decay, y, twice, 0.5)))(1.0),
        np.sum(np.exp(-0.5 * twice)), 1e-7)
    np.testing.assert_allclose(mjax.grad(lambda t: jnp.sum(run(t)))(TIMES), [
        0.5 * np.sum(np.exp(-0.5 * TIMES[1:])), *-0.5 * np.exp(-0.5 * TIMES[1:])], 1e-7)
    rates = np.array([0.1, 2.0])
    np.testing.assert_allclose(
        mjax.vmap(lambda r: odeint(decay, 1.0, TIMES, r))(rates),
        np.exp(-np.outer(rates, TIMES)), 1e-6)


@pytest.mark.slow
def test_what_is_closed_over_has_derivatives() -> None:
    def end(rate: Any, count: Any) -> Any:
        return odeint(lambda y, t: -rate * count * y, 1.0, TIMES)[-1]

    for f in (mjax.grad(end), mjax.jit(mjax.grad(end))):
        np.testing.assert_allclose(f(0.5, 2), -4 * np.exp(-2.0), 1e-6)


@pytest.mark.slow
def test_tolerances_and_limits() -> None:
    run = lambda **options: odeint(lambda y, t: jnp.cos(20 * t), 0.0, TIMES, **options)
    exact = np.sin(20 * TIMES) / 20
    errors = [np.max(np.abs(run(rtol=r, atol=r) - exact)) for r in (1e-2, 1e-5, 1e-9)]
    assert errors[0] > 100 * errors[1] > 1e4 * errors[2]
    assert np.max(np.abs(run(mxstep=1) - exact)) > 1e-3
    np.testing.assert_allclose(run(mxstep=500), exact, atol=1e-7)
    # A pulse that long steps do not see.
    pulse = lambda y, t: jnp.exp(-((t - 1.1) / 0.01) ** 2)
    assert odeint(pulse, 0.0, TIMES)[-1] < 1e-3
    np.testing.assert_allclose(odeint(pulse, 0.0, TIMES, hmax=0.01)[-1],
                               0.01 * np.sqrt(np.pi), 1e-6)


@pytest.mark.slow
def test_complex_solutions() -> None:
    def turn(y: Any, t: Any, w: Any) -> Any:
        return 1j * w * y

    ends = odeint(turn, np.array([1.0 + 0j, 2j]), TIMES, 0.8)
    np.testing.assert_allclose(ends, np.exp(0.8j * TIMES)[:, None] * [1, 2j], 1e-6)
    check_grads(lambda y0, w: odeint(turn, y0, TIMES, w), (np.array([1.0 + 0j, 2j]), 0.8), 1,
                ("rev",))


@pytest.mark.slow
def test_second_derivatives() -> None:
    check_grads(lambda y0, t, r: odeint(decay, y0, t, r), (1.5, TIMES, 0.5), 2, ("rev",),
                atol=1e-4, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes(dtype: Any) -> None:
    y = odeint(decay, np.ones((2, 1), dtype), TIMES.astype(np.float32), np.float32(0.5),
               rtol=1e-5, atol=1e-5)
    assert y.dtype == dtype
    np.testing.assert_allclose(y[:, 0, 0], np.exp(-0.5 * TIMES), 1e-4)
    mixed = odeint(lambda s, t: (-s[0], -s[1]), (dtype(1), np.float32(2)), TIMES, rtol=1e-6,
                   atol=1e-6)
    assert [x.dtype for x in mixed] == [dtype, np.float32]
    np.testing.assert_allclose(mixed[1], 2 * np.exp(-TIMES), 1e-5)


ERRORS = [
    (TypeError, "t must be an array of floats, got int32", lambda: odeint(
        decay, 1.0, np.arange(3, dtype=np.int32), 1.0)),
    (TypeError, "odeint requires ndarray or scalar", lambda: odeint(decay, 1.0, [0.0, 1.0], 1.0)),
    (TypeError, "t must be a vector of times", lambda: odeint(decay, 1.0, np.zeros((2, 2)), 1.0)),
    (ValueError, "t must be a vector of times", lambda: odeint(decay, 1.0, np.zeros(0), 1.0)),
    (TypeError, "argument", lambda: odeint(decay, 1.0, TIMES, "rate")),
    (TypeError, "odeint", lambda: odeint(3, 1.0, TIMES, 1.0)),
    (TypeError, r"y0 has float32\[2\], and <lambda> returned float32\[\]", lambda: odeint(
        lambda y, t: y[0], np.ones(2, np.float32), np.array([0.0, 1.0], np.float32))),
    (TypeError, "func must return an array for each of y0", lambda: odeint(
        lambda y, t: np.zeros(3), np.zeros(2), TIMES)),
    (TypeError, "y0 must be of an inexact dtype .*float64", lambda: odeint(
        decay, np.arange(3), TIMES, 1.0)),
    (TypeError, r"Cast y0 with .astype\('complex128'\)", lambda: odeint(
        lambda y, t: 1j * y, np.zeros(2), TIMES)),
    (TypeError, "rtol must be a static number", lambda: odeint(decay, 1.0, TIMES, 1.0, rtol=[1])),
    (TypeError, "must be a static number.*Under jit, mark the argument static", lambda: mjax.jit(
        lambda r: odeint(decay, 1.0, TIMES, 1.0, rtol=r))(1e-3)),
    (TypeError, "custom_vjp", lambda: mjax.jvp(
        lambda r: odeint(decay, 1.0, TIMES, r), (0.5,), (1.0,))),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:30] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=text):
        use()
