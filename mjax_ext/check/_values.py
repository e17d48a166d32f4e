"""The abstract evaluation, the implementation and the lowering: one function, three times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mjax
from mjax._engine.base.platforms import names_of
from mjax._engine.ir import dtypes
from mjax._engine.ir.effects import OperandEffect
from mjax._engine.ir.types import ShapedArray, typeof
from mjax_ext.check._application import Arrays
from mjax_ext.check._compare import difference, tolerance, wide
from mjax_ext.check._operands import emptied, special
from mjax_ext.check._run import Run, Stop, shown

# ---- types ------------------------------------------------------------------------------


def check_types(run: Run) -> str | None:
    """The abstract evaluation gives types, and keeps weak ones."""
    application, p = run.application, run.primitive
    avals = [operand.aval for operand in application.operands]
    if p.abstract_eval is None:
        with run.blaming("abstract_eval", "the abstract evaluation"):
            p.missing("abstract_eval", operands=len(avals), params=application.params)
    with run.blaming("abstract_eval", "the abstract evaluation"):
        types, effects = application.types()
    run.facts["types"] = types
    # Effects on references are on those that the application makes itself.
    run.facts["effects"] = frozenset(e for e in effects if not isinstance(e, OperandEffect))
    if application.given.forward is not None:
        found = [(x.shape, x.dtype) for x in application.evaluate(*application.values)]
        if found != [(a.shape, a.dtype) for a in types]:
            run.fault("abstract_eval", (
                f"it gives {', '.join(map(str, types))}, unlike the results that the example says "
                "the primitive stands for."), "Correct the abstract evaluation, or the example.")
    arrays = [a for a in avals if isinstance(a, ShapedArray)]
    if "weak_type" in application.params or not arrays or not all(a.weak_type for a in arrays):
        return None
    for out in types:
        if isinstance(out, ShapedArray) and not out.weak_type and any(
                out.dtype == a.dtype for a in arrays):
            run.report("abstract_eval", (
                f"it drops the weak type: from {', '.join(map(str, avals))} it makes {out}."),
                "Pass weak_type=x.weak_type on to ShapedArray (with several operands: whether all "
                "of them are weak), or return x.update(shape=...).",
                "A Python number that goes through the primitive then decides the dtype of the "
                "expressions around it.", usable=True)
            break
    return None


# ---- evaluation -------------------------------------------------------------------------


def check_impl(run: Run) -> str | None:
    """The implementation gives what the abstract evaluation says, and leaves operands alone."""
    application, p = run.application, run.primitive
    if p.impl is None and not p.lowerings and p.discharge is None:
        with run.blaming("impl", "evaluation"):
            p.missing("impl", operands=len(application.operands), params=application.params)
    if p.impl is None:
        return "the primitive is evaluated by its lowering."
    given = [np.array(x) for x in application.values]
    with run.blaming("impl", "evaluation"), np.errstate(all="ignore"):
        outs = application.call(*given)
    kept = difference(given, application.values, 0.0,
                      [f"operand {place}" for place in application.places])
    if kept:
        run.fault("impl", f"it changes its operands: it leaves {kept}.",
                  "Compute in new arrays: x * 2 rather than x *= 2.",
                  "Arrays that the caller still uses change.")
    _check_weak_types(run, outs)
    return None


def _check_weak_types(run: Run, outs: Arrays) -> None:
    """Python numbers are weakly typed, and so are results that transformations know."""
    if "abstract_eval" in run.wrong() or not run.application.plain:
        return
    with np.errstate(all="ignore"):
        found = run.application.bind(*run.application.examples)
    for out, aval in zip(found, run.facts.get("types", ())):
        if not isinstance(out, (np.ndarray, np.generic)) and isinstance(aval, ShapedArray) and (
                typeof(out).weak_type != aval.weak_type):
            said = "weak" if typeof(out).weak_type else "not weak"
            run.report("abstract_eval", (
                f"the type of the result is {said} in evaluation, but the abstract evaluation says "
                f"{aval}."),
                "Pass weak_type=x.weak_type on to ShapedArray, or convert the result in the "
                "implementation.", "Dtypes of expressions differ between jit and evaluation.",
                usable=True)
            return


def check_lowering(run: Run) -> str | None:
    """The lowering gives what the abstract evaluation says; those of other platforms too."""
    application, rules = run.application, run.primitive.lowerings
    here = names_of(mjax.default_backend())
    others = [name for name in rules if name in _TRIED and name not in here]
    absent = len(others) == len(rules) > 0
    if not absent:
        with run.blaming("lowering", "jit"):
            run.facts["lowered"] = application.lowered(*application.values)
    for platform in others:
        with run.blaming("lowering", f"lowering for {platform}"):
            traced = mjax.jit(application.call).trace(*application.values)
            traced.lower(lowering_platforms=(_TRIED[str(platform)],))
    if not absent:
        return None
    run.unusable["lowering"] = f"is for {' and '.join(map(str, others))} alone"
    return f"it {run.unusable['lowering']}. It lowers there; its values were not compared."


#: Platform for which lowerings are tried where it is not there -> the one that is asked for.
_TRIED = {"cpu": "cpu", "cuda": "cuda", "gpu": "cuda", "rocm": "rocm", "tpu": "tpu"}


# ---- the implementation and the lowering ------------------------------------------------


def check_agreement(run: Run) -> str | None:
    """Implementation and lowering give the same values, for operands of many kinds."""
    application = run.application
    if run.primitive.impl is None or not run.primitive.lowerings:
        return "there is nothing to compare it with."
    _compare(run, "the examples", application.values, True)
    for name, values in special(application, run.random):
        changed = [x for x, y in zip(application.values, values, strict=True)
                   if not np.array_equal(x, y)]
        _compare(run, name, values, all(map(_inexact, changed)))
    for values, sure in emptied(application):
        _compare(run, f"operands of shapes {', '.join(str(x.shape) for x in values)}", values, sure)
    return None


def _inexact(x: Any) -> bool:
    return dtypes.is_inexact(x.dtype)


def _compare(run: Run, name: str, values: Arrays, meant: bool) -> None:
    """Compares both for some values.

    Args:
      run: the run.
      name: what the values are.
      values: they.
      meant: whether both must take them: integers may be indices, and out of range.
    """
    application = run.application
    of_impl, raised = _attempt(application.evaluate, *values)
    of_lowering, refused = _attempt(application.lowered, *values)
    if raised and refused:
        return
    remedy = "Make both compute the same: jit uses the lowering, evaluation the implementation."
    for rule, other, error in (("impl", "lowering", raised), ("lowering", "impl", refused)):
        if error and meant:
            *_, at_fault = run.rules_named(error, rule)
            if at_fault in run.unusable:
                raise Stop(at_fault)
            run.fault(rule, f"for {name} it raises {shown(error)}, while the {other} gives values.",
                      remedy)
    if raised or refused:
        return
    if name.startswith("very large"):
        of_impl, of_lowering = _where_one_is_finite(of_impl, of_lowering)
    found = difference(of_impl, of_lowering, tolerance([*values, *of_lowering]))
    run.require_same("impl", f"for {name} it disagrees with the lowering: it", found, remedy)


def _where_one_is_finite(actual: Arrays, expected: Arrays) -> tuple[Arrays, Arrays]:
    """Both, with zeros where neither is finite: sums that overflow depend on their order."""
    if [x.shape for x in actual] != [x.shape for x in expected]:
        return actual, expected
    finite = [np.isfinite(wide(a)) | np.isfinite(wide(e))
              for a, e in zip(actual, expected, strict=True)]
    return [[np.where(f, x, np.zeros_like(x)) for f, x in zip(finite, xs, strict=True)]
            for xs in (actual, expected)]  # type: ignore[return-value]


def _attempt(f: Callable[..., Arrays], *args: Any) -> tuple[Arrays, Exception | None]:
    try:
        return f(*args), None
    except Exception as error:
        return [], error


# ---- effects ----------------------------------------------------------------------------


def check_effects(run: Run) -> str | None:
    """A lowering with a side effect belongs to an abstract evaluation that declares an effect."""
    application = run.application
    if run.facts["effects"]:
        return None
    with run.blaming("lowering", "jit"):
        text = mjax.jit(application.call).lower(*application.values).as_text()
    if "has_side_effect = true" in text:
        run.fault("effects", (
            "the lowering emits an operation with a side effect, but the abstract evaluation "
            "declares no effect."),
            "Register the abstract evaluation with def_effectful_abstract_eval, and return "
            "(type, {effect}); or emit the operation with has_side_effect=False.",
            "The equation is dropped where its result is not used, and its order is not kept.")
    return None


# ---- determinism ------------------------------------------------------------------------


def check_determinism(run: Run) -> str | None:
    """Rules give the same for the same operands and params."""
    application = run.application
    if run.facts["effects"]:
        return "it has effects, which may change its results."
    again = "Take what varies as an operand: random numbers from a key, a counter, a time."
    with run.blaming("abstract_eval", "the abstract evaluation"):
        types = application.types_again()
    if any(not a.matches(b) for a, b in zip(types, run.facts["types"], strict=True)):
        run.fault("determinism", (
            f"the abstract evaluation gives {', '.join(map(str, types))} at one time and "
            f"{', '.join(map(str, run.facts['types']))} at another, for the same types."), again)
    for name, compute in (("the implementation", application.evaluate),
                          ("the lowering", application.lowered)):
        if name == "the lowering" and "lowered" not in run.facts:
            continue
        first, second = compute(*application.values), compute(*application.values)
        run.require_same("determinism", f"{name} called twice", difference(second, first, 0.0),
                         again)
    if "lowered" in run.facts:
        texts = {mjax.jit(lambda *values: application.call(*values)).lower(
            *application.values).as_text() for _ in range(2)}
        if len(texts) > 1:
            run.fault("determinism", "the lowering emits another program each time.",
                      "Emit what depends on the operands' types and the params alone.",
                      "Compilation caches never find the program again.")
    return None
