"""Functions that say how they are cut over devices, against NumPy."""

from __future__ import annotations

import functools
import gc

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import NamedSharding, P, lax
from mjax._engine.spmd import partitioned_calls
from mjax.experimental.custom_partitioning import (
    BATCHING,
    SdyShardingRule,
    custom_partitioning,
)
from mjax_ext import core
from mjax_ext.sharding import GSPMDSharding

MESH = mjax.make_mesh((4, 2), ("x", "y"))
X = np.arange(64, dtype=np.float32).reshape(8, 8)
W = np.arange(32, dtype=np.float32).reshape(8, 4) % 5


def put(x, *spec, mesh=MESH):
    return mjax.device_put(x, NamedSharding(mesh, P(*spec)))


def elementwise(f, log=None, **options):
    """A function of one array that stays as it is cut."""
    made = custom_partitioning(lambda x: f(x))

    def partition(mesh, args, result):
        if log is not None:
            log.append((mesh, args, result))
        return mesh, f, result.sharding, (result.sharding,)

    made.def_partition(partition, **options)
    return made


def product():
    """A matrix product that adds up the contributions of devices."""
    made = custom_partitioning(lambda x, w: x @ w)
    made.asked = []

    def partition(mesh, args, result):
        (rows, inner), out = args[0].sharding.spec, result.sharding.spec
        made.asked.append((args[0].sharding.spec, args[1].sharding.spec, out))

        def pieces(x, w):
            total = x @ w
            return total if inner is None else lax.psum(total, inner)

        return (mesh, pieces, NamedSharding(mesh, P(rows, None)),
                (NamedSharding(mesh, P(rows, inner)), NamedSharding(mesh, P(inner, None))))

    made.def_partition(partition, sharding_rule="i j, j k -> i k", reduction_factors=("j",))
    return made


def hlo(f, *args):
    return mjax.jit(f).lower(*args).compile().as_text()


# ---- results and shardings -----------------------------------------------------------------------


def test_a_product_is_cut_as_its_author_says():
    f = product()
    x, w = put(X, "x", "y"), put(W)
    out = mjax.jit(lambda x, w: f(x, w))(x, w)
    np.testing.assert_array_equal(out, X @ W)
    assert out.sharding.spec == P("x")
    assert f.asked == [(P("x", "y"), P(None, None), P("x", None))]
    text = hlo(lambda x, w: f(x, w), x, w)
    assert "all-reduce" in text and "all-gather" not in text


def test_whole_arrays_and_one_device():
    f = product()
    np.testing.assert_array_equal(f(X, W), X @ W)  # the function itself
    assert f.asked == []
    np.testing.assert_array_equal(f(put(X), put(W)), X @ W)
    assert f.asked == [(P(None, None), P(None, None), P(None, None))]


def test_data_is_moved_to_where_it_is_needed():
    """Along the last axis of a transform, arrays stay whole."""
    fft = custom_partitioning(lambda x: jnp.fft.fft(x))

    def partition(mesh, args, result):
        rows = NamedSharding(mesh, P(args[0].sharding.spec[0], None))
        return mesh, jnp.fft.fft, rows, (rows,)

    fft.def_partition(partition, sharding_rule=SdyShardingRule(((BATCHING, "i"),),
                                                               ((BATCHING, "i"),)))
    for spec, moves in ((("x",), False), (("x", "y"), True)):
        x = put(X, *spec)
        out = mjax.jit(lambda x: fft(x))(x)
        np.testing.assert_allclose(out, np.fft.fft(X), rtol=1e-5, atol=1e-3)
        text = hlo(lambda x: fft(x), x)
        assert moves is ("all-gather" in text or "all-to-all" in text)


def test_several_results_and_pytrees():
    f = custom_partitioning(lambda a, b: {"sum": a["x"] + b[0], "rows": (a["x"].sum(1),)})

    def partition(mesh, args, result):
        assert set(result) == {"sum", "rows"} and set(args[0]) == {"x"}
        rows = NamedSharding(mesh, P(args[0]["x"].sharding.spec[0], None))
        out = {"sum": rows, "rows": (NamedSharding(mesh, P(rows.spec[0])),)}
        return mesh, lambda a, b: {"sum": a["x"] + b[0], "rows": (a["x"].sum(1),)}, out, (
            {"x": rows}, [rows])

    f.def_partition(partition, sharding_rule="i j, i j -> i, i j")  # by the names of the dict
    out = mjax.jit(lambda x, y: f({"x": x}, [y]))(put(X, "x"), put(X, None, "y"))
    np.testing.assert_array_equal(out["sum"], 2 * X)
    np.testing.assert_array_equal(out["rows"][0], X.sum(1))
    assert out["rows"][0].sharding.spec == P("x")


