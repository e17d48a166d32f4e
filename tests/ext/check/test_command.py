"""`python -m mjax_ext check`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mjax
from mjax_ext import core
from mjax_ext.__main__ import COMMANDS, main
from mjax_ext.check import Operands, check_primitive
from tests.ext.check import faults

ROOT = Path(__file__).parents[3]
RIGHT = faults.product("commanded")
WRONG = faults.product("commanded wrongly", without=("batch",))
WITH_SCHEMA = faults.product("commanded by schema")
WITH_SCHEMA.def_schema({}, examples=[((faults.X, faults.Y), {})])


def examples():
    return (faults.X, faults.Y), {}


def no_examples():
    return faults.X


def run(*arguments):
    return main(["check", *arguments])


def rule_that_conforms():
    p = faults.product("commanded to deviate")
    p.deviates("batch", "Once it did.")
    p.def_schema({}, examples=[((faults.X, faults.Y), {}), (
        Operands((faults.X, faults.X), lambda x, y: (x, x)), {})])
    return p


CONFORMS = rule_that_conforms()
HERE = "tests.ext.check.test_command"


def test_statuses(capsys):
    assert run(f"{HERE}:RIGHT", "--examples", f"{HERE}:examples") == 0
    assert "no findings" in capsys.readouterr().out
    assert run(f"{HERE}:WRONG", "--examples", f"{HERE}:examples") == 1
    assert "1 finding (batch)" in capsys.readouterr().out


def test_examples_of_the_schema(capsys):
    assert run(f"{HERE}:WITH_SCHEMA") == 0
    assert "commanded by schema(float32[2,3], float32[2,3])" in capsys.readouterr().out
    assert run("mjax_ext.core.primitives:neg_p") == 0
    assert "neg(float32[3])" in capsys.readouterr().out


def test_a_declaration_that_no_example_shows(capsys):
    assert run(f"{HERE}:CONFORMS") == 1
    said = capsys.readouterr().out
    assert said.count(", no findings: ") == 2
    assert "declares that 'batch' deviates (Once it did.), which no example shows" in said


@pytest.mark.parametrize(("arguments", "text"), [
    ([f"{HERE}:RIGHT"], "there are no examples for 'commanded'"),
    ([f"{HERE}:nothing"], "is not there: AttributeError"),
    (["no_such_module:p"], "is not there: ModuleNotFoundError"),
    (["RIGHT"], "must have the form module:name"),
    ([f"{HERE}:examples"], "which is not a primitive"),
    ([f"{HERE}:RIGHT", "--examples", f"{HERE}:no_examples"], "must return the operands and the"),
    ([f"{HERE}:RIGHT", "--examples", f"{HERE}:HERE"], "which is not a function"),
    ([":p"], "must have the form module:name"), ([".check:p"], "must have the form module:name"),
])
def test_nothing_to_check(arguments, text, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_from_a_shell():
    """In a process of its own, where it asks for two devices."""
    done = subprocess.run(
        [sys.executable, "-m", "mjax_ext", "check", "jep15856:mul_add_p"], cwd=ROOT / "examples",
        capture_output=True, text=True)
    assert done.returncode == 2 and "there are no examples" in done.stderr
    assert isinstance(RIGHT, core.Primitive)
    done = subprocess.run([sys.executable, "-m", "mjax_ext", "check", "mjax.lax:neg_p"],
                          capture_output=True, text=True)
    assert done.returncode == 0 and "no findings: neg(float32[3])" in done.stdout, done.stderr


def test_commands_are_named(capsys):
    assert main([]) == main(["unknown"]) == 2
    said = capsys.readouterr().err
    assert "check" in COMMANDS and all(name in said for name in COMMANDS)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help(flag, capsys):
    assert main([flag]) == 0
    said = capsys.readouterr()
    assert not said.err and all(name in said.out for name in COMMANDS)
    for name in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([name, flag])
        assert ended.value.code == 0
        said = capsys.readouterr().out
        assert said.startswith(f"usage: python -m mjax_ext {name} ") and "Exit status" in said


@pytest.mark.parametrize("example", [
    [1.0], "a", None, mjax.typeof(faults.X), mjax.ShapeDtypeStruct((3,), "float32")])
def test_examples_are_operands(example):
    with pytest.raises(TypeError, match="check_primitive: example 1 must be an array"):
        check_primitive(RIGHT, faults.X, example)
