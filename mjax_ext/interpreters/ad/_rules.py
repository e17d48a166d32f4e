"""Derivative rules: makers, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mjax._engine.base.util import check_count, counted
from mjax._engine.control.custom.symbolic_zeros import for_rule
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import zeros_of
from mjax._engine.primitives.tangents import (
    add_any_p,
    add_tangents,
    define_zero_jvp,
    instantiate,
    zero_tangent,
)
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.registration import refuse_other
from mjax._engine.tracing.rule_errors import bad_rule_result, describe_value
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero, is_undefined_primal
from mjax_ext._checked import as_list
from mjax_ext._tables import Rule, RuleTable


def get_primitive_transpose(primitive: Primitive) -> Rule:
    """The transpose rule of a primitive.

    Args:
      primitive: the primitive.

    Returns:
      The rule, `(cotangents, *operands, **params) -> cotangents of operands`.

    Raises:
      MissingRuleError: it does not have one.
      TypeError: it is not a primitive.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> float(ad.get_primitive_transpose(lax.neg_p)(3.0, ad.UndefinedPrimal(mjax.typeof(1.0)))[0])
      -3.0
    """
    refuse_other(primitive)
    rule: Rule = primitive.transpose or primitive.missing("transpose")
    return rule


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two arrays that are tangents of one type.

    Args:
      x: an array.
      y: another one of its type.

    Returns:
      An array.

    Raises:
      TypeError: their types differ.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> float(ad.add_jaxvals(1.0, 2.0))
      3.0
    """
    return add_any_p.bind(x, y)


def zeros_like_jaxval(val: Any) -> Any:
    """Zeros of the type of an array (jax to 0.4.24; `zeros_like_aval(typeof(val))`).

    Args:
      val: an array.

    Returns:
      An array of its shape and dtype.

    Raises:
      TypeError: `val` is not an array.
      OverflowError: `val` is a Python integer that does not fit the default dtype.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> ad.zeros_like_jaxval(jnp.ones(2))
      Array([0., 0.], dtype=float32)
    """
    return zeros_of(typeof(val))


def replace_internal_symbolic_zeros(x: Any) -> Any:
    """A tangent as a custom rule with `symbolic_zeros=True` gets it.

    Args:
      x: a tangent or a `Zero`.

    Returns:
      It, or `mjax.custom_derivatives.SymbolicZero` for a `Zero`.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> ad.replace_internal_symbolic_zeros(ad.Zero(mjax.typeof(jnp.ones(2))))
      SymbolicZero(float32[2])
    """
    return for_rule(x, True)


# ---- locally constant and linear primitives ----------------------------------------------


def _refuse(who: str, primitive: Any, **lists: Any) -> None:
    """Refuses arguments of a rule by name; called where it has failed."""
    refuse_other(primitive)
    for name, given in lists.items():
        as_list(who, name, given)


def _zeros(primitive: Primitive, out: Any) -> Any:
    return list(map(zero_tangent, out)) if primitive.multiple_results else zero_tangent(out)


def zero_jvp(primitive: Primitive, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
             ) -> tuple[Any, Any]:
    """The jvp rule, for `functools.partial`, of a primitive whose result is locally constant.

    Args:
      primitive: the primitive.
      primals, tangents, params: the arguments of a jvp rule.

    Returns:
      The results, and their tangents.

    Raises:
      TypeError: `primitive` is not a primitive, a primal is not an array, or the primitive does not
        take its dtype or the params.
      MissingRuleError: the primitive does not have an implementation.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> out, tangent = ad.zero_jvp(lax.floor_p, [1.5], [1.0])
      >>> float(out), type(tangent) is ad.Zero
      (1.0, True)
    """
    try:
        out = primitive.bind(*primals, **params)
    except (AttributeError, TypeError):
        _refuse("zero_jvp", primitive, primals=primals)
        raise
    return out, _zeros(primitive, out)


def defjvp_zero(primitive: Primitive) -> None:
    """Gives a primitive whose result is locally constant its jvp rule, `zero_jvp`.

    Args:
      primitive: the primitive.

    Raises:
      TypeError: `primitive` is not a primitive.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import ad
      >>> sign_p = core.Primitive("sign_of")
      >>> _ = sign_p.def_impl(np.sign)
      >>> ad.defjvp_zero(sign_p)
      >>> [float(v) for v in mjax.jvp(sign_p.bind, (-2.0,), (1.0,))]
      [-1.0, 0.0]
    """
    define_zero_jvp(primitive)


