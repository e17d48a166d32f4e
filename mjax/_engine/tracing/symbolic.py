"""Values that rules get in place of arrays: symbolic zeros, undefined primals, not_mapped."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from mjax._engine.ir.tree_registration import register_pytree_node
from mjax._engine.ir.types import typeof, typeof_handlers
from mjax._engine.tracing.rule_errors import SymbolicValueError


class Zero:
    """A tangent or cotangent known to be zero, so that it need not be computed.

    Args:
      aval: the *tangent* type (float0 for integers).

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import ad
      >>> ad.Zero(core.ShapedArray((2,), jnp.dtype("float32"))).instantiate()
      Array([0., 0.], dtype=float32)
    """

    __slots__ = ("aval",)
    aval: Any
    #: The array of zeros; `primitives/tangents.py` defines it.
    instantiate: Callable[[Zero], Any]

    def __init__(self, aval: Any):
        self.aval = aval

    @staticmethod
    def from_primal_value(val: Any) -> Zero:
        """The zero tangent of a value."""
        return Zero(typeof(val).to_tangent())

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


class UndefinedPrimal:
    """Represents, in a transpose rule, an operand in which the equation is linear.

    Args:
      aval: the type of the operand.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> ad.is_undefined_primal(ad.UndefinedPrimal(mjax.typeof(1.0)))
      True
    """

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval})"


def zeros_among(values: Iterable[Any]) -> list[Zero | None]:
    """The `Zero`s of a list in their places, None in all others."""
    return [value if type(value) is Zero else None for value in values]


def without_zeros(values: Iterable[Any]) -> list[Any]:
    """The values that are not `Zero`s."""
    return [value for value in values if type(value) is not Zero]


def among_zeros(zeros: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Inverse of `zeros_among` and `without_zeros`."""
    given = iter(values)
    return [next(given) if zero is None else zero for zero in zeros]


def is_undefined_primal(value: Any) -> bool:
    """Whether a transpose rule has to give a cotangent for this operand.

    Args:
      value: an operand of a transpose rule.

    Returns:
      A bool.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> ad.is_undefined_primal(1.0)
      False
    """
    return type(value) is UndefinedPrimal


def _described(value: Zero | UndefinedPrimal) -> tuple[str, str]:
    """Describes a value that is not an array, and says what to do."""
    what, remedy = (
        ("a tangent known to be zero (ad.Zero)", "Leave its term out, or make it an array with "
         "ad.instantiate_zeros(tangent).") if isinstance(value, Zero) else
        ("an operand without a value (ad.UndefinedPrimal)", "A transpose rule may read its .aval "
         "and nothing else; operands of which ad.is_undefined_primal is false are arrays."))
    return f"{what}, of type {value.aval},", remedy


def _refuse(value: Zero | UndefinedPrimal, *args: Any, **kwargs: Any) -> NoReturn:
    what, remedy = _described(value)
    raise SymbolicValueError(lambda: f"{what} was used as if it were an array. {remedy}")


def _without_attribute(value: Zero | UndefinedPrimal, name: str) -> NoReturn:
    msg = f"{type(value).__name__!r} object has no attribute {name!r}"
    if name != "aval" and not name.startswith("__"):  # A copy that is made may lack its type.
        what, remedy = _described(value)
        msg = f"{msg}: {what} is not an array. {remedy}"
    raise AttributeError(msg, name=name, obj=value)


_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "pow")
_METHODS: dict[str, Callable[..., NoReturn]] = {
    "getattr": _without_attribute,
    **dict.fromkeys(("array", "neg", "abs", "getitem"), _refuse),
    **dict.fromkeys((*_OPERATORS, *(f"r{n}" for n in _OPERATORS)), _refuse),
}
for _class in (Zero, UndefinedPrimal):
    typeof_handlers[_class] = _refuse
    for _name, _method in _METHODS.items():
        setattr(_class, f"__{_name}__", _method)

# Trees hold them as parts of their structure: they do not have leaves.
for _class in (Zero, UndefinedPrimal):
    register_pytree_node(_class, lambda value: ((), value.aval),
                         functools.partial(lambda cls, aval, _: cls(aval), _class))

#: The batch dimension of an operand that is the same for all batch elements.
not_mapped = None
