"""`custom_gradient`: one function that gives its output and its pullback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.control.custom.custom_vjp import custom_vjp
from mjax._engine.ir.pytree import Partial, tree_flatten
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.flat import check_callable, debug_info_of, describe_function, wraps
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.stage import eval_jaxpr, stage


@boundary
def custom_gradient(fun: Callable[..., Any]) -> custom_vjp:
    """A function whose pullback it gives itself, as second result.

    Args:
      fun: a function of pytrees of arrays that returns a pair: its output, and a function from
        the output's cotangent to the cotangents of the arguments: a tuple, or for one argument
        its cotangent. That may close over what `fun` computed, and is traced: no Python control
        flow that depends on values.

    Returns:
      A function that gives the output; a `mjax.custom_vjp`.

    Raises:
      TypeError: `fun` is not callable; at calls: it does not give a pair of an output and a
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
        leaves, out_tree = tree_flatten(out)
        trees: list[Any] = []

        def flat(*cts: Any) -> list[Any]:
            found = pullback(out_tree.unflatten(cts))
            if len(args) == 1 and not isinstance(found, (tuple, list)):
                found = (found,)
            values, tree = tree_flatten(found)
            trees.append(tree)
            return values

        info = debug_info_of("custom_gradient", pullback, (out,), {})
        jaxpr = stage(flat, [typeof(leaf).to_tangent() for leaf in leaves], info)
        consts = jaxpr.consts
        program = _Pullback(jaxpr.replace(consts=[None] * len(consts)), trees[0])
        return out, Partial(program, consts)

    wrapped = custom_vjp(output)
    wrapped.defvjp(fwd, lambda pullback, ct: pullback(*tree_flatten(ct)[0]))
    return wrapped


class _Pullback:
    """A staged pullback, without the values it closes over."""

    __slots__ = ("jaxpr", "tree")

    def __init__(self, jaxpr: Any, tree: Any):
        self.jaxpr, self.tree = jaxpr, tree

    def __call__(self, consts: Any, *cts: Any) -> Any:
        return self.tree.unflatten(eval_jaxpr(self.jaxpr, consts, *cts))


def _pair(fun: Callable[..., Any], args: Any) -> Any:
    result = fun(*args)
    if not (isinstance(result, (tuple, list)) and len(result) == 2 and callable(result[1])):
        raise LazyTypeError(lambda: (
            f"custom_gradient: {describe_function(fun)} must return a pair (output, function that "
            f"pulls cotangents back), but returned {describe_value(result)}."))
    return result


__all__ = ["custom_gradient"]
