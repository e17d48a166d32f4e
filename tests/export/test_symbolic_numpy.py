"""Functions of `mjax.numpy` on arrays with symbolic sizes: one artifact, several sizes."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import export, lax
from mjax.errors import InconclusiveDimensionOperation

#: The same text for both libraries.
SHARED = {
    "reshape": lambda np, x: np.reshape(x, (-1, 3, 1)),
    "ravel": lambda np, x: np.ravel(x),
    "arange": lambda np, x: np.arange(2, 3 * x.shape[0], 2),
    "arange_backwards": lambda np, x: np.arange(x.shape[0], 0, -1),
    "linspace": lambda np, x: np.linspace(0.0, 1.0, x.shape[0]),
    "means": lambda np, x: (np.mean(x), np.var(x, 0), np.std(x, 1)),
    "median": lambda np, x: np.median(x, 0),
    "quantile": lambda np, x: np.quantile(x, 0.3, axis=0),
    "average": lambda np, x: np.average(x, axis=0, weights=np.arange(x.shape[0]) + 1.0),
    "argmax": lambda np, x: (np.argmax(x, 0), np.argmin(x)),
    "argsort": lambda np, x: np.argsort(x, 0),
    "sums": lambda np, x: (np.cumsum(x, 0), np.cumprod(x, 0), np.cumsum(x[::-1])),
    "joined": lambda np, x: np.vstack([x, x[:1], x[1:]]),
    "products": lambda np, x: (x.T @ x, np.outer(x[:, 0], x[:, 1]), np.kron(x, x)),
    "slices": lambda np, x: (x[1:], x[:-1], x[::2], x[::-1], x[1::3], x[:x.shape[0] // 2]),
    "places": lambda np, x: (x[-1], x[-2:, 0], x[np.array([0, 1, -1])], x[[0, 1], ..., None]),
    "rows": lambda np, x: x[np.arange(x.shape[0])[:, None], np.argsort(x, 1)],
    "along": lambda np, x: np.take_along_axis(x, np.argsort(x, 0), 0),
    "masks": lambda np, x: np.where(np.arange(x.shape[0])[:, None] < 2, x, 0.0),
    "triangles": lambda np, x: (np.tril(x @ x.T), np.eye(x.shape[0]), np.trace(x @ x.T)),
    "diagonals": lambda np, x: (np.diag(x[:, 0]), np.diagonal(x @ x.T)),
    "rolls": lambda np, x: (np.roll(x, 1, 0), np.flip(x, 0), np.repeat(x, 2, axis=0)),
    "edges": lambda np, x: [np.pad(x, ((2, 1), (0, 0)), mode=mode) for mode in (
        "edge", "wrap", "symmetric")],
    "reflected": lambda np, x: np.pad(x, ((1, 1), (0, 0)), mode="reflect"),
    "differences": lambda np, x: (np.diff(x, axis=0), np.gradient(x[:, 0]), np.trapezoid(x, axis=0)
                                  if hasattr(np, "trapezoid") else np.trapz(x, axis=0)),
    "inserted": lambda np, x: (np.insert(x, 1, 7.0, axis=0), np.delete(x, 1, axis=0)),
    "searched": lambda np, x: np.searchsorted(np.sort(x[:, 0]), np.array([-0.5, 0.1])),
    "covariance": lambda np, x: np.cov(x.T),
    "solved": lambda np, x: np.linalg.solve(x.T @ x + np.eye(3), np.ones((3, 1))),
    "stacked": lambda np, x: np.linalg.inv(x[:, :, None] * x[:, None, :] + 9 * np.eye(3)),
    "sizes": lambda np, x: (x / x.size, x * (x.shape[0] % 2), np.zeros(x.shape[0] // 2 + 1)),
}
#: Functions that NumPy does not have, compared with known sizes.
OWN = {
    "scan": lambda x: lax.scan(lambda c, row: (c + row, c.sum()), jnp.zeros(3), x, reverse=True),
    "scan_of_length": lambda x: lax.scan(lambda c, _: (c * 1.1, c), x[0], None, length=x.shape[0]),
    "fori_loop": lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], x[0]),
    "while_loop": lambda x: lax.while_loop(lambda c: c.sum() < 99, lambda c: c * c + 1, x),
    "switch": lambda x: lax.switch(x.shape[0] - 2, [jnp.sin, jnp.cos], x),
    "map": lambda x: lax.map(lambda row: row.sum(), x),
    "cumulative": lambda x: (lax.cummax(x, 0), lax.cumlogsumexp(x, 0, reverse=True)),
    "vmap": lambda x: mjax.vmap(mjax.vmap(lambda a, b: (a * b).sum(), (None, 0)), (0, None))(x, x),
    "vmap_of_loops": lambda x: mjax.vmap(
        lambda row: lax.while_loop(lambda c: c.sum() < 9, lambda c: c * c + 1, row))(x),
    "vmap_of_slices": lambda x: mjax.vmap(lambda row, i: lax.dynamic_slice(row, (i,), (2,)))(
        x, jnp.argmax(x, 1)),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (1, 0), (x.shape[0] - 1, 2)),
    "update": lambda x: (x.at[-1].set(5.0), x.at[1:].multiply(2.0), x.at[jnp.array([0, 1])].add(1)),
    "modes": lambda x: (x.at[jnp.array([0, 9])].get(mode="fill", fill_value=7.0),
                        jnp.take(x, jnp.array([0, 51]), axis=0, mode="wrap")),
    "convolution": lambda x: lax.conv_general_dilated(
        x[None, None], jnp.ones((1, 1, 2, 2)), (2, 1), "SAME"),
    "windows": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 1), "SAME"),
    "random": lambda x: (mjax.random.normal(mjax.random.key(0), x.shape),
                         mjax.random.key_data(mjax.random.split(mjax.random.key(1), x.shape[0]))),
    "polynomial": lambda x: (jnp.polyval(x, jnp.arange(3.0)), jnp.polyval(x[0], x)),
    "integers": lambda x: mjax.random.randint(mjax.random.key(1), (x.shape[0],), 0, 9),
    "bits": lambda x: mjax.random.uniform(mjax.random.key(0, impl="rbg"), (x.shape[0], 2)),
    "one_hot": lambda x: mjax.nn.one_hot(jnp.array([0, 1]), x.shape[0]),
    "attention": lambda x: mjax.nn.dot_product_attention(*[x[None, :, None, :]] * 3),
    "resize": lambda x: mjax.image.resize(x[..., None], (x.shape[0] * 2, 6, 1), "nearest"),
    "segments": lambda x: mjax.ops.segment_sum(x, jnp.zeros(x.shape[0], int), 2),
    "singular_values": lambda x: jnp.linalg.svd(x, compute_uv=False),
    "triangular": lambda x: mjax.scipy.linalg.solve_triangular(jnp.eye(3) * 2 + x[0, 0], x.T),
    "gradient_of_scan": mjax.grad(lambda x: lax.scan(
        lambda c, row: (jnp.sin(c) + row, None), jnp.zeros(3), x)[0].sum()),
    "gradient_of_slices": mjax.grad(lambda x: ((x[1:] - x[:-1]) ** 2).sum()),
    "gradient_of_sort": mjax.grad(
        lambda x: (jnp.sort(x, 0) * jnp.arange(x.shape[0])[:, None]).sum()),
    "gradient_of_places": mjax.grad(lambda x: (x[jnp.array([0, 1, 0])] ** 2).sum()),
    "gradient_of_windows": mjax.grad(lambda x: lax.reduce_window(
        x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID").sum()),
    "hessian": lambda x: mjax.hessian(lambda w: jnp.tanh(x @ w).sum())(jnp.ones(3)),
}


def check(function, oracle):
    size, = export.symbolic_shape("b", constraints=["b >= 2"])
    exported = export.export(mjax.jit(function))(mjax.ShapeDtypeStruct((size, 3), "float32"))
    for n in (2, 5):
        x = np.random.default_rng(n).normal(size=(n, 3)).astype("float32")
        got, wanted = mjax.tree.leaves(exported.call(x)), mjax.tree.leaves(oracle(x))
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", SHARED)
def test_numpy_functions(name):
    check(lambda x: SHARED[name](jnp, x), lambda x: SHARED[name](np, x))


@pytest.mark.parametrize("name", OWN)
def test_other_functions(name):
    check(OWN[name], lambda x: OWN[name](jnp.asarray(x)))


@pytest.mark.parametrize(("function", "why"), [
    (lambda x: lax.slice_in_dim(x, 0, 4), "depends on the values of b"),
    (lambda x: mjax.random.permutation(mjax.random.key(0), x), "a number must be known"),
    (lambda x: jnp.pad(x, ((9, 0), (0, 0)), mode="reflect"), "depends on the values of b"),
    (lambda x: x.reshape(2, -1), r'constraints=\["2\*floordiv\(3\*b, 2\) == 3\*b"\]'),
    (lambda x: lax.scan(lambda c, r: (c, r), 0.0, x, unroll=2), "unroll=2 needs a length"),
    (lambda x: jnp.arange(0.5, x.shape[0]), "start and stop must be integers")])
def test_what_depends_on_values_says_so(function, why):
    size, = export.symbolic_shape("b")
    with pytest.raises((InconclusiveDimensionOperation, TypeError, ValueError), match=why):
        export.export(mjax.jit(function))(mjax.ShapeDtypeStruct((size, 3), "float32"))


@pytest.mark.parametrize(("function", "shape"), [
    (lambda x: x[::2], "(floordiv(b + 1, 2), 3)"), (lambda x: x[:2], "(2, 3)"),
    (lambda x: x[5:], "(- min(b, 5) + b, 3)"), (lambda x: x[1:], "(b - 1, 3)"),
    (lambda x: x[::-2], "(floordiv(b + 1, 2), 3)"), (lambda x: x[:-5], "(max(0, b - 5), 3)"),
    (lambda x: jnp.diagonal(x @ x.T), "(b,)"), (lambda x: jnp.concatenate([x, x]), "(2*b, 3)"),
    (lambda x: jnp.arange(0, x.shape[0], 4), "(floordiv(b + 3, 4),)")])
def test_shapes_of_results(function, shape):
    size, = export.symbolic_shape("b", constraints=["b >= 2"])
    exported = export.export(mjax.jit(function))(mjax.ShapeDtypeStruct((size, 3), "float32"))
    assert str(exported.out_avals[0].shape) == shape
