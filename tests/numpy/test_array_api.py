"""The Python array API standard, 2024.12: against the reference, array-api-strict."""

from __future__ import annotations

import inspect
import operator
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp

strict = pytest.importorskip("array_api_strict")
compat = pytest.importorskip("array_api_compat")


@pytest.fixture(autouse=True)
def _version() -> Any:
    with strict.ArrayAPIStrictFlags(api_version="2024.12"):
        yield


#: Names that array-api-strict alone has.
OWN = {"Device", "ArrayAPIStrictFlags", "__version__", "get_array_api_strict_flags",
       "reset_array_api_strict_flags", "set_array_api_strict_flags"}
NAMESPACES = {"": (strict, jnp), "linalg.": (strict.linalg, jnp.linalg),
              "fft.": (strict.fft, jnp.fft)}
NAMES = [prefix + n for prefix, (theirs, _) in NAMESPACES.items() for n in theirs.__all__
         if n not in OWN]


def both(name: str) -> list[Any]:
    """The reference's object and ours."""
    path = operator.attrgetter(name)
    return [path(strict), path(jnp)]


def test_names_and_parameters() -> None:
    wrong = []
    for name in NAMES:
        theirs, ours = both(name)
        if not callable(theirs) or inspect.isclass(theirs):
            continue
        wanted, have = [inspect.signature(f).parameters for f in (theirs, ours)]
        if any(p.kind is p.VAR_KEYWORD for p in have.values()):
            continue
        wrong += [f"{name}: {p}" for p in wanted.values()
                  if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in have]
    assert not wrong


def test_attributes_of_arrays() -> None:
    theirs = type(strict.ones((2, 2)))
    # Arrays are immutable: `x += y` is `x = x + y`, for which Python wants no method.
    missing = [n for n in dir(theirs) if (not n.startswith("_") or n.endswith("__"))
               and n not in dir(jnp.ones((2, 2)))]
    assert all(n.startswith("__i") and n.replace("__i", "__") not in missing for n in missing)
    assert jnp.ones((2, 2)).__array_namespace__() is jnp
    assert jnp.ones((2, 2)).__array_namespace__(api_version="2024.12") is jnp
    with pytest.raises(ValueError, match="follows version 2024.12 of the array API"):
        jnp.ones(2).__array_namespace__(api_version="2021.12")


def test_tracers_are_arrays() -> None:
    def f(x: Any) -> Any:
        assert x.__array_namespace__() is jnp
        assert x.to_device(mjax.devices()[0]).shape == x.shape
        return compat.array_namespace(x).sum(x.mT, axis=0)

    np.testing.assert_array_equal(mjax.jit(f)(np.arange(6.0).reshape(2, 3)), [3, 12])


# ---- inspection ------------------------------------------------------------------------


@pytest.mark.parametrize("x64", [False, True])
def test_inspection(x64: bool) -> None:
    theirs = strict.__array_namespace_info__()
    with mjax.enable_x64(x64):
        ours = jnp.__array_namespace_info__()
        assert ours.capabilities().keys() == theirs.capabilities().keys()
        assert ours.default_device() is None
        assert ours.devices() == [None, *mjax.devices()]
        wide = ("64", "128") if not x64 else ("no such name",)
        for kind in (None, "bool", "signed integer", "unsigned integer", "integral",
                     "real floating", "complex floating", "numeric", ("bool", "integral")):
            names = {n for n in theirs.dtypes(kind=kind)
                     if n == "complex64" or not n.endswith(wide)}
            found = ours.dtypes(kind=kind)
            assert {n: jnp.empty(0, n).dtype for n in names} == found
        kinds = ours.default_dtypes(device=mjax.devices()[0])
        assert kinds.keys() == theirs.default_dtypes().keys()
        assert kinds["real floating"] == jnp.ones(1).dtype
        assert kinds["indexing"] == jnp.argmax(jnp.ones(1)).dtype
        with pytest.raises(KeyError, match="kind must be one of"):
            ours.dtypes(kind="decimal")
    assert jnp.__array_api_version__ == strict.__array_api_version__


# ---- the package for users -------------------------------------------------------------


def test_compat() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    assert compat.is_array_api_obj(x)
    assert compat.array_namespace(x, x) is jnp
    device = compat.device(x)
    assert device == x.device == mjax.devices()[0]
    assert compat.device(compat.to_device(x, device)) == device
    assert compat.size(x) == 6


# ---- values ----------------------------------------------------------------------------

