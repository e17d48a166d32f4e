"""`custom_gradient`: one function that returns its output and its pullback."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import P, R
from mjax._engine.control.custom.custom_vjp import custom_vjp
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import Partial, tree_leaves, tree_structure
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.flat import (
    FlatFunction,
    check_callable,
    debug_info_of,
    describe_function,
    wraps,
)
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.stage import eval_jaxpr, stage


@boundary
def custom_gradient(fun: Callable[P, tuple[R, Any]]) -> custom_vjp[P, R]:
    """A function that returns its own pullback as second result.

    Args:
      fun: a function of pytrees of arrays that returns a pair: its output, and a function from
        the output's cotangent to the cotangents of the arguments (a tuple, or for one argument
        its cotangent). That function may close over values that `fun` computed. It is traced, so
        Python control flow cannot depend on values.

    Returns:
      A function that returns the output; a `mjax.custom_vjp`.

    Raises:
      TypeError: `fun` is not callable; at calls: it does not return a pair of an output and a
        function.

    Example:
      >>> @mjax.custom_gradient
      ... def f(x):
      ...   return lax.mul(x, x), lambda ct: lax.mul(5.0, ct)
      >>> f(3.0), mjax.grad(f)(3.0)
      (Array(9., dtype=float32, weak_type=True), Array(5., dtype=float32, weak_type=True))

    Source: TensorFlow, `tf.custom_gradient`.
    """
    check_callable("custom_gradient", fun)

    @wraps(fun)
    def output(*args: Any) -> Any:
        return _pair(fun, args)[0]

    def fwd(*args: Any) -> Any:
        out, pullback = _pair(fun, args)
        alone = lambda found: found if len(args) != 1 or isinstance(found, (tuple, list)) else (
            found,)
        flat = FlatFunction(lambda ct: alone(pullback(ct)), tree_structure(((out,), {})))
        info = debug_info_of("custom_gradient", pullback, (out,), {})
        jaxpr = stage(flat, [typeof(leaf).to_tangent() for leaf in tree_leaves(out)], info)
        # The program does not hold the values that it closes over: they are residuals.
        program = jaxpr.replace(consts=[None] * len(jaxpr.consts))
        return out, Partial(functools.partial(_pulled_back, program, flat.out_tree), jaxpr.consts)

    wrapped: custom_vjp[P, R] = custom_vjp(output)
    wrapped.defvjp(fwd, lambda pullback, ct: pullback(*tree_leaves(ct)))
    return wrapped


def _pulled_back(program: Jaxpr, tree: Any, consts: Sequence[Any], *cts: Any) -> Any:
    return tree.unflatten(eval_jaxpr(program, consts, *cts))


def _pair(fun: Callable[..., Any], args: Any) -> Any:
    result = fun(*args)
    if not (isinstance(result, (tuple, list)) and len(result) == 2 and callable(result[1])):
        raise LazyTypeError(lambda: (
            f"custom_gradient: {describe_function(fun)} must return a pair (output, function that "
            f"pulls cotangents back), but returned {describe_value(result)}."))
    return result


__all__ = ["custom_gradient"]
