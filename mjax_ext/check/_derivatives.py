"""The jvp rule against differences, and linearization against the jvp rule."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import mjax
from mjax._engine.ir.effects import describe, forbidden
from mjax_ext.check._application import Application, Arrays, Traced
from mjax_ext.check._compare import difference, tolerance, unlike, wide
from mjax_ext.check._operands import evaluable, points
from mjax_ext.check._pairs import is_inexact, pulled, restricted, unpaired
from mjax_ext.check._reverse import check_reverse
from mjax_ext.check._run import Refusal, Run
from mjax_ext.check._slopes import Digits, Slope, digits_of, direction, slopes

_REMEDY = ("Derive the tangent anew: the sum over operands of the partial derivative times the "
           "tangent. Terms of tangents that are ad.Zero are left out.")


def check_jvp(run: Run) -> str | None:
    """The jvp rule gives the result, and the slope along each operand and along all of them."""
    application = run.application
    reason = not_differentiable(run)
    if reason:
        return reason
    digits = run.facts["digits"] = digits_of(application)
    smooth, group = False, []
    with digits.on():
        where = [digits.of(point) for point in points(application, run.random)]
        kinds = [where, *([digits.of(empty)] for empty in evaluable(application))]
        for k in application.inexact:
            try:
                smooth |= any([_check_at(run, (k,), values) for values in kinds])
                group.append(k)
            except Refusal as refusal:
                run.not_checked["jvp"] = str(refusal)
        run.facts["group"] = tuple(group)
        if not group:
            if run.facts.get("reverse alone") and application.given.forward is None:
                check_reverse(run)
            return run.not_checked["jvp"]
        for several in _groups(group)[len(group):]:
            smooth |= any([_check_at(run, several, values) for values in kinds])
    if digits.wide:
        _check_narrow(run, where[0])
    return None if smooth else (
        "the examples, and values close to them, are kinks or give no finite results.")


def not_differentiable(run: Run) -> str | None:
    refused = forbidden(run.facts["effects"], "differentiable")
    if refused:
        return f"the policy of its effects {describe(refused)} forbids derivatives."
    if not run.application.inexact:
        return "no operand is inexact, so none has a derivative."
    if not run.facts.get("group", True):
        return run.not_checked["jvp"]
    return None


def _groups(inexact: Sequence[int]) -> list[tuple[int, ...]]:
    """The values to differentiate in together: each alone, all, and other subsets if there are few.

    The others get symbolic zeros for tangents.
    """
    sizes = [1, len(inexact), *(range(2, len(inexact)) if len(inexact) <= 3 else ())]
    return [group for size in dict.fromkeys(sizes)
            for group in itertools.combinations(inexact, size)]


def pushed(application: Application, group: Sequence[int], values: Sequence[Any],
           tangents: Sequence[Any]) -> list[Any]:
    """Results and tangents of the inexact ones, for tangents of a group of values."""
    f, some = restricted(application.call, group, values)
    outs, slopes = mjax.jvp(f, some, tuple(tangents))
    return [*outs, *(t for t, out in zip(slopes, outs, strict=True) if is_inexact(out))]


def names_of(found: Arrays) -> list[str]:
    """Names the arrays of `pushed`: results, then the tangents of inexact ones."""
    flags = list(map(is_inexact, found))
    count = next(n for n in range(len(found) + 1) if n + sum(flags[:n]) == len(found))
    results = [f"result {n}" for n in range(count)] if count > 1 else ["the result"] * count
    return results + [f"the tangent of {name}" for name, inexact in zip(results, flags) if inexact]


def described(application: Application, group: Sequence[int]) -> str:
    """Which operands have tangents, in words."""
    places = [str(application.places[k]) for k in group]
    others = len(application.operands) - len(places)
    return (f"in operand{'s' if len(places) > 1 else ''} {' and '.join(places)}"
            + (" (the others have symbolic zeros)" if others else ""))


def _check_at(run: Run, group: Sequence[int], where: list[Arrays]) -> bool:
    """Compares jvp with differences at points of one type; whether some element was smooth."""
    application, smooth = run.application, False
    what = f"jvp {described(application, group)}"
    with run.blaming("jvp", what):
        push = Traced(lambda values, tangents: pushed(application, group, values, tangents),
                      where[0], [where[0][k] for k in group])
    for values in where:
        along = {k: direction(run.random, values[k]) for k in group}
        with run.blaming("jvp", what):
            found = push(values, list(along.values()))
        known = application.evaluate(*values)
        outs, tangents = found[:len(known)], iter(found[len(known):])
        run.require_same("jvp", f"the primal result of {what}",
                         difference(outs, known, tolerance([*values, *known])),
                         "Return the result of the primitive itself, p.bind(*primals), first.")
        finite = all(map(np.all, map(np.isfinite, map(wide, known))))
        for n, slope in enumerate(slopes(application.evaluate, values, along)):
            if slope is not None:
                smooth |= bool(np.any(slope.valid))
                tangent = next(tangents)
                if not finite:  # what is not finite may have spread
                    slope = slope._replace(valid=slope.valid & np.isfinite(wide(tangent)))
                _require_slope(run, n, len(known), what, tangent, slope)
    return smooth


def _require_slope(run: Run, n: int, count: int, what: str, tangent: Any, slope: Slope) -> None:
    found = unlike(tangent, slope.value, slope.allowed, slope.rest, slope.valid)
    if found and not run.deviates("jvp"):
        result = f" of result {n}" if count > 1 else ""
        run.fault("jvp", f"the tangent{result} of {what} is {found} (compared with finite "
                  "differences).", _REMEDY,
                  "jvp, grad and all that is built on them give wrong derivatives.")


def _check_narrow(run: Run, values: Arrays) -> None:
    """In the dtypes of the examples the rule gives what it gives at 64 bits, less exactly."""
    application, group = run.application, run.facts["group"]
    native = [np.asarray(x, y.dtype) for x, y in zip(values, application.values, strict=True)]
    along = [direction(run.random, native[k]) for k in group]
    compute = lambda values, tangents: pushed(application, group, values, tangents)
    with run.blaming("jvp", f"jvp {described(application, group)}"):
        found = Traced(compute, native, along)(native, along)
    digits: Digits = run.facts["digits"]
    with digits.on():
        values, tangents = digits.of(native), digits.of(along)
        exact = Traced(compute, values, tangents)(values, tangents)
    rounded = [np.asarray(x, y.dtype) for x, y in zip(exact, found, strict=True)]
    run.require_same("jvp", "jvp in the dtypes of the examples, unlike that at 64 bits,",
                     difference(found, rounded, tolerance(found, 0.4), names_of(found)), _REMEDY)


# ---- linearization ------------------------------------------------------------------------


def _not_pushed(run: Run) -> str | None:
    """Why there is nothing to compare with the jvp rule, if so: a wrong rule may end its check."""
    return not_differentiable(run) or (
        None if "group" in run.facts else "the check of the jvp rule did not end.")


def check_linearize(run: Run) -> str | None:
    """Linearization gives the results and tangents of jvp."""
    application = run.application
    reason = _not_pushed(run)
    if reason:
        return reason
    digits: Digits = run.facts["digits"]
    own = run.primitive.linearize is not None

    def linear(values: Any, tangents: Any, group: Any) -> list[Any]:
        f, some = restricted(application.call, group, values)
        outs, push = mjax.linearize(f, *some)
        return [*outs, *(t for t, out in zip(push(*tangents), outs, strict=True)
                         if is_inexact(out))]

    with digits.on():
        where = [digits.of(point) for point in points(application, run.random)]
        for group in _groups(run.facts["group"]) if own else [run.facts["group"]]:
            what = f"linearize {described(application, group)}"
            args = where[0], [where[0][k] for k in group]
            with run.blaming("linearize", what):
                ours = Traced(lambda v, t, group=group: linear(v, t, group), *args)
            theirs = Traced(lambda v, t, group=group: pushed(application, group, v, t), *args)
            for values in where:
                along = [direction(run.random, values[k]) for k in group]
                with run.blaming("linearize", what):
                    found = ours(values, along)
                wanted = theirs(values, along)
                run.require_same("linearize", f"{what}, unlike jvp,", difference(
                    found, wanted, tolerance(values), names_of(wanted)), (
                    "Make the linear function that the rule returns give what the jvp rule gives "
                    "for the same tangents."))
    return None


def check_vjp(run: Run) -> str | None:
    """vjp is the transpose of jvp; the rules that jvp rules are made of have transposes."""
    application = run.application
    reason = _not_pushed(run)
    if reason:
        return reason
    digits: Digits = run.facts["digits"]
    group = run.facts["group"]
    pull = lambda values, cts: pulled(application.call, group, values, cts)[1]
    with digits.on():
        where = [digits.of(point) for point in points(application, run.random)]
        outs = application.evaluate(*where[0])
        inexact = list(filter(is_inexact, outs))
        if not inexact:
            return None
        with run.blaming("transpose", "vjp"):
            back = Traced(pull, where[0], inexact)
        push = Traced(lambda v, t: pushed(application, group, v, t)[len(outs):], where[0],
                      [where[0][k] for k in group])
        for values in where:
            along = [direction(run.random, values[k]) for k in group]
            cts = [direction(run.random, out) for out in inexact]
            with run.blaming("transpose", "vjp"):
                ins = back(values, cts)
            for n, k in enumerate(group):
                alone = [t if i == n else np.zeros_like(t) for i, t in enumerate(along)]
                found = unpaired(push(values, alone), cts, [along[n]], [ins[n]],
                                 run.facts.get("allowed", 0.0))
                run.require_same("transpose", (
                    f"vjp of operand {application.places[k]} does not fit jvp: the product of "
                    "cotangent and tangent"), found,
                    "Compare the transposes of the operations in the jvp rule with these.")
    return None
