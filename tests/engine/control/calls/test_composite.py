"""composite: the module's text, values against the decomposition, every transformation."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.ir.check import check_jaxpr

X = np.linspace(0.1, 0.9, 3, dtype=np.float32)
A = np.arange(3, dtype=np.float32)


def plain(x, y, *, axis=0, **attributes):
    return {"out": jnp.sum(jnp.sin(x["u"]) * y, axis) + A}


named = lax.composite(plain, "test.op", version=3)
ARGS = {"u": np.stack([X, 2 * X])}, np.stack([X, X * X])
RUNS = {
    "eager": lambda f: f(*ARGS),
    "jit": lambda f: mjax.jit(f)(*ARGS),
    "jvp": lambda f: mjax.jvp(f, ARGS, ARGS),
    "jit of jvp": lambda f: mjax.jit(lambda *args: mjax.jvp(f, args, args))(*ARGS),
    "grad": lambda f: mjax.grad(lambda *args: f(*args)["out"].sum(), (0, 1))(*ARGS),
    "jit of grad": lambda f: mjax.jit(mjax.grad(lambda *args: f(*args)["out"].sum()))(*ARGS),
    "hessian": lambda f: mjax.hessian(lambda y: f(ARGS[0], y)["out"].sum())(ARGS[1]),
    "vmap": lambda f: mjax.vmap(f, ({"u": None}, 1))(ARGS[0], ARGS[1][:, :, None] * X[:, None]),
    "vmap of grad": lambda f: mjax.vmap(mjax.grad(lambda *args: f(*args)["out"].sum()))(
        {"u": np.stack([ARGS[0]["u"]] * 2)}, np.stack([ARGS[1]] * 2)),
    "remat": lambda f: mjax.grad(mjax.checkpoint(lambda *args: f(*args)["out"].sum()))(*ARGS),
    "scan": lambda f: lax.scan(lambda c, _: (f({"u": c}, ARGS[1])["out"] + c, None), ARGS[0]["u"],
                               None, length=3),
    "unused": lambda f: mjax.jit(lambda *args: (f(*args), 1.0)[1])(*ARGS),
}


@pytest.mark.parametrize("name", RUNS)
def test_it_is_its_decomposition(name):
    run = RUNS[name]
    for actual, expected in zip(*map(mjax.tree.leaves, (run(named), run(plain))), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


def text_of(f, *args):
    return mjax.jit(f).lower(*args).as_text()


def test_the_operation_has_name_version_and_decomposition():
    text = text_of(lambda x, y: named(x, y)["out"] + named(x, y)["out"], *ARGS)
    assert text.count('stablehlo.composite "test.op"') == 2
    assert "version = 3 : i32" in text and "decomposition = @test.op" in text
    assert text.count("func.func private @test.op") == 1
    jaxpr = mjax.make_jaxpr(named)(*ARGS)
    check_jaxpr(jaxpr)
    (eqn,) = jaxpr.eqns
    assert (eqn.primitive.name, eqn.params["name"], eqn.params["version"]) == (
        "composite", "test.op", 3)


def test_what_is_transformed_has_no_name():
    for f in (mjax.grad(lambda *args: named(*args)["out"].sum()),
              lambda *args: mjax.jvp(named, args, args)):
        assert "composite" not in text_of(f, *ARGS)
    batch = {"u": np.stack([ARGS[0]["u"]] * 2)}, np.stack([ARGS[1]] * 2)
    assert "composite" not in text_of(mjax.vmap(named), *batch)
    # The equations around it are.
    f = lambda x, y: (named(x, y), mjax.grad(jnp.sin)(1.0))
    assert "composite" in text_of(f, *ARGS)


ATTRIBUTES = {
    "int": (1, "1 : i64"), "float": (2.5, "2.500000e+00 : f64"), "bool": (True, "true"),
    "str": ("s", '"s"'), "tuple": ((1, 2), "[1, 2]"), "list": ([1.5], "[1.500000e+00]"),
    "dict": ({"k": 1, "l": "m"}, '{k = 1 : i64, l = "m"}'), "int32": (np.int32(3), "3 : i32"),
    "float32": (np.float32(2.5), "2.500000e+00 : f32"), "bool_": (np.bool_(False), "false"),
    "dtype": (np.dtype("float32"), "f32"), "empty": ((), "[]"),
    "array": (np.ones(2, np.float32), "dense<1.000000e+00> : tensor<2xf32>"),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(name):
    value, text = ATTRIBUTES[name]
    f = lax.composite(lambda x, **attributes: x + 1, "test.attributes")
    assert f"composite_attributes = {{a = {text}}}" in text_of(lambda x: f(x, a=value), X)
    np.testing.assert_array_equal(mjax.jit(lambda x: f(x, a=value))(X), X + 1)
    np.testing.assert_array_equal(f(X, a=value), X + 1)


def test_attributes_reach_the_decomposition_and_are_told_apart():
    traced = []

    def f(x, *, by=None, scale=1.0):
        traced.append((by, scale))
        return x * scale if by is None else x + by

    g = lax.composite(f, "test.f")
    for _ in range(2):
        assert float(g(1.0, by=1)) == 2 and float(g(1.0, by=True)) == 2
        assert float(g(2.0)) == 2 and float(g(2.0, scale=0.0)) == 0
        assert np.signbit(g(2.0, scale=-0.0))
    assert len(traced) == 5
    assert "composite_attributes" not in text_of(lambda x: g(x, by=None), 1.0)


def test_effects_are_kept():
    seen = []
    f = lax.composite(lambda x: (mjax.debug.callback(lambda y: seen.append(float(y)), x), x)[1],
                      "test.seen")
    mjax.jit(f)(2.0)
    mjax.effects_barrier()
    assert seen == [2.0]


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: lax.composite(3, "a.b"), TypeError, "composite expects a function, got 3"),
    (lambda: lax.composite(jnp.sin, "sin"), ValueError, r"the name 'sin' must be .* a namespace"),
    (lambda: lax.composite(jnp.sin, "a.b", -1), ValueError, "version is -1"),
    (lambda: lax.composite(jnp.sin, "a.b", 1.5), TypeError, "float"),
    (lambda: lax.composite(jnp.sin, "a.b")("x"), TypeError, "composite a.b"),
    (lambda: lax.composite(lambda x, q: x, "a.b")(1.0, q=1j), TypeError,
     "composite a.b: attribute 'q' has type complex; attributes are numbers"),
    (lambda: lax.composite(lambda x, q: x, "a.b")(1.0, q=jnp.ones(2)), TypeError, "has type Array"),
    (lambda: mjax.jit(lambda x: lax.composite(lambda y: x + y, "a.b")(x))(1.0),
     mjax.errors.UnexpectedTracerError, r"closes over values that are traced, .*float32\[\]: make "
     "them arguments"),
])
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()
