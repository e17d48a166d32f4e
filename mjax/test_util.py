"""Derivatives against finite differences, for tests."""

from mjax._engine.base.faces import face
from mjax._library.gradient_checks import check_grads, check_jvp, check_vjp

__all__ = ["check_grads", "check_jvp", "check_vjp"]

face("mjax.test_util")
