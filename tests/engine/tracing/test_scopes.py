"""Names of scopes: in equations, in locations, in the metadata of compiled programs."""

import re
import threading

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base.thread import thread
from mjax._engine.ir.source import user_frame

X = np.ones(3, np.float32)
XX = np.ones((2, 3), np.float32)


def f(x):
    with mjax.named_scope("a"):
        y = lax.sin(x)
        with mjax.named_scope("b"):
            return lax.mul(y, x)


def total(g):
    return lambda x: lax.reduce_sum(g(x), tuple(range(np.ndim(x))))


def inside(g, name="o"):
    def named(x):
        with mjax.named_scope(name):
            return g(x)

    return named


@mjax.jit
def inner(x):
    with mjax.named_scope("in"):
        return lax.sin(x)


def names(g, *args):
    """Names and primitive of each equation that has names."""
    return ["/".join(eqn.source_info.name_stack) + ":" + eqn.primitive.name
            for eqn in mjax.make_jaxpr(g)(*args).eqns if eqn.source_info.name_stack]


def locations(g, *args):
    """The names in the locations of the StableHLO module."""
    text = mjax.jit(g).lower(*args).as_text(debug_info=True)
    return set(re.findall(r'loc\("([^"]*)"\(', text))


def doubled(g):
    return lambda x: mjax.jvp(g, (x,), (x,))


