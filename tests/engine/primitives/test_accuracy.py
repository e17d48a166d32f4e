"""The accuracy of elementwise functions: what is asked of the compiler, types, errors."""

from __future__ import annotations

import inspect
import pickle

import ml_dtypes
import numpy as np
import pytest

import mjax
from mjax import lax
from mjaxlib_shim.gates import RESULT_ACCURACY

HIGHEST, DEFAULT = lax.AccuracyMode.HIGHEST, lax.AccuracyMode.DEFAULT
FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "tanh": np.tanh, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt,
}
every_function = pytest.mark.parametrize("name", FUNCTIONS)
knows_tolerances = pytest.mark.skipif(not RESULT_ACCURACY.open,
                                       reason="tolerances need jaxlib 0.5.3")
X = np.array([0.25, 0.5, 1.25], "float32")


def text(name, **accuracy):
    return mjax.jit(lambda x: getattr(lax, name)(x, **accuracy)).lower(X).as_text()


@every_function
def test_signature(name):
    parameter = inspect.signature(getattr(lax, name)).parameters["accuracy"]
    assert parameter.kind is parameter.KEYWORD_ONLY and parameter.default is None


@every_function
@pytest.mark.parametrize("accuracy", [None, DEFAULT])
def test_nothing_is_asked_by_default(name, accuracy):
    assert "result_accuracy" not in text(name, accuracy=accuracy)
    eqn, = mjax.make_jaxpr(lambda x: getattr(lax, name)(x, accuracy=None))(X).eqns
    assert eqn.params == {}


@every_function
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_highest(name, dtype):
    if name == "cbrt" and dtype == "complex64":
        pytest.skip("cbrt has no complex form")
    x = X.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    f = lambda x: getattr(lax, name)(x, accuracy=HIGHEST)
    expected = FUNCTIONS[name](x.astype("complex128" if dtype == "complex64" else "float64"))
    rtol = 1e-2 if dtype == "bfloat16" else 1e-5
    np.testing.assert_allclose(np.asarray(f(x)).astype(expected.dtype), expected, rtol)
    np.testing.assert_allclose(
        np.asarray(mjax.jit(f)(x)).astype(expected.dtype), expected, rtol)
    eqn, = mjax.make_jaxpr(f)(x).eqns
    assert eqn.params == {"accuracy": HIGHEST}
    assert f"{name}[accuracy=AccuracyMode.HIGHEST]" in str(mjax.make_jaxpr(f)(x))
    assert RESULT_ACCURACY.open == ("result_accuracy_mode<HIGHEST>" in mjax.jit(f).lower(
        x).as_text())


@every_function
@knows_tolerances
def test_tolerance(name):
    tolerance = lax.Tolerance(atol=1e-5, rtol=0.25, ulps=3)
    asked = text(name, accuracy=tolerance)
    assert ("result_accuracy<atol = 1.000000e-05, rtol = 2.500000e-01, ulps = 3, "
            "mode = #stablehlo.result_accuracy_mode<TOLERANCE>>") in asked
    np.testing.assert_allclose(getattr(lax, name)(X, accuracy=tolerance), FUNCTIONS[name](X), 1e-5)


@pytest.mark.skipif(RESULT_ACCURACY.open, reason="says what jaxlibs before 0.5.3 do")
def test_tolerance_without_the_attribute():
    with pytest.raises(NotImplementedError, match=r"cannot be asked for a tolerance.* 0\.5\.3"):
        lax.exp(X, accuracy=lax.Tolerance(ulps=1))


@every_function
@pytest.mark.parametrize("accuracy", [
    HIGHEST, pytest.param(lax.Tolerance(ulps=9), marks=knows_tolerances, id="ulps")])
