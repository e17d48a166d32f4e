"""Functions of lax on values that are not arrays yet, and where there is nothing to do."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_close, facts

#: Expressions in the NumPy arrays `x` and `y`.
EXPRESSIONS = """
    lax.full((), 1)
    lax.full((), 1.5)
    lax.full((), np.float32(1))
    lax.full((), np.float64(1))
    lax.full((), jnp.float32(1))
    lax.full((2,), jnp.float32(1))
    lax.full((2,), 1)
    lax.full((2,), 1, 'float32')
    lax.full((2,), 1, float)
    lax.full((2,), 1.7, int)
    lax.full((2,), True)
    lax.full((2,), 1, 'float64')
    lax.full((), 1, 'float32')
    lax.full((), 1, 'float64')
    lax.full((0,), 1)
    lax.full((2,), 1j, 'float32')
    lax.full((2,), np.ones(1))
    lax.full((2,), np.ones(2))
    lax.full((2,), -1, 'uint8')
    lax.full((2,), m.numpy.asarray(1.0))
    lax.full(2, 1)
    lax.full((-1,), 1)
    lax.full((2,), None)
    lax.full((2,), 'a')
    lax.full_like(np.ones(3), 1)
    lax.full_like(jnp.ones(3, 'int32'), 1.5)
    lax.full_like(1.0, 2)
    lax.full_like(jnp.ones(3), 1, shape=(2,))
    lax.full_like(jnp.ones(3), 1, dtype='int8')
    lax.full_like(jnp.asarray(1.0), 1)
    lax.full_like(jnp.float32(1), jnp.float32(1))
    lax.broadcast(1, (2,))
    lax.broadcast_in_dim(1., (2,), ())
    lax.broadcast_in_dim(1., (), ())
    lax.broadcast_in_dim(np.float32(1.), (), ())
    lax.broadcast_in_dim(jnp.float32(1.), (), ())
    lax.broadcast_in_dim(x, (2,), (0,))
    lax.broadcast(x, ())
    lax.expand_dims(x, ())
    lax.squeeze(x, ())
    lax.squeeze(1., ())
    lax.reshape(x, (2,))
    lax.reshape(1., ())
    lax.transpose(y, (0, 1))
    lax.transpose(1., ())
    lax.reduce_sum(y, ())
    lax.reduce_sum(1., ())
    lax.reduce_max(y, ())
    lax.reduce_prod(y, ())
    lax.reduce_and(np.ones((2, 2), 'bool'), ())
    lax.reduce_or(np.ones((2, 2), 'bool'), ())
    lax.reduce_min(y, ())
    lax.integer_pow(y, 1)
    lax.integer_pow(y, 0)
    lax.integer_pow(2., 1)
    lax.integer_pow(2, 1)
    lax.integer_pow(jnp.float32(2), 0)
    lax.convert_element_type(1., 'float32')
    lax.convert_element_type(np.float32(1), 'float32')
    lax.convert_element_type(x, 'float32')
    lax.convert_element_type(jnp.ones(2, 'f'), 'float32')
    lax.rev(x, ())
    lax.pad(x, np.float32(0), [(0, 0, 0)])
    lax.slice(x, (0,), (2,))
    lax.concatenate([x], 0)
    lax.concatenate([1.], 0)
    lax.collapse(y, 0, 1)
    lax.conj(1.)
    lax.conj(x)
    lax.conj(jnp.ones(2, 'f'))
    lax.conj(1)
    lax.conj(True)
    lax.conj(np.ones(2, 'int32'))
    lax.real(x)
    lax.imag(x)
    lax.real(1.0)
    lax.imag(1.0)
    lax.abs(np.ones(2, 'uint8'))
    lax.abs(True)
    lax.sign(np.ones(2, 'uint8'))
    lax.sign(True)
    lax.neg(np.ones(2, 'uint8'))
    lax.neg(True)
    lax.select(True, 1., 2.)
    lax.select(True, np.ones(2), np.ones(2))
    lax.expand_dims(1., (0,))
    lax.cumsum(1.)
    lax.argmax(1., 0, 'int32')
    lax.sort(1.)
    lax.sort(x)
    lax.dynamic_slice(x, (0,), (2,))
    lax.slice_in_dim(x, 0, 2)
    lax.slice_in_dim(x, 0, None)
    lax.bitcast_convert_type(x, 'float32')
    lax.bitcast_convert_type(1., 'float32')
    lax.reduce_precision(1., 8, 23)
    lax.square(np.float32(2))
    lax.square(2)
    lax.broadcast_shapes((1,), (2,))
    lax.broadcast_to_rank(x, 2)
    lax.index_in_dim(x, 0)
    lax.split(x, (2,))[0]
    lax.batch_matmul(np.ones((1, 1), 'f'), np.ones((1, 1), 'f'))
    lax.reduce_xor(np.ones((2, 2), 'int32'), ())
    lax.tile(x, (1,))
    lax.full((), jnp.float32(1), 'int32')
    lax.full((2,), jnp.float32(1), 'int32')
    lax.full((2,), jnp.asarray(1.0), 'float32')
    lax.clamp(-1j, 2 + 1j, 3 - 1j)
    lax.clamp(2.0 + 0j, 1 + 1j, 3 + 1j)
    m.vjp(lax.conj, 2.0)[1](1 + 2j)[0]
    m.vjp(lax.conj, 1 + 1j)[1](1 + 2j)[0]
    m.jvp(lax.conj, (2.0,), (3.0,))[1]
    m.vmap(lax.conj)(x)
    """.strip().splitlines()
#: jax converts what is concrete without an equation.
OTHER_EQUATIONS = {
    "lax.full((), jnp.float32(1), 'int32')", "lax.full((2,), jnp.float32(1), 'int32')",
    "lax.full((2,), jnp.asarray(1.0), 'float32')"}


def result(m: Any, text: str) -> Any:
    names = {"m": m, "jnp": m.numpy, "lax": m.lax, "np": np, "x": np.ones(2, "f"),
             "y": np.ones((2, 2), "f")}
    return eval(text, names)


@pytest.mark.parametrize("text", [t.strip() for t in EXPRESSIONS])
def test_expressions(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = result(jax, text)
        except Exception:
            with pytest.raises((TypeError, ValueError, AttributeError)):
                result(mjax, text)
            return
        ours = result(mjax, text)
        if not isinstance(theirs, jax.Array):
            assert ours == theirs
            return
        assert isinstance(ours, mjax.Array)
        assert facts(ours) == facts(theirs)
        assert_close(ours, theirs, 1e-6, text)
        if text not in OTHER_EQUATIONS:
            assert equations(mjax, text) == equations(jax, text)


def equations(m: Any, text: str) -> Any:
    jaxpr = m.make_jaxpr(lambda: result(m, text))().jaxpr
    return [e.primitive.name for e in jaxpr.eqns], [
        (v.aval.shape, str(v.aval.dtype), v.aval.weak_type) for v in jaxpr.outvars]


def test_tokens_and_sinks():
    def told(m, lax):
        def f(x):
            lax.dce_sink({"x": x, "y": x + 1})
            lax.after_all(lax.create_token(x), lax.create_token())
            return m.numpy.sin(x)

        text = lambda g, *args: [
            eqn.primitive.name for eqn in m.make_jaxpr(g)(*args).jaxpr.eqns]
        token, x = lax.create_token(), np.float32(2)
        return [text(f, x), text(m.grad(f), x), text(lambda x: m.jvp(f, (x,), (x,)), x),
                text(m.jit(lambda x: lax.after_all(x)), token), str(m.typeof(token)),
                text(lambda t: lax.after_all(t), token), float(m.jit(m.grad(f))(x)),
                repr(m.eval_shape(lax.after_all, token)), text(lambda: lax.after_all()),
                m.vmap(lambda x: (lax.create_token(), x)[1])(np.arange(3)).tolist()]

    assert told(mjax, mjax.lax) == told(jax, jax.lax)
