"""The primitive `cond`: applies one of several jaxprs, the branches, to its operands.

    cond[branches] index *operands -> results

The index is an int32 in range. Under vmap a batched index becomes a choice between the results of
all branches.

Source: XLA's Conditional operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NotRequired

import numpy as np

from mjax._engine.base.errors import MissingRuleError
from mjax._engine.base.platforms import names_of
from mjax._engine.base.thread import thread
from mjax._engine.control.branches.branches import OF_BRANCHES, Branches
from mjax._engine.control.calls.jit import call
from mjax._engine.control.cast_varying import Axes, bind_cast, refuse_alone, varying_of, widened
from mjax._engine.control.frame import Frame
from mjax._engine.control.held import Held
from mjax._engine.control.masking import maskable, masked, reads_mask
from mjax._engine.control.references import transformations
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.references import is_reference, touches_references
from mjax._engine.ir.types import ShapedArray, same_array_type, same_type_but_weak, typeof
from mjax._engine.primitives.arithmetic import eq_p
from mjax._engine.primitives.emit import constant, hlo, ir
from mjax._engine.primitives.select import select_n_p
from mjax._engine.primitives.shapes import batch_to_front, broadcast_in_dim_p
from mjax._engine.primitives.tangents import stop_gradient_p
from mjax._engine.tracing.operands import OperandsVaryError
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.rule_errors import applied_at, refuse_effects_in, refuse_masked_effects
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.variance import casts_are_written
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr

#: The platforms of each branch; None, in the last place: all others.
Platforms = tuple[tuple[str, ...] | None, ...]

cond_p = EnginePrimitive("cond", params={
    "branches": tuple[Jaxpr, ...], "branches_platforms": NotRequired[Platforms]},
    multiple_results=True)


class _CondFrame(Frame):
    """The index enters none of the branches; operands enter, and results leave, as they are."""

    aside = 1
    one_runs = True
    transforms = OF_BRANCHES

    def body(self, params: dict[str, Any]) -> Branches:
        return Branches(params[self.param])

    def close(self, held: Held) -> dict[str, Any]:
        return {self.param: tuple(held.body), **held.rest}

    def abstract_eval(self, index: Any, *operands: Any, branches: Sequence[Jaxpr], **params: Any
                      ) -> Any:
        outs = [_joined(index, same) for same in zip(*[b.out_avals for b in branches], strict=True)]
        return outs, self.effects(Branches(branches))

    def typecheck(self, index: Any, *operands: Any, branches: Sequence[Jaxpr], **params: Any
                  ) -> None:
        check_branches(index, operands, branches)

    def cast_varying(self, varying: Sequence[Axes], **params: Any) -> Any:
        """Results vary along the axes of any branch, and all along those of the index.

        Operands are cast to all of these axes outside of the branches. The transpose of a cast in
        a branch would wait for devices that take another branch.
        """
        branches = self.body(params)
        least, operands = varying[0], varying[1:]
        wanted = [least.union(*same)
                  for same in zip(operands, *map(varying_of, branches), strict=True)]
        if not any([least, *wanted, *(a.varying for b in branches for a in b.out_avals)]):
            return varying, params  # outside of shard_map

        def make() -> Branches:
            found = [widened(b, wanted) for b in branches]
            refuse_alone("cond", "the predicate", least, found)
            results = list(zip(*[b.out_avals for b in found], strict=True))
            if casts_are_written():
                _refuse_unlike(results)
            outs = [least.union(*(a.varying for a in same)) for same in results]
            return Branches(widened(b, wanted, outs) for b in branches)

        key = ("vary", least, *wanted, thread.settings, thread.axis_env)
        return [least, *wanted], {**params, self.param: tuple(branches.cached(key, make))}

    def axis_batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
        if dims[0] is None:
            return super().axis_batch(axis, args, dims, **params)
        if "branches_platforms" in params:
            # The platform is the same for all elements; a rule batched the index nevertheless.
            index = platform_index_p.bind(platforms=params["branches_platforms"])
            return super().axis_batch(axis, [index, *args[1:]], [None, *dims[1:]], **params)
        branches = self.body(params)
        if branches.effects and touches_references(branches.effects):
            return transformations.batch(self, axis, args, dims, params)
        refuse_effects_in(
            branches, "batchable", lambda: "vmap of cond over its predicate: the branches have",
            "All branches would run for all batch elements. Move the effects out of the branches, "
            "or do not map over the predicate.")
        refuse_masked_effects("cond", [b for b in branches if not maskable(b)])
        key = ("select", axis, *dims, *map(typeof, args), thread.settings)
        chosen = branches.cached(key, lambda: _selecting(branches, axis, args, dims[1:]))
        outs = (eval_jaxpr(chosen, chosen.consts, *args) if reads_mask(chosen) else
                call(chosen, "cond", args))
        return outs, [0] * len(outs)


cond_frame = _CondFrame(cond_p, "branches")


def bind_cond(index: Any, operands: Sequence[Any], branches: Sequence[Jaxpr], **params: Any
              ) -> list[Any]:
    """Applies `cond`."""
    return bind_cast(cond_p, [index, *operands], {"branches": tuple(branches), **params})


# ---- types -----------------------------------------------------------------------------


def _joined(index: Any, avals: Sequence[Any]) -> Any:
    """The type of a result, from its types in the branches; weak if the first is, as in JAX."""
    varying = index.varying.union(*(a.varying for a in avals))
    return avals[0] if avals[0].varying == varying else avals[0].with_varying(varying)


def check_branches(index: Any, operands: Sequence[Any], branches: Sequence[Jaxpr]) -> None:
    """Compares operands and results of branches.

    Raises:
      TypeError: a type differs.
    """
    if not same_array_type(index, ShapedArray((), np.int32)):
        msg = f"cond: the index has type {index}, not int32[]"
        raise TypeError(msg)
    first = branches[0]
    for i, branch in enumerate(branches):
        for what, given, wanted in (
                ("the operands", operands, branch.in_avals),
                ("the results of branch 0", first.out_avals, branch.out_avals)):
            if len(given) != len(wanted) or not all(map(same_type_but_weak, given, wanted)):
                msg = (f"cond: {what} have types {', '.join(map(str, given))} where branch {i} "
                       f"has {', '.join(map(str, wanted))}")
                raise TypeError(msg)


def _refuse_unlike(results: Sequence[Sequence[Any]]) -> None:
    for i, same in enumerate(results):
        if len({a.varying for a in same}) > 1:
            raise OperandsVaryError(lambda i=i, same=same: (  # type: ignore[misc]
                f"result {i} of the branches of cond varies along different mesh axes: it has the "
                f"types {', '.join(map(str, same))}. Cast those that vary less with "
                "mjax.lax.pcast(x, axes, to='varying')."))

# ---- lowering --------------------------------------------------------------------------


@cond_p.def_lowering
def _cond_lowering(ctx: Any, index: Any, *operands: Any, branches: Sequence[Jaxpr],
                   branches_platforms: Platforms | None = None) -> Any:
    if branches_platforms is not None:
        outs = ctx.inline(branches[platform_position(ctx, branches_platforms)], *operands)
        # Another branch may have ordered effects that this one does not have.
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(ctx.tokens))
        return outs
    tokens = ctx.tokens_in.values()
    types = [*(t.type for t in tokens), *ctx.out_types]
    # In a shard_map XLA cannot place branches without results (0.4.36): they give a number.
    more = [constant(np.int32(0))] if not types and ctx.module_context.partitioned else []
    case = hlo.CaseOp([*types, *(n.type for n in more)], index=index, num_branches=len(branches))
    for region, branch in zip(case.regions, branches, strict=True):
        with ir.InsertionPoint(region.blocks.append()):
            inner = ctx.replace()
            outs = inner.inline(branch, *operands)
            hlo.return_([*inner.tokens.values(), *outs, *more])
    results = list(case.results)[:len(types)]
    if tokens:
        ctx.set_tokens_out(ctx.tokens_in.replaced(results[:len(tokens)]))
    return results[len(tokens):]


platform_index_p = EnginePrimitive("platform_index", params={"platforms": Platforms})


@platform_index_p.def_abstract_eval
def _platform_index_type(*, platforms: Platforms) -> ShapedArray:
    return ShapedArray((), np.int32)


@platform_index_p.def_lowering
def _platform_index_lowering(ctx: Any, *, platforms: Platforms) -> Any:
    return [constant(np.int32(platform_position(ctx, platforms)))]


def platform_position(ctx: Any, platforms: Platforms) -> int:
    """The first branch for the platform that the program is lowered for."""
    for i, group in enumerate(platforms):
        if group is None or not set(names_of(ctx.platform)).isdisjoint(group):
            return i
    known = ", ".join(name for group in platforms for name in group or ()) or "no platform"
    raise MissingRuleError(lambda: (
        f"platform_dependent has no branch for the platform {ctx.platform!r}, only for {known}. "
        f"Give one, or a default.\n{applied_at(ctx.source)}"))


# ---- vmap over the index ---------------------------------------------------------------


def _selecting(branches: Branches, axis: AxisData, args: Sequence[Any],
               dims: Sequence[int | None]) -> Jaxpr:
    """The program that runs all branches for the whole batch, and selects the results.

    In elements that take another branch, operands are held constant. Otherwise a derivative that is
    not finite there would spoil the sum, although it is multiplied by zero.
    """
    inexact = [a.inexact and not is_reference(a) for a in map(typeof, args[1:])]
    in_dims = [0 if f else d for d, f in zip(dims, inexact, strict=True)]
    masks, n = [reads_mask(b) for b in branches], len(branches[0].outvars)
    batched = [batch_jaxpr(masked(b) if mask else b, axis, [*in_dims, *[0] * mask], True)[0]
               for b, mask in zip(branches, masks, strict=True)]
    read = [dce_jaxpr(b, [True] * n)[1] for b in branches]

    def run(index: Any, *operands: Any) -> list[Any]:
        fronted = [batch_to_front(x, d, axis.size) if f else x
                   for x, d, f in zip(operands, dims, inexact, strict=True)]
        cases = []
        for i, branch in enumerate(batched):
            taken = eq_p.bind(index, _batch_of(np.int32(i), axis))
            held = [_select(taken, stop_gradient_p.bind(x), x) if f and r else x
                    for x, f, r in zip(fronted, inexact, read[i], strict=True)]
            cases.append(eval_jaxpr(branch, branch.consts, *held, *[taken] * masks[i])[:n])
        return [_select(index, *same) for same in zip(*cases, strict=True)]

    return trace_to_jaxpr(run, list(map(typeof, args)), branches[0].debug_info)


def _batch_of(scalar: Any, axis: AxisData) -> Any:
    return broadcast_in_dim_p.bind(scalar, shape=(axis.size,), broadcast_dimensions=())


def _select(which: Any, *cases: Any) -> Any:
    """Chooses along the leading axis."""
    shape = typeof(cases[0]).shape
    if len(shape) > 1:
        which = broadcast_in_dim_p.bind(which, shape=shape, broadcast_dimensions=(0,))
    return select_n_p.bind(which, *cases)


__all__ = ["Branches", "Platforms", "bind_cond", "cond_p", "platform_index_p"]
