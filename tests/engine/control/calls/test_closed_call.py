"""Calls of jaxprs: `closed_call`, inlining, and evaluation of jaxprs under every interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.tracing.stage import stage
from mjax.errors import JaxprTypeError
from mjax_ext import core
from mjax_ext.core.primitives import closed_call_p, jit_p
from mjax_ext.interpreters import partial_eval
from tests.engine.transforms.programs import PROGRAMS, X, Y, close, evaluate, staged


def called(jaxpr):
    return lambda *xs: closed_call_p.bind(*xs, call_jaxpr=jaxpr)


#: How a jaxpr is made a function.
FUNCTIONS = {
    "eval_jaxpr": lambda jaxpr: lambda *xs: core.eval_jaxpr(jaxpr, jaxpr.consts, *xs),
    "jaxpr_as_fun": core.jaxpr_as_fun,
    "closed_call": lambda jaxpr: called(jaxpr),
    "closed_call twice": lambda jaxpr: called(stage(called(jaxpr), jaxpr.in_avals)),
    "inlined": lambda jaxpr: core.jaxpr_as_fun(core.inline_calls(jaxpr)),
}


def floats(f):
    """The float results of a function, as a sum that tells them apart."""
    def total(*xs):
        parts = [lax.mul(np.float32(i + 1), lax.reduce_sum(lax.sin(lax.convert_element_type(
            out, np.float32)), tuple(range(np.ndim(out)))))
            for i, out in enumerate(f(*xs)) if mjax.typeof(out).inexact]
        return sum(parts[1:], parts[0])

    return total


def inexact(xs):
    return tuple(i for i, x in enumerate(xs) if x.dtype.kind == "f")


def tangents(xs):
    return [x * 0.5 + 1 if x.dtype.kind == "f" else np.zeros(x.shape, mjax.dtypes.float0)
            for x in xs]


#: Transformations: of a function and arguments, the results.
WAYS = {
    "evaluation": lambda f, xs: f(*xs),
    "jit": lambda f, xs: mjax.jit(f)(*xs),
    "disable_jit": lambda f, xs: without_jit(f, xs),
    "jvp": lambda f, xs: mjax.jvp(f, xs, tangents(xs)),
    "linearize": lambda f, xs: mjax.linearize(f, *xs)[1](*tangents(xs)),
    "grad": lambda f, xs: mjax.grad(floats(f), inexact(xs))(*xs),
    "jit of grad": lambda f, xs: mjax.jit(mjax.grad(floats(f), inexact(xs)))(*xs),
    "grad of jit": lambda f, xs: mjax.grad(mjax.jit(floats(f)), inexact(xs))(*xs),
    "jvp of grad": lambda f, xs: mjax.jvp(mjax.grad(floats(f), inexact(xs)), xs, tangents(xs)),
    "grad of grad": lambda f, xs: mjax.grad(floats(lambda *a: mjax.grad(
        floats(f), inexact(xs))(*a)), inexact(xs))(*xs),
    "vmap": lambda f, xs: mjax.vmap(f)(*[np.stack([x, x + x]) for x in xs]),
    "vmap of grad": lambda f, xs: mjax.vmap(mjax.grad(floats(f), inexact(xs)))(
        *[np.stack([x, x + x]) for x in xs]),
    "grad of vmap": lambda f, xs: mjax.grad(floats(mjax.vmap(f)), inexact(xs))(
        *[np.stack([x, x + x]) for x in xs]),
    "checkpoint": lambda f, xs: mjax.grad(floats(mjax.checkpoint(f)), inexact(xs))(*xs),
}


def without_jit(f, xs):
    with mjax.disable_jit():
        return f(*xs)


OFTEN = ("evaluation", "jit", "grad", "vmap")


@pytest.mark.parametrize("way", [
    way if way in OFTEN else pytest.param(way, marks=pytest.mark.slow) for way in WAYS])
@pytest.mark.parametrize("made", FUNCTIONS)
def test_jaxprs_as_functions_under_every_transformation(made, way):
    for name in ("passing", "integers", "nested"):
        jaxpr, inputs = staged(name)
        expected = WAYS[way](lambda *xs: PROGRAMS[name][0](*xs), inputs)  # noqa: B023
        found = WAYS[way](FUNCTIONS[made](jaxpr), inputs)
        leaves, tree = mjax.tree_util.tree_flatten(expected)
        others, same = mjax.tree_util.tree_flatten(found)
        assert tree == same
        for a, b in zip(others, leaves, strict=True):
            assert mjax.typeof(a).dtype == mjax.typeof(b).dtype
            if mjax.typeof(a).dtype == mjax.dtypes.float0:
                continue
            np.testing.assert_allclose(np.asarray(a, "f8"), np.asarray(b, "f8"), 2e-5, 2e-5)


# ---- closed_call -----------------------------------------------------------------------

JAXPR = mjax.make_jaxpr(lambda x, y: (lax.mul(lax.sin(x), y), lax.cos(y)))(X, Y)


def test_a_call_stays_a_call():
    def f(x, y):
        return closed_call_p.bind(x, y, call_jaxpr=JAXPR)

    for g, args in ((f, (X, Y)), (mjax.vmap(f), (np.stack([X, X]), np.stack([Y, Y]))),
                    (lambda x, y: mjax.jvp(f, (x, y), (y, x)), (X, Y)),
                    (mjax.grad(floats(f)), (X, Y))):
        names = [eqn.primitive for eqn in mjax.make_jaxpr(g)(*args).eqns]
        assert closed_call_p in names and jit_p not in names
    text = mjax.jit(f).lower(X, Y).as_text()
    assert "call @closed_call(" in text and "func.func private @closed_call(" in text


def test_evaluation_of_a_call_is_operation_by_operation():
    ran = []
    p = core.Primitive("seen")
    p.def_abstract_eval(lambda x: x)
    p.def_impl(lambda x: ran.append(1) or x)
    (out,) = closed_call_p.bind(X, call_jaxpr=mjax.make_jaxpr(p.bind)(X))
    assert ran == [1] and out is X


def test_operands_of_other_types_are_refused():
    jaxpr = mjax.make_jaxpr(lambda x: closed_call_p.bind(x, x, call_jaxpr=JAXPR))
    with pytest.raises(JaxprTypeError, match=r"closed_call of a program that takes float32\[2\], "):
        jaxpr(np.ones(3, np.float32))


def test_dead_code_in_calls():
    def f(x, y):
        return closed_call_p.bind(x, y, call_jaxpr=JAXPR)[1]

    jaxpr, used = partial_eval.dce_jaxpr(mjax.make_jaxpr(f)(X, Y), [True])
    assert used == [False, True]
    (inner,) = [eqn.params["call_jaxpr"] for eqn in jaxpr.eqns]
    assert [eqn.primitive.name for eqn in inner.eqns] == ["cos"]
    close(evaluate(jaxpr, Y), [np.cos(Y)])


def test_dead_code_keeps_what_is_asked_for():
    """The signature of jax.interpreters.partial_eval.dce_jaxpr: instantiate keeps inputs."""
    jaxpr = mjax.make_jaxpr(lambda x, y: (lax.sin(x), y))(X, Y)
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [True, False])
    assert used == [True, False] and len(smaller.invars) == 1
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [True, False], True)
    assert used == [True, True] and len(smaller.invars) == 2
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [False, False], instantiate=[False, True])
    assert used == [False, True] and not smaller.eqns and len(smaller.invars) == 1


# ---- inlining --------------------------------------------------------------------------


def primitives(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


@pytest.mark.parametrize("name", PROGRAMS)
def test_inlined_programs(name):
    jaxpr, inputs = staged(name)
    inlined = core.inline_calls(jaxpr)
    check_jaxpr(inlined)
    assert not {"jit", "closed_call"} & set(primitives(inlined))
    assert inlined.in_avals == jaxpr.in_avals and inlined.out_avals == jaxpr.out_avals
    close(evaluate(inlined, *inputs), evaluate(jaxpr, *inputs))


def test_a_program_called_twice_is_there_twice_and_its_constants_once():
    big = mjax.device_put(np.arange(2, dtype=np.float32))
    f = mjax.jit(lambda x: lax.add(lax.sin(x), big))
    jaxpr = mjax.make_jaxpr(lambda x: lax.mul(f(f(x)), big))(X)
    inlined = core.inline_calls(jaxpr)
    assert primitives(inlined) == ["sin", "add", "sin", "add", "mul"]
    assert len(inlined.consts) == 1 and inlined.consts[0] is big
    close(evaluate(inlined, X), evaluate(jaxpr, X))


def test_calls_inside_of_loops_stay():
    f = mjax.jit(lax.sin)
    jaxpr = mjax.make_jaxpr(lambda x: lax.fori_loop(0, 3, lambda i, y: f(y), f(x)))(X)
    inlined = core.inline_calls(jaxpr)
    assert primitives(inlined)[0] == "sin"
    bodies = [body for eqn in inlined.eqns for body in core.jaxprs_in_params(eqn.params)]
    assert any("jit" in primitives(body) for body in bodies)


def test_which_calls_are_replaced():
    @mjax.jit
    def keep(x):
        return lax.cos(lose(x))

    @mjax.jit
    def lose(x):
        return lax.sin(x)

    jaxpr = mjax.make_jaxpr(lambda x: lose(keep(x)))(X)
    inlined = core.inline_calls(jaxpr, lambda eqn: eqn.params["name"] == "lose")
    assert primitives(inlined) == ["jit", "sin"]
    assert primitives(inlined.eqns[0].params["jaxpr"]) == ["jit", "cos"]
    placed = mjax.jit(lax.sin, compiler_options={"xla_cpu_enable_fast_math": True})
    jaxpr = mjax.make_jaxpr(placed)(X)
    assert primitives(core.inline_calls(jaxpr)) == ["jit"]
    assert primitives(core.inline_calls(jaxpr, lambda eqn: True)) == ["sin"]


def test_names_and_lines_of_inlined_equations():
    @mjax.jit
    def f(x):
        with mjax.named_scope("inner"):
            return lax.sin(x)

    def g(x):
        with mjax.named_scope("outer"):
            return lax.cos(f(x))

    inlined = core.inline_calls(mjax.make_jaxpr(g)(X))
    assert [eqn.source_info.name_stack for eqn in inlined.eqns] == [("outer", "inner"), ("outer",)]
    assert "test_closed_call.py:" in inlined.pretty_print(source_info=True).splitlines()[1]


def test_inlining_while_tracing():
    f = mjax.jit(lambda x: lax.mul(lax.sin(x), 2.0), inline=True)
    assert primitives(mjax.make_jaxpr(lambda x: f(f(x)))(X)) == ["sin", "mul"] * 2
    close([mjax.jit(lambda x: f(f(x)))(X)], [2 * np.sin(2 * np.sin(X))])
