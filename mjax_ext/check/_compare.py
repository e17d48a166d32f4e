"""Whether two computations agree, and how they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.util import counted
from mjax._engine.ir import dtypes


def precision(arrays: Sequence[Any]) -> float:
    """The machine epsilon of the coarsest of some arrays; 0.0 without inexact ones."""
    found = {np.dtype(x.dtype) for x in arrays if dtypes.is_inexact(x.dtype)}
    return max((float(ml_dtypes.finfo(dtype).eps) for dtype in found), default=0.0)


def tolerance(arrays: Sequence[Any], power: float = 0.6) -> float:
    """The relative error that is put down to rounding: 7e-5 for float32, 4e-10 for float64."""
    return float(precision(arrays) ** power)


def wide(x: Any) -> Any:
    """An array in a dtype in which NumPy can compute differences of its elements."""
    x = np.asarray(x)
    kind = dtypes.kind(x.dtype)
    return x.astype({"f": np.float64, "c": np.complex128, "b": np.int64}.get(
        kind, x.dtype if x.dtype.kind in "iu" else np.int64))


def difference(actual: Sequence[Any], expected: Sequence[Any], allowed: float,
               names: Sequence[str] = ()) -> str | None:
    """How the first result that differs does so, in words; None if all agree.

    The words follow a verb, as in "it gives result 1 as 4 instead of 2".

    Args:
      actual: arrays.
      expected: the arrays that they should be.
      allowed: the relative error that is put down to rounding.
      names: what they are; by default results.
    """
    if len(actual) != len(expected):
        return f"{counted(len(actual), 'result')} instead of {len(expected)}"
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        name = names[i] if names else f"result {i}" if len(expected) > 1 else ""
        if a.shape != e.shape:
            return f"{name and f'{name} with '}shape {a.shape} instead of {e.shape}"
        if a.dtype != e.dtype:
            return f"{name and f'{name} with '}dtype {a.dtype} instead of {e.dtype}"
        said = unlike(a, e, allowed)
        if said:
            return f"{name and f'{name} as '}{said}"
    return None


def unlike(actual: Any, expected: Any, allowed: float, rest: Any = 0.0, valid: Any = True
           ) -> str | None:
    """How the elements of an array differ from those of another, in words; None if they agree.

    Args:
      actual: an array.
      expected: an array of its shape.
      allowed: the relative error of an element that is put down to rounding. A tenth of it is
        taken of the largest element.
      rest: the absolute error that is put down to rounding.
      valid: the elements to look at.
    """
    a, e = wide(actual), wide(expected)
    if not a.size:
        return None
    with np.errstate(all="ignore"):
        finite = np.isfinite(e)
        scale = np.max(np.abs(e), where=finite & valid, initial=0.0)
        inexact = e.dtype.kind in "fc"
        bound = allowed * (np.abs(e) + 0.1 * scale) + rest if inexact else 0
        close = (a == e) | (np.isnan(a) & np.isnan(e)) | (
            finite & np.isfinite(a) & (np.abs(a - e) <= bound))
    wrong = np.asarray(~close & valid)
    if not wrong.any():
        return None
    place = tuple(map(int, np.argwhere(wrong)[0]))
    return (f"{_number(a[place])} instead of {_number(e[place])}"
            + (f" at [{', '.join(map(str, place))}]" if place else "")
            + _factor(a, e, np.asarray(valid & finite & np.isfinite(a))))


def _factor(actual: Any, expected: Any, valid: Any) -> str:
    """Says by which factor all elements are wrong, if there is one."""
    known = valid & (np.abs(expected) > 1e-3 * np.max(np.abs(expected), where=valid, initial=0))
    if actual.dtype.kind not in "fc" or not known.any():
        return ""
    ratios = (actual[known] / expected[known]).ravel()
    if np.ptp(ratios.real) > 1e-2 * abs(ratios[0]) or np.ptp(ratios.imag) > 1e-2 * abs(ratios[0]):
        return ""
    ratio = ratios[0]
    if abs(ratio + 1) < 1e-2:
        return ": the sign is wrong"
    if abs(ratio) < 1e-6:
        return ": it is zero throughout"
    if abs(ratio.imag) < 1e-2 * abs(ratio):
        return f": {ratio.real:.3g} times what it should be"
    return ""


def _number(x: Any) -> str:
    return f"{x:.6g}"
