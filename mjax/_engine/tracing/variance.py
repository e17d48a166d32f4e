"""Device variance: operands of an equation are made to vary along the same mesh axes.

Within shard_map the type of a value names the mesh axes along which devices may hold different
values (`float32[3]{V:i}`). `pvary` casts to more of them and moves no data. It has to be in the
program because its transpose is a sum over these axes. Its other rules are in `spmd`, beside those
of the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import Literal
from mjax._engine.ir.schema import AxisNames
from mjax._engine.ir.types import ShapedArray, same_array_type, same_type_but_weak, typeof
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.operands import OperandsVaryError
from mjax._engine.tracing.primitive import EnginePrimitive

pvary_p = EnginePrimitive("pvary", params={"axes": AxisNames}, own_varying=True)


@pvary_p.def_abstract_eval
def _pvary_type(x: Any, *, axes: tuple[Any, ...]) -> ShapedArray:
    if not x.varying.isdisjoint(axes):
        msg = f"pvary: {x} varies along some of the axes {axes} already."
        raise TypeError(msg)
    return x.with_varying(x.varying | set(axes))


pvary_p.def_lowering(lambda ctx, x, *, axes: [x])


def vary_as(value: Any, aval: Any, expected: Any) -> Any:
    """A value of type `aval` cast to the expected type if it only varies less; else None."""
    if aval.varying < expected.varying and same_type_but_weak(
            aval.with_varying(expected.varying), expected):
        return pvary_p.bind(value, axes=sorted_axes(expected.varying - aval.varying))
    return None


def fitted(value: Any, expected: Any) -> Any:
    """A value, cast if it only varies less than the expected type; None if it does not fit."""
    actual = typeof(value)
    return value if same_type_but_weak(actual, expected) else vary_as(value, actual, expected)


def not_summed(actual: Any, expected: Any) -> str:
    """Advice for a cotangent that varies along more mesh axes than its operand.

    Empty if over-variance is not the cause.
    """
    axes = sorted_axes(actual.varying - expected.varying) if actual else ()
    if not axes or not same_array_type(actual, expected):
        return ""
    over = repr(axes[0]) if len(axes) == 1 else axes
    return (f" The operand is the same on all devices along {', '.join(map(repr, axes))}, so its "
            "cotangent is the sum of what the devices contribute: return "
            f"mjax.lax.psum(ct, {over}). Or cast the operand before the call, by "
            f"mjax.lax.pcast(x, {over}, to='varying'): the sum is the transpose of the cast then.")


def sorted_axes(axes: frozenset[Any]) -> tuple[Any, ...]:
    """Axes in an order that does not depend on hashes."""
    return tuple(sorted(axes, key=str))


def vary_alike(interp: Any, atoms: Sequence[Any], error: OperandsVaryError) -> list[Any]:
    """The operands of an equation under construction, varying along the same axes.

    Args:
      interp: the staging interpreter.
      atoms: the operands.
      error: the error of their primitive.

    Raises:
      OperandsVaryError: `error`, if authors write the casts and one is missing.
    """
    target = error.least.union(*(a.aval.varying for a in atoms))
    return vary_along(interp, atoms, [target] * len(atoms), error)


def vary_along(interp: Any, atoms: Sequence[Any], targets: Sequence[frozenset[Any]],
               error: OperandsVaryError) -> list[Any]:
    """`vary_alike` for operands that each have to vary along axes of their own.

    A value used in several equations is cast once, so that its cotangents are added up
    before they are summed over devices. A literal takes the type it needs.
    """
    if casts_are_written():
        _refuse_uncast(interp, atoms, targets, error)
    return [_cast(interp, atom, target) for atom, target in zip(atoms, targets, strict=True)]


def typed_axes() -> frozenset[Any]:
    """The mesh axes in scope along which types can vary."""
    modes = {axis.name: axis.manual and axis.manual.mode for axis in thread.axis_env}
    return frozenset(name for name, mode in modes.items() if mode not in (None, "unchecked"))


def casts_are_written() -> bool:
    """Whether the author of the present function writes all casts."""
    return any(axis.manual is not None and axis.manual.mode == "explicit"
               for axis in thread.axis_env)


def _refuse_uncast(interp: Any, atoms: Sequence[Any], targets: Sequence[frozenset[Any]],
                   error: OperandsVaryError) -> None:
    """Raises the error if one of the operands to be cast depends on inputs of the program.

    Casts of other operands, made of literals and constants, are never transposed.
    """
    seen, found = interp.from_inputs
    found.update(interp.invars)
    found.update(v for v, c in zip(interp.constvars, interp.consts, strict=True)
                 if isinstance(c, Tracer))
    for eqn in interp.eqns[seen:]:
        if not found.isdisjoint(v for v in eqn.invars if type(v) is not Literal):
            found.update(eqn.outvars)
    interp.from_inputs = len(interp.eqns), found
    for atom, target in zip(atoms, targets, strict=True):
        if type(atom) is not Literal and atom in found and atom.aval.varying != target:
            raise error


def _cast(interp: Any, atom: Any, target: frozenset[Any]) -> Any:
    wanted = atom.aval.with_varying(target)
    if wanted == atom.aval:
        return atom
    if type(atom) is Literal:
        return Literal(atom.val, wanted)
    known = interp.casts.get((atom, target))
    if known is None:
        axes = sorted_axes(target - atom.aval.varying)
        known = interp.casts[atom, target] = interp.emit(pvary_p, [atom], {"axes": axes})
    return known
