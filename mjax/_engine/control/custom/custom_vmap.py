"""Functions with a user's batching rule: `custom_vmap`, and `custom_vmap_call`.

The primitive holds the function's jaxpr and the rule. The rule has a method `batch(size, batched,
args) -> outs, out_batched` on flat values, which are batched along axis 0. A derivative of the
function is such a function again: with the jaxpr of the derivative, and the derivative of the rule.
In reverse mode the part with tangents is evaluated from the arguments, which are its only
residuals, since function and rule may have different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import P, R
from mjax._engine.base.thread import thread
from mjax._engine.base.util import merge_lists, partition_list
from mjax._engine.control.custom.custom_batching import Rule
from mjax._engine.control.custom.custom_calls import check_pair, users_code, vary_as_function
from mjax._engine.control.custom.custom_frame import CustomFrame
from mjax._engine.control.custom.custom_rules import Custom
from mjax._engine.control.held import Params
from mjax._engine.control.loops.looping import map as loop_map
from mjax._engine.control.trace_body import Body, Typed, check_alike, stage_body
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten, tree_map
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import array_of, batch_to_front
from mjax._engine.tracing.flat import check_arguments, check_callable
from mjax._engine.tracing.interpreter import staging
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.tracing.variance import typed_axes
from mjax._engine.transforms.batching import AxisData, batch_jaxpr, element_type

custom_vmap_call_p = EnginePrimitive("custom_vmap_call", params={
    "call": Jaxpr, "rule": Any}, multiple_results=True)


class _VmapFrame(CustomFrame):
    """Batched by the rule; derivatives are functions with rules again."""

    derives = (*CustomFrame.derives, "linearize")
    rules_have_derivatives = True

    def axis_batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
        call, rule = params["call"], params["rule"]
        batched = [d is not None for d in dims]
        if not any(batched):  # the jaxpr names the axis
            jaxpr, out_dims = batch_jaxpr(call, axis, dims)
            return eval_jaxpr(jaxpr, jaxpr.consts, *args), out_dims
        outs, flags = rule.batch(axis.size, batched, [
            x if d is None else batch_to_front(x, d, axis.size)
            for x, d in zip(args, dims, strict=True)])
        if typed_axes():
            outs = vary_as_function(f"vmap rule of {rule.custom.describe()}", outs, call.out_avals,
                                    lambda i: f" {i}")
        return outs, [0 if flag else None for flag in flags]

    def pretty(self, params: Params) -> Params:
        """The params shown in jaxprs: the user's rule."""
        return {**params, "rule": params["rule"].custom.vmap_rule}

    def lowering(self, ctx: Any, *operands: Any, **params: Any) -> Any:
        """The function, inlined."""
        return ctx.inline(params["call"], *operands)


_VmapFrame(custom_vmap_call_p, "rule", "call")


# ---- rules as functions of flat values -------------------------------------------------


class UsersRule(Rule):
    """A user's rule.

    Args:
      custom: the function.
      in_tree: structure of `(arguments, {})`.
      body: the staged function.
    """

    names_in_scope = ()

    def __init__(self, custom: Any, in_tree: Any, body: Body):
        self.custom, self.f, self.in_tree = custom, custom.vmap_rule, in_tree
        self.out_tree, self.out_avals = body.out_tree, body.jaxpr.out_avals

    def batch(self, size: int, batched: Sequence[bool], args: Sequence[Any]
                 ) -> tuple[list[Any], list[bool]]:
        """The output of a batch, and which leaves of it are batched."""
        n = len(args) - self.in_tree.num_leaves
        if any(batched[:n]):
            value = args[batched.index(True)]
            raise LazyValueError(lambda: (
                f"{self.custom.describe()} closes over a value that is batched, of type "
                f"{typeof(value)} for the whole batch. Its rule does not receive that value: "
                "pass it as an argument."))
        in_batched, _ = self.in_tree.unflatten(batched[n:])
        operands, _ = self.in_tree.unflatten(map(array_of, args[n:]))
        with users_code():
            result = self.f(size, list(in_batched), *operands)
        check_pair(lambda: self.custom.rule_name("vmap"), "(output, which of it is batched)",
                   result)
        return self._checked(size, any(batched), *result)

    def _checked(self, size: int, any_batched: bool, out: Any, out_batched: Any
                 ) -> tuple[list[Any], list[bool]]:
        name = self.custom.rule_name("vmap")
        check_arguments(f"the {name}", out, "output")
        (outs, tree), (flags, flag_tree) = tree_flatten(out), tree_flatten(out_batched)
        if tree != flag_tree:
            raise LazyValueError(lambda: (
                f"the {name} must say of each leaf of its output whether it is batched; the "
                f"output has the tree structure {tree}, the booleans {flag_tree}."))
        flags = [bool(f) if isinstance(f, np.bool_) else f for f in flags]
        if not all(isinstance(flag, bool) for flag in flags):
            raise LazyTypeError(lambda: (
                f"the {name} must say by True or False whether a leaf of its output is "
                f"batched, but returned {out_batched!r}."))
        avals = list(map(typeof, outs))
        if not any_batched and tree == self.out_tree:
            # The same as under a derivative. Many rules always return True.
            flags = [f and not a.matches(o)
                     for f, a, o in zip(flags, avals, self.out_avals, strict=True)]
        wrong = [a for a, flag in zip(avals, flags, strict=True)
                 if flag and a.axis_size(0) != size]
        if wrong:
            raise LazyValueError(lambda: (
                f"the {name} gives an output of type {wrong[0]} and says that it is "
                f"batched: its leading axis must have the size of the batch, {size}."))
        given = Typed("the rule's output for an element", tree, [
            element_type(a, 0) if flag else a for a, flag in zip(avals, flags, strict=True)])
        expected = Typed("the function's output", self.out_tree, self.out_avals)
        check_alike(expected, given, "output", lambda: (
            f"the {name} must return the function's output for each element of the batch:"),
            LazyTypeError if tree == self.out_tree else LazyValueError)
        return outs, flags


