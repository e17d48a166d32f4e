"""Primitives whose rules are methods, and which compute with objects of authors' classes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, wraps
from typing import Any

from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.user_types import on_objects

#: The methods that are rules of the record under the same names.
_RULES = ("jvp", "transpose")


class HiPrimitive(Primitive):
    """A primitive whose rules are methods, on values of any types.

    A subclass defines `abstract_eval` and `to_lojax`, and `jvp` and `transpose` where derivatives
    need them. Values of a `HiType` are objects in `to_lojax`, and traced values in other rules.
    All other rules are registered as for any primitive, such as `p.def_batch(rule)`. If
    `multiple_results` is true in the class, types, results and tangents are lists.

    Args:
      name: its name in jaxprs and messages.

    Example:
      >>> from mjax.experimental import hijax
      >>> class Double(hijax.HiPrimitive):
      ...     def abstract_eval(self, x):
      ...         return x, set()
      ...     def to_lojax(self, x):
      ...         return 2 * x
      ...     def jvp(self, primals, tangents):
      ...         return self.bind(*primals), self.bind(*tangents)
      ...     def transpose(self, ct, x):
      ...         return [self.bind(ct)]
      >>> double_p = Double("double")
      >>> float(mjax.grad(double_p.bind)(3.0))
      2.0

    Source: `jax.experimental.hijax.HiPrimitive` of release 0.10.2.
    """

    on_objects = True
    multiple_results: bool = False

    def __init__(self, name: str):
        if not isinstance(name, str):
            msg = f"{type(self).__name__}(name): a name is a text, got {describe_value(name)}."
            raise TypeError(msg)
        own = type(self)
        several = own.multiple_results is True
        super().__init__(name, multiple_results=several)
        for rule in ("abstract_eval", *_RULES):
            written = getattr(own, rule)
            if written is not getattr(HiPrimitive, rule, None):
                self.define(rule, written.__get__(self))
        if own.to_lojax is not HiPrimitive.to_lojax:
            self.def_impl(self.to_lojax)
            lowered = wraps(self.to_lojax)(partial(self._lowered))  # messages name the author's
            self.def_lowering(traced(lowered, multiple_results=True))

    def _lowered(self, *args: Any, **params: Any) -> list[Any]:
        def of_objects(*values: Any) -> Sequence[Any]:
            out: Any = self.to_lojax(*values, **params)
            return out if self.multiple_results else [out]

        return on_objects(of_objects, *args)

    def to_lojax(self, *args: Any, **params: Any) -> Any:
        """The results, by functions of the arrays in the operands; must be overridden.

        Args:
          args: arrays, and objects for operands of a `HiType`. They hold traced values if the
            primitive is part of a program.
          params: the params.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define to_lojax.")


__all__ = ["HiPrimitive"]
