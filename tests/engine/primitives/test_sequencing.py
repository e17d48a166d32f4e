"""Tokens as values, and uses that give nothing."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax_ext.core import AbstractToken
from mjaxlib_shim import foreign_gates


def after(x):
    """`x`, with two unused tokens on the way."""
    lax.after_all(lax.create_token(x), lax.create_token())
    return jnp.sin(x)


def sunk(x, **options):
    lax.dce_sink({"x": x, "more": [x + 1, None]}, **options)
    return jnp.sin(x)


def text_of(f, *args):
    return " ".join(str(mjax.make_jaxpr(f)(*args)).split())


def test_tokens_among_what_loops_hand_on_and_calls_donate():
    token, x = lax.create_token(), jnp.arange(3.0)
    carried, _ = lax.scan(lambda c, a: (c, a), token, x)
    pair = lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0], c[1] + 1), (token, 0))
    kept, doubled = mjax.jit(lambda t, a: (t, a * 2), donate_argnums=(0, 1))(token, x)
    for given in (carried, pair[0], lax.fori_loop(0, 3, lambda i, c: c, token), kept):
        assert type(given) is type(token)
    assert pair[1] == 3 and doubled.tolist() == [0, 2, 4]
    assert x.is_deleted()


def test_tokens_are_values_of_programs():
    token = lax.create_token()
    assert type(mjax.typeof(token)) is AbstractToken and mjax.typeof(token) is AbstractToken()
    assert pickle.loads(pickle.dumps(mjax.typeof(token))) is AbstractToken()
    for given in (lax.after_all(), lax.after_all(token, token), lax.create_token(1.0),
                  mjax.jit(lambda t: lax.after_all(t, t))(token), mjax.device_put(token),
                  mjax.jit(lambda x: (lax.create_token(), x))(1)[0], mjax.jit(lambda t: t)(token)):
        assert type(given) is type(token)
        assert given.block_until_ready() is None
    assert mjax.block_until_ready([token]) == [token]
    assert mjax.eval_shape(lax.after_all, token) is AbstractToken()
    assert text_of(lax.after_all, token) == (
        "{ lambda ; a:Tok. let b:Tok = after_all a in (b,) }")
    assert not isinstance(token, mjax.Array)
    kinds = []
    mjax.eval_shape(lambda t, x: kinds.extend(isinstance(v, mjax.Array) for v in (t, x)), token, 1)
    assert kinds == [False, True]
    assert mjax.jit(lambda t, x: (lax.after_all(t), x + 1)[1])(token, 2) == 3
    with pytest.raises(TypeError, match=r"argument 1 has the type float32\[3\]"):
        lax.after_all(token, jnp.ones(3))
    with pytest.raises(TypeError):
        lax.after_all([token])


def test_tokens_in_control_flow():
    start = lax.create_token()
    token, numbers = lax.scan(lambda t, x: (lax.after_all(t), x + 1), start, jnp.arange(3))
    assert type(token) is type(start)
    assert numbers.tolist() == [1, 2, 3]
    token, count = lax.while_loop(lambda c: c[1] < 3, lambda c: (lax.after_all(c[0]), c[1] + 1),
                                  (start, 0))
    assert type(token) is type(start)
    assert count == 3
    branches = (lax.after_all, lambda t: lax.create_token())
    assert type(mjax.jit(lambda p, t: lax.cond(p, *branches, t))(True, start)) is type(start)


def test_transformations_leave_tokens_alone():
    start = lax.create_token()
    doubled = mjax.vmap(lambda x: (lax.after_all(start), x * 2)[1])(jnp.arange(3))
    assert doubled.tolist() == [0, 2, 4]
    token, doubled = mjax.vmap(lambda t, x: (lax.after_all(t), x * 2), in_axes=(None, 0),
                               out_axes=(None, 0))(start, jnp.arange(2))
    assert type(token) is type(start)
    assert doubled.tolist() == [0, 2]
    token, pull = mjax.vjp(lambda x: (lax.after_all(start), x * x), 2.0)[0]
    assert type(token) is type(start)
    xs = jnp.arange(3.0)
    for f in (after, mjax.jit(after), mjax.checkpoint(after)):
        np.testing.assert_allclose(mjax.grad(f)(2.0), np.cos(2.0), rtol=1e-6)
        np.testing.assert_allclose(mjax.jvp(f, (2.0,), (1.0,)), [np.sin(2), np.cos(2)], rtol=1e-6)
        np.testing.assert_allclose(mjax.vmap(mjax.grad(f))(xs), np.cos(xs), rtol=1e-6)
        np.testing.assert_allclose(mjax.hessian(f)(2.0), -np.sin(2.0), rtol=1e-6)
    out, pull = mjax.vjp(lambda c: lax.scan(lambda c, x: (after(c) * x, x), c, xs + 1)[0], 1.0)
    assert np.isfinite(pull(out)[0])
    for refused in (lambda: mjax.vmap(lax.after_all)(start),
                    lambda: mjax.vmap(lax.create_token)(xs),
                    lambda: mjax.jvp(lax.create_token, (1.0,), (1.0,)),
                    lambda: lax.scan(lambda c, x: (c, lax.create_token()), 0, xs)):
        with pytest.raises(TypeError, match="a token does not have"):
            refused()


def test_tokens_are_not_arrays():
    token = lax.create_token()
    for device in (mjax.devices()[-1], mjax.NamedSharding(mjax.make_mesh((1,), "x"), mjax.P())):
        moved = mjax.device_put((token, 1), device)
        assert type(moved[0]) is type(token)
        assert mjax.jit(lambda t, x: (lax.after_all(t), x + 1)[1])(*moved) == 2
    assert copy.copy(token) is copy.deepcopy(token) is token
    assert not hasattr(token, "shape") and not hasattr(mjax.typeof(token), "dtype")
    for f in (jnp.asarray, jnp.sin, lambda t: jnp.array([t]), mjax.jit(jnp.sin), jnp.shape,
              jnp.result_type, lax.dtype, lambda t: mjax.jvp(lambda t: t, (t,), (1.0,)),
              pickle.dumps):
        with pytest.raises(TypeError, match="(?i)token"):
            f(token)


def test_a_token_of_several_devices():
    mesh = mjax.make_mesh((len(mjax.devices()),), ("x",))
    x = mjax.device_put(jnp.arange(8.0), mjax.NamedSharding(mesh, mjax.P("x")))
    np.testing.assert_allclose(mjax.jit(after)(x), np.sin(np.arange(8.0)), rtol=1e-6)


def test_sinks_stay():
    assert text_of(lax.dce_sink, jnp.float32(1)) == (
        "{ lambda ; a:f32[]. let dce_sink[prevent_mlir_dce=False] a in () : {NoDCEEffect} }")
    assert lax.dce_sink(1.0) is lax.dce_sink(None) is None
    lax.dce_sink(1.0, prevent_mlir_dce=True)  # without a program there is nothing to drop
    with pytest.raises(TypeError):
        lax.dce_sink("a")
    assert mjax.jit(sunk).lower(1.0).as_text().count("stablehlo.add") == 1
    count = lambda f, *args: text_of(f, *args).count("dce_sink")
    xs = jnp.arange(3.0)
    assert count(sunk, 1.0) == count(mjax.vmap(sunk), xs) == count(mjax.grad(sunk), 1.0) == 2
    assert count(lambda x: mjax.jvp(sunk, (x,), (x,)), 1.0) == 4
    assert count(lambda x: mjax.jvp(sunk, (x,), (1.0,)), 1.0) == 4
    assert count(mjax.vmap(mjax.grad(sunk)), xs) == 2
    assert count(lambda x: mjax.jit(sunk)(x), 1.0) == 2
    scanned = lambda c: lax.scan(lambda c, x: (sunk(c) * x, x), c, xs)[0]
    assert count(scanned, 1.0) == 2
    for f in (sunk, mjax.jit(sunk), mjax.checkpoint(sunk)):
        np.testing.assert_allclose(mjax.grad(f)(2.0), np.cos(2.0), rtol=1e-6)
        np.testing.assert_allclose(mjax.vmap(mjax.grad(f))(xs), np.cos(xs), rtol=1e-6)
        np.testing.assert_allclose(mjax.linearize(f, 2.0)[1](1.0), np.cos(2.0), rtol=1e-6)
    linear = mjax.linear_transpose(lambda x: (lax.dce_sink(x), 2 * x)[1], 1.0)
    assert linear(1.0)[0] == 2
    assert mjax.jit(lambda k: lax.dce_sink(k))(mjax.random.key(0)) is None
    assert lax.while_loop(lambda c: (lax.dce_sink(c), c < 3)[1], lambda c: c + 1, 0) == 3


def test_sinks_in_compiled_programs():
    f = mjax.jit(lambda x: sunk(x, prevent_mlir_dce=True))
    if not foreign_gates.UNREAD_USES.open:
        with pytest.raises(NotImplementedError, match="jaxlib 0.10.0"):
            f(1.0)
        return
    np.testing.assert_allclose(f(1.0), np.sin(1.0), rtol=1e-6)
    assert f.lower(1.0).compile().as_text().count('"dce_sink"') == 2
