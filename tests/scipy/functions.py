"""Tables of elementwise functions that SciPy has, too, and what each of them must pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mjax
from tests.engine.primitives.harness import check_derivatives

INF, NAN = np.inf, np.nan
#: Points everywhere: ends, zeros of both signs, small and large ones.
EVERYWHERE = (-INF, -40.0, -12.0, -3.0, -2.5, -1.0, -0.3, -1e-10, -0.0, 0.0, 1e-30, 0.1, 0.5, 0.99,
              1.0, 1.5, 2.0, 5.5, 12.0, 40.0, 170.0, INF, NAN)
POSITIVE = tuple([x for x in EVERYWHERE if x > 0])
#: Moderate ones, where rounding of the arguments to few digits does little.
MILD = (0.25, 0.75, 1.5, 3.0)


@dataclass
class Function:
    """A row of a table.

    Args:
      name: the function, dotted, under `mjax.scipy` and `scipy`.
      points: of each argument; they are combined.
      tolerance: relative, of float64.
      mild: points of each argument for derivatives and narrow dtypes.
      slopes: the arguments that it has derivatives in; None: all.
      reference: instead of SciPy's.
      narrow: tolerance of float32, relative to the greatest result.
      keywords: given to ours.
    """

    name: str
    points: Sequence[Sequence[float]]
    tolerance: float = 1e-13
    mild: Sequence[Sequence[float]] | None = None
    slopes: Sequence[int] | None = None
    reference: Callable[..., Any] | None = None
    narrow: float = 2e-5

    def __str__(self) -> str:
        return self.name

    @property
    def ours(self) -> Callable[..., Any]:
        return _find(mjax.scipy, self.name)

    def expected(self, *args: Any) -> Any:
        import scipy.special
        import scipy.stats

        with np.errstate(all="ignore"):
            return (self.reference or _find(scipy, self.name))(*args)

    def mild_points(self) -> list[np.ndarray[Any, Any]]:
        return combined(self.mild or [MILD] * len(self.points))


def _find(namespace: Any, name: str) -> Any:
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


def combined(points: Sequence[Sequence[float]]) -> list[np.ndarray[Any, Any]]:
    """All combinations of the arguments' points."""
    return [x.ravel() for x in np.meshgrid(*points)]


def outputs(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else [x]


def check_values(row: Function) -> None:
    """In float64, with infinities, zeros and NaN."""
    args = combined(row.points)
    with mjax.enable_x64():
        ours = outputs(row.ours(*args))
    for a, e in zip(ours, outputs(row.expected(*args)), strict=True):
        assert (a.shape, a.dtype) == (args[0].shape, np.float64)
        np.testing.assert_allclose(np.asarray(a), e, rtol=row.tolerance, atol=1e-300)


def check_dtype(row: Function, dtype: Any) -> None:
    """In a narrower dtype, under jit, of arrays and of a scalar."""
    args = [x.astype(dtype) for x in row.mild_points()]
    tolerance = max(row.narrow, 4 * float(ml_dtypes.finfo(dtype).eps))
    expected = outputs(row.expected(*[x.astype(np.float64) for x in args]))
    # The scalar on its own: its program has no axes.
    for index in (slice(None), 0):
        ours = outputs(mjax.jit(row.ours)(*[x[index] for x in args]))
        for a, e in zip(ours, expected, strict=True):
            assert (a.shape, a.dtype) == (e[index].shape, dtype)
            e = np.asarray(e[index])
            np.testing.assert_allclose(np.asarray(a).astype(np.float64), e, rtol=tolerance,
                                       atol=tolerance * np.abs(e).max())


def check_integers(row: Function) -> None:
    """Integers and booleans count as the default float; empty arrays are accepted."""
    ours = row.ours
    n = len(row.points)
    assert all(a.dtype == np.float32 for a in outputs(ours(*[np.ones(2, np.int32)] * n)))
    assert all(a.shape == (0, 2) for a in outputs(ours(*[np.ones((0, 2), np.float32)] * n)))


def check_slopes(row: Function, order: int = 1) -> None:
    """Derivatives against finite differences, forward and reverse."""
    args = row.mild_points()
    which = range(len(args)) if row.slopes is None else row.slopes

    def f(*some: Any) -> Any:
        given = dict(zip(which, some, strict=True))
        return tuple(outputs(row.ours(*[given.get(i, x) for i, x in enumerate(args)])))

    with mjax.enable_x64():
        check_derivatives(f, [args[i] for i in which], np.random.default_rng(0), order)


def check_vmap(row: Function) -> None:
    """A batch in any one argument, and the vmap of the gradient."""
    args = row.mild_points()
    which = 0 if row.slopes is None else row.slopes[0]
    with mjax.enable_x64():
        whole = outputs(row.ours(*args))
        for a, e in zip(outputs(mjax.vmap(row.ours)(*args)), whole, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(e), rtol=1e-13)
        one = outputs(mjax.vmap(row.ours, (0, *[None] * (len(args) - 1)))(
            args[0], *[x[0] for x in args[1:]]))
        expected = outputs(row.expected(args[0], *[x[0] for x in args[1:]]))
        for a, e in zip(one, expected, strict=True):
            np.testing.assert_allclose(np.asarray(a), e, rtol=1e-9, atol=1e-300)
        first = lambda *args: outputs(row.ours(*args))[0]
        slopes = mjax.vmap(mjax.grad(first, which))(*args)
        _, forward = mjax.jvp(lambda x: first(*args[:which], x, *args[which + 1:]), (args[which],),
                              (np.ones_like(args[which]),))
        np.testing.assert_allclose(np.asarray(slopes), np.asarray(forward), rtol=1e-10,
                                   atol=1e-300)


def table(rows: Sequence[Function]) -> Any:
    """Decorator of a test `(row)`: one test for each function."""
    return pytest.mark.parametrize("row", [pytest.param(r, id=r.name) for r in rows])
