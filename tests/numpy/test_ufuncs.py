"""Elementwise functions: values against NumPy, shapes, dtypes, derivatives, errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.numpy as jnp

INSIDE = np.array([[0.5, -0.25, 0.125], [-0.75, 0.9, 0.3]])
POSITIVE = np.array([[0.5, 2.0, 1.25], [3.0, 0.75, 7.0]])
ABOVE_ONE = POSITIVE + 1
ANY = np.array([[0.5, -2.25, 1.0], [3.0, -0.75, 0.0]])
INTS = np.array([[0, 1, -2], [7, -8, 3]])
BOOLS = np.array([[True, False, True]])

#: Function -> (floats inside its domain, kinds of dtypes that it takes besides).
UNARY: dict[str, tuple[np.ndarray, str]] = {
    "abs": (ANY, "ic"), "fabs": (ANY, "i"), "negative": (ANY, "ic"), "positive": (ANY, "ic"),
    "sign": (ANY, "i"), "square": (ANY, "ic"), "reciprocal": (POSITIVE, "c"),
    "floor": (ANY, "i"), "ceil": (ANY, "i"), "trunc": (ANY, "i"), "rint": (ANY, "i"),
    "sqrt": (POSITIVE, "c"), "cbrt": (ANY, "i"), "exp": (ANY, "ic"), "exp2": (ANY, "i"),
    "expm1": (ANY, "i"), "log": (POSITIVE, "c"), "log2": (POSITIVE, ""), "log10": (POSITIVE, ""),
    "log1p": (POSITIVE, ""), "sin": (ANY, "ic"), "cos": (ANY, "ic"), "tan": (ANY, "i"),
    "arcsin": (INSIDE, ""), "arccos": (INSIDE, ""), "arctan": (ANY, "i"), "sinh": (ANY, "ic"),
    "cosh": (ANY, "ic"), "tanh": (ANY, "ic"), "arcsinh": (ANY, "i"), "arccosh": (ABOVE_ONE, ""),
    "arctanh": (INSIDE, ""), "sinc": (ANY, "i"), "deg2rad": (ANY, "i"), "rad2deg": (ANY, "i"),
    "isnan": (ANY, "ibc"), "isinf": (ANY, "ibc"), "isfinite": (ANY, "ibc"),
    "isposinf": (ANY, "ib"), "isneginf": (ANY, "ib"), "isreal": (ANY, "ic"),
    "iscomplex": (ANY, "ic"), "signbit": (ANY, "i"), "logical_not": (ANY, "ibc"),
    "real": (ANY, "ic"), "imag": (ANY, "ic"), "conj": (ANY, "ic"), "angle": (ANY, "ic"),
    "round": (ANY, "ic"), "nan_to_num": (ANY, "ic"), "i0": (ANY, "i"),
}
#: Function -> pairs of operands.
BINARY: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "add": (ANY, POSITIVE), "subtract": (ANY, POSITIVE), "multiply": (ANY, POSITIVE),
    "divide": (ANY, POSITIVE), "floor_divide": (ANY, POSITIVE), "remainder": (ANY, POSITIVE),
    "fmod": (ANY, POSITIVE), "maximum": (ANY, POSITIVE), "minimum": (ANY, POSITIVE),
    "fmax": (ANY, POSITIVE), "fmin": (ANY, POSITIVE), "equal": (ANY, POSITIVE),
    "not_equal": (ANY, POSITIVE), "less": (ANY, POSITIVE), "less_equal": (ANY, POSITIVE),
    "greater": (ANY, POSITIVE), "greater_equal": (ANY, POSITIVE), "logical_and": (ANY, POSITIVE),
    "logical_or": (ANY, POSITIVE), "logical_xor": (ANY, POSITIVE), "logaddexp": (ANY, POSITIVE),
    "logaddexp2": (ANY, POSITIVE), "hypot": (ANY, POSITIVE), "arctan2": (ANY, POSITIVE),
    "copysign": (ANY, -POSITIVE), "heaviside": (ANY, POSITIVE), "power": (POSITIVE, ANY),
    "float_power": (POSITIVE, ANY), "nextafter": (POSITIVE, ANY), "isclose": (ANY, POSITIVE),
}
INT_BINARY = ("add", "subtract", "multiply", "floor_divide", "remainder", "fmod", "maximum",
              "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift",
              "power", "divide", "less", "equal")
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], np.float32)


def close(ours: Any, theirs: Any, rtol: float = 2e-5) -> None:
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape
    assert ours.dtype.kind == theirs.dtype.kind
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=rtol, atol=2e-6)


@pytest.mark.parametrize("name", UNARY)
def test_unary_floats(name: str) -> None:
    x = UNARY[name][0].astype(np.float32)
    close(getattr(jnp, name)(jnp.array(x)), getattr(np, name)(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", UNARY)
def test_unary_other_inputs(name: str) -> None:
    floats, kinds = UNARY[name]
    f, g = getattr(jnp, name), getattr(np, name)
    close(f(floats.astype(np.float32)), g(floats.astype(np.float32)))  # a NumPy argument
    close(f(float(floats[0, 0])), np.float32(g(floats[0, 0])) if not isinstance(
        g(floats[0, 0]), np.bool_) else g(floats[0, 0]))
    assert f(jnp.zeros((0, 3))).shape == (0, 3)
    close(mjax.jit(f)(jnp.array(floats)), f(jnp.array(floats)))
    close(mjax.vmap(f)(jnp.array(floats)), f(jnp.array(floats)))
    if "i" in kinds:
        theirs = np.asarray(g(INTS.astype(np.int32)))
        ours = f(jnp.array(INTS))
        if theirs.dtype.kind == "f":
            assert ours.dtype == np.float32
        close(ours, theirs)
    if "c" in kinds:
        z = (floats + 0.5j * floats[::-1]).astype(np.complex64)
        close(f(jnp.array(z)), g(z))
    if "b" in kinds:
        close(f(jnp.array(BOOLS)), g(BOOLS))


@pytest.mark.parametrize("name", BINARY)
def test_binary_floats_broadcast(name: str) -> None:
    x, y = (v.astype(np.float32) for v in BINARY[name])
    close(getattr(jnp, name)(jnp.array(x), jnp.array(y[0])), getattr(np, name)(x, y[0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", BINARY)
def test_binary_other_inputs(name: str) -> None:
    x, y = (v.astype(np.float32) for v in BINARY[name])
    f, g = getattr(jnp, name), getattr(np, name)
    close(f(jnp.array(x[:, :1]), jnp.array(y[:1])), g(x[:, :1], y[:1]))
    close(f(jnp.array(x), float(y[0, 0])), g(x, y[0, 0]))
    close(f(float(x[0, 0]), jnp.array(y)), g(x[0, 0], y))
    close(f(x, jnp.array(y)), g(x, y))
    assert f(jnp.zeros((0, 3)), jnp.zeros((1, 3))).shape == (0, 3)
    close(mjax.jit(f)(x, y), g(x, y))
    close(mjax.vmap(f, in_axes=(0, None))(x, y[0]), g(x, y[0]))


@pytest.mark.parametrize("name", INT_BINARY)
def test_binary_integers(name: str) -> None:
    x = INTS.astype(np.int32)
    y = np.array([1, 2, 3], np.int32)
    f, g = getattr(jnp, name), getattr(np, name)
    close(f(jnp.array(x), jnp.array(y)), g(x, y))
    if name not in ("power", "divide"):
        close(f(jnp.array(x), 2), g(x, 2))
        x, y = abs(x).astype(np.uint8), y.astype(np.uint8)
        close(f(jnp.array(x), jnp.array(y)), g(x, y))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "divmod"])
def test_division_of_all_signs(name: str) -> None:
    x, y = np.meshgrid([-7.5, -7, -3, 0, 3, 7, 7.5], [-3.0, -2.5, 2.5, 3.0])
    for dtype in (np.float32, np.int32):
        a, b = x.astype(dtype), y.astype(dtype)
        ours, theirs = getattr(jnp, name)(a, b), getattr(np, name)(a, b)
        for o, t in zip(*((ours, theirs) if name == "divmod" else ([ours], [theirs])), strict=True):
            close(o, t)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "maximum", "fmax", "logaddexp",
                                  "hypot", "copysign", "heaviside", "arctan2", "isclose"])
def test_binary_special_values(name: str) -> None:
    x, y = np.meshgrid(SPECIAL, SPECIAL)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    np.testing.assert_allclose(np.asarray(getattr(jnp, name)(x, y)), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["abs", "sign", "signbit", "isnan", "isinf", "isfinite", "floor",
                                  "trunc", "rint", "exp", "tanh", "sqrt", "nan_to_num", "modf",
                                  "frexp", "isposinf", "round"])
def test_unary_special_values(name: str) -> None:
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(SPECIAL)
    ours = getattr(jnp, name)(SPECIAL)
    for o, t in zip(*((ours, expected) if isinstance(ours, tuple) else ([ours], [expected])),
                    strict=True):
        np.testing.assert_allclose(np.asarray(o), t, rtol=1e-6)


def test_power_takes_integers_statically() -> None:
    assert "integer_pow" in str(mjax.make_jaxpr(lambda x: x**3)(1.0))
    assert "integer_pow" in str(mjax.make_jaxpr(lambda x: jnp.power(x, np.int8(3)))(1.0))
    assert mjax.grad(lambda x: x**2)(0.0) == 0.0
    assert mjax.grad(lambda x: jnp.power(x, jnp.array(2)))(0.0) == 0.0
    with pytest.raises(TypeError, match="negative power -1"):
        jnp.array([1, 2]) ** -1


def test_power_of_integers_that_only_floats_hold() -> None:
    with mjax.enable_x64(True):
        for dtypes in (("int8", "uint64"), ("uint64", "int64")):
            x, y = [np.array([1, 2, 3], d) for d in dtypes]
            out = jnp.power(jnp.asarray(x), jnp.asarray(y))
            np.testing.assert_allclose(np.asarray(out), np.power(x, y, dtype=float))
            assert out.weak_type  # as sums of them are


def test_ldexp_does_not_overflow_on_the_way() -> None:
    x, n = np.float32([1.5, 2.0**-100, 0.0]), np.array([-140, 200, 5])
    np.testing.assert_array_equal(np.asarray(jnp.ldexp(x, n))[1:], np.ldexp(x, n)[1:])
    mantissa, exponent = jnp.frexp(np.float32([8.0, -0.3, 0.0, np.inf]))
    np.testing.assert_array_equal(np.asarray(jnp.ldexp(mantissa, exponent)),
                                  np.float32([8.0, -0.3, 0.0, np.inf]))


@pytest.mark.parametrize(("name", "x"), [
    ("sinc", 0.0), ("sinc", 0.7), ("sinc", 1e-3), ("logaddexp", 0.3), ("hypot", 2.0),
    ("float_power", 2.0), ("reciprocal", 3.0), ("log2", 3.0), ("deg2rad", 3.0), ("i0", 1.0),
    ("divide", 3.0), ("heaviside", 3.0), ("copysign", -3.0), ("remainder", 3.0), ("fmax", 3.0)])
def test_derivatives(name: str, x: float) -> None:
    f = getattr(jnp, name)
    g = getattr(np, name)
    args = (1.25,) if name in BINARY else ()
    step = 1e-4
    slope = (g(x + step, *args) - g(x - step, *args)) / (2 * step)
    np.testing.assert_allclose(mjax.grad(lambda v: f(v, *args))(x), slope, rtol=1e-3, atol=1e-4)


def test_derivatives_at_singular_points() -> None:
    grad = mjax.grad
    assert grad(grad(jnp.sinc))(0.0) == pytest.approx(-np.pi**2 / 3, rel=1e-5)
    assert grad(jnp.logaddexp)(0.0, 0.0) == grad(jnp.logaddexp2)(0.0, 0.0) == 0.5
    assert grad(jnp.i0)(0.0) == 0.0
    assert grad(jnp.logaddexp)(-jnp.inf, 1.0) == 0.0
    assert grad(jnp.maximum)(1.0, 1.0) == 0.5
    assert np.isfinite(grad(jnp.hypot)(0.0, 0.0))
    # The slope of sin(pi x) / (pi x) at whole numbers is (-1)**x / x.
    assert grad(jnp.sinc)(np.float16(64)) == pytest.approx(1 / 64, rel=5e-3)
    assert grad(jnp.sinc)(np.float32(2**20)) == pytest.approx(2.0**-20, rel=1e-1)


@pytest.mark.parametrize(("name", "point", "expected"), [
    ("logaddexp", (1.0, 1.0), [[0.25, -0.25], [-0.25, 0.25]]),
    ("logaddexp2", (1.0, 1.0), np.log(2) / 4 * np.array([[1, -1], [-1, 1]])),
    ("logaddexp", (0.0, np.log(3)), 3 / 16 * np.array([[1, -1], [-1, 1]])),
    ("logaddexp", (1e20, -1e20), np.zeros((2, 2))), ("logaddexp", (-np.inf, 1.0), np.zeros((2, 2))),
    ("hypot", (0.0, 1.0), [[1, 0], [0, 0]]), ("hypot", (-2.0, 0.0), [[0, 0], [0, 0.5]]),
    ("hypot", (1.0, -1.0), np.sqrt(0.125) * np.array([[1, 1], [1, 1]]))])
def test_second_derivatives_where_arguments_tie_or_vanish(name: str, point: Any, expected: Any
                                                          ) -> None:
    hessian = mjax.hessian(getattr(jnp, name), (0, 1))(*point)
    np.testing.assert_allclose(np.array(hessian, float), expected, rtol=1e-5, atol=1e-6)


def test_first_derivatives_where_sums_of_exponentials_overflow() -> None:
    grad = mjax.grad(jnp.logaddexp, (0, 1))
    assert grad(1e20, -1e20) == (1, 0) and grad(-1e20, 1e20) == (0, 1)
    assert grad(-jnp.inf, 1.0) == (0, 1)
    assert np.isnan(grad(jnp.nan, 1.0)).all()
    z = jnp.array(1 + 2j)  # of numbers with one real part, whichever is taken as the greater
    slope = mjax.grad(lambda a: jnp.logaddexp(a, 1 + 1j), holomorphic=True)(z)
    np.testing.assert_allclose(slope, 1 / (1 + np.exp(-1j)), rtol=1e-5)


@pytest.mark.parametrize("x", [12.0, -0.3, 3e38, -2e-38])
def test_mantissas_grow_with_their_numbers(x: float) -> None:
    slope = mjax.grad(lambda v: jnp.frexp(v)[0])(x)
    assert slope == 2.0 ** -float(np.frexp(np.float32(x))[1])


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
def test_frexp_of_the_greatest_and_of_small_numbers(dtype: str) -> None:
    x = np.array([ml_dtypes.finfo(dtype).max, -3, ml_dtypes.finfo(dtype).tiny], np.dtype(dtype))
    mantissa, exponent = jnp.frexp(x)
    expected = np.frexp(x.astype(np.float64))
    np.testing.assert_array_equal(np.asarray(mantissa, float), expected[0])
    np.testing.assert_array_equal(exponent, expected[1])


def test_derivatives_of_fmax_and_fmin_go_to_what_they_give() -> None:
    for f, (a, b) in ((jnp.fmax, (2.0, 1.0)), (jnp.fmin, (1.0, 2.0))):
        grad = mjax.grad(f, (0, 1))
        assert grad(a, b) == (1, 0) and grad(b, a) == (0, 1)
        assert grad(jnp.nan, a) == (0, 1) and grad(a, jnp.nan) == (1, 0)
        assert grad(a, a) == (0, 1)  # one of them: the second, as in JAX


def test_steps_between_floats_have_no_derivatives() -> None:
    with pytest.raises(NotImplementedError, match="'nextafter' has no .*jvp"):
        mjax.grad(lambda x: jnp.nextafter(x, 2.0))(1.0)
    assert mjax.grad(lambda x: x * jnp.spacing(x))(1.0) == 2.0**-23


def test_round_keeps_what_it_should() -> None:
    close(jnp.round(jnp.array([1.25, -0.55, 17.0]), 1), np.round(np.float32([1.25, -0.55, 17]), 1))
    close(jnp.round(jnp.array([15.0, 25.0, -251.0]), -1), np.array([20, 20, -250], np.float32))
    assert jnp.round(jnp.float16(1234.5), 2).dtype == np.float16
    assert jnp.isfinite(jnp.round(jnp.float16(1234.5), 2))
    with pytest.raises(NotImplementedError, match="decimals < 0"):
        jnp.round(jnp.array([1]), -1)


def test_pythons_round_gives_integers_without_digits() -> None:
    x = jnp.array([2.5, -1.5, 3.7])
    assert round(x).dtype == np.int32 and round(x, 0).dtype == np.float32
    close(round(x), np.int32([2, -2, 4]))
    close(round(x, 1), x)
    assert round(jnp.int8(3)).dtype == np.int8


# ---- errors ----------------------------------------------------------------------------


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(TypeError, match=r"add got incompatible shapes .*\(3,\), \(4,\)"):
        jnp.add(jnp.ones(3), jnp.ones(4))
    with pytest.raises(ValueError, match=r"multiply got incompatible shapes .*\(3,\), \(2, 4\)"):
        mjax.jit(jnp.multiply)(jnp.ones(3), jnp.ones((2, 4)))


@pytest.mark.parametrize("bad", ["text", None, object(), [1.0], (1, 2), {"a": 1},
                                 np.array(["a"]), np.array([None])])
@pytest.mark.parametrize("jitted", [False, True])
def test_arguments_that_are_no_arrays(bad: Any, jitted: bool) -> None:
    for call in (lambda: jnp.sin(bad), lambda: jnp.add(1.0, bad), lambda: jnp.where(True, bad, 1),
                 lambda: jnp.sum(bad), lambda: jnp.mean(bad), lambda: jnp.power(bad, 2)):
        with pytest.raises(TypeError, match=r"got (<class|a NumPy array)"):
            mjax.jit(lambda call=call: call())() if jitted else call()


def test_lists_are_told_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"add .*<class 'list'> at position 1.*asarray"):
        jnp.add(1, [2])


def test_dtypes_that_are_not_accepted() -> None:
    for call in (lambda: jnp.subtract(True, False), lambda: jnp.bitwise_and(1.0, 2.0),
                 lambda: jnp.floor(1j), lambda: jnp.floor_divide(1j, 2), lambda: -jnp.array(True)):
        with pytest.raises(TypeError):
            call()
    for call in (lambda: jnp.signbit(1j), lambda: jnp.clip(1j, 0, 1), lambda: jnp.isposinf(1j)):
        with pytest.raises(ValueError, match="complex"):
            call()


def test_python_ints_that_are_too_large() -> None:
    with pytest.raises(OverflowError, match=r"too large .*int32.*enable_x64"):
        jnp.add(2**40, 1)
    with pytest.raises(OverflowError):
        jnp.sin(2**40)
    # They may fit the other operand, and they wrap around like any conversion.
    assert jnp.add(jnp.uint32(1), 2**31) == np.uint32(2**31 + 1)
    assert mjax.jit(lambda x: x + 2**31)(jnp.uint32(1)) == np.uint32(2**31 + 1)
    assert jnp.uint8(7) & ~1 == 6
    with mjax.enable_x64(True):
        assert jnp.add(2**40, 1) == 2**40 + 1


def test_rank_promotion_option() -> None:
    with mjax.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match=r"add: .*\(3,\) \(2, 3\)"):
            jnp.ones(3) + jnp.ones((2, 3))
        assert (jnp.ones(3) + 1).shape == (3,)
    with mjax.numpy_rank_promotion("warn"):
        for _ in range(2):
            with pytest.warns(UserWarning, match="different ranks"):
                mjax.make_jaxpr(lambda: jnp.ones(3) + jnp.ones((2, 3)))()


def test_objects_that_convert_themselves() -> None:
    class Wrapped:
        def __jax_array__(self) -> Any:
            return jnp.array([1.0, 2.0])

    np.testing.assert_array_equal(jnp.add(Wrapped(), 1), [2.0, 3.0])
    np.testing.assert_array_equal(jnp.ones(2) * Wrapped(), [1.0, 2.0])
    np.testing.assert_array_equal(mjax.jit(lambda: jnp.sum(Wrapped()))(), 3.0)
