"""Collectives in NumPy: from the values of all elements along an axis to their results."""

from __future__ import annotations

import numpy as np


def psum(xs):
    return [sum(xs)] * len(xs)


def pmean(xs):
    return [sum(xs) / len(xs)] * len(xs)


def pmax(xs):
    return [np.max(xs, 0)] * len(xs)


def pmin(xs):
    return [np.min(xs, 0)] * len(xs)


def all_gather(axis=0, tiled=False):
    join = np.concatenate if tiled else np.stack
    return lambda xs: [join(xs, axis)] * len(xs)


def psum_scatter(axis=0, tiled=False):
    def f(xs):
        parts = np.split(sum(xs), len(xs), axis)
        return parts if tiled else [np.squeeze(p, axis) for p in parts]

    return f


def ppermute(perm):
    source = {d: s for s, d in perm}
    return lambda xs: [xs[source[i]] if i in source else np.zeros_like(xs[0])
                       for i in range(len(xs))]


def pbroadcast(source):
    return lambda xs: [xs[source]] * len(xs)


def all_to_all(split, concat, tiled=False):
    def f(xs):
        parts = [np.split(x, len(xs), split) for x in xs]
        if tiled:
            return [np.concatenate([p[i] for p in parts], concat) for i in range(len(xs))]
        return [np.stack([np.squeeze(p[i], split) for p in parts], concat)
                for i in range(len(xs))]

    return f


def axis_index(xs):
    return [np.int32(i) for i in range(len(xs))]


def in_groups(reference, groups):
    def f(xs):
        out = [None] * len(xs)
        for group in groups:
            for i, y in zip(group, reference([xs[i] for i in group]), strict=True):
                out[i] = y
        return out

    return f


def on_mesh(reference, names, xs, mesh=("i", "j")):
    """Results per device: those that agree off the axes named talk, in the order of the names.

    Args:
      reference: from the values of those that talk, the last axis named fastest, to results.
      names: the axes named.
      xs: array whose leading axes are those of the mesh.
      mesh: names of these.
    """
    sizes = xs.shape[:len(mesh)]
    named = [mesh.index(n) for n in names]
    rest = [d for d in range(len(mesh)) if d not in named]
    flat = np.asarray(xs).transpose(*rest, *named, *range(len(mesh), xs.ndim))
    flat = flat.reshape(-1, int(np.prod([sizes[d] for d in named])), *xs.shape[len(mesh):])
    out = np.stack([np.stack(reference(list(members))) for members in flat])
    out = out.reshape(*(sizes[d] for d in [*rest, *named]), *out.shape[2:])
    return out.transpose(*np.argsort([*rest, *named]), *range(len(mesh), out.ndim))
