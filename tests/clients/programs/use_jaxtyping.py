"""jaxtyping: annotations of shapes and dtypes, checked at run time."""

import json
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from beartype import beartype
from jaxtyping import Array, Float, Int, Key, PyTree, Scalar, TypeCheckError, jaxtyped


@jaxtyped(typechecker=beartype)
def mixed(x: Float[Array, "batch d"], w: Float[Array, "d out"]) -> Float[Array, "batch out"]:
    return jnp.tanh(x @ w)


@jaxtyped(typechecker=beartype)
def wrong(x: Float[Array, " n"]) -> Float[Array, " n"]:
    return x[1:]


@jaxtyped(typechecker=beartype)
def total(tree: PyTree[Float[Array, "..."]], key: Key[Array, ""]) -> Scalar:
    return sum(jnp.sum(x) for x in jax.tree.leaves(tree)) + jax.random.uniform(key)


@jaxtyped(typechecker=beartype)
@dataclass
class Pair:
    a: Int[Array, " n"]
    b: Float[Array, " n"]


def refused(f, *args):
    """Whether the annotations refuse a call."""
    try:
        f(*args)
    except TypeCheckError:
        return True
    return False


def main():
    x, w = jnp.arange(6.0).reshape(2, 3) / 6, jnp.ones((3, 4)) / 3
    key = jax.random.key(1)
    print(json.dumps({
        "mixed": mixed(x, w).tolist(), "jitted": jax.jit(mixed)(x, w).tolist(),
        "slope": jax.grad(lambda w: mixed(x, w).sum())(w).tolist(),
        "total": float(total({"a": x, "b": [w]}, key)),
        "refused": [refused(*call) for call in (
            (mixed, x, w), (mixed, x, x), (mixed, x.astype(int), w), (jax.jit(mixed), x, x),
            (wrong, x[0]), (total, {"a": 1}, key), (total, {"a": x}, x[0, 0]),
            (Pair, jnp.arange(2), x[0, :2]), (Pair, jnp.arange(2), x[0]))],
        "instances": [isinstance(v, t) for v in (x, key, 1.0) for t in (
            Float[Array, "2 3"], Float[Array, "3 2"], Key[Array, ""], Array)],
    }))


if __name__ == "__main__":
    main()
