"""The price of a generation, in bytecodes: they are the same in each run, and seconds are not."""

from __future__ import annotations

import functools
import sys

import mjax
import mjax_ext
import mjax_ext.v1
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax_ext import core
from mjax_ext.interpreters import ad, batching
from tests.generations.fixture.generations import installed


def bytecodes(f):
    """How many instructions of Python a call executes, after one that fills the caches."""
    f()
    count, before = 0, sys.gettrace()

    def traced(frame, event, arg):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return traced

    sys.settrace(traced)
    try:
        f()
    finally:
        sys.settrace(before)
    return count


def traced(transform, bind, x):
    """A trace of many applications under a transformation."""
    f = lambda x: [x := bind(x) for _ in range(40)][-1]
    return functools.partial(mjax.make_jaxpr(lambda x: transform(f)(x)), x)


def derivative(f):
    return lambda x: mjax.jvp(f, (x,), (x,))


def ratio(transform, bind, than):
    x = mjax.numpy.ones(3)
    return bytecodes(traced(transform, bind, x)) / bytecodes(traced(transform, than, x))


def with_derivative(home, rules):
    p = home.Primitive("cost")
    p.def_abstract_eval(lambda x: x)
    rules[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))
    return p.bind


def test_a_rule_of_v1_costs_as_much_as_one_of_the_head():
    v1 = mjax_ext.v1
    assert ratio(derivative, with_derivative(v1.core, v1.interpreters.ad.primitive_jvps),
                 with_derivative(core, ad.primitive_jvps)) <= 1.02


def test_params_that_changed_cost_little():
    """A call more at each application and in each rule."""
    new = EnginePrimitive("costs_of_params", params={"sizes": tuple[int, int]})
    new.def_abstract_eval(lambda x, *, sizes: x)
    new.def_jvp(lambda primals, tangents, *, sizes: (
        new.bind(*primals, sizes=sizes), new.bind(*tangents, sizes=sizes)))
    with installed():
        old = mjax_ext.v1.core.primitives.window_p
        rule, old.jvp = old.jvp, lambda primals, tangents, *, before, after: (
            old.bind(*primals, before=before, after=after),
            old.bind(*tangents, before=before, after=after))
        found = ratio(derivative, lambda x: old.bind(x, before=1, after=2),
                      lambda x: new.bind(x, sizes=(1, 2)))
        old.jvp = rule
    assert found <= 1.1


def test_rules_that_are_called_otherwise_cost_little():
    def with_batches(register):
        p = core.Primitive("costs_of_calls")
        p.def_abstract_eval(lambda x: x)
        register(p)
        return p.bind

    def of_head(p):
        batching.fancy_primitive_batchers[p] = lambda axis, args, dims: (p.bind(*args), dims[0])

    def of_v1(p):
        mjax_ext.v1.interpreters.batching.primitive_batchers[p] = lambda args, dims: (
            p.bind(*args), dims[0])

    with installed():
        assert ratio(mjax.vmap, with_batches(of_v1), with_batches(of_head)) <= 1.03
