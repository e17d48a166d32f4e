"""The examples that define primitives, run as they are."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import mjax
from mjax_ext import core
from mjax_ext.interpreters import ad

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name):
    """A fresh import: the primitive of the walk starts without rules each time."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_multiply_add_from_no_rule_to_all():
    example, lines = load("multiply_add"), []
    example.walk(lines.append)
    before = [line for line in lines if line.startswith("   before  ")]
    assert len(before) == len(example.STEPS) == 6
    for line, rule in zip(before, ("implementation", "abstract evaluation",
                                   "lowering for platform cpu", "jvp rule", "transpose rule",
                                   "batching rule"), strict=True):
        assert line.startswith(f"   before  Primitive 'multiply_add' has no {rule}, which")
    lines.clear()
    example.compare(lines.append)
    assert len(lines) == len(example.COMPOSITIONS)
    assert all(line.endswith("as expected") for line in lines)


def test_the_values_that_are_asked_for():
    example = load("multiply_add")
    example.walk(lambda line: None)
    f = example.square_add
    assert float(f(2.0, 10.0)) == 14
    assert [float(v) for v in mjax.jvp(f, (2.0, 10.0), (1.0, 1.0))] == [14, 5]
    assert float(mjax.grad(f)(2.0, 10.0)) == 4
    np.testing.assert_array_equal(mjax.vmap(f)(example.A, example.B), [14, 29])


def test_the_walk_notices_what_goes_wrong():
    example = load("multiply_add")
    with pytest.raises(AssertionError, match="evaluation gave 3, expected 4"):
        example.check("evaluation", 3, 4)
    example.multiply_add_p.def_impl(example.multiply_add_impl)
    with pytest.raises(AssertionError, match="worked before its rule was registered"):
        example.walk(lambda line: None)


def test_main_prints_walk_record_and_compositions(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["multiply_add.py", "--errors"])
    load("multiply_add").main()
    out = capsys.readouterr().out
    assert "ad.primitive_jvps[multiply_add_p] = multiply_add_jvp" in out
    assert re.search(r"linearize +derived from jvp", out)
    assert "third derivative" in out


def test_operands_that_do_not_fit():
    example = load("multiply_add")
    example.walk(lambda line: None)
    with pytest.raises(TypeError,
                       match=r"one shape and dtype, got float32\[2\], float32\[2\], ~?float32\[\]"):
        mjax.jit(example.multiply_add)(example.A, example.A, 1.0)


def test_jep15856():
    example = load("jep15856")
    results = example.results()
    assert type(results["mul_add_p.bind(2, 3, 4)"]) is int
    assert repr(results["jit(mul_add_p.bind)(2, 3, 4)"]) == "Array(10, dtype=int32, weak_type=True)"
    assert all(int(value) == 10 for value in results.values())
    assert isinstance(example.mul_add_p, core.Primitive)
    assert example.mul_add_p not in ad.primitive_jvps
