"""Checks of derivatives against finite differences: `check_grads`, `check_jvp`, `check_vjp`.

They serve tests: NumPy computes the differences, outside any compiled program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.ir import dtypes
from mjax._engine.ir.dtypes import DType
from mjax._engine.ir.pytree import tree_leaves, tree_map
from mjax._engine.transforms.forward import jvp, linearize
from mjax._engine.transforms.reverse import vjp

#: Tolerances of derivatives by dtype, per element, absolute and relative.
_TOLERANCES = {
    "float64": 1e-5, "complex128": 1e-5, "float32": 2e-3, "complex64": 1e-3, "float16": 1e-2,
    "bfloat16": 1e-1, "float8_e3m4": 1e-1, "float8_e4m3": 1e-1, "float8_e4m3b11fnuz": 1e-1,
    "float8_e4m3fn": 1e-1, "float8_e4m3fnuz": 1e-1, "float8_e5m2": 1e-1, "float8_e5m2fnuz": 1e-1,
    "float8_e8m0fnu": 1.0, "float4_e2m1fn": 1.0,
}
_STEP = 1e-4
#: Types whose values stay Python scalars.
_NUMBERS = (bool, int, float, complex)

_FRAGMENTS = {
    "args": "args: a tuple of the arguments, pytrees of arrays and numbers of inexact dtype.",
    "tolerances": """\
atol, rtol: the absolute and the relative tolerance, for each element of an
  array. A number, or a dict from dtypes to numbers; by default 2e-3 for float32, 1e-3 for
  complex64, 1e-5 for 64-bit dtypes, 1e-2 for float16, 0.1 for bfloat16.""",
    "eps": "eps: the step of the finite differences; by default 1e-4.",
    "err_msg": "err_msg: prefix of the error messages.",
    "about": """\
