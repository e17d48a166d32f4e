"""Calls taken apart: static argument numbers, negative ones above all."""

import numpy as np
import pytest

import mjax
from mjax._engine.tracing.interpreter import Tracer


def kinds(call, *, static):
    """The arguments of `(x, *args)` that are Python values while the function is traced."""
    seen = []

    def f(x, *args):
        seen.append([isinstance(a, Tracer) for a in (x, *args)])
        return x

    g = mjax.jit(f, static_argnums=static)
    g(*call)
    g(*call)
    assert len(seen) == 1
    return [not traced for traced in seen[0]]


@pytest.mark.parametrize(("static", "call", "expected"), [
    (-1, (1.0, 2, 3), [False, False, True]),
    (-2, (1.0, 2, 3), [False, True, False]),
    ((-1, 0), (1.0, 2, 3), [True, False, True]),
    ((1, -1), (1.0, 2), [False, True]),
    (-1, (1.0,), [True]),
    (2, (1.0, 2, 3), [False, False, True]),
    (5, (1.0, 2, 3), [False, False, False]),
])
def test_functions_of_any_number_of_arguments(static, call, expected):
    assert kinds(call, static=static) == expected


def test_each_value_from_the_end_is_compiled_for():
    traces = []

    def f(x, *args):
        traces.append(args)
        return x * args[-1]

    g = mjax.jit(f, static_argnums=-1)
    assert [float(g(2.0, 3)), float(g(2.0, 4)), float(g(2.0, 3)), float(g(2.0, 1.0, 3))] == [
        6, 8, 6, 6]
    assert len(traces) == 3
    assert float(mjax.grad(lambda x: g(x, 5))(1.0)) == 5.0
    np.testing.assert_array_equal(g.lower(2.0, 3).compile()(2.0), 6.0)


def test_numbers_that_a_call_has_not():
    g = mjax.jit(lambda *args: args[0], static_argnums=-3)
    with pytest.raises(ValueError, match="static_argnums has -3, but <lambda> was called with 1"):
        g(1.0)
    with pytest.raises(ValueError, match="donate_argnums has -2, but <lambda> was called with 1"):
        mjax.jit(lambda *args: args[0] + 1.0, donate_argnums=-2)(1.0)
    with pytest.raises(ValueError, match="static_argnums has -3, but f takes 2"):
        def f(x, y):
            return x
        mjax.jit(f, static_argnums=-3)


def test_negative_numbers_of_functions_with_a_fixed_signature():
    """They count from the last parameter, whether or not it is given."""
    def f(x, n=3):
        return x * n if isinstance(n, int) else None

    g = mjax.jit(f, static_argnums=-1)
    assert [float(v) for v in (g(2.0), g(2.0, 4), g(2.0, n=5), g(x=2.0, n=6))] == [6, 8, 10, 12]


@pytest.mark.parametrize("names", ["args", "kwargs", "p"])
def test_names_that_no_argument_can_be_given_by(names):
    def f(p, /, x, *args):
        return x

    with pytest.raises(ValueError, match=f"static_argnames has '{names}'.*given by name"):
        mjax.jit(f, static_argnames=names)
