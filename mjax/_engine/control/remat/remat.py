"""Rematerialization: `checkpoint`, and its primitive `remat2`.

A function behind `checkpoint` saves few of its values for its derivative, and computes the others
a second time when the derivative is evaluated. A policy decides which are saved.

The primitive holds the function's jaxpr. Differentiating it cuts the jaxpr in three: `known`
evaluates the function and returns the saved values; `again` computes the other residuals from
them; the linear program comes after it. The last two are one equation, again of `remat2`, so that
derivatives of derivatives are rematerialized too. Transposing that equation runs `again` first.

Source: Griewank and Walther 2000 (checkpointing); JAX, `jax.checkpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import Function, P, R
from mjax._engine.base.util import alias, per_item
from mjax._engine.control.calls.closed_call import evaluates_as_call
from mjax._engine.control.calls.static_arguments import Static, StaticArguments
from mjax._engine.control.frame import Frame
from mjax._engine.control.frame_types import check_program_inputs
from mjax._engine.control.held import Held, Split
from mjax._engine.control.remat.origins import log_saved
from mjax._engine.control.remat.policies import Decided, check_policy, nothing_saveable
from mjax._engine.control.trace_body import stage_body
from mjax._engine.ir.jaxpr import Jaxpr, jaxprs_in_params
from mjax._engine.ir.pytree import broadcast_prefix, tree_flatten
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.emit import flat, hlo
from mjax._engine.tracing.flat import check_arguments, check_callable, function_name, wraps
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.transforms.recomputation import recompute_jaxpr, round_saved

#: One flag for all operands, or one each.
Flags = bool | tuple[bool, ...]

remat_p = EnginePrimitive("remat2", params={
    "jaxpr": Jaxpr, "prevent_cse": Any, "differentiated": bool,
    "policy": Callable[..., Any] | None}, multiple_results=True)
# Evaluation equation by equation does not merge computations, so it can ignore `prevent_cse`.
evaluates_as_call(remat_p, "jaxpr")


class _RematFrame(Frame):
    """How an operand enters: whether it needs a barrier against the compiler, if the jaxpr computes
    something a second time. Values that this primitive has made always need one."""

    drops_empty = True

    def open(self, params: dict[str, Any]) -> Held:
        rest = {name: value for name, value in params.items() if name != "jaxpr"}
        body = params["jaxpr"]
        return Held(body, per_item(rest["prevent_cse"], len(body.invars)),
                    [None] * len(body.outvars), rest)

    def close(self, held: Held) -> dict[str, Any]:
        guards = held.rest["prevent_cse"]  # one flag for all operands, or one each
        return {"jaxpr": held.body, **held.rest,
                "prevent_cse": guards if isinstance(guards, bool) else tuple(held.ins)}

    def derivative(self, how: Any) -> bool:
        return True

    def split(self, first: Held, second: Held, residual_forwarding: Sequence[int]) -> Split:
        """Values that the policy does not save are computed again before the second part."""
        sources, n, policy = tuple(residual_forwarding), len(first.outs), first.rest["policy"]
        known, rest, saved, computes = first.body.cached(
            ("cut", n, sources, second.body, policy), lambda: _cut(
                first.body, n, sources, second.body, policy or nothing_saveable))
        params = second.rest | {"differentiated": second.rest["differentiated"] or computes}
        return self.hand_on(first._replace(body=known),
                            second._replace(body=rest, rest=params), saved)

    def handed_on(self, split: Split) -> None:
        log_saved(split.first.body, split.residual_forwarding)

    def typecheck(self, *avals: Any, jaxpr: Jaxpr, prevent_cse: Flags, **params: Any) -> None:
        check_program_inputs(remat_p, jaxpr.in_avals, avals)
        if not isinstance(prevent_cse, bool) and len(prevent_cse) != len(avals):
            msg = f"remat2 of {len(avals)} operands has prevent_cse={prevent_cse}"
            raise TypeError(msg)


remat_frame = _RematFrame(remat_p)


@remat_p.def_lowering
def _remat_lowering(ctx: Any, *operands: Any, jaxpr: Jaxpr, prevent_cse: Flags,
                    differentiated: bool, **params: Any) -> Any:
    values = list(operands)
    guarded = [i for i, g in enumerate(per_item(prevent_cse, len(values))) if g]
    if differentiated and guarded:
        # Otherwise the compiler would find out that all of it was computed before, and keep it.
        # There is one barrier for all: recomputation starts when the cotangents are known.
        types = [ctx.avals_in[i] for i in guarded]
        passed = hlo.OptimizationBarrierOp(flat(values[i] for i in guarded)).results
        for i, value in zip(guarded, ctx.module_context.as_values(types, passed), strict=True):
            values[i] = value
    return ctx.call(jaxpr, "checkpoint", *values)


# ---- cutting ---------------------------------------------------------------------------


def _cut(program: Jaxpr, n_keep: int, sources: Sequence[int], rest: Jaxpr, policy: Any
         ) -> tuple[Jaxpr, Jaxpr, list[int], bool]:
    """Cuts a known program so that its residuals are recomputed.

    Args:
      program: the program; its first `n_keep` results are also wanted elsewhere.
      sources: the places of the residuals among its inputs and results.
      rest: the continuation, a function of residuals and new inputs.
      policy: decides what may be saved.

    Returns:
      A program from the inputs to the wanted results and the saved values; one from saved values,
      which may be inputs, and new inputs to the results of the continuation; the places of saved
      values among the inputs and results of the first; whether the second computes something
      again.
    """
    n, m = len(program.invars), len(program.outvars)
    wanted = sorted({s - n for s in sources if s >= n})
    parts = recompute_jaxpr(program, [i < n_keep for i in range(m)],
                            [i in wanted for i in range(m)], Decided(policy))
    # Inputs that the continuation reads directly pass through.
    direct = sorted({s for s in sources if s < n} - set(parts.residual_forwarding))
    again = parts.unknown.replace(
        invars=[*parts.unknown.invars, *[program.invars[i] for i in direct]])
    saved = [*parts.residual_forwarding, *direct]
    atoms: list[Any] = [again.outvars[wanted.index(s - n)] if s >= n
                        else again.invars[saved.index(s)] for s in sources]
    known = round_saved(parts.known, [parts.known.invars[s] for s in saved if s < n])
    return known, _chained(again, rest, atoms), saved, _computes(again)


def _chained(first: Jaxpr, second: Jaxpr, atoms: Sequence[Any]) -> Jaxpr:
    """The equations of `first`, then those of `second`, whose leading inputs are `atoms`.

    The two do not share variables.
    """
    n = len(atoms)
    env: dict[Any, Any] = dict(zip(second.invars[:n], atoms, strict=True))
    eqns = [eqn.replace(invars=[env.get(v, v) for v in eqn.invars]) for eqn in second.eqns]
    return Jaxpr(first.constvars + second.constvars, [*first.invars, *second.invars[n:]],
                 [env.get(v, v) for v in second.outvars], first.eqns + eqns,
                 first.effects | second.effects, second.debug_info._replace(arg_names=None),
                 consts=first.consts + second.consts)


def _computes(jaxpr: Jaxpr) -> bool:
    """Whether a program has equations other than calls that only return their operands."""
    return any(any(map(_computes, inner)) if (inner := list(jaxprs_in_params(eqn.params)))
               else True for eqn in jaxpr.eqns)


# ---- public functions ------------------------------------------------------------------


class _NotGiven:
    def __repr__(self) -> str:
        return "Deprecated"


_not_given = _NotGiven()


@boundary
def checkpoint(fun: Callable[P, R], *, prevent_cse: bool | Sequence[Any] = True,
               policy: Callable[..., Any] | None = None,
               static_argnums: int | Sequence[int] = (),
               static_argnames: str | Iterable[str] = (), concrete: Any = _not_given
               ) -> Function[P, R]:
    """Makes a function save little for its derivative, and compute the rest a second time.

    Values and derivatives are those of `fun`. When it is differentiated (`grad`, `vjp`,
    `linearize`), its arguments and the values chosen by the policy are saved. Other values that the
    derivative needs are recomputed from these when the derivative is evaluated. This trades time
    for memory: a layer keeps only its input, for instance.

    Args:
      fun: a function of pytrees of arrays.
      prevent_cse: whether to prevent the compiler from merging the two computations of a value,
        which would keep the value after all. (XLA's compiler for CPUs merges them nevertheless
        before jaxlib 0.11.2.) False saves a barrier where merging is impossible: in the body of a
        `scan`. Also a tuple of flags, a prefix of the arguments' tree.
      policy: decides what is saved beside the arguments: a function of a primitive, the types of
        its operands and its params; one of `mjax.checkpoint_policies` or your own. None: nothing.
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
            # Closed-over values are computed before the function, and kept in any case.
            guards = (*[False] * len(body.consts), *_per_leaf(flags, *marked))
        outs = remat_frame.runner(remat_frame.open({
            "jaxpr": body.jaxpr, "prevent_cse": guards, "differentiated": False,
            "policy": policy}))([*body.consts, *leaves])
        return body.out_tree.unflatten(outs)

    return rematerialized


#: Another name of `checkpoint`.
remat: Final = alias(checkpoint, "remat")


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
    """A flag for each leaf; static arguments do not have leaves."""
    dynamic = tuple([a for a in args if type(a) is not Static])
    named = {k: a for k, a in kwargs.items() if type(a) is not Static}
    try:
        return broadcast_prefix(flags, (dynamic, named) if named else dynamic)
    except ValueError as error:
        msg = (f"checkpoint: prevent_cse={flags} does not fit the arguments (a pair of positional "
               f"and keyword arguments where there are any of these): {error}")
        raise ValueError(msg) from None
