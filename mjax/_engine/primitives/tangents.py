"""Tangents: sums, zeros, stop_gradient; makers of jvp rules from derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import ThreadState, thread
from mjax._engine.base.util import counted
from mjax._engine.ir.pytree import tree_map
from mjax._engine.ir.source import current_traceback
from mjax._engine.ir.types import (
    AbstractValue,
    ShapedArray,
    same_type_but_weak,
    typeof,
    value_classes,
)
from mjax._engine.primitives.along_axis import batched_alike
from mjax._engine.primitives.emit import flat, op
from mjax._engine.primitives.shapes import zeros_of
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive
from mjax._engine.tracing.registration import refuse_other
from mjax._engine.tracing.rule_errors import bad_rule_result
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.tracing.user_types import on_objects

# ---- add_any ---------------------------------------------------------------------------

add_any_p: EnginePrimitive = EnginePrimitive("add_any", params={})


@add_any_p.def_abstract_eval
def _add_any_type(x: Any, y: Any) -> ShapedArray:
    if not same_type_but_weak(x, y):
        msg = f"add_any adds tangents of one type, got {x} and {y}."
        raise TypeError(msg)
    return x if not x.weak_type else y



@add_any_p.def_lowering
def _add_any_lowering(ctx: Any, x: Any, y: Any) -> Any:
    if ctx.avals_out[0].is_high:
        return ctx.lower_traced(_sum_of_objects, (x, y), {})
    return [op("stablehlo.add", [t], parts)[0]
            for t, *parts in zip(ctx.out_types, flat([x]), flat([y]))]


#: Types of authors' objects define sums themselves.
_sum_of_objects = traced(lambda x, y: on_objects(
    lambda a, b: [typeof(a).vspace_add(a, b)], x, y), multiple_results=True)

add_any_p.def_jvp(lambda primals, tangents: (add_any_p.bind(*primals), add_tangents(*tangents)))
add_any_p.def_transpose(lambda ct, x, y: [ct if type(a) is UndefinedPrimal else None
                                          for a in (x, y)])


@add_any_p.def_batch
def _add_any_batch(args: Any, dims: Any) -> Any:
    args, dim = batched_alike(args, dims)
    return add_any_p.bind(*args), dim


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents or cotangents, either of which may be a `Zero`.

    Args:
      x: an array or a `Zero`.
      y: an array or a `Zero`, of the same type.

    Returns:
      An array; a `Zero` if both are.

    Raises:
      TypeError: neither is a `Zero`, and their types differ or one of them is not an array.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> float(ad.add_tangents(1.0, 2.0))
      3.0
    """
    if type(x) is Zero:
        return y
    if type(y) is Zero:
        return x
    if value_classes and (aval := typeof(x)).is_high:
        return aval.vspace_add(x, y)
    return add_any_p.bind(x, y)


def vspace_add(self: Any, x: Any, y: Any) -> Any:
    """The sum of two values of the type."""
    return add_any_p.bind(x, y)


AbstractValue.vspace_add = vspace_add  # type: ignore[method-assign]


def instantiate(tangent: Any) -> Any:
    """An array of zeros for a `Zero`; other values as they are.

    Args:
      tangent: an array or a `Zero`.

    Returns:
      An array.

    Raises:
      TypeError: the `aval` of a `Zero` is not a type, or is a `HiType` that does not define its
        zero.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> ad.instantiate_zeros(jnp.ones(2))
      Array([1., 1.], dtype=float32)
    """
    return zeros_of(tangent.aval) if type(tangent) is Zero else tangent


def _instantiate(self: Zero) -> Any:
    """The array of zeros."""
    return zeros_of(self.aval)


Zero.instantiate = _instantiate
ShapedArray.zeros = zeros_of  # type: ignore[method-assign, assignment]


def aval_of(x: Any) -> Any:
    """The type of an operand of a transpose rule, which may be undefined."""
    return x.aval if type(x) is UndefinedPrimal else typeof(x)


def zero_tangent(primal: Any) -> Zero:
    """The zero tangent of a value."""
    return Zero(typeof(primal).to_tangent())


