"""Functions whose batching their users wrote: `custom_vmap`, and `custom_vmap_call`.

The primitive holds the function's jaxpr and the rule, a function of flat values:
`rule(size, batched, args) -> outs, out_batched`, where what is batched is so along axis 0.
A derivative of the function is such a function again: its jaxpr is the derivative's, and its
rule the derivative of the rule. In reverse mode the tangents' part is evaluated from the
arguments, with no residuals but these, since function and rule may keep different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.control.calls.closed_call import evaluates_as_call, types_as_call
from mjax._engine.control.custom.custom_calls import users_code, vary_as_function
from mjax._engine.control.custom.custom_rules import Custom
from mjax._engine.control.loops.looping import map as loop_map
from mjax._engine.control.trace_body import Body, Typed, agree, differences
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.jaxpr_equality import same_program
from mjax._engine.ir.pytree import (
    tree_flatten,
    tree_map,
    tree_structure,
    treedef_tuple,
)
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.dynamic_slicing import dynamic_index_in_dim
from mjax._engine.primitives.shapes import array_of, batch_to_front
from mjax._engine.primitives.tangents import instantiate
from mjax._engine.tracing.flat import (
    FlatFunction,
    check_arguments,
    check_callable,
    debug_info_of,
    describe_function,
)
from mjax._engine.tracing.interpreter import staging
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.stage import eval_jaxpr, lift_tracers, stage
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
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
types_as_call(custom_vmap_call_p, "call")
evaluates_as_call(custom_vmap_call_p, "call")

_no_kwargs = tree_structure({})


def bind(jaxpr: Jaxpr, rule: Any, args: Sequence[Any]) -> list[Any]:
    """Applies the primitive to a function that was made of a user's."""
    trees = [tree_structure((0,) * n) for n in (len(jaxpr.invars), len(jaxpr.outvars))]
    return custom_vmap_call_p.bind(*args, call=jaxpr, rule=rule, in_tree=trees[0],
                                   out_tree=trees[1])


# ---- rules as functions of flat values -------------------------------------------------


class UsersRule:
    """The rule that a user wrote.

    Args:
      custom: the function.
      in_tree: structure of the arguments.
      out_tree: structure of the output.
      out_avals: types of its leaves.
    """

    __slots__ = ("custom", "f", "in_tree", "out_avals", "out_tree")

    def __init__(self, custom: Any, in_tree: Any, out_tree: Any, out_avals: Sequence[Any]):
        self.custom, self.f = custom, custom.vmap_rule
        self.in_tree, self.out_tree, self.out_avals = in_tree, out_tree, out_avals

    def __call__(self, size: int, batched: Sequence[bool], args: Sequence[Any]
                 ) -> tuple[list[Any], list[bool]]:
        n = len(args) - self.in_tree.num_leaves
        for value, b in zip(args[:n], batched, strict=False):
            if b:
                raise LazyValueError(lambda value=value: (  # type: ignore[misc]
                    f"{self.custom.describe()} closes over a value that is batched, of type "
                    f"{typeof(value)} for the whole batch. Its rule says nothing of it: pass it "
                    "as an argument."))
        in_batched = list(self.in_tree.unflatten(batched[n:]))
        with users_code():
            result = self.f(size, in_batched, *self.in_tree.unflatten(map(array_of, args[n:])))
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
            flags = [f and a.shape != o.shape
                     for f, a, o in zip(flags, avals, self.out_avals, strict=True)]
        for aval, flag in zip(avals, flags, strict=True):
            if flag and aval.shape[:1] != (size,):
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


