"""Elementwise functions, creation, reductions: the same values, dtypes and weak types as JAX's."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import jax
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree, assert_close, facts

UNARY = """
    abs absolute fabs negative positive sign square reciprocal floor ceil trunc rint sqrt cbrt exp
    exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
    arctanh sinc deg2rad rad2deg invert bitwise_count isnan isinf isfinite isneginf isposinf
    signbit real imag conj angle logical_not i0 nan_to_num iscomplex isreal round modf
    sum prod max min mean var std all any argmax argmin cumsum cumprod ptp median nansum nanprod
    nanmax nanmin nanmean nanvar nanstd nanargmax nanmedian count_nonzero average zeros_like
    ones_like diag diagflat shape ndim size iscomplexobj copy
    """.split()  # noqa: SIM905
BINARY = """
    add subtract multiply divide floor_divide mod fmod divmod maximum minimum fmax fmin bitwise_and
    bitwise_or bitwise_xor left_shift right_shift equal not_equal less greater less_equal
    greater_equal logical_and logical_or logical_xor logaddexp logaddexp2 hypot arctan2 copysign
    nextafter heaviside power float_power isclose allclose array_equal array_equiv full_like
    """.split()  # noqa: SIM905

DTYPES = ("bool", "uint8", "int8", "uint32", "int32", "bfloat16", "float16", "float32",
          "complex64")


def values_of(dtype: str) -> Any:
    """Numbers inside the domains of most functions."""
    numbers = np.array([[1.5, 0.25, 3.0], [2.0, 0.5, 1.0]])
    if dtype == "bool":
        return np.array([[True, False, True], [True, True, False]])
    if dtype == "complex64":
        numbers = numbers + 0.5j * numbers[::-1]
    return numbers.astype(mjax.numpy.dtype(dtype))


def outcome(library: Any, name: str, *args: Any) -> Any:
    """The results as a flat list, or the class of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            out = getattr(library.numpy, name)(*args)
        except Exception as error:
            return next(kind for kind in (TypeError, ValueError, NotImplementedError, Exception)
                        if isinstance(error, kind))
    return list(out) if isinstance(out, (tuple, list)) else [out]


def assert_same(name: str, *args: Any) -> None:
    ours = outcome(mjax, name, *[mjax.device_put(a) if isinstance(a, np.ndarray) else a
                                 for a in args])
    theirs = outcome(jax, name, *[jax.device_put(a) if isinstance(a, np.ndarray) else a
                                  for a in args])
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours == theirs or {ours, theirs} <= {TypeError, ValueError}
        return
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if facts(b)[1:2] == ("bool",):
            assert facts(a)[:2] == facts(b)[:2]
        else:
            assert facts(a) == facts(b)
        assert_close(a, b, 1e-5, name)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name: str) -> None:
    for dtype in DTYPES:
        assert_same(name, values_of(dtype))
    for scalar in (True, 3, 0.5, 0.5 + 1j):
        assert_same(name, scalar)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays(name: str) -> None:
    for dtype in DTYPES:
        a, b = values_of(dtype), values_of(dtype)[:1]
        if (name, dtype) == ("fmod", "bool"):
            b = np.ones_like(b)  # True modulo False is 0, as in NumPy; to jax it is 1
        assert_same(name, a, b)
    for scalar in (True, 3, 0.5, 0.5 + 1j):
        assert_same(name, scalar, scalar)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BINARY, "where"])
def test_types_of_all_pairs(name: str) -> None:
    """Shapes, dtypes and weak types of results, or that there are none.

    Python's bools are left out: to jax they are weak, but bool does not have a weak kind.
    """
    for a, b in itertools.product([*DTYPES, 3, 0.5, 0.5 + 1j], repeat=2):
        if name == "full_like" and b == 0.5 + 1j:
            continue  # jax refuses it for arrays alone
        values = [values_of(v)[0] if isinstance(v, str) else v for v in (a, b)]
        args = [np.array([True, False, True])] * (name == "where") + values
        assert types(mjax, name, args) == types(jax, name, args), f"{name} of {a} and {b}"