The derivative is checked along one random direction, the same in every call, so differences
    cost two evaluations for any number of elements. Tolerances are per element, hence multiplied
    by the number of elements.""",
}


# ---- trees of NumPy arrays -------------------------------------------------------------


def _dtype(x: Any) -> DType:
    known = getattr(x, "dtype", None)
    return np.asarray(x).dtype if known is None else known


def _kept(x: Any, value: Any) -> Any:
    """The value in the dtype of `x`; a Python scalar if `x` is one."""
    out = np.asarray(value).astype(_dtype(x))
    return out.item() if type(x) in _NUMBERS else out


def _direction(random: np.random.RandomState, tree: Any) -> Any:
    """A tree like the given one, with normally distributed random leaves."""

    def draw(x: Any) -> Any:
        shape = np.shape(x)
        value = np.asarray(random.standard_normal(shape))
        if dtypes.is_complex(_dtype(x)):
            value = value + 1j * random.standard_normal(shape)
        return _kept(x, value)

    return tree_map(draw, tree)


def _moved(tree: Any, direction: Any, step: float) -> Any:
    """The tree plus a multiple of the direction; each leaf keeps its dtype."""

    def move(x: Any, t: Any) -> Any:
        dtype = _dtype(x)
        return _kept(x, np.asarray(x) + np.asarray(t) * np.asarray(step).astype(dtype))

    return tree_map(move, tree, direction)


def _difference_quotient(f: Callable[..., Any], args: Any, direction: Any, step: float) -> Any:
    """The central difference of a function along a direction."""

    def quotient(ahead: Any, behind: Any) -> Any:
        a, b = np.asarray(ahead), np.asarray(behind)
        with np.errstate(invalid="ignore"):
            change = np.where(a == b, np.zeros((), a.dtype), a - b)  # inf - inf
        return _kept(ahead, change * np.asarray(0.5 / step).astype(a.dtype))

    ahead, behind = f(*_moved(args, direction, step)), f(*_moved(args, direction, -step))
    return tree_map(quotient, ahead, behind)


def _conjugate(tree: Any) -> Any:
    return tree_map(lambda x: _kept(x, np.conj(np.asarray(x))), tree)


def _inner_product(xs: Any, ys: Any) -> Any:
    """The real inner product of two trees."""
    products = tree_map(lambda x, y: np.real(np.vdot(np.asarray(x), np.asarray(y))), xs, ys)
    return functools.reduce(np.add, tree_leaves(products))


# ---- comparisons -----------------------------------------------------------------------


def _tolerances(given: Any) -> Callable[[DType], float]:
    """The tolerance of each dtype."""
    if given is not None and not isinstance(given, Mapping):
        return lambda dtype: given
    known = {**_TOLERANCES, **{np.dtype(d).name: v for d, v in (given or {}).items()}}
    return lambda dtype: known.get(dtypes.canonicalize(np.dtype(dtype)).name, 0)


def assert_close(actual: Any, expected: Any, atol: Any, rtol: Any, what: str) -> None:
    """Asserts that two trees have equal shapes, and values within the tolerances."""
    absolute, relative = _tolerances(atol), _tolerances(rtol)

    def compare(actual: Any, expected: Any) -> None:
        a, b = np.asarray(actual), np.asarray(expected)
        assert a.shape == b.shape, f"{what}: shape {a.shape}, not {b.shape}"
        if a.dtype == b.dtype == dtypes.float0:
            return
        # By default NumPy's tolerance, 1e-7 relative.
        rest = a.size * max(absolute(a.dtype), absolute(b.dtype))
        factor = b.size * max(relative(a.dtype), relative(b.dtype)) or 1e-7
        a, b = (x if x.dtype.kind in "biufc" else x.astype(np.float32) for x in (a, b))
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(a, b, rtol=factor, atol=rest, err_msg=what)

    tree_map(compare, actual, expected)


def _assert_same_dtypes(xs: Any, ys: Any, what: str) -> None:
    def compare(x: Any, y: Any) -> None:
        a, b = [dtypes.canonicalize(_dtype(v)) for v in (x, y)]
        assert a == b, f"{what}: dtype {a}, not {b}"

    tree_map(compare, xs, ys)


# ---- checks ----------------------------------------------------------------------------


@documented(**_FRAGMENTS)
def check_jvp(f: Callable[..., Any], f_jvp: Callable[..., Any], args: Any, atol: Any = None,
              rtol: Any = None, eps: float = _STEP, err_msg: str = "") -> None:
    """Compares a forward-mode derivative with finite differences.

    [about]

    Args:
      f: the function, called as `f(*args)`.
      f_jvp: returns the value and the derivative, such as `functools.partial(mjax.jvp, f)`.
      [args]
      [tolerances]
      [eps]
      [err_msg]

    Raises:
      AssertionError: values, derivatives or their dtypes differ.

    Example:
      >>> from functools import partial
      >>> from mjax.test_util import check_jvp
      >>> check_jvp(jnp.sin, partial(mjax.jvp, jnp.sin), (np.float32(1),))
    """
    what = f"{err_msg} " if err_msg else ""
    direction = _direction(np.random.RandomState(0), args)
    value, slope = f_jvp(args, direction)
    _assert_same_dtypes(value, slope, f"{what}tangent")
    expected = f(*args)
    _assert_same_dtypes(value, expected, f"{what}primal")
    quotient = _difference_quotient(f, args, direction, eps)
    assert_close(value, expected, atol, rtol, f"{what}primal")
    assert_close(slope, quotient, atol, rtol, f"{what}tangent")


@documented(**_FRAGMENTS)
def check_vjp(f: Callable[..., Any], f_vjp: Callable[..., Any], args: Any, atol: Any = None,
              rtol: Any = None, eps: float = _STEP, err_msg: str = "") -> None:
    """Compares a reverse-mode derivative with finite differences.

    The inner product of direction and gradient must equal that of cotangents and differences.

    [about]

    Args:
      f: the function, called as `f(*args)`.
      f_vjp: returns the value and the function from cotangents to gradients, such as
        `functools.partial(mjax.vjp, f)`.
      [args]
      [tolerances]
      [eps]
      [err_msg]

    Raises:
      AssertionError: values or derivatives differ.

    Example:
      >>> from functools import partial
      >>> from mjax.test_util import check_vjp
      >>> check_vjp(jnp.sin, partial(mjax.vjp, jnp.sin), (np.float32(1),))
    """
    what = f"{err_msg} " if err_msg else ""
    random = np.random.RandomState(0)
    value, pullback = f_vjp(*args)
    assert_close(value, f(*args), atol, rtol, f"{what}primal")
    direction = _direction(random, args)
    quotient = _difference_quotient(f, args, direction, eps)
    cotangents = _direction(random, value)
    gradient = _conjugate(pullback(_conjugate(cotangents)))
    assert_close(_inner_product(direction, gradient), _inner_product(quotient, cotangents),
                  atol, rtol, f"{what}cotangent projection")


@documented(**_FRAGMENTS)
def check_grads(f: Callable[..., Any], args: Any, order: int,
                modes: Sequence[str] = ("fwd", "rev"), atol: Any = None, rtol: Any = None,
                eps: float | None = None) -> None:
    """Compares derivatives with finite differences.

    [about]

    Args:
      f: the function, called as `f(*args)`.
      [args]
      order: the highest order of derivatives to check, in every combination of modes.
      modes: "fwd" for `mjax.jvp`, "rev" for `mjax.vjp`, "lin" for `mjax.linearize`.
      [tolerances]
      [eps]

    Raises:
      AssertionError: a derivative differs; the message names its mode.

    Example:
      >>> from mjax.test_util import check_grads
      >>> check_grads(jnp.tanh, (np.float32(0.5),), order=2)
      >>> check_grads(lambda x: lax.stop_gradient(x) * x, (2.0,), order=1)
      Traceback (most recent call last):
      ...
      AssertionError: ...
    """
    _check_modes(f, tuple(args), order, modes, {"atol": atol, "rtol": rtol, "eps": eps or _STEP},
                 "")


def _check_modes(f: Callable[..., Any], args: Any, order: int, modes: Sequence[str],
                 options: dict[str, Any], path: str) -> None:
    """Checks one order, then recursively the derivatives as functions."""
    forward, reverse = functools.partial(jvp, f), functools.partial(vjp, f)
    linear = functools.partial(_through_linearize, f)
    derivatives = {
        "fwd": ("JVP", check_jvp, forward, forward, (args, args)),
        "rev": ("VJP", check_vjp, reverse, functools.partial(_at_itself, f), args),
        "lin": ("LIN", check_jvp, linear, linear, (args, args)),
    }
    for mode, (name, check, rule, derivative, points) in derivatives.items():
        if mode in modes:
            text = f"{name} of {path}" if path else name
            check(f, rule, args, err_msg=text, **options)
            if order > 1:
                _check_modes(derivative, points, order - 1, modes, options, text)


def _through_linearize(f: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    value, linear = linearize(f, *primals)
    return value, linear(*tangents)


def _at_itself(f: Callable[..., Any], *args: Any) -> Any:
    """The gradients, with the values themselves as cotangents."""
    value, pullback = vjp(f, *args)
    return pullback(value)


__all__ = ["check_grads", "check_jvp", "check_vjp"]