class JVPRule:
    """The rule of a derivative, `(primals, nonzero tangents) -> (outs, smooth tangents)`.

    Args:
      rule: that of the function.
      jaxpr: the derivative's program.
      nonzeros: which operands have a tangent.
    """

    __slots__ = ("custom", "jaxpr", "nonzeros", "rule")

    def __init__(self, rule: Any, jaxpr: Jaxpr, nonzeros: Sequence[bool]):
        self.rule, self.jaxpr, self.nonzeros = rule, jaxpr, nonzeros
        self.custom = rule.custom

    def __call__(self, size: int, batched: Sequence[bool], args: Sequence[Any]
                 ) -> tuple[list[Any], list[bool]]:
        n = len(self.nonzeros)
        given_flags = iter(batched[n:])
        if not any([nz and next(given_flags) and b
                    for b, nz in zip(batched, self.nonzeros, strict=False)]):
            return self._by_elements(size, batched, args)
        given = iter(zip(batched[n:], args[n:], strict=True))
        primals, tangents, flags = [], [], []
        for primal, flag, nonzero in zip(args, batched, self.nonzeros, strict=False):
            tangent: Any = Zero(typeof(primal).to_tangent())
            if nonzero:
                tangent_flag, tangent = next(given)
                if flag != tangent_flag:
                    primal, tangent = (batch_to_front(x, 0 if f else None, size) for x, f in (
                        (primal, flag), (tangent, tangent_flag)))
                    flag = True
            primals.append(primal)
            tangents.append(tangent)
            flags.append(flag)
        outs, out_tangents, known = self._pushed(size, flags, primals, tangents)
        return [*outs, *out_tangents], self._flags(known, known)

    def _pushed(self, size: int, flags: Sequence[bool], primals: Sequence[Any],
                tangents: Sequence[Any]) -> tuple[list[Any], list[Any], list[bool]]:
        """Results of the function's rule, their smooth tangents, and which of them are batched."""
        known: list[bool] = []

        def f(*values: Any) -> list[Any]:
            outs, out_batched = self.rule(size, flags, values)
            known.extend(out_batched)
            return outs

        outs, out_tangents = jvp_flat(f, primals, tangents)
        return outs, [instantiate(t) for o, t in zip(outs, out_tangents, strict=True)
                      if _is_smooth(typeof(o))], known

    def _flags(self, outs: Sequence[bool], tangents: Sequence[bool]) -> list[bool]:
        smooth = [_is_smooth(a) for a in self.jaxpr.out_avals[: len(outs)]]
        return [*outs, *[t for t, s in zip(tangents, smooth, strict=True) if s]]

    def _by_elements(self, size: int, batched: Sequence[bool], args: Sequence[Any]
                     ) -> tuple[list[Any], list[bool]]:
        """No primal is batched together with its tangent: to the function's rule nothing is
        batched, and its derivative is mapped over what is."""

        def element(i: Any, *values: Any) -> list[Any]:
            n = len(self.nonzeros)
            given = iter(values[n:])
            tangents = [next(given) if nz else Zero(typeof(p).to_tangent())
                        for p, nz in zip(values, self.nonzeros, strict=False)]
            outs, out_tangents, known = self._pushed(size, [False] * n, values[:n], tangents)
            return [dynamic_index_in_dim(o, i, 0, False) if k else o for o, k in zip(
                [*outs, *out_tangents], self._flags(known, known), strict=True)]

        outs, dims = batch_flat(element, AxisData(None, size), [np.arange(size, dtype=np.int32),
                                                                *args],
                                [0, *[0 if b else None for b in batched]])
        return ([o if d is None else batch_to_front(o, d, size)
                 for o, d in zip(outs, dims, strict=True)], [d is not None for d in dims])


def _is_smooth(aval: Any) -> bool:
    return dtypes.is_inexact(aval.dtype)


