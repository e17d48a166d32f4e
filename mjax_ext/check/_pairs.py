"""Functions of some of their arguments, their cotangents, and products of pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mjax
from mjax import lax
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax_ext.check._application import Arrays
from mjax_ext.check._compare import tolerance, unlike, wide


def pulled(f: Callable[..., list[Any]], group: Sequence[int], values: Sequence[Any],
           cts: Sequence[Any] | None = None) -> tuple[list[Any], list[Any]]:
    """The inexact results of a function, and the cotangents of a group of its arguments.

    Args:
      f: the function.
      group: which arguments.
      values: the arguments.
      cts: the cotangents of these results; None: ones.
    """
    of_some, some = restricted(f, group, values)
    outs, back = mjax.vjp(lambda *xs: list(filter(is_inexact, of_some(*xs))), *some)
    ins = back([lax.full_like(out, 1) for out in outs] if cts is None else list(cts))
    return outs, list(ins)


def is_inexact(x: Any) -> bool:
    """Whether a value has derivatives."""
    return dtypes.is_inexact(typeof(x).dtype)


def restricted(f: Callable[..., list[Any]], group: Sequence[int], values: Sequence[Any]
               ) -> tuple[Callable[..., list[Any]], tuple[Any, ...]]:
    """A function of a group of its arguments, the others held fixed, and these."""

    def of_some(*some: Any) -> list[Any]:
        given = dict(zip(group, some, strict=True))
        return f(*[given.get(k, x) for k, x in enumerate(values)])

    return of_some, tuple(values[k] for k in group)


def unpaired(outs: Arrays, cts: Arrays, ins: Arrays, in_cts: Arrays, allowed: float = 0.0
             ) -> str | None:
    """How far the sums of `outs * cts` and of `ins * in_cts` are apart, in words; None if equal.

    No factor is conjugated: transposes are taken under the bilinear form.

    Args:
      outs, cts: results and their cotangents.
      ins, in_cts: operands and theirs.
      allowed: the relative error that is allowed in any case.
    """
    sums = []
    for xs, ys in ((ins, in_cts), (outs, cts)):
        terms = [np.real(wide(x) * wide(y)).ravel() for x, y in zip(xs, ys, strict=True)]
        sums.append(np.concatenate([np.zeros(1), *terms]))
    if not np.all(np.isfinite(sums[1])):
        return None
    actual, expected = (np.asarray(np.sum(terms)) for terms in sums)
    allowed = max(allowed, 10 * tolerance([*outs, *ins]))
    return unlike(actual, expected, allowed, allowed * sum(
        float(np.sum(np.abs(terms))) for terms in sums))