rng = np.random.default_rng(0)
F = rng.uniform(0.1, 0.9, (2, 3))
SQUARE = rng.normal(size=(3, 3)) + 3 * np.eye(3)
POSITIVE = SQUARE @ SQUARE.T
N, B, C = np.array([[3, 1, 2], [4, 5, 1]]), F > 0.5, F + 1j * F[::-1]
UNARY = {
    "abs acos asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log "
    "log1p log10 log2 negative positive reciprocal round sign signbit sin sinh sqrt square tan "
    "tanh trunc all any argmax argmin argsort max mean min nonzero ones_like prod sort std sum "
    "unique_values var zeros_like cumulative_sum cumulative_prod matrix_transpose squeeze flip "
    "count_nonzero empty_like": F,
    "acosh": F + 1, "bitwise_invert": N, "logical_not": B, "conj imag real": C,
    "linalg.det linalg.inv linalg.slogdet linalg.svdvals linalg.trace linalg.diagonal "
    "linalg.matrix_norm linalg.matrix_rank linalg.pinv linalg.matrix_transpose": SQUARE,
    "linalg.cholesky linalg.eigvalsh": POSITIVE, "linalg.vector_norm": F,
    "fft.fft fft.ifft fft.fftn fft.ifftn fft.irfft fft.irfftn fft.hfft fft.fftshift fft.ifftshift":
        C, "fft.rfft fft.rfftn fft.ihfft": F,
    "tril triu": SQUARE,
}
BINARY = {
    "add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal "
    "logaddexp maximum minimum multiply nextafter not_equal pow remainder subtract vecdot "
    "linalg.vecdot": (F, F[::-1]),
    "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor": (N, N[::-1]),
    "logical_and logical_or logical_xor": (B, B[::-1]),
    "matmul linalg.matmul linalg.solve tensordot linalg.tensordot": (SQUARE, POSITIVE),
    "linalg.outer": (F[0], F[1]), "linalg.cross": (F, F[::-1]),
}


def _same(name: str, *args: Any, **kwargs: Any) -> None:
    theirs, ours = both(name)
    expected, found = [
        f(*[_in(m, a) for a in args], **{k: _in(m, v) for k, v in kwargs.items()})
        for m, f in ((strict, theirs), (jnp, ours))]
    if not isinstance(expected, (tuple, list)):
        expected, found = [expected], [found]
    assert len(expected) == len(found)
    for e, f in zip(expected, found, strict=True):
        assert (e.shape, str(e.dtype).split(".")[-1]) == (f.shape, str(f.dtype)), name
        if name not in ("empty", "empty_like"):
            np.testing.assert_allclose(np.asarray(f), np.asarray(e), rtol=1e-6, atol=1e-6,
                                       err_msg=name)


def _in(namespace: Any, x: Any) -> Any:
    if isinstance(x, list):
        return [_in(namespace, part) for part in x]
    return namespace.asarray(x) if isinstance(x, np.ndarray) else x


@pytest.mark.slow
def test_functions_of_arrays() -> None:
    with mjax.enable_x64():
        for names, x in UNARY.items():
            for name in names.split():
                args: tuple[Any, ...] = (x,)
                kwargs = {"axis": 0} if name in ("squeeze", "cumulative_sum",
                                                 "cumulative_prod") else {}
                _same(name, *((x[None],) if name == "squeeze" else args), **kwargs)
        for names, pair in BINARY.items():
            for name in names.split():
                _same(name, *pair)
                if len(pair[0].shape) == 2 and "." not in name and name not in (
                        "matmul", "tensordot"):
                    _same(name, pair[0], pair[1][0])


def test_axes() -> None:
    with mjax.enable_x64():
        for name in ("all", "any", "max", "mean", "min", "prod", "std", "sum", "var"):
            x = B if name in ("all", "any") else F
            for axis in (0, -1, (0, 1)):
                _same(name, x, axis=axis, keepdims=True)
        for name in ("std", "var"):
            _same(name, F, correction=1.0)
        for name in ("sum", "prod", "cumulative_sum", "cumulative_prod"):
            _same(name, N, axis=1, dtype=None)
        for name in ("argmax", "argmin"):
            _same(name, F, axis=1, keepdims=True)
        for name in ("sort", "argsort"):
            _same(name, F, axis=0, descending=True, stable=True)
        for name in ("cumulative_sum", "cumulative_prod"):
            _same(name, F, axis=1, include_initial=True)
        _same("linalg.vector_norm", F, axis=0, keepdims=True, ord=1)
        _same("linalg.matrix_norm", SQUARE, keepdims=True, ord=2)
        _same("linalg.matrix_power", SQUARE, 3)
        _same("diff", F, axis=1, prepend=F[:, :1])


