"""`mjax.export`: programs that are written down, read again, called and differentiated."""

from __future__ import annotations

import collections
import pathlib
import random

import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import export as ex
from mjax import lax
from mjax._engine.primitives.sequencing import no_dce_effect
from mjax_ext.core import Effect, EffectPolicy, Primitive

f32 = np.dtype("float32")
ARTIFACTS = pathlib.Path(__file__).parent.parent / "data" / "artifacts"


def exported(f, *args, **options):
    return ex.export(mjax.jit(f), **options)(*args)


def again(e, vjp_order=0):
    """Written and read."""
    return ex.deserialize(e.serialize(vjp_order=vjp_order))


def test_arguments_and_results_are_trees():
    constant = np.arange(6, dtype=f32).reshape(2, 3)
    held = jnp.asarray(constant)

    def f(x, y, *, z):
        return {"a": jnp.sin(x) @ held.T, "b": (y[0] * 2, None)}

    e = ex.export(mjax.jit(f))(mjax.ShapeDtypeStruct((4, 3), f32), [np.int32(0)], z=1.0)
    assert [str(a) for a in e.in_avals] == ["float32[4,3]", "int32[]", "~float32[]"]
    assert e.fun_name == "f" and e.platforms == ("cpu",) and e.nr_devices == 1
    assert e.module_kept_var_idx == (0, 1)
    x = np.linspace(0, 1, 12, dtype=f32).reshape(4, 3)
    for one in e, again(e):
        out = one.call(x, [np.int32(4)], z=np.float32(1))
        np.testing.assert_allclose(out["a"], np.sin(x) @ constant.T, rtol=1e-5)
        assert out["b"] == (8, None)


def test_derivatives_of_any_order():
    e = again(exported(lambda x: jnp.sin(x) ** 2, np.float32(0)), vjp_order=3)
    g, x = e.call, 0.7
    for derivative in (np.sin(x) ** 2, np.sin(2 * x), 2 * np.cos(2 * x), -4 * np.sin(2 * x)):
        np.testing.assert_allclose(g(np.float32(x)), derivative, rtol=1e-5)
        g = mjax.grad(g)
    with pytest.raises(ValueError, match=r"vjp_order=1"):
        g(np.float32(x))


def test_integers_have_no_derivative():
    e = again(exported(lambda x, n: (x * n, n + 1), np.float32(0), np.int32(0)), vjp_order=1)
    assert mjax.grad(lambda x: e.call(x, np.int32(3))[0])(np.float32(2)) == 3


def test_calls_in_programs():
    e = again(exported(lambda x: x * 2, np.ones(3, f32)))

    def body(x, _):
        return e.call(x) + e.call(x), None

    x = mjax.jit(lambda x: lax.scan(body, x, None, length=3)[0])(np.ones(3, f32))
    np.testing.assert_array_equal(x, [64, 64, 64])
    outer = again(exported(lambda x: e.call(x) + 1, np.ones(3, f32)))
    np.testing.assert_array_equal(outer.call(np.ones(3, f32)), [3, 3, 3])


def test_control_flow_and_large_constants():
    table = jnp.arange(4000, dtype=f32)

    def f(i):
        return lax.fori_loop(0, i, lambda j, x: x + table[j].sum(), jnp.float32(0))

    assert again(exported(f, np.int32(0))).call(np.int32(10)) == 45


def test_several_platforms():
    def f(x):
        return lax.platform_dependent(x, cpu=lambda x: x + 1, default=lambda x: x * 3)

    e = again(exported(f, np.float32(0), platforms=("tpu", "cuda", "cpu")), 0)
    assert e.platforms == ("tpu", "cuda", "cpu") and e.call(np.float32(2)) == 3
    assert "tensor<i32>" in e.mlir_module()
    same = exported(lambda x: x + 1, np.float32(0), platforms=("cpu", "rocm"))
    assert "case" not in same.mlir_module() and same.call(np.float32(1)) == 2
    inner = exported(lambda x: e.call(x) + 1, np.float32(0), platforms=("cuda", "cpu"))
    assert again(inner).call(np.float32(2)) == 4
    assert again(e).platforms == e.platforms
    assert mjax.grad(exported(f, np.float32(0), platforms=("tpu", "cpu")).call)(1.0) == 1