def linear_jvp(primitive: Primitive, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
               ) -> tuple[Any, Any]:
    """The jvp rule, for `functools.partial`, of a primitive that is linear in all its operands
    jointly.

    Args:
      primitive: the primitive.
      primals, tangents, params: the arguments of a jvp rule.

    Returns:
      The results, and their tangents.

    Raises:
      TypeError: `primitive` is not a primitive, a primal or tangent is not an array, or the
        primitive does not take the params.
      MissingRuleError: the primitive does not have an implementation.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> [float(v) for v in ad.linear_jvp(lax.sub_p, [5.0, 2.0], [1.0, 10.0])]
      [3.0, -9.0]
    """
    try:
        out = primitive.bind(*primals, **params)
    except (AttributeError, TypeError):
        _refuse("linear_jvp", primitive, primals=primals)
        raise
    if all(type(t) is Zero for t in tangents):
        return out, _zeros(primitive, out)
    return out, primitive.bind(*map(instantiate, tangents), **params)


def linear_transpose(transpose_rule: Callable[..., Any], cotangent: Any, *args: Any, **params: Any
                     ) -> Any:
    """The transpose rule, for `functools.partial`, of a rule `(cotangent, **params)`.

    Args:
      transpose_rule: gives one cotangent or None per operand.
      cotangent: of the result, or a `Zero`.
      args: the operands, undefined or not.
      params: the primitive's.

    Returns:
      Cotangents of the operands.

    Raises:
      TypeError: the cotangent is not a `Zero`, and `transpose_rule` is not a function of it and the
        params.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> x = ad.UndefinedPrimal(mjax.typeof(1.0))
      >>> [float(ct) for ct in ad.linear_transpose(lambda ct: [lax.neg(ct)], 2.0, x)]
      [-2.0]
    """
    zeros = _zero_cotangents(cotangent, args)
    return transpose_rule(cotangent, **params) if zeros is None else zeros


def linear_transpose2(transpose_rule: Callable[..., Any], cotangent: Any, *args: Any, **params: Any
                      ) -> Any:
    """The transpose rule, for `functools.partial`, of a rule `(cotangent, *args, **params)`.

    Args:
      transpose_rule, cotangent, args, params: as for `linear_transpose`.

    Returns:
      Cotangents of the operands.

    Raises:
      TypeError: the cotangent is not a `Zero`, and `transpose_rule` is not a function of it, the
        operands and the params.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> x = ad.UndefinedPrimal(mjax.typeof(jnp.ones(2)))
      >>> ad.linear_transpose2(lambda ct, x: 1 / 0, ad.Zero(x.aval), x)
      [Zero(float32[2])]
    """
    zeros = _zero_cotangents(cotangent, args)
    return transpose_rule(cotangent, *args, **params) if zeros is None else zeros


def _zero_cotangents(cotangent: Any, args: Sequence[Any]) -> list[Any] | None:
    if type(cotangent) is not Zero:
        return None
    return [Zero(a.aval.to_cotangent()) if type(a) is UndefinedPrimal else None for a in args]


def deflinear2(primitive: Primitive, transpose_rule: Rule) -> None:
    """Defines the jvp and the transpose of a primitive that is jointly linear in its operands.

    Args:
      primitive: the primitive.
      transpose_rule: `(cotangent, *args, **params) ->` a cotangent or None per operand.

    Raises:
      TypeError: `primitive` is not a primitive, `transpose_rule` is not a function, or its
        signature does not fit.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import ad
      >>> minus_p = core.Primitive("minus")
      >>> _ = minus_p.def_impl(lambda x, y: x - y)
      >>> _ = minus_p.def_abstract_eval(lambda x, y: x)
      >>> ad.deflinear2(minus_p, lambda ct, x, y: [ct, lax.neg(ct)])
      >>> [float(g) for g in mjax.grad(minus_p.bind, (0, 1))(5.0, 3.0)]
      [1.0, -1.0]
    """
    RuleTable("transpose")[primitive] = transpose_rule
    primitive.define("jvp", partial(linear_jvp, primitive), derived=True)


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """`deflinear2` for rules `(cotangent, **params)`, which do not read the operands.

    Args:
      primitive: the primitive, which is linear in all operands.
      transpose_rule: `(cotangent, **params) -> cotangents of operands`.

    Raises:
      TypeError: `primitive` is not a primitive, or `transpose_rule` is not a function.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import ad
      >>> triple_p = core.Primitive("triple")
      >>> _ = triple_p.def_impl(lambda x: 3 * x)
      >>> _ = triple_p.def_abstract_eval(lambda x: x)
      >>> ad.deflinear(triple_p, lambda ct: [triple_p.bind(ct)])
      >>> float(mjax.grad(triple_p.bind)(1.0))
      3.0
    """
    if not callable(transpose_rule):
        msg = f"deflinear: transpose_rule must be a function, got {transpose_rule!r}."
        raise TypeError(msg)
    rule = partial(linear_transpose, transpose_rule)
    rule.__wrapped__ = transpose_rule  # type: ignore[attr-defined]
    deflinear2(primitive, rule)


