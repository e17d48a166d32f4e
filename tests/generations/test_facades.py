"""Facades: classes of which v1 shows a listed part, in front of the engine's objects."""

from __future__ import annotations

import inspect

import pytest

import mjax
from mjax_ext import _manifest, core, v1
from mjax_ext._generations.facades import FACADES, PROMISED
from mjax_ext.interpreters import mlir

OBJECTS = {"core.Jaxpr": mjax.make_jaxpr(lambda x: x)(1.0), "core.Primitive": core.primitives.sin_p}


def facade_of(name):
    value = v1
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", FACADES)
def test_facades_show_the_listed_names(name):
    cls, listed = facade_of(name), FACADES[name]
    assert set(dir(cls)) == listed.attributes
    row = _manifest.of("v1")[name]
    assert {*row.shape["attributes"], *row.shape.get("methods", ())} <= listed.attributes
    hidden = {n for n in dir(cls._target) if not n.startswith("_")} - listed.attributes
    assert hidden  # else it need not be a facade
    for n in hidden:
        with pytest.raises(AttributeError, match=f"does not show {n!r}"):
            getattr(cls, n)


@pytest.mark.parametrize("name", PROMISED)
def test_promised_attributes_are_there(name):
    row = _manifest.of("v1")[name]
    assert {*row.shape.get("attributes", ()), *row.shape.get("methods", ())} == PROMISED[name]


@pytest.mark.parametrize("name", OBJECTS)
def test_instances_are_the_engines_own(name):
    cls, value = facade_of(name), OBJECTS[name]
    assert isinstance(value, cls) and not isinstance(1, cls)
    assert issubclass(type(value), cls) and issubclass(cls, cls) and not issubclass(int, cls)
    for attribute in FACADES[name].attributes:
        assert hasattr(value, attribute), attribute
    assert isinstance(value, int | cls)  # facades are classes to annotations
    match value:
        case cls():
            pass


def test_calls_take_the_listed_arguments():
    p = v1.core.Primitive("facade", multiple_results=True)
    assert type(p) is core.Primitive and p.multiple_results
    with pytest.raises(TypeError, match="structural"):
        v1.core.Primitive("facade", structural=True)
    assert str(inspect.signature(v1.core.Primitive)) == FACADES["core.Primitive"].signature
    with pytest.raises(TypeError, match="rules receive it"):
        v1.interpreters.mlir.LoweringRuleContext(None)


def test_subclasses_are_subclasses_of_the_engines_class():
    class Mine(v1.core.Primitive):
        def __init__(self, name, factor):
            super().__init__(name)
            self.factor = factor

    p = Mine("mine", 2)
    assert isinstance(p, core.Primitive) and issubclass(Mine, core.Primitive)
    assert isinstance(p, v1.core.Primitive) and p.factor == 2
    assert v1.core.Primitive.bind is core.Primitive.bind


def test_schemas_take_facades_for_programs():
    for kind in (v1.core.Jaxpr, tuple[v1.core.Jaxpr, ...], v1.core.Jaxpr | None):
        p = v1.core.Primitive("facade_in_schema", params={"body": kind, "n": int})
        assert p.schema.bodies == ("body",)
    body = OBJECTS["core.Jaxpr"]
    assert not p.schema.mistyped({"body": body, "n": 1}) and p.schema.mistyped({"body": 3, "n": 1})
    assert str(p.schema) == "body: Jaxpr | None, n: int"


def test_both_names_of_programs_stand_for_one_class():
    jaxpr = OBJECTS["core.Jaxpr"]
    assert isinstance(jaxpr, v1.core.ClosedJaxpr) and isinstance(jaxpr, v1.core.Jaxpr)
    assert type(v1.core.ClosedJaxpr(jaxpr, jaxpr.consts)) is type(jaxpr) is core.Jaxpr


def test_rules_receive_a_context_that_has_the_listed_names():
    seen = []
    p = v1.core.Primitive("facade_of_context")
    p.def_abstract_eval(lambda x: x)

    def rule(ctx, x):
        seen.append(ctx)
        assert isinstance(ctx, v1.interpreters.mlir.LoweringRuleContext)
        assert type(ctx) is mlir.LoweringRuleContext
        missing = [n for n in FACADES["interpreters.mlir.LoweringRuleContext"].attributes
                   if not hasattr(ctx, n)]
        assert not missing
        return [x]

    v1.interpreters.mlir.register_lowering(p, rule)
    mjax.jit(p.bind).lower(1.0)
    assert len(seen) == 1
