"""The errors users meet: Python's own, or those that `mjax.errors` names.

Each holds its facts and builds its text when it is shown. An error that is caught and dropped
costs no formatting, and an error text walks a trace only when it is read. (In JAX's issue 40041
eager texts made tracing quadratic.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class LazyText(Exception):
    """Base of errors whose text may be given as a callable, called when it is shown.

    Args:
      shown_as: the class that tracebacks, `repr` and pickles name in place of a subclass: one of
        Python's own, of which it is a subclass. The others are names of `mjax.errors`.
    """

    __name__: ClassVar[str]
    _shown_as: ClassVar[type[Exception] | None] = None

    def __init_subclass__(cls, shown_as: type[Exception] | None = None) -> None:
        cls._shown_as = shown_as
        if shown_as is None:
            cls.__module__ = "mjax.errors" if cls.__module__ == __name__ else cls.__module__
        else:
            cls.__module__, cls.__name__ = shown_as.__module__, shown_as.__name__
            cls.__qualname__ = shown_as.__qualname__

    def __init__(self, text: str | Callable[[], str] = ""):
        super().__init__()
        self._text = text

    def __str__(self) -> str:
        if callable(self._text):
            self._text = self._text()
        return self._text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @property
    def args(self) -> Any:  # type: ignore[override]
        """The text, as of any exception."""
        return (str(self),)

    def __reduce__(self) -> Any:
        return self._shown_as or type(self), (str(self),)


class LazyTypeError(LazyText, TypeError, shown_as=TypeError):
    """A `TypeError` whose text is built on demand."""


class LazyValueError(LazyText, ValueError, shown_as=ValueError):
    """A `ValueError` whose text is built on demand."""


class LazyArgumentError(LazyText, TypeError, ValueError, shown_as=TypeError):
    """A `TypeError` about an argument of the wrong kind. JAX raises a `ValueError` for many of
    them, so this is one too."""


class LazyAxisError(LazyText, ValueError, IndexError, shown_as=ValueError):
    """A `ValueError` about an axis that is out of range; an `IndexError` too, as NumPy's."""


class LazyNoMeshError(LazyText, ValueError, RuntimeError, shown_as=ValueError):
    """A `ValueError` about a spec without a mesh; a `RuntimeError` too, as JAX's."""


class LazyDeletedError(LazyText, RuntimeError, ValueError, shown_as=RuntimeError):
    """A `RuntimeError` about an argument that was donated; a `ValueError` too, as JAX's may be."""


class LazyIndexTypeError(LazyText, TypeError, IndexError, shown_as=TypeError):
    """A `TypeError` about something that is not an index. JAX raises an `IndexError` for some of
    them, so this is one too."""


class LazyAttributeError(LazyText, AttributeError, shown_as=AttributeError):
    """An `AttributeError` whose text is built on demand."""


class LazyNoArrayError(LazyText, TypeError, AttributeError, shown_as=TypeError):
    """A `TypeError` about a value that is not an array, or not of a class; an `AttributeError` too,
    since it lacks what those have."""


class LazyNameError(LazyText, NameError, shown_as=NameError):
    """A `NameError` whose text is built on demand."""


class LazyNotImplementedError(LazyText, NotImplementedError, shown_as=NotImplementedError):
    """A `NotImplementedError` whose text is built on demand."""


class JaxprTypeError(LazyTypeError):
    """A jaxpr is not well typed: names the equation and the user's line that made it.

    Example:
      >>> from mjax_ext import core
      >>> jaxpr = mjax.make_jaxpr(lambda x: x + 1)(2.0)
      >>> wrong = jaxpr.replace(eqns=[])
      >>> try:
      ...     core.check_jaxpr(wrong)
      ... except core.JaxprTypeError as error:
      ...     print(type(error).__name__)
      JaxprTypeError

    Source: JAX, `jax.core.JaxprTypeError`.
    """


class LazyNoDerivativeError(LazyText, NotImplementedError, ValueError, shown_as=ValueError):
    """A `ValueError` about a derivative that does not exist. JAX raises a `NotImplementedError` for
    some of them, so this is one too."""


class LazyNoForwardModeError(LazyNoDerivativeError, TypeError, shown_as=TypeError):
    """A `TypeError` about a function with a derivative in reverse mode only."""


class MissingRuleError(LazyText, NotImplementedError):
    """A primitive lacks the rule that a transformation asked for."""


class UnexpectedTracerError(LazyTypeError):
    """A tracer was used after the trace that made it had ended."""


class ConcretizationTypeError(LazyTypeError):
    """A concrete value was needed where only a traced one exists.

    Example:
      >>> from mjax_ext import core
      >>> try:
      ...     mjax.jit(lambda x: core.concrete_or_error(int, x, "the length"))(1)
      ... except core.ConcretizationTypeError as error:
      ...     print("the length" in str(error))
      True

    Source: JAX, `jax.errors.ConcretizationTypeError`.
    """


class TracerArrayConversionError(ConcretizationTypeError):
    """A tracer was given to NumPy."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A tracer was used as a Python index or size."""


class TracerBoolConversionError(ConcretizationTypeError):
    """A tracer was used as a Python truth value."""


class NonConcreteBooleanIndexError(LazyText, IndexError):
    """A traced boolean mask was used as an index: its result would have no static shape."""


class InconclusiveDimensionOperation(LazyText):
    """The answer to a question about symbolic dimensions depends on the values of symbols.

    Example:
      >>> from mjax_ext import core
      >>> (n,) = mjax.export.symbolic_shape("n")
      >>> try:
      ...     n > 3
      ... except core.InconclusiveDimensionOperation as error:
      ...     print(type(error).__name__)
      InconclusiveDimensionOperation

    Source: JAX, `jax.core.InconclusiveDimensionOperation`.
    """


class TypePromotionError(LazyValueError):
    """Two dtypes have no common type under the promotion mode in force."""


class ProcessLostError(LazyText, RuntimeError):
    """Other processes of a distributed computation are gone.

    Attributes:
      processes: their numbers, as far as this process knows.
    """

    def __init__(self, text: str | Callable[[], str] = "", processes: tuple[int, ...] = ()):
        super().__init__(text)
        self.processes = processes

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.processes)
