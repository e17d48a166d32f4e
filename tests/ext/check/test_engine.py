"""The engine's own primitives, and those of the examples, pass the checker."""

from __future__ import annotations

import numpy as np
import pytest

from mjax_ext._operands import examples_of
from mjax_ext.check import check_primitive
from mjax_ext.core import primitives
from tests.ext.test_examples import load

#: One of each family, for ordinary runs.
SAMPLE = ("sin", "mul", "select_n", "reduce_sum", "reshape", "dynamic_slice", "gather",
          "dot_general", "sort", "cumsum", "cholesky", "random_bits", "cond", "psum_invariant")
ALL = {p.name: p for p in (getattr(primitives, name) for name in primitives.__all__)}


@pytest.mark.parametrize("name", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.slow)
                                  for n in sorted(ALL)])
def test_primitive(name):
    """Without findings; and what it declares is true of one of its examples."""
    p, declared = ALL[name], {}
    for operands, params in p.schema.applications():
        report = check_primitive(p, *examples_of(operands), **params)
        assert report.ok, report
        declared |= report.declared
        refused = "jvp" not in report.checked and " is refused: " in str(report)
        assert not refused or "jvp" in report.declared, report
    assert declared == p.exceptions, report


def test_every_schema_has_examples():
    for name, p in ALL.items():
        applications = p.schema.applications()
        assert applications, name
        for _, params in applications:
            assert p.schema.admits(params) and not p.schema.mistyped(params), name
    assert {*SAMPLE} <= set(ALL)


def test_examples():
    example = load("multiply_add")
    example.walk(lambda line: None)
    for operands in ((example.A, example.B, example.B), (2.0, 10.0, -1.0)):
        report = check_primitive(example.multiply_add_p, *operands)
        assert report.ok, report
    for operands in ((2, 3, 4), (np.arange(3), np.arange(3), np.arange(3))):
        report = check_primitive(load("jep15856").mul_add_p, *operands)
        assert report.ok, report