def test_shapes_and_places() -> None:
    with mjax.enable_x64():
        _same("broadcast_to", F[0], (2, 3))
        _same("broadcast_arrays", F, F[0])
        _same("concat", [F, F], axis=1)
        _same("stack", [F, F], axis=-1)
        _same("unstack", F, axis=1)
        _same("expand_dims", F, axis=1)
        _same("flip", F, axis=0)
        _same("moveaxis", F, 0, 1)
        _same("permute_dims", F, (1, 0))
        _same("repeat", F, 2, axis=0)
        _same("reshape", F, (3, 2))
        _same("roll", F, 1, axis=0)
        _same("tile", F, (2, 1))
        _same("take", F, np.array([1, 0]), axis=1)
        _same("take_along_axis", F, np.array([[1], [0]]), axis=1)
        _same("where", B, F, F[::-1])
        _same("clip", F, 0.3, 0.6)
        _same("meshgrid", F[0], F[1], indexing="ij")
        np.testing.assert_array_equal(  # whose dtype is int32 in JAX
            jnp.searchsorted(F[0], F[1], side="right", sorter=jnp.argsort(F[0])),
            np.asarray(strict.searchsorted(
                strict.asarray(F[0]), strict.asarray(F[1]), side="right",
                sorter=strict.argsort(strict.asarray(F[0])))))
        for name in ("unique_all", "unique_counts", "unique_inverse"):
            _same(name, N)


def test_creation() -> None:
    with mjax.enable_x64():
        for kwargs in ({}, {"device": None}):
            _same("zeros", (2, 3), **kwargs)
            _same("ones", 3, **kwargs)
            _same("empty", (0, 2), **kwargs)
            _same("full", (2,), 1.5, **kwargs)
            _same("eye", 3, 4, k=1, **kwargs)
            _same("linspace", 0.0, 1.0, 5, endpoint=False, **kwargs)
            _same("arange", 1, 9, 2, **kwargs)
            _same("full_like", F, 2.0, **kwargs)
            _same("fft.fftfreq", 5, d=0.5, **kwargs)
            _same("fft.rfftfreq", 5, d=0.5, **kwargs)
        x = jnp.asarray(F)
        assert jnp.from_dlpack(x).shape == F.shape
        assert jnp.astype(x, jnp.float32, copy=False).dtype == np.float32


def test_factorizations() -> None:
    with mjax.enable_x64():
        for name in ("linalg.eigh", "linalg.qr", "linalg.svd"):
            theirs, ours = both(name)
            expected, found = theirs(strict.asarray(POSITIVE)), ours(jnp.asarray(POSITIVE))
            assert type(found)._fields == type(expected)._fields
            assert [x.shape for x in found] == [x.shape for x in expected]


def test_questions_about_dtypes() -> None:
    with mjax.enable_x64():
        for name in ("float32", "int8", "complex128", "bool"):
            own, other = getattr(strict, name), getattr(jnp, name)
            for kind in ("bool", "integral", "real floating", "numeric", "complex floating"):
                assert strict.isdtype(own, kind) == jnp.isdtype(other, kind)
            assert strict.can_cast(own, own) == jnp.can_cast(other, other)
        assert not jnp.can_cast(jnp.float64, jnp.float32)
        assert jnp.result_type(jnp.int8, jnp.int16) == jnp.int16
        for name in ("bits", "eps", "max", "min", "smallest_normal", "dtype"):
            assert hasattr(jnp.finfo(jnp.float32), name)
        for name in ("bits", "max", "min", "dtype"):
            assert hasattr(jnp.iinfo(jnp.int8), name)
        assert jnp.broadcast_shapes((2, 1), (3,)) == (2, 3)


OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt",
             "ge")


def test_operators() -> None:
    for name in OPERATORS:
        for pair in ((F, F[::-1]), (F, 2.0)):
            expected, found = [getattr(operator, name)(*[_in(m, x) for x in pair])
                               for m in (strict, jnp)]
            np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5)
    for name in ("and_", "or_", "xor", "lshift", "rshift"):
        expected, found = [getattr(operator, name)(_in(m, N), _in(m, N[::-1]))
                           for m in (strict, jnp)]
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    for name in ("neg", "pos", "abs"):
        np.testing.assert_allclose(getattr(operator, name)(jnp.asarray(F)),
                                   getattr(operator, name)(F), rtol=1e-6)
    np.testing.assert_array_equal(~jnp.asarray(N), ~N)
    one = jnp.asarray(3)
    assert (bool(one), int(one), float(one), complex(one), operator.index(one)) == (
        True, 3, 3.0, 3 + 0j, 3)
