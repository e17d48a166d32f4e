"""debug_nans, debug_infs, disable_jit, checking_leaks."""

import inspect
import logging
import types

import numpy as np
import pytest

import mjax
import mjax.numpy as mnp
from mjax import lax

X = np.arange(3, dtype=np.float32)


def here():
    """The line of the caller, as messages have it."""
    frame = inspect.currentframe().f_back
    return f"{__file__}:{frame.f_lineno}"


def chain(x):
    y = lax.log(x)  # line one
    return lax.sin(y * 2.0) + 1.0


LINE_ONE = f"{__file__}:{inspect.getsourcelines(chain)[1] + 1}"


def message(call, *args):
    with pytest.raises(FloatingPointError) as info:
        call(*args)
    return str(info.value)


def test_results_are_not_looked_at_otherwise():
    assert np.isnan(mjax.jit(chain)(-1.0)) and np.isinf(lax.log(0.0))


@pytest.mark.parametrize("wrap", [
    lambda f: f, mjax.jit, lambda f: mjax.jit(mjax.jit(f)), lambda f: lambda x: mjax.jit(f)(x) + 1,
    lambda f: mjax.jit(lambda x: mjax.jit(lambda y: f(y) * 2)(x) + 1),
    lambda f: lambda x: mjax.vmap(f)(mnp.stack([x, x])), lambda f: lambda x: mjax.grad(f)(x),
    lambda f: mjax.jit(lambda x: mjax.vmap(mjax.jit(f))(mnp.stack([x, x]))),
    lambda f: mjax.jit(f, donate_argnums=0),
    lambda f: lambda x: mjax.jit(f).lower(x).compile()(x),
])
def test_the_operation_and_its_line_are_named(wrap, caplog):
    f = wrap(chain)
    with mjax.debug_nans(True):
        for _ in range(2):
            text = message(f, np.float32(-1))
            assert f"invalid value (nan) encountered in log at {LINE_ONE} (chain)" in text, text
        f(np.float32(2))
    f(np.float32(-1))


def test_donated_arguments_survive():
    x = mjax.device_put(-X)
    f = mjax.jit(lambda x: lax.log(x), donate_argnums=0)
    with mjax.debug_nans(True):
        message(f, x)
    assert not x.is_deleted()
    f(x)
    assert x.is_deleted()


def test_eager_operations_and_functions_of_numpy():
    x = mjax.device_put(X)
    with mjax.debug_nans(True):
        for _ in range(2):
            assert f"in log at {here()}" in message(lambda: lax.log(-1.0))
            assert f"in div at {here()}" in message(lambda: mnp.float32(0.0) / mnp.float32(0.0))
            assert f"at {here()}" in message(lambda: mnp.arctanh(x + 1))
        assert f"in add at {here()}" in message(lambda: x + np.nan)
        assert "its operand 1 already holds it" in message(lambda: x + np.nan)


def test_derivatives():
    def f(x):
        return mnp.where(x == 0, 0.0, lax.sqrt(x))

    with mjax.debug_nans(True):
        for g in (mjax.grad(f), mjax.jit(mjax.grad(f)), mjax.grad(mjax.jit(f))):
            assert "encountered in mul" in message(g, 0.0)
            assert np.isfinite(g(1.0))


@pytest.mark.parametrize("name, operation, x", [
    ("sqrt", lambda x: lax.sqrt(x) * 0.0, 0.0),
    ("log", lambda x: mnp.where(x > 0, lax.log(x), 0.0), 0.0),
    ("rsqrt", lambda x: mjax.named_call(lax.rsqrt, name="net")(x) * 2.0, 1e-30)])
def test_the_operation_whose_derivative_it_is_is_named(name, operation, x):
    nested = mjax.jit(operation)
    with mjax.debug_nans(name != "rsqrt"), mjax.debug_infs(name == "rsqrt"):
        for g in (mjax.grad(operation), mjax.jit(mjax.grad(operation)), mjax.grad(nested),
                  mjax.jit(mjax.grad(nested))):
            text = message(g, x)
            assert f", in the derivative of {name}, at" in text and "test_nan_checks.py" in text
    names = [str(eqn.source_info.name_stack) for eqn in mjax.make_jaxpr(
        mjax.grad(operation))(1.0).eqns]
    assert not [n for n in names if "derivative of" in n]


def test_operations_are_named_going_forward():
    """The derivative of an operation, and not what computes its value."""
    def norm(x):
        return lax.sqrt(mnp.sum(x * x))

    jvp = lambda f: lambda x: mjax.jvp(f, (x,), (mnp.ones_like(x),))
    with mjax.debug_nans(True):
        for f in (norm, mjax.jit(norm)):
            for g in (jvp(f), mjax.jit(jvp(f)), mjax.jacfwd(f)):
                assert "in mul, in the derivative of sqrt, at" in message(g, mnp.zeros(3))
        for f in (chain, mjax.jit(chain), mjax.checkpoint(chain)):
            for g in (jvp(f), mjax.jit(jvp(f)), mjax.jacfwd(f)):
                assert f"encountered in log at {LINE_ONE} (chain)." in message(g, -1.0)


