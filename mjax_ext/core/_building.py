"""Making jaxprs by hand, and small questions about types."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyAxisError
from mjax._engine.base.folding import boundary
from mjax._engine.ir.dtypes import as_dtype
from mjax._engine.ir.effects import Effects, no_effects
from mjax._engine.ir.jaxpr import Atom, Jaxpr, JaxprEqn, JaxprEqnContext, Literal, Var
from mjax._engine.ir.source import (
    NameStack,
    SourceInfo,
    current_traceback,
    plain,
    with_annotations,
)
from mjax._engine.ir.token_types import AbstractToken
from mjax._engine.ir.types import AbstractValue, ShapedArray, typeof
from mjax._engine.lowering.context import nested_constants
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.registration import refuse_other
from mjax._engine.tracing.rule_errors import as_jaxpr, describe_value
from mjax._engine.tracing.stage import StageInterpreter, eval_jaxpr
from mjax._engine.transforms.batching import batched_type


class JaxprBuilder:
    """Writes a jaxpr equation by equation, without tracing a function.

    Types of results come from the primitives' abstract evaluation.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.core.primitives import mul_p, sin_p
      >>> builder = core.JaxprBuilder()
      >>> x = builder.input(core.ShapedArray((3,), "float32"))
      >>> print(builder.build(builder.apply(mul_p, builder.apply(sin_p, x), x)))
      { lambda  ; a:f32[3]. let
          b:f32[3] = sin a
          c:f32[3] = mul b a
        in (c,) }
    """

    def __init__(self) -> None:
        self._interp = StageInterpreter(evaluation)

    def input(self, aval: ShapedArray) -> Var:
        """A new input of the program.

        Raises:
          TypeError: `aval` is not a type.
        """
        if not isinstance(aval, AbstractValue):
            msg = ("JaxprBuilder.input takes a type, such as mjax.typeof(x) or "
                   f"core.ShapedArray(shape, dtype); got {describe_value(aval)}.")
            raise TypeError(msg)
        return self._interp.new_arg(aval).variable

    def constant(self, value: Any) -> Atom:
        """The atom of a value: a literal for a scalar, else a constant of the program."""
        return self._interp.atom(value)

    @boundary
    def apply(self, primitive: Primitive, *operands: Any, **params: Any) -> Any:
        """Adds an equation.

        Args:
          primitive: the primitive to apply.
          operands: atoms of this program, or values, which become constants.
          params: the primitive's parameters.

        Returns:
          The variable of the result, or a list of them if the primitive has multiple results.

        Raises:
          TypeError: `primitive` is not a primitive; its abstract evaluation refuses the operands,
            or a program in the params.
        """
        refuse_other(primitive)
        invars = [a if isinstance(a, (Var, Literal)) else self.constant(a) for a in operands]
        given = [a.aval for a in invars]
        avals, effects = primitive.infer(given, params)
        if primitive.typecheck is not None:
            primitive.typecheck(*given, **params)
        eqn = new_jaxpr_eqn(invars, list(map(Var, avals)), primitive, params, effects)
        self._interp.eqns.append(eqn)
        self._interp.effects |= effects
        return eqn.outvars if primitive.multiple_results else eqn.outvars[0]

    @boundary
    def build(self, *results: Any) -> Jaxpr:
        """The program with these results, type-checked if `mjax.enable_checks` is on.

        Raises:
          ValueError: an operand or a result is a variable of another program.
        """
        interp = self._interp
        atoms = [a if isinstance(a, (Var, Literal)) else self.constant(a) for a in results]
        known: set[Any] = {*interp.constvars, *interp.invars}
        for i, eqn in enumerate(interp.eqns):
            _refuse_foreign(eqn.invars, known,
                            f"operand {{}} of equation {i} ({eqn.primitive.name})")
            known.update(eqn.outvars)
        _refuse_foreign(atoms, known, "result {}")
        return interp.build(atoms)


def _refuse_foreign(atoms: Sequence[Atom], known: set[Any], which: str) -> None:
    for i, atom in enumerate(atoms):
        if isinstance(atom, Var) and atom not in known:
            msg = (f"JaxprBuilder.build: {which.format(i)}, of type {atom.aval}, is a variable of "
                   "another program. Take what input, constant and apply of this builder give, or "
                   "hand it in by an input.")
            raise ValueError(msg)


def new_jaxpr_eqn(invars: Sequence[Atom], outvars: Sequence[Var], primitive: Primitive,
                  params: dict[str, Any], effects: Effects = no_effects,
                  source_info: Any = None, ctx: JaxprEqnContext | None = None) -> JaxprEqn:
    """An equation.

    Args:
      invars: the operands.
      outvars: variables of the results.
      primitive: the primitive.
      params: its params.
      effects: its effects.
      source_info: the `source_info` of another equation; None: the present call.
      ctx: the context of another equation; None: the present one.

    Returns:
      A `JaxprEqn`.

    Raises:
      TypeError: the operands or the results cannot be iterated over.
      AttributeError: `ctx` is not a `JaxprEqnContext`.

    Example:
      >>> from mjax_ext import core
      >>> x, y = (core.Var(mjax.typeof(1.0)) for _ in range(2))
      >>> core.new_jaxpr_eqn([x], [y], core.primitives.sin_p, {})
      a:~f32[] = sin b

    Source: JAX, `jax.extend.core.new_jaxpr_eqn`.
    """
    if type(source_info) is SourceInfo:
        source_info = source_info.replace(name_stack=NameStack(plain(source_info.name_stack)))
    context = JaxprEqnContext() if ctx is None else ctx
    source = with_annotations(source_info or current_traceback(), context.annotations)
    return JaxprEqn(list(invars), list(outvars), primitive, params, effects, source)


def gensym() -> Callable[[AbstractValue], Var]:
    """A function from types to new variables: `Var`.

    Example:
      >>> from mjax_ext import core
      >>> core.gensym()(mjax.typeof(1.0)).aval
      ShapedArray(float32[], weak_type=True)

    Source: JAX, `jax.extend.core.gensym`.
    """
    return Var


def jaxpr_as_fun(jaxpr: Jaxpr) -> Callable[..., list[Any]]:
    """A jaxpr as a function of flat values, which returns the list of results.

    Args:
      jaxpr: the program, with its constants.

    Returns:
      A function of as many arrays as the program has inputs.

    Raises:
      TypeError: the program is not a jaxpr; at calls: there are more or fewer arguments than
        inputs, or one is not an array.

    Example:
      >>> from mjax_ext import core
      >>> f = core.jaxpr_as_fun(mjax.make_jaxpr(lambda x: lax.mul(x, 2.0))(1.0))
      >>> [float(y) for y in f(3.0)]
      [6.0]
    """
    as_jaxpr("jaxpr_as_fun", jaxpr)

    @boundary
    def function(*args: Any) -> list[Any]:
        return eval_jaxpr(jaxpr, jaxpr.consts, *args)

    return function


def jaxpr_const_args(jaxpr: Jaxpr) -> list[tuple[Any, AbstractValue]]:
    """The arrays that a program and those in its params close over, each once, with their types.

    A compiled program takes them as arguments, unless they are small.

    Args:
      jaxpr: the program.

    Returns:
      A list of pairs `(array, type)`.

    Raises:
      TypeError: the program is not a jaxpr, or one of its constants is not an array or a number.

    Example:
      >>> from mjax_ext import core
      >>> c = np.arange(3.0)
      >>> core.jaxpr_const_args(mjax.make_jaxpr(mjax.jit(lambda x: x + c))(1.0))[0][1]
      ShapedArray(float32[3])

    Source: JAX, `jax._src.core.jaxpr_const_args` of release 0.10.2.
    """
    return [(c, typeof(c)) for c in nested_constants(as_jaxpr("jaxpr_const_args", jaxpr))]


def mapped_aval(size: int, axis: int | None, aval: AbstractValue) -> AbstractValue:
    """The type of one of `size` elements along an axis.

    Args:
      size: the number of elements.
      axis: the axis of `aval`; None: all elements have the type `aval`.
      aval: the type of all of them.

    Returns:
      A type.

    Raises:
      ValueError: the axis does not exist or has another size; an IndexError, too.
      TypeError: the axis is not an integer, or `aval` is not a type.

    Example:
      >>> from mjax_ext import core
      >>> core.mapped_aval(3, 0, core.ShapedArray((3, 2), jnp.dtype("float32")))
      ShapedArray(float32[2])
    """
    place = _place("mapped_aval", axis, aval)
    if place is None:
        return aval
    if aval.axis_size(place) != size:
        raise LazyAxisError(lambda: f"{aval} has no axis {axis} of size {size}.")
    return aval.element(place)


def _place(who: str, axis: Any, aval: Any) -> int | None:
    """The axis as an int; None where all elements have one type, as tokens do."""
    if not isinstance(aval, AbstractValue):
        msg = f"{who} takes a type, such as mjax.typeof(x) gives; got {describe_value(aval)}."
        raise TypeError(msg)
    if axis is None or isinstance(aval, AbstractToken):
        return None
    if type(axis) is int or aval.is_high:  # axes of other types are theirs
        return axis  # type: ignore[no-any-return]
    try:
        return operator.index(axis)
    except TypeError:
        msg = f"{who}: the axis must be an int or None, got {describe_value(axis)}."
        raise TypeError(msg) from None


def unmapped_aval(size: int, axis: int | None, aval: AbstractValue,
                  explicit_mesh_axis: Any = None) -> AbstractValue:
    """The type of `size` elements along a new axis.

    Args:
      size: the number of elements.
      axis: the new axis; None: all elements are the same, and the type stays.
      aval: the type of one element.
      explicit_mesh_axis: not used: types do not have shardings.

    Returns:
      A type.

    Raises:
      ValueError: the axis is not from 0 to the number of axes of `aval`; an IndexError, too.
      TypeError: the axis is not an integer, the size is neither an integer nor symbolic, `aval` is
        not a type, or values of it cannot be batched.

    Example:
      >>> from mjax_ext import core
      >>> core.unmapped_aval(3, 0, core.ShapedArray((2,), jnp.dtype("float32")))
      ShapedArray(float32[3,2])
    """
    place = _place("unmapped_aval", axis, aval)
    if place is not None and isinstance(aval, ShapedArray) and not 0 <= place <= aval.ndim:
        raise LazyAxisError(lambda: (
            f"unmapped_aval: {aval} gets a new axis at 0 to {aval.ndim}, not at {axis}."))
    return batched_type(aval, place, size)


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of tangents: the same for inexact dtypes, float0 for others.

    Args:
      primal_dtype: a dtype.

    Returns:
      A dtype.

    Raises:
      TypeError: it is not a dtype that arrays have.
      ValueError: it is an array.

    Example:
      >>> from mjax_ext import core
      >>> core.primal_dtype_to_tangent_dtype(jnp.dtype("float32"))
      dtype('float32')
    """
    return ShapedArray((), as_dtype(primal_dtype)).to_tangent().dtype
