"""The errors users meet. Each holds its facts and builds its text when it is shown.

An error that is caught and dropped costs no formatting, and no error text walks a trace
unless somebody reads it (JAX's issue 40041 was quadratic tracing from an eager one).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class LazyText(Exception):
    """Base of errors whose text may be given as a callable, called when it is shown."""

    def __init__(self, text: str | Callable[[], str] = ""):
        super().__init__()
        self._text = text

    def __str__(self) -> str:
        if callable(self._text):
            self._text = self._text()
        return self._text

    def __reduce__(self) -> Any:
        return type(self), (str(self),)


class LazyTypeError(LazyText, TypeError):
    """A `TypeError` whose text is built on demand."""


class LazyValueError(LazyText, ValueError):
    """A `ValueError` whose text is built on demand."""


class LazyNameError(LazyText, NameError):
    """A `NameError` whose text is built on demand."""


class JaxprTypeError(LazyTypeError):
    """A jaxpr is not well typed: names the equation and the user's line that made it."""


class MissingRuleError(LazyText, NotImplementedError):
    """A primitive lacks the rule that a transformation asked for."""


class UnexpectedTracerError(LazyText):
    """A tracer was used after the trace that made it had ended."""


class ConcretizationTypeError(LazyTypeError):
    """A concrete value was needed where only a traced one exists."""


class TracerArrayConversionError(ConcretizationTypeError):
    """A tracer was given to NumPy."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A tracer was used as a Python index or size."""


class TracerBoolConversionError(ConcretizationTypeError):
    """A tracer was used as a Python truth value."""


class NonConcreteBooleanIndexError(LazyText, IndexError):
    """A traced boolean mask was used as an index: its result would have no static shape."""


class TypePromotionError(LazyValueError):
    """Two dtypes have no common type under the promotion mode in force."""