class TransposedRule:
    """The rule of the transpose, `(defined operands, nonzero cotangents) -> cotangents`.

    Args:
      rule: that of the linear function.
      in_avals: types of its operands.
      out_avals: types of its results.
      undefined: in which operands it is linear.
      nonzeros: which results have a cotangent.
    """

    __slots__ = ("custom", "in_avals", "nonzeros", "out_avals", "rule", "undefined")

    def __init__(self, rule: Any, in_avals: Sequence[Any], out_avals: Sequence[Any],
                 undefined: Sequence[bool], nonzeros: Sequence[bool]):
        self.rule, self.undefined, self.nonzeros = rule, undefined, nonzeros
        self.in_avals, self.out_avals = in_avals, out_avals
        self.custom = rule.custom

    def __call__(self, size: int, batched: Sequence[bool], args: Sequence[Any]
                 ) -> tuple[list[Any], list[bool]]:
        n = len(self.undefined) - sum(self.undefined)
        defined, flags = iter(args[:n]), iter(batched[:n])
        # Each element has cotangents of its own.
        operands = [UndefinedPrimal(batched_type(a, 0, size)) if u else next(defined)
                    for a, u in zip(self.in_avals, self.undefined, strict=True)]
        in_batched = [u or next(flags) for u in self.undefined]

        def linear(*values: Any) -> list[Any]:
            outs, out_batched = self.rule(size, in_batched, values)
            return [batch_to_front(o, 0 if b else None, size)
                    for o, b in zip(outs, out_batched, strict=True)]

        jaxpr = stage(linear, [x.aval if u else typeof(x)
                               for x, u in zip(operands, self.undefined, strict=True)])
        given = iter([batch_to_front(ct, 0 if b else None, size)
                      for ct, b in zip(args[n:], batched[n:], strict=True)])
        cts = [next(given) if nz else Zero(batched_type(a, 0, size).to_tangent())
               for a, nz in zip(self.out_avals, self.nonzeros, strict=True)]
        found = backward_pass(jaxpr, jaxpr.consts, operands, cts)
        results = [instantiate(ct) for ct, u in zip(found, self.undefined, strict=True) if u]
        return results, [True] * len(results)


class PrunedRule:
    """A rule some of whose results nobody wants."""

    __slots__ = ("custom", "rule", "used")

    def __init__(self, rule: Any, used: Sequence[bool]):
        self.rule, self.used, self.custom = rule, used, rule.custom

    def __call__(self, size: int, batched: Sequence[bool], args: Sequence[Any]
                 ) -> tuple[list[Any], list[bool]]:
        outs, flags = self.rule(size, batched, args)
        return ([o for o, u in zip(outs, self.used, strict=True) if u],
                [f for f, u in zip(flags, self.used, strict=True) if u])


# ---- the primitive ---------------------------------------------------------------------


@custom_vmap_call_p.def_lowering
def _lowering(ctx: Any, *operands: Any, call: Jaxpr, **params: Any) -> Any:
    return ctx.inline(call, *operands)


def _batch(axis: AxisData, args: Any, dims: Any, *, call: Jaxpr, rule: Any, **params: Any) -> Any:
    if all(d is None for d in dims):
        # The jaxpr names the axis.
        batched, out_dims = batch_jaxpr(call, axis, dims)
        return eval_jaxpr(batched, batched.consts, *args), out_dims
    values = [x if d is None else batch_to_front(x, d, axis.size)
              for x, d in zip(args, dims, strict=True)]
    outs, flags = rule(axis.size, [d is not None for d in dims], values)
    if typed_axes():
        outs = vary_as_function(f"vmap rule of {rule.custom.describe()}", outs, call.out_avals,
                                lambda i: f" {i}")
    return outs, [0 if flag else None for flag in flags]


custom_vmap_call_p.axis_batch = _batch


def _derivative(call: Jaxpr, rule: Any, nonzeros: Sequence[bool]) -> tuple[Jaxpr, Any, list[bool]]:
    """Program and rule of the derivative, and which results have a tangent: all that can."""
    smooth = [_is_smooth(a) for a in call.out_avals]
    jaxpr, _ = jvp_jaxpr(call, nonzeros, smooth)
    key = ("jvp rule", rule, tuple(nonzeros))
    return jaxpr, call.cached(key, lambda: JVPRule(rule, jaxpr, nonzeros)), smooth


@custom_vmap_call_p.def_jvp
def _jvp(primals: Any, tangents: Any, *, call: Jaxpr, rule: Any, **params: Any) -> Any:
    given = [t for t in tangents if type(t) is not Zero]
    jaxpr, new, smooth = _derivative(call, rule, [type(t) is not Zero for t in tangents])
    outs = bind(jaxpr, new, [*primals, *given])
    n = len(call.outvars)
    found = iter(outs[n:])
    return outs[:n], [next(found) if s else Zero(a.to_tangent())
                      for a, s in zip(call.out_avals, smooth, strict=True)]