#: Marks of transformations in names, as in jax 0.10.2.
WRAPPED = {
    "nothing": (f, X, ["a:sin", "a/b:mul"]),
    "jvp": (doubled(f), X, ["jvp(a):sin", "jvp(a):cos", "jvp(a):mul", *["jvp(a)/b:mul"] * 3,
                            "jvp(a)/b:add_any"]),
    "linearize": (lambda x: mjax.linearize(f, x)[1](x), X, [
        "jvp(a):sin", "jvp(a):cos", "jvp(a)/b:mul", "jvp(a):mul", *["jvp(a)/b:mul"] * 2,
        "jvp(a)/b:add_any"]),
    "vjp": (lambda x: mjax.vjp(f, x)[1](x), X, [
        "jvp(a):sin", "jvp(a):cos", "jvp(a)/b:mul", *["transpose(jvp(a))/b:mul"] * 2,
        "transpose(jvp(a)):mul", "transpose(jvp(a)):add_any"]),
    "vmap": (mjax.vmap(f), XX, ["vmap(a):sin", "vmap(a)/b:mul"]),
    "jvp of vmap": (doubled(mjax.vmap(lambda x: lax.mul(f(x), 2.0))), XX, [
        "jvp(vmap(a)):sin", "jvp(vmap(a)):cos", "jvp(vmap(a)):mul", *["jvp(vmap(a))/b:mul"] * 3,
        "jvp(vmap(a))/b:add_any"]),
    "vmap of jvp": (mjax.vmap(doubled(f)), XX, [
        "vmap(jvp(a)):sin", "vmap(jvp(a)):cos", "vmap(jvp(a)):mul", *["vmap(jvp(a))/b:mul"] * 3,
        "vmap(jvp(a))/b:add_any"]),
    "inside of another scope": (inside(mjax.vmap(f)), XX, ["o/vmap(a):sin", "o/vmap(a)/b:mul"]),
    "vjp inside of another scope": (inside(lambda x: mjax.vjp(f, x)[1](x)), X, [
        "o/jvp(a):sin", "o/jvp(a):cos", "o/jvp(a)/b:mul", *["o/transpose(jvp(a))/b:mul"] * 2,
        "o/transpose(jvp(a)):mul", "o/transpose(jvp(a)):add_any"]),
    "linear_transpose": (
        inside(lambda x: mjax.linear_transpose(lambda y: lax.mul(y, 2.0), x)(x)), X,
        ["o/transpose():mul"]),
    "an inlined program": (inside(mjax.jit(f, inline=True)), X, ["o/a:sin", "o/a/b:mul"]),
    "an inlined program under vmap": (inside(mjax.vmap(mjax.jit(f, inline=True))), XX,
                                      ["o/vmap(a):sin", "o/vmap(a)/b:mul"]),
    "named_call": (mjax.named_call(lax.sin), X, ["sin:sin"]),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_names_of_equations(name):
    g, x, expected = WRAPPED[name]
    assert names(g, x) == expected
    assert thread.source is None


def test_names_of_second_derivatives():
    """The transpose of the inner gradient is seen inside of the outer derivative."""
    found = set(names(mjax.grad(total(mjax.grad(total(f)))), X))
    assert found == {
        "jvp(jvp(a)):sin", "jvp(jvp(a)):cos", "jvp(jvp(a))/b:mul",
        "jvp(transpose(jvp(a)))/b:mul", "jvp(transpose(jvp(a))):mul",
        "jvp(transpose(jvp(a))):add_any", "transpose(jvp(transpose(jvp(a)))):mul",
        "transpose(jvp(transpose(jvp(a))))/b:mul", "transpose(jvp(jvp(a))):neg",
        "transpose(jvp(jvp(a))):mul", "transpose(jvp(jvp(a))):add_any"}


@pytest.mark.parametrize(("g", "x", "expected"), [
    (f, X, {"jit(f)/a/sin", "jit(f)/a/b/mul"}),
    (lax.sin, X, {"jit(sin)/sin"}),
    (mjax.grad(total(f)), X, {"jit(<lambda>)/jvp(a)/sin", "jit(<lambda>)/jvp(a)/cos",
                              "jit(<lambda>)/transpose(jvp(a))/b/mul"}),
    (mjax.vmap(mjax.grad(total(f))), XX, {"jit(<lambda>)/vmap(jvp(a))/cos",
                                          "jit(<lambda>)/vmap(transpose(jvp(a)))/add_any"}),
])
def test_names_in_locations(g, x, expected):
    assert expected <= locations(g, x)


@pytest.mark.parametrize(("g", "x", "expected"), [
    (inside(inner), X, {"jit(named)/o/jit(inner)"}),
    (inside(mjax.grad(total(inner))), X, {"jit(named)/o/jvp(jit(inner))",
                                          "jit(named)/o/transpose(jvp(jit(inner)))"}),
    (inside(mjax.vmap(inner)), XX, {"jit(named)/o/vmap(jit(inner))"}),
    (mjax.grad(total(mjax.vmap(inner))), XX, {"jit(<lambda>)/jvp(vmap(jit(inner)))"}),
])
def test_names_of_calls(g, x, expected):
    """A call's own name is wrapped. Names inside of the program it calls are relative to it; XLA
    puts the two together (in older jaxlibs it does not)."""
    found = locations(g, x)
    assert expected <= found
    assert any(name.startswith("in/") for name in found)


def test_names_in_compiled_programs():
    text = mjax.jit(f).lower(X).compile().as_text()
    found = set(re.findall('op_name="([^"]*)"', text))
    assert {"jit(f)/a/sin", "jit(f)/a/b/mul"} <= found


def test_a_program_traced_in_a_scope_does_not_have_its_name():
    g = mjax.jit(lambda x: f(x))
    outer = mjax.make_jaxpr(inside(g))(X)
    (eqn,) = outer.eqns
    assert eqn.source_info.name_stack == ("o",)
    stacks = [e.source_info.name_stack for e in eqn.params["jaxpr"].eqns]
    assert stacks == [("a",), ("a", "b")]
    (eqn,) = mjax.make_jaxpr(inside(g, "other"))(X).eqns
    assert [e.source_info.name_stack for e in eqn.params["jaxpr"].eqns] == stacks


def test_lines_are_kept_beside_names():
    jaxpr = mjax.make_jaxpr(mjax.grad(total(f)))(X)
    first = f.__code__.co_firstlineno
    lines = {eqn.source_info.name_stack[-1]: user_frame(eqn.source).line - first
             for eqn in jaxpr.eqns if eqn.source_info.name_stack}
    assert lines == {"jvp(a)": 2, "b": 4, "transpose(jvp(a))": 2}
    assert "test_scopes.py:" in jaxpr.pretty_print(source_info=True)


def test_equations_outside_of_scopes_hold_a_traceback_and_nothing_else():
    for eqn in mjax.make_jaxpr(mjax.grad(total(lambda x: lax.mul(lax.sin(x), x))))(X).eqns:
        assert not isinstance(eqn.source, tuple) and eqn.source_info.name_stack == ()


def test_as_a_decorator_and_around_errors():
    @mjax.named_scope("layer")
    def g(x):
        return lax.sin(x)

    assert g.__name__ == "g"
    assert names(g, X) == ["layer:sin"] == names(g, X)
    with pytest.raises(ZeroDivisionError), mjax.named_scope("a"), mjax.named_scope("b"):
        1 / 0  # noqa: B018
    assert thread.source is None


def test_scopes_belong_to_their_thread():
    found = []
    with mjax.named_scope("here"):
        thread = threading.Thread(target=lambda: found.append(names(lax.sin, X)))
        thread.start()
        thread.join()
    assert found == [[]]


def test_evaluation_and_errors_inside_of_scopes():
    with mjax.named_scope("a"):
        np.testing.assert_allclose(lax.sin(X), np.sin(X), 1e-6)
        np.testing.assert_allclose(mjax.grad(total(f))(X), np.sin(1) + np.cos(1), 1e-5)
        with pytest.raises(mjax.errors.MissingRuleError, match="test_scopes.py:"):
            mjax.jvp(lambda x: mjax_primitive().bind(x), (X,), (X,))


def mjax_primitive():
    from mjax_ext.core import Primitive

    p = Primitive("bare")
    p.def_impl(lambda x: x)
    return p


@pytest.mark.parametrize("call", [
    lambda: mjax.named_scope(3), lambda: mjax.named_scope(lax.sin),
    lambda: mjax.named_call(lax.sin, name=3)])
def test_names_that_are_no_strings(call):
    with pytest.raises(TypeError, match="named_scope: the name must be a string, got"):
        call()


def test_named_call_takes_a_function():
    with pytest.raises(TypeError, match="named_call expects a function, got 3"):
        mjax.named_call(3)
    assert mjax.named_call(f).__name__ == "f"
    assert names(mjax.named_call(lax.cos, name="wave"), X) == ["wave:cos"]


def test_errors_inside_of_scopes_name_the_line_of_the_call():
    """Texts are built when they are shown, elsewhere."""
    with mjax.named_scope("a"), pytest.raises(ValueError) as caught:
        mjax.jvp(lambda x: mjax.pure_callback(lambda x: x, x, x), (X,), (X,))
    line = test_errors_inside_of_scopes_name_the_line_of_the_call.__code__.co_firstlineno + 3
    assert f"test_scopes.py:{line}" in str(caught.value)
