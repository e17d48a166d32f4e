"""Checks in compiled programs: functions that give the first error as a value."""

from mjax._checkify.check import Error, check, check_error, debug_check, init_error
from mjax._checkify.checkifying import (
    all_checks,
    automatic_checks,
    checkify,
    div_checks,
    float_checks,
    index_checks,
    nan_checks,
    user_checks,
)
from mjax._checkify.errors import ErrorCategory, JaxRuntimeError
from mjax._engine.base.faces import face

__all__ = [
    "Error", "ErrorCategory", "JaxRuntimeError", "all_checks", "automatic_checks", "check",
    "check_error", "checkify", "debug_check", "div_checks", "float_checks", "index_checks",
    "init_error", "nan_checks", "user_checks",
]

face("mjax.experimental.checkify")
