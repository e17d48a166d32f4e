"""Programs over several devices side by side with jax: values, placements, what is refused."""

import copy
import warnings

import jax
import numpy as np
import pytest

import mjax

X = np.arange(64, dtype=np.float32).reshape(8, 8)


class Side:
    """One library, and what the programs below need of it."""

    def __init__(self, m):
        self.m, self.lax, self.np = m, m.lax, m.numpy
        self.P = m.sharding.PartitionSpec
        self.mesh = m.sharding.Mesh(np.array(m.devices()).reshape(4, 2), ("x", "y"))
        self.one = m.sharding.Mesh(np.array(m.devices()[:1]), ("x",))
        self.last = m.sharding.SingleDeviceSharding(m.devices()[7])

    def N(self, *spec, mesh=None):
        return self.m.sharding.NamedSharding(mesh or self.mesh, self.P(*spec))

    def put(self, x, *spec):
        return self.m.device_put(x, self.N(*spec))

    def constraint(self, x, *spec):
        return self.lax.with_sharding_constraint(x, self.N(*spec))


def place_of(m, x):
    """Device -> the part that it holds, in numbers."""
    place = {d: i for i, d in enumerate(m.devices())}
    parts = x.sharding.devices_indices_map(x.shape)
    return {place[d]: tuple(p.indices(n)[:2] for p, n in zip(index, x.shape, strict=True))
            for d, index in parts.items()}


def both(f):
    out = []
    for m in (jax, mjax):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                leaves = m.tree.leaves(f(Side(m)))
        except Exception as error:
            out.append([k.__name__ for k in (TypeError, ValueError) if isinstance(error, k)])
        else:
            out.append([(np.asarray(x).tolist(), place_of(m, x), x.committed) for x in leaves])
    return out


def plus(x):
    return x + 1