def _linearize(nonzeros: Any, *primals: Any, call: Jaxpr, rule: Any, **params: Any) -> Any:
    outs = custom_vmap_call_p.bind(*primals, call=call, rule=rule, **params)
    jaxpr, derivative, smooth = _derivative(call, rule, nonzeros)
    used = [False] * len(outs) + [True] * sum(smooth)

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        given = [t for t in tangents if type(t) is not Zero]
        program, new = _pruned(jaxpr, derivative, used)
        found = iter(bind(program, new, [*residuals, *given]))
        return [next(found) if s else Zero(a.to_tangent())
                for a, s in zip(call.out_avals, smooth, strict=True)]

    return outs, smooth, list(primals), linear


custom_vmap_call_p.linearize = _linearize


@custom_vmap_call_p.def_transpose
def _transpose(cts: Any, *args: Any, call: Jaxpr, rule: Any, **params: Any) -> Any:
    undefined = tuple([type(a) is UndefinedPrimal for a in args])
    nonzeros = tuple([type(ct) is not Zero for ct in cts])
    jaxpr, _ = transpose_jaxpr(call, undefined, nonzeros, True)
    new = call.cached(("transposed rule", rule, undefined, nonzeros), lambda: TransposedRule(
        rule, call.in_avals, call.out_avals, undefined, nonzeros))
    found = iter(bind(jaxpr, new, [*[a for a, u in zip(args, undefined, strict=True) if not u],
                                   *[ct for ct in cts if type(ct) is not Zero]]))
    return [next(found) if u else None for u in undefined]


def _pruned(call: Jaxpr, rule: Any, used: Sequence[bool]) -> tuple[Jaxpr, Any]:
    """The function with some of its results; inputs stay, as the rule takes them."""
    smaller, _ = dce_jaxpr(call, used, True)
    key = ("pruned rule", rule, tuple(used))
    return smaller, call.cached(key, lambda: PrunedRule(rule, tuple(used)))


def _dce(used: Sequence[bool], eqn: Any) -> Any:
    call = eqn.params["call"]
    if not any(used) and not call.effects:
        return [False] * len(eqn.invars), None
    if all(used):
        return [True] * len(eqn.invars), eqn
    smaller, rule = _pruned(call, eqn.params["rule"], used)
    out_tree = tree_structure((0,) * sum(used))
    return [True] * len(eqn.invars), eqn.replace(
        params={**eqn.params, "call": smaller, "rule": rule, "out_tree": out_tree},
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u], effects=smaller.effects)


custom_vmap_call_p.dce = _dce


def _pretty(params: dict[str, Any]) -> dict[str, Any]:
    return {**params, "rule": params["rule"].custom.vmap_rule}


custom_vmap_call_p.pretty = _pretty


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
        check_arguments(f"custom_vmap of {self.arguments.function}", args)
        if thread.interpreter.parent is None:
            return self.fun(*tree_map(array_of, args))
        leaves, in_tree = tree_flatten(args)
        body, rule = self._staged(in_tree, list(map(typeof, leaves)))
        consts = [*body.consts]
        trees = treedef_tuple((tree_structure(consts), in_tree))
        outs = custom_vmap_call_p.bind(*consts, *leaves, call=body.jaxpr, rule=rule,
                                       in_tree=trees, out_tree=body.out_tree)
        return body.out_tree.unflatten(outs)

    def _staged(self, in_tree: Any, avals: list[Any]) -> tuple[Body, UsersRule]:
        """The function as a jaxpr, and the rule.

        Once per types where a program is being staged. Else in each call, as
        `trace_body.stage_body` does it again: what the function closes over may have changed.
        """
        key = (in_tree, tuple(avals), thread.settings, thread.axis_env)
        known = self.signatures.get(key)
        if known is None or not staging():
            flat = FlatFunction(self.fun, treedef_tuple((in_tree, _no_kwargs)))
            info = debug_info_of("custom_vmap", self.fun, in_tree.unflatten(avals), {})
            jaxpr, consts = lift_tracers(stage(flat, avals, info))
            if (known is not None and not consts and known[0].out_tree == flat.out_tree
                    and same_program(known[0].jaxpr, jaxpr)):
                return known
            rule = UsersRule(self, in_tree, flat.out_tree, jaxpr.out_avals)
            known = Body(jaxpr, consts, flat.out_tree), rule
            if not consts:  # tracers would pin, and outlive, the trace they belong to
                self.signatures.put(key, known)
        return known


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