def types(m: Any, name: str, args: list[Any]) -> Any:
    def f() -> Any:
        return getattr(m.numpy, name)(*[m.device_put(x) if isinstance(x, np.ndarray) else x
                                        for x in args])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return [(x.shape, str(x.dtype), x.weak_type and x.dtype != bool)
                    for x in m.tree_util.tree_leaves(m.eval_shape(f))]
        except (TypeError, ValueError):
            return None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["add", "maximum", "divide", "equal", "power", "where"])
@pytest.mark.parametrize("x64", [False, True])
def test_promotion_of_all_pairs(name: str, x64: bool) -> None:
    dtypes = DTYPES + (("int64", "float64", "complex128") if x64 else ())
    with mjax.enable_x64(x64), jax.enable_x64(x64):
        for a, b in itertools.product([*dtypes, 2, 0.5, 1j], repeat=2):
            values = [values_of(v)[0] if isinstance(v, str) else v for v in (a, b)]
            assert_same(name, *([np.array([True, False, True])] if name == "where" else []),
                        *values)


EXPRESSIONS = """
    jnp.array(3)
    jnp.array([1, 2.0])
    jnp.array([True, 2])
    jnp.array([a, a])
    jnp.array([a[0], 1])
    jnp.array([])
    jnp.array([[1], [2]], dtype=complex)
    jnp.array([1, 2], ndmin=3)
    jnp.array([np.float32(1), 2])
    jnp.array([np.float64(1), 2])
    jnp.array([jnp.float16(1), 2])
    jnp.asarray(np.arange(3))
    jnp.asarray(np.float64(2))
    jnp.asarray(range(3))
    jnp.zeros(3, int)
    jnp.zeros((2,), "bfloat16")
    jnp.zeros_like(1.0)
    jnp.zeros_like(a, shape=(2,))
    jnp.ones_like(a, dtype=bool)
    jnp.full((2,), 1)
    jnp.full((2,), 1.5)
    jnp.full((2, 3), a)
    jnp.full((2,), True)
    jnp.full((), 2, "int8")
    jnp.full_like(a, 1.5)
    jnp.full_like(f, a)
    jnp.arange(5)
    jnp.arange(5.0)
    jnp.arange(2, 9, 3)
    jnp.arange(5, 0, -2)
    jnp.arange(0, 1, 0.3)
    jnp.arange(3, dtype="float16")
    jnp.arange(300, dtype="uint8")
    jnp.linspace(0, 1, 5)
    jnp.linspace(0, 1, 3, dtype=int)
    jnp.linspace(0, 1, 4, endpoint=False)
    jnp.linspace(0, 1, 1)
    jnp.linspace(0, 1, 0)
    jnp.linspace(0, 1, 3, retstep=True)
    jnp.linspace(a, 5, 3, axis=-1)
    jnp.linspace(0, 1j, 3)
    jnp.logspace(0, 2, 3)
    jnp.logspace(0, 2, 3, base=2)
    jnp.geomspace(1, 100, 3)
    jnp.geomspace(-1, -100, 3, endpoint=False)
    jnp.eye(2, 3, k=1, dtype=int)
    jnp.identity(2)
    jnp.tri(2, 3, -1)
    jnp.tril(f)
    jnp.triu(f, 1)
    jnp.triu(f > 1)
    jnp.diag(a, 1)
    jnp.diag(a, -2)
    jnp.diag(f, 1)
    jnp.diag(f, -1)
    jnp.diagonal(f3, 1, 0, 2)
    jnp.trace(f)
    jnp.trace(a[None].astype("int8"), dtype="float32")
    jnp.tril_indices(3, -1)
    jnp.triu_indices(2, 0, 3)
    jnp.diag_indices(2, 3)
    jnp.meshgrid(a, f[0])
    jnp.meshgrid(a, f[0, :2], indexing="ij", sparse=True)
    jnp.indices((2, 3))
    jnp.indices((2, 3), dtype=float, sparse=True)
    jnp.fromfunction(lambda i, j: i + j, (2, 2))
    jnp.frombuffer(b"abcd", dtype="uint8")
    jnp.astype(f, int)
    jnp.float32(1)
    jnp.int32([1, 2])
    jnp.uint8(3.7)
    jnp.where(a > 1, 1, 2)
    jnp.where(a > 1, 1.0, a)
    jnp.where(f, a, 2)
    jnp.where(a)
    jnp.where(a, size=4, fill_value=-1)
    jnp.nonzero(f, size=7)
    jnp.argwhere(f > 1)
    jnp.flatnonzero(f > 1, size=2)
    jnp.select([a > 1, a > 0], [a, -a], 7)
    jnp.select([a > 1], [1.0], 7)
    jnp.piecewise(f, [f < 1, f >= 1], [-1, lambda x: x * 2])
    jnp.clip(a, 1, 2)
    jnp.clip(a, 0.5)
    jnp.clip(f, max=jnp.array([0.5, 1, 2]))
    jnp.round(f, 1)
    jnp.round(100 * f, -1)
    jnp.angle(c, deg=True)
    jnp.nan_to_num(n, nan=1, posinf=2)
    jnp.sum(f, axis=1, keepdims=True)
    jnp.sum(f, axis=(0, -1))
    jnp.sum(f, axis=())
    jnp.sum(f, where=f > 1)
    jnp.sum(f, where=f3.transpose(2, 0, 1) > 40)
    jnp.sum(f, where=f3.transpose(2, 0, 1) > 40, axis=-1, keepdims=True)
    jnp.max(f, where=f3.transpose(2, 0, 1) > 40, initial=0, axis=0, keepdims=True)
    jnp.any(f > 1, where=f3.transpose(2, 0, 1) > 40)
    jnp.nanmean(f, where=f3.transpose(2, 0, 1) > 40, axis=1)
    jnp.sum(f, initial=2)
    jnp.sum(f, dtype="int8")
    jnp.sum(f, dtype=bool)
    jnp.sum(a.astype("int8"), promote_integers=False)
    jnp.sum(jnp.float16(1) * f)
    jnp.prod(f, axis=0, where=f > 1, initial=3)
    jnp.max(f, axis=1, initial=2.5)
    jnp.max(f, where=f < 2, initial=-1)
    jnp.min(a, initial=-3)
    jnp.all(f > 1, axis=0)
    jnp.any(f > 1, axis=1, where=f < 2)
    jnp.argmax(f, axis=1, keepdims=True)
    jnp.argmax(f, keepdims=True)
    jnp.argmin(n)
    jnp.nanargmin(n)
    jnp.cumsum(f)
    jnp.cumsum(f, axis=1, dtype=int)
    jnp.cumprod(f, axis=0)
    jnp.nancumsum(n)
    jnp.cumulative_sum(a, include_initial=True)
    jnp.mean(f, axis=0, where=f > 1)
    jnp.mean(a, dtype="float16")
    jnp.var(f, axis=0, ddof=1)
    jnp.var(f, correction=1, keepdims=True)
    jnp.var(c)
    jnp.var(f, mean=2.0)
    jnp.std(f, axis=1, where=f > 1)
    jnp.nanstd(n, ddof=1)
    jnp.nanmean(n, keepdims=True)
    jnp.average(f, axis=0, weights=jnp.array([1, 3.0]), returned=True)
    jnp.average(f, weights=f)
    jnp.median(f, axis=1)
    jnp.median(n)
    jnp.quantile(f, jnp.array([0.2, 0.7]), axis=1, keepdims=True)
    jnp.quantile(f, 0.3, method="lower")
    jnp.quantile(f, 0.3, method="nearest")
    jnp.nanquantile(n, 0.3)
    jnp.cov(f)
    jnp.cov(f, f[0], rowvar=True, bias=True)
    jnp.cov(f, fweights=a + 1, aweights=f[0])
    jnp.cov(f, fweights=a - 1, aweights=-f[0])
    jnp.cov(f.astype("bfloat16"), aweights=f[0])
    jnp.cov(f.astype("bfloat16"), fweights=a + 1)
    jnp.corrcoef(f)
    jnp.diff(f, n=2)
    jnp.diff(f, prepend=0)
    jnp.diff(jnp.array([True, False]))
    jnp.ediff1d(a, to_end=7)
    jnp.gradient(f3)
    jnp.trapezoid(f, dx=0.5)
    jnp.interp(jnp.array([-1.0, 0.7, 9.0]), f[0], a * 1.0)
    jnp.unwrap(10 * f)
    jnp.polyval(jnp.array([1, 2, 3]), f)
    jnp.polyadd(a, f[0, :2])
    jnp.polyder(f[0])
    jnp.frexp(f)
    jnp.ldexp(f, a)
    jnp.isclose(f, f + 1e-6)
    jnp.allclose(n, n, equal_nan=True)
    jnp.array_equal(n, n, equal_nan=True)
    jnp.result_type(a, 1.0)
    jnp.promote_types("int8", "float16")
    jnp.power(a, a)
    jnp.power(2, a)
    jnp.power(f, 3)
    jnp.power(f, a)
    jnp.vectorize(lambda x, y: jnp.sum(x) + y, signature="(n),()->()")(f, 2.0)
    jnp.apply_along_axis(jnp.sum, 1, f3)
    a + 1
    a + 1.0
    1 - a
    a / 2
    2 / a.astype("float16")
    a // 2
    -7 // (a + 2)
    f % 0.7
    (-f) % 0.7
    divmod(f, 0.4)
    a ** 2
    f ** 2.5
    2 ** a
    a.astype("int8") + 1000
    a << 2
    a.astype("uint8") & ~1
    a @ f.T
    f == a
    a < 2
    -a
    abs(-f)
    ~a
    round(f, 1)
    round(f)
    round(f.astype('float16'))
    round(f.astype('bfloat16'))
    round(a)
    round(f, 0)
    np.ones(3) + a
    np.float32(2) * a
    a.astype("float16") * np.float32(2)
    f.T
    f.mean(axis=0)
    f.reshape(3, 2).sum(0)
    f.astype("int32").max()
    f.view("int32")
    f.flatten()
    c.real
    """.strip().splitlines()


