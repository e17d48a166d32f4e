"""The transpose rule: where the primitive is linear, and whether cotangents fit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import mjax
from mjax._engine.ir import dtypes
from mjax._engine.primitives.tangents import instantiate
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.transpose import backward_pass
from mjax_ext.check._application import Application, Arrays, Traced
from mjax_ext.check._compare import difference, tolerance
from mjax_ext.check._derivatives import described, not_differentiable
from mjax_ext.check._operands import evaluable, points
from mjax_ext.check._pairs import unpaired
from mjax_ext.check._run import Refusal, Run, Stop
from mjax_ext.check._slopes import digits_of, direction

_MOST = 5  # operands of which all subsets are tried


def check_transpose(run: Run) -> str | None:
    """Where the primitive is linear in operands, their cotangents fit its results."""
    application, p = run.application, run.primitive
    if p.transpose is None:
        return "the primitive has no transpose rule."
    reason = not_differentiable(run)
    if reason and (application.given.forward is None or run.facts.get("group") != ()):
        return reason  # a backward pass does not need a jvp rule
    digits = digits_of(application)
    with digits.on():
        where = [digits.of(point) for point in points(application, run.random)]
        for allowed in (tolerance(where[0], 0.5), 0.02):  # rounding may be what it is about
            found = {group: _made_linear(run, where, group, allowed)
                     for group in _groups(application)}
            groups = {group: zeros for group, zeros in found.items() if isinstance(zeros, tuple)}
            if groups:
                break
        for values in [where, *([digits.of(empty)] for empty in evaluable(application))]:
            for group, zeros in groups.items():
                _check_group(run, group, [_with_zeros(v, zeros) for v in values], allowed)
    run.facts["allowed"] = allowed if groups else 0.0
    none = all(zeros is False for zeros in found.values())
    if none and application.given.fit is not None:
        return "operands that belong together do not show whether the primitive is linear."
    # a frame and primitive_from_function derive the rule for all primitives, linear or not
    if none and p.frame is None and "transpose" not in p.derived:
        run.fault("transpose", "there is a rule, but the primitive is linear in none of its "
                  "operands.", "Remove the rule, or compare the implementation with what you mean: "
                  "only linear operations have transposes.",
                  "The rule is never used, or used for what has no transpose.")
    return None


def _groups(application: Application) -> Iterator[tuple[int, ...]]:
    inexact, given = application.inexact, application.given
    if given.forward is not None:
        inexact = [k for k in inexact if application.places[k] in given.linear]
    sizes = range(1, len(inexact) + 1) if len(inexact) <= _MOST else (1, len(inexact))
    for size in sizes:
        yield from itertools.combinations(inexact, size)


def _with_zeros(values: Arrays, zeros: Sequence[int]) -> Arrays:
    return [np.zeros_like(x) if k in zeros else x for k, x in enumerate(values)]


def _made_linear(run: Run, where: list[Arrays], group: Sequence[int], allowed: float
                 ) -> tuple[int, ...] | bool | None:
    """Which of the other operands have to be zero for the primitive to be linear in a group.

    As few as possible; a jvp rule makes such zeros where it applies the primitive to tangents.

    Returns:
      Their numbers. False: it is not linear; None: its values do not tell.
    """
    others = [k for k in run.application.inexact if k not in group]
    said: list[bool | None] = []
    for count in range(min(len(others), 3) + 1):
        for zeros in itertools.combinations(others, count):
            for values in where:
                said.append(_linear(run, _with_zeros(values, zeros), group, allowed))
                if said[-1]:
                    return zeros
                if said[-1] is False:
                    break
    return False if said[0] is False or all(s is False for s in said) else None


def _linear(run: Run, values: Arrays, group: Sequence[int], allowed: float) -> bool | None:
    """Whether the primitive is linear in some operands at this value of the others.

    None if its values do not tell: they are not finite, or all zero.
    """
    def at(some: Sequence[Any]) -> Arrays:
        given = dict(zip(group, some, strict=True))
        return run.application.evaluate(*[given.get(k, x) for k, x in enumerate(values)])

    def drawn(sign: int) -> Arrays:
        out = []
        for k in group:
            x = direction(run.random, values[k])
            out.append(x if dtypes.is_complex(x.dtype) or not sign else np.abs(x) * sign)
        return [np.asarray(x, values[k].dtype) for k, x in zip(group, out, strict=True)]

    try:
        for first, second in ((0, 0), (1, 1), (-1, -1), (1, -1)):
            x, y = drawn(first), drawn(second)
            of_x, of_y, together = at(x), at(y), at([
                np.asarray(2 * a - 3 * b, a.dtype) for a, b in zip(x, y, strict=True)])
            if not all(dtypes.is_inexact(out.dtype) for out in of_x):
                return False
            if not any(np.any(out) for out in of_x):
                return None
            if not all(np.all(np.isfinite(out)) for out in (*of_x, *of_y)):
                return None
            apart = [np.asarray(2 * a - 3 * b, a.dtype) for a, b in zip(of_x, of_y, strict=True)]
            if difference(together, apart, allowed) is not None:
                return False
    except Exception:
        return None
    return True


def _check_group(run: Run, group: Sequence[int], where: list[Arrays], allowed: float) -> None:
    """The rule for a group of undefined operands, and each way for cotangents to be zero."""
    application = run.application
    jaxpr = mjax.make_jaxpr(application.call)(*where[0])
    outs = application.evaluate(*where[0])
    for nonzero in _cotangents(len(outs)):
        what = f"the transpose {described(application, group).split(' (')[0]}" + (
            f" for a cotangent of result {nonzero[0]} alone" if len(nonzero) < len(outs) else "")

        def pull(values: Any, cts: Any, nonzero: Any = nonzero) -> list[Any]:
            given = dict(zip(nonzero, cts, strict=True))
            ins = [UndefinedPrimal(a) if k in group else values[k]
                   for k, a in enumerate(jaxpr.in_avals)]
            found = backward_pass(jaxpr, jaxpr.consts, ins, [
                given.get(n, Zero(a.to_cotangent())) for n, a in enumerate(jaxpr.out_avals)])
            return [instantiate(found[k]) for k in group]

        try:
            with run.blaming("transpose", what):
                back = Traced(pull, where[0], [outs[n] for n in nonzero])
        except (Stop, Refusal):
            if run.primitive.frame is None:
                raise
            # The program in the params need not be linear equation by equation.
            run.forget("transpose")
            return
        for values in where:
            for sign in (0, 1, -1):
                drawn = [direction(run.random, outs[n]) for n in nonzero]
                cts = [np.asarray(sign * np.abs(ct), ct.dtype) if sign and not dtypes.is_complex(
                    ct.dtype) else ct for ct in drawn]
                with run.blaming("transpose", what):
                    pulled = back(values, cts)
                _check_products(run, what, group, values, nonzero, cts, pulled, allowed)


def _check_products(run: Run, what: str, group: Sequence[int], values: Arrays,
                    nonzero: Sequence[int], cts: Arrays, pulled: Arrays,
                    allowed: float) -> None:
    """The product of cotangents and results is that of the operands' cotangents and operands."""
    application = run.application
    for n, k in enumerate(group):
        x = direction(run.random, values[k])
        alone = [x if i == k else np.zeros_like(v) if i in group else v
                 for i, v in enumerate(values)]
        outs = application.evaluate(*alone)
        found = unpaired([outs[i] for i in nonzero], cts, [x], [pulled[n]], allowed)
        none = not np.any(pulled[n])
        run.require_same("transpose", (
            f"{what} gives {'nothing' if none else 'a wrong cotangent'} for operand "
            f"{application.places[k]}, which the result depends on: the product of cotangent and "
            "operand"), found, (
            "Return a cotangent for each operand that is an ad.UndefinedPrimal: the one whose "
            "product with the operand is that of the given cotangent with the result. No factor "
            "is conjugated."))


def _cotangents(count: int) -> list[tuple[int, ...]]:
    """Which results have cotangents: all, and each alone."""
    ways = [tuple(range(count)), *((n,) for n in range(count))]
    return list(dict.fromkeys(ways))[:6]
