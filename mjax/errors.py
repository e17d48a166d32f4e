"""The errors that mjax raises beyond Python's own; `JaxRuntimeError` is XLA's, with JAX's name."""

from mjax._engine.base.errors import (
    ConcretizationTypeError,
    InconclusiveDimensionOperation,
    JaxprTypeError,
    MissingRuleError,
    NonConcreteBooleanIndexError,
    ProcessLostError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TypePromotionError,
    UnexpectedTracerError,
)
from mjax._engine.base.faces import face
from mjax._engine.runtime.xla_errors import JaxRuntimeError

__all__ = [
    "ConcretizationTypeError", "InconclusiveDimensionOperation", "JaxRuntimeError",
    "JaxprTypeError", "MissingRuleError", "NonConcreteBooleanIndexError", "ProcessLostError",
    "TracerArrayConversionError", "TracerBoolConversionError", "TracerIntegerConversionError",
    "TypePromotionError", "UnexpectedTracerError",
]

face("mjax.errors")
