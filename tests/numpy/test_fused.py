"""Eager calls that run as one program."""

import numpy as np

import mjax
import mjax._numpy.fused
import mjax._numpy.ufunc
import mjax.numpy as jnp


def test_commonest_calls_find_what_the_first_call_made(monkeypatch):
    x, y, c = jnp.arange(12.0).reshape(3, 4), jnp.ones((3, 4)), jnp.eye(3, 4) > 0
    calls = [(lambda: jnp.where(c, x, y), np.where(c, x, y)),
             (lambda: x.mean(axis=0), np.mean(x, 0)), (lambda: x.mean(axis=1), np.mean(x, 1)),
             (lambda: jnp.mean(x, axis=None), np.mean(x)),
             (lambda: jnp.sum(x, axis=True), np.sum(x, 1)), (lambda: x.sum(axis=1), np.sum(x, 1)),
             (lambda: jnp.max(x, keepdims=True), np.max(x, keepdims=True)),
             (lambda: jnp.sum(x, where=c), np.sum(x, where=np.asarray(c))),
             (lambda: jnp.sum(np.eye(3), 0, keepdims=True), np.ones((1, 3))),
             (lambda: jnp.where(c, x, 2.5), np.where(c, x, 2.5)),
             (lambda: jnp.concatenate([x, y], axis=1), np.concatenate([x, y], 1)),
             (lambda: x.reshape(4, -1), np.reshape(x, (4, 3))),
             (lambda: x + 1.5, np.asarray(x) + 1.5), (lambda: -x, -np.asarray(x)),
             (lambda: jnp.add(x, np.ones(4)), np.asarray(x) + 1)]
    for call, expected in 2 * calls:  # a function for a form is written at its second call
        np.testing.assert_array_equal(call(), expected)

    def refuse(*args):
        raise AssertionError(args)

    monkeypatch.setattr(mjax._numpy.fused, "_key_of", refuse)
    monkeypatch.setattr(mjax._numpy.ufunc.Elementwise, "evaluated", refuse)
    for call, expected in calls:
        np.testing.assert_array_equal(call(), expected)


def test_ints_that_only_another_dtype_holds():
    x = jnp.array([1, 2**32 - 1], np.uint32)
    for _ in range(12):  # more often than forms of calls are looked for
        np.testing.assert_array_equal(jnp.full((2,), 2**32 - 1, np.uint32), [2**32 - 1] * 2)
        np.testing.assert_array_equal(jnp.minimum(x, 2**32 - 2), [1, 2**32 - 2])


def test_arguments_by_name_come_in_any_order():
    x, a, b = jnp.eye(3), jnp.array([1, 2, 3]), jnp.array([0.5, 1.5, 2.5])
    expected = np.cov(np.eye(3), fweights=[1, 2, 3], aweights=[0.5, 1.5, 2.5])
    for names in (["fweights", "aweights"], ["aweights", "fweights"]):
        for _ in range(4):  # short from the third call on
            given = {name: {"fweights": a, "aweights": b}[name] for name in names}
            np.testing.assert_allclose(jnp.cov(x, **given), expected, rtol=1e-5)