def test_sizes_that_do_not_divide():
    f = elementwise(jnp.sin, sharding_rule="... -> ...")
    x = np.arange(27, dtype=np.float32).reshape(9, 3)
    out = mjax.jit(lambda x: f(lax.with_sharding_constraint(x[:8], NamedSharding(
        MESH, P("x")))))(put(x))
    np.testing.assert_allclose(out, np.sin(x[:8]), rtol=1e-5, atol=1e-6)


def test_other_dtypes_and_ranks():
    f = elementwise(lambda x: x, sharding_rule="... -> ...")
    for dtype in ("bool", "int8", "bfloat16", "complex64"):
        x = put(jnp.arange(8).astype(dtype), "x")
        out = mjax.jit(lambda x: f(x))(x)
        assert out.dtype == x.dtype and out.sharding.spec == P("x")
        np.testing.assert_array_equal(out, x)
    assert mjax.jit(lambda x: f(x))(put(np.float32(3))) == 3


def test_meshes_in_another_order():
    """Collectives name axes; pieces are numbered by the devices of the program."""
    devices = np.array(mjax.devices())[[5, 2, 7, 0, 1, 6, 3, 4]].reshape(4, 2)
    mesh = mjax.sharding.Mesh(devices, ("x", "y"))
    f = product()
    out = mjax.jit(lambda x, w: f(x, w))(put(X, "x", "y", mesh=mesh), put(W, mesh=mesh))
    np.testing.assert_array_equal(out, X @ W)
    g = custom_partitioning(lambda x: jnp.repeat(jnp.arange(4.0), 2) + x)
    g.def_partition(lambda mesh, args, result: (
        mesh, lambda x: x + lax.axis_index("x"), result.sharding, (result.sharding,)),
        sharding_rule="i -> i")
    out = mjax.jit(lambda x: g(x))(put(np.zeros(8, "f4"), "x", mesh=mesh))
    np.testing.assert_array_equal(out, np.repeat(np.arange(4), 2))


def test_the_mesh_in_force():
    log = []
    f = elementwise(jnp.cos, log, sharding_rule="... -> ...")
    with mjax.set_mesh(MESH):
        mjax.jit(lambda x: f(x))(X)
    ((mesh, args, result),) = log
    assert mesh is MESH and args[0].shape == (8, 8) and args[0].dtype == np.float32
    assert args[0].sharding == result.sharding == NamedSharding(MESH, P(None, None))


def test_shardings_as_xla_has_them():
    log = []
    f = elementwise(jnp.cos, log, sharding_rule="... -> ...", decode_shardings=False)
    mjax.jit(lambda x: f(x))(put(X, "x"))
    ((_, args, _),) = log
    assert isinstance(args[0].sharding, GSPMDSharding)
    assert args[0].sharding.is_equivalent_to(NamedSharding(MESH, P("x")), 2)


# ---- rules ---------------------------------------------------------------------------------------


def test_rules_by_a_function():
    seen = []

    def rule(factor, mesh, operands, results):
        seen.append((factor, mesh, [str(t) for t in operands], [str(t) for t in results]))
        return "(a b) -> (a b)", {"a": factor, "b": 4}

    f = custom_partitioning(lambda factor, x: x * factor, static_argnums=(0,))
    f.def_partition(lambda factor, mesh, args, result: (
        mesh, lambda x: x * factor, result.sharding, (result.sharding,)), sharding_rule=rule)
    out = mjax.jit(lambda x: f(2, x))(put(np.ones(8, "f4"), "x"))
    np.testing.assert_array_equal(out, np.full(8, 2))
    assert seen == [(2, MESH, ["tensor<8xf32>"], ["tensor<8xf32>"])]
    f.def_partition(f.partition, sharding_rule=lambda *args: 3)
    with pytest.raises(ValueError, match="must return a text or a SdyShardingRule, got 3"):
        mjax.jit(lambda x: f(3, x))(put(np.ones(8, "f4"), "x"))


def test_without_a_rule_results_are_whole():
    f = elementwise(jnp.sin)
    assert mjax.jit(lambda x: f(x))(put(X, "x")).sharding.is_fully_replicated


def test_rules_from_answers():
    """`infer_sharding_from_operands` alone, as of the older partitioner."""
    f = elementwise(jnp.sin, infer_sharding_from_operands=lambda mesh, args, result: (
        args[0].sharding))
    assert mjax.jit(lambda x: f(x))(put(X, "x", "y")).sharding.spec == P("x", "y")

    rows = custom_partitioning(lambda a, b: (a.T, a.sum(1) + b))
    spec = lambda s, *dims: NamedSharding(MESH, P(*[s.sharding.spec[d] for d in dims]))

    def infer(mesh, args, result):
        assert [r.shape for r in result] == [(8, 8), (8,)]
        return spec(args[0], 1, 0), spec(args[0], 0)

    def partition(mesh, args, result):
        kept = spec(args[0], 0)
        return (mesh, lambda a, b: (a.T, a.sum(1) + b),
                (NamedSharding(mesh, P(None, *kept.spec)), kept), (kept, kept))

    rows.def_partition(partition, infer_sharding_from_operands=infer,
                       propagate_user_sharding=lambda mesh, user: user.sharding)
    transposed, sums = mjax.jit(lambda a, b: rows(a, b))(put(X, "x"), put(X[0]))
    np.testing.assert_array_equal(transposed, X.T)
    np.testing.assert_array_equal(sums, X.sum(1) + X[0])
    assert transposed.sharding.spec == P(None, "x") and sums.sharding.spec == P("x")


