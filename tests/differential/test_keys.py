"""Arrays of keys: what holds for any array holds for them, as in jax."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import numpy as np
import pytest

import mjax

pytestmark = pytest.mark.filterwarnings("ignore")

#: Expressions in a key `k`, another `k2`, and three keys `ks`.
EXPRESSIONS = """
    pickle.loads(pickle.dumps(k))
    pickle.loads(pickle.dumps(ks))
    copy.deepcopy(ks)
    copy.copy(ks)
    repr(k)
    repr(ks)
    str(k)
    str(ks)
    str(ks[:0])
    f"{k}"
    m.device_get(k)
    m.device_get({"a":ks})
    k == k2
    k == k
    ks == k
    ks != k
    ks == ks[::-1]
    lax.eq(k, k2)
    lax.ne(ks, ks)
    lax.lt(k, k2)
    k < k2
    k == 3
    k != 3
    k == np.zeros(2, 'uint32')
    k + k
    -k
    jnp.equal(k, k2)
    jnp.not_equal(ks, k)
    jnp.array_equal(ks, ks)
    jnp.zeros_like(k)
    jnp.zeros_like(ks)
    jnp.ones_like(ks)
    jnp.empty_like(ks)
    jnp.full_like(ks, k)
    jnp.full_like(ks, 3)
    jnp.zeros((2,), k.dtype)
    jnp.zeros((), k.dtype)
    jnp.ones((2,), k.dtype)
    jnp.empty((2,), k.dtype)
    jnp.full((2,), k)
    jnp.full((2,), 0, k.dtype)
    lax.full((2,), k)
    lax.full((2,), k, k.dtype)
    lax.full((2,), 0, k.dtype)
    lax.full_like(ks, 0)
    lax.full_like(ks, k)
    jnp.where(True, k, k2)
    jnp.where(np.array([True, False, True]), ks, k)
    jnp.where(np.array([True, False, True]), ks, 0)
    jnp.where(np.array([True, False, True]), ks, k2)
    lax.select(np.array([True, False, True]), ks, ks)
    jnp.concatenate([ks, ks])
    jnp.concatenate([ks, np.zeros(3)])
    jnp.stack([k, k2])
    jnp.hstack([ks, ks])
    jnp.vstack([ks, ks])
    jnp.append(ks, k)
    ks[0]
    ks[1:]
    ks[np.array([0, 2])]
    ks[np.array([True, False, True])]
    ks[...]
    ks[None]
    ks[-1]
    ks[5]
    ks.at[0].set(k)
    ks.at[1:].set(k)
    ks.at[np.array([0, 1])].set(ks[:2])
    ks.at[0].add(k)
    ks.at[0].get()
    ks.at[0].set(3)
    ks.at[np.array([True, False, True])].set(k)
    ks.at[7].get(mode='fill')
    ks.at[7].get(mode='fill', fill_value=k)
    jnp.array([k, k2])
    jnp.asarray(k)
    jnp.asarray([k])
    jnp.array(k)
    jnp.array(k, copy=True)
    jnp.array(ks, dtype=k.dtype)
    jnp.asarray(k, dtype='float32')
    jnp.reshape(ks, (3, 1))
    ks.reshape(3, 1)
    ks.T
    ks.ravel()
    ks.flatten()
    jnp.squeeze(ks[None])
    jnp.expand_dims(ks, 0)
    jnp.broadcast_to(k, (3,))
    jnp.tile(ks, 2)
    jnp.repeat(ks, 2)
    jnp.roll(ks, 1)
    jnp.flip(ks)
    jnp.take(ks, np.array([0, 1]))
    jnp.take(ks, 5)
    jnp.moveaxis(ks[None], 0, 1)
    jnp.swapaxes(ks[None], 0, 1)
    jnp.split(ks, 3)
    jnp.unstack(ks)
    list(ks)
    jnp.pad(ks, 1)
    jnp.sort(ks)
    jnp.sum(ks)
    jnp.ravel(ks)
    jnp.atleast_1d(k)
    jnp.ndim(ks)
    jnp.shape(ks)
    jnp.size(ks)
    jnp.result_type(ks)
    jnp.result_type(ks, ks)
    jnp.result_type(ks, np.zeros(2))
    k.itemsize
    k.nbytes
    ks.nbytes
    ks.size
    len(ks)
    len(k)
    bool(k)
    int(k)
    k.dtype.name
    k.dtype.itemsize
    np.asarray(k)
    np.array(ks)
    k in ks
    len(k.devices())
    k.block_until_ready()
    k.is_deleted()
    m.device_put(k)
    m.jit(lambda a: a)(k)
    m.jit(lambda a, b: a==b)(k, k2)
    m.vmap(lambda a: a==k)(ks)
    m.vmap(lambda a: jnp.where(a==k, a, k2))(ks)
    m.jit(lambda a: jnp.zeros_like(a))(ks)
    m.jit(lambda a: a.at[0].set(k))(ks)
    m.grad(lambda x: x*(k==k))(1.)
    m.eval_shape(lambda: jnp.zeros((2,), k.dtype))
    lax.broadcast(k, (2,))
    lax.dynamic_slice(ks, (1,), (2,))
    lax.dynamic_update_slice(ks, ks[:1], (1,))
    lax.slice(ks, (0,), (2,))
    lax.rev(ks, (0,))
    lax.concatenate([ks, ks], 0)
    lax.squeeze(ks[None], (0,))
    lax.dynamic_index_in_dim(ks, 1)
    lax.index_take(ks, (np.array([0, 1]),), (0,))
    lax.sort(ks)
    lax.iota(k.dtype, 3)
    lax.convert_element_type(ks, k.dtype)
    lax.bitcast_convert_type(ks, np.uint32)
    lax.stop_gradient(k)
    jnp.issubdtype(k.dtype, m.dtypes.prng_key)
    jnp.issubdtype(k.dtype, m.dtypes.extended)
    jnp.diagflat(ks)
    jnp.choose(np.array([0, 1, 0]), [ks, ks])
    jnp.select([np.array([True, False, True])], [ks], k)
    jnp.delete(ks, 0)
    jnp.insert(ks, 0, k)
    jnp.unique(ks)
    jnp.isnan(ks)
    jnp.block([ks, ks])
    jnp.copy(ks)
    jnp.meshgrid(ks, ks)
    jnp.broadcast_arrays(ks, k)
    jnp.take_along_axis(ks, np.array([0, 1]), 0)
    jnp.nonzero(ks)
    jnp.isscalar(k)
    jnp.iscomplexobj(k)
    jnp.compress(np.array([True, False, True]), ks)
    jnp.extract(np.array([True, False, True]), ks)
    jnp.place(ks, np.array([True, False, True]), k, inplace=False)
    jnp.argsort(ks)
    jnp.rot90(jnp.stack([ks, ks]))
    jnp.dstack([ks, ks])
    jnp.column_stack([ks, ks])
    jnp.resize(ks, (4,))
    jnp.fill_diagonal(jnp.stack([ks, ks, ks]), k, inplace=False)
    jnp.put(ks, 0, k, inplace=False)
    m.jvp(lambda x: jnp.zeros_like(k), (1.,), (1.,))[0]
    m.random.key(0) == m.random.key(0, impl='rbg')
    jnp.concatenate([ks, m.random.split(m.random.key(0, impl='rbg'))])
    jnp.where(True, k, m.random.key(0, impl='rbg'))
    """.strip().splitlines()


@pytest.mark.parametrize("text", [t.strip() for t in EXPRESSIONS])
def test_expressions(text: str) -> None:
    ours, theirs = (outcome(m, text) for m in (mjax, jax))
    if isinstance(theirs, Refusal):
        assert isinstance(ours, Refusal)
    else:
        assert ours == theirs


class Refusal:
    """That an error was raised."""


def outcome(m: Any, text: str) -> Any:
    """The result as a tree of Python values, or that there is none."""
    key = m.random.key
    names = {"m": m, "jnp": m.numpy, "lax": m.lax, "np": np, "copy": copy, "pickle": pickle,
             "k": key(0), "k2": key(1), "ks": m.random.split(key(0), 3)}
    try:
        return plain(m, eval(text, names))
    except Exception:
        return Refusal()


def plain(m: Any, x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [plain(m, y) for y in x]
    if isinstance(x, dict):
        return {k: plain(m, v) for k, v in x.items()}
    if not hasattr(x, "dtype"):
        return x if isinstance(x, (bool, int, str)) else str(x)
    numbers = m.random.key_data(x) if str(x.dtype).startswith("key") else x
    return str(x.dtype), list(x.shape), np.asarray(numbers).tolist()
