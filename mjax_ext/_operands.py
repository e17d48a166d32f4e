"""Operands that belong together, or that only have a transpose: examples with something to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.faces import rehome
from mjax._engine.base.util import counted


class Operands(tuple[Any, ...]):
    """The operands of one application, of which only some combinations make sense.

    The checker derives other values, batches and tangents from examples, each operand by itself.
    Offsets then no longer belong to sizes, nor a factorization to its matrix. `fit` makes operands
    belong together again: the checker applies the primitive to what it gives, everywhere.

    Args:
      operands: arrays of any shapes and dtypes, as `check_primitive` takes them.
      fit: from operands to operands of the same types, which belong together; traceable, and made
        of operations other than the primitive. Those that belong together already stay.
      forward: for a primitive that refuses evaluation, as it is a backward pass which is only
        transposed: the results that it stands for, from its operands. Programs with the primitive
        are evaluated as the transpose of their transpose, and compared with it.
      linear: with `forward`, the numbers of the operands in which it is linear.

    Raises:
      TypeError: `fit` or `forward` is not callable, or `linear` does not hold numbers.
      ValueError: `forward` and `linear` are not given together, or an operand does not exist.

    Example:
      >>> from mjax_ext.check import Operands, check_primitive
      >>> from mjax_ext.core.primitives import clamp_p
      >>> x = np.array([0.5, -1.0, 2.0], "float32")
      >>> ordered = lambda low, x, high: (jnp.minimum(low, high), x, jnp.maximum(low, high))
      >>> check_primitive(clamp_p, Operands((x - 1, x, x + 1), ordered)).ok
      True
    """

    fit: Callable[..., Sequence[Any]] | None
    forward: Callable[..., Sequence[Any]] | None
    linear: tuple[int, ...]

    def __new__(cls, operands: Sequence[Any], fit: Callable[..., Sequence[Any]] | None = None, *,
                forward: Callable[..., Sequence[Any]] | None = None, linear: Sequence[int] = ()
                ) -> Operands:
        self = super().__new__(cls, operands)
        for name, f in ("fit", fit), ("forward", forward):
            if f is not None and not callable(f):
                msg = f"Operands: {name} must be a function of operands, got {f!r}."
                raise TypeError(msg)
        if not isinstance(linear, Sequence) or not all(isinstance(i, int) for i in linear):
            msg = f"Operands: linear must hold numbers of operands, such as (1,), got {linear!r}."
            raise TypeError(msg)
        if (forward is None) != (not linear) or not set(linear) <= set(range(len(self))):
            msg = (f"Operands: linear is {linear!r} for {counted(len(self), 'operand')}. It "
                   "numbers those in which `forward` is linear, from 0, and is not given without "
                   "it.")
            raise ValueError(msg)
        self.fit, self.forward, self.linear = fit, forward, tuple(linear)
        return self


rehome(Operands, "mjax_ext.check")


def examples_of(operands: Sequence[Any]) -> Sequence[Any]:
    """The arguments that stand for operands in a call of `check_primitive`."""
    return [operands] if isinstance(operands, Operands) else operands
