"""Programs whose artifacts must stay readable, and a command that writes or reads them all.

    MJAX_NUM_CPU_DEVICES=4 python -m tests.export.programs write FOLDER
    MJAX_NUM_CPU_DEVICES=4 python -m tests.export.programs read FOLDER
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax import export, lax

f32 = np.dtype("float32")
X = np.linspace(0, 1, 6, dtype=f32).reshape(3, 2)
HELD = np.arange(6, dtype=f32).reshape(2, 3)


def network(p, x):
    return {"y": jnp.tanh(x @ p["w"] @ jnp.asarray(HELD)).sum(0), "n": p["n"] + 1}


def loops(n, x):
    return lax.fori_loop(0, n, lambda i, c: jnp.sort(c @ c.T @ c / 4), x)


def platforms(x):
    return lax.platform_dependent(x, tpu=jnp.negative, default=lambda x: jnp.cos(x))


def keys(key):
    return mjax.random.uniform(key, (3,))


def matrices(x):
    square = x.T @ x + jnp.eye(2)
    return jnp.linalg.cholesky(square), jnp.linalg.solve(square, x.T), jnp.linalg.eigvalsh(square)


def symbolic(x):
    total, rows = lax.scan(lambda c, row: (c + row, jnp.cumsum(row)), jnp.zeros(2), x[1:])
    return {"mean": total / (x.shape[0] - 1), "rows": rows[::2], "pad": jnp.pad(x, 1),
            "places": x[jnp.argsort(x[:, 0])], "inverse": jnp.linalg.inv(x.T @ x + jnp.eye(2))}


def mesh():
    return mjax.make_mesh((2, 2), ("a", "b"))


def sharded(x):
    rows = lax.with_sharding_constraint(jnp.sin(x), mjax.NamedSharding(mesh(), mjax.P("b")))
    return rows @ x.T


def per_device(x):
    """Programs per device: inside one another, in a loop, called twice, and without arguments."""
    def rows(x):
        columns = mjax.shard_map(lambda y: y * lax.psum(y, "b"), in_specs=mjax.P(None, "b"),
                                 out_specs=mjax.P(None, "b"), axis_names={"b"})
        return columns(x) + lax.axis_index("a")

    nested = mjax.shard_map(rows, mesh=mesh(), in_specs=mjax.P("a"), out_specs=mjax.P("a"),
                            axis_names={"a"})
    shifted = mjax.shard_map(
        lambda x, y: (lax.ppermute(x, "a", [(0, 1), (1, 0)]) + lax.pmean(y, "b"), y / 2),
        mesh=mesh(), in_specs=(mjax.P("a", "b"), mjax.P("b")),
        out_specs=(mjax.P("a", "b"), mjax.P("b")))
    numbers = mjax.shard_map(lambda: lax.axis_index("a").astype("float32")[None], mesh=mesh(),
                             in_specs=(), out_specs=mjax.P("a"))
    (x, y), _ = lax.scan(lambda c, _: (shifted(*c), None), (nested(x), x[0]), None, length=2)
    return shifted(x, y)[0][:2] * numbers()[:, None]


#: Name -> (function, arguments).
PROGRAMS = {
    "network": (network, ({"w": np.ones((2, 2), f32), "n": np.int32(3)}, X)),
    "loops": (loops, (np.int32(2), X)),
    "platforms": (platforms, (X,)),
    "keys": (keys, (mjax.random.key(1),)),
    "matrices": (matrices, (X,)),
    "symbolic": (symbolic, (X,)),
    "sharded": (sharded, (np.linspace(0, 1, 16, dtype=f32).reshape(4, 4),)),
    "per_device": (per_device, (np.linspace(0, 1, 16, dtype=f32).reshape(4, 4),)),
}
OVER_A_MESH = ("sharded", "per_device")


def artifact(name):
    """The bytes of a program, with a derivative where its results are floats."""
    function, args = PROGRAMS[name]
    if name == "symbolic":
        args = export.symbolic_args_specs(args, "b, 2", constraints=["b >= 2"])
    options = {"in_shardings": mjax.NamedSharding(mesh(), mjax.P("a", "b"))} if (
        name in OVER_A_MESH) else {}
    exported = export.export(mjax.jit(function, **options), platforms=(
        ("tpu", "cpu") if name == "platforms" else None))(*args)
    return exported.serialize(vjp_order=int(name in ("network", "symbolic", *OVER_A_MESH)))


def check(name, data):
    """Compares an artifact's results, for several sizes where it takes them, with the program's."""
    function, args = PROGRAMS[name]
    exported = export.deserialize(data)
    several = [(np.linspace(0, 1, 2 * n, dtype=f32).reshape(n, 2),) for n in (2, 5)] if (
        name == "symbolic") else []
    if exported.nr_devices > 1:
        args = tuple(map(mjax.device_put, args, exported.in_shardings_jax(mesh())))
    for given in args, *several:
        _compare(exported.call(*given), function(*given))
    if exported.has_vjp():
        loss = lambda f: lambda x: sum(leaf.sum() for leaf in mjax.tree.leaves(
            f(*args[:-1], x)) if leaf.dtype == f32)
        _compare(mjax.grad(loss(exported.call))(args[-1]), mjax.grad(loss(function))(args[-1]))


def _compare(got, wanted):
    for one, other in zip(mjax.tree.leaves(got), mjax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def main(what, folder):
    for name in PROGRAMS:
        path = pathlib.Path(folder) / f"{name}.mjax1"
        if what == "write":
            path.write_bytes(artifact(name))
        else:
            check(name, path.read_bytes())
            print("reads", path)


if __name__ == "__main__":
    main(*sys.argv[1:])
