"""Values that Python asks for in a shard_map that is called outside of programs."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax, monitoring
from mjax._engine.base.monitoring import COMPILE
from mjax.experimental import io_callback

from .mapped import P

X = np.arange(4, dtype=np.float32)


def mapped(body, **options):
    mesh = mjax.make_mesh((4,), ("x",))
    return mjax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), **options)


def compilations(f):
    """How many programs a call compiles."""
    count = 0

    def listener(event, seconds, **kwargs):
        nonlocal count
        count += event == COMPILE

    monitoring.register_event_duration_secs_listener(listener)
    try:
        f()
    finally:
        monitoring.unregister_event_duration_listener(listener)
    return count


def test_what_all_devices_share():
    @mapped
    def f(x):
        total = lax.psum(x.sum(), "x")
        if total > 0:  # outside of programs
            return x * int(total) + np.asarray(total) + float(total)
        return -x

    np.testing.assert_array_equal(f(X), X * 6 + 12)
    np.testing.assert_array_equal(f(-X), X)  # another value takes the other way
    np.testing.assert_array_equal(f(X), X * 6 + 12)
    with pytest.raises(mjax.errors.TracerBoolConversionError):
        mjax.jit(f)(X)
    with pytest.raises(mjax.errors.TracerBoolConversionError):
        mjax.vmap(f)(X[None])


def test_what_devices_do_not_share():
    for body, options in ((lambda x: x if x.sum() > 0 else -x, {}),
                          (lambda x: x if lax.psum(x.sum(), "x") > 0 else -x,
                           {"check_vma": False})):
        with pytest.raises(mjax.errors.TracerBoolConversionError):
            mapped(body, **options)(X)


def test_the_body_runs_once():
    ran, seen = [], []

    def keep(what, v):
        seen.append((what, float(v[0])))
        return v

    @mapped
    def f(x):
        ran.append(0)
        struct = mjax.ShapeDtypeStruct((1,), x.dtype)
        y = io_callback(functools.partial(keep, "first"), struct, x)
        mjax.debug.callback(functools.partial(keep, "second"), x)
        if lax.psum(y, "x")[0] > 0:  # which depends on the first
            mjax.debug.callback(functools.partial(keep, "third"), y)
        return x + y if lax.psum(y, "x")[0] > 100 else x - y

    np.testing.assert_array_equal(f(X), 0 * X)
    mjax.effects_barrier()
    assert len(ran) == 1
    assert sorted(seen) == sorted((w, v) for w in ("first", "second", "third") for v in X)


def test_shapes_and_branches_taken_in_turn_are_compiled_once():
    @mapped
    def f(x):
        return x * 2 if lax.psum(x.sum(), "x") > 0 else x - 1

    wide = np.arange(8, dtype=np.float32)
    f(X), f(wide), f(-X)
    assert compilations(lambda: (f(X), f(wide), f(-X), f(X))) == 0


def test_a_question_goes_on_from_the_last():

    @mapped
    def f(x):
        for i in range(5):
            x = x * 2 + i
            if lax.psum(x.sum(), "x") > 1e6:
                return -x
        return x

    @mapped
    def g(x):
        return 1 / x if lax.psum(x.sum(), "x") > 0 else x

    want = X
    for i in range(5):
        want = want * 2 + i
    assert compilations(lambda: f(X)) < 3 * 5 + 3
    assert compilations(lambda: np.testing.assert_array_equal(f(X), want)) == 0
    assert compilations(lambda: g(X + 1)) > compilations(lambda: g(X + 2)) == 0


def test_values_of_all_kinds_are_kept():
    key = mjax.random.key(0)

    @mapped
    def f(x):
        k = mjax.random.fold_in(key, lax.axis_index("x"))
        empty, scalar, pair = x[:0], x[0] * 2, jnp.stack([x, x])
        same = lax.psum(scalar, "x")
        assert same > 0
        assert int(same) == 12
        return x + mjax.random.uniform(k) * 0 + empty.sum() + scalar + pair.sum() + same

    np.testing.assert_array_equal(f(X), X + 2 * X + 2 * X + 12)


def test_derivatives_outside_of_programs():
    f = mapped(lambda x: x * x if lax.psum(x.sum(), "x") > 0 else x)
    np.testing.assert_array_equal(mjax.grad(lambda x: f(x).sum())(X), 2 * X)
    np.testing.assert_array_equal(mjax.grad(lambda x: f(x).sum())(-X), np.ones(4))
    out, tangent = mjax.jvp(f, (X,), (np.ones(4, np.float32),))
    np.testing.assert_array_equal(out, X * X)
    np.testing.assert_array_equal(tangent, 2 * X)
    np.testing.assert_array_equal(
        mjax.jvp(mjax.grad(lambda x: f(x).sum()), (X,), (np.ones(4, np.float32),))[1], 2 + 0 * X)
    closed = mjax.grad(lambda w: mapped(
        lambda x: x * w if lax.psum(w * x.sum(), "x") > 0 else x)(X).sum())
    np.testing.assert_array_equal(closed(np.float32(2)), X.sum())


def test_casts_are_kept():
    def body(x, c):
        y = x + c  # casts c
        if lax.psum(y.sum(), "x") > 0:
            y = y * c  # by the cast of before
        return y

    mesh = mjax.make_mesh((4,), ("x",))
    f = mjax.shard_map(body, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))
    np.testing.assert_array_equal(f(X, np.float32(2)), (X + 2) * 2)


def test_one_device_is_refused():
    """The body runs on all devices; in a program a device is without effect, as anywhere."""
    put = mapped(lambda x: mjax.device_put(x, mjax.devices()[1]))
    with pytest.raises(ValueError, match="device_put: .* was given in the body of a shard_map"):
        put(X)
    with pytest.warns(UserWarning, match="device_put to .* has no effect"):
        np.testing.assert_array_equal(mjax.jit(put)(X), X)
