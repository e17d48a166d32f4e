"""Calls that both libraries refuse, with exceptions of the same class."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import mjax
from tests.differential.compare import facts

_V = np.arange(3, dtype=np.float32)


def _asked(m: Any, name: str, through: str = "jit") -> Any:
    """An attribute of a tracer."""
    return getattr(m, through)(lambda x: getattr(x, name))(_V if through == "vmap" else 1.0)


def _counted(m: Any, length: Any) -> Any:
    return m.lax.scan(lambda c, _: (c + 1, c), 0, None, length=length)


def _donated(m: Any, use: Any) -> Any:
    return use(m.jit(lambda x, y: x + y, donate_argnums=0), m.numpy.arange(3.0))


CALLS = {
    "asarray(token)": lambda m: m.numpy.asarray(m.lax.create_token()),
    "sin(token)": lambda m: m.numpy.sin(m.lax.create_token()),
    "array([token])": lambda m: m.numpy.array([m.lax.create_token()]),
    "stack(token)": lambda m: m.numpy.stack([m.lax.create_token()] * 2),
    "set(token)": lambda m: m.numpy.arange(3).at[0].set(m.lax.create_token()),
    "sin(token) in jit": lambda m: m.jit(m.numpy.sin)(m.lax.create_token()),
    "result_type(token)": lambda m: m.numpy.result_type(m.lax.create_token()),
    "token + 1": lambda m: m.lax.create_token() + 1,
    "committed of a tracer": lambda m: _asked(m, "committed"),
    "committed of a tracer of grad": lambda m: _asked(m, "committed", "grad"),
    "committed of a tracer of vmap": lambda m: _asked(m, "committed", "vmap"),
    "sharding of a tracer": lambda m: _asked(m, "sharding"),
    "block_until_ready of a tracer": lambda m: _asked(m, "block_until_ready"),
    "copy_to_host_async of a tracer": lambda m: _asked(m, "copy_to_host_async"),
    "int32('1.5')": lambda m: m.numpy.int32("1.5"),
    "float32('x')": lambda m: m.numpy.float32("x"),
    "int8('300')": lambda m: m.numpy.int8("300"),
    "bfloat16('2')": lambda m: m.numpy.bfloat16("2"),
    "asarray('1')": lambda m: m.numpy.asarray("1"),
    "array(['1'])": lambda m: m.numpy.array(["1"]),
    "donated and given twice": lambda m: _donated(m, lambda f, x: f(x, x)),
    "donated before": lambda m: _donated(m, lambda f, x: (f(x, 1.0), f(x, 1.0))),
    "donated before, in jnp": lambda m: _donated(m, lambda f, x: (f(x, 1.0), x + 1)),
    "donated before, read": lambda m: _donated(m, lambda f, x: (f(x, 1.0), np.asarray(x))),
    "scan, traced length": lambda m: m.jit(lambda n: _counted(m, n))(2),
    "take by floats": lambda m: m.numpy.take(_V, 1.0),
    "take_along_axis by floats": lambda m: m.numpy.take_along_axis(_V, _V, 0),
    "scan, list as length": lambda m: _counted(m, [2]),
}


@pytest.mark.parametrize("name", CALLS)
def test_refused(name: str) -> None:
    with pytest.raises(Exception) as theirs:
        CALLS[name](jax)
    own = getattr(mjax.errors, theirs.type.__name__, None)
    public = own or next(c for c in theirs.type.__mro__ if c.__module__ == "builtins")
    with pytest.raises(public) as ours:
        CALLS[name](mjax)
    assert str(ours.value)
    frames = [str(entry.path) for entry in ours.traceback]
    assert not any("mjax/_" in path for path in frames), frames


def test_arrays_of_jax_are_converted_as_messages_say() -> None:
    theirs, key = jax.numpy.arange(3.0), jax.random.key(0)
    for f in (mjax.numpy.sin, mjax.jit(lambda x: x), mjax.device_put, lambda x: mjax.numpy.stack(
            [x, x])):
        with pytest.raises(TypeError, match=r"Convert it with mjax.numpy.asarray\."):
            f(theirs)
        with pytest.raises(TypeError, match=r"mjax.random.wrap_key_data\(numpy.asarray\(data"):
            f(key)
    for convert in (mjax.numpy.asarray, mjax.numpy.array):
        assert type(convert(theirs)) is type(mjax.numpy.ones(3))
        np.testing.assert_array_equal(convert(theirs), theirs)
        with pytest.raises(TypeError, match="wrap_key_data"):
            convert(key)
    ours = mjax.random.wrap_key_data(np.asarray(jax.random.key_data(key)))
    assert mjax.random.bits(ours) == np.asarray(jax.random.bits(key))


def test_what_tracers_lack_is_said() -> None:
    with pytest.raises(AttributeError, match=r"block_until_ready.*\n.*\n.*outside of the traced"):
        mjax.jit(lambda x: x.block_until_ready())(1.0)
    assert not mjax.jit(lambda x: x + hasattr(x, "sharding"))(0)


def test_float0_is_numpys() -> None:
    zeros = np.zeros(2, jax.dtypes.float0)
    for m in (mjax, jax):
        n = m.numpy
        for x in (n.asarray(zeros), n.array(zeros), m.device_put(zeros), m.vmap(lambda x: x)(zeros),
                  m.device_put(zeros, m.devices()[0]), n.zeros(2, zeros.dtype), n.zeros_like(zeros),
                  n.full((2,), 0, zeros.dtype), n.copy(zeros), m.jit(lambda x: x)(zeros)):
            assert isinstance(x, np.ndarray) and x.dtype == zeros.dtype and x.shape == (2,)
            assert not isinstance(x, m.Array)


def test_vectorize_gives_arrays_of_its_own() -> None:
    for m in (mjax, jax):
        x = m.numpy.arange(3.0)
        for given in (m.numpy.vectorize(lambda x: x)(x), m.numpy.vectorize(
                lambda x, y: (x, y), signature="(n),()->(n),()")(x, 2.0)[0]):
            given.delete()
            assert not x.is_deleted()


@pytest.mark.parametrize("x64", [False, True])
def test_stop_gradient_gives_what_arrays_hold(x64: bool) -> None:
    for value in (np.ones(2), np.float64(2), np.arange(3), np.int64(3), np.ones(2, "c16")):
        with mjax.enable_x64(x64), jax.enable_x64(x64):
            ours, theirs = mjax.lax.stop_gradient(value), jax.lax.stop_gradient(value)
        assert facts(ours)[:2] == facts(theirs)[:2]
