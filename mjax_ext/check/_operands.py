"""Operands made from the examples: of every sign, zero, not finite, large, empty, in batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.ir import dtypes
from mjax_ext.check._application import Application, Arrays


def magnitudes(random: np.random.Generator, x: Any) -> Any:
    """Positive numbers about as large as the elements of an array, none of them equal."""
    size = np.abs(np.asarray(x, np.complex128 if dtypes.is_complex(x.dtype) else np.float64))
    known = np.isfinite(size) & (size > 0)
    usual = float(np.median(size[known])) if known.any() else 1.0
    return np.where(known, size, usual) * random.uniform(0.8, 1.25, x.shape)


def signed(random: np.random.Generator, x: Any, sign: int) -> Any:
    """Elements as large as those of an array, of one sign (1, -1) or of any (0)."""
    kind = dtypes.kind(x.dtype)
    if kind == "b":
        return random.integers(0, 2, x.shape).astype(bool) if sign == 0 else ~x
    signs = sign or random.choice([-1, 1], x.shape)
    if kind == "c":
        turned = np.exp(1j * random.uniform(-np.pi, np.pi, x.shape))
        return alike(x, np.asarray(
            magnitudes(random, x) * (turned if sign == 0 else sign), x.dtype))
    if kind == "f":
        return alike(x, np.asarray(magnitudes(random, x) * signs, x.dtype))
    if kind == "u":
        return _rolled(x, 1)
    wide = np.abs(np.asarray(x, np.int64))
    return np.asarray(np.where(wide == 0, 1, wide) * signs).astype(x.dtype)


def near(random: np.random.Generator, x: Any) -> Any:
    """An array that differs little from another: what holds for its elements mostly still holds."""
    if not dtypes.is_inexact(x.dtype):
        return x
    return alike(x, np.asarray(x * random.uniform(0.98, 1.02, x.shape), x.dtype))


def alike(x: Any, made: Any) -> Any:
    """An array made from another one, as symmetric as that.

    A matrix that equals its conjugate transpose is meant to be so, unless its elements repeat.
    """
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] < 2:
        return made
    turned = np.conj(np.swapaxes(x, -1, -2))
    if not np.array_equal(x, turned) or len(np.unique(x)) <= x.shape[-1]:
        return made
    return np.asarray((made + np.conj(np.swapaxes(made, -1, -2))) / 2, made.dtype)


def _rolled(x: Any, steps: int) -> Any:
    """The elements in another order; those of integers may be indices, which stay in range."""
    return np.roll(x.ravel(), steps).reshape(x.shape)


def large(x: Any, power: float) -> Any:
    """Elements that are multiplied by a power of the largest number of the dtype."""
    if dtypes.is_inexact(x.dtype):
        factor = float(ml_dtypes.finfo(x.dtype).max) ** power
    elif dtypes.kind(x.dtype) == "i":
        factor = int(ml_dtypes.iinfo(x.dtype).max ** power)
    else:
        return x
    with np.errstate(all="ignore"):
        return np.asarray(x * np.asarray(factor, x.dtype), x.dtype)


def not_a_number(random: np.random.Generator, x: Any) -> Any:
    """Some elements are NaN."""
    if not dtypes.is_inexact(x.dtype):
        return x
    out = x.copy()
    out[random.uniform(size=x.shape) < 0.5] = np.nan
    if out.size:
        out.reshape(-1)[0] = np.nan
    return out


def special(application: Application, random: np.random.Generator) -> Iterator[tuple[str, Arrays]]:
    """Values on which the implementation and the lowering must agree, with a name.

    Each change is made to all operands and to each of them alone.
    """
    values = application.values
    if application.programs:
        # Loops might not end for other values.
        yield "values close to the examples", [near(random, x) for x in values]
        return
    changes: dict[str, Callable[[Any], Any]] = {
        "positive values": lambda x: signed(random, x, 1),
        "negative values": lambda x: signed(random, x, -1),
        "values of both signs": lambda x: signed(random, x, 0),
        "zero": np.zeros_like,
        "NaN": lambda x: not_a_number(random, x),
        "large values": lambda x: large(x, 0.1),
        "very large values": lambda x: large(x, 0.7),
    }
    for name, change in changes.items():
        keep = [application.operands[i].kind == "key" for i in application.places]
        changed = [x if k else change(x) for x, k in zip(values, keep, strict=True)]
        different = [k for k, (x, y) in enumerate(zip(values, changed, strict=True))
                     if not np.array_equal(x, y)]
        if not different:
            continue
        yield name, changed
        if len(different) > 1:
            for k in different:
                yield f"{name} for operand {application.places[k]}", [
                    changed[i] if i == k else x for i, x in enumerate(values)]


def points(application: Application, random: np.random.Generator) -> list[Arrays]:
    """Values at which derivatives are taken."""
    values = application.values
    keep = [application.operands[i].kind == "key" for i in application.places]
    out = [[near(random, x) for x in values]]
    if not application.programs:
        for sign in (1, -1, 0, 0):
            out.append([x if k or not dtypes.is_inexact(x.dtype) else signed(random, x, sign)
                        for x, k in zip(values, keep, strict=True)])
    return out


def elements(application: Application, random: np.random.Generator, count: int,
             sign: int | None = None) -> list[Arrays]:
    """The elements of a batch.

    Args:
      application: gives the examples.
      random: the source of values.
      count: how many.
      sign: that of all numbers; None: elements of both, and one close to the examples.
    """
    values, out = application.values, []
    for n in range(count):
        made = []
        for i, x in zip(application.places, values, strict=True):
            if application.operands[i].kind == "key":
                made.append(x + np.asarray(n, x.dtype))
            elif application.programs:
                made.append(near(random, _rolled(x, 0 if dtypes.is_inexact(x.dtype) else n)))
            elif dtypes.is_integer(x.dtype) and not np.any(x < 0):
                made.append(_rolled(x, n))  # they may be indices, which are not negative
            elif sign is not None:
                made.append(signed(random, x, sign))
            elif not dtypes.is_inexact(x.dtype):
                made.append(_rolled(x, n) if n % 2 or not n else signed(random, x, 0))
            else:
                made.append(near(random, x) if n == 1 else signed(random, x, (0, 0, -1, 1)[n % 4]))
        out.append(made)
    return out


def stacked(batch: Sequence[Arrays], axes: Sequence[int | None]) -> Arrays:
    """The operands of a batch: stacked along an axis, or those of the first element."""
    return [batch[0][k] if axis is None else np.stack([one[k] for one in batch], axis)
            for k, axis in enumerate(axes)]


def emptied(application: Application) -> list[tuple[Arrays, bool]]:
    """Values with axes of size 0, of shapes that the abstract evaluation accepts.

    Returns:
      Pairs of values and whether they must be taken: all axes of one size have size 0. Any others
      may make no sense, as the abstract evaluation need not look.
    """
    if not application.plain or application.programs:
        return []
    shapes = [x.shape for x in application.values]
    positions = [(k, d) for k, shape in enumerate(shapes) for d, n in enumerate(shape) if n]
    groups = [(tuple(p for p in positions if shapes[p[0]][p[1]] == n), True)
              for n in sorted({shapes[k][d] for k, d in positions})]
    if len(positions) <= 6:
        groups += [(chosen, False) for count in range(1, len(positions) + 1)
                   for chosen in itertools.combinations(positions, count)]
    found: dict[tuple[Any, ...], tuple[Arrays, bool]] = {}
    for group, sure in groups:
        cut = tuple(tuple(0 if (k, d) in group else n for d, n in enumerate(shape))
                    for k, shape in enumerate(shapes))
        if cut not in found and _accepted(application, cut):
            found[cut] = [x[tuple(slice(0, n) for n in shape)]
                          for x, shape in zip(application.values, cut, strict=True)], sure
        if len(found) == 6:
            break
    return list(found.values())


def _accepted(application: Application, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether the abstract evaluation gives types for operands of these shapes."""
    avals = [o.aval.update(shape=shape) for o, shape in zip(
        application.operands, shapes, strict=True)]
    try:
        application.primitive.infer(avals, application.params)
    except Exception:
        return False
    return True


def evaluable(application: Application) -> list[Arrays]:
    """Those of `emptied` that can be evaluated, by the implementation and by the lowering."""
    found = []
    for values, _ in emptied(application):
        try:
            application.evaluate(*values)
            if application.primitive.lowerings:
                application.lowered(*values)
        except Exception:
            continue
        found.append(values)
    return found
