"""Functions whose batching their users wrote: `custom_vmap`, and `custom_vmap_call`.

The primitive holds the function's jaxpr and the rule, which has a method `batch(size, batched,
args) -> outs, out_batched` on flat values, where what is batched is so along axis 0. A derivative
of the function is such a function again: its jaxpr is the derivative's, and its rule the derivative
of the rule. In reverse mode the tangents' part is evaluated from the arguments, with no residuals
but these, since function and rule may keep different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.base.util import merge_lists, partition_list, selected
from mjax._engine.control.custom.custom_batching import PrunedRule, Rule
from mjax._engine.control.custom.custom_calls import users_code, vary_as_function
from mjax._engine.control.custom.custom_frame import CustomFrame
from mjax._engine.control.custom.custom_rules import Custom
from mjax._engine.control.held import Params
from mjax._engine.control.loops.looping import map as loop_map
from mjax._engine.control.trace_body import Body, Typed, agree, differences, stage_body
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten, tree_map
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.dynamic_slicing import dynamic_index_in_dim
from mjax._engine.primitives.shapes import array_of, batch_to_front
from mjax._engine.primitives.tangents import instantiate, with_zeros
from mjax._engine.tracing.flat import check_arguments, check_callable, describe_function
from mjax._engine.tracing.interpreter import staging
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.stage import eval_jaxpr, stage
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero, without_zeros
from mjax._engine.tracing.variance import typed_axes
from mjax._engine.transforms.batching import (
    AxisData,
    batch_flat,
    batch_jaxpr,
    batched_type,
    element_type,
)
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_flat, jvp_jaxpr
from mjax._engine.transforms.transpose import backward_pass, transpose_jaxpr

custom_vmap_call_p = Primitive("custom_vmap_call", multiple_results=True, types_cacheable=False,
                               own_varying=True)


class _VmapFrame(CustomFrame):
    """Batched by the rule; derivatives are functions with rules again."""

    derives = (*CustomFrame.derives, "linearize")

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

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        call = params["call"]
        jaxpr, rule = _derivative(call, params["rule"], [type(t) is not Zero for t in tangents])
        outs = custom_vmap_call_p.bind(*primals, *without_zeros(tangents), call=jaxpr, rule=rule)
        n = len(call.outvars)
        return outs[:n], with_zeros(_smooth(call), outs[n:], call.out_avals)

    def linearize(self, nonzeros: Sequence[bool], *primals: Any, **params: Any) -> Any:
        call = params["call"]
        n, smooth = len(call.outvars), _smooth(call)

        def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
            jaxpr, rule = _derivative(call, params["rule"], nonzeros)
            kept = range(n, len(jaxpr.outvars))
            tangents_only, _ = dce_jaxpr(jaxpr, [False] * n + [True] * len(kept), True)
            found = custom_vmap_call_p.bind(
                *residuals, *without_zeros(tangents), call=tangents_only,
                rule=jaxpr.cached(("tangents", rule), lambda: PrunedRule(rule, kept)))
            return with_zeros(smooth, found, call.out_avals)

        return custom_vmap_call_p.bind(*primals, **params), smooth, list(primals), linear

    def transpose(self, cts: Any, *args: Any, **params: Any) -> Any:
        call, rule = params["call"], params["rule"]
        undefined = tuple([type(a) is UndefinedPrimal for a in args])
        nonzeros = tuple([type(ct) is not Zero for ct in cts])
        jaxpr, _ = transpose_jaxpr(call, undefined, nonzeros, True)
        new = call.cached(("transposed rule", rule, undefined, nonzeros),
                          lambda: TransposedRule(rule, call, undefined, nonzeros))
        defined, _ = partition_list(undefined, args)
        found = custom_vmap_call_p.bind(*defined, *without_zeros(cts), call=jaxpr, rule=new)
        return merge_lists(undefined, [None] * len(defined), found)

    def pretty(self, params: Params) -> Params:
        """The params as jaxprs show them: the user's rule."""
        return {**params, **params["rule"].custom.rules()}

    def lowering(self, ctx: Any, *operands: Any, **params: Any) -> Any:
        """The function, inlined."""
        return ctx.inline(params["call"], *operands)


_VmapFrame(custom_vmap_call_p, "rule", "call")


def _smooth(call: Jaxpr) -> list[bool]:
    """Which results can have a tangent."""
    return [a.inexact for a in call.out_avals]


def _derivative(call: Jaxpr, rule: Any, nonzeros: Sequence[bool]) -> tuple[Jaxpr, Any]:
    """Program and rule of the derivative; all results have a tangent that can."""
    jaxpr, _ = jvp_jaxpr(call, nonzeros, _smooth(call))
    return jaxpr, call.cached(("jvp rule", rule, tuple(nonzeros)),
                              lambda: JVPRule(rule, call, nonzeros))


# ---- rules as functions of flat values -------------------------------------------------


