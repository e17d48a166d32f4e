"""pmap and the first spelling of shard_map."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.experimental.shard_map import shard_map

from .mapped import P, mesh, same

X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")


def test_values_and_collectives():
    f = mjax.pmap(lambda x: x / lax.psum(x, "i"), axis_name="i")
    same(f(X), X / X.sum(0), 1e-4, 1e-4)
    assert f(X).sharding.num_devices == 8
    same(mjax.pmap(jnp.sin)(X[:3]), np.sin(X[:3]), 1e-5)
    same(mjax.pmap(lambda: lax.axis_index("i"), "i", axis_size=4)(), np.arange(4, dtype="int32"))


def test_axes_and_trees():
    def f(a, b, *, c):
        return {"s": a["x"] * b + c, "t": (b, a["x"])}

    g = mjax.pmap(f, in_axes=({"x": 1}, None), out_axes={"s": 1, "t": (None, -1)})
    a, b, c = X.T[:, :4], np.arange(3, dtype="float32"), X[:4]
    out = g({"x": a}, b, c=c)
    same(out, {"s": (a.T * b + c).T, "t": (b, a)}, 1e-5, 1e-5)


def test_static_arguments():
    traced = []

    def f(x, how, y):
        traced.append(how)
        return getattr(jnp, how)(x) + y

    g = mjax.pmap(f, in_axes=(0, None, None), static_broadcasted_argnums=1)
    for how in ("sin", "cos", "sin"):
        same(g(X, how, 1.0), getattr(np, how)(X) + np.float32(1), 1e-5, 1e-5)
    assert traced == ["sin", "cos"]


def test_a_training_step_as_pmap_code_has_it():
    """Gradients inside, averaged by hand: psum is its own transpose."""
    w = np.ones(3, "float32")

    def step(w, x):
        grads = mjax.grad(lambda w: (jnp.sin(w * x)).sum())(w)
        return w - 0.1 * lax.pmean(grads, "i")

    ws = mjax.pmap(step, "i", in_axes=(None, 0))(w, X)
    expected = w - 0.1 * mjax.grad(lambda w: jnp.sin(w * X).sum())(w) / 8
    same(ws, np.broadcast_to(expected, (8, 3)), 1e-4, 1e-5)
    outside = mjax.grad(lambda w: mjax.pmap(lambda x: jnp.sin(w * x))(X).sum())(w)
    same(outside, mjax.grad(lambda w: jnp.sin(w * X).sum())(w), 1e-4, 1e-4)


def test_ahead_of_time():
    f = mjax.pmap(lambda x, n: {"s": lax.psum(x, "i") * n}, "i", static_broadcasted_argnums=1)
    lowered = f.lower(X, 3)
    assert lowered.in_tree == mjax.tree.structure(((0,), {}))
    assert "all_reduce" in lowered.as_text()
    expected = {"s": np.broadcast_to(3 * X.sum(0), (8, 3))}
    same(lowered.compile()(X), expected, 1e-5, 1e-5)
    struct = mjax.ShapeDtypeStruct((8, 3), np.float32)
    same(f.lower(struct, 3).compile()(X), expected, 1e-5, 1e-5)
    assert f.eval_shape(struct, 3)["s"].shape == (8, 3)
    assert str(f.trace(struct, 3).jaxpr.out_avals[0]) == "float32[8,3]"
    assert mjax.eval_shape(lambda x: f(x, 2), struct)["s"].shape == (8, 3)


def test_donated_arguments():
    f = mjax.pmap(lambda x, y: x * y, in_axes=(0, None), donate_argnums=0)
    x = mjax.pmap(lambda x: x * 1)(X)
    same(f(x, X[0]), X * X[0])
    assert x.is_deleted()
    same(f(X, X[0]), X * X[0])


def test_arguments_given_by_name_have_slices():
    f = mjax.pmap(lambda x, y: x * y, static_broadcasted_argnums=1)
    same(f(X, y=X), X * X)
    same(f(X, 3.0), X * 3)


def test_axes_of_results_are_cut_over_the_devices():
    for axis in (0, 1, -1):
        out = mjax.pmap(lambda x: x * 2, out_axes=axis)(X)
        assert len({str(s.index) for s in out.addressable_shards}) == 8
        same(out, np.moveaxis(X * 2, 0, axis))


def test_devices():
    f = mjax.pmap(jnp.sin, devices=mjax.devices()[:1:-1])
    out = f(X[:3])
    assert [s.device for s in out.addressable_shards] == mjax.devices()[:4:-1]


@pytest.mark.parametrize(("call", "text"), [
    (lambda: mjax.pmap(jnp.sin)(np.ones(9)), "9 slices need as many devices, but there are 8"),
    (lambda: mjax.pmap(lambda x, y: x + y)(X, X[:3]),
     r"argument 0 \(x\) of shape \(8, 3\) has size 8 along axis 0\n"),
    (lambda: mjax.pmap(jnp.sin, in_axes=2)(X),
     r"argument 0 \(x\) has shape \(8, 3\), which has no axis"),
    (lambda: mjax.pmap(jnp.sin, in_axes=None)(X), "at least one mapped argument"),
    (lambda: mjax.pmap(jnp.add, in_axes=(0,))(X, X), "in_axes must be a tree prefix"),
    (lambda: mjax.pmap(jnp.sin, out_axes=(0, 0))(X), "out_axes .* is not a tree prefix"),
    (lambda: mjax.pmap(jnp.add, static_broadcasted_argnums=1)(X, []),
     r"pmap: static argument 1 of add is not hashable: of type list\."),
    (lambda: mjax.pmap(mjax.pmap(jnp.sin))(X[None]),
     "pmap of sin is called in the body of another pmap or of a shard_map"),
])
def test_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_messages_name_the_users_function_and_its_arguments():
    def loss(params, x):
        return x if params["w"] > 0 else -x

    with pytest.raises(TypeError, match=r"(?s)while pmap traces .* loss at .*test_pmap.py:\d+; the "
                                        r"value depends on its argument params\['w'\]\."):
        mjax.pmap(loss)({"b": X, "w": X[:, 0]}, X)


@pytest.mark.parametrize("what", ["in_axes", "out_axes"])
@pytest.mark.parametrize("axes", ["a", 1.0, (0, "a")])
def test_axes_that_are_no_ints(what, axes):
    with pytest.raises(TypeError, match=f"pmap: {what} must be an int, None, or a tree of these, "
                                        "got "):
        mjax.pmap(jnp.sin, **{what: axes})


def test_first_spelling_of_shard_map():
    f = shard_map(lambda x: lax.psum(x, "i"), mesh(), (P("i"),), P(), check_rep=True)
    same(f(X), X.reshape(4, 2, 3).sum(0), 1e-5, 1e-5)
    f = shard_map(lambda x: x, mesh(), P("i"), P(), check_rep=False, auto=frozenset({"j"}))
    assert f(X).shape == (2, 3)
    with pytest.raises(ValueError, match="leaves no axis of"):
        shard_map(lambda x: x, mesh(), P(), P(), auto={"i", "j"})


def test_under_set_mesh():
    with mjax.set_mesh(mjax.make_mesh((4, 2), ("i", "j"))):
        same(mjax.pmap(lambda x: x / lax.psum(x, "k"), "k")(X + 1), (X + 1) / (X + 1).sum(0))
        with pytest.raises(ValueError, match="but set_mesh has set the mesh"):
            mjax.pmap(jnp.sin)(X[:2])


@pytest.mark.parametrize("devices", [[], ()])
def test_no_devices(devices):
    with pytest.raises(ValueError, match="devices is empty"):
        mjax.pmap(lambda x: x, devices=devices)
