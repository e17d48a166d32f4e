"""What tests of shard_map compare it with: the same body under vmap, whose named axes are those
of the mesh. There nothing is sharded, no type varies, and collectives are operations on rows."""

from __future__ import annotations

import functools

import numpy as np

import mjax
from mjax._engine.ir.mesh import Mesh
from mjax._engine.ir.mesh import PartitionSpec as P
from mjax._engine.ir.pytree import broadcast_prefix, tree_flatten, tree_leaves
from mjax._engine.spmd.shard_map import shard_map

AXES = (("i", 4), ("j", 2))


@functools.cache
def mesh():
    return Mesh(np.array(mjax.devices()[:8]).reshape(4, 2), ("i", "j"))


def sharded(f, in_specs, out_specs, **options):
    return shard_map(f, mesh=mesh(), in_specs=in_specs, out_specs=out_specs, **options)


def simulated(f, in_specs, out_specs, axes=AXES):
    """The function of whole arrays that shard_map makes of a body, on one device."""
    def g(*args):
        leaves, tree = tree_flatten(args)
        specs = broadcast_prefix(in_specs, args)
        trees = []

        def flat(*leaves):
            outs, out_tree = tree_flatten(f(*tree.unflatten(leaves)))
            trees.append(out_tree)
            return outs

        def level(leaves, rest):
            if not rest:
                return flat(*leaves)
            (name, size), *inner = rest
            dims = [dim_of(s, name) for s in specs]
            cut = [x if d is None else split(x, d, size) for x, d in zip(leaves, dims)]
            outs = mjax.vmap(lambda *xs: level(xs, inner), in_axes=tuple(dims), out_axes=0,
                             axis_name=name, axis_size=size)(*cut)
            outs_specs = broadcast_prefix(
                out_specs, trees[-1].unflatten([0] * trees[-1].num_leaves))
            return [join(o, dim_of(s, name)) for o, s in zip(outs, outs_specs)]

        outs = level(leaves, list(axes))
        return trees[-1].unflatten(outs)

    return g


def dim_of(spec, name):
    for d, names in enumerate(spec.dims(len(spec))):
        if name in names:
            return d
    return None


def split(x, dim, size):
    x = mjax.numpy.asarray(x)
    return x.reshape(*x.shape[:dim], size, x.shape[dim] // size, *x.shape[dim + 1:])


def join(x, dim):
    if dim is None:
        return x[0]
    x = mjax.numpy.moveaxis(x, 0, dim)
    return x.reshape(*x.shape[:dim], -1, *x.shape[dim + 2:])


WEIGHTS = np.random.default_rng(1).normal(size=4096).astype("float32")


def loss(outs):
    """A number that depends on every element of every float of a tree, unevenly."""
    total = 0.0
    for o in tree_leaves(outs):
        o = mjax.numpy.asarray(o)
        if np.issubdtype(o.dtype, np.floating):
            total = total + (mjax.numpy.sin(o) * WEIGHTS[:o.size].reshape(o.shape)).sum()
    return total


def directions(args):
    return tuple(mjax.tree.map(lambda x: mjax.numpy.cos(3 * mjax.numpy.asarray(x)), a)
                 for a in args)


#: Name -> from a function of arrays to another.
WAYS = {
    "value": lambda f: f,
    "jit": mjax.jit,
    "grad": lambda f: lambda *a: mjax.grad(lambda *a: loss(f(*a)), range(len(a)))(*a),
    "grad jit": lambda f: lambda *a: mjax.grad(
        mjax.jit(lambda *a: loss(f(*a))), range(len(a)))(*a),
    "jit grad": lambda f: lambda *a: mjax.jit(
        mjax.grad(lambda *a: loss(f(*a)), range(len(a))))(*a),
    "jvp": lambda f: lambda *a: mjax.jvp(f, a, directions(a)),
    "jvp of one": lambda f: lambda *a: mjax.jvp(
        lambda x: f(x, *a[1:]), a[:1], directions(a[:1])),
    "linearize": lambda f: lambda *a: mjax.linearize(f, *a)[1](*directions(a)),
    "vmap": lambda f: lambda *a: mjax.vmap(f)(*mjax.tree.map(
        lambda x: mjax.numpy.stack([x, x * 0.5, -x]), a)),
    "vmap of one": lambda f: lambda *a: mjax.vmap(f, (1, *[None] * (len(a) - 1)))(
        mjax.numpy.stack([a[0], a[0] * 0.5], 1), *a[1:]),
    "vmap grad": lambda f: lambda *a: mjax.vmap(mjax.grad(lambda *a: loss(f(*a))))(*mjax.tree.map(
        lambda x: mjax.numpy.stack([x, x * 0.5, -x]), a)),
    "grad vmap": lambda f: lambda *a: mjax.grad(lambda *a: loss(mjax.vmap(f)(*a)))(*mjax.tree.map(
        lambda x: mjax.numpy.stack([x, x * 0.5, -x]), a)),
    "remat": lambda f: lambda *a: mjax.grad(
        lambda *a: loss(mjax.checkpoint(f)(*a)), range(len(a)))(*a),
    "grad grad": lambda f: lambda *a: mjax.grad(lambda x: loss(mjax.grad(
        lambda *a: loss(f(*a)), range(len(a)))(x, *a[1:])))(a[0]),
    "scan": lambda f: lambda *a: mjax.grad(lambda x: mjax.lax.scan(
        lambda c, y: (c + loss(f(x * y, *a[1:])), c), 0.0,
        np.array([1.0, 0.5], "float32"))[0])(a[0]),
    "cond": lambda f: lambda *a: mjax.grad(lambda x: mjax.lax.cond(
        x.sum() > -1e9, lambda x: loss(f(x, *a[1:])), lambda x: 0.0, x))(a[0]),
}


def check(way, f, in_specs, out_specs, args, rtol=2e-4, atol=2e-4, **options):
    found = WAYS[way](sharded(f, in_specs, out_specs, **options))(*args)
    expected = WAYS[way](simulated(f, in_specs, out_specs))(*args)
    same(found, expected, rtol, atol)


def same(found, expected, rtol=2e-4, atol=2e-4):
    for a, b in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        assert a.dtype == b.dtype
        if a.dtype == mjax.dtypes.float0:
            assert a.shape == b.shape
            continue
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol, atol)


__all__ = ["AXES", "WAYS", "P", "check", "loss", "mesh", "same", "sharded", "simulated"]