def test_derivatives(name, accuracy):
    f = lambda x: getattr(lax, name)(x, accuracy=accuracy)
    with mjax.enable_x64(True):
        x, h = X.astype("float64"), 1e-6
        slope = (FUNCTIONS[name](x + h) - FUNCTIONS[name](x - h)) / (2 * h)
        np.testing.assert_allclose(mjax.vmap(mjax.grad(f))(x), slope, 1e-6)
        np.testing.assert_allclose(mjax.jvp(f, (x,), (np.ones(3),))[1], slope, 1e-6)
        second = mjax.vmap(mjax.grad(mjax.grad(f)))(x)
        expected = [mjax.grad(mjax.grad(getattr(lax, name)))(e) for e in x]
        np.testing.assert_allclose(second, expected, 1e-9)


#: As jax has it: function -> which functions of its derivative are asked for HIGHEST too.
HANDED_ON = {"expm1": ["expm1", "exp"], "sin": ["sin", "cos"], "cos": ["cos", "sin"],
             "logistic": ["logistic", "logistic"], "tanh": ["tanh", "logistic", "logistic"]}


@every_function
def test_what_is_asked_of_derivatives(name):
    f = lambda x: getattr(lax, name)(x, accuracy=HIGHEST)
    jaxpr = mjax.make_jaxpr(lambda x: mjax.jvp(f, (x,), (x,)))(X)
    asked = [eqn.primitive.name for eqn in jaxpr.eqns if "accuracy" in eqn.params]
    assert asked == HANDED_ON.get(name, [name])


def test_highest_keeps_the_digits_of_derivatives():
    """1 - s(x) is rounded to 0 for large x, s(-x) is not."""
    slope = mjax.grad(lambda x: lax.logistic(x, accuracy=HIGHEST))(20.0)
    np.testing.assert_allclose(slope, np.exp(-20.0), 1e-5)
    slope = mjax.grad(lambda x: lax.tanh(x, accuracy=HIGHEST))(10.0)
    np.testing.assert_allclose(slope, 4 * np.exp(-20.0), 1e-5)


@knows_tolerances
def test_equal_tolerances_share_a_program():
    lax.tan(X, accuracy=lax.Tolerance(1e-3, 2e-3, 1))
    before = len(lax.tan_p.executables)
    lax.tan(X, accuracy=lax.Tolerance(1e-3, 2e-3, 1))
    assert len(lax.tan_p.executables) == before


def test_values():
    one, other = lax.Tolerance(0.5, ulps=2), lax.Tolerance(0.5, 0.0, 2)
    assert one == other and hash(one) == hash(other) and pickle.loads(pickle.dumps(one)) == one
    assert one != lax.Tolerance(0.5) and one != (0.5, 0.0, 2)
    assert repr(one) == "Tolerance(atol=0.5, rtol=0.0, ulps=2)"
    assert list(lax.AccuracyMode) == [HIGHEST, DEFAULT]
    assert [m.value for m in lax.AccuracyMode] == [1, 2]


@pytest.mark.parametrize(("args", "error", "message"), [
    ((), ValueError, "At least one of atol, rtol, or ulps must be set"),
    ((0, 0, 0), ValueError, "At least one of atol, rtol, or ulps must be set"),
    ((-1, 0, 0), ValueError, r"Tolerances must be non-negative, got Tolerance\(atol=-1\.0"),
    ((1, 2, -3), ValueError, "Tolerances must be non-negative"),
    ((float("nan"),), ValueError, "Tolerances must be non-negative"),
    ((1.5, 0, 2.5), TypeError, "two numbers and an integer, got .*ulps=2.5"),
    (("a",), TypeError, "two numbers and an integer, got atol='a'"),
])
def test_bad_tolerances(args, error, message):
    with pytest.raises(error, match=message):
        lax.Tolerance(*args)


@every_function
@pytest.mark.parametrize("accuracy", [3, "highest", (1, 2, 3), lax.Precision.HIGHEST])
def test_bad_accuracies(name, accuracy):
    with pytest.raises(TypeError, match=rf"{name}: accuracy must be None, a lax.AccuracyMode or"):
        getattr(lax, name)(X, accuracy=accuracy)