def with_zeros(nonzeros: Sequence[bool], tangents: Iterable[Any], avals: Iterable[Any]
               ) -> list[Any]:
    """Tangents in order, from those that are not zero.

    Args:
      nonzeros: of each value, whether its tangent is among `tangents`.
      tangents: those that are not zero.
      avals: the types of the values; those beyond the flags are not read.
    """
    given = iter(tangents)
    return [next(given) if nz else Zero(a.to_tangent())
            for nz, a in zip(nonzeros, avals, strict=False)]


# ---- rule makers -----------------------------------------------------------------------


def _zero(tangent: Any, out: Any, *primals: Any, **params: Any) -> Zero:
    return zero_tangent(out)


#: The derivative in an operand on which the result does not depend smoothly.
ZERO: Callable[..., Any] = _zero


def define_jvp(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """Gives a primitive with one result the jvp rule that sums contributions of its operands.

    Args:
      primitive: the primitive.
      rules: per operand `(tangent, *primals, **params) -> tangent of the result`, or `ZERO`
        where the result does not depend on the operand smoothly. Users may say None for it.

    Raises:
      TypeError: `primitive` is not a primitive; a rule is neither a function nor None; when
        differentiated: there are more or fewer rules than operands.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import ad
      >>> p = core.Primitive("scaled")
      >>> _ = p.def_impl(lambda x, n: n * x)
      >>> ad.defjvp(p, lambda t, x, n: n * t, None)
      >>> float(mjax.jvp(lambda x: p.bind(x, 3), (1.0,), (2.0,))[1])
      6.0
    """
    define_jvp_from_result(primitive, *[
        _without_result(rule) if callable(rule) and rule is not ZERO else rule for rule in rules])


def _without_result(rule: Any) -> Callable[..., Any]:
    def adapted(tangent: Any, out: Any, *primals: Any, **params: Any) -> Any:
        return rule(tangent, *primals, **params)

    adapted.__wrapped__ = rule  # type: ignore[attr-defined]
    return adapted


def define_jvp_from_result(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """`define_jvp` for rules `(tangent, result, *primals, **params)`.

    A primitive with several results has one such rule, which takes and returns lists.

    Args:
      primitive: the primitive.
      rules: one per operand, or None.

    Raises:
      TypeError: `primitive` is not a primitive; a rule is neither a function nor None; when
        differentiated: there are more or fewer rules than operands.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import ad
      >>> p = core.Primitive("power_of_e")
      >>> _ = p.def_impl(np.exp)
      >>> ad.defjvp2(p, lambda t, result, x: t * result)
      >>> float(mjax.jvp(p.bind, (0.0,), (2.0,))[1])
      2.0
    """
    refuse_other(primitive)
    for i, rule in enumerate(rules):
        if rule is not None and not callable(rule):
            msg = (f"the derivative of primitive {primitive.name!r} in operand {i} must be a "
                   f"function or None, got {rule!r}.")
            raise TypeError(msg)
    derivatives = [ZERO if rule is None else rule for rule in rules]

    def apply(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        if len(rules) != len(tangents):
            bad_rule_result(primitive, "jvp", lambda: (
                f"was made of {counted(len(rules), 'function')} for "
                f"{counted(len(tangents), 'operand')}; give one, or None, for each."))
        out = primitive.bind(*primals, **params)
        total: Any = None
        for rule, tangent in zip(derivatives, tangents, strict=True):
            if type(tangent) is not Zero:
                term = rule(tangent, out, *primals, **params)
                total = term if total is None else add_tangents(total, term)
        return out, _zeros(primitive, out) if total is None else total

    def from_one_place(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        # The user's line is the same for all equations: looked up once.
        if thread.source is not None or thread.interpreter is ThreadState.interpreter:
            return apply(primals, tangents, **params)
        thread.source = current_traceback()
        try:
            return apply(primals, tangents, **params)
        finally:
            thread.source = None

    given = [rule for rule in derivatives if rule is not ZERO]
    jvp = from_one_place if primitive.own else apply
    jvp.__wrapped__ = given[0] if given else apply  # type: ignore[attr-defined]
    primitive.def_jvp(jvp)


def define_zero_jvp(primitive: Primitive) -> None:
    """Gives a primitive whose result is locally constant (comparisons, floor) its jvp rule."""
    refuse_other(primitive)

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        return out, _zeros(primitive, out)

    primitive.define("jvp", jvp, derived=True)


def _zeros(primitive: Primitive, out: Any) -> Any:
    return [*map(zero_tangent, out)] if primitive.multiple_results else zero_tangent(out)


def define_jointly_linear(primitive: Primitive, operands: slice) -> None:
    """Gives a primitive that is linear in several operands together its jvp rule.

    Args:
      primitive: has one result.
      operands: the positions of these operands.
    """

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents[operands]):
            return out, zero_tangent(out)
        mixed = list(primals)
        mixed[operands] = [instantiate(t) for t in tangents[operands]]
        return out, primitive.bind(*mixed, **params)

    primitive.define("jvp", jvp, derived=True)


def define_bilinear(primitive: Primitive, lhs_rule: Callable[..., Any],
                    rhs_rule: Callable[..., Any]) -> None:
    """Gives a primitive that is linear in each of two operands its jvp and transpose rules.

    Args:
      primitive: the primitive, with operands `x` and `y`.
      lhs_rule: `(ct, x, y, **params) -> cotangent of x`, where `x` is undefined.
      rhs_rule: `(ct, x, y, **params) -> cotangent of y`, where `y` is undefined.

    Raises:
      TypeError: `primitive` is not a primitive; a rule is not a function; when differentiated: the
        primitive does not have two operands.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import ad
      >>> p = core.Primitive("times")
      >>> _ = p.def_impl(lambda x, y: x * y)
      >>> _ = p.def_abstract_eval(lambda x, y: x)
      >>> ad.defbilinear(p, lambda ct, x, y: p.bind(ct, y), lambda ct, x, y: p.bind(x, ct))
      >>> [float(g) for g in mjax.grad(p.bind, (0, 1))(3.0, 4.0)]
      [4.0, 3.0]
    """
    for name, rule in (("lhs_rule", lhs_rule), ("rhs_rule", rhs_rule)):
        if not callable(rule):
            msg = f"defbilinear: {name} must be a function, got {rule!r}."
            raise TypeError(msg)
    define_jvp(primitive, lambda t, x, y, **params: primitive.bind(t, y, **params),
               lambda t, x, y, **params: primitive.bind(x, t, **params))
    primitive.define("jvp", primitive.jvp, derived=True)

    def transpose(ct: Any, x: Any, y: Any, **params: Any) -> Any:
        if type(x) is UndefinedPrimal:
            return [lhs_rule(ct, x, y, **params), None]
        return [None, rhs_rule(ct, x, y, **params)]

    transpose.__wrapped__ = lhs_rule  # type: ignore[attr-defined]
    primitive.def_transpose(transpose)


# ---- stop_gradient ---------------------------------------------------------------------

stop_gradient_p = EnginePrimitive("stop_gradient", params={})
stop_gradient_p.def_abstract_eval(lambda x: x)
stop_gradient_p.def_lowering(lambda ctx, x: [x])
stop_gradient_p.def_batch(lambda args, dims: (stop_gradient_p.bind(args[0]), dims[0]))
define_zero_jvp(stop_gradient_p)
stop_gradient_p.deviates("jvp", "Its derivative is zero: that is what it is for.")


@boundary
def stop_gradient(x: Any) -> Any:
    """The identity, with derivatives of zero.

    Args:
      x: a tree of arrays.

    Returns:
      The same tree; its derivatives are zero. NumPy arrays and Python numbers are not converted,
      unless a function is being traced; 64-bit ones become 32-bit ones where x64 is off.

    Raises:
      TypeError: a leaf is neither an array nor a number.

    Example:
      >>> mjax.grad(lambda x: lax.mul(x, lax.stop_gradient(x)))(3.0)
      Array(3., dtype=float32, weak_type=True)
    """
    return tree_map(_held, x)


_NUMPY = np.ndarray, np.generic


def _held(x: Any) -> Any:
    if thread.interpreter is ThreadState.interpreter and not isinstance(x, Tracer):
        aval = typeof(x)  # refuses what arrays cannot hold
        # 64-bit values keep their width only where x64 is on.
        return x.astype(aval.dtype) if isinstance(x, _NUMPY) and x.dtype != aval.dtype else x
    return stop_gradient_p.bind(x)