def test_infinite_operands_are_named():
    f = lambda x: lax.sqrt(mnp.sum(x ** 2))
    with mjax.debug_nans(True):
        text = message(mjax.grad(f), mnp.zeros(3))
    assert "in the derivative of integer_pow" in text
    assert text.endswith("; its operand 0 is infinite, and the flag debug_infs finds the operation "
                         "that made it so.")
    with mjax.debug_infs(True):
        assert "encountered in div, in the derivative of sqrt, at" in message(
            mjax.grad(f), mnp.zeros(3))


def test_values_of_the_forward_pass_are_not_those_of_derivatives():
    with mjax.debug_nans(True):
        text = message(mjax.grad(lambda x: lax.log(x) * 2.0), -1.0)
    assert "encountered in log at" in text and "in the derivative" not in text


def test_control_flow_is_named_as_a_whole():
    def f(x):
        return lax.fori_loop(0, 3, lambda i, y: lax.log(y), x)

    with mjax.debug_nans(True):
        for g in (f, mjax.jit(f)):
            text = message(g, 2.0)
            assert "encountered in " in text and __file__ in text


def test_values_that_were_invalid_before():
    with mjax.debug_nans(True):
        assert "result 0 of <lambda>" in message(mjax.jit(lambda x: x), np.nan)
        assert "the arguments hold it" in message(mjax.jit(lambda x: (x, 1)), np.nan)
        assert "operand 0 already holds it" in message(mjax.jit(lambda x: x * 2), np.nan)
        assert np.isnan(mjax.device_put(np.nan))
        # Invalid intermediate values are ignored.
        assert mjax.jit(lambda x: mnp.where(x > 0, x, lax.log(x)))(1.0) == 1.0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "complex64"])
def test_dtypes(dtype):
    with mjax.enable_x64(dtype == "float64"), mjax.debug_nans(True):
        x = mnp.asarray(-1.0, dtype)
        assert "in acosh" in message(lax.acosh, x * 0) if dtype != "complex64" else True
        assert "in div" in message(mjax.jit(lambda x: x / x), x * 0)
        mjax.jit(lambda x: (x + 1, mnp.arange(3), mjax.random.key(0)))(x)


def test_infinities():
    with mjax.debug_infs(True):
        assert f"(inf) encountered in log at {here()}" in message(lambda: lax.log(0.0))
        assert "(inf) encountered in div" in message(mjax.jit(lambda x: 1.0 / x), 0.0)
        assert np.isnan(lax.log(-1.0))
    with mjax.debug_infs(True), mjax.debug_nans(True):
        assert "(nan)" in message(lambda: lax.log(-1.0)) and "(inf)" in message(
            lambda: lax.log(0.0))


def test_the_second_run_is_announced(caplog):
    with mjax.debug_nans(True), caplog.at_level(logging.WARNING, "mjax"):
        message(mjax.jit(chain), -1.0)
    assert "(nan) in result 0 of chain: running it operation by operation" in caplog.text


def test_config_switches():
    assert not mjax.config.jax_debug_nans
    mjax.config.update("jax_debug_nans", True)
    try:
        message(mjax.jit(chain), -1.0)
    finally:
        mjax.config.update("jax_debug_nans", False)
    mjax.jit(chain)(-1.0)


# ---- disable_jit -----------------------------------------------------------------------


def test_disable_jit_runs_python():
    seen = []

    @mjax.jit
    def f(x, n=2):
        seen.append((type(x), type(n)))
        return x * n if x > 0 else None

    with mjax.disable_jit():
        for _ in range(2):
            assert f(2.0) == 4.0 and f(-1.0) is None
        assert f(X[1], n=3) == 3.0
        jaxpr = mjax.make_jaxpr(lambda x: mjax.jit(lambda y: y * 2)(x))(1.0)
    assert seen[0] == (float, int) and seen[-1] == (np.float32, int)
    assert [e.primitive.name for e in jaxpr.eqns] == ["mul"]
    f_before = mjax.jit(lambda x: isinstance(x, float) and x)
    assert f_before(2.0) is not 2.0 and not f_before(2.0)  # noqa: F632
    with mjax.disable_jit():
        assert f_before(2.0) == 2.0  # a call that was compiled before too
    with mjax.disable_jit(False):
        assert not f_before(2.0)


def test_disable_jit_of_equations():
    f = mjax.jit(chain)
    jaxpr = mjax.make_jaxpr(f)(1.0)
    with mjax.disable_jit():
        assert float(mjax.jit(f)(1.0)) == 1.0
        np.testing.assert_allclose(mjax.grad(f)(1.0), 2.0)
    assert jaxpr.eqns[0].primitive.name == "jit"