# ---- where it is called --------------------------------------------------------------------------


def test_in_programs():
    f = elementwise(jnp.sin, sharding_rule="... -> ...")
    x = put(X, "x")
    out, _ = mjax.jit(lambda x: lax.scan(lambda c, _: (f(c) + f(2 * c), None), x, length=2))(x)
    once = np.sin(X) + np.sin(2 * X)
    np.testing.assert_allclose(out, np.sin(once) + np.sin(2 * once), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mjax.jit(lambda x: lax.cond(x[0, 0] < 1, f, jnp.cos, x))(x),
                               np.sin(X), rtol=1e-5, atol=1e-6)


def test_in_a_shard_map_it_is_the_function():
    log = []
    f = elementwise(jnp.sin, log, sharding_rule="... -> ...")
    for axes in (frozenset(), {"x"}):
        mapped = mjax.shard_map(lambda x: f(x), mesh=MESH, in_specs=P("x"), out_specs=P("x"),
                                axis_names=axes)
        np.testing.assert_allclose(mjax.jit(mapped)(put(X, "x")), np.sin(X), rtol=1e-5, atol=1e-6)
    assert log == []


def test_derivatives_and_batches_are_given_around_it():
    sine, cosine = (elementwise(g, sharding_rule="... -> ...") for g in (jnp.sin, jnp.cos))
    f = mjax.custom_jvp(lambda x: sine(x))
    f.defjvp(lambda primals, tangents: (f(*primals), cosine(*primals) * tangents[0]))
    x = put(X, "x", "y")
    out = mjax.jit(mjax.grad(lambda x: f(x).sum()))(x)
    np.testing.assert_allclose(out, np.cos(X), rtol=1e-5, atol=1e-5)
    batched = mjax.custom_batching.custom_vmap(lambda x: sine(x))
    batched.def_vmap(lambda size, given, x: (sine(x), True))
    np.testing.assert_allclose(mjax.vmap(lambda x: batched(x))(x), np.sin(X), rtol=1e-5, atol=1e-5)
    for transform, text in ((mjax.grad(lambda x: sine(x).sum()), "no jvp rule(.|\n)*custom_jvp"),
                            (mjax.vmap(lambda x: sine(x)), "no batching rule(.|\n)*custom_vmap")):
        with pytest.raises(NotImplementedError, match=text) as caught:
            transform(X)
        assert __file__ in str(caught.value)


def test_an_equation_that_was_traced_outside_of_the_shard_map():
    sine = elementwise(jnp.sin, sharding_rule="i -> i")
    x = np.arange(8, dtype="f4")
    jaxpr = mjax.make_jaxpr(lambda x: sine(x))(x[:2])
    mapped = lambda out: mjax.shard_map(
        lambda x: core.eval_jaxpr(jaxpr, jaxpr.consts, x)[0], mesh=MESH, in_specs=P("x"),
        out_specs=out)
    np.testing.assert_allclose(mjax.jit(mapped(P("x")))(x), np.sin(x), rtol=1e-5)
    with pytest.raises(ValueError, match="var"):
        mjax.make_jaxpr(mapped(P()))(x)


def test_arguments():
    f = custom_partitioning(lambda x, scale, shift=1.0: x * scale + shift, static_argnums=(1,))
    f.def_partition(lambda scale, mesh, args, result: (
        mesh, lambda x, shift: x * scale + shift, args[0].sharding, (
            args[0].sharding, NamedSharding(mesh, P()))), sharding_rule="i, -> i")
    x = put(np.ones(8, "f4"), "x")
    np.testing.assert_array_equal(mjax.jit(lambda x: f(x, 2))(x), np.full(8, 3))
    np.testing.assert_array_equal(mjax.jit(lambda x: f(shift=5.0, scale=3, x=x))(x),
                                  np.full(8, 8))
    np.testing.assert_array_equal(f(x, np.arange(2)[1]), np.full(8, 2))  # not hashable by value

    class Layer:
        scale = 3

        @custom_partitioning
        def __call__(self, x):
            return x

    assert custom_partitioning(jnp.sin).__name__ == jnp.sin.__name__
    with pytest.raises(TypeError, match="missing a required argument: 'scale'"):
        f(x)
    with pytest.raises(TypeError, match="can only be given by name"):
        g = custom_partitioning(lambda x, *, y: x)
        g.def_partition(lambda *args: None)
        g(x, y=1)
    with pytest.raises(mjax.errors.UnexpectedTracerError, match="a static argument is traced"):
        mjax.jit(lambda x, s: f(x, s))(x, 2)


