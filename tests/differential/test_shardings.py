"""Which device holds which part, and where results of transfers are, side by side with jax."""

import itertools
import warnings

import jax
import numpy as np
import pytest

import mjax

SHAPES = [(), (8,), (8, 4), (4, 8, 2), (0, 8), (8, 0, 2)]
SPECS = [(), ("x",), (None, "x"), ("y", "x"), (("y", "x"),), (("x", "y"),), (None, ("y",)),
         (None, None, "y"), ("x", "y", None), ("z",), (("x", "z"), "y")]
X = np.arange(64, dtype=np.float32).reshape(8, 8)


def mesh(m, shape=(2, 2, 2), names="xyz"):
    devices = np.array(m.devices()[:np.prod(shape)]).reshape(shape)
    return m.sharding.Mesh(devices, tuple(names[:len(shape)]))


def both(f):
    """What a function of the library gives on each; errors by their kind."""
    out = []
    for m in (jax, mjax):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out.append(f(m))
        except Exception as error:
            out.append([k.__name__ for k in (TypeError, ValueError) if isinstance(error, k)])
    return out


def described(m, x):
    place = {d: i for i, d in enumerate(m.devices())}
    return {
        "shards": [(place[s.device], str(s.index), s.replica_id, np.asarray(s.data).tolist())
                   for s in x.addressable_shards],
        "value": np.asarray(x).tolist(), "devices": sorted(place[d] for d in x.devices()),
        "facts": (x.is_fully_replicated, x.is_fully_addressable, x.committed, x.nbytes),
        "shape": x.sharding.shard_shape(x.shape)}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_parts_of_arrays(spec, shape):
    value = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)

    def run(m):
        sharding = m.sharding.NamedSharding(mesh(m), m.sharding.PartitionSpec(*spec))
        return described(m, m.device_put(value, sharding))

    one, other = both(run)
    assert one == other


def test_the_parts_of_arrays_on_meshes_with_axes_of_size_1():
    def run(m):
        sharding = m.sharding.NamedSharding(mesh(m, (1, 4)), m.sharding.PartitionSpec("x", "y"))
        return described(m, m.device_put(X, sharding))

    one, other = both(run)
    assert one == other


@pytest.mark.parametrize(("source", "target"), list(itertools.product(
    ["device", "other device", (), ("x",), ("y",)], repeat=2)), ids=str)
def test_arguments_committed_elsewhere(source, target):
    """They are moved to where in_shardings asks for the same parts, on whatever devices."""
    def run(m):
        devices = m.devices()
        half, rest = [m.sharding.Mesh(np.array(d).reshape(2, 2), ("x", "y"))
                      for d in (devices[:4], devices[4:])]
        one, two = [
            m.sharding.SingleDeviceSharding(devices[3]) if s == "device" else
            m.sharding.SingleDeviceSharding(devices[5]) if s == "other device" else
            m.sharding.NamedSharding(mesh, m.sharding.PartitionSpec(*s))
            for s, mesh in ((source, half), (target, rest))]
        return described(m, m.jit(lambda x: x + 1, in_shardings=two)(m.device_put(X, one)))

    one, other = both(run)
    assert one == other


@pytest.mark.parametrize("transform", [
    lambda m, f, x: m.grad(lambda x: f(x).sum())(x), lambda m, f, x: m.jvp(f, (x,), (x,))[1],
    lambda m, f, x: m.vjp(f, x)[1](X)[0], lambda m, f, x: m.linearize(f, x)[1](x),
    lambda m, f, x: m.grad(lambda x: m.checkpoint(f)(x).sum())(x), lambda m, f, x: m.vmap(f)(x),
], ids=["grad", "jvp", "vjp", "linearize", "checkpoint", "vmap"])
def test_derivatives_at_arguments_committed_elsewhere(transform):
    def run(m):
        devices = m.devices()
        f = m.jit(lambda x: x**2, in_shardings=m.sharding.SingleDeviceSharding(devices[3]))
        return described(m, transform(m, f, m.device_put(X, devices[5])))

    one, other = both(run)
    assert one == other


@pytest.mark.parametrize("target", SPECS, ids=str)
@pytest.mark.parametrize("source", [(), ("x",), ("z", "y")], ids=str)
def test_resharding(source, target):
    def run(m):
        to = [m.sharding.NamedSharding(mesh(m), m.sharding.PartitionSpec(*s))
              for s in (source, target)]
        return described(m, m.device_put(m.device_put(X, to[0]), to[1]))

    one, other = both(run)
    assert one == other


