"""jaxtyping's annotations of `mjax.Array`, without jax, as beartype and typeguard check them."""

import pathlib
import subprocess
import sys
import textwrap

import beartype.door
import jaxtyping
import numpy as np
import pytest
import typeguard
from jaxtyping import BFloat16, Bool, Complex, Float, Int, Key, Num, UInt8

import mjax
import mjax.numpy as jnp

ROOT = pathlib.Path(__file__).parents[1]

X, W = jnp.arange(6.0).reshape(2, 3), jnp.ones((3, 4))


def _product(x: Float[mjax.Array, "b n"], w: Float[mjax.Array, "n m"]) -> Float[mjax.Array, "b m"]:
    return x @ w


def _chosen(x: Float[mjax.Array, "b n"], counts: Int[mjax.Array, "b"], mask: Bool[mjax.Array, "b"],
            key: Key[mjax.Array, ""]) -> Float[mjax.Array, "b n"]:
    return jnp.where(mask[:, None], x * counts[:, None], mjax.random.normal(key, x.shape))


def _short(x: Float[mjax.Array, "b n"]) -> Float[mjax.Array, "b n"]:
    return x[1:]


@pytest.fixture(params=[beartype.beartype, typeguard.typechecked], ids=lambda f: f.__name__)
def checked(request):
    return jaxtyping.jaxtyped(typechecker=request.param)


def test_arrays_and_tracers_pass(checked):
    product = checked(_product)
    expected = np.asarray(X) @ np.asarray(W)
    np.testing.assert_array_equal(product(X, W), expected)
    np.testing.assert_array_equal(mjax.jit(product)(X, W), expected)
    batch = mjax.vmap(product, (None, 0))(X, jnp.stack([W, W]))
    np.testing.assert_array_equal(batch, [expected, expected])
    slope = mjax.jit(mjax.grad(lambda w: product(X, w).sum()))(W)
    np.testing.assert_array_equal(slope, np.tile(np.asarray(X).sum(0)[:, None], 4))
    per_sample = mjax.vmap(mjax.grad(lambda w, x: product(x[None], w).sum()), (None, 0))(W, X)
    assert per_sample.shape == (2, 3, 4)
    assert mjax.jvp(product, (X, W), (X, W))[0].shape == mjax.linearize(product, X, W)[0].shape
    assert mjax.eval_shape(product, X, W).shape == (2, 4)


def test_integers_masks_and_keys_pass(checked):
    chosen, key = checked(_chosen), mjax.random.key(0)
    counts, mask = jnp.array([2, 3]), jnp.array([True, True])
    for f in (chosen, mjax.jit(chosen)):
        np.testing.assert_array_equal(f(X, counts, mask, key), X * np.array([[2], [3]]))
    keys = mjax.random.split(key, 5)
    assert mjax.vmap(chosen, (None, None, None, 0))(X, counts, mask, keys).shape == (5, 2, 3)


@pytest.mark.parametrize("around", [
    lambda f: f, mjax.jit, lambda f: mjax.vmap(f, in_axes=None, axis_size=2), mjax.checkpoint,
    lambda f: lambda *args: mjax.make_jaxpr(f)(*args)], ids=[
        "eager", "jit", "vmap", "checkpoint", "make_jaxpr"])
def test_shapes_and_dtypes_are_refused(checked, around):
    key, counts, mask = mjax.random.key(0), jnp.array([2, 3]), jnp.array([True, False])
    for f, args in [
            (_product, (X, X)),  # n is 3 and 2
            (_product, (X[0], W)),
            (_product, (X.astype(int), W)),
            (_short, (X,)),  # the result
            (_chosen, (X, mask, mask, key)),
            (_chosen, (X, counts, counts, key)),
            (_chosen, (X, counts[:1], mask, key)),
            (_chosen, (X, counts, mask, mjax.random.split(key))),
            (_chosen, (X, counts, mask, mjax.random.PRNGKey(0)))]:
        with pytest.raises(jaxtyping.TypeCheckError):
            around(checked(f))(*args)


def test_values_of_other_classes_are_refused(checked):
    for value in (np.ones((2, 3), np.float32), [[1.0]], 1.0, None):
        with pytest.raises(jaxtyping.TypeCheckError):
            checked(_product)(value, W)


def test_gradients_are_refused(checked):
    with pytest.raises(jaxtyping.TypeCheckError, match="Traced<float32"):
        mjax.grad(lambda w: checked(_product)(X, w).sum())(X)


def test_dtypes_are_found():
    kinds = (BFloat16, Bool, Complex, Float, Int, Key, Num, UInt8)
    for dtype, expected in [
            (jnp.float32, "Float Num"), (jnp.bfloat16, "BFloat16 Float Num"), (jnp.int4, "Int Num"),
            (jnp.float8_e4m3fn, "Float Num"), (jnp.uint8, "Num UInt8"), (bool, "Bool"),
            (jnp.complex64, "Complex Num")]:
        x = jnp.ones(2, dtype)
        seen = []
        mjax.jit(lambda x: seen.append(x) or x)(x)  # noqa: B023
        for value in (x, *seen):
            found = [kind.__name__ for kind in kinds if isinstance(value, kind[mjax.Array, "2"])]
            assert " ".join(found) == expected, value


def test_types_of_arguments_are_compared():
    # as plum does, by which quax chooses rules
    hint = beartype.door.TypeHint(mjax.typing.ArrayLike)
    assert hint == beartype.door.TypeHint(mjax.typing.ArrayLike)
    assert hint != beartype.door.TypeHint(float | None)
    holds = beartype.door.is_bearable
    assert holds(X, mjax.typing.ArrayLike) and not holds("x", mjax.typing.ArrayLike)
    assert holds("float32", mjax.typing.DTypeLike) and holds(X, mjax.typing.DTypeLike)
    assert not holds(4, mjax.typing.DTypeLike)
    assert holds(X.shape, mjax.typing.Shape) and not holds(4, mjax.typing.Shape)


def test_trees_under_the_alias():
    """jaxtyping's PyTree asks jax for its trees: the alias has them."""
    program = """
        import mjax.alias
        mjax.alias.install()
        import beartype, jaxtyping, mjax, mjax.numpy as jnp, typeguard
        from jaxtyping import Float, PyTree

        def total(tree: PyTree[Float[mjax.Array, "n"]]) -> Float[mjax.Array, ""]:
            return sum(x.sum() for x in mjax.tree.leaves(tree))

        right, wrong = {"a": jnp.ones(3), "b": [jnp.ones(3)]}, {"a": jnp.ones(3), "b": jnp.ones(2)}
        for checker in (beartype.beartype, typeguard.typechecked):
            f = jaxtyping.jaxtyped(typechecker=checker)(total)
            for f in (f, mjax.jit(f), mjax.grad(f)):
                f(right)
                for bad in (wrong, {"a": 1}, {"a": jnp.ones(3, int)}):
                    try:
                        f(bad)
                    except (jaxtyping.TypeCheckError, TypeError) as error:
                        assert "Type-check error" in str(error) or "grad" in str(error), error
                    else:
                        raise AssertionError(bad)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True,
                           text=True, cwd=ROOT, check=False)
    assert ended.returncode == 0, ended.stderr