# ---- other primitives --------------------------------------------------------------------


def standard_jvp(jvprules: Sequence[Callable[..., Any] | None], primitive: Primitive,
                 primals: Sequence[Any], tangents: Sequence[Any], **params: Any
                 ) -> tuple[Any, Any]:
    """The jvp rule, for `functools.partial`, that sums contributions of a primitive's operands.

    Args:
      jvprules: per operand `(tangent, *primals, **params) -> tangent of the result`, or None.
      primitive: has one result.
      primals, tangents, params: the arguments of a jvp rule.

    Returns:
      The results, and their tangents.

    Raises:
      TypeError: there are more or fewer functions than operands.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> rules = [lambda t, x, y: lax.mul(t, y), lambda t, x, y: lax.mul(x, t)]
      >>> [float(v) for v in ad.standard_jvp(rules, lax.mul_p, [3.0, 4.0], [1.0, 10.0])]
      [12.0, 34.0]
    """
    rules = as_list("standard_jvp", "jvprules", jvprules)
    return standard_jvp2([rule and _without_result(rule) for rule in rules], primitive, primals,
                         tangents, **params)


def _without_result(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tangent, out, *primals, **params: rule(tangent, *primals, **params)


def standard_jvp2(jvprules: Sequence[Callable[..., Any] | None], primitive: Primitive,
                  primals: Sequence[Any], tangents: Sequence[Any], **params: Any
                  ) -> tuple[Any, Any]:
    """`standard_jvp` of functions `(tangent, result, *primals, **params)`.

    Args:
      jvprules: these functions, or None, per operand.
      primitive, primals, tangents, params: as for `standard_jvp`.

    Returns:
      The results, and their tangents.

    Raises:
      TypeError: `primitive` is not a primitive, there are more or fewer functions than operands, a
        primal is not an array, or the types of contributions differ.
      ValueError: there are more or fewer tangents than functions.
      MissingRuleError: the primitive does not have an implementation.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> rules = [lambda t, out, x, **params: lax.mul(t, out)]
      >>> [float(v) for v in ad.standard_jvp2(rules, lax.exp_p, [0.0], [2.0], accuracy=None)]
      [1.0, 2.0]
    """
    try:
        fits = len(jvprules) == len(primals) == len(tangents)
        out = primitive.bind(*primals, **params) if fits else None
    except (AttributeError, TypeError):
        _refuse("standard_jvp", primitive, jvprules=jvprules, primals=primals, tangents=tangents)
        raise
    if len(jvprules) != len(primals):
        bad_rule_result(primitive, "jvp", lambda: (
            f"was made of {counted(len(jvprules), 'function')} for "
            f"{counted(len(primals), 'operand')}; give one, or None, for each."))
    check_count("standard_jvp", "tangents", tangents, primals, "primal")
    total = _zeros(primitive, out)
    for rule, tangent in zip(jvprules, tangents, strict=True):
        if rule is not None and type(tangent) is not Zero:
            total = add_tangents(total, rule(tangent, out, *primals, **params))
    return out, total


def bilinear_transpose(lhs_rule: Callable[..., Any], rhs_rule: Callable[..., Any], cotangent: Any,
                       x: Any, y: Any, **params: Any) -> tuple[Any, Any]:
    """The transpose rule, for `functools.partial`, of a primitive linear in each of two operands.

    Args:
      lhs_rule: `(cotangent, x, y, **params) -> cotangent of x`, where `x` is undefined.
      rhs_rule: `(cotangent, x, y, **params) -> cotangent of y`, where `y` is undefined.
      cotangent: of the result, or a `Zero`.
      x, y: the operands, one of them undefined.
      params: the primitive's.

    Returns:
      Cotangents of `x` and `y`; None for the one that is known.

    Raises:
      TypeError: the rule that is called is not a function; no operand is undefined; both are, and
        `lhs_rule` reads `y`.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> x = ad.UndefinedPrimal(mjax.typeof(1.0))
      >>> left, right = lambda ct, x, y: lax.mul(ct, y), lambda ct, x, y: lax.mul(x, ct)
      >>> ct, none = ad.bilinear_transpose(left, right, 2.0, x, 5.0)
      >>> float(ct), none
      (10.0, None)
    """
    first = is_undefined_primal(x)
    if not (first or is_undefined_primal(y)):
        msg = (f"bilinear_transpose: one operand must be an ad.UndefinedPrimal; got "
               f"{describe_value(x)} and {describe_value(y)}.")
        raise TypeError(msg)
    rule, operand = (lhs_rule, x) if first else (rhs_rule, y)
    ct = (Zero(operand.aval.to_cotangent()) if type(cotangent) is Zero
          else rule(cotangent, x, y, **params))
    return (ct, None) if first else (None, ct)