@pytest.mark.parametrize("text", [t.strip() for t in EXPRESSIONS])
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_expressions(text: str, jitted: bool) -> None:
    results = []
    for m in (mjax, jax):
        arrays = {name: m.numpy.asarray(value) for name, value in VALUES.items()}

        def program(arrays: Any, m: Any = m) -> Any:
            return eval(text, {"jnp": m.numpy, "np": np, "m": m}, arrays)

        if jitted and any(word in text for word in NOT_UNDER_JIT):
            pytest.skip("its shape depends on values, or its result is not an array")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append((m.jit(program) if jitted else program)(arrays))
    ours, theirs = ([r] if not isinstance(r, (list, tuple)) else list(r) for r in results)
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs, strict=True):
        if not isinstance(y, jax.Array):
            assert x == y
        else:
            assert facts(x) == facts(y)
            assert_close(x, y, 1e-5, text)


NOT_UNDER_JIT = ("jnp.where(a)", "argwhere", "result_type", "promote_types")
VALUES = {
    "a": np.arange(3), "f": np.array([[1.5, 0.25, 3.0], [2.0, 0.5, 1.0]], np.float32),
    "f3": np.arange(24, dtype=np.float32).reshape(2, 3, 4) ** 2,
    "c": np.array([1 + 2j, -1j], np.complex64), "n": np.array([1.0, np.nan, -2.0, 3], np.float32),
}