@pytest.mark.parametrize("platforms", [("cpu", "cuda", "tpu"), ("tpu", "rocm", "cpu")])
def test_programs_that_differ_by_platform(platforms):
    def f(x):
        x = lax.platform_dependent(x, cuda=lambda x: x * 5, tpu=lambda x: x * 7, rocm=lambda x: -x,
                                   cpu=lambda x: x * 3)
        return jnp.linalg.cholesky(x), mjax.random.normal(mjax.random.key(0), (2,))

    x = np.eye(2, dtype=f32) * 3
    e = again(exported(f, x, platforms=platforms), 1)
    assert e.platforms == platforms and e.uses_global_constants
    assert "stablehlo.case" in e.mlir_module()
    root, normal = e.call(x)
    np.testing.assert_allclose(root, np.eye(2) * 3, rtol=1e-6)
    np.testing.assert_allclose(normal, mjax.random.normal(mjax.random.key(0), (2,)), rtol=1e-6)
    gradient = mjax.grad(lambda x: e.call(x)[0].sum())(x)
    np.testing.assert_allclose(gradient, mjax.grad(lambda x: f(x)[0].sum())(x), rtol=1e-5)


def test_other_platforms_are_refused_where_they_are_not():
    e = exported(lambda x: x + 1, np.float32(0), platforms=["tpu"])
    with pytest.raises(ValueError, match="exported for tpu and is called on cpu"):
        e.call(np.float32(1))
    e = exported(lambda x: x + 1, np.float32(0), platforms=["tpu"],
                 disabled_checks=[ex.DisabledSafetyCheck.platform()])
    assert again(e).call(np.float32(1)) == 2
    assert ex.export(mjax.jit(jnp.sin), platforms=[])(1.0).platforms == ("cpu",)
    for wrong in "cpu", "", ["cpu", "cpu"], ["gpu"], ["abacus"]:
        with pytest.raises(ValueError, match="platforms="):
            ex.export(mjax.jit(jnp.sin), platforms=wrong)


def test_keys():
    key, held = mjax.random.key(3), mjax.random.key(5)
    e = again(exported(lambda k: (mjax.random.split(k), mjax.random.normal(held, (2,))), key))
    keys, normal = e.call(key)
    assert (keys == mjax.random.split(key)).all()
    np.testing.assert_allclose(normal, mjax.random.normal(held, (2,)), rtol=1e-6)


def test_linear_algebra():
    x = np.eye(3, dtype=f32) * 4
    np.testing.assert_allclose(again(exported(jnp.linalg.cholesky, x)).call(x), np.sqrt(x))


KERNELS = {
    "cuda": {"cusolver_getrf_ffi", "cusolver_geqrf_ffi", "cusolver_orgqr_ffi",
             "cusolver_syevd_ffi", "cusolver_gesvdj_ffi", "cusolver_sytrd_ffi"},
    "rocm": {"hipsolver_getrf_ffi", "hipsolver_geqrf_ffi", "hipsolver_orgqr_ffi",
             "hipsolver_syevd_ffi", "hipsolver_gesvdj_ffi", "hipsolver_sytrd_ffi"},
    "tpu": {"LuDecomposition", "Qr", "ProductOfElementaryHouseholderReflectors", "Eigh"},
}


@pytest.mark.parametrize("platform", KERNELS)
def test_linear_algebra_of_accelerators(platform):
    def f(x):
        more = () if platform == "tpu" else lax.linalg.tridiagonal(x)
        return (jnp.linalg.inv(x), *jnp.linalg.qr(x), *jnp.linalg.eigh(x), *jnp.linalg.svd(x),
                jnp.linalg.det(x), *more)

    x = np.eye(3, dtype=f32)
    e = again(exported(f, x, platforms=[platform]), 0)
    text = e.mlir_module()
    assert {name for name in text.replace("(", " ").split() if name[1:] in KERNELS[platform]} == {
        f"@{name}" for name in KERNELS[platform]}
    rows = ex.symbolic_args_specs((x,), "n, n")
    symbolic = exported(lambda x: (jnp.linalg.eigvalsh(x), lax.linalg.lu(x)), *rows,
                        platforms=[platform])
    assert [str(a.shape) for a in symbolic.out_avals] == ["(n,)", "(n, n)", "(n,)", "(n,)"]


