"""Tables of calls of functions that NumPy has, too: `call("roll", X, 2, axis=0)`.

Each is made with arrays, with NumPy arrays and under jit, and compared with NumPy's result; in
the inexact arrays the derivative is compared with finite differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.engine.primitives.harness import check_derivatives

_NARROW = {np.dtype(a): np.dtype(b) for a, b in (
    ("int64", "int32"), ("uint64", "uint32"), ("float64", "float32"),
    ("complex128", "complex64"))}


@dataclass
class Call:
    """A row of a table.

    Args:
      name: the function, of `jnp` and of `np`; may be dotted.
      args, kwargs: its arguments; NumPy arrays in them, or in lists and tuples, become arrays.
      reference: computes the expected result instead of the function of `np`.
      static: its values must be known: not made under jit.
      derivative: whether it has one.
      tolerance: relative.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    reference: Callable[..., Any] | None = None
    static: bool = False
    derivative: bool = True
    tolerance: float = 2e-5

    def __str__(self) -> str:
        shown = [*map(_show, self.args), *(f"{k}={_show(v)}" for k, v in self.kwargs.items())]
        return f"{self.name}({', '.join(shown)})"

    def function(self, namespace: Any) -> Callable[..., Any]:
        """The function in a namespace."""
        for part in self.name.split("."):
            namespace = getattr(namespace, part)
        return namespace

    def arrays(self) -> list[Any]:
        """The arrays among the arguments."""
        found: list[Any] = []
        _replace((self.args, self.kwargs), lambda x: found.append(x) or x)
        return found

    def with_arrays(self, arrays: Sequence[Any]) -> list[Any]:
        """Results as a list, with other arrays in the places of the arguments'."""
        given = iter(arrays)
        args, kwargs = _replace((self.args, self.kwargs), lambda x: next(given))
        return leaves(self.function(jnp)(*args, **kwargs))

    def expected(self) -> list[Any]:
        """NumPy's results, at 32 bits."""
        function = self.reference or self.function(np)
        outs = [np.asarray(x) for x in leaves(function(*self.args, **self.kwargs))]
        return [x.astype(_NARROW.get(x.dtype, x.dtype)) for x in outs]


def call(name: str, *args: Any, reference: Any = None, static: bool = False,
         derivative: bool = True, tolerance: float = 2e-5, **kwargs: Any) -> Call:
    """A row of a table; see `Call`."""
    return Call(name, args, kwargs, reference, static, derivative, tolerance)


def leaves(out: Any) -> list[Any]:
    """Results in nested lists and tuples as a list."""
    if isinstance(out, (list, tuple)):
        return [leaf for part in out for leaf in leaves(part)]
    return [out]


def _replace(x: Any, f: Callable[[Any], Any]) -> Any:
    if isinstance(x, np.ndarray):
        return f(x)
    if isinstance(x, dict):
        return {k: _replace(v, f) for k, v in x.items()}
    if type(x) in (list, tuple):
        return type(x)(_replace(v, f) for v in x)
    return x


def _show(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"{x.dtype.kind}{x.dtype.itemsize}{list(x.shape)}".replace(" ", "")
    return f"[{', '.join(map(_show, x))}]" if isinstance(x, (list, tuple)) else str(x)


def assert_same(actual: Sequence[Any], expected: Sequence[Any], tolerance: float) -> None:
    """Equal shapes, dtypes and values."""
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert isinstance(a, mjax.Array)
        assert (a.shape, a.dtype) == (e.shape, e.dtype)
        np.testing.assert_allclose(np.asarray(a), e, rtol=tolerance, atol=tolerance)


def check(row: Call) -> None:
    """Compares a call with NumPy's, evaluated and under jit."""
    expected, arrays = row.expected(), row.arrays()
    assert_same(row.with_arrays(list(map(jnp.asarray, arrays))), expected, row.tolerance)
    if arrays:
        assert_same(row.with_arrays(arrays), expected, row.tolerance)
    if not row.static:
        assert_same(mjax.jit(row.with_arrays)(arrays), expected, row.tolerance)


def check_derivative(row: Call) -> None:
    """jvp against finite differences and vjp against jvp, in all inexact arrays."""
    arrays = row.arrays()
    wide = [x.astype(np.result_type(x, np.float64)) if x.dtype.kind in "fc" else x for x in arrays]
    inexact = [i for i, x in enumerate(wide) if x.dtype.kind in "fc"]

    def f(*some: Any) -> tuple[Any, ...]:
        given = dict(zip(inexact, some, strict=True))
        outs = row.with_arrays([given.get(i, x) for i, x in enumerate(arrays)])
        return tuple(x for x in outs if x.dtype.kind in "fc")

    with mjax.enable_x64():
        check_derivatives(f, [wide[i] for i in inexact], np.random.default_rng(0), 1)


def table(rows: Sequence[Call]) -> Any:
    """Decorator of a test `(row)`: one test for each call, after three of a function slow ones."""
    params, seen = [], Counter[str]()
    for i, row in enumerate(rows):
        seen[row.name] += 1
        marks = [pytest.mark.slow] if seen[row.name] > 3 else []
        params.append(pytest.param(row, id=f"{i}-{row}", marks=marks))
    return pytest.mark.parametrize("row", params)


def differentiable(rows: Sequence[Call]) -> list[Call]:
    """The rows that have a derivative, and something to differentiate."""
    return [r for r in rows if r.derivative and not r.static
            and any(x.dtype.kind in "fc" and x.size for x in r.arrays())]
