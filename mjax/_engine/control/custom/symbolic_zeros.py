"""Values that custom rules with `symbolic_zeros=True` get for known zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.ir.pytree import tree_map
from mjax._engine.ir.types import typeof, typeof_handlers
from mjax._engine.primitives.tangents import instantiate
from mjax._engine.tracing.symbolic import Zero


class SymbolicZero:
    """A tangent or cotangent known to be zero, for a user's rule.

    Args:
      aval: its type.

    Attributes:
      shape, dtype, ndim, size, weak_type: those of the type.

    Example:
      >>> @mjax.custom_jvp
      ... def product(x, y):
      ...   return x * y
      >>> def rule(primals, tangents):
      ...   print(type(tangents[1]).__name__)
      ...   return product(*primals), tangents[0] * primals[1]
      >>> f = product.defjvp(rule, symbolic_zeros=True)
      >>> mjax.grad(product)(2.0, 3.0)
      SymbolicZero
      Array(3., dtype=float32, weak_type=True)
    """

    __slots__ = ("aval",)
    aval: Any

    def __init__(self, aval: Any):
        self.aval = aval

    @staticmethod
    def from_primal_value(val: Any) -> SymbolicZero:
        """The zero tangent of a value."""
        return SymbolicZero(typeof(val).to_tangent())

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size", "weak_type"):
            return getattr(self.aval, name)
        raise AttributeError(f"SymbolicZero has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is SymbolicZero and self.aval == other.aval

    def __hash__(self) -> int:
        return hash((SymbolicZero, self.aval))

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval})"


def _refuse(value: SymbolicZero) -> NoReturn:
    raise LazyTypeError(lambda: (
        f"{value} was used as if it were an array. A rule defined with symbolic_zeros=True gets "
        "one for each tangent or cotangent that is known to be zero: ask with isinstance(x, "
        "mjax.custom_derivatives.SymbolicZero) and leave its term out."))


typeof_handlers[SymbolicZero] = _refuse


class CustomVJPPrimal:
    """An argument of a fwd rule that was defined with `symbolic_zeros=True`.

    Attributes:
      value: the argument.
      perturbed: whether it is differentiated.

    Example:
      >>> @mjax.custom_vjp
      ... def f(x, y):
      ...   return x * y
      >>> def fwd(x, y):
      ...   print(x.perturbed, y.perturbed)
      ...   return x.value * y.value, y.value
      >>> f.defvjp(fwd, lambda y, g: (g * y, None), symbolic_zeros=True)
      >>> float(mjax.grad(f)(2.0, 3.0))
      True False
      3.0
    """

    __slots__ = ("perturbed", "value")
    value: Any
    perturbed: bool

    def __init__(self, value: Any, perturbed: bool):
        self.value, self.perturbed = value, perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal(value={self.value!r}, perturbed={self.perturbed})"


@boundary
def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values of a tree of `CustomVJPPrimal`s.

    Args:
      tree: a pytree whose leaves are `CustomVJPPrimal`s.

    Returns:
      A tree of the same structure.

    Raises:
      TypeError: another leaf is among them.

    Example:
      >>> from mjax.custom_derivatives import CustomVJPPrimal, custom_vjp_primal_tree_values
      >>> custom_vjp_primal_tree_values({"x": CustomVJPPrimal(1.0, True)})
      {'x': 1.0}
    """

    def value(leaf: Any) -> Any:
        if type(leaf) is not CustomVJPPrimal:
            msg = ("custom_vjp_primal_tree_values takes trees of CustomVJPPrimal, as fwd rules get "
                   f"them with symbolic_zeros=True; got a leaf of type {type(leaf).__name__}.")
            raise TypeError(msg)
        return leaf.value

    return tree_map(value, tree)


@boundary
def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of a tree of values.

    Args:
      val: a pytree of arrays.
      symbolic_zeros: whether to give `SymbolicZero`s rather than arrays.

    Returns:
      The same tree of zeros; those of integers and booleans are of dtype float0.

    Raises:
      TypeError: a leaf is not an array or number.
      OverflowError: a Python int that the default integer dtype cannot hold.
      ValueError: the keys of a dict cannot be sorted.

    Example:
      >>> from mjax.custom_derivatives import zero_from_primal
      >>> zero_from_primal(2.0)
      Array(0., dtype=float32, weak_type=True)
    """
    return tree_map(lambda x: for_rule(Zero.from_primal_value(x), symbolic_zeros), val)


def for_rule(tangent: Any, symbolic: bool) -> Any:
    """A tangent or cotangent in the form for users' rules, without `Zero`."""
    if type(tangent) is not Zero:
        return tangent
    return SymbolicZero(tangent.aval) if symbolic else instantiate(tangent)


def as_arrays(tangents: Sequence[Any]) -> list[Any]:
    """Tangents or cotangents with arrays for `Zero`s; those of integers stay."""
    return [t if type(t) is Zero and not t.aval.inexact else instantiate(t)
            for t in tangents]


def from_rule(tangent: Any) -> Any:
    """A result of a user's rule, with a `Zero` for a `SymbolicZero`.

    Args:
      tangent: an array or a `SymbolicZero`.

    Returns:
      An array or a `Zero`.

    Example:
      >>> from mjax.custom_derivatives import SymbolicZero
      >>> from mjax_ext.interpreters import ad
      >>> ad.replace_rule_output_symbolic_zeros(SymbolicZero(mjax.typeof(jnp.ones(2))))
      Zero(float32[2])
    """
    return Zero(tangent.aval) if type(tangent) is SymbolicZero else tangent


__all__ = ["CustomVJPPrimal", "SymbolicZero", "as_arrays", "custom_vjp_primal_tree_values",
           "for_rule", "from_rule", "zero_from_primal"]
