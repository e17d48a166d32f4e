"""Rematerialization: `checkpoint`, and its primitive `remat2`.

A function behind `checkpoint` keeps few of its values for its derivative, and computes the
others a second time when the derivative is evaluated. What it keeps is settled by a policy.

The primitive holds the function's jaxpr. Differentiating it cuts the jaxpr in three: `known`
evaluates and gives what is kept; `again` computes the other residuals from that; the linear
program comes after it. The last two are one equation, again of `remat2`, so that derivatives
of derivatives are rematerialized too. Transposing that equation runs `again` first.

Source: Griewank and Walther 2000 (checkpointing); JAX, `jax.checkpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.util import alias, per_item
from mjax._engine.control.calls.closed_call import check_operands, evaluates_as_call, types_as_call
from mjax._engine.control.calls.static import Static, StaticArguments
from mjax._engine.control.remat.origins import log_saved
from mjax._engine.control.remat.policies import Decided, check_policy, nothing_saveable
from mjax._engine.control.trace_body import stage_body
from mjax._engine.ir.jaxpr import DropVar, Jaxpr, JaxprEqn, Var, jaxprs_in_params
from mjax._engine.ir.pytree import broadcast_prefix, tree_flatten
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.emit import hlo
from mjax._engine.tracing.flat import check_arguments, check_callable, function_name, wraps
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import StageInterpreter, eval_jaxpr
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter, partial_eval_jaxpr
from mjax._engine.transforms.recomputation import Policy, recompute_jaxpr, round_saved
from mjax._engine.transforms.transpose import transpose_jaxpr

#: One flag for all operands, or one each.
Flags = bool | tuple[bool, ...]

remat_p = Primitive("remat2", multiple_results=True, types_cacheable=False, own_varying=True)
types_as_call(remat_p, "jaxpr")
# Evaluated equation by equation, nothing is merged: `prevent_cse` has nothing to prevent.
evaluates_as_call(remat_p, "jaxpr")


class Options(Record):
    """The params of `remat2` beside its jaxpr.

    Attributes:
      prevent_cse: which operands the compiler must not look behind, where the jaxpr computes
        something a second time.
      differentiated: whether it does.
      policy: what may be saved; None: nothing.
    """

    prevent_cse: Flags
    differentiated: bool
    policy: Callable[..., Any] | None

    def guards(self, sources: Sequence[int | None]) -> Flags:
        """`prevent_cse` for operands that are the old ones at `sources`; None: a new one."""
        flags = self.prevent_cse
        return flags if isinstance(flags, bool) else tuple(
            [s is None or flags[s] for s in sources])

    def bind(self, jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
        """Applies `remat2`; what computes nothing needs no equation."""
        if not jaxpr.eqns:
            return eval_jaxpr(jaxpr, jaxpr.consts, *args)
        return remat_p.bind(*args, jaxpr=jaxpr, **self._asdict())


def _remat_typecheck(*avals: Any, jaxpr: Jaxpr, prevent_cse: Flags, **params: Any) -> None:
    check_operands(remat_p, jaxpr, avals)
    if not isinstance(prevent_cse, bool) and len(prevent_cse) != len(avals):
        msg = f"remat2 of {len(avals)} operands has prevent_cse={prevent_cse}"
        raise TypeError(msg)


remat_p.typecheck = _remat_typecheck


@remat_p.def_lowering
def _remat_lowering(ctx: Any, *operands: Any, jaxpr: Jaxpr, prevent_cse: Flags,
                    differentiated: bool, **params: Any) -> Any:
    values = list(operands)
    guarded = [i for i, g in enumerate(per_item(prevent_cse, len(values))) if g]
    if differentiated and guarded:
        # Or the compiler finds out that all of it was computed before, and keeps it. One
        # barrier for all: nothing is computed again before the cotangents are there.
        passed = hlo.OptimizationBarrierOp([values[i] for i in guarded]).results
        for i, value in zip(guarded, passed, strict=True):
            values[i] = value
    return ctx.call(jaxpr, "checkpoint", *values)


@remat_p.def_jvp
def _remat_jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
    options = Options(**params)
    jvp, nonzero_outs = jvp_jaxpr(jaxpr, [type(t) is not Zero for t in tangents], False)
    given = [t for t in tangents if type(t) is not Zero]
    guards = options.guards([*range(len(primals)), *[None] * len(given)])
    outs = options._replace(prevent_cse=guards).bind(jvp, [*primals, *given])
    n = len(jaxpr.outvars)
    out_tangents = iter(outs[n:])
    return outs[:n], [next(out_tangents) if nz else Zero(a.to_tangent())
                      for a, nz in zip(jaxpr.out_avals, nonzero_outs, strict=True)]


def _remat_linearize(nonzeros: Any, *primals: Any, jaxpr: Jaxpr, **params: Any) -> Any:
    options = Options(**params)
    parts = linearize_jaxpr(jaxpr, nonzeros)
    n = len(jaxpr.outvars)
    cut = _cut(parts.primal, n, parts.sources, parts.linear, options)
    log_saved(cut.known, cut.sources)
    outs = options.bind(cut.known, primals)
    both = [*primals, *outs]

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        given = [t for t in tangents if type(t) is not Zero]
        results = iter(cut.options.bind(cut.rest, [*residuals, *given]))
        return [next(results) if nz else Zero(a.to_tangent())
                for a, nz in zip(jaxpr.out_avals, parts.nonzero_outs, strict=True)]

    return outs[:n], parts.nonzero_outs, [both[s] for s in cut.sources], linear


remat_p.linearize = _remat_linearize


def _remat_partial_eval(interp: PartialEvalInterpreter, *args: Any, jaxpr: Jaxpr, **params: Any
                        ) -> Any:
    options = Options(**params)
    unknown = [interp.is_unknown(a) for a in args]
    places = [i for i, u in enumerate(unknown) if not u]
    parts = partial_eval_jaxpr(jaxpr, unknown, effects_known=interp.effects_known)
    n = len(jaxpr.outvars) - sum(parts.unknown_outs)
    of_known = options._replace(prevent_cse=options.guards(places))
    cut = _cut(parts.known, n, parts.sources, parts.unknown, of_known)
    if not cut.known.eqns and not n:
        # Nothing can be done ahead, or only what would be done again.
        return StageInterpreter.process(interp, remat_p, args, {"jaxpr": jaxpr, **params})
    log_saved(cut.known, cut.sources)
    known_ins = [args[i] for i in places]
    known = interp.call_known(of_known.bind, cut.known, known_ins)
    both = [*known_ins, *known]
    staged = interp.call_staged(cut.options.bind, cut.rest, [
        *[both[s] for s in cut.sources], *[a for a, u in zip(args, unknown, strict=True) if u]])
    known_outs, unknown_outs = iter(known[:n]), iter(staged)
    return [next(unknown_outs) if u else next(known_outs) for u in parts.unknown_outs]


remat_p.partial_eval = _remat_partial_eval


@remat_p.def_transpose
def _remat_transpose(cts: Any, *args: Any, jaxpr: Jaxpr, **params: Any) -> Any:
    options = Options(**params)
    undefined = [type(a) is UndefinedPrimal for a in args]
    given = [ct for ct in cts if type(ct) is not Zero]
    transposed, nonzero_ins = transpose_jaxpr(jaxpr, undefined,
                                              [type(ct) is not Zero for ct in cts])
    places = [i for i, u in enumerate(undefined) if not u]
    guards = options.guards([*places, *[None] * len(given)])
    outs = iter(options._replace(prevent_cse=guards).bind(
        transposed, [*[args[i] for i in places], *given]))
    nonzero = iter(nonzero_ins)
    return [(next(outs) if next(nonzero) else Zero(a.to_tangent())) if u else None
            for a, u in zip(jaxpr.in_avals, undefined, strict=True)]


def _remat_batch(axis: AxisData, args: Any, dims: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
    batched, out_dims = batch_jaxpr(jaxpr, axis, dims)
    return Options(**params).bind(batched, args), out_dims


remat_p.axis_batch = _remat_batch


def _remat_dce(used: Sequence[bool], eqn: Any) -> Any:
    jaxpr, used_ins = dce_jaxpr(eqn.params["jaxpr"], used)
    if not any(used) and not jaxpr.effects:
        return [False] * len(eqn.invars), None
    kept = [i for i, u in enumerate(used_ins) if u]
    return used_ins, eqn.replace(
        params=_params(eqn, jaxpr, kept), invars=[eqn.invars[i] for i in kept],
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u], effects=jaxpr.effects)


remat_p.dce = _remat_dce


def _remat_recompute(saveable: Policy, used: Sequence[bool], eqn: Any) -> Any:
    """Inside of another remat its policy counts."""
    parts = recompute_jaxpr(eqn.params["jaxpr"], [True] * len(used), used, saveable)
    n = len(eqn.invars)
    outvars = [Var(v.aval) if type(v) is DropVar else v for v in eqn.outvars]
    outvars += [Var(a) for a in parts.known.out_avals[len(outvars):]]
    known = eqn.replace(outvars=outvars, params={**eqn.params, "jaxpr": parts.known})
    again = eqn.replace(
        invars=parts.residuals(eqn.invars, outvars), effects=parts.again.effects,
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
        params=_params(eqn, parts.again, [s if s < n else None for s in parts.sources]))
    return known, again


remat_p.recompute = _remat_recompute


def _params(eqn: JaxprEqn, jaxpr: Jaxpr, sources: Sequence[int | None]) -> dict[str, Any]:
    """The params of an equation with another jaxpr, whose operands come from its own."""
    options = Options(**{name: eqn.params[name] for name in Options._fields})
    return {"jaxpr": jaxpr, **options._replace(prevent_cse=options.guards(sources))._asdict()}


# ---- cutting ---------------------------------------------------------------------------


class _Cut(Record):
    """A program, and what comes after it, cut by a policy.

    `known` goes from the program's inputs to its results that are kept and to what is saved;
    `rest` from inputs and what is saved (`sources`, among the inputs and results of `known`)
    and new inputs to what comes after. `options` are those of `rest`.
    """

    known: Jaxpr
    rest: Jaxpr
    sources: list[int]
    options: Options


def _cut(program: Jaxpr, n_keep: int, sources: Sequence[int], rest: Jaxpr, options: Options
         ) -> _Cut:
    """Cuts a known program so that its residuals are computed again; cached on it.

    Args:
      program: of its results the first `n_keep` are wanted by others.
      sources: where the residuals are among its inputs and results.
      rest: from residuals and new inputs to what depends on these.
      options: those of the equation that is cut.
    """
    sources = tuple(sources)
    return program.cached(("cut", n_keep, sources, rest, options), lambda: _make_cut(
        program, n_keep, sources, rest, options))


def _make_cut(program: Jaxpr, n_keep: int, sources: Sequence[int], rest: Jaxpr, options: Options
              ) -> _Cut:
    n, m = len(program.invars), len(program.outvars)
    wanted = sorted({s - n for s in sources if s >= n})
    parts = recompute_jaxpr(program, [i < n_keep for i in range(m)],
                            [i in wanted for i in range(m)],
                            Decided(options.policy or nothing_saveable))
    # Inputs that the rest reads directly pass through.
    direct = sorted({s for s in sources if s < n} - set(parts.sources))
    again = parts.again.replace(
        invars=[*parts.again.invars, *[program.invars[i] for i in direct]])
    saved = [*parts.sources, *direct]
    atoms: list[Any] = [again.outvars[wanted.index(s - n)] if s >= n
                        else again.invars[saved.index(s)] for s in sources]
    new = len(rest.invars) - len(sources)
    guards = options.guards([*[s if s < n else None for s in saved], *[None] * new])
    known = round_saved(parts.known, [parts.known.invars[s] for s in saved if s < n])
    return _Cut(known, _chained(again, rest, atoms), saved, Options(
        guards, options.differentiated or _computes(again), options.policy))


def _chained(first: Jaxpr, second: Jaxpr, atoms: Sequence[Any]) -> Jaxpr:
    """The equations of `first`, then those of `second`, whose leading inputs are `atoms`.

    The two have no variable in common.
    """
    n = len(atoms)
    env: dict[Any, Any] = dict(zip(second.invars[:n], atoms, strict=True))
    eqns = [eqn.replace(invars=[env.get(v, v) for v in eqn.invars]) for eqn in second.eqns]
    return Jaxpr(first.constvars + second.constvars, [*first.invars, *second.invars[n:]],
                 [env.get(v, v) for v in second.outvars], first.eqns + eqns,
                 first.effects | second.effects, second.debug_info._replace(arg_names=None),
                 consts=first.consts + second.consts)


def _computes(jaxpr: Jaxpr) -> bool:
    """Whether anything but calls that hand their operands on stands in a program."""
    return any(any(map(_computes, inner)) if (inner := list(jaxprs_in_params(eqn.params)))
               else True for eqn in jaxpr.eqns)


# ---- what users call -------------------------------------------------------------------


class _NotGiven:
    def __repr__(self) -> str:
        return "Deprecated"


_not_given = _NotGiven()


@boundary
def checkpoint(fun: Callable[..., Any], *, prevent_cse: bool | Sequence[Any] = True,
               policy: Callable[..., Any] | None = None,
               static_argnums: int | Sequence[int] = (),
               static_argnames: str | Iterable[str] = (), concrete: Any = _not_given
               ) -> Callable[..., Any]:
    """Makes a function keep little for its derivative, and compute the rest a second time.

    Values and derivatives are those of `fun`. When it is differentiated (`grad`, `vjp`,
    `linearize`), its arguments are kept and what the policy saves; other values that the
    derivative needs are computed again from these when the derivative is evaluated. Memory is
    traded for time, as a rule that of a whole layer for that of its input.

    Args:
      fun: a function of pytrees of arrays.
      prevent_cse: whether the compiler is kept from finding out that values are computed twice,
        upon which it would keep them after all. (XLA's compiler for CPUs finds out all the
        same before jaxlib 0.11.2.) False saves a barrier where it cannot find out: in the body
        of a `scan`. Also a tuple of flags, a prefix of the arguments' tree.
      policy: what is saved beside the arguments: a function of a primitive, the types of its
        operands and its params, one of `mjax.checkpoint_policies` or one's own. None: nothing.
      static_argnums: positions of arguments that are Python values, known when the
        function is traced.
      static_argnames: the same by name; each is completed from the other.
      concrete: no longer accepted; use `static_argnums`.

    Returns:
      A function of the same signature.

    Raises:
      TypeError: `fun` or `policy` is not callable; argument numbers are not integers, names are not
        strings, `prevent_cse` is neither a flag nor a sequence of flags; at calls: an argument
        is not an array.
      ValueError: an argument number or name that `fun` does not have; at calls: a static
        argument is a tracer; `prevent_cse` does not fit the arguments.
      NotImplementedError: `concrete` was given; when differentiated: the policy offloads.

    Example:
      >>> layer = mjax.checkpoint(lambda x: lax.sin(lax.sin(x)))
      >>> mjax.grad(layer)(2.0)
      Array(-0.25563914, dtype=float32, weak_type=True)
      >>> mjax.ad_checkpoint.print_saved_residuals(layer, 2.0)
      f32[] from the argument x

    Source: Griewank and Walther 2000; JAX, `jax.checkpoint`.
    """
    check_callable("checkpoint", fun)
    if concrete is not _not_given:
        msg = ("checkpoint: concrete is no longer an option. Mark arguments that have to be "
               "Python values with static_argnums.")
        raise NotImplementedError(msg)
    if policy is not None:
        check_policy("checkpoint", policy)
    flags = _flags(prevent_cse)
    static = StaticArguments.of("checkpoint", fun, static_argnums, static_argnames)

    @wraps(fun)
    @boundary
    def rematerialized(*args: Any, **kwargs: Any) -> Any:
        marked = static.mark(args, kwargs)
        leaves, tree = tree_flatten(marked)
        try:
            avals = [typeof(leaf) for leaf in leaves]
        except (TypeError, OverflowError):
            who = f"checkpoint of {function_name(fun)}"
            check_arguments(who, marked[0])
            check_arguments(who, marked[1], "keyword argument ")
            raise
        body = stage_body("checkpoint", fun, tree, avals, control_flow=False)
        guards = flags
        if not isinstance(flags, bool):
            # What the function closes over is computed before, and kept whatever happens.
            guards = (*[False] * len(body.consts), *_per_leaf(flags, *marked))
        outs = Options(guards, False, policy).bind(body.jaxpr, [*body.consts, *leaves])
        return body.out_tree.unflatten(outs)

    return rematerialized


#: Another name of it.
remat = alias(checkpoint, "remat")


def _flags(prevent_cse: Any) -> Any:
    if isinstance(prevent_cse, bool):
        return prevent_cse
    if isinstance(prevent_cse, (tuple, list)) and all(
            isinstance(flag, bool) for flag in tree_flatten(prevent_cse)[0]):
        return tuple(prevent_cse)
    msg = ("checkpoint: prevent_cse must be a bool, or a tuple of bools, a prefix of the "
           f"arguments' tree; got {prevent_cse!r} of type {type(prevent_cse).__name__}.")
    raise TypeError(msg)


def _per_leaf(flags: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[bool]:
    """A flag for each leaf; those of static arguments are left out, as these are."""
    dynamic = tuple([a for a in args if type(a) is not Static])
    named = {k: a for k, a in kwargs.items() if type(a) is not Static}
    try:
        return broadcast_prefix(flags, (dynamic, named) if named else dynamic)
    except ValueError as error:
        msg = (f"checkpoint: prevent_cse={flags} does not fit the arguments (a pair of positional "
               f"and keyword arguments where there are any of these): {error}")
        raise ValueError(msg) from None
