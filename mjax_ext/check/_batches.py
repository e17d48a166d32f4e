"""The batching rule against a loop, and against values computed by the lowering."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import mjax
from mjax._engine.base.records import Record
from mjax._engine.ir.effects import describe, forbidden
from mjax_ext._drawn import drawn
from mjax_ext.check._application import Application, Arrays, Traced, together
from mjax_ext.check._compare import difference, tolerance
from mjax_ext.check._mapped import Mapped
from mjax_ext.check._operands import elements, stacked
from mjax_ext.check._run import Run

Axes = tuple[int | None, ...]

#: So many ways to batch the operands are tried at most, besides each axis of each alone.
_MOST = 40


def check_batch(run: Run) -> str | None:
    """vmap is a loop, for subsets of operands, positions of their axes, and sizes of the batch."""
    application = run.application
    refused = forbidden(run.facts["effects"], "batchable")
    if refused:
        return f"the policy of its effects {describe(refused)} forbids vmap."
    if not application.places:
        return "it has no operands to batch."
    ways = [*_ways(application, run.random)]
    few = _few(application)
    tasks = [*_tasks(run, _unusual(application), ways), *_tasks(run, 1, few), *_tasks(run, 0, few)]
    square = _square(application)
    if square is not None:
        tasks += _tasks(run, square, few)
    if not application.programs:
        for sign in (-1, 1):
            tasks += _tasks(run, 2, few[:1], sign)
    with run.blaming("batch", "a program with vmap"):
        results = together(application, [(task.mapped, task.args) for task in tasks])
    for task, outs in zip(tasks, results, strict=True):
        found = difference(outs, task.loop, tolerance([*task.args, *task.loop]))
        run.require_same("batch", task.what, found, (
            "Compare the rule with a loop over the batch: dims[i] is the axis of args[i] that is "
            "batched, or None; the dim that it returns is that of the result."))
    if (isinstance(application, Mapped) and len(application.axes) == 1
            and not run.primitive.own_varying):  # else it is for mesh axes alone
        with run.blaming("batch", "vmap with the name of the axis"):
            mapped = application.mapped(*application.values)
        devices = application.evaluate(*application.values)
        found = difference(mapped, devices, tolerance(devices))
        run.require_same("batch", "vmap with the name of the axis, unlike devices,", found,
                         "Treat the batch in the rule as the lowering treats the devices.")
    return None


class _Task(Record):
    """A vmap to evaluate.

    Attributes:
      what: it, in words.
      mapped: its program.
      args: the arguments of the program.
      loop: the results that it should give.
    """

    what: str
    mapped: Traced
    args: Arrays
    loop: Arrays


def _tasks(run: Run, size: int, ways: Sequence[Axes], sign: int | None = None) -> list[_Task]:
    """The maps over so many elements, with each of these axes.

    Args:
      run: the run.
      size: the number of elements.
      ways: the axes.
      sign: of all their numbers; None: both.
    """
    application = run.application
    tasks: list[_Task] = []
    batch = elements(application, run.random, max(size, 1), sign)
    each: dict[Any, Arrays] = {}
    for axes in ways:
        args = stacked(batch, axes)
        if not size:
            args = [x if d is None else np.take(x, [], d) for x, d in zip(args, axes, strict=True)]
        what = f"vmap with in_axes={axes if len(axes) > 1 else axes[0]} over {size} elements"
        with run.blaming("batch", what):
            mapped = Traced(mjax.vmap(application.call, in_axes=axes), *args)
        mask = tuple(axis is not None for axis in axes)
        for n in range(max(size, 1)):
            if (n, mask) not in each:
                each[n, mask] = application.evaluate(*[
                    batch[n if m else 0][k] for k, m in enumerate(mask)])
        loop = [np.stack(column)[:size] for column in zip(
            *(each[n, mask] for n in range(max(size, 1))), strict=True)]
        tasks.append(_Task(what, mapped, args, loop))
    return tasks


def _ways(application: Application, random: np.random.Generator) -> Iterator[Axes]:
    """Batch axes of the operands: all combinations, or some if there are too many.

    Then each subset of operands is there, and each axis of each operand.
    """
    positions = [(None, *range(rank + 1)) for rank in application.ranks]
    count = math.prod(map(len, positions)) - 1
    if count <= _MOST:
        yield from (way for way in itertools.product(*positions) if any(d is not None for d in way))
        return
    operands = range(len(positions))
    chosen: dict[Axes, None] = {}
    subsets = [*itertools.islice((
        s for n in (1, len(positions), 2, *range(3, len(positions)))
        for s in itertools.combinations(operands, n)), _MOST // 3)]  # there are 2**n
    for front in (True, False):
        for subset in subsets:
            chosen[tuple((0 if front else application.ranks[k]) if k in subset else None
                         for k in operands)] = None
    for k in operands:
        for d in positions[k][1:]:
            chosen[tuple(d if k == j else None for j in operands)] = None
    while len(chosen) < _MOST:
        way = tuple(p[random.integers(len(p))] for p in positions)
        if any(d is not None for d in way):
            chosen[way] = None
    yield from chosen


def _few(application: Application) -> list[Axes]:
    """All operands batched along the first axis, along the last one, and each operand alone."""
    ranks = application.ranks
    ways = [(0,) * len(ranks), tuple(ranks), *(
        tuple(0 if j == k else None for j in range(len(ranks))) for k in range(len(ranks)))]
    return list(dict.fromkeys(ways))[:4]


def _sizes(application: Application) -> set[int]:
    return {int(n) for x in application.values for n in x.shape}


def _unusual(application: Application) -> int:
    """A size that no axis has."""
    known = _sizes(application) | {int(n) for out in application.evaluate(*application.values)
                                   for n in out.shape}
    return next(n for n in itertools.chain((3, 2, 5, 4), itertools.count(6)) if n not in known)


def _square(application: Application) -> int | None:
    """A size that some axis has, so that the batch may be mistaken for it."""
    return next((n for n in sorted(_sizes(application)) if 1 < n <= 8), None)


# ---- the lowering of batched operands -----------------------------------------------------


def check_batched_lowering(run: Run) -> str | None:
    """Implementation and lowering agree for the operands that the batching rule makes too."""
    application, p = run.application, run.primitive
    if p.impl is None or not p.lowerings or not application.plain or application.programs or (
            application.given.fit is not None):
        return None
    size = _unusual(application)
    batch = elements(application, run.random, size)
    seen: dict[Any, None] = {}
    for axes in [*_ways(application, run.random)][:12]:
        args = stacked(batch, axes)
        jaxpr = Traced(mjax.vmap(application.call, in_axes=axes), *args).jaxpr
        for eqn in jaxpr.eqns:
            if eqn.primitive is p:
                key = (tuple(v.aval for v in eqn.invars), tuple(eqn.params.items()))
                seen[key] = None
    known = tuple(operand.aval for operand in application.operands)
    for avals, params in [key for key in seen if key[0] != known][:3]:
        other = Application(p, [drawn(run.random, a) for a in avals], dict(params))
        found = difference(other.evaluate(*other.values), other.lowered(*other.values),
                           tolerance(other.values))
        run.require_same("lowering", (
            f"for operands of types {', '.join(map(str, avals))} it disagrees with the "
            "implementation, which"), found,
            "Make both compute the same for operands of any number of axes.")
    return None