def test_disable_jit_of_loops_that_must_be_staged():
    loop = lambda x: lax.while_loop(lambda c: c < 3.0, lambda c: c * 2.0, x)
    with mjax.disable_jit():
        assert float(loop(1.0)) == 4.0
        assert float(mjax.checkpoint(loop)(1.0)) == 4.0
        np.testing.assert_allclose(mjax.vmap(loop)(np.array([1.0, 5.0], "f4")), [4.0, 5.0])
        assert float(mjax.jvp(mjax.checkpoint(loop), (1.0,), (1.0,))[1]) == 4.0


# ---- checking_leaks --------------------------------------------------------------------


KEPT = []


def leaky(x):
    y = lax.sin(x)
    KEPT.append(y)
    return lax.cos(y)


def as_global(x):
    global LEAK
    LEAK = lax.sin(x)
    return x


def as_attribute(x):
    here.leak = lax.sin(x)
    return x


def with_new_globals(f):
    """The function with globals that the collector looks at: it passes over those of modules."""
    return types.FunctionType(f.__code__, {**globals(), "KEPT": []})


@pytest.mark.parametrize(("transform", "f", "holder"), [
    (mjax.jit, as_global, "The global 'LEAK' of module"),
    (mjax.make_jaxpr, leaky, "A list holds it"),
    (lambda f: mjax.jit(mjax.vmap(f)), as_attribute, "hold it, under 'leak'"),
    (lambda f: lambda x: mjax.vmap(mjax.jit(f))(x), leaky, "A list holds it")])
def test_leaked_tracers_are_named(transform, f, holder):
    here.leak, f = None, with_new_globals(f)
    line = inspect.getsourcelines(f)[1] + (2 if "global" in holder else 1)
    with mjax.checking_leaks(), pytest.raises(mjax.errors.UnexpectedTracerError) as info:
        transform(lambda x: f(x))(X)
    text = str(info.value)
    for part in ("tracers leaked: 1 outlived", "float32[", f"by sin at {__file__}:{line}", holder):
        assert part in text, text


#: Transformation -> its application at an array, and what it is called.
EAGER = {
    "jvp": (lambda f: mjax.jvp(f, (X,), (X,)), "jvp"),
    "linearize": (lambda f: mjax.linearize(f, X), "linearize"),
    "vjp": (lambda f: mjax.vjp(f, X), "linearize"),
    "grad": (lambda f: mjax.grad(lambda x: f(x).sum())(X), "linearize"),
    "vmap": (lambda f: mjax.vmap(f)(X), "vmap"),
    "hessian": (lambda f: mjax.hessian(lambda x: f(x).sum())(X), "linearize"),
    "jvp of scan": (lambda f: mjax.jvp(lambda x: lax.scan(
        lambda c, _: (f(x), None), x, None, length=2)[0], (X,), (X,)), "jit"),
}


@pytest.mark.parametrize(("name", "f", "holder"), [
    *[(name, leaky, "A list holds it") for name in EAGER],
    ("grad", as_global, "The global 'LEAK' of module"),
    ("vmap", as_attribute, "hold it, under 'leak'")])
def test_leaks_of_eager_transformations(name, f, holder):
    here.leak, f = None, with_new_globals(f)
    apply, trace = EAGER[name]
    with mjax.checking_leaks(), pytest.raises(mjax.errors.UnexpectedTracerError) as info:
        apply(lambda x: f(x))
    text = str(info.value)
    assert "tracers leaked: 1 outlived the" in text and holder in text, text
    assert name == "jvp of scan" or f"outlived the {trace} trace" in text


def test_what_does_not_leak(small_heap):
    for transform in TRANSFORMATIONS:
        with mjax.checking_leaks():
            transform(lambda x: {"out": lax.sin(x) * 2.0}["out"])(X)


TRANSFORMATIONS = [
    lambda f: mjax.vmap(f), mjax.jacfwd, mjax.jacrev,
    lambda f: lambda x: mjax.linearize(f, x)[1](x), lambda f: lambda x: mjax.vjp(f, x)[1](x),
    lambda f: lambda x: mjax.jvp(mjax.grad(lambda x: f(x).sum()), (x,), (x,)),
    lambda f: mjax.vmap(mjax.grad(mjax.checkpoint(f))),
    mjax.jit, mjax.make_jaxpr, lambda f: mjax.jit(mjax.vmap(f)),
    lambda f: mjax.jit(lambda x: f(f(x))),
    lambda f: mjax.grad(lambda x: mjax.jit(f)(x).sum()), lambda f: mjax.jit(mjax.jit(f)),
    lambda f: lambda x: lax.fori_loop(0, 2, lambda i, y: f(y), x),
    lambda f: lambda x: mjax.vjp(mjax.jit(f), x)[1](x),
    lambda f: lambda x: mjax.eval_shape(f, x)]
