"""Operations that a compiler may know by name: `composite`.

The operation is a call of its decomposition, under a name. A compiler that knows the name may use a
better implementation; any other compiles the decomposition. The name does not apply to transformed
operations: they are a `closed_call` of the transformed decomposition.

Source: the StableHLO specification, `composite`; the public interface of `jax.lax.composite`.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.errors import UnexpectedTracerError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import BoundedCache
from mjax._engine.control.calls.closed_call import closed_call_p
from mjax._engine.control.frame import UNCUT, Frame
from mjax._engine.control.trace_body import stage_body
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten, tree_structure
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.custom_call_ir import ir_attribute
from mjax._engine.primitives.emit import flat, hlo, ir
from mjax._engine.tracing.flat import check_arguments, check_callable
from mjax._engine.tracing.primitive import EnginePrimitive

composite_p = EnginePrimitive("composite", params={
    "jaxpr": Jaxpr, "name": str, "attributes": Any, "version": int}, multiple_results=True)


class _CompositeFrame(Frame):
    """Its derivatives and batches are those of its decomposition; it is never split."""

    derives = UNCUT
    becomes = closed_call_p.frame


_CompositeFrame(composite_p)
#: The names that the specification allows.
_NAME = r"[a-zA-Z]\w*(\.[\w$]+)+"


class Attributes:
    """The attributes of a composite, by name; they compare by value and type."""

    __slots__ = ("_key", "values")

    def __init__(self, who: str, values: dict[str, Any]):
        self.values = values
        self._key = tuple((name, _key(f"{who}: attribute {name!r}", value))
                          for name, value in sorted(values.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attributes) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.values)


def _key(who: str, value: Any) -> Any:
    """The form of an attribute in keys.

    Raises:
      TypeError: StableHLO has no attribute for it.
    """
    kind = type(value)
    if isinstance(value, (list, tuple)):
        return (tuple, *(_key(who, v) for v in value))
    if isinstance(value, dict):
        return (dict, *((name, _key(who, v)) for name, v in sorted(value.items())))
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in (
            "iuf" if np.ndim(value) else "biuf"):
        return np.ndarray, value.dtype, value.shape, value.tobytes()
    if isinstance(value, float):
        return float, repr(value)
    if value is None or isinstance(value, (bool, int, str, np.dtype)):
        return kind, value
    msg = (f"{who} has type {kind.__name__}; attributes are numbers, strings, dtypes, NumPy "
           "arrays of numbers, None, and lists and dicts of those.")
    raise TypeError(msg)


# ---- rules -----------------------------------------------------------------------------


@composite_p.def_lowering
def _composite_lowering(ctx: Any, *operands: Any, jaxpr: Jaxpr, name: str, version: int,
                        attributes: Attributes) -> Any:
    if jaxpr.effects:  # by the specification, a composite does not have side effects
        return ctx.call(jaxpr, name, *operands)
    function, constants = ctx.private(jaxpr, name)
    integer = ir.IntegerType.get_signless(32)
    return hlo.CompositeOp(
        ctx.out_types, [*constants, *flat(operands)], name, ir.FlatSymbolRefAttr.get(function),
        composite_attributes=ir.DictAttr.get({
            key: ir_attribute(value) for key, value in attributes.values.items()
            if value is not None}),
        version=ir.IntegerAttr.get(integer, version)).results


# ---- public function -------------------------------------------------------------------


@boundary
def composite(decomposition: Callable[..., Any], name: str, version: int = 0
              ) -> Callable[..., Any]:
    """Names a function as one operation, which compilers may know.

    Its value, derivatives and batches are those of the decomposition. Only an operation that is
    neither differentiated nor batched has the name.

    Args:
      decomposition: the function, of pytrees of arrays; it must not close over traced values. Its
        keyword arguments are the operation's attributes: numbers, strings, dtypes, NumPy arrays,
        lists and dicts of those. None is passed to it, but is not an attribute.
      name: the operation's name, with a namespace: "my_namespace.my_operation".
      version: distinguishes meanings of one name.

    Returns:
      A function of the same arguments.

    Raises:
      TypeError: `decomposition` is not callable; `version` is not an integer; when it is called:
        arguments that are not arrays, or attributes of other types.
      ValueError: `name` has no namespace, or `version` is negative.
      UnexpectedTracerError: when it is called: it closes over traced values.

    Example:
      >>> tangent = lax.composite(lambda x: lax.sin(x) / lax.cos(x), "my.tangent")
      >>> tangent(jnp.float32(1))
      Array(1.5574077, dtype=float32)
      >>> "stablehlo.composite" in mjax.jit(tangent).lower(1.0).as_text()
      True

    Source: the public interface of `jax.lax.composite`.
    """
    check_callable("composite", decomposition)
    if not isinstance(name, str) or not re.fullmatch(_NAME, name, re.ASCII):
        msg = (f"composite: the name {name!r} must be letters, digits and underscores with a "
               "namespace in front, such as 'my_namespace.my_operation'.")
        raise ValueError(msg)
    version = operator.index(version)
    if version < 0:
        msg = f"composite: version is {version}; it must not be negative."
        raise ValueError(msg)
    who = f"composite {name}"
    known = BoundedCache(64)

    @boundary
    @functools.wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        check_arguments(who, args)
        leaves, _ = tree_flatten(args)
        given = Attributes(who, attributes)
        f = known.get(given) or known.put(given, functools.partial(decomposition, **attributes))
        body = stage_body(who, f, tree_structure((args, {})), list(map(typeof, leaves)),
                          decomposition, control_flow=False)
        if body.consts:
            msg = (f"{who}: its decomposition closes over values that are traced, such as one of "
                   f"type {body.consts[0].aval}: make them arguments.")
            raise UnexpectedTracerError(msg)
        return body.out_tree.unflatten(composite_p.bind(
            *leaves, name=name, version=version, attributes=given, jaxpr=body.jaxpr))

    return call


__all__ = ["composite", "composite_p"]
