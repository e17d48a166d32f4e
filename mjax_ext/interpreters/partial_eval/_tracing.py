"""Functions to jaxprs, and jaxprs into a trace in progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, no_debug_info
from mjax._engine.ir.pytree import tree_flatten, tree_map
from mjax._engine.ir.types import AbstractValue, typeof
from mjax._engine.tracing.flat import FlatFunction, function_name
from mjax._engine.tracing.interpreter import call_with
from mjax._engine.tracing.rule_errors import describe_value, refuse_results
from mjax._engine.tracing.stage import StageInterpreter, eval_jaxpr, stage
from mjax._engine.transforms.dce import dce_jaxpr
from mjax_ext._checked import as_function, flags_for

#: A constant, and any value.
Const: TypeAlias = Any
Val: TypeAlias = Any


def info_of(fun: Any, given: Any, traced_for: str) -> DebugInfo:
    """The names for messages: those given, those of the function, or its bare name."""
    found = getattr(fun, "debug_info", None) if given in (None, no_debug_info) else given
    return found if isinstance(found, DebugInfo) else DebugInfo(
        traced_for, function_name(getattr(fun, "f", fun)))


def check_types(who: str, avals: Sequence[Any]) -> list[AbstractValue]:
    """The types, which must be types.

    Raises:
      TypeError: one is not.
    """
    for i, aval in enumerate(avals):
        if not isinstance(aval, AbstractValue):
            msg = (f"{who}: in_avals[{i}] must be a type, such as mjax.typeof(x) or "
                   f"core.ShapedArray(shape, dtype); got {describe_value(aval)}.")
            raise TypeError(msg)
    return list(avals)


def trace_to_jaxpr_dynamic(fun: Callable[..., Sequence[Any]], in_avals: Sequence[Any],
                           debug_info: DebugInfo = no_debug_info, *,
                           keep_inputs: Sequence[bool] | None = None, lower: bool = False,
                           auto_dce: bool = False) -> tuple[Jaxpr, list[Any], list[Any]]:
    """Traces a function of flat values; `mjax.make_jaxpr` does it for functions of pytrees.

    Args:
      fun: takes one value per type and gives a list of values; also a `linear_util.WrappedFun`.
      in_avals: the types of its inputs.
      debug_info: names for messages; by default those of a `WrappedFun`.
      keep_inputs: which inputs the function is given. The others are inputs of the jaxpr alone.
      lower: whether high-level types are lowered. mjax does not have them: both mean the same.
      auto_dce: whether equations whose results are unused are dropped.

    Returns:
      The jaxpr, the types of its results, and its constants: the values `fun` closed over.

    Raises:
      TypeError: `fun` does not return a list of arrays, or an entry of `in_avals` is not a type.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> aval = mjax.typeof(jnp.ones(2))
      >>> jaxpr, out_avals, consts = partial_eval.trace_to_jaxpr_dynamic(
      ...     lambda x, y: [lax.add(x, y)], [aval, aval])
      >>> len(jaxpr.eqns), out_avals, consts
      (1, [ShapedArray(float32[2])], [])
    """
    who = "trace_to_jaxpr_dynamic"
    call, avals = as_function(who, fun), check_types(who, in_avals)
    kept = flags_for(who, "keep_inputs", True if keep_inputs is None else keep_inputs, avals,
                     "input")

    def flat(*args: Any) -> Any:
        outs = call(*[a for a, k in zip(args, kept, strict=True) if k])
        if not isinstance(outs, (list, tuple)):
            refuse_results(fun, outs, who)
        return outs

    jaxpr = stage(flat, avals, info_of(fun, debug_info, "trace_to_jaxpr_dynamic"))
    if auto_dce:
        jaxpr, _ = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), True)
    return jaxpr, jaxpr.out_avals, jaxpr.consts


def trace_to_jaxpr_dynamic2(fun: Any, debug_info: DebugInfo = no_debug_info
                            ) -> tuple[Jaxpr, tuple[tuple[Any, bool], ...], list[Any]]:
    """`trace_to_jaxpr_dynamic` for a function that carries its input types (jax to 0.7).

    Args:
      fun: a function with the attribute `in_type`, as `linear_util.annotate` sets it: for each
        input its type, and whether the caller gives it. `infer_lambda_input_type` makes it.
      debug_info: names for messages.

    Returns:
      The jaxpr, the type of each result with True, and the constants.

    Raises:
      TypeError: `fun` does not have an `in_type`.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> def f(x):
      ...     return [lax.neg(x)]
      >>> f.in_type = partial_eval.infer_lambda_input_type(None, [1.0])
      >>> jaxpr, out_type, consts = partial_eval.trace_to_jaxpr_dynamic2(f)
      >>> out_type
      ((ShapedArray(float32[], weak_type=True), True),)
    """
    in_type = getattr(fun, "in_type", None)
    if in_type is None:
        msg = ("trace_to_jaxpr_dynamic2 takes a function with an in_type, as linear_util.annotate("
               f"f, infer_lambda_input_type(None, args)) gives; got {describe_value(fun)} without "
               "one.")
        raise TypeError(msg)
    jaxpr, out_avals, consts = trace_to_jaxpr_dynamic(
        fun, [aval for aval, _ in in_type], debug_info,
        keep_inputs=[explicit for _, explicit in in_type])
    return jaxpr, tuple((aval, True) for aval in out_avals), consts


def infer_lambda_input_type(axes_specs: Any, args: Sequence[Any]
                            ) -> tuple[tuple[Any, bool], ...]:
    """The types of arguments, each with True: the caller gives it (jax to 0.7).

    Args:
      axes_specs: None. JAX's dynamic shapes named axes here.
      args: arrays.

    Returns:
      A tuple of pairs.

    Raises:
      NotImplementedError: there are `axes_specs`.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> partial_eval.infer_lambda_input_type(None, [1.0])
      ((ShapedArray(float32[], weak_type=True), True),)
    """
    if axes_specs is not None and any(axes_specs):
        msg = ("infer_lambda_input_type: axes_specs named axes of JAX's dynamic shapes, which are "
               f"gone; got {axes_specs!r}. Symbolic shapes are those of mjax.export.")
        raise NotImplementedError(msg)
    return tuple((typeof(arg), True) for arg in args)


def trace_to_jaxpr(fun: Callable[..., Any], in_avals: tuple[Any, Any],
                   debug_info: DebugInfo = no_debug_info, *context_for_cache_key: Any
                   ) -> tuple[Jaxpr, Any]:
    """Traces a function of pytrees.

    Args:
      fun: the function.
      in_avals: the pair of its positional arguments, a tuple, and those given by keyword, a dict,
        with types in place of arrays.
      debug_info: names for messages.
      context_for_cache_key: facts that the caller's cache depends on; not read.

    Returns:
      The jaxpr of the flat function, with its constants, and the tree of its results' types.

    Raises:
      TypeError: `in_avals` is not such a pair, or a result is not an array.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr, out = partial_eval.trace_to_jaxpr(
      ...     lambda x, *, scale: {"y": lax.mul(x, scale)},
      ...     ((mjax.typeof(1.0),), {"scale": mjax.typeof(2.0)}))
      >>> out
      {'y': ShapedArray(float32[], weak_type=True)}
    """
    who = "trace_to_jaxpr"
    if not (isinstance(in_avals, tuple) and len(in_avals) == 2 and isinstance(in_avals[1], dict)):
        msg = (f"{who}: in_avals must be a pair of a tuple and a dict of types, (args, kwargs); "
               f"got {describe_value(in_avals)}.")
        raise TypeError(msg)
    leaves, tree = tree_flatten(in_avals)
    flat = FlatFunction(as_function(who, fun), tree)
    jaxpr = stage(flat, check_types(who, leaves), info_of(fun, debug_info, who))
    return jaxpr, tree_map(lambda v: v.aval, flat.out_tree.unflatten(jaxpr.outvars))


def abstract_eval_fun(fun: Callable[..., Sequence[Any]], *avals: Any,
                      debug_info: DebugInfo = no_debug_info, **params: Any) -> list[Any]:
    """The types of a function's results, from those of its operands.

    Args:
      fun: takes arrays and `params`, and returns a list of arrays.
      avals: the types.
      debug_info: names for messages.
      params: further arguments, by keyword.

    Returns:
      A list of types.

    Raises:
      TypeError: `fun` does not return a list of arrays, or one of `avals` is not a type.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> partial_eval.abstract_eval_fun(lambda x, *, n: [lax.integer_pow(x, n)],
      ...                                mjax.typeof(jnp.ones(2)), n=3)
      [ShapedArray(float32[2])]
    """
    call = as_function("abstract_eval_fun", fun)
    _, out_avals, _ = trace_to_jaxpr_dynamic(
        partial(call, **params), avals, info_of(fun, debug_info, "abstract_eval_fun"))
    return out_avals


def inline_jaxpr_into_trace(trace: StageInterpreter, src: Any, jaxpr: Jaxpr,
                            consts: Sequence[Any], *arg_tracers: Any) -> list[Any]:
    """Adds the equations of a jaxpr to a trace in progress.

    Args:
      trace: a trace that stages.
      src: not read: each equation keeps the line that it came from.
      jaxpr: the program, of `n` constants and `m` inputs.
      consts: the `n` values of its constants.
      arg_tracers: `m` values.

    Returns:
      The values of its results.

    Raises:
      TypeError: there are more or fewer values than constants or inputs.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> inner = mjax.make_jaxpr(lambda x: lax.sin(lax.cos(x)))(1.0)
      >>> def f(x):
      ...     return partial_eval.inline_jaxpr_into_trace(x.interp, None, inner, inner.consts, x)
      >>> [eqn.primitive for eqn in mjax.make_jaxpr(f)(1.0).eqns]
      [cos, sin]
    """
    outs: list[Any] = call_with(trace, eval_jaxpr, jaxpr, consts, *arg_tracers)
    return outs
