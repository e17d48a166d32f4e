"""The checker: finds what is wrong with the rules of a primitive, before users do.

`check_primitive(p, *examples, **params)` compares the rules with each other and with independent
computations: finite differences, loops, products. In a shell it is `python -m mjax_ext check
module:primitive`, in test suites `pytest -p mjax_ext.check.pytest_plugin`: see `docs/checking.md`.
"""

from __future__ import annotations

from mjax._engine.base.faces import face
from mjax_ext._operands import Operands
from mjax_ext._reports import WrongRulesError
from mjax_ext.check._check import check_primitive
from mjax_ext.check._report import Finding, Report

__all__ = ["Finding", "Operands", "Report", "WrongRulesError", "check_primitive"]

face("mjax_ext.check")
