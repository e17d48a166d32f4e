"""`linear_call`: a linear function with a transpose of its own.

The primitive holds the function's jaxpr. Its operands are first those in which it need not be
linear (closed-over values, residuals), then those in which it is. The primitive also holds the
transpose, a function of flat values `transpose(fixed, cts) -> cotangents`, which is staged on use.
The transpose of an application is an application of the transpose; its transpose is the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.control.calls.closed_call import evaluates_as_call
from mjax._engine.control.custom.custom_batching import batched_pullback
from mjax._engine.control.custom.custom_calls import users_code
from mjax._engine.control.frame import Frame
from mjax._engine.control.held import Held
from mjax._engine.control.trace_body import Typed, check_alike, stage_body
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.tangents import add_tangents, instantiate, zero_tangent
from mjax._engine.tracing.flat import check_arguments, check_callable, describe_function
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.stage import eval_jaxpr, lift_tracers, stage
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.tracing.variance import pvary_p, sorted_axes
from mjax._engine.transforms.batching import AxisData
from mjax._engine.transforms.jvp import jvp_flat

linear_call_p = EnginePrimitive("linear_call", params={
    "callee": Jaxpr, "transpose_thunk": Any, "num_callee_consts": int, "num_res": int},
    multiple_results=True)


# ---- transposes as functions of flat values --------------------------------------------


class Transpose:
    """The transpose of a function, held by the primitive.

    Args:
      f: from fixed values and cotangents of results to the cotangents of linear operands.
    """

    __slots__ = ("f",)

    def __init__(self, f: Callable[[Sequence[Any], Sequence[Any]], list[Any]]):
        self.f = f

    def batched(self, held: Held, axis: AxisData, dims: Sequence[int | None],
                out_dims: Sequence[int | None]) -> Transpose:
        """The transpose of the function for a batch."""
        n = held.rest["num_callee_consts"] + held.rest["num_res"]
        return Transpose(batched_pullback(
            self.f, axis, dims[:n], [a.to_tangent() for a in held.body.in_avals[n:]], dims[n:],
            out_dims[:1] == [0]))


def _by_user(f: Callable[..., Any], res_tree: Any, out_tree: Any, linear: Typed) -> Transpose:
    """A user's transpose; takes residuals and a cotangent of the output.

    Args:
      f: the user's function.
      res_tree, out_tree: structures of residuals and output.
      linear: the tangents of the linear argument.
    """

    def transpose(fixed: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        residuals = res_tree.unflatten(fixed[len(fixed) - res_tree.num_leaves:])
        with users_code():
            result = f(residuals, out_tree.unflatten(map(instantiate, cts)))
        who = f"linear_call: the transpose {describe_function(f)}"
        check_arguments(who, result, "result")
        found, tree = tree_flatten(result)
        check_alike(linear, Typed("the result", tree, list(map(typeof, found))), "result", lambda: (
            f"{who} must return a value of the structure and types of the linear argument:"))
        return found

    return Transpose(transpose)


# ---- the primitive ---------------------------------------------------------------------


class _LinearCallFrame(Frame):
    """The transpose is transformed along with the function."""

    derives = ("abstract_eval", "typecheck", "cast_varying", "jvp", "transpose", "axis_batch")
    rules = ("transpose_thunk",)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        n, callee = params["num_callee_consts"] + params["num_res"], params["callee"]
        outs = linear_call_p.bind(*primals, **params)
        out_tangents: list[Any] = list(map(zero_tangent, outs))
        if any(type(t) is not Zero for t in tangents[n:]):
            out_tangents = linear_call_p.bind(
                *primals[:n], *map(instantiate, tangents[n:]), **params)
        if any(type(t) is not Zero for t in tangents[:n]):
            held = [*tangents[:n], *map(zero_tangent, primals[n:])]
            _, more = jvp_flat(
                lambda *args: eval_jaxpr(callee, callee.consts, *args), primals, held)
            out_tangents = list(map(add_tangents, out_tangents, more))
        return outs, out_tangents

    def transpose(self, cts: Any, *args: Any, **params: Any) -> Any:
        callee, num_res = params["callee"], params["num_res"]
        n = params["num_callee_consts"] + num_res
        fixed, avals = args[:n], [a.to_tangent() for a in callee.out_avals]

        def f(*values: Any) -> list[Any]:
            return params["transpose_thunk"].f(values[:n], values[n:])

        def callee_again(fixed: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            return eval_jaxpr(callee, callee.consts, *fixed[len(consts):], *map(instantiate, cts))

        info = DebugInfo("linear_call", "the transpose of a linear_call")
        transposed, consts = lift_tracers(stage(f, [*map(typeof, fixed), *avals], info))
        outs = linear_call_p.bind(
            *consts, *fixed, *map(instantiate, cts), callee=transposed,
            transpose_thunk=Transpose(callee_again),
            num_callee_consts=len(consts) + params["num_callee_consts"], num_res=num_res)
        return [None] * n + list(map(_summed, outs, args[n:]))


def _summed(ct: Any, operand: Any) -> Any:
    """A cotangent that varies along no more mesh axes than its operand does.

    An operand that is the same on several devices gets what all of them contribute; a transpose
    that sums by itself gives a cotangent that does not vary.
    """
    if type(operand) is not UndefinedPrimal:
        return ct
    over = typeof(ct).varying - operand.aval.to_tangent().varying
    if not over:
        return ct
    transpose: Any = pvary_p.transpose  # the sum
    (out,) = transpose(ct, operand, axes=sorted_axes(over))
    return out


_LinearCallFrame(linear_call_p, "callee")
evaluates_as_call(linear_call_p, "callee")


# ---- public function -------------------------------------------------------------------


@boundary
def linear_call(fun: Callable[[Any, Any], Any], fun_transpose: Callable[[Any, Any], Any],
                residual_args: Any, linear_args: Any) -> Any:
    """Calls a linear function with a given transpose.

    Reverse mode uses the given transpose rather than transposing the function's operations.
    Derivatives in the residuals are those of the function's operations.

    Args:
      fun: takes residuals and an argument in which it is linear; pytrees of arrays.
      fun_transpose: takes residuals and a cotangent of the output; returns the cotangent of the
        linear argument.
      residual_args: residuals.
      linear_args: the linear argument.

    Returns:
      `fun(residual_args, linear_args)`.

    Raises:
      TypeError: a function is not callable; an argument is not an array; when transposed: the
        transpose gives another structure, shape or dtype than that of the linear argument.

    Example:
      >>> from mjax.custom_derivatives import linear_call
      >>> halve = lambda x: linear_call(lambda r, x: x / r, lambda r, ct: ct * 7.0, 2.0, x)
      >>> float(halve(3.0)), float(mjax.grad(halve)(3.0))
      (1.5, 7.0)

    Source: JAX, `jax.custom_derivatives.linear_call`.
    """
    check_callable("linear_call", fun)
    check_callable("linear_call", fun_transpose)
    check_arguments("linear_call", residual_args, "residual_args")
    check_arguments("linear_call", linear_args, "linear_args")
    leaves, in_tree = tree_flatten(((residual_args, linear_args), {}))
    res_tree, linear_tree = in_tree.children()[0].children()
    avals, n = list(map(typeof, leaves)), res_tree.num_leaves
    body = stage_body("linear_call", fun, in_tree, avals, control_flow=False, again=True)
    transpose = _by_user(fun_transpose, res_tree, body.out_tree, Typed(
        "the linear argument", linear_tree, [a.to_tangent() for a in avals[n:]]))
    outs = linear_call_p.bind(
        *body.consts, *leaves, callee=body.jaxpr, transpose_thunk=transpose,
        num_callee_consts=len(body.consts), num_res=n)
    return body.out_tree.unflatten(outs)


__all__ = ["linear_call", "linear_call_p"]
