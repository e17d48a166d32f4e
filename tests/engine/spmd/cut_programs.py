"""Programs for shard_map: the ways to cut a model, and what they communicate."""

from __future__ import annotations

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax import lax

from .mapped import P

RNG = np.random.default_rng(0)
W = RNG.normal(size=(4, 4)).astype("float32")
X = RNG.normal(size=(8, 4)).astype("float32")
CUT, WHOLE = P("i"), P()


def data_parallel(w, x):
    """Weights on all devices, rows of data on each; a mean over all, activations of each."""
    h = jnp.tanh(x @ w)
    return lax.pmean((h * h).mean(), ("i", "j")), h


def column_parallel(w, x):
    """Each device has columns of the weights, and gives columns of the result."""
    return jnp.tanh(x @ w)


def row_parallel(w, x):
    """Each device has rows of the weights and columns of the data; products are summed."""
    return jnp.tanh(lax.psum(x @ w, "i"))


def two_layers(w, x):
    """Columns, then rows: one sum for both."""
    h = jnp.sin(x @ w)
    return lax.psum(h @ w.T, "i") + x


def pipeline(w, x):
    """A stage of the pipeline on each device along i; what a stage gives goes to the next."""
    stage, n = lax.axis_index("i"), lax.axis_size("i")
    shift = [(k, (k + 1) % n) for k in range(n)]

    def step(state, t):
        start = lax.dynamic_index_in_dim(x, jnp.minimum(t, x.shape[0] - 1), keepdims=False)
        state = jnp.where(stage == 0, start, state)
        out = jnp.sin(state @ w.reshape(4, 1) @ jnp.ones((1, 4)))
        return lax.ppermute(out, "i", shift), jnp.where(stage == n - 1, out, 0.0)

    outs = lax.scan(step, jnp.zeros(4), jnp.arange(x.shape[0] + 3))[1]
    return lax.psum(outs[3:], "i")


def gathers(w, x):
    full = lax.all_gather(x, "i", tiled=True)
    back = lax.psum_scatter(full @ w, "i", tiled=True)
    return back, lax.all_gather_invariant(x * 2.0, "i", tiled=True)


def same_everywhere(w, x):
    """What is the same on all devices, put together once and as often as there are devices."""
    return jnp.sin(w), jnp.cos(w), x * w[0, 0]


def both_axes(w, x):
    part = lax.psum(x @ w, "j")
    return part, lax.psum(part.sum(0), "i")


def extremes(w, x):
    top = lax.pmax(lax.stop_gradient(x).max(), "i")
    return jnp.exp(x - top) / lax.psum(jnp.exp(x - top).sum(), "i") * w[0]


def closing(w, x):
    inner = mjax.jit(lambda y: y @ w + X[:2])
    return inner(x), mjax.grad(lambda y: inner(y).sum())(x)


PROGRAMS = {
    "data parallel": (data_parallel, (WHOLE, P(("i", "j"))), (WHOLE, P(("i", "j")))),
    "column parallel": (column_parallel, (P(None, "i"), WHOLE), P(None, "i")),
    "row parallel": (row_parallel, (P("i"), P(None, "i")), WHOLE),
    "two layers": (two_layers, (P(None, "i"), WHOLE), WHOLE),
    "pipeline": (pipeline, (P("i"), WHOLE), WHOLE),
    "gathers": (gathers, (WHOLE, CUT), (CUT, WHOLE)),
    "same everywhere": (same_everywhere, (WHOLE, CUT), (WHOLE, P(None, "j"), CUT)),
    "both axes": (both_axes, (P("j"), P("i", "j")), (CUT, WHOLE)),
    "extremes": (extremes, (WHOLE, CUT), CUT),
    "closing": (closing, (WHOLE, CUT), CUT),
}
