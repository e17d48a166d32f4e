"""Donated arguments: what becomes of them, and the errors of those who use them again."""

import numpy as np
import pytest

import mjax
from mjax import lax

X = np.arange(3, dtype=np.float32)


def put(value=X):
    return mjax.device_put(value)


def add(x, y):
    return x + y, x * y


def tree_sum(t, y):
    return {"out": t["a"] + t["b"] * y, "twice": t["b"] * 2.0}


@pytest.mark.parametrize("donated", [0, 1, (0, 1)])
def test_one_array_donated_and_given_twice(donated):
    f = mjax.jit(add, donate_argnums=donated)
    x = put()
    for call in (f, f.lower(X, X).compile()):
        for _ in range(2):
            with pytest.raises(RuntimeError, match=(
                    "add: one array was given as argument x and as argument y.*Donate neither.*"
                    "copy")):
                call(x, x)
    assert not x.is_deleted()
    np.testing.assert_array_equal(f(x, put())[0], 2 * X)


def test_one_array_twice_in_a_tree():
    f = mjax.jit(tree_sum, donate_argnums=0)
    x = put()
    with pytest.raises(RuntimeError, match=r"argument t\['a'\] and as argument t\['b'\]"):
        f({"a": x, "b": x}, 1.0)
    forwarded = mjax.jit(lambda x: x)(x)  # another array with the same memory
    with pytest.raises(RuntimeError, match=r"argument t\['a'\] and as argument y"):
        f({"a": x, "b": put()}, forwarded)
    np.testing.assert_array_equal(f({"a": put(), "b": put()}, x)["out"], X + X * X)


def test_arrays_given_twice_without_donating_them():
    x = put()
    f = mjax.jit(lambda x, y, z: (x + 1.0, y * z), donate_argnums=0)
    np.testing.assert_array_equal(f(put(), x, x)[1], X * X)
    g = mjax.jit(lambda x, y: y + 1.0, donate_argnums=0)  # x is never passed
    np.testing.assert_array_equal(g(x, x), X + 1)
    np.testing.assert_array_equal(mjax.jit(lambda x: mjax.jit(add, donate_argnums=0)(x, x))(x)[0],
                                  2 * X)


def test_donated_arrays_used_again():
    f = mjax.jit(tree_sum, donate_argnums=0)
    t = {"a": put(), "b": put()}
    f(t, 1.0)
    assert t["a"].is_deleted()
    uses = [(lambda: f(t, 1.0), r"tree_sum: argument t\['a'\] of type f32\[3\] has been deleted"),
            (lambda: t["a"] + 1.0, "has been deleted"),
            (lambda: t["a"] + t["a"], "has been deleted"),
            (lambda: lax.sin(t["a"]), "sin: argument 0 of type"),
            (lambda: mjax.jit(lambda q: (q * 2.0, q))(t["a"]), "<lambda>: argument q of type"),
            (lambda: mjax.grad(lambda q: (q * q).sum())(t["a"]), "has been deleted"),
            (lambda: np.asarray(t["a"]), "has been deleted"),
            (lambda: mjax.jit(tree_sum).lower(t, 1.0).compile()(t, 1.0), r"argument t\['a'\]")]
    for use, text in uses:
        with pytest.raises(RuntimeError, match=f"(?s){text}.*donate"):
            use()


def test_donations_that_nothing_can_take_over():
    with pytest.warns(UserWarning, match=r"not usable: argument x of type f32\[3\]") as seen:
        f = mjax.jit(lambda x: x[0], donate_argnums=0)
        x = put()
        f(x)
    assert seen[0].filename == __file__ and not x.is_deleted()
    f(x)  # warned of once, where it is compiled
    # A result of another type but the same size may take the memory over.
    assert mjax.jit(lambda x: x.reshape(3, 1), donate_argnums=0)(put()).shape == (3, 1)
    # What is not read, or is a result itself, is simply kept.
    y = put()
    mjax.jit(lambda x, y: y, donate_argnums=(0, 1))(x, y)
    assert not x.is_deleted() and not y.is_deleted()


def test_donation_by_name_and_with_static_arguments():
    def f(n, x, *, y):
        return x * n + y

    g = mjax.jit(f, static_argnums=0, donate_argnames="y")
    x, y = put(), put()
    np.testing.assert_array_equal(g(2, x, y=y), 3 * X)
    assert y.is_deleted() and not x.is_deleted()
    h = mjax.jit(lambda *arrays: arrays[0] + arrays[-1], donate_argnums=-1)
    x, y = put(), put()
    h(x, X, y)
    assert y.is_deleted() and not x.is_deleted()
    h(x, y := put())
    assert y.is_deleted() and not x.is_deleted()


def test_donated_keys():
    f = mjax.jit(lambda key, x: (mjax.random.split(key)[0], x), donate_argnums=0)
    key = mjax.random.key(0)
    f(key, X)
    assert key.is_deleted()
    with pytest.warns(UserWarning, match="not usable: argument key of type key<fry>"):
        mjax.jit(lambda key: mjax.random.bits(key, (3,)), donate_argnums=0)(mjax.random.key(0))