def test_shardings():
    mesh = mjax.make_mesh((1,), ("i",))
    sharding = mjax.NamedSharding(mesh, mjax.P("i"))
    e = again(ex.export(mjax.jit(jnp.sin, in_shardings=sharding))(np.ones(2, f32)), 0)
    assert e.in_shardings_jax(mesh) == (sharding,)
    x = mjax.device_put(np.ones(2, f32), sharding)
    np.testing.assert_allclose(mjax.jit(e.call)(x), np.sin(np.ones(2)), rtol=1e-6)
    with pytest.raises(ValueError, match="differs from the one of the export"):
        e.in_shardings_jax(mjax.make_mesh((1,), ("j",)))


Pair = collections.namedtuple("Pair", "first second")


class Box:
    def __init__(self, value, label):
        self.value, self.label = value, label


mjax.tree_util.register_pytree_node(
    Box, lambda box: ((box.value,), box.label), lambda label, values: Box(*values, label))


def test_nodes_of_users():
    e = exported(lambda b: b, collections.OrderedDict(x=Pair(np.ones(2), Box(1.0, "l"))))
    with pytest.raises(ValueError, match="register_namedtuple_serialization"):
        e.serialize()
    ex.register_namedtuple_serialization(Pair, serialized_name="test.Pair")
    ex.register_pytree_node_serialization(
        Box, serialized_name="test.Box", serialize_auxdata=str.encode,
        deserialize_auxdata=bytes.decode)
    read = again(e)
    assert read.in_tree == e.in_tree and read.out_tree == e.out_tree
    with pytest.raises(ValueError, match="already"):
        ex.register_namedtuple_serialization(Pair, serialized_name="other")
    with pytest.raises(ValueError, match="is taken"):
        ex.register_namedtuple_serialization(
            collections.namedtuple("P", "x"), serialized_name="test.Pair")
    with pytest.raises(TypeError, match="not with 3"):
        exported(lambda d: d, {3: 1.0}).serialize()


class Logging(Effect):
    policy = EffectPolicy(ordered=True)

    def __eq__(self, other):
        return type(other) is Logging

    def __hash__(self):
        return 7


def test_ordered_effects():
    p = Primitive("log_exported")
    p.def_effectful_abstract_eval(lambda x: (x, frozenset([Logging()])))

    @p.def_lowering
    def lower(ctx, x):
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(ctx.tokens_in))
        return [x]

    e = again(exported(lambda x: p.bind(x) + 1, np.float32(0)))
    assert e.ordered_effects == (Logging(),)
    assert e.call(np.float32(1)) == 2


class Counting(Effect):
    def __eq__(self, other):
        return type(other) is Counting

    def __hash__(self):
        return 8


def test_unordered_effects():
    p = Primitive("count_exported")
    p.def_effectful_abstract_eval(lambda x: (x, frozenset([Counting()])))
    p.def_lowering(lambda ctx, x: [x])

    def f(x):
        lax.dce_sink(x)
        return p.bind(x) + 1

    e = again(exported(f, np.float32(0)))
    assert not e.ordered_effects
    assert {*e.unordered_effects} == {Counting(), no_dce_effect}
    assert e.call(np.float32(1)) == 2
    jaxpr = mjax.make_jaxpr(lambda x: (mjax.jit(e.call)(x), x)[1])(np.float32(0))
    assert jaxpr.effects == {*e.unordered_effects} and "call_exported" in str(jaxpr)
    outer = again(exported(lambda x: e.call(x) * 2, np.float32(0)))
    assert outer.unordered_effects == e.unordered_effects and outer.call(np.float32(1)) == 4


