"""Schemas: what they hold, which params they refuse, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, NotRequired, Protocol, Tuple  # noqa: UP035

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.schema import Schema, is_of, schema_of, type_text
from mjax.errors import JaxprTypeError
from mjax_ext import core
from mjax_ext.interpreters import ad, batching

Jaxpr = core.Jaxpr
X = np.ones(3, np.float32)
BODY = mjax.make_jaxpr(lax.sin)(X)
PROTOCOL = type("Proto", (Protocol,), {})

TYPES = [
    # type, its text, values of it, values of others
    (int, "int", [1, np.int32(1), True], ["1", 1.0, None]),
    (float, "float", [1.0, 1, np.float32(1)], ["1", 1j, None]),
    (complex, "complex", [1j, 1.0, 1, np.complex64(1)], ["1"]),
    (bool, "bool", [True, np.bool_(False)], [1, "True"]),
    (str, "str", ["a"], [1]),
    (None, "None", [None], [0]),
    (int | None, "int | None", [1, None], ["a"]),
    (tuple[int, ...], "tuple[int, ...]", [(), (1, 2)], [[1], (1, "a"), 1]),
    (tuple[int, str], "tuple[int, str]", [(1, "a")], [(1,), ("a", 1)]),
    (tuple[tuple[int, int], ...], "tuple[tuple[int, int], ...]", [((1, 2),)], [(1, 2)]),
    (frozenset[str], "frozenset[str]", [frozenset("ab")], [frozenset([1]), {"a"}]),
    (Literal["a", "b"], "Literal['a', 'b']", ["a"], ["c", X]),
    (Literal[1], "Literal[1]", [1], [True, 1.0, X]),
    (Callable[..., Any], "Callable", [print], [1]),
    (np.dtype, "dtype", [np.dtype("float32")], ["float32"]),
    (Jaxpr, "Jaxpr", [BODY], [None]),
    (tuple[Jaxpr | None, ...], "tuple[Jaxpr | None, ...]", [(BODY, None)], [BODY]),
    (dict[str, int], "dict", [{}], [()]),
    (Any, "Any", [1, None, print], []),
]


@pytest.mark.parametrize("row", TYPES, ids=lambda row: row[1])
def test_types(row):
    kind, text, good, bad = row
    assert type_text(kind) == text
    for value in good:
        assert is_of(value, kind), value
    for value in bad:
        assert not is_of(value, kind), value


def test_a_symbolic_size_is_an_int():
    size, = mjax.export.symbolic_shape("n")
    assert is_of((size, 3), tuple[int, ...])


def test_record():
    schema = schema_of({"axis": int, "body": Jaxpr, "rest": tuple[Jaxpr, ...],
                        "tolerance": NotRequired[float]})
    assert schema.params == {"axis": int, "body": Jaxpr, "rest": tuple[Jaxpr, ...],
                             "tolerance": float}
    assert schema.required == {"axis", "body", "rest"}
    assert schema.bodies == ("body", "rest")
    assert str(schema) == ("axis: int, body: Jaxpr, rest: tuple[Jaxpr, ...], "
                           "tolerance: float (may be absent)")
    params = {"axis": 0, "body": BODY, "rest": (BODY, BODY)}
    assert list(schema.jaxprs(params)) == [("body", BODY), ("rest", BODY), ("rest", BODY)]
    assert schema.admits(params) and schema.admits(params | {"tolerance": 1.0})
    assert not schema.admits({"axis": 0}) and not schema.admits(params | {"axes": 1})
    assert str(schema_of({})) == "no params"
    assert schema_of(schema) is schema


def test_examples_may_be_made_later():
    rows = [((X,), {"axis": 0})]
    assert schema_of({"axis": int}, rows).applications() == rows
    assert schema_of({"axis": int}, lambda: rows).applications() == rows
    assert schema_of({"axis": int}).applications() == []


@pytest.mark.parametrize(("params", "text"), [
    ({"axis": 3}, "type of param 'axis' is 3"), ({"axis": "int"}, "'int'; it must be a class"),
    ({1: int}, "name of a param is a text"), ([], r"params is \[\]; it must be a dict"),
    ({"axis": PROTOCOL}, "'axis' is .*Proto.*, which does not tell values"),
    ({"axis": NotRequired[int | PROTOCOL]}, "'axis' is .*Proto.*, which does not tell values"),
    ({"axis": tuple[PROTOCOL, ...]}, "'axis' is .*Proto.*, which does not tell values"),
    ({"axis": Annotated[int, "size"]}, "'axis' is .*Annotated.*; it must be a class"),
    ({"axis": Final[int]}, "'axis' is .*Final.*; it must be a class"),
    ({"axis": Tuple}, "'axis' is typing.Tuple; it must be a class"),  # noqa: UP006
    ({"axis": int | NotRequired[str]}, r"'axis' is typing.NotRequired\[str\], in .*; it must")])
def test_what_is_not_a_schema(params, text):
    with pytest.raises(TypeError, match=text):
        core.Primitive("p", params=params)


def shift_p(**rules):
    p = core.Primitive("shift", params={"by": int, "wrap": NotRequired[bool]})
    p.def_impl(rules.get("impl", lambda x, *, by, wrap=False: np.roll(x, by)))
    if "abstract_eval" not in rules:
        p.def_abstract_eval(lambda x, *, by, wrap=False: x)
    ad.primitive_jvps[p] = lambda primals, tangents, **params: (
        p.bind(*primals, **params), p.bind(*tangents, **params))
    batching.primitive_batchers[p] = lambda args, dims, *, by, wrap=False: (
        p.bind(*args, by=by), dims[0])
    return p


USES = {
    "evaluation": lambda f: f(X), "make_jaxpr": lambda f: mjax.make_jaxpr(f)(X),
    "jvp": lambda f: mjax.jvp(f, (X,), (X,)), "vmap": lambda f: mjax.vmap(f)(X),
    "builder": lambda f: core.JaxprBuilder().apply(f.__self__, X)}


@pytest.mark.parametrize("use", [use for use in USES if use != "builder"])
@pytest.mark.parametrize("typed", [True, False])
def test_bind_refuses_other_params_by_name(use, typed):
    p = shift_p(**{} if typed else {"abstract_eval": None})
    if not typed and use == "make_jaxpr":
        return  # refused anyway
    with pytest.raises(TypeError, match=(
            r"(?s)primitive 'shift' was bound with the params \(bye\), but its schema has "
            r"\(by: int, wrap: bool \(may be absent\)\): 'bye' is unknown, 'by' is missing "
            r"\(did you mean 'by'\?\).*test_schema.py")):
        USES[use](lambda x: p.bind(x, bye=1))
    with pytest.raises(TypeError, match="'by' is missing"):
        USES[use](p.bind)
    USES[use](lambda x: p.bind(x, by=1))
    USES[use](lambda x: p.bind(x, by=1, wrap=True))


def test_the_builder_refuses_other_params():
    with pytest.raises(TypeError, match="'by' is missing"):
        core.JaxprBuilder().apply(shift_p(), X)


def test_a_schema_may_be_declared_later():
    p = core.Primitive("late")
    p.def_impl(lambda x, **params: x)
    assert p.schema is None
    assert p.bind(X, any_thing=1) is X
    schema = p.def_schema({"axis": int})
    assert p.schema is schema and isinstance(schema, Schema)
    with pytest.raises(TypeError, match="'any_thing' is unknown, 'axis' is missing"):
        p.bind(X, any_thing=1)


def rewritten(primitive, **params):
    """A jaxpr of one equation with these params."""
    x = core.Var(mjax.typeof(X))
    y = core.Var(mjax.typeof(X))
    return core.Jaxpr([], [x], [y], [core.new_jaxpr_eqn([x], [y], primitive, params)])


@pytest.mark.parametrize(("params", "text"), [
    ({"by": 1}, None),
    ({"by": "one"}, "param 'by' is 'one' of type str, where the schema says int"),
    ({}, "'by' is missing: the params of shift are"),
    ({"by": 1, "wrap": 1}, "param 'wrap' is 1 of type int, where the schema says bool"),
    ({"by": 1, "body": BODY}, "'body' is unknown")])
def test_check_jaxpr_reads_the_schema(params, text):
    jaxpr = rewritten(shift_p(), **params)
    if text is None:
        core.check_jaxpr(jaxpr)
    else:
        with pytest.raises(JaxprTypeError, match=text):
            core.check_jaxpr(jaxpr)


def test_check_jaxpr_refuses_undeclared_bodies():
    p = core.Primitive("apply", params={"program": Any})
    p.def_abstract_eval(lambda x, *, program: x)
    with pytest.raises(JaxprTypeError, match="param 'program' holds a jaxpr, so Jaxpr must be"):
        core.check_jaxpr(rewritten(p, program=BODY))


def test_the_printer_shows_bodies_as_the_schema_says():
    p = core.Primitive("apply", params={"program": Jaxpr, "name": str})
    p.def_abstract_eval(lambda x, *, program, name: x)
    assert str(rewritten(p, program=BODY, name="f")).splitlines()[1:6] == [
        "    b:f32[3] = apply[", "      name=f", "      program={ lambda  ; c:f32[3]. let",
        "            d:f32[3] = sin c", "          in (d,) }"]


def test_params_are_a_mapping():
    with pytest.raises(TypeError, match=r"params is 'axis'; it must be a dict from names"):
        core.Primitive("of text", params="axis")
