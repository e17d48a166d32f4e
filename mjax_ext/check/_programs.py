"""The primitive in programs: jit, scan, cond, remat; dead code, partial evaluation, copies."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

import mjax
from mjax import lax
from mjax._engine.ir.effects import describe, forbidden, keeps_equation
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr
from mjax_ext.check._application import UNOPTIMIZED, Arrays, Traced, in_numpy
from mjax_ext.check._compare import difference, tolerance
from mjax_ext.check._derivatives import pushed
from mjax_ext.check._pairs import pulled
from mjax_ext.check._run import Run

_ADDRESS = re.compile(r"0x[0-9a-f]+")


# ---- jit, scan, cond ----------------------------------------------------------------------


def check_programs(run: Run) -> str | None:
    """In compiled programs, loops and branches the primitive gives what it gives alone."""
    application, effects = run.application, run.facts["effects"]
    values = application.values
    if not values:
        return None
    first, second = values, [x[::-1] if x.ndim and not application.programs else x for x in values]
    stacks = [np.stack([a, b]) for a, b in zip(first, second, strict=True)]

    def scanned(*stacks: Any) -> Any:
        return lax.scan(lambda c, xs: (c, tuple(application.call(*xs))), 0.0, stacks)[1]

    def chosen(*values: Any) -> Any:
        return lax.cond(lax.lt(lax.full((), 0.0), lax.full((), 1.0)), application.call,
                        lambda *xs: [lax.full_like(y, 0) for y in application.call(*xs)], *values)

    expected = application.evaluate(*first)
    ways: dict[str, tuple[Callable[..., Any], Arrays, Arrays]] = {
        "jit": (application.call, values, expected)}
    if not forbidden(effects, "control_flow"):
        other = application.evaluate(*second)
        ways["scan"] = (scanned, stacks, [np.stack(pair) for pair in zip(
            expected, other, strict=True)])
        ways["cond"] = (chosen, values, expected)
    for name, (f, args, _) in ways.items():
        with run.blaming("lowering", f"{name} of the primitive"):
            mjax.make_jaxpr(f)(*args)
    together = mjax.jit(lambda args: [list(f(*xs)) for (f, _, _), xs in zip(
        ways.values(), args, strict=True)], compiler_options=UNOPTIMIZED)
    with run.blaming("lowering", f"a program with {', '.join(ways)}"):
        results = together([args for _, args, _ in ways.values()])
    for (name, (_, args, wanted)), outs in zip(ways.items(), results, strict=True):
        run.require_same("lowering", f"{name} of the primitive", difference(
            list(map(in_numpy, outs)), wanted, tolerance([*args, *wanted])),
            "Emit what depends on the operands and the context of this call alone.")
    return None


# ---- rematerialization --------------------------------------------------------------------


def check_recompute(run: Run) -> str | None:
    """Under checkpoint values and derivatives are the same, whatever is saved."""
    application, effects = run.application, run.facts["effects"]
    refused = forbidden(effects, "remat") or forbidden(effects, "differentiable")
    if refused:
        return f"the policy of its effects {describe(refused)} forbids it."
    places = run.facts.get("group", ())
    if not places:
        return "it has no derivatives to recompute for."
    def both(f: Callable[..., Any], *values: Any) -> list[Any]:
        outs, ins = pulled(f, places, values)
        return [*outs, *ins]

    values = application.values
    expected = Traced(lambda *xs: both(application.call, *xs), *values)(*values)
    names = [f"inexact result {i}" for i in range(len(expected) - len(places))] + [
        f"the cotangent of operand {application.places[k]}" for k in places]
    for policy in ("nothing_saveable", "everything_saveable"):
        f = mjax.checkpoint(application.call, policy=getattr(mjax.checkpoint_policies, policy))
        what = f"vjp under checkpoint with policy {policy}"
        with run.blaming("recompute", what):
            outs = Traced(lambda *xs, f=f: both(f, *xs), *values)(*values)
        found = difference(outs, expected, tolerance(expected), names)
        run.require_same("recompute", what, found, (
            "The first equation of the rule gives what it saves, the second the used results "
            "again: compare them with the primitive itself."))
    return None


# ---- dead code ------------------------------------------------------------------------------


def check_dce(run: Run) -> str | None:
    """Without unused results the used ones are the same, and effects remain."""
    application = run.application
    jaxpr = mjax.make_jaxpr(application.call)(*application.values)
    before = _text(jaxpr)
    outs = application.run(jaxpr, application.values)
    count = len(outs)
    kept = keeps_equation(run.facts["effects"])
    for used in itertools.islice(itertools.product((True, False), repeat=count), 8):
        what = f"without unused results (used: {list(used)}) the program"
        with run.blaming("dce", what):
            smaller, read = dce_jaxpr(jaxpr, used)
        if _text(jaxpr) != before:
            run.fault("dce", "the rule changes the equation that it is given.",
                      "Make a new one: eqn.replace(invars=..., outvars=..., params=...).",
                      "Other programs that hold the equation change too.")
        with run.blaming("dce", what):
            found = application.run(smaller, [
                x for x, r in zip(application.values, read, strict=True) if r])
        wanted = [out for out, u in zip(outs, used, strict=True) if u]
        run.require_same("dce", what, difference(found, wanted, tolerance(wanted)),
                         "Keep what the used results depend on.")
        if kept and not keeps_equation(smaller.effects):
            run.fault("dce", f"{what} loses the effects {describe(run.facts['effects'])}.",
                      "Return an equation where eqn.effects holds effects whose policy says "
                      "kept_by_dce.", "What the primitive does besides its results is dropped.")
    return None


def _text(jaxpr: Any) -> str:
    return _ADDRESS.sub("", str(jaxpr))


# ---- partial evaluation -----------------------------------------------------------------------


def check_partial_eval(run: Run) -> str | None:
    """Split at known operands, the two programs give what the whole does."""
    application = run.application
    if run.primitive.partial_eval is None:
        return "the primitive has no rule: it is unknown where an operand is."
    jaxpr = mjax.make_jaxpr(application.call)(*application.values)
    outs = application.run(jaxpr, application.values)
    ways = itertools.product((True, False), repeat=len(application.values))
    for unknown in itertools.islice(ways, 16):
        what = f"partial evaluation (unknown: {list(unknown)})"
        ins = [x for x, u in zip(application.values, unknown, strict=True) if not u]
        rest = [x for x, u in zip(application.values, unknown, strict=True) if u]
        with run.blaming("partial_eval", what):
            split = partial_eval_jaxpr(jaxpr, list(unknown), False)
            known = application.run(split.known, ins)
            later = iter(application.run(split.unknown, [
                *split.residuals(ins, known), *rest]))
            early = iter(known)
            found = [next(later if u else early) for u in split.unknown_outs]
        run.require_same("partial_eval", what, difference(found, outs, tolerance(outs)), (
            "The rule gives known results where they are, and stages the others; compare both "
            "with the primitive itself."))
    return None


# ---- rules run twice, and what they do to effects and params ------------------------------------


def check_effects_kept(run: Run) -> str | None:
    """Derivatives and batches of the primitive have its effects."""
    application, effects = run.application, run.facts["effects"]
    kept = {e for e in effects if e.policy.kept_by_dce}
    if not kept or not application.values:
        return None
    group = run.facts.get("group", ())
    ways: dict[str, Callable[[], Any]] = {}
    if group and not forbidden(effects, "differentiable"):
        ways["jvp"] = lambda: mjax.make_jaxpr(lambda *xs: pushed(
            application, group, xs, [xs[k] for k in group]))(*application.values)
    if not forbidden(effects, "batchable"):
        ways["vmap"] = lambda: mjax.make_jaxpr(mjax.vmap(application.call))(
            *[np.stack([x, x]) for x in application.values])
    for name, make in ways.items():
        rule = {"jvp": "jvp", "vmap": "batch"}[name]
        if rule in run.wrong():
            continue
        lost = {type(e) for e in kept} - {type(e) for e in make().effects}
        if lost:
            run.fault("effects", (
                f"the program of {name} loses the effects "
                f"{', '.join(sorted(t.__name__ for t in lost))}."), (
                f"Apply the primitive in its {rule} rule too, or let the policy of the effect say "
                f"{'differentiable' if name == 'jvp' else 'batchable'}=False."),
                f"What the primitive does besides its results does not happen under {name}.")
    return None
