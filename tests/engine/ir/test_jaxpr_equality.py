"""Programs that are the same, and those that only look so."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.ir.jaxpr_equality import same_program
from mjax._engine.tracing.primitive import Primitive

W = jnp.arange(3.0)
X = np.ones(3, np.float32)


def staged(f, *args):
    return mjax.make_jaxpr(f)(*(args or (X,)))


@mjax.custom_jvp
def custom(x):
    return x * 2


custom.defjvp(lambda primals, tangents: (primals[0] * 2, tangents[0] * 2))

SAME = {
    "nothing": lambda x: x,
    "operations": lambda x: jnp.sin(x) * 2.0 + jnp.cumsum(x),
    "constants": lambda x: x @ W,
    "loops": lambda x: lax.scan(lambda c, _: (jnp.tanh(c) * W, c.sum()), x, None, 3),
    "branches": lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda x: x + W, x),
    "nan": lambda x: x * float("nan"),
    "rules": lambda x: custom(x) + jnp.where(x > 0, x, 0),
}


@pytest.mark.parametrize("name", SAME)
def test_same(name):
    assert same_program(staged(SAME[name]), staged(SAME[name]))


DIFFERENT = {
    "inputs": (lambda x, y: x, lambda x, y: y, 2),
    "results": (lambda x: x, lambda x: (x, x)),
    "an operation": (jnp.sin, jnp.cos),
    "an operand": (lambda x: (x * 2) + x, lambda x: (x * 2) + x * 2),
    "order": (lambda x, y: x - y, lambda x, y: y - x, 2),
    "a number": (lambda x: x * 2, lambda x: x * 3),
    "a zero": (lambda x: x * 0.0, lambda x: x * -0.0),
    "a param": (lambda x: jnp.sum(x, keepdims=True), lambda x: x[:1]),
    "a param's type": (lambda x: lax.scan(lambda c, _: (c, c), x, None, 1),
                       lambda x: lax.scan(lambda c, _: (c, c), x, None, 2)),
    "a constant": (lambda x: x * W, lambda x: x * (W + 1)),
    "a body": (lambda x: lax.scan(lambda c, _: (c * 2, c), x, None, 3),
               lambda x: lax.scan(lambda c, _: (c * 3, c), x, None, 3)),
    "more": (lambda x: x, lambda x: [jnp.sin(x), x][1]),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different(name):
    one, other, *count = DIFFERENT[name]
    args = [X] * (count[0] if count else 1)
    assert not same_program(staged(one, *args), staged(other, *args))


def test_types_of_inputs_differ():
    assert not same_program(staged(jnp.sin, X), staged(jnp.sin, X[:2]))


def test_arrays_of_numpy_may_have_changed():
    w = np.ones(3, np.float32)
    f = lambda x: x * w
    assert not same_program(staged(f), staged(f))


def test_params_that_only_compare_equal():
    p = Primitive("p")
    p.def_abstract_eval(lambda x, n: x)
    one = lambda n: staged(lambda x: p.bind(x, n=n))
    for n, m in itertools.combinations([1, 1.0, True, (1,), (1.0,), 0.0, -0.0], 2):
        assert same_program(one(n), one(n)) and not same_program(one(n), one(m))