PROGRAMS = {
    "grad": lambda m, x, s: m.grad(lambda x: (m.device_put(x, s) ** 2).sum())(x),
    "jvp": lambda m, x, s: m.jvp(lambda x: m.device_put(x, s) * 2, (x,), (x,))[1],
    "jit": lambda m, x, s: m.jit(lambda x: m.device_put(x, s) * 2, out_shardings=s)(x),
    "tree": lambda m, x, s: m.device_put([x, 2 * X], [None, s])[1],
    "of arrays": lambda m, x, s: m.make_array_from_single_device_arrays(
        (8, 8), s, [p.data for p in m.device_put(X, s).addressable_shards]),
    "of a function": lambda m, x, s: m.make_array_from_callback((8, 8), s, lambda i: X[i]),
    "of local data": lambda m, x, s: m.make_array_from_process_local_data(s, X),
    "of local data, whole": lambda m, x, s: m.make_array_from_process_local_data(s, X, (8, 8)),
    "of a spec": lambda m, x, s: m.device_put(x, s.spec),
    "copy": lambda m, x, s: m.device_put(m.device_put(x, s), s, may_alias=False),
    "donated": lambda m, x, s: m.device_put(m.device_put(x, s), m.devices()[3], donate=True),
    "ones": lambda m, x, s: m.numpy.ones((8, 8)),
    "array": lambda m, x, s: m.numpy.asarray(X),
    "as it was": lambda m, x, s: m.numpy.asarray(x),
    "like": lambda m, x, s: m.numpy.zeros_like(m.device_put(x, s)),
    "ones elsewhere": lambda m, x, s: m.numpy.ones((8, 8), device=m.devices()[3]),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("spec", [("x",), (("y", "x"), None), (None, "z")], ids=str)
def test_programs(program, spec):
    def run(m):
        with m.set_mesh(mesh(m)):
            s = m.sharding.NamedSharding(mesh(m), m.sharding.PartitionSpec(*spec))
            start = m.sharding.NamedSharding(mesh(m), m.sharding.PartitionSpec("z"))
            return described(m, PROGRAMS[program](m, m.device_put(X, start), s))

    one, other = both(run)
    assert one == other


@pytest.mark.parametrize("reduction", ["psum", "pmax", "pmin"])
def test_groups_of_different_sizes(reduction):
    groups = [[5, 0, 2], [1, 3, 4, 6], [7]]
    one, other = both(lambda m: np.asarray(m.pmap(lambda x: getattr(m.lax, reduction)(
        x, "i", axis_index_groups=groups), "i")(X)).tolist())
    assert one == other


def _under(m, mesh, f):
    with m.set_mesh(mesh):
        return f()


REFUSED = {
    "elsewhere": lambda m, s: _under(m, mesh(m), lambda: m.numpy.sin(
        m.device_put(X, m.devices()[3]))),
    "a mesh in a program": lambda m, s: m.jit(lambda x: _under(m, mesh(m), lambda: x))(X),
    "a map over another mesh": lambda m, s: _under(m, mesh(m), lambda: m.shard_map(
        lambda x: x, mesh=mesh(m, (4, 2)), in_specs=s("x").spec, out_specs=s("x").spec)(X)),
    "parts of another dtype": lambda m, s: m.make_array_from_callback(
        (8, 8), s("x"), lambda i: X[i], dtype=np.float16),
    "no constraint": lambda m, s: m.lax.with_sharding_constraint(X, None),
    "too long": lambda m, s: m.device_put(X[0], s("x", "y")),
    "a scalar": lambda m, s: m.device_put(3.0, s("x")),
    "not divisible": lambda m, s: m.device_put(X[:7], s("x")),
    "no such axis": lambda m, s: s("q"),
    "a spec without a mesh": lambda m, s: m.device_put(X, m.sharding.PartitionSpec("x")),
    "no such memory": lambda m, s: m.sharding.NamedSharding(
        mesh(m), m.sharding.PartitionSpec("x"), memory_kind="attic"),
    "too many devices": lambda m, s: m.make_mesh((3, 3), ("x", "y")),
    "parts of another shape": lambda m, s: m.make_array_from_single_device_arrays(
        (9, 8), s("x"), [p.data for p in m.device_put(X, s("x")).addressable_shards]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_both_refuse(case):
    def run(m):
        return REFUSED[case](m, lambda *spec: m.sharding.NamedSharding(
            mesh(m), m.sharding.PartitionSpec(*spec)))

    one, other = both(run)
    assert one == other == ["ValueError"]


def test_public_names():
    """What is not here is about sharding in types, or devices that are not there."""
    absent = {"AbstractDevice", "ManualAxisType", "auto_axes", "explicit_axes", "reshard"}
    names = {n for n in dir(jax.sharding) if not n.startswith("_")} - absent
    assert names - set(mjax.sharding.__all__) == set()


INSPECTED = {
    "jit": lambda m, look: m.jit(look),
    "grad": lambda m, look: m.jit(m.grad(lambda x: look(x).sum())),
    "eager": lambda m, look: look,
    "vmap": lambda m, look: m.jit(m.vmap(lambda row: look(row[None]))),
    "scan": lambda m, look: m.jit(
        lambda x: m.lax.scan(lambda c, _: (look(c), None), x, length=2)[0]),
    "remat": lambda m, look: m.jit(m.grad(m.checkpoint(lambda x: m.numpy.sin(look(x)).sum()))),
    "shard_map": lambda m, look: m.jit(m.shard_map(
        look, mesh=mesh(m), in_specs=m.sharding.PartitionSpec("x"),
        out_specs=m.sharding.PartitionSpec("x"))),
}


@pytest.mark.parametrize("form", INSPECTED)
@pytest.mark.parametrize("spec", [(), ("x",), ("y", "x"), (None, ("x", "z"))], ids=str)
def test_what_inspect_array_sharding_tells(form, spec):
    def run(m):
        seen = []

        def look(x):
            for value in (x * 2, x.sum(0), x.T):
                m.debug.inspect_array_sharding(
                    value, callback=lambda s, n=value.ndim: seen.append(str(s.spec)))
            return x + 1

        place = m.sharding.NamedSharding(mesh(m), m.sharding.PartitionSpec(*spec))
        f = INSPECTED[form](m, look)
        for _ in range(2):
            m.block_until_ready(f(m.device_put(X, place)))
        return [s.replace("PartitionSpec", "P") for s in seen]

    one, other = both(run)
    assert one == other and one and all(spec.startswith("P(") for spec in one)
