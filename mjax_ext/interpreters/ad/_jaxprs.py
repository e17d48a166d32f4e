"""Derivatives of programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.util import check_count, split_list
from mjax._engine.ir.dtypes import float0
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.registration import refuse_other
from mjax._engine.tracing.rule_errors import as_jaxpr, describe_value
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero, is_undefined_primal
from mjax._engine.transforms import transpose as engine
from mjax._engine.transforms.transpose import transpose_jaxpr
from mjax_ext._checked import as_list


def backward_pass(jaxpr: Jaxpr, transform_stack: bool, consts: Sequence[Any],
                  primals_in: Sequence[Any], cts_in: Sequence[Any]) -> list[Any]:
    """Cotangents of the linear inputs of a program.

    Args:
      jaxpr: linear in the inputs that are undefined.
      transform_stack: whether the names of its equations' scopes show the transposition.
      consts: values of its constants.
      primals_in: an `UndefinedPrimal` for each linear input, values for the others.
      cts_in: a cotangent or a `Zero` for each result.

    Returns:
      For each input its cotangent, or a `Zero`.

    Raises:
      TypeError: `transform_stack` is not a bool, a value does not have the shape and the dtype of
        its input or result, or an equation is not linear.
      ValueError: there are more or fewer values than constants, inputs or results.
      MissingRuleError: a primitive does not have a transpose rule.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> jaxpr = mjax.make_jaxpr(lambda x, y: lax.mul(x, y))(1.0, 1.0)
      >>> x = ad.UndefinedPrimal(mjax.typeof(1.0))
      >>> ct, zero = ad.backward_pass(jaxpr, False, jaxpr.consts, [x, 5.0], [2.0])
      >>> float(ct), type(zero) is ad.Zero
      (10.0, True)
    """
    as_jaxpr("backward_pass", jaxpr)
    if not isinstance(transform_stack, bool):
        msg = ("backward_pass(jaxpr, transform_stack, consts, primals_in, cts_in): "
               f"transform_stack must be a bool, got {describe_value(transform_stack)}.")
        raise TypeError(msg)
    consts, primals_in, cts_in = (
        as_list("backward_pass", name, values) for name, values in (
            ("consts", consts), ("primals_in", primals_in), ("cts_in", cts_in)))
    for name, values, items, what in (("consts", consts, jaxpr.constvars, "constant"),
                                      ("primals_in", primals_in, jaxpr.invars, "input"),
                                      ("cts_in", cts_in, jaxpr.outvars, "result")):
        check_count("backward_pass", name, values, items, what)
    check_types("backward_pass", "primals_in", primals_in, jaxpr.in_avals)
    check_types("backward_pass", "cts_in", cts_in, [a.to_cotangent() for a in jaxpr.out_avals])
    found = engine.backward_pass(jaxpr, consts, primals_in, cts_in,
                                 "transpose" if transform_stack else "")
    return [Zero(typeof(p).to_cotangent()) if ct is None else ct
            for p, ct in zip(primals_in, found, strict=True)]


def check_types(who: str, name: str, values: Sequence[Any], expected: Sequence[Any]) -> None:
    """Refuses values of other shapes and dtypes than a program has.

    Args:
      who: the function, for messages.
      name: the name of its argument.
      values: arrays, `UndefinedPrimal`s, `Zero`s; None is not looked at.
      expected: their types.

    Raises:
      TypeError: a value does not have its type, or is not an array.
    """
    for i, (value, aval) in enumerate(zip(values, expected, strict=True)):
        if value is None or not isinstance(aval, ShapedArray) or aval.dtype == float0:
            continue
        try:
            given = value.aval if type(value) in (Zero, UndefinedPrimal) else typeof(value)
        except TypeError as error:
            msg = f"{who}: {name}[{i}]: {error}"
            raise TypeError(msg) from None
        if (getattr(given, "shape", None), getattr(given, "dtype", None)) != (
                aval.shape, aval.dtype):
            msg = f"{who}: {name}[{i}] has type {given}, but the program expects {aval}."
            raise TypeError(msg)


def closed_backward_pass(jaxpr: Jaxpr, transform_stack: bool, primals_in: Sequence[Any],
                         cotangents_in: Sequence[Any]) -> list[Any]:
    """`backward_pass` of a program with the values of its constants.

    Args:
      jaxpr: the program.
      transform_stack, primals_in, cotangents_in: as for `backward_pass`.

    Returns:
      A list of cotangents.

    Raises:
      TypeError: `jaxpr` is not a jaxpr, `transform_stack` is not a bool, or an equation is not
        linear.
      ValueError: there are more or fewer values than inputs or results.
      MissingRuleError: a primitive does not have a transpose rule.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> jaxpr = mjax.make_jaxpr(lax.neg)(1.0)
      >>> x = ad.UndefinedPrimal(mjax.typeof(1.0))
      >>> float(ad.closed_backward_pass(jaxpr, False, [x], [2.0])[0])
      -2.0
    """
    return backward_pass(jaxpr, transform_stack, as_jaxpr("closed_backward_pass", jaxpr).consts,
                         primals_in, cotangents_in)


def rearrange_binders(jaxpr: Jaxpr, primals_in: Sequence[int], tangents_in: Sequence[int],
                      primals_out: Sequence[int], tangents_out: Sequence[int]) -> Jaxpr:
    """A program whose groups of primals and tangents alternate.

    Args:
      jaxpr: its inputs are all groups of primals, then all groups of tangents; so are its results.
      primals_in, tangents_in: the sizes of the groups of inputs, as many of each.
      primals_out, tangents_out: those of results.

    Returns:
      The program with the first group of primals, the first of tangents, the second of primals,
      and so on.

    Raises:
      ValueError: the sizes do not add up.
      TypeError: `jaxpr` is not a jaxpr, or a size is not an int of at least 0.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> jaxpr = mjax.make_jaxpr(lambda a, b, da, db: [a, db])(1, 2, 3.0, 4.0)
      >>> moved = ad.rearrange_binders(jaxpr, [1, 1], [1, 1], [1], [1])
      >>> [aval.dtype.name for aval in moved.in_avals]
      ['int32', 'float32', 'int32', 'float32']
    """
    as_jaxpr("rearrange_binders", jaxpr)
    names = jaxpr.debug_info.arg_names
    return jaxpr.replace(
        invars=_alternate("inputs", primals_in, tangents_in, jaxpr.invars),
        outvars=_alternate("results", primals_out, tangents_out, jaxpr.outvars),
        debug_info=jaxpr.debug_info._replace(arg_names=None if not names else tuple(_alternate(
            "names of inputs", primals_in, tangents_in, names))))


def _alternate(what: str, primals: Sequence[int], tangents: Sequence[int], values: Sequence[Any]
               ) -> list[Any]:
    for sizes in (primals, tangents):
        if not all(isinstance(n, (int, np.integer)) and n >= 0 for n in as_list(
                "rearrange_binders", f"the sizes of the groups of {what}", sizes)):
            msg = (f"rearrange_binders: the sizes of the groups of {what} must be ints of at least "
                   f"0, got {describe_value(sizes)}.")
            raise TypeError(msg)
    if len(primals) != len(tangents) or sum(primals) + sum(tangents) != len(values):
        msg = (f"rearrange_binders: groups of {list(primals)} primals and {list(tangents)} "
               f"tangents for {len(values)} {what}; give as many groups of each, whose sizes add "
               "up.")
        raise ValueError(msg)
    groups = split_list(values, [*primals, *tangents])
    n = len(primals)
    return [value for i in range(n) for group in (groups[i], groups[n + i]) for value in group]


#: Call primitive -> `(params, which operands are linear, which results have a cotangent) -> params`
#: of its transposed call, for `call_transpose`.
call_transpose_param_updaters: dict[Primitive, Any] = {}


def call_transpose(primitive: Primitive, params: dict[str, Any], call_jaxpr: Jaxpr,
                   args: Sequence[Any], ct: Sequence[Any], _: Any = None) -> list[Any]:
    """Transposes an application of a primitive that calls a program.

    Args:
      primitive: has multiple results; its param `call_jaxpr` holds the program.
      params: its other params. `call_transpose_param_updaters[primitive]` may change them.
      call_jaxpr: the program, linear in the inputs that are undefined.
      args: the operands, an `UndefinedPrimal` for each linear one.
      ct: a cotangent or a `Zero` for each result.

    Returns:
      For each operand its cotangent or a `Zero` if it is undefined, else None: the result of a
      transpose rule.

    Raises:
      TypeError: `primitive` is not a primitive, `params` is not a dict, `call_jaxpr` is not a jaxpr
        or not linear, a value does not have the type that it has there, or the primitive does not
        take the params.
      ValueError: there are more or fewer operands than inputs, or cotangents than results.
      MissingRuleError: a primitive of the program does not have a transpose rule.

    Example:
      >>> from mjax_ext.core.primitives import closed_call_p
      >>> from mjax_ext.interpreters import ad
      >>> body = mjax.make_jaxpr(lambda x, y: [lax.mul(x, y)])(1.0, 1.0)
      >>> x = ad.UndefinedPrimal(mjax.typeof(1.0))
      >>> ct, none = ad.call_transpose(closed_call_p, {}, body, [x, 5.0], [2.0])
      >>> float(ct), none
      (10.0, None)
    """
    refuse_other(primitive)
    as_jaxpr("call_transpose", call_jaxpr)
    if not isinstance(params, dict):
        msg = f"call_transpose: params must be a dict, got {describe_value(params)}."
        raise TypeError(msg)
    for name, values, avals, what in (("args", args, call_jaxpr.in_avals, "input"),
                                      ("ct", ct, call_jaxpr.out_avals, "result")):
        check_count("call_transpose", name, as_list("call_transpose", name, values), avals, what)
    check_types("call_transpose", "args", args, call_jaxpr.in_avals)
    check_types("call_transpose", "ct", ct, [a.to_cotangent() for a in call_jaxpr.out_avals])
    undefined = list(map(is_undefined_primal, args))
    nonzero = [c is not None and type(c) is not Zero for c in ct]
    transposed, found = transpose_jaxpr(call_jaxpr, undefined, nonzero)
    params = {name: value for name, value in params.items() if name != "call_jaxpr"}
    update = call_transpose_param_updaters.get(primitive)
    if update is not None:
        params = update(params, undefined, nonzero)
    outs = primitive.bind(*[a for a, u in zip(args, undefined, strict=True) if not u],
                          *[c for c, nz in zip(ct, nonzero, strict=True) if nz],
                          call_jaxpr=transposed, **params)
    given, which = iter(outs), iter(found)
    return [(next(given) if next(which) else Zero(a.aval.to_cotangent()))
            if type(a) is UndefinedPrimal else None for a in args]
