"""inspect_array_sharding: what it is told, when, and under which transformations."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from mjax.sharding import PartitionSpec as P

DEVICES = mjax.devices()
MESH = Mesh(np.array(DEVICES).reshape(4, 2), ("x", "y"))
X = np.arange(64, dtype=np.float32).reshape(8, 8)
ALONE = SingleDeviceSharding(DEVICES[0])


def named(*spec, mesh=MESH):
    return NamedSharding(mesh, P(*spec))


@pytest.fixture
def x():
    return mjax.device_put(X, named("x", "y"))


@pytest.fixture
def seen():
    return []


def asks(seen, compute=lambda x: (x @ x, (x @ x).sum(0))):
    def f(x):
        for value in compute(x):
            mjax.debug.inspect_array_sharding(value, callback=seen.append)
        return x + 1

    return f


def test_when_it_is_compiled_and_not_when_it_runs(x, seen):
    f = mjax.jit(asks(seen))
    lowered = f.lower(x)
    assert "InspectSharding" in lowered.as_text() and not seen
    np.testing.assert_array_equal(f(x), X + 1)
    assert seen == [named("x", "y"), named("y")]
    np.testing.assert_array_equal(f(2 * x), 2 * X + 1)
    assert len(seen) == 2
    np.testing.assert_array_equal(lowered.compile()(x), X + 1)
    assert seen == 2 * [named("x", "y"), named("y")]
    np.testing.assert_array_equal(f(mjax.device_put(X, named("y"))), X + 1)
    assert seen[4:] == [named("y"), named()]


def test_what_xla_chose_is_what_results_say(x, seen):
    out = mjax.jit(lambda x: (asks(seen, lambda x: [x.T])(x), x.T)[1])(x)
    assert seen == [out.sharding] == [named("y", "x")]
    turned = mjax.jit(lambda x: asks(seen, lambda x: [x * 2])(
        lax.with_sharding_constraint(x, named(None, ("y", "x")))))
    turned(x)
    assert seen[1:] == [named(None, ("y", "x"))]


def test_arrays_are_told_of_at_once(x, seen):
    asks(seen)(x)
    assert seen == [named("x", "y"), named("y")]
    with mjax.disable_jit():
        mjax.jit(asks(seen))(x)
    assert len(seen) == 4
    pending = mjax.jit(lambda x: mjax.pure_callback(lambda x: x, x, x))(jnp.ones(3))
    mjax.debug.inspect_array_sharding(pending, callback=seen.append)
    assert seen[4] == ALONE


def test_programs_on_one_device(seen):
    np.testing.assert_array_equal(mjax.jit(asks(seen))(X), X + 1)
    assert seen == [ALONE, ALONE]
    mesh = Mesh(np.array(DEVICES[:1]), "o")
    mjax.jit(asks(seen))(mjax.device_put(X, named("o", mesh=mesh)))
    assert seen[2:] == [named(mesh=mesh)] * 2


@pytest.mark.parametrize("jitted", [False, True])
def test_transformations(x, seen, jitted):
    outer = mjax.jit if jitted else lambda f: f
    f = asks(seen)
    where = [named("x", "y"), named("y")]
    gradient = outer(mjax.grad(lambda x: f(x).sum()))
    np.testing.assert_array_equal(gradient(x), np.ones_like(X))
    outer(mjax.grad(mjax.checkpoint(lambda x: jnp.sin(f(x)).sum())))(x)
    outer(lambda x: mjax.jvp(f, (x,), (x,)))(x)
    outer(lambda x: mjax.linearize(f, x)[0])(x)
    assert seen == 4 * where
    seen.clear()
    rows = outer(mjax.vmap(lambda row: asks(seen, lambda row: [row])(row)))
    np.testing.assert_array_equal(rows(x), X + 1)
    assert seen == [named("x", "y")]


def test_control_flow(x, seen):
    def body(c, _):
        return asks(seen, lambda c: [c])(c), None

    out = mjax.jit(lambda x: lax.scan(body, x, length=3)[0])(x)
    np.testing.assert_array_equal(out, X + 3)
    assert seen == [named("x", "y")]
    seen.clear()
    mjax.jit(lambda x: lax.cond(x[0, 0] > 0, asks(seen, lambda x: [x, x.T]), lambda x: x, x))(x)
    assert seen == [named("x", "y"), named("y", "x")]


def test_keys(seen):
    keys = mjax.device_put(mjax.random.split(mjax.random.key(0), 8), named("x"))
    mjax.jit(lambda k: mjax.debug.inspect_array_sharding(k, callback=seen.append))(keys)
    assert seen == [named("x")]


# ---- in maps ---------------------------------------------------------------------------


def mapped(f, spec, axes=None, mesh=MESH):
    names = {} if axes is None else {"axis_names": axes}
    return mjax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, **names)


def test_in_a_map_over_all_axes(x, seen):
    for run in (mjax.jit(mapped(asks(seen, lambda x: [x]), P("x", "y"))),
                mapped(asks(seen, lambda x: [x]), P("x", "y"))):
        np.testing.assert_array_equal(run(x), X + 1)
    assert seen == [named()] * 2


def test_in_a_map_over_some_axes(x, seen, caplog):
    mjax.jit(mapped(asks(seen, lambda x: [x, x.sum(1)]), P("x"), {"x"}))(x)
    assert seen == [named(None, "y"), named()] and not caplog.records
    mesh = Mesh(np.array(DEVICES).reshape(2, 2, 2), ("a", "b", "c"))
    cut = mjax.device_put(X, named("a", "c", mesh=mesh))
    with caplog.at_level(logging.WARNING, "mjax"):
        mjax.jit(mapped(asks(seen, lambda x: [x]), P("a"), {"a"}, mesh))(cut)
    assert seen[2] in (named(None, "b", mesh=mesh), named(None, "c", mesh=mesh))
    assert "does not tell along which of the axes ('b', 'c')" in caplog.text


@pytest.mark.parametrize(("shape", "where", "compute"), [
    ((2, 2, 2), ("c", "b"), lambda x: x),  # or ('b', 'c')
    ((1, 2, 4), "c", lambda x: x.reshape(-1, 2, 4).sum(2)),  # b, or half of c
], ids=["order", "part"])
def test_what_is_not_known_in_a_map_over_some_axes(shape, where, compute, seen, caplog):
    mesh = Mesh(np.array(DEVICES).reshape(shape), ("a", "b", "c"))
    x = mjax.device_put(X, named("a", where, mesh=mesh))
    with caplog.at_level(logging.WARNING, "mjax"):
        mjax.jit(mapped(lambda x: asks(seen, lambda x: [compute(x)])(x), P("a"), {"a"}, mesh))(x)
    assert len(seen) == 1 and "is taken, and may be wrong" in caplog.text


# ---- what may go wrong -----------------------------------------------------------------


def test_what_it_raises(x):
    f = mjax.jit(lambda x: mjax.debug.inspect_array_sharding(x * 2, callback=lambda s: 1 / 0))
    for value in (x, X):
        for _ in range(2):  # what failed is not kept
            with pytest.raises(ZeroDivisionError):
                f(value)


def test_what_was_told_is_not_told_again(x, seen):
    def once(sharding):
        seen.append(sharding)
        if len(seen) == 1:
            raise KeyError("once")

    def f(x):
        mjax.debug.inspect_array_sharding(x * 2, callback=once)
        mjax.debug.inspect_array_sharding(x.T, callback=seen.append)
        return x + 1

    lowered = mjax.jit(f).lower(x)
    with pytest.raises(KeyError, match="once"):
        lowered.compile()
    lowered.compile()
    assert seen == [named("x", "y"), named("x", "y"), named("y", "x")]


@pytest.mark.parametrize("transform", [
    mjax.grad, lambda f: lambda x: mjax.jvp(f, (x,), (x,)), lambda f: mjax.vmap(f),
    lambda f: mjax.grad(mjax.checkpoint(f))], ids=["grad", "jvp", "vmap", "remat"])
def test_values_that_are_no_arrays_yet(transform, seen):
    def f(x):
        mjax.debug.inspect_array_sharding(x, callback=seen.append)
        return (x * 1.0).sum()

    transform(f)(X)
    assert set(seen) == {ALONE}


def test_bad_input(x):
    with pytest.raises(TypeError, match="a string"):
        mjax.debug.inspect_array_sharding("a string", callback=print)
    with pytest.raises(TypeError, match=r"inspect_array_sharding expects a function, got 3 of"):
        mjax.debug.inspect_array_sharding(x, callback=3)


def test_it_is_printed_and_kept():
    def show(sharding):
        pass

    jaxpr = mjax.make_jaxpr(
        lambda x: mjax.debug.inspect_array_sharding(x * 2, callback=show))(X)
    assert "inspect_sharding[callback=" in str(jaxpr) and "show]" in str(jaxpr)