def test_references_that_a_program_makes():
    def f(x):
        ref = mjax.new_ref(x)
        ref[1:] += ref[:-1]
        return mjax.freeze(ref)

    e = again(exported(f, np.arange(3, dtype=f32)), 1)
    assert not e.unordered_effects
    np.testing.assert_array_equal(e.call(np.arange(3, dtype=f32)), [0, 1, 3])
    np.testing.assert_array_equal(mjax.grad(lambda x: e.call(x).sum())(np.zeros(3, f32)), [2, 2, 1])


def test_what_cannot_be_exported():
    ref = mjax.new_ref(np.zeros(2, f32))
    with pytest.raises(NotImplementedError, match="takes or closes over references"):
        exported(lambda r: r[...], ref)
    x = np.zeros(2, "float32").astype(ml_dtypes.int2)
    with pytest.raises(NotImplementedError, match="artifacts do not know the dtype int2"):
        exported(lambda x: x, x).serialize()
    with pytest.raises(ValueError, match=r"export\(jit\(f\)\)"):
        ex.export(jnp.negative.__call__)
    with pytest.raises(NotImplementedError, match="Python functions"):
        exported(lambda x: mjax.pure_callback(np.sin, x, x), np.ones(2, f32))


def test_calls_cannot_be_batched():
    e = exported(jnp.sin, np.float32(0))
    with pytest.raises(NotImplementedError, match=r"that of one element.*jit\(vmap\(f\)\)"):
        mjax.vmap(e.call)(np.zeros(2, f32))
    np.testing.assert_array_equal(lax.map(e.call, np.zeros(2, f32)), [0, 0])


def test_arguments_that_do_not_fit():
    e = exported(lambda x, y: x + y["a"], np.ones(2, f32), {"a": np.ones(2, f32)})
    with pytest.raises(ValueError, match=r"args\[1\]\['a'\] was exported with the shape \(2,\)"):
        e.call(np.ones(2, f32), {"a": np.ones(3, f32)})
    with pytest.raises(ValueError, match=r"args\[0\] was exported with the dtype float32"):
        e.call(np.ones(2, np.int32), {"a": np.ones(2, f32)})
    with pytest.raises(ValueError, match=r"args\[1\]\['b'\] is not expected"):
        e.call(np.ones(2, f32), {"b": np.ones(2, f32)})


# ---- damaged and foreign bytes ----------------------------------------------------------


def corrupted(data, seed):
    """Bits flipped, a part cut out, lost at an end, repeated, or overwritten."""
    rng = random.Random(seed)
    found = bytearray(data)
    at, n = rng.randrange(len(data)), rng.randrange(1, 30)
    match seed % 5:
        case 0:
            found[at] ^= 1 << rng.randrange(8)
        case 1:
            del found[at:at + n]
        case 2:
            del found[at:]
        case 3:
            found[at:at] = found[at:at + n]
        case _:
            found[at:at + n] = rng.randbytes(n)
    return bytes(found)


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(200), marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["network", "keys", "symbolic", "sharded", "per_device"])
def test_corrupted_artifacts_are_refused(name, seeds):
    data = (ARTIFACTS / f"{name}.mjax1").read_bytes()
    ex.deserialize(data)
    for seed in seeds:
        wrong = corrupted(data, seed)
        if wrong != data:
            with pytest.raises(ValueError, match=r"format \d+ of mjax|not an artifact"):
                ex.deserialize(wrong)


def test_later_formats_are_named():
    data = exported(jnp.sin, np.float32(0)).serialize()
    data[8:10] = b"\x07\0"
    with pytest.raises(ValueError, match="is of format 7 of mjax"):
        ex.deserialize(data)
    for empty in b"", b"\0" * 64, b"MJAX" * 3:
        with pytest.raises(ValueError, match=r"damaged|not an artifact"):
            ex.deserialize(empty)
    with pytest.raises(TypeError, match="takes bytes, not str"):
        ex.deserialize("MJAX")
