"""ravel_pytree: trees as flat arrays, and back."""

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax.flatten_util import ravel_pytree

TREES = {
    "one dtype": {"a": np.ones((2, 2), "f4"), "b": [np.arange(3, dtype="f4"), np.float32(7)]},
    "mixed": {"a": np.ones((2, 2), "f4"), "b": (np.arange(3), 2.5)},
    "integers": [np.arange(3), 4], "a leaf": np.arange(6, dtype="f4").reshape(2, 3),
    "booleans": [True, np.zeros(2, bool)], "empty leaves": [np.zeros((0, 3), "f4"), 1.0],
    "complex": [np.ones(2, "c8") * 1j, np.ones(2, "f4")], "nothing": {}, "none": [None, ()],
    "half": [np.ones(2, jnp.bfloat16), np.ones(1, "f4")],
}


@pytest.mark.parametrize("name", TREES)
def test_there_and_back(name):
    tree = TREES[name]
    flat, unravel = ravel_pytree(tree)
    leaves, structure = mjax.tree_util.tree_flatten(tree)
    expected = np.concatenate([np.ravel(np.asarray(x)) for x in leaves] or [np.zeros(0, "f4")])
    assert isinstance(flat, mjax.Array) and flat.ndim == 1
    np.testing.assert_array_equal(flat, expected)
    assert flat.dtype == (jnp.result_type(*leaves) if leaves else np.float32)
    for back in (unravel(flat), mjax.jit(unravel)(flat), unravel(np.asarray(flat))):
        again, same = mjax.tree_util.tree_flatten(back)
        assert same == structure
        for x, y in zip(again, leaves, strict=True):
            assert x.dtype == mjax.typeof(y).dtype and x.shape == np.shape(y)
            np.testing.assert_array_equal(x, y)


def test_under_transformations():
    tree = {"a": np.arange(4, dtype="f4").reshape(2, 2), "b": np.float32(3)}
    flat, unravel = ravel_pytree(tree)

    def f(flat):
        t = unravel(flat)
        return jnp.sum(t["a"] ** 2) * t["b"]

    np.testing.assert_allclose(mjax.grad(f)(flat), [0, 6, 12, 18, 14])
    np.testing.assert_allclose(mjax.hessian(f)(flat)[4], [0, 2, 4, 6, 0])
    np.testing.assert_allclose(mjax.vmap(f)(jnp.stack([flat, flat])), [42, 42])
    rows = mjax.vmap(lambda t: ravel_pytree(t)[0])({"x": np.ones((3, 2), "f4"), "y": np.arange(3)})
    np.testing.assert_array_equal(rows, [[1, 1, 0], [1, 1, 1], [1, 1, 2]])
    assert mjax.jit(lambda t: ravel_pytree(t)[0])(tree).shape == (5,)


def test_the_function_back_is_hashable():
    (_, f), (_, g), (_, h) = (ravel_pytree(t) for t in ([1.0, 2], [3.0, 4], [1.0, 2.0]))
    assert f == g and hash(f) == hash(g) and f != h and f != 3
    traced = []

    def call(x, unravel):
        traced.append(unravel)
        return unravel(x)

    apply = mjax.jit(call, static_argnums=1)
    for unravel in (f, g):
        assert apply(jnp.arange(2.0), unravel)[1].dtype == np.int32
    assert len(traced) == 1


def test_keys():
    keys = [mjax.random.key(0), mjax.random.split(mjax.random.key(1), 2)]
    flat, unravel = ravel_pytree(keys)
    assert flat.shape == (3,) and flat.dtype == keys[0].dtype
    np.testing.assert_array_equal(mjax.random.key_data(unravel(flat)[1]),
                                  mjax.random.key_data(keys[1]))


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: ravel_pytree({"a": ["text"]}), TypeError, r"pytree\['a'\]\[0\] is not a valid array"),
    (lambda: MIXED(jnp.ones(7)), ValueError, r"shape \(5,\), .* has shape \(7,\)"),
    (lambda: MIXED(jnp.ones((5, 1))), ValueError, r"shape \(5, 1\)"),
    (lambda: MIXED(jnp.ones(5, "int32")), TypeError, r"dtype float32, to which the leaves' dtypes "
     "float32, int32 were promoted, but has dtype int32"),
    (lambda: MIXED([1.0] * 5), TypeError, "asarray"),
    (lambda: ravel_pytree({})[1](jnp.ones(1)), ValueError, r"shape \(0,\)"),
])
def test_what_does_not_fit(call, error, text):
    with pytest.raises(error, match=text):
        call()


MIXED = ravel_pytree([np.ones(2, "f4"), np.arange(3)])[1]


def test_one_dtype_takes_another():
    """If leaves have one dtype, the tree has that of the flat array."""
    _, unravel = ravel_pytree([np.ones(2, "f4")])
    assert unravel(jnp.arange(2))[0].dtype == np.int32
