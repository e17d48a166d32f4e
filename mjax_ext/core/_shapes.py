"""Small questions about values, sizes, shapes and types, which libraries ask of JAX's core."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from mjax._engine.base.errors import ConcretizationTypeError, InconclusiveDimensionOperation
from mjax._engine.base.util import alias
from mjax._engine.control.cast_varying import vary_over
from mjax._engine.ir.dtypes import NUMPY_DTYPES
from mjax._engine.ir.sizes import is_symbolic_dim
from mjax._engine.ir.token_types import AbstractToken
from mjax._engine.ir.types import AbstractValue, ShapedArray, typeof
from mjax._engine.primitives.shapes import canonical_shape
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.operands import joint_varying
from mjax._engine.tracing.rule_errors import describe_value

# ---- annotations -------------------------------------------------------------------------

#: An array, a tracer, or a number.
Value = Any
#: The params of an equation.
ParamDict = dict[str, Any]
#: Types of operands, and of results.
InputType = tuple[AbstractValue, ...]
OutputType = tuple[AbstractValue, ...]
#: The size of an axis: an int or a symbolic dimension.
DimSize = Any
Shape = Sequence[DimSize]

#: The types of values that hold numbers of NumPy; lists of types of arrays add `mjax.Array`.
array_types: set[type] = {np.ndarray, np.intc, np.longlong, *(d.type for d in NUMPY_DTYPES)}


# ---- values ------------------------------------------------------------------------------


def to_concrete_value(x: Any) -> Any:
    """The array behind a value: of a tracer if there is one, else None; other values as they are.

    Args:
      x: a value.

    Returns:
      A value, or None.

    Example:
      >>> from mjax_ext import core
      >>> mjax.jvp(lambda x: (print(core.to_concrete_value(x)), x)[1], (1.0,), (1.0,))[0]
      1.0
      Array(1., dtype=float32, weak_type=True)
    """
    return x.to_concrete_value() if isinstance(x, Tracer) else x


def is_concrete(x: Any) -> bool:
    """Whether Python code may read a value: it is not a tracer, or has an array behind it.

    Args:
      x: a value.

    Returns:
      A bool.

    Example:
      >>> from mjax_ext import core
      >>> core.is_concrete(1.0)
      True
    """
    return to_concrete_value(x) is not None


def concrete_or_error(force: Callable[[Any], Any] | None, val: Any, context: str = "") -> Any:
    """`force(val)`, where a value that is only known by its type is an error.

    Args:
      force: a function of the concrete value, such as `int`; None: gives the value.
      val: the value.
      context: says in the error what the value is for.

    Returns:
      The result of `force`.

    Raises:
      ConcretizationTypeError: the value is a tracer without an array behind it.

    Example:
      >>> from mjax_ext import core
      >>> core.concrete_or_error(int, np.int32(3), "the number of steps")
      3

    Source: JAX, `jax.extend.core.concrete_or_error`.
    """
    concrete = to_concrete_value(val)
    if concrete is None:
        raise ConcretizationTypeError(lambda: (
            f"a concrete value is needed, but this one is only known by its type {val.aval} while "
            f"{val.interp.name} traces the function{f': {context}' if context else '.'}"
            f"{val.provenance()}"))
    return concrete if force is None else force(concrete)


def get_referent(x: Any) -> Any:
    """The value in the outermost trace behind a tracer; two tracers of one reference share it.

    Args:
      x: a value.

    Returns:
      A value.

    Example:
      >>> from mjax_ext import core
      >>> core.get_referent(1.0)
      1.0

    Source: JAX, `jax._src.core.get_referent`.
    """
    while isinstance(x, Tracer) and (below := x.below()) is not None:
        x = below
    return x


def full_lower(val: Any) -> Any:
    """A value without a tracer that adds nothing to it.

    Args:
      val: a value.

    Returns:
      A value.

    Example:
      >>> from mjax_ext import core
      >>> core.full_lower(1.0)
      1.0

    Source: JAX, `jax._src.core.full_lower`.
    """
    return val.full_lower() if isinstance(val, Tracer) else val


# ---- types -------------------------------------------------------------------------------


def physical_aval(aval: Any) -> Any:
    """The type of the arrays in which values of a type are stored: of keys, of their words.

    Args:
      aval: a type.

    Returns:
      A `ShapedArray`; the type itself, if its values are stored as they are.

    Example:
      >>> from mjax_ext import core
      >>> core.physical_aval(mjax.typeof(random.key(0)))
      ShapedArray(uint32[2])

    Source: JAX, `jax._src.core.physical_aval`.
    """
    return aval.physical()[0] if isinstance(aval, ShapedArray) else aval


def raise_to_shaped(aval: AbstractValue, weak_type: bool | None = None) -> AbstractValue:
    """The type itself, weak or not as asked: types do not hold values any more.

    Args:
      aval: a type.
      weak_type: None: as the type is.

    Returns:
      A type.

    Raises:
      ValueError: `weak_type` is an array of several elements.
      ConcretizationTypeError: `weak_type` is a traced value.

    Example:
      >>> from mjax_ext import core
      >>> core.raise_to_shaped(mjax.typeof(1.0), weak_type=False)
      ShapedArray(float32[])

    Source: JAX, `jax.core.raise_to_shaped`, before release 0.4.36.
    """
    return aval.update(weak_type=weak_type) if (
        weak_type is not None and isinstance(aval, ShapedArray)) else aval


def standard_vma_rule(prim_name: str, *avals: Any, **params: Any) -> frozenset[Any]:
    """The mesh axes along which results vary: those of the operands, which must vary alike.

    Every primitive has this rule, unless it was made with `own_varying`.

    Args:
      prim_name: the name of the primitive, for messages.
      avals: types of the operands.
      params: not needed.

    Returns:
      A frozenset of names.

    Raises:
      TypeError: they do not vary alike.

    Example:
      >>> from mjax_ext import core
      >>> core.standard_vma_rule("add", mjax.typeof(1.0), mjax.typeof(2.0))
      frozenset()

    Source: JAX, `jax._src.core.standard_vma_rule`.
    """
    return joint_varying(prim_name, [a for a in avals if not isinstance(a, AbstractToken)])


def standard_insert_pvary(*args: Any) -> list[Any]:
    """The values, cast to vary along the same mesh axes.

    mjax does so itself where a primitive is applied; this is for functions that compare the types
    of several values before that.

    Args:
      args: arrays.

    Returns:
      A list of values.

    Raises:
      TypeError: one of them is not an array or a number.
      OverflowError: one is an int that the default integer dtype cannot hold.
      ValueError: one is a masked array of NumPy.

    Example:
      >>> from mjax_ext import core
      >>> core.standard_insert_pvary(1.0, 2.0)
      [1.0, 2.0]

    Source: JAX, `jax._src.core.standard_insert_pvary`, which release 0.10.2 calls
    `auto_insert_reshard`.
    """
    axes: frozenset[Any] = frozenset().union(*(typeof(x).varying for x in args))
    return [vary_over(axes, x) for x in args]


auto_insert_reshard: Final = alias(standard_insert_pvary, "auto_insert_reshard")


# ---- sizes -------------------------------------------------------------------------------


def canonicalize_shape(shape: Any, context: str = "") -> tuple[Any, ...]:
    """A shape as a tuple of ints and symbolic dimensions.

    Args:
      shape: an int, or a sequence of sizes.
      context: what the shape is for, for messages.

    Returns:
      A tuple.

    Raises:
      TypeError: it holds a negative size, a tracer or something else.

    Example:
      >>> from mjax_ext import core
      >>> core.canonicalize_shape([np.int32(2), 3])
      (2, 3)

    Source: JAX, `jax._src.core.canonicalize_shape`.
    """
    try:
        return canonical_shape(shape)
    except TypeError as error:
        if context:
            error.add_note(f"The shape is for {context}.")
        raise


def is_constant_dim(d: Any) -> bool:
    """Whether a size is a known integer, not a symbolic dimension or a traced value.

    Args:
      d: a size.

    Returns:
      A bool.

    Raises:
      RuntimeError: it is an integer scalar, an array that has been deleted.

    Example:
      >>> from mjax_ext import core
      >>> core.is_constant_dim(3), core.is_constant_dim(mjax.export.symbolic_shape("b")[0])
      (True, False)
    """
    if is_symbolic_dim(d) or not is_concrete(d):
        return False
    try:
        operator.index(d)
    except TypeError:
        return False
    return True


def is_constant_shape(s: Shape) -> bool:
    """Whether all sizes of a shape are known integers.

    Args:
      s: a sequence of sizes.

    Returns:
      A bool.

    Raises:
      TypeError: the shape is not a sequence.
      RuntimeError: a size is an integer scalar, an array that has been deleted.

    Example:
      >>> from mjax_ext import core
      >>> core.is_constant_shape((2, 3))
      True
    """
    return all(map(is_constant_dim, s))


def definitely_equal(x: Any, y: Any) -> bool:
    """Whether two sizes are equal for all values of the symbols in them.

    Args:
      x: a size: an int or a symbolic dimension.
      y: another one.

    Returns:
      A bool; False if it depends on the symbols.

    Raises:
      ValueError: their comparison is an array of several elements.
      TypeError: they are arrays of mjax whose shapes do not fit each other.

    Example:
      >>> from mjax_ext import core
      >>> b, = mjax.export.symbolic_shape("b")
      >>> core.definitely_equal(b + b, 2 * b), core.definitely_equal(b, 2)
      (True, False)

    Source: JAX, `jax._src.core.definitely_equal`.
    """
    if isinstance(x, Tracer) or isinstance(y, Tracer):
        return get_referent(x) is get_referent(y)
    try:
        return bool(x == y)
    except InconclusiveDimensionOperation:
        return False


def definitely_equal_shape(s1: Shape, s2: Shape) -> bool:
    """Whether two shapes are equal for all values of the symbols in them.

    Args:
      s1: a sequence of sizes.
      s2: another one.

    Returns:
      A bool; False if it depends on the symbols.

    Raises:
      TypeError: one of them is not a sequence.
      ValueError: the comparison of two sizes is an array of several elements.

    Example:
      >>> from mjax_ext import core
      >>> core.definitely_equal_shape((2, 3), [2, 3]), core.definitely_equal_shape((2,), (2, 1))
      (True, False)

    Source: JAX, `jax._src.core.definitely_equal_shape`.
    """
    return len(s1) == len(s2) and all(map(definitely_equal, s1, s2))


def dimension_as_value(d: Any) -> Any:
    """A size as a value to compute with: a symbolic dimension becomes a traced integer.

    Args:
      d: a size: an int or a symbolic dimension.

    Returns:
      An int, or a traced integer.

    Raises:
      InconclusiveDimensionOperation: it is a symbolic dimension, and no program is being staged;
        or, when that is compiled, it is not one that is exported.
      TypeError: it is not an integer.

    Example:
      >>> from mjax_ext import core
      >>> core.dimension_as_value(3)
      3

    Source: JAX, `jax._src.core.dimension_as_value`.
    """
    if is_symbolic_dim(d):
        return d.__jax_array__()
    if not isinstance(d, (int, Tracer)) and not is_constant_dim(d):
        msg = ("dimension_as_value takes a size, an int or a symbolic dimension; got "
               f"{describe_value(d)}.")
        raise TypeError(msg)
    return d


def dim_constant(ct: int) -> Any:
    """A size as a NumPy integer of the default integer dtype.

    Args:
      ct: an int.

    Returns:
      A NumPy scalar.

    Raises:
      TypeError: it is not a number.
      ConcretizationTypeError: it is a traced value.
      OverflowError: the default integer dtype cannot hold it.
      InconclusiveDimensionOperation: it is a symbolic dimension.

    Example:
      >>> from mjax_ext import core
      >>> core.dim_constant(3).dtype
      dtype('int32')

    Source: JAX, `jax._src.core.dim_constant`.
    """
    return typeof(ct).dtype.type(ct)
