"""Params of one form from those of another, by generated functions."""

from __future__ import annotations

from typing import NotRequired

import pytest

import mjax
from mjax._engine.base.folding import is_engine_file
from mjax._engine.ir.schema import schema_of
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive
from mjax._engine.tracing.registration import CALLS
from mjax_ext import source_info_util
from mjax_ext._generations.aliases import Alias
from mjax_ext._generations.translation import Translation

OLD = schema_of({"axis": int, "low": int, "high": int, "name": NotRequired[str], "fast": bool})
NEW = schema_of({"axis": int, "bounds": tuple[int, int], "name": NotRequired[str], "exact": bool})
GIVEN = {"axis": 1, "low": 2, "high": 3, "fast": True}
forth = Translation(OLD, NEW, {"bounds": "low, high", "exact": "opposite(fast)"},
                    {"opposite": lambda x: not x})
back = Translation(NEW, OLD, {"low": "bounds[0]", "high": "bounds[1]", "fast": "not exact"})


def test_params_are_translated():
    assert forth(GIVEN) == {"axis": 1, "bounds": (2, 3), "exact": False}
    assert forth(GIVEN | {"name": "f"})["name"] == "f" and back(forth(GIVEN)) == GIVEN
    with pytest.raises(TypeError, match="high"):
        forth({"axis": 1, "low": 2, "fast": True})


@pytest.mark.parametrize("field", ["jvp", "axis_batch", "transpose", "scope"])
def test_rules_are_translated(field):
    """Names of params may be those of other arguments: `axis` is both in batching rules."""
    def rule(*args, axis, bounds, exact, name="g"):
        return args, axis, bounds, exact, name

    args = [10, 20, 30][:len(CALLS[field].leading) + 2 * CALLS[field].operands]
    translated = forth.rule(rule, CALLS[field])
    assert translated(*args, **GIVEN) == ((*args,), 1, (2, 3), False, "g")
    assert translated(*args, **GIVEN, name="f")[-1] == "f"
    assert translated.__wrapped__ is rule and translated.__name__ == "rule"


def test_params_that_are_gone_are_ignored():
    old = schema_of({"size": int, "linear": bool, "hint": NotRequired[str]})
    drop = Translation(old, schema_of({"size": int}), {})
    assert drop({"size": 3, "linear": True}) == {"size": 3} == drop(
        {"size": 3, "linear": True, "hint": "h"})
    assert Translation(schema_of({"size": int}), old, {"linear": "False"})({"size": 3}) == {
        "size": 3, "linear": False}


@pytest.mark.parametrize(("old", "new", "made"), [
    ({"a": int}, {"b": int}, {}), ({"a": int}, {"a": int}, {"b": "a"}),
    ({"a": NotRequired[int]}, {"b": int}, {"b": "a"}),
    ({"a": NotRequired[int]}, {"a": int}, {})])
def test_changes_that_cannot_be_made_are_refused(old, new, made):
    with pytest.raises(TypeError, match=r"[ab] cannot be made. Give an expression"):
        Translation(schema_of(old), schema_of(new), made)


def made(name, cls=EnginePrimitive):
    """A primitive of the engine, and its alias."""
    p = cls(name, params={"bounds": tuple[int, int], "name": NotRequired[str]})
    p.def_abstract_eval(lambda x, *, bounds, name="": x)
    old = schema_of({"low": int, "high": int, "name": NotRequired[str]})
    return p, Alias(p, old, {"bounds": "low, high"}, {"low": "bounds[0]", "high": "bounds[1]"}, {},
                    before="v2")


@pytest.mark.parametrize("cls", [EnginePrimitive, Primitive])
def test_applications_are_of_users_lines(cls):
    p, alias = made(f"alias_line_{cls.__name__}", cls)
    eqn, = mjax.make_jaxpr(lambda x: alias.bind(x, low=1, high=2, name="f"))(1.0).eqns
    assert eqn.primitive is p and eqn.params == {"bounds": (1, 2), "name": "f"}
    assert "test_translation.py" in source_info_util.summarize(eqn.source_info)
    for wrong, text in (({"low": 1}, "'high' is missing"),
                        ({"bounds": (1, 2)}, "'bounds' is unknown"),
                        ({"low": 1, "high": 2, "nom": 3}, "'nom' is unknown")):
        with pytest.raises(TypeError, match=text):
            mjax.make_jaxpr(lambda x, wrong=wrong: alias.bind(x, **wrong))(1.0)
    with pytest.raises(TypeError, match="alias_line.*'text'"):
        alias.bind("text", low=1, high=2)
    assert is_engine_file(alias.bind.__code__.co_filename)


def test_those_who_watch_applications_see_those_of_aliases(monkeypatch):
    """As the checker's pytest plugin does."""
    p, alias = made("alias_watched")
    seen, bind = [], Primitive.bind
    monkeypatch.setattr(Primitive, "bind", lambda self, *args, **params: (
        seen.append((self, params)), bind(self, *args, **params))[1])
    mjax.make_jaxpr(lambda x: alias.bind(x, low=1, high=2))(1.0)
    assert seen == [(p, {"bounds": (1, 2)})]