class UsersRule(Rule):
    """The rule that a user wrote.

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
        for value, b in zip(args[:n], batched, strict=False):
            if b:
                raise LazyValueError(lambda value=value: (  # type: ignore[misc]
                    f"{self.custom.describe()} closes over a value that is batched, of type "
                    f"{typeof(value)} for the whole batch. Its rule says nothing of it: pass it "
                    "as an argument."))
        in_batched, _ = self.in_tree.unflatten(batched[n:])
        operands, _ = self.in_tree.unflatten(map(array_of, args[n:]))
        with users_code():
            result = self.f(size, list(in_batched), *operands)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise LazyTypeError(lambda: (
                f"the {self.name()} must return a pair (output, which of it is batched), but "
                f"returned {describe_value(result)}."))
        return self._checked(size, any(batched), *result)

    def name(self) -> str:
        """How messages speak of the rule."""
        return f"vmap rule {describe_function(self.f)} of {self.custom.describe()}"

    def _checked(self, size: int, any_batched: bool, out: Any, out_batched: Any
                 ) -> tuple[list[Any], list[bool]]:
        check_arguments(f"the {self.name()}", out, "output")
        (outs, tree), (flags, flag_tree) = tree_flatten(out), tree_flatten(out_batched)
        if tree != flag_tree:
            raise LazyValueError(lambda: (
                f"the {self.name()} must say of each leaf of its output whether it is batched; the "
                f"output is nested as {tree}, what it says as {flag_tree}."))
        flags = [bool(f) if isinstance(f, np.bool_) else f for f in flags]
        if not all(isinstance(flag, bool) for flag in flags):
            raise LazyTypeError(lambda: (
                f"the {self.name()} must say by True or False whether a leaf of its output is "
                f"batched, but gave {out_batched!r}."))
        avals = list(map(typeof, outs))
        if not any_batched and tree == self.out_tree:
            # As under a derivative. Many rules say True whatever they are given.
            flags = [f and not a.matches(o)
                     for f, a, o in zip(flags, avals, self.out_avals, strict=True)]
        for aval, flag in zip(avals, flags, strict=True):
            if flag and aval.axis_size(0) != size:
                raise LazyValueError(lambda aval=aval: (  # type: ignore[misc]
                    f"the {self.name()} gives an output of type {aval} and says that it is "
                    f"batched: its leading axis must have the size of the batch, {size}."))
        given = Typed("what the rule gives for an element", tree, [
            element_type(a, 0) if flag else a for a, flag in zip(avals, flags, strict=True)])
        expected = Typed("the function's output", self.out_tree, self.out_avals)
        if not agree(expected, given):
            error = LazyTypeError if tree == self.out_tree else LazyValueError
            raise error(lambda: (
                f"the {self.name()} must give what the function gives for each element of the "
                f"batch:\n{differences(expected, given, 'output')}"))
        return outs, flags


class JVPRule(Rule):
    """The rule of a derivative, `(primals, nonzero tangents) -> (outs, smooth tangents)`.

    Args:
      rule: that of the function.
      call: the function's program.
      nonzeros: which operands have a tangent.
    """

    names_in_scope = ()

    def __init__(self, rule: Any, call: Jaxpr, nonzeros: Sequence[bool]):
        self.rule, self.custom = rule, rule.custom
        self.nonzeros, self.smooth = nonzeros, _smooth(call)

    def batch(self, size: int, batched: Sequence[bool], args: Sequence[Any]
              ) -> tuple[list[Any], list[bool]]:
        """Results and tangents of a batch, and which of them are batched."""
        n = len(self.nonzeros)
        flags, tangent_flags = list(batched[:n]), iter(batched[n:])
        both = [next(tangent_flags) if nz else False for nz in self.nonzeros]
        if not any(f and t for f, t in zip(flags, both, strict=True)):
            return self._by_elements(size, batched, args)
        primals, tangents = list(args[:n]), iter(args[n:])
        given = []
        for i, nonzero in enumerate(self.nonzeros):
            tangent = next(tangents) if nonzero else None
            if nonzero and flags[i] != both[i]:
                primals[i], tangent = (batch_to_front(x, 0 if f else None, size) for x, f in (
                    (primals[i], flags[i]), (tangent, both[i])))
                flags[i] = True
            given.append(tangent)
        return self._pushed(size, flags, primals, selected(self.nonzeros, given))

    def _pushed(self, size: int, flags: Sequence[bool], primals: Sequence[Any],
                tangents: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        """Results of the function's rule with their smooth tangents, and which are batched."""
        known: list[bool] = []

        def f(*values: Any) -> list[Any]:
            outs, out_batched = self.rule.batch(size, flags, values)
            known.extend(out_batched)
            return outs

        outs, out_tangents = jvp_flat(f, primals, with_zeros(
            self.nonzeros, tangents, map(typeof, primals)))
        smooth = selected(self.smooth, out_tangents)
        return [*outs, *map(instantiate, smooth)], [*known, *selected(self.smooth, known)]

    def _by_elements(self, size: int, batched: Sequence[bool], args: Sequence[Any]
                     ) -> tuple[list[Any], list[bool]]:
        """No primal is batched together with its tangent: to the function's rule nothing is
        batched, and its derivative is mapped over what is."""
        n = len(self.nonzeros)

        def element(i: Any, *values: Any) -> list[Any]:
            outs, flags = self._pushed(size, [False] * n, values[:n], values[n:])
            return [dynamic_index_in_dim(o, i, 0, False) if flag else o
                    for o, flag in zip(outs, flags, strict=True)]

        outs, dims = batch_flat(element, AxisData(None, size), [np.arange(size, dtype=np.int32),
                                                                *args],
                                [0, *[0 if b else None for b in batched]])
        return ([o if d is None else batch_to_front(o, d, size)
                 for o, d in zip(outs, dims, strict=True)], [d is not None for d in dims])