# ---- public class ----------------------------------------------------------------------


class custom_vmap(Custom[P, R]):
    """A function with a batching rule of its own: `vmap` runs the rule.

    Use it as a decorator, and define the rule with `def_vmap`. Derivatives of the function under
    `vmap` are derivatives of the rule. With `custom_vjp` or `custom_jvp` around it, their rules
    define the derivatives.

    Args:
      fun: a function of pytrees of arrays. It is traced, unless called outside of all
        transformations.

    Raises:
      TypeError: `fun` is not callable; at calls: arguments without a position; an argument
        that is not an array; when batched: the rule does not give a pair, or gives
        other types than the function.
      ValueError: when batched: the rule gives another structure than the function, or says of
        something else what is batched; `fun` closes over a value that is batched.
      AttributeError: at calls: the rule is missing.

    Example:
      >>> from mjax.custom_batching import custom_vmap
      >>> @custom_vmap
      ... def f(x, y):
      ...   return lax.add(x, y)
      >>> @f.def_vmap
      ... def f_vmap(axis_size, in_batched, xs, ys):
      ...   return lax.mul(xs, ys), True
      >>> mjax.vmap(f)(mjax.numpy.arange(3), mjax.numpy.arange(1, 4))
      Array([0, 2, 6], dtype=int32)

    Source: JAX, `jax.custom_batching.custom_vmap`.
    """

    who: ClassVar[str] = "custom_vmap"
    definer: ClassVar[str] = "def_vmap"
    kinds: ClassVar[dict[str, str]] = {"vmap": "vmap_rule"}
    vmap_rule: Callable[..., Any] | None = None

    def __init__(self, fun: Callable[P, R]):
        super().__init__(fun)

    @boundary
    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Defines the rule: `vmap_rule(axis_size, in_batched, *args) -> (output, out_batched)`.

        Args:
          vmap_rule: takes the size of the batch, a list with a tree of booleans per argument,
            which mark batched leaves, and the arguments, batched along their leading axis. It
            returns the output of the batch, and the tree of booleans for it.

        Returns:
          `vmap_rule`, so that this can be used as a decorator.

        Raises:
          TypeError: `vmap_rule` is not callable.
        """
        self.ruled(vmap_rule=vmap_rule)
        return vmap_rule

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the function with its rule."""
        args = self.arguments.resolve(args, kwargs)
        check_arguments(f"custom_vmap of {self.arguments.parameters.function}", args)
        if thread.interpreter.parent is None:
            return self.fun(*tree_map(array_of, args))
        leaves, in_tree = tree_flatten((args, {}))
        body = stage_body("custom_vmap", self.fun, in_tree, list(map(typeof, leaves)),
                          control_flow=False, again=not staging())
        rule = self.signatures.get(body.jaxpr) or self.signatures.put(
            body.jaxpr, UsersRule(self, in_tree, body))
        outs = custom_vmap_call_p.bind(*body.consts, *leaves, call=body.jaxpr, rule=rule)
        return body.out_tree.unflatten(outs)


@boundary
def sequential_vmap(f: Callable[P, R]) -> custom_vmap[P, R]:
    """A function that `vmap` applies to one element of the batch after the other, by a loop.

    Args:
      f: a function of pytrees of arrays.

    Returns:
      A `mjax.custom_batching.custom_vmap`.

    Raises:
      TypeError: `f` is not callable.

    Example:
      >>> from mjax.custom_batching import sequential_vmap
      >>> mjax.vmap(sequential_vmap(lambda x: x + 1))(mjax.numpy.arange(3))
      Array([1, 2, 3], dtype=int32)
    """
    check_callable("sequential_vmap", f)
    sequential = custom_vmap(f)

    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> Any:
        leaves, tree = tree_flatten(args)
        flags = tree_flatten(in_batched)[0]
        if not any(flags):  # only tangents are
            out = sequential.fun(*args)
            return out, tree_map(lambda _: False, out)

        shared, mapped = partition_list(flags, leaves)
        out = loop_map(lambda element: sequential.call(tree.unflatten(
            merge_lists(flags, shared, element)), {}), mapped)
        return out, tree_map(lambda _: True, out)

    sequential.def_vmap(rule)
    return sequential


__all__ = ["custom_vmap", "custom_vmap_call_p", "sequential_vmap"]
