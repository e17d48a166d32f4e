"""How rules of primitives are registered, and what `rules()` says of them."""

from __future__ import annotations

import ast
import copy
import pathlib
from typing import ClassVar

import numpy as np
import pytest

import mjax
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import _RULES, EnginePrimitive, Primitive
from mjax_ext import v1
from mjax_ext.core import Frame, primitives
from mjax_ext.core.primitives import (
    add_p,
    closed_call_p,
    cond_p,
    neg_p,
    scan_p,
    sub_p,
    while_p,
)
from mjax_ext.interpreters import ad, batching, mlir

ROOT = pathlib.Path(mjax.__file__).parents[1]


@pytest.mark.parametrize(("primitive", "rule"), [
    (add_p, "jvp"), (sub_p, "jvp"), (add_p, "transpose"), (neg_p, "transpose"),
    (while_p, "linearize"), (cond_p, "batch")])
def test_rules_that_somebody_wrote_are_shown_as_such(primitive, rule):
    assert primitive.rules()[rule].partition(":")[0].endswith(".py")


@pytest.mark.parametrize(("primitive", "rule"), [
    (neg_p, "jvp"), (add_p, "batch"), (scan_p, "jvp"), (cond_p, "jvp")])
def test_rules_of_helpers_are_shown_as_derived(primitive, rule):
    assert primitive.rules()[rule].startswith("derived at ")


def test_a_written_rule_replaces_a_derived_one():
    p = Primitive("p")
    ad.deflinear2(p, lambda ct, x: [ct])
    batching.defvectorized(p)
    assert p.rules()["jvp"].startswith("derived at ")
    assert p.rules()["batch"].startswith("derived at ")
    p.def_jvp(lambda primals, tangents: (primals[0], tangents[0]))
    assert not p.rules()["jvp"].startswith("derived")


@pytest.mark.parametrize("field", [f for f in _RULES if hasattr(Primitive, f"def_{f}")])
def test_each_rule_is_set_by_a_method(field):
    p = Primitive("p")
    p.derived.add(field)
    rule = lambda *args: None
    assert getattr(p, f"def_{field}")(rule) is rule
    assert getattr(getattr(p, field), "__wrapped__", getattr(p, field)) is rule
    assert field not in p.derived


def test_an_assigned_rule_is_defined():
    """Programs made of the old one are forgotten, and it counts as written."""
    p = Primitive("p")
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: x)
    p.define("jvp", lambda primals, tangents: (p.bind(*primals), tangents[0]), derived=True)
    f = lambda x: mjax.jit(lambda x: mjax.jvp(p.bind, (x,), (x,))[1])(x)
    p.def_lowering(lambda ctx, x: [x])
    assert f(np.float32(3.0)) == 3.0
    p.jvp = lambda primals, tangents: (p.bind(*primals), tangents[0] + tangents[0])
    assert f(np.float32(3.0)) == 6.0
    assert not p.rules()["jvp"].startswith("derived")


class _Assignments(ast.NodeVisitor):
    """Assignments of rules to primitives, by name."""

    names: ClassVar = {*_RULES, "derived", "lowerings"}

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if (isinstance(node.ctx, ast.Store) and node.attr in self.names
                and (owner.endswith("_p") or owner in ("p", "primitive", "prim"))):
            self.found.append(f"{owner}.{node.attr} on line {node.lineno}")


def test_the_walk_finds_assignments():
    walk = _Assignments()
    walk.visit(ast.parse("add_p.jvp = f\nprimitive.batch, x = 1, 2\nself.jvp = f\nadd_p.jvp(x)"))
    assert walk.found == ["add_p.jvp on line 1", "primitive.batch on line 2"]


@pytest.mark.parametrize("folder", [
    *sorted(f"mjax/_engine/{d.name}" for d in (ROOT / "mjax" / "_engine").iterdir() if d.is_dir()),
    "mjax/_numpy", "mjax/_scipy", "mjax_ext", "examples", "benchmarks"])
def test_rules_have_one_spelling(folder):
    for file in sorted((ROOT / folder).rglob("*.py")):
        walk = _Assignments()
        walk.visit(ast.parse(file.read_text()))
        assert not walk.found, f"{file}: use def_...: {', '.join(walk.found)}"


def test_the_engines_primitives_say_so():
    assert not [p for name, p in vars(primitives).items() if name.endswith("_p") and not p.own]


def test_rules_of_others_are_told_from_the_engines():
    assert all(p.own and not p.foreign for p in (add_p, scan_p, closed_call_p))
    p = Primitive("p", multiple_results=True)
    p.def_transpose(neg_p.transpose)
    p.def_lowering(traced(lambda x: x), "cpu")
    assert not p.own and p.foreign == {"transpose", ("lowering", "cpu")}
    Frame(p)  # the kit's rules, on whichever primitive
    assert p.foreign == {("lowering", "cpu")}
    own = EnginePrimitive("own")
    own.def_transpose(neg_p.transpose)
    assert not own.foreign and not own.compared
    own.def_abstract_eval(lambda x: x)  # a function of a module that is not the engine's
    assert own.foreign == {"abstract_eval"} and own.compared
    mjax.make_jaxpr(own.bind)(1.0)
    own.def_transpose(neg_p.transpose)  # somebody else's: it was complete when it was applied
    assert own.foreign == {"abstract_eval", "transpose"}
    own.undefine("transpose")
    assert own.compared
    own.undefine("abstract_eval")
    assert not own.compared


@pytest.mark.parametrize("base", [Primitive, v1.core.Primitive])
def test_a_subclass_may_say_that_there_are_many_results(base):
    class Pairs(base):
        multiple_results = True

    pair_p = Pairs("pair")
    assert pair_p.multiple_results is True
    assert base("one").multiple_results is False and base("many", multiple_results=True
                                                          ).multiple_results is True
    pair_p.def_abstract_eval(lambda x: [x, x])
    mlir.register_lowering(pair_p, mlir.lower_fun(lambda x: [x, x + 1], multiple_results=True))
    assert [float(y) for y in mjax.jit(pair_p.bind)(np.float32(3))] == [3.0, 4.0]


def test_copies_of_a_primitive_are_itself():
    for primitive in (add_p, v1.core.Primitive("copied")):
        assert copy.copy(primitive) is primitive
        assert copy.deepcopy([primitive]) == [primitive]
