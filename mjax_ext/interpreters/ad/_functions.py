"""Derivatives of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.base.util import check_count
from mjax._engine.control.calls.call_primitive import as_wrapped
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, Var
from mjax._engine.ir.pytree import Partial, tree_flatten, tree_structure, treedef_tuple
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import held
from mjax._engine.primitives.tangents import instantiate as instantiate_zeros
from mjax._engine.tracing.flat import FlatFunction, function_name
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.dce import dce_jaxpr, with_inputs
from mjax._engine.transforms.linearize import linearize_flat
from mjax._engine.transforms.transpose import backward_pass
from mjax_ext._checked import as_function, as_list, as_listed_pair
from mjax_ext.interpreters.ad._jaxprs import check_types
from mjax_ext.interpreters.ad._wrapped import jvpfun, jvpfun_with_aux, pushed

_NONE: Any = object()


@boundary
def jvp(fun: Callable[..., Any], primals: Any = _NONE, tangents: Any = _NONE,
        has_aux: bool = False, instantiate: bool | Sequence[bool] = True,
        transform_stack: bool = True) -> Any:
    """The derivative of a function along a direction; zeros may be `Zero`s.

    Args:
      fun: a function of trees of arrays. Without `primals`, a function of flat values.
      primals: a list of its arguments.
      tangents: a list of trees of the same structure, of tangents or `Zero`s.
      has_aux: whether `fun` returns a pair whose second part is not differentiated.
      instantiate: for which leaves of the result a `Zero` is made an array.
      transform_stack: not read: names of scopes show the transformation.

    Returns:
      The result and its tangent, trees of one structure, and the second part if there is one.
      Without `primals` (as in jax to 0.9) a `WrappedFun` whose `call_wrapped(primals, tangents)`
      gives lists of both; with `has_aux`, and a function that gives the second part after it.

    Raises:
      TypeError: a tangent does not have the type of its primal.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> out, tangent = ad.jvp(lambda x, y: lax.mul(x, y), [3.0, 4.0],
      ...                       [1.0, ad.Zero(mjax.typeof(4.0))])
      >>> float(out), float(tangent)
      (12.0, 4.0)
      >>> pushed = ad.jvp(lambda x: [lax.sin(x)])
      >>> [float(t) for t in pushed.call_wrapped([0.0], [2.0])[1]]
      [2.0]
    """
    if primals is _NONE:
        flags = instantiate if isinstance(instantiate, bool) else tuple(instantiate)
        return (jvpfun_with_aux(as_wrapped(fun), flags) if has_aux else
                jvpfun(fun, flags, transform_stack))
    leaves, tree = tree_flatten(tuple(as_list("jvp", "primals", primals)))
    tangent_leaves, tangent_tree = tree_flatten(
        tuple(as_list("jvp", "tangents", tangents)), lambda t: type(t) is Zero)
    if tree != tangent_tree:
        msg = f"jvp: primals have the structure {tree}, and tangents {tangent_tree}."
        raise TypeError(msg)
    flat = FlatFunction(as_function("jvp", fun), treedef_tuple((tree, tree_structure({}))),
                        has_aux)
    outs, out_tangents = pushed("jvp", flat, instantiate, leaves, tangent_leaves)
    result = flat.out_tree.unflatten(outs), flat.out_tree.unflatten(out_tangents)
    return (*result, flat.aux) if has_aux else result


# ---- linear programs ---------------------------------------------------------------------


@boundary
def linearize(traceable: Callable[..., Any], primals: Sequence[Any], has_aux: bool = False,
              is_vjp: bool = False) -> Any:
    """Evaluates a function at a point, and gives the program of its derivative there.

    Args:
      traceable: a function of trees of arrays.
      primals: a list of its arguments.
      has_aux: whether it returns a pair whose second part is not differentiated.
      is_vjp: not read: the program is that of reverse mode, too.

    Returns:
      The result; for each of its leaves whether the tangent is zero; the program, from tangents of
      all leaves of the arguments to those of the results that are not zero; the values of its
      constants; and the second part if there is one.

    Raises:
      TypeError: an argument is not an array.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import ad
      >>> out, zeros, jaxpr, consts = ad.linearize(lambda x: (lax.sin(x), 2.0), [0.0])
      >>> zeros, core.eval_jaxpr(jaxpr, consts, 3.0)
      ([False, True], [Array(3., dtype=float32, weak_type=True)])
    """
    if not isinstance(primals, (list, tuple)):
        msg = (f"linearize: primals must be a list of the function's arguments, got "
               f"{describe_value(primals)}.")
        raise TypeError(msg)
    leaves, tree = tree_flatten(tuple(primals))
    flat = FlatFunction(as_function("linearize", traceable),
                        treedef_tuple((tree, tree_structure({}))), has_aux)
    outs, zeros, jaxpr = _linearized(flat, leaves, function_name(traceable))
    result = flat.out_tree.unflatten(outs), zeros, jaxpr, jaxpr.consts
    return (*result, flat.aux) if has_aux else result


def _linearized(f: Callable[..., Any], primals: Sequence[Any], name: str
                ) -> tuple[list[Any], list[bool], Jaxpr]:
    avals = [typeof(p).to_tangent() for p in primals]
    nonzeros = [a.inexact for a in avals]
    outs, jaxpr, nonzero_outs = linearize_flat(f, held(primals, nonzeros), nonzeros,
                                               debug_info=DebugInfo("linearize", name))
    jaxpr, _ = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), True)
    given = iter(jaxpr.invars)
    return outs, [not nz for nz in nonzero_outs], with_inputs(
        jaxpr, [next(given) if nz else Var(a) for a, nz in zip(avals, nonzeros, strict=True)])


class _Pull:
    """From cotangents of all results to those of the arguments; structure of a `Partial`."""

    def __init__(self, zeros: Sequence[bool], jaxpr: Jaxpr):
        self.zeros, self.jaxpr = zeros, jaxpr

    def __call__(self, consts: Sequence[Any], *cts: Any) -> list[Any]:
        check_count("vjp's function of cotangents", "cts", cts, self.zeros, "result")
        given = [ct for ct, zero in zip(cts, self.zeros, strict=True) if not zero]
        check_types("vjp's function of cotangents", "cts", given,
                    [v.aval.to_cotangent() for v in self.jaxpr.outvars])
        return [instantiate_zeros(ct) for ct in backward_pass(
            self.jaxpr, consts, [UndefinedPrimal(v.aval) for v in self.jaxpr.invars], given,
            "transpose")]


@boundary
def vjp(traceable: Callable[..., Any], primals: Sequence[Any], has_aux: bool = False) -> Any:
    """Evaluates a function of flat values, and gives the function of cotangents (jax to 0.8).

    Args:
      traceable: takes one value per primal, and gives a list; also a `linear_util.WrappedFun`.
      primals: its arguments.
      has_aux: whether it returns a pair of lists, the second of which is not differentiated.

    Returns:
      The list of results; a function from their cotangents to the list of the arguments'; and the
      second list if there is one. The function is a pytree of the values it keeps.

    Raises:
      TypeError: `traceable` is not a function, or one of the primals or results is not an array.
      ValueError: by the function: there are more or fewer cotangents than results; a TypeError:
        one does not have the type of its result.
      MissingRuleError: a primitive does not have a jvp rule; by the function: a transpose rule.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> outs, pull = ad.vjp(lambda x, y: [lax.mul(x, y)], [3.0, 4.0])
      >>> [float(ct) for ct in pull(1.0)]
      [4.0, 3.0]
    """
    call, found = as_function("vjp", traceable), list[Any]()

    def first(*args: Any) -> Any:
        if not has_aux:
            return call(*args)
        outs, aux = as_listed_pair("vjp", call(*args))
        found.extend(map(thread.interpreter.detach, aux))
        return outs

    first.__name__ = function_name(traceable)
    outs, zeros, jaxpr = _linearized(first, as_list("vjp", "primals", primals),
                                     first.__name__)
    consts = jaxpr.consts
    pull = Partial(_Pull(zeros, jaxpr.replace(consts=[None] * len(consts))), consts)
    return (outs, pull, found) if has_aux else (outs, pull)