# ---- errors --------------------------------------------------------------------------------------


def test_closures_and_effects_are_refused():
    def closing(x, y):
        f = custom_partitioning(lambda x: x + y)
        f.def_partition(lambda *args: None)
        return f(x)

    with pytest.raises(mjax.errors.UnexpectedTracerError, match="make them arguments"):
        mjax.jit(closing)(X, 1.0)
    f = custom_partitioning(lambda x: mjax.debug.print("{}", x))
    f.def_partition(lambda *args: None)
    with pytest.raises(ValueError, match="it has the effects DebugEffect"):
        f(X)
    f = custom_partitioning(lambda k: mjax.random.bits(k))
    f.def_partition(lambda *args: None)
    with pytest.raises(TypeError, match=r"type key<fry>\[\].*random.key_data"):
        f(mjax.random.key(0))
    with pytest.raises(ValueError, match="say how it is cut, by def_partition"):
        custom_partitioning(jnp.sin)(X)
    with pytest.raises(TypeError, match="partition must be a function, got 3"):
        custom_partitioning(jnp.sin).def_partition(3)
    with pytest.raises(ValueError, match="reduction_factors, i belong to a sharding_rule that"):
        custom_partitioning(jnp.sin).def_partition(jnp.sin, reduction_factors=("i",), i=3)


ROWS = NamedSharding(MESH, P("x"))


@pytest.mark.parametrize("answer, error, text", [
    ((MESH, jnp.sin, ROWS), TypeError, "must return a mesh, a function, and the shardings"),
    ((None, jnp.sin, ROWS, (ROWS,)), ValueError, "the mesh that partition returns, None"),
    ((MESH, jnp.sin, P("x"), (ROWS,)), ValueError, "shardings of the results.*got PartitionSpec"),
    ((MESH, jnp.sin, ROWS, ROWS), ValueError, "shardings of the arguments .*one for each leaf"),
    ((MESH, jnp.sum, ROWS, (ROWS,)), ValueError, r"gives float32\[\], but .* float32\[2,8\]"),
    ((MESH, lambda x: x.astype("int32"), ROWS, (ROWS,)), ValueError, r"gives int32\[2,8\]"),
    ((MESH, jnp.sin, mjax.device_put(1.0).sharding, (ROWS,)), ValueError,
     "not over the program's devices"),
    ((MESH, lambda x: mjax.debug.print("{}", x) or x, ROWS, (ROWS,)), ValueError, "DebugEffect"),
    ((MESH, lambda x: mjax.pure_callback(np.sin, x, x), ROWS, (ROWS,)),
     (ValueError, RuntimeError), "Python"),
])
def test_answers_that_do_not_fit(answer, error, text):
    f = custom_partitioning(lambda x: jnp.sin(x))
    f.def_partition(lambda *args: answer, sharding_rule="... -> ...")
    with pytest.raises(error, match=text) as caught:
        mjax.jit(lambda x: f(x) + 1)(put(X, "x"))
    assert caught.type is RuntimeError or __file__ in str(caught.value)


def test_what_the_authors_function_raises_reaches_the_user():
    class Mine(Exception):
        pass

    def partition(mesh, args, result):
        raise Mine("cut otherwise")

    f = custom_partitioning(lambda x: x)
    f.def_partition(partition, sharding_rule="... -> ...")
    with pytest.raises(Mine, match="cut otherwise"):
        mjax.jit(lambda x: f(x) + 1)(put(X, "x"))


def test_programs_are_let_go():
    """XLA's key of a call does not keep it alive; a program that may be compiled does."""
    before = set(partitioned_calls._calls)
    lowered = mjax.jit(elementwise(jnp.sin, sharding_rule="... -> ...")).lower(put(X, "x"))
    gc.collect()
    (key,) = set(partitioned_calls._calls) - before
    for _ in range(2):
        np.testing.assert_allclose(lowered.compile()(put(X, "x")), np.sin(X), rtol=1e-5, atol=1e-6)
    del lowered
    gc.collect()
    assert key not in partitioned_calls._calls


def test_export_is_refused():
    f = elementwise(functools.partial(jnp.multiply, 2), sharding_rule="... -> ...")
    with pytest.raises(ValueError, match="custom calls of mjax_custom_partitioning"):
        mjax.export.export(mjax.jit(lambda x: f(x)))(put(X, "x"))