class TransposedRule(Rule):
    """The rule of the transpose, `(defined operands, nonzero cotangents) -> cotangents`.

    Args:
      rule: that of the linear function.
      call: its program.
      undefined: in which operands it is linear.
      nonzeros: which results have a cotangent.
    """

    names_in_scope = ()

    def __init__(self, rule: Any, call: Jaxpr, undefined: Sequence[bool],
                 nonzeros: Sequence[bool]):
        self.rule, self.custom, self.call = rule, rule.custom, call
        self.undefined, self.nonzeros = undefined, nonzeros

    def batch(self, size: int, batched: Sequence[bool], args: Sequence[Any]
              ) -> tuple[list[Any], list[bool]]:
        """Cotangents of a batch; each element has its own."""
        call, undefined = self.call, self.undefined
        n = len(undefined) - sum(undefined)
        places = [UndefinedPrimal(batched_type(a, 0, size))
                  for a in selected(undefined, call.in_avals)]
        operands = merge_lists(undefined, args[:n], places)
        in_batched = merge_lists(undefined, batched[:n], [True] * len(places))

        def linear(*values: Any) -> list[Any]:
            outs, out_batched = self.rule.batch(size, in_batched, values)
            return [batch_to_front(o, 0 if b else None, size)
                    for o, b in zip(outs, out_batched, strict=True)]

        jaxpr = stage(linear, [x.aval if u else typeof(x)
                               for x, u in zip(operands, undefined, strict=True)])
        cts = with_zeros(
            self.nonzeros, [batch_to_front(ct, 0 if b else None, size)
                            for ct, b in zip(args[n:], batched[n:], strict=True)],
            [batched_type(a, 0, size) for a in call.out_avals])
        found = backward_pass(jaxpr, jaxpr.consts, operands, cts)
        return [instantiate(ct) for ct in selected(undefined, found)], [True] * len(places)


# ---- what users call -------------------------------------------------------------------


class custom_vmap(Custom):
    """A function with a batching of its own: `vmap` runs the rule.

    Use it as a decorator, and give the rule with `def_vmap`. Derivatives of the function under
    `vmap` are derivatives of the rule. With `custom_vjp` or `custom_jvp` around it the
    derivatives are those given there.

    Args:
      fun: a function of pytrees of arrays. It is traced, unless called outside of all
        transformations.

    Raises:
      TypeError: `fun` is not callable; at calls: arguments without a position; an argument
        that is not an array; when batched: the rule does not give a pair, or gives
        other types than the function.
      ValueError: when batched: the rule gives another structure than the function, or says of
        something else what is batched; `fun` closes over a value that is batched.
      AttributeError: at calls: there is no rule.

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

    who = "custom_vmap"
    vmap_rule: Callable[..., Any] | None = None

    def __init__(self, fun: Callable[..., Any]):
        super().__init__(fun, (), ())

    def rules(self) -> dict[str, Any]:
        """The functions that were given as rules."""
        return {"rule": self.vmap_rule}

    @boundary
    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Gives the rule: `vmap_rule(axis_size, in_batched, *args) -> (output, out_batched)`.

        Args:
          vmap_rule: takes the size of the batch, a list with a tree of booleans per argument,
            which say what is batched, and the arguments; what is batched is so along its
            leading axis. Gives the output of the batch, and the same tree of booleans of it.

        Returns:
          `vmap_rule`, so that this can be used as a decorator.

        Raises:
          TypeError: `vmap_rule` is not callable.
        """
        check_callable("def_vmap", vmap_rule)
        self.vmap_rule = vmap_rule
        self.ruled()
        return vmap_rule

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function."""
        if self.vmap_rule is None:
            msg = (f"{self.describe()} has no rule yet: give it one with "
                   f"{self.__name__}.def_vmap.")
            raise AttributeError(msg)
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
def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
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
            out = f(*args)
            return out, tree_map(lambda _: False, out)

        def element(mapped: list[Any]) -> Any:
            given = iter(mapped)
            return sequential(*tree.unflatten(
                [next(given) if b else leaf for leaf, b in zip(leaves, flags, strict=True)]))

        out = loop_map(element, [leaf for leaf, b in zip(leaves, flags, strict=True) if b])
        return out, tree_map(lambda _: True, out)

    sequential.def_vmap(rule)
    return sequential


__all__ = ["custom_vmap", "custom_vmap_call_p", "sequential_vmap"]
