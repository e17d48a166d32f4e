"""Donated arguments: what becomes of them, and the errors of those who use them again."""

import copy

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
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
    with pytest.raises(RuntimeError, match=r"argument t\['a'\] and as argument y"):
        f({"a": x, "b": put()}, x)
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
    uses = [(lambda: f(t, 1.0),
             r"tree_sum: argument t\['a'\] of type float32\[3\] has been deleted"),
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
    with pytest.warns(UserWarning, match=r"not usable: argument x of type float32\[3\]") as seen:
        f = mjax.jit(lambda x: x[0], donate_argnums=0)
        x = put()
        f(x)
    assert seen[0].filename == __file__ and not x.is_deleted()
    f(x)  # warned of once, where it is compiled
    # A result of another type but the same size may take the memory over.
    assert mjax.jit(lambda x: x.reshape(3, 1), donate_argnums=0)(put()).shape == (3, 1)
    # An argument that is not read is simply kept.
    y = put()
    mjax.jit(lambda x, y: y, donate_argnums=(0, 1))(x, y)
    assert not x.is_deleted() and y.is_deleted()


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


def identity(x):
    return x


donating = mjax.jit(lambda z: z + 1, donate_argnums=0)


#: Calls that give their argument back, all in memory of its own.
GIVING_BACK = {
    "jit": mjax.jit(identity), "twice": mjax.jit(lambda x: (x, x)),
    "beside another": mjax.jit(lambda x: (x, x + 1)), "asarray": mjax.jit(jnp.asarray),
    "keyword": lambda x: mjax.jit(identity)(x=x),
    "static": lambda x: mjax.jit(lambda x, n: x, static_argnums=1)(x, 2),
    "dict": lambda x: mjax.jit(identity)({"a": x, "b": x}),
    "three": lambda x: mjax.jit(lambda x, y, z: y)(x, x, x),
    "nested": mjax.jit(lambda x: mjax.jit(identity)(x)),
    "unused kept": mjax.jit(identity, keep_unused=True),
    "device": mjax.jit(identity, device=mjax.devices()[0]),
    "ahead of time": lambda x: mjax.jit(identity).lower(x).compile()(x),
    "vmap": mjax.vmap(mjax.jit(identity)),
    "jvp": lambda x: mjax.jvp(mjax.jit(identity), (x,), (x,)),
    "pullback": lambda x: mjax.vjp(mjax.jit(identity), x)[1](x),
    "cond": mjax.jit(lambda x: lax.cond(x[0] > 1, identity, identity, x)),
    "copy": copy.copy, "deepcopy": copy.deepcopy, "array": jnp.array, "+x": lambda x: +x,
    "ravel": jnp.ravel, "real": jnp.real, "conj": jnp.conj, "clip": jnp.clip,
    "squeeze": jnp.squeeze, "atleast_1d": jnp.atleast_1d, "block": jnp.block,
    "broadcast_arrays": lambda x: jnp.broadcast_arrays(x, x), "tile": lambda x: jnp.tile(x, 1),
    "sum of no axes": lambda x: jnp.sum(x, axis=()), "reduce_sum": lambda x: lax.reduce_sum(x, ()),
    "expand_dims": lambda x: lax.expand_dims(x, ()), "pad": lambda x: jnp.pad(x, 0),
    "moveaxis": lambda x: jnp.moveaxis(x, 0, 0), "swapaxes": lambda x: jnp.swapaxes(x, 0, 0),
    "broadcast_in_dim": lambda x: lax.broadcast_in_dim(x, x.shape, (0,)),
}


@pytest.mark.parametrize("name", GIVING_BACK)
def test_what_gives_its_argument_back_gives_memory_of_its_own(name):
    x = jnp.arange(3.0)
    for end in (donating, lambda y: y.delete()):
        for first in mjax.tree.leaves(GIVING_BACK[name](x)):
            end(first)
            assert first.is_deleted() and not x.is_deleted()
    one, *others = mjax.tree.leaves(GIVING_BACK[name](x))
    one.delete()
    assert not any(other.is_deleted() for other in others)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("f", [identity, lambda x: (x, x), lambda x: (x, x + 1),
                               lambda x: (x + 1, x), lambda x: {"a": [x], "b": x * 2}])
def test_a_donated_argument_that_is_given_back_is_deleted(f):
    donated = mjax.jit(f, donate_argnums=0)
    for call in (donated, donated.lower(X).compile(), mjax.vmap(donated),
                 lambda x: mjax.jit(lambda x, n: f(x), donate_argnums=0, static_argnums=1)(x, 2)):
        for value in (put(), put()):  # the second call goes the short way
            out = call(value)
            assert value.is_deleted()
            for ours, expected in zip(mjax.tree.leaves(out), mjax.tree.leaves(f(X)), strict=True):
                np.testing.assert_array_equal(ours, expected)


def test_given_back_over_several_devices():
    mesh = mjax.make_mesh((2,), ("x",), devices=mjax.devices()[:2])
    sharding = mjax.NamedSharding(mesh, mjax.P("x"))
    value = np.arange(4, dtype=np.float32)
    for f in (mjax.jit(identity), mjax.jit(lambda x: (x, x + 1)),
              mjax.jit(identity, out_shardings=sharding), jnp.ravel):
        x = mjax.device_put(value, sharding)
        y = mjax.tree.leaves(f(x))[0]
        assert y.sharding == sharding
        y.delete()
        np.testing.assert_array_equal(x, value)
    x = mjax.device_put(value, sharding)
    y, z = mjax.jit(lambda x: (x, x + 1), donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(y, value)
    np.testing.assert_array_equal(z, value + 1)


def test_device_put_that_donates_while_devices_change_their_order():
    mesh = mjax.make_mesh((4,), ("x",), devices=mjax.devices()[:4])
    order = np.array(mjax.devices()[:4])[[0, 1, 3, 2]]
    value = np.arange(8, dtype=np.float32)
    for spec in (mjax.P("x"), mjax.P()):
        for donate in (True, False):
            x = mjax.device_put(value, mjax.NamedSharding(mesh, spec))
            target = mjax.NamedSharding(mjax.sharding.Mesh(order, ("x",)), spec)
            y = mjax.device_put(x, target, donate=donate)
            assert x.is_deleted() == donate and y.sharding == target
            x.delete()
            np.testing.assert_array_equal(y, value)
