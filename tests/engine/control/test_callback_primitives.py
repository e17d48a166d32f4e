"""Callbacks under transformations: control flow, vmap, derivatives, remat, dead code."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.experimental import io_callback
from mjax_ext.core import primitives
from tests.engine.recorder import Recorder

F = mjax.ShapeDtypeStruct((), "float32")
X = np.linspace(0.1, 0.9, 3, dtype="float32")


@pytest.fixture
def log():
    return Recorder()


@pytest.fixture(params=["jit", "at once"])
def how(request):
    """Compiled, or evaluated primitive by primitive."""
    return mjax.jit if request.param == "jit" else lambda f: f


# ---- random programs -------------------------------------------------------------------
#
# A program is a list of statements on one integer. `plain` runs it in Python; `traced` gives it
# as a function for mjax.


def program(rng, depth):
    found = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(["log", "log", "set", *(["if", "for", "while", "call"] if depth else [])])
        inner = [program(rng, depth - 1) for _ in range(2)] if depth else []
        found.append((kind, rng.randint(0, 9), *inner))
    return found


def plain(statements, x, log):
    for kind, k, *inner in statements:
        if kind == "log":
            log.append(x + k)
        elif kind == "set":
            x = (3 * x + k) % 101
        elif kind == "if":
            x = plain(inner[x % 2], x, log)
        elif kind == "for":
            for i in range(k % 4):
                x = plain(inner[0], x + i, log)
        elif kind == "call":
            x = plain(inner[0], plain(inner[0], x, log), log)
        else:
            i = 0
            while True:
                plain(inner[1], x, log)
                if i >= k % 4:
                    break
                x, i = plain(inner[0], x + i, log), i + 1
    return x


def traced(statements, record):
    def f(x):
        for kind, k, *inner in statements:
            first, second = [traced(p, record) for p in inner] or (None, None)
            if kind == "log":
                io_callback(record, None, x + k, ordered=True)
            elif kind == "set":
                x = (3 * x + k) % 101
            elif kind == "if":
                x = lax.cond(x % 2 == 0, first, second, x)
            elif kind == "for":
                x, _ = lax.scan(lambda x, i, f=first: (f(x + i), None), x,
                                jnp.arange(k % 4, dtype="int32"))
            elif kind == "call":
                call = mjax.jit(first)
                x = call(call(x))
            else:
                x, _ = lax.while_loop(
                    lambda c, g=second, k=k: (g(c[0]), c[1] < k % 4)[1],
                    lambda c, f=first: (f(c[0] + c[1]), c[1] + 1), (x, jnp.int32(0)))
        return x

    return f


def check_program(seed, log, transform=mjax.jit):
    rng = random.Random(seed)
    statements, start, expected = program(rng, 3), rng.randint(0, 50), []
    end = plain(statements, start, expected)
    f = transform(traced(statements, log))
    assert int(f(jnp.int32(start))) == end
    assert log.taken() == expected
    # The same program again, and next to others.
    f(jnp.int32(start))
    io_callback(log, None, jnp.int32(-1), ordered=True)
    f(jnp.int32(start))
    assert log.taken() == [*expected, -1, *expected]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_log_what_plain_python_logs(seed, log):
    check_program(seed, log)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 120))
def test_more_random_programs(seed, log):
    check_program(seed, log)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_evaluated_one_by_one(seed, log):
    check_program(seed, log, lambda f: f)


# ---- control flow ----------------------------------------------------------------------


def test_a_condition_with_ordered_effects_runs_as_often_as_in_python(log, how):
    @how
    def f(n):
        def goes_on(i):
            io_callback(log, None, i, ordered=True)
            return i < n

        return lax.while_loop(goes_on, lambda i: i + 1, 0)

    assert f(3) == 3 and log.taken() == [0, 1, 2, 3]
    assert f(0) == 0 and log.taken() == [0]


def test_a_condition_with_unordered_effects(log, how):
    @how
    def f(n):
        return lax.while_loop(lambda i: (mjax.debug.callback(log, i), i < n)[1],
                              lambda i: i + 1, 0)

    assert f(3) == 3 and sorted(log.taken()) == [0, 1, 2, 3]


def test_only_the_branch_that_is_taken(log, how):
    f = how(lambda p, x: lax.cond(p, lambda: io_callback(log, None, x, ordered=True),
                                  lambda: io_callback(log, None, -x, ordered=True)))
    f(True, 1)
    f(False, 2)
    assert log.taken() == [1, -2]
    g = how(lambda i: lax.switch(i, [lambda: None, lambda: mjax.debug.callback(log, i),
                                     lambda: io_callback(log, None, 10 * i, ordered=True)]))
    for i in (2, 0, 1):
        g(i)
    assert sorted(log.taken()) == [1, 20]


def test_results_of_callbacks_in_loops(how):
    f = how(lambda xs: lax.scan(
        lambda c, x: (io_callback(lambda c, x: c + 2 * x, F, c, x, ordered=True), c), 0.0, xs))
    c, cs = f(X)
    np.testing.assert_allclose(c, 2 * X.sum(), rtol=1e-6)
    np.testing.assert_allclose(cs, [0, *2 * np.cumsum(X)[:-1]], rtol=1e-6)


# ---- dead code -------------------------------------------------------------------------


def test_what_nobody_uses(log):
    def f(x):
        mjax.pure_callback(lambda v: (log(v), v)[1], F, x)
        io_callback(log, None, x + 1)
        io_callback(lambda v: (log(v), v)[1], F, x + 2, ordered=True)
        mjax.debug.callback(log, x + 3)
        return x

    mjax.jit(f)(np.float32(1))
    assert sorted(log.taken()) == [2, 3, 4]
    inside = lambda x: lax.scan(lambda c, _: (c, f(c)), x, None, 2)[0]
    mjax.jit(inside)(np.float32(1))
    assert sorted(log.taken()) == [2, 2, 3, 3, 4, 4]


def test_pure_callbacks_that_are_used_are_called(log):
    f = mjax.jit(lambda x: mjax.pure_callback(lambda v: (log(v), 2 * v)[1], F, x) + 1)
    assert f(np.float32(2)) == 5 and log.taken() == [2]


# ---- vmap ------------------------------------------------------------------------------

METHODS = {
    "sequential": lambda x, y: [((), ())] * 3,
    "sequential_unrolled": lambda x, y: [((), ())] * 3,
    "expand_dims": lambda x, y: [((3,), (1,))],
    "broadcast_all": lambda x, y: [((3,), (3,))],
    "legacy_vectorized": lambda x, y: [((3,), ())],
}


@pytest.mark.parametrize("method", METHODS)
def test_how_pure_callbacks_are_batched(method, how):
    shapes = []

    def add(x, y):
        shapes.append((x.shape, y.shape))
        return np.asarray(x) + np.asarray(y)

    f = lambda x, y: mjax.pure_callback(add, F, x, y, vmap_method=method)
    out = how(mjax.vmap(f, (0, None)))(X, np.float32(1))
    np.testing.assert_array_equal(out, X + 1)
    assert shapes == METHODS[method](X, 1)


@pytest.mark.parametrize("method", METHODS)
def test_batches_of_batches(method, how):
    xs, ys = np.arange(6, dtype="float32").reshape(2, 3), np.arange(3, dtype="float32")
    f = lambda x, y: mjax.pure_callback(
        lambda x, y: (np.asarray(x) * np.asarray(y), np.asarray(x + y)[..., None]),
        (F, mjax.ShapeDtypeStruct((1,), "float32")), x, y, vmap_method=method)
    if method == "legacy_vectorized":
        f = mjax.vmap(f, (0, 0))
        a, b = how(mjax.vmap(f, (0, 0)))(xs, np.stack([ys, ys]))
    else:
        a, b = how(mjax.vmap(mjax.vmap(f), (0, None)))(xs, ys)
    np.testing.assert_array_equal(a, xs * ys)
    np.testing.assert_array_equal(b, (xs + ys)[..., None])


def test_batch_axes_elsewhere(how):
    x = np.arange(6, dtype="float32").reshape(2, 3)
    f = lambda v: mjax.pure_callback(
        np.cumsum, mjax.ShapeDtypeStruct((2,), "float32"), v, vmap_method="sequential")
    np.testing.assert_array_equal(how(mjax.vmap(f, 1, 1))(x), np.cumsum(x, 0))


def test_a_batch_without_a_method_is_refused():
    f = lambda x: mjax.pure_callback(np.sin, F, x)
    with pytest.raises(ValueError, match=r"vmap of pure_callback of sin: vmap_method .* was not "
                                         r"given. Pass vmap_method='sequential'(.|\n)*test_callb"):
        mjax.vmap(f)(X)
    # A call with the same arguments for all elements stays one call.
    assert mjax.vmap(lambda x: x + f(np.float32(0)))(X).shape == (3,)


@pytest.mark.parametrize("call", [
    lambda log, x: io_callback(log, None, x), lambda log, x: mjax.debug.callback(log, x)],
    ids=["io_callback", "debug.callback"])
def test_unordered_effects_come_once_per_element_in_the_order_of_the_batch(call, log, how):
    how(mjax.vmap(lambda x: call(log, x)))(X)
    assert log.taken() == X.tolist()
    # For batches of batches, the axis of the inner vmap is the outer loop.
    how(mjax.vmap(mjax.vmap(lambda x: call(log, x))))(np.stack([X, -X]))
    assert log.taken() == [v for x in X.tolist() for v in (x, -x)]
    # An operand that is the same for all: once.
    how(mjax.vmap(lambda x: (call(log, np.float32(7)), x)[1]))(X)
    assert log.taken() == [7]


@pytest.mark.parametrize("call", [io_callback, mjax.pure_callback])
def test_callbacks_have_no_transpose(call):
    with pytest.raises(ValueError, match=r"callback of a Python function has no transpose(.|\n)*py"
                       ):
        mjax.linear_transpose(lambda x: call(lambda v: v, F, x), np.float32(1))(np.float32(1))


def test_results_of_batched_io():
    out = mjax.jit(mjax.vmap(lambda x: io_callback(lambda v: 2 * v, F, x)))(X)
    np.testing.assert_array_equal(out, 2 * X)


def test_ordered_io_is_not_batched():
    def call(x):
        io_callback(print, None, x, ordered=True)

    pattern = ("vmap of io_callback, which has the effects OrderedIOEffect: their policy says "
               r"batchable=False.(.|\n)*test_callback_primitives.py")
    with pytest.raises(ValueError, match=pattern):
        mjax.vmap(call)(X)
    with pytest.raises(ValueError, match=pattern):
        mjax.vmap(lambda x: lax.scan(lambda c, _: (c, call(c)), x, None, 2)[0])(X)


def test_batched_predicates_run_all_branches(log, how):
    """Documented: each branch runs for each element, and what is not its is dropped."""
    f = lambda p, x: lax.cond(p, lambda: (mjax.debug.callback(log, x), x)[1], lambda: -x)
    out = how(mjax.vmap(f))(np.array([True, False, True]), X)
    np.testing.assert_array_equal(out, X * [1, -1, 1])
    assert log.taken() == X.tolist()


# ---- derivatives -----------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [False, True])
def test_looking_at_values_under_differentiation(ordered, log, how):
    def f(x):
        y = jnp.sin(x)
        mjax.debug.callback(log, y, ordered=ordered)
        return y * x

    value, slope = how(mjax.value_and_grad(f))(np.float32(0.5))
    np.testing.assert_allclose(slope, np.cos(0.5) * 0.5 + np.sin(0.5), rtol=1e-6)
    assert log.taken() == pytest.approx([np.sin(0.5)])
    how(lambda x: mjax.jvp(f, (x,), (x,)))(np.float32(0.5))
    how(lambda x: mjax.linearize(f, x)[0])(np.float32(0.5))
    how(mjax.grad(mjax.grad(f)))(np.float32(0.5))
    assert log.taken() == pytest.approx([np.sin(0.5)] * 3)


def test_derivatives_of_loops_and_branches_that_look(log, how):
    def f(x):
        def step(c, _):
            mjax.debug.callback(log, c, ordered=True)
            return lax.cond(c < 2, lambda c: (mjax.debug.callback(log, -c, ordered=True), 2 * c)[1],
                            lambda c: c * c, c), None

        return lax.scan(step, x, None, 3)[0]

    assert how(mjax.grad(f))(np.float32(1)) == 64  # x -> 2 x -> 4 x^2 -> 16 x^4
    seen = log.taken()
    f(np.float32(1))
    assert seen == log.taken() == [1, -1, 2, 4]


def test_per_example_gradients_that_look(log, how):
    f = lambda x: (mjax.debug.callback(log, x), x * x)[1]
    np.testing.assert_allclose(how(mjax.vmap(mjax.grad(f)))(X), 2 * X)
    assert log.taken() == X.tolist()


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("transform", [
    mjax.grad, lambda f: lambda x: mjax.jvp(f, (x,), (x,)),
    lambda f: lambda x: mjax.linearize(f, x),
    lambda f: mjax.grad(mjax.jit(f)),
    lambda f: mjax.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, 2)[0]),
    lambda f: mjax.grad(lambda x: lax.cond(x > 0, f, f, x)),
], ids=["grad", "jvp", "linearize", "jit", "scan", "cond"])
def test_derivatives_of_io_are_refused(transform, ordered):
    f = lambda x: io_callback(lambda v: v, F, x, ordered=ordered)
    effect = "OrderedIOEffect" if ordered else "IOEffect"
    with pytest.raises(ValueError, match=rf"differentiation of io_callback, which has the effects "
                       rf"{effect}: their policy says differentiable=False(.|\n)*test_callb"):
        transform(f)(np.float32(1))


def test_io_beside_what_is_differentiated(log, how):
    def f(x):
        io_callback(log, None, np.float32(7), ordered=True)
        io_callback(log, None, lax.stop_gradient(x), ordered=True)
        return x * x

    assert how(mjax.grad(f))(np.float32(3)) == 6
    assert log.taken() == [7, 3]


def test_derivatives_of_pure_callbacks_are_refused_but_may_be_given(how):
    f = lambda x: mjax.pure_callback(np.sin, F, x)
    with pytest.raises(ValueError, match=r"pure_callback of sin has no derivative(.|\n)*custom_jvp"
                                         r"(.|\n)*test_callback_primitives.py"):
        how(mjax.grad(f))(np.float32(1))
    assert how(mjax.grad(lambda x: x * f(lax.stop_gradient(x))))(np.float32(1)) == np.sin(
        np.float32(1))
    with_rule = mjax.custom_jvp(f)
    with_rule.defjvp(lambda primals, tangents: (
        f(*primals), tangents[0] * mjax.pure_callback(np.cos, F, *primals)))
    np.testing.assert_allclose(how(mjax.grad(with_rule))(np.float32(1)), np.cos(1), rtol=1e-6)


# ---- rematerialization -----------------------------------------------------------------


def test_what_is_rematerialized_looks_again(log, how):
    @mjax.checkpoint
    def f(x):
        y = jnp.sin(x)
        mjax.debug.callback(log, y)
        return jnp.sin(y)

    how(mjax.grad(f))(np.float32(1))
    seen = log.taken()
    assert len(seen) in (1, 2) and seen == pytest.approx([np.sin(1)] * len(seen))


def test_io_may_not_happen_twice():
    f = mjax.checkpoint(lambda x: jnp.sin(io_callback(lambda v: v, F, lax.stop_gradient(x)) * x))
    with pytest.raises(NotImplementedError, match=(
            r"io_callback has the effects IOEffect, whose policy says remat=False(.|\n)*"
            r"test_callback_primitives")):
        mjax.grad(f)(np.float32(1))
    assert f(np.float32(0)) == 0


# ---- jaxprs ----------------------------------------------------------------------------


@pytest.mark.parametrize("platform, kind", [
    ("cpu", "cpu"), ("cuda", "gpu"), ("rocm", "gpu"), ("gpu", "gpu")])
def test_callbacks_are_lowered_for_cpus_and_gpus(platform, kind):
    def f(x):
        mjax.debug.print("{}", x)
        return (mjax.pure_callback(np.sin, x, x),
                io_callback(np.cos, x, x), io_callback(np.tan, x, x, ordered=True))

    text = mjax.jit(f).trace(X).lower(lowering_platforms=(platform,)).as_text()
    assert len(re.findall(rf"@xla_(?:ffi_)?python_{kind}_callback\(", text)) == 4
    assert len(re.findall("@xla", text)) == 4


def test_callbacks_are_not_lowered_for_other_platforms():
    traced = mjax.jit(lambda x: mjax.pure_callback(np.sin, x, x)).trace(X)
    with pytest.raises(NotImplementedError, match="lowering for platform tpu .only for cpu, gpu"):
        traced.lower(lowering_platforms=("tpu",)).as_text()


def test_effects_in_jaxprs():
    def f(x):
        io_callback(print, None, x, ordered=True)
        mjax.debug.callback(print, x)
        return lax.scan(lambda c, _: (c, io_callback(print, None, c)), x, None, 2)[0]

    for transform in (lambda f: f, mjax.jit, mjax.checkpoint):
        jaxpr = mjax.make_jaxpr(transform(f))(1.0)
        assert sorted(map(repr, jaxpr.effects)) == ["DebugEffect", "IOEffect", "OrderedIOEffect"]
    assert [e.primitive for e in mjax.make_jaxpr(f)(1.0).eqns] == [
        primitives.io_callback_p, primitives.debug_callback_p, primitives.scan_p]


# ---- ordered effects of a batch --------------------------------------------------------


def printed(capsys, f, *args):
    f(*args)
    mjax.effects_barrier()
    return capsys.readouterr().out.split()


@pytest.mark.parametrize("wrap", [lambda f: f, mjax.jit])
def test_ordered_printing_of_a_batch_goes_by_element(capsys, wrap):
    def show(*args):
        mjax.debug.print(",".join(["{}"] * len(args)), *args, ordered=True)

    n = np.arange(3)
    assert printed(capsys, wrap(mjax.vmap(show)), n) == ["0", "1", "2"]
    rows = np.arange(4).reshape(2, 2)
    both = mjax.vmap(mjax.vmap(show, in_axes=(0, None)), in_axes=(1, 0))
    assert printed(capsys, wrap(both), rows, n[:2]) == ["0,0", "1,1", "2,0", "3,1"]

    def loop(x):
        return lax.while_loop(lambda c: c < 3, lambda c: (show(c), c + 1)[1], x)

    # All elements go round together, those that have finished too.
    assert printed(capsys, wrap(mjax.vmap(loop)), n) == list("012123233")

    def twice(x):
        return lax.scan(lambda c, i: (show(c, i), (c + 1, None))[1], x, np.arange(2))[0]

    assert printed(capsys, wrap(mjax.vmap(twice)), n[:2]) == ["0,0", "1,0", "1,1", "2,1"]


# ---- structures of results -------------------------------------------------------------


@pytest.mark.parametrize("give, result", [
    (lambda x: [x], F), (lambda x: (x,), [F]), (lambda x: {"a": [x]}, {"a": F})])
def test_results_are_taken_by_their_leaves(give, result):
    for call in (mjax.pure_callback, io_callback):
        out = mjax.jit(lambda x, call=call: call(give, result, x))(np.float32(3))
        assert mjax.tree_util.tree_structure(out) == mjax.tree_util.tree_structure(result)
        assert mjax.tree_util.tree_leaves(out) == [3]


# ---- formats ---------------------------------------------------------------------------


@pytest.mark.parametrize("fmt, kind", [("{x}", KeyError), ("{} {} {}", IndexError),
                                       ("{}", ValueError), ("{", ValueError)])
def test_formats_that_do_not_fit(fmt, kind):
    with pytest.raises(kind, match="does not fit") as caught:
        mjax.debug.print(fmt, 1, 2)
    assert isinstance(caught.value, ValueError)  # as mjax always had it


def test_print_options_are_those_of_the_trace(capsys):
    for digits in (2, 4):
        with np.printoptions(precision=digits):
            show = mjax.jit(lambda x: mjax.debug.print("{}", x)).lower(np.ones(1, "f4")).compile()
        show(np.full(1, 1 / 3, np.float32))
        mjax.effects_barrier()
        assert capsys.readouterr().out == f"[{1 / 3:.{digits}f}]\n"
