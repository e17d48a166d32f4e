"""The errors that mjax raises beyond Python's own."""

from mjax._engine.base.errors import (
    ConcretizationTypeError,
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

__all__ = [
    "ConcretizationTypeError", "JaxprTypeError", "MissingRuleError",
    "NonConcreteBooleanIndexError", "ProcessLostError", "TracerArrayConversionError",
    "TracerBoolConversionError", "TracerIntegerConversionError", "TypePromotionError",
    "UnexpectedTracerError",
]