PROGRAMS = {
    "elementwise": lambda s: s.m.jit(plus)(s.put(X, "x", "y")),
    "transpose": lambda s: s.m.jit(lambda x: x.T)(s.put(X, "x", "y")),
    "sums": lambda s: s.m.jit(lambda x: (x.sum(0), x.sum(1), x.sum()))(s.put(X, "x", "y")),
    "product": lambda s: s.m.jit(lambda x, y: x @ y)(s.put(X, "x"), s.put(X, None, "y")),
    "slice": lambda s: s.m.jit(lambda x: (x[:7], x[::2], x[0]))(s.put(X, "x")),
    "reshape": lambda s: s.m.jit(lambda x: x.reshape(2, 4, 8))(s.put(X, ("x", "y"))),
    "eager": lambda s: (s.put(X, "x") + 1, s.put(X, None, "y") * s.put(X, None, "y")),
    "two axes on a dimension": lambda s: s.m.jit(plus)(s.put(X, None, ("y", "x"))),
    "uncommitted company": lambda s: s.m.jit(lambda x, y, z: x * y + z)(s.put(X, "x"), X, 2.0),
    "handed on": lambda s: s.m.jit(lambda x, y: (y, x, x + 1))(s.put(X, "x"), X[0]),
    "a mesh of one": lambda s: s.m.jit(plus)(s.m.device_put(X, s.N("x", mesh=s.one))),
    "in": lambda s: s.m.jit(plus, in_shardings=s.N("y", "x"))(X),
    "in, out": lambda s: s.m.jit(lambda x: (x, x.T), in_shardings=s.N("y"),
                                 out_shardings=(None, s.N("x", "y")))(X),
    "out": lambda s: s.m.jit(lambda x: {"a": x, "b": [x + 1, x.sum()]},
                             out_shardings={"a": s.N("y"), "b": s.N()})(s.put(X, "x")),
    "out of a handed on": lambda s: s.m.jit(lambda x: x, out_shardings=s.N("y"))(s.put(X, "x")),
    "one device": lambda s: s.m.jit(plus, in_shardings=s.last)(X),
    "one device out": lambda s: s.m.jit(plus, out_shardings=s.last)(X),
    "constraint": lambda s: s.m.jit(lambda x: s.constraint(x * 2, "y"))(X),
    "constraint eager": lambda s: s.constraint(s.np.asarray(X), None, "x"),
    "constraint uneven": lambda s: s.m.jit(lambda x: s.constraint(x, "x") + 1)(X[:7]),
    "unconstrained": lambda s: s.m.jit(
        lambda x: s.constraint(x * 2, s.P.UNCONSTRAINED, "y"))(s.put(X, "x")),
    "nested": lambda s: s.m.jit(lambda x: s.m.jit(
        plus, in_shardings=s.N("x"), out_shardings=s.N(None, "y"))(x) * 2)(X),
    "vmap": lambda s: s.m.jit(s.m.vmap(lambda x: s.constraint(x, "y"), spmd_axis_name="x"))(X),
    "vmap of jit": lambda s: s.m.vmap(s.m.jit(plus, in_shardings=s.N("y")),
                                      spmd_axis_name="x")(X),
    "grad": lambda s: s.m.grad(lambda x: s.m.jit(
        lambda x: (x * x).sum(), in_shardings=s.N("x"))(x))(s.np.asarray(X)),
    "static": lambda s: s.m.jit(lambda n, x: x + n, static_argnums=0, in_shardings=s.N("x"))(1, X),
    "ahead of time": lambda s: s.m.jit(plus, in_shardings=s.N("x")).lower(
        s.m.ShapeDtypeStruct(X.shape, X.dtype)).compile()(X),
    "scan": lambda s: s.m.jit(lambda x: s.lax.scan(
        lambda c, row: (c + row, c * row), x[0], x))(s.put(X, None, "y")),
    "a mesh of one: many": lambda s: s.m.jit(lambda x: (x.T, x.sum(), x[:3]))(
        s.m.device_put(X, s.N("x", mesh=s.one))),
    "over an abstract mesh": lambda s: s.m.jit(lambda x: s.lax.with_sharding_constraint(
        x, s.N("y", mesh=s.mesh.abstract_mesh)) + 1)(s.put(X, "x")),
    "out over an abstract mesh": lambda s: s.m.jit(
        plus, out_shardings=s.N("y", mesh=s.mesh.abstract_mesh))(s.put(X, "x")),
    "like another": lambda s: [f(s.put(X, "x", "y")) for f in (
        s.np.zeros_like, s.np.ones_like, s.np.empty_like)],
    "full like another": lambda s: (s.lax.full_like(s.put(X, "x"), 2), s.np.full_like(
        s.m.device_put(X, s.m.devices()[3]), 2), s.np.zeros_like(s.put(X, "x"), shape=(3,))),
    "made in place": lambda s: (s.np.zeros((8, 8), device=s.N("x")), s.lax.full(
        (8,), 1, sharding=s.N("x"))),
    "deep copy": lambda s: copy.deepcopy(s.put(X, "x", "y")),
    "local data": lambda s: s.m.make_array_from_process_local_data(
        s.N("x"), {"a": X, "b": X[0]}),
    # Refused calls.
    "put: abstract": lambda s: s.m.device_put(X, s.N("x", mesh=s.mesh.abstract_mesh)),
    "other devices": lambda s: s.m.jit(lambda x, y: x + y)(
        s.put(X, "x"), s.m.device_put(X, s.m.devices()[0])),
    "in: other sharding": lambda s: s.m.jit(plus, in_shardings=s.N("y"))(s.put(X, "x")),
    "in: other devices": lambda s: s.m.jit(plus, in_shardings=s.N("y"))(
        s.m.device_put(X, s.m.devices()[3])),
    "in: uneven": lambda s: s.m.jit(plus, in_shardings=s.N("x"))(X[:7]),
    "in: rank": lambda s: s.m.jit(plus, in_shardings=s.N(None, None, "x"))(X),
    "in: tree": lambda s: s.m.jit(plus, in_shardings=(s.N(), s.N()))(X),
    "in: type": lambda s: s.m.jit(plus, in_shardings="x")(X),
    "in: keywords": lambda s: s.m.jit(plus, in_shardings=s.N("x"))(x=X),
    "in: unconstrained": lambda s: s.m.jit(plus, in_shardings=s.N(s.P.UNCONSTRAINED))(X),
    "out: tree": lambda s: s.m.jit(plus, out_shardings=(s.N(), s.N()))(X),
    "out: uneven": lambda s: s.m.jit(plus, out_shardings=s.N("x"))(X[:7]),
    "out: other devices": lambda s: s.m.jit(plus, out_shardings=s.last)(s.put(X, "x")),
    "constraint: other devices": lambda s: s.constraint(
        s.m.device_put(X, s.m.devices()[3]), "x"),
    "constraint: uneven": lambda s: s.constraint(s.np.asarray(X[:7]), "x"),
    "constraint: rank": lambda s: s.m.jit(lambda x: s.constraint(x, None, None, "x"))(X),
    "ahead of time: other sharding": lambda s: s.m.jit(plus, in_shardings=s.N("x")).lower(
        X).compile()(s.put(X, "y")),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    one, other = both(PROGRAMS[name])
    assert one == other


def test_shardings_of_compiled_programs():
    def run(s):
        struct = s.m.ShapeDtypeStruct(X.shape, X.dtype)
        compiled = s.m.jit(lambda x, y: (x @ y, y), in_shardings=(s.N("x"), None)).lower(
            struct, struct.update(sharding=s.N(None, "y"))).compile()
        (ins, kwargs), outs = compiled.input_shardings, compiled.output_shardings
        return [tuple(p.spec) for p in (*ins, *outs)], kwargs

    assert run(Side(jax)) == run(Side(mjax))
