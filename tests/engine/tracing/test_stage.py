"""Staging: omnistaging, constants, leaks, source info, linear cost, bounded depth."""

import gc
import sys
import time
import weakref

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.source import user_frame
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr, last_uses, stage
from mjax.errors import UnexpectedTracerError

X = np.arange(3, dtype=np.float32)


def names(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def test_operations_on_constants_are_staged_too():
    jaxpr = mjax.make_jaxpr(lambda x: lax.add(x, lax.sin(2.0)))(1.0)
    assert names(jaxpr) == ["sin", "add"]


def test_scalars_become_literals_arrays_become_constants_once():
    big = mjax.device_put(X)

    def f(x):
        return lax.add(lax.add(lax.mul(x, big), big), 2.0)

    jaxpr = mjax.make_jaxpr(f)(X)
    assert len(jaxpr.consts) == 1 and jaxpr.consts[0] is big
    np.testing.assert_allclose(mjax.jit(f)(X), X * X + X + 2)


@pytest.mark.parametrize(("value", "dtype"), [
    (np.float32(2), "f32"), (np.float64(2), "f32"), (np.int64(2), "i32"), (np.bool_(True), "bool"),
    (np.asarray(2, np.float32), "f32"), (np.asarray(2), "i32"), (2, "i32"), (True, "bool")])
def test_scalars_are_literals_of_their_type(value, dtype):
    literal = stage(lambda x: [lax.eq(value, value)], [mjax.typeof(X)]).eqns[0].invars[0]
    assert literal.aval.str_short(short_dtypes=True) == f"{dtype}[]" and literal.val == value
    assert type(literal.val) in (bool, int) or literal.val.dtype == literal.aval.dtype
    assert not isinstance(literal.val, np.ndarray)  # which its owner may change


def test_closed_over_numpy_arrays():
    np.testing.assert_allclose(mjax.jit(lambda x: lax.add(x, X))(X), 2 * X)


def test_leaked_tracer_is_refused_with_its_line():
    leaked = []

    @mjax.jit
    def f(x):
        leaked.append(lax.sin(x))
        return x

    f(X)
    with pytest.raises(UnexpectedTracerError, match=r"(?s)by sin at .*test_stage.py") as error:
        lax.add(leaked[0], 1.0)
    assert "Return the value" in str(error.value)
    with pytest.raises(UnexpectedTracerError):
        mjax.jit(lambda y: lax.add(y, leaked[0]))(X)
    with pytest.raises(UnexpectedTracerError):
        bool(leaked[0])


TRANSFORMATIONS = {
    "identity": (lambda f: f, np.float32(1)),
    "jvp": (lambda f: lambda x: mjax.jvp(f, (x,), (x,)), np.float32(1)),
    "grad": (mjax.grad, np.float32(1)),
    "vmap": (mjax.vmap, X),
}


@pytest.mark.parametrize("name", ["jvp", "grad", "vmap"])
def test_leaks_of_other_transformations(name):
    transform, x = TRANSFORMATIONS[name]
    leaked = []

    def f(x):
        leaked.append(lax.sin(x))
        return leaked[0]

    transform(f)(x)
    with pytest.raises(UnexpectedTracerError):
        mjax.jit(lambda: lax.add(leaked[0], 1.0))()


def test_checking_leaks_raises_at_the_leak():
    leaked = []

    def f(x):
        leaked.append(x)
        return x

    with mjax.checking_leaks(), pytest.raises(Exception, match="tracers leaked"):
        mjax.jit(f)(X)


def test_equations_know_the_users_line():
    def f(x):
        return lax.sin(x)

    line = f.__code__.co_firstlineno + 1
    (eqn,) = mjax.make_jaxpr(f)(X).eqns
    frame = user_frame(eqn.source)
    assert frame.line == line and frame.file == __file__


def test_source_lines_survive_transformations():
    def f(x):
        return lax.sin(x)

    line = f.__code__.co_firstlineno + 1
    text = mjax.make_jaxpr(mjax.vmap(mjax.jit(f)))(X).pretty_print(source_info=True)
    assert f"test_stage.py:{line}" in text


def chain(n):
    def f(x):
        for _ in range(n):
            x = lax.sin(x)
        return x
    return f


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_cost_is_linear(name):
    transform, x = TRANSFORMATIONS[name]

    def seconds(n):
        best = float("inf")
        for _ in range(3):
            gc.collect()
            start = time.process_time()
            mjax.make_jaxpr(transform(chain(n)))(x)
            best = min(best, time.process_time() - start)
        return best

    with mjax.enable_checks(False):
        small, large = seconds(1000), seconds(8000)
    # Three doublings, each at most 2.3 times; noise of a shared machine is in that margin.
    assert large / small < 2.3**3


def test_stack_depth_per_nested_transformation_is_bounded():
    def depth_under(levels):
        depths = []

        def f(x):
            frame, depth = sys._getframe(), 0
            while frame is not None:
                frame, depth = frame.f_back, depth + 1
            depths.append(depth)
            return lax.sin(x)

        for _ in range(levels):
            f = mjax.jit(mjax.grad(f))
        mjax.make_jaxpr(f)(1.0)
        return depths[0]

    per_level = np.diff([depth_under(n) for n in range(1, 6)])
    assert len(set(per_level)) == 1 and per_level[0] <= 24, per_level


@pytest.mark.parametrize("static", [1, -1, np.int64(1), (1,), [-1]])
def test_static_arguments_of_make_jaxpr(static):
    jaxpr = mjax.make_jaxpr(lambda x, n: lax.integer_pow(x, n), static_argnums=static)(2.0, 3)
    assert len(jaxpr.invars) == 1


def test_what_is_no_function_is_refused():
    for f in (mjax.make_jaxpr, lambda f: mjax.linear_transpose(f, 1.0)):
        with pytest.raises(TypeError, match="expects a function, got 3"):
            f(3)


def counting():
    """A primitive on NumPy arrays, and how many of its results are alive while it runs."""
    step_p = Primitive("step", multiple_results=True)
    step_p.def_abstract_eval(lambda x: [x, x])
    results, alive = [], []

    @step_p.def_impl
    def step(x):
        alive.append(sum(ref() is not None for ref in results))
        outs = [np.asarray(x) + 1, np.asarray(x) - 1]
        results.extend(map(weakref.ref, outs))
        return outs

    return step_p, results, alive


def test_evaluating_a_jaxpr_frees_each_value_after_its_last_use():
    step_p, results, alive = counting()

    def f(x):
        for _ in range(6):
            x, _ = step_p.bind(x)
        y, _ = step_p.bind(x)
        return [x, y]

    jaxpr = stage(f, [mjax.typeof(X)])
    out = eval_jaxpr(jaxpr, [], X)
    # An operand and, until the next equation, the unused result beside it.
    assert alive[0] == 0 and max(alive) <= 2
    assert sum(ref() is not None for ref in results) == 2
    np.testing.assert_array_equal(out[1], X + 7)


def test_values_are_kept_until_their_last_use():
    def f(x, y):
        a = lax.sin(x)
        b = lax.mul(a, a)
        lax.cos(b)
        return [lax.add(b, a), a, y, 2.0, a]

    jaxpr = stage(f, [mjax.typeof(X)] * 2)
    for _ in range(2):
        out = eval_jaxpr(jaxpr, [], X, X)
        np.testing.assert_allclose(out[0], np.sin(X) ** 2 + np.sin(X), 1e-6)
        np.testing.assert_array_equal(out[1], out[4])
        assert out[2] is X and out[3] == 2.0
    uses = last_uses(jaxpr)
    a, b, c, d = (eqn.outvars[0] for eqn in jaxpr.eqns)
    assert uses == [[jaxpr.invars[0]], [], [c], [b]] and last_uses(jaxpr) is uses


def _chosen(x):
    return x if x > 0 else -x


@pytest.mark.parametrize(("name", "call"), [
    ("jit", lambda: mjax.jit(_chosen)(1.0)),
    ("checkpoint", lambda: mjax.checkpoint(_chosen)(1.0)),
    ("cond", lambda: lax.cond(True, _chosen, _chosen, 1.0)),
    ("scan", lambda: lax.scan(lambda c, x: (_chosen(c), x), 1.0, X)),
    ("while_loop", lambda: lax.while_loop(lambda x: x < 1, _chosen, 0.0)),
    ("fori_loop", lambda: lax.fori_loop(0, 3, lambda i, x: _chosen(x), 0.0)),
    ("map", lambda: lax.map(_chosen, X)),
    ("make_jaxpr", lambda: mjax.make_jaxpr(_chosen)(1.0)),
])
def test_messages_name_the_transformation(name, call):
    with pytest.raises(TypeError, match=f"while {name} traces the function"):
        call()