@pytest.mark.parametrize("program", [
    lambda m: m.numpy.digitize(0.5, np.array([1.375 + 1.125j, 1.625 + 2j, 1.7])),
    lambda m: m.numpy.digitize(np.arange(3.0), np.array([2, np.nan])),
    lambda m: m.numpy.polyval(np.array([[True], [True]]), np.array([True, False])),
    lambda m: m.jvp(m.numpy.var, [np.ones((0, 3), np.float32)], [np.ones((0, 3), np.float32)]),
    lambda m: m.grad(lambda x: m.numpy.std(x, ddof=1))(np.ones(1, np.float32)),
    lambda m: m.lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, m.lax.dot_general(
        np.array([1j, 2], np.complex64), np.array([1j, 3], np.complex64),
        (((0,), (0,)), ((), ())), preferred_element_type=np.float32)), (0, np.float32(0))),
], ids=["complex bins", "bins that end in NaN", "boolean polynomial", "variance of nothing",
        "no degrees of freedom",
        "real product of complex constants"])
def test_found_by_the_fuzzer(program):
    assert_agree(program)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cumlogsumexp"])
def test_running_reductions_of_no_booleans_are_refused(name):
    for m in (mjax, jax):
        with pytest.raises(TypeError):
            getattr(m.lax, name)(np.zeros(0, bool))


def test_zeros_of_tangents_of_integers():
    zero = np.zeros((2,), jax.dtypes.float0)
    assert_agree(lambda m: [m.numpy.zeros_like(zero), m.numpy.zeros(3, zero.dtype)])
