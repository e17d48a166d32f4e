"""Calls of foreign functions: LAPACK's, which jaxlib has, and kernels in C++."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import ShapeDtypeStruct as Struct
from mjax import ffi, lax
from mjax._engine.control.foreign_calls import ffi_effect
from mjax.sharding import PartitionSpec as P
from mjax_ext.interpreters import mlir
from mjaxlib_shim.custom_calls import lacks_tokens

X = np.arange(16, dtype=np.float32).reshape(8, 2)
LOWER, UPPER = np.uint8(ord("L")), np.uint8(ord("U"))


def affine(x, scale=2, shift=1, **options):
    call = ffi.ffi_call("mjax_test_affine", Struct(x.shape, "float32"), **options)
    return call(x, scale=np.float32(scale), shift=np.float32(shift))


def cholesky(n, **options):
    return ffi.ffi_call("lapack_spotrf_ffi", (Struct((n, n), "float32"), Struct((), "int32")),
                        **options)


def positive(n, seed=0):
    a = np.random.default_rng(seed).normal(size=(n, n)).astype(np.float32)
    return a @ a.T + n * np.eye(n, dtype=np.float32)


# ---- LAPACK needs neither a compiler nor set-up --------------------------------------------------


def test_lapack():
    matrix = positive(3)
    call = cholesky(3, input_layouts=[(1, 0)], output_layouts=[(1, 0), None])
    for f in call, mjax.jit(call, static_argnames="uplo"):
        factor, status = f(matrix, uplo=LOWER)
        np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), rtol=1e-5)
        assert status == 0 and status.dtype == jnp.int32
    # Row-major matrices are transposed ones to LAPACK.
    factor, _ = cholesky(3)(matrix, uplo=UPPER)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), rtol=1e-5)


def test_lapack_of_a_batch():
    matrices = np.stack([positive(3, seed) for seed in range(4)])
    expected = np.linalg.cholesky(matrices)
    for method in ("sequential", "broadcast_all", "expand_dims"):
        call = cholesky(3, input_layouts=[(1, 0)], output_layouts=[(1, 0), (())],
                        vmap_method=method, input_output_aliases={0: 0})
        factors, status = mjax.vmap(functools.partial(call, uplo=LOWER))(matrices)
        np.testing.assert_allclose(np.tril(factors), expected, rtol=1e-5)
        assert status.shape == (4,) and not status.any()


# ---- attributes, results, layouts, memory --------------------------------------------------------


def test_attributes(kernels):
    values = {"flag": True, "i8": np.int8(1), "i32": np.int32(2), "i64": 3, "u8": np.uint8(4),
              "f32": np.float32(0.5), "f64": 0.25, "text": "four", "list": np.array([1, 2], "i4"),
              "reals": np.array([0.125, 1.0]), "nested": {"inner": 5}}
    call = ffi.ffi_call("mjax_test_attributes", Struct((), "float64"))
    total = 1 + 10 + 200 + 3000 + 40000 + 0.5 + 0.25 + 4 + 3e5 + 1.125 + 5e7
    assert call(**values) == total
    # Equal numbers are other attributes if their types differ; later changes do not count.
    changed = values | {"list": np.array([3, 2], "i4"), "flag": False}
    assert call(**changed) == total + 2e5 - 1
    traced = mjax.jit(lambda: call(**changed))
    lowered = traced.lower()
    changed["list"][0] = 100
    assert lowered.compile()() == total + 2e5 - 1
    with pytest.raises(mjax.errors.JaxRuntimeError, match="Wrong scalar data type|decode"):
        call(**values | {"i64": True})
    with pytest.raises(mjax.errors.JaxRuntimeError, match="attributes|decode"):
        call(**{k: v for k, v in values.items() if k != "flag"})


def test_attributes_that_are_refused():
    call = ffi.ffi_call("nothing", Struct((), "float32"))
    for value in ([1], np, {1: [2]}):
        with pytest.raises(TypeError):
            call(a=value)
    with pytest.raises(TypeError, match="'a' of 'nothing' is an array.*pass it as an operand"):
        call(a=jnp.ones(1))
    with pytest.raises(TypeError, match="pass it as an operand"):
        mjax.jit(lambda x: call(a=x))(1.0)
    with pytest.raises(TypeError, match="complex128 cannot be an attribute"):
        mjax.jit(lambda: call(a=1j)).lower()
    with mlir.ir.Context(), pytest.raises(ValueError, match="strides of 0"):
        mlir.ir_attribute(np.broadcast_to(np.float32(1), (3,)))


def test_results_have_the_structure_of_their_types(kernels):
    one = Struct((2,), "float32")
    for spec, names in (((one, one), (0, 1)), ([one, one], (0, 1)),
                        ({"a": one, "b": (one,)}, ("a", "b"))):
        out = ffi.ffi_call("mjax_test_sum_diff", spec)(X[1], X[0])
        assert type(out) is type(spec)
        np.testing.assert_array_equal(out[names[0]], [2, 4])
        np.testing.assert_array_equal(out[names[1]], np.reshape([2, 2], np.shape(out[names[1]])))
    assert affine(X).shape == (8, 2)
    assert ffi.ffi_call("mjax_test_sum_diff", [one, one])(X[1], X[0])[0].dtype == jnp.float32


def test_results_keep_64_bits(kernels):
    out = ffi.ffi_call("mjax_test_sizes", Struct((), "int64"))(X, X)
    assert out == 16016 and out.dtype == np.int64
    assert not mjax.config.jax_enable_x64


@pytest.mark.parametrize("into", [None, (0, 1), (1, 0)])
@pytest.mark.parametrize("out_of", [None, (0, 1), (1, 0), mjax.experimental.layout.Layout((1, 0))])
def test_layouts(kernels, into, out_of):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    out = affine(x, 1, 0, input_layouts=[into], output_layouts=out_of)
    memory = x.transpose(into or (0, 1)).ravel()
    order = getattr(out_of, "major_to_minor", out_of) or (0, 1)
    expected = memory.reshape([x.shape[i] for i in order]).transpose(np.argsort(order))
    np.testing.assert_array_equal(out, expected)


def test_a_result_takes_over_memory(kernels):
    specs = Struct((2,), "float32"), Struct((), "int32")
    call = ffi.ffi_call("mjax_test_bump_first", specs, input_output_aliases={0: 0})
    x = jnp.array([3.0, 4.0])
    out, same = mjax.jit(call)(x)
    np.testing.assert_array_equal(out, [4, 4])
    assert same == 1 and x[0] == 3  # XLA copies what is used elsewhere
    donated, same = mjax.jit(call, donate_argnums=0)(x)
    np.testing.assert_array_equal(donated, [4, 4])
    assert same == 1 and x.is_deleted()


@pytest.mark.parametrize("method", ["expand_dims", "broadcast_all", "legacy_vectorized"])
def test_memory_of_an_unbatched_operand_has_room_for_the_batch(kernels, method):
    specs = Struct((2,), "float32"), Struct((), "int32")
    call = ffi.ffi_call("mjax_test_sum_diff", (specs[0],) * 2, input_output_aliases={0: 0},
                        vmap_method=method)
    total, _ = mjax.vmap(call, in_axes=(None, 0))(X[1], X[:3])
    np.testing.assert_array_equal(total, X[1] + X[:3])


def test_the_convention_before_the_ffi(kernels):
    call = ffi.ffi_call("mjax_test_doubled", Struct((2,), "float32"), custom_call_api_version=3,
                        legacy_backend_config="2")
    np.testing.assert_array_equal(call(X[1]), 2 * X[1])
    with pytest.raises(ValueError, match=r"api_version=3, which has no attributes, but got a\b"):
        mjax.jit(lambda x: call(x, a=1)).lower(X[1])


def test_arguments_that_are_refused():
    one = Struct((2, 3), "float32")
    with pytest.raises(ValueError, match="legacy_backend_config is for functions of older"):
        ffi.ffi_call("f", one, legacy_backend_config="x")
    with pytest.raises(ValueError, match=r"vmap_method must be one of .*, got 'vectorized'"):
        ffi.ffi_call("f", one, vmap_method="vectorized")
    with pytest.raises(ValueError, match="hold objects with a shape and a dtype.* at position 1"):
        ffi.ffi_call("f", [one, 3])
    with pytest.raises(ValueError, match="1 operand layouts .* for 2 operands"):
        ffi.ffi_call("f", one, input_layouts=[None])(X, X)
    with pytest.raises(ValueError, match="1 result layouts .* for 2 results"):
        ffi.ffi_call("f", [one, one], output_layouts=[None])
    with pytest.raises(ValueError, match="does not name each of the 2 axes"):
        ffi.ffi_call("f", one, input_layouts=[(0, 0)])(X)
    for layout in "a", 0, mjax.experimental.layout.Layout.AUTO:
        with pytest.raises(TypeError, match=f"ffi_call: operand 0: {layout!r} is not a layout"):
            ffi.ffi_call("f", one, input_layouts=[layout])(X)
    with pytest.raises(TypeError, match=r"input_output_aliases must be a dict .* got \[0\]"):
        ffi.ffi_call("f", one, input_output_aliases=[0])(X)
    with pytest.raises(TypeError, match="target_name must be a text, got 3"):
        ffi.ffi_call(3, one)
    with pytest.raises(TypeError, match="a value of type object cannot be an attr") as caught:
        mjax.jit(lambda x: ffi.ffi_call("f", one)(x, unit=object())).lower(X)
    assert "It is the attribute 'unit' of 'f'." in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="has tiles"):
        ffi.ffi_call("f", one, output_layouts=mjax.experimental.layout.Layout((0, 1), ((2,),)))
    for aliases, text in (({1: 0}, "names operand 1, but there are 1"),
                          ({-1: 0}, "names operand -1"), ({0: 1}, "names result 1"),
                          ({0: 0}, r"they differ: float32\[8,2\] .* and float32\[2,3\]")):
        with pytest.raises(ValueError, match=text):
            ffi.ffi_call("f", one, input_output_aliases=aliases)(X)
    with pytest.raises(ValueError, match="they differ"):
        ffi.ffi_call("f", one, input_output_aliases={0: 0}, output_layouts=(1, 0))(np.ones((2, 3)))


# ---- errors --------------------------------------------------------------------------------------


def test_an_unknown_target_is_named_with_the_users_line():
    call = ffi.ffi_call("not_registered", Struct((8, 2), "float32"))
    mjax.jit(call).lower(X)  # where the function exists is known later
    for f in call, mjax.jit(call), lambda x: lax.scan(lambda c, _: (call(c), None), x, length=2)[0]:
        with pytest.raises(mjax.errors.JaxRuntimeError) as caught:
            f(X)
        text = str(caught.value)
        assert "ffi_call calls the foreign function 'not_registered'" in text
        assert "register_ffi_target('not_registered', function, platform='cpu')" in text
        assert __file__ in text


def test_what_a_function_refuses_reaches_the_user(kernels):
    with pytest.raises(mjax.errors.JaxRuntimeError, match="the kernel refuses this"):
        mjax.block_until_ready(ffi.ffi_call("mjax_test_fail", Struct((2,), "float32"))(X[0]))


# ---- transformations -----------------------------------------------------------------------------


def test_derivatives_are_refused_and_can_be_given(kernels):
    for transform in (lambda f: mjax.grad(lambda x: f(x).sum())(X),
                      lambda f: mjax.jvp(f, (X,), (X,)),
                      lambda f: mjax.linear_transpose(f, X)(X)):
        with pytest.raises(ValueError, match="'mjax_test_affine' cannot be differentiated") as e:
            transform(affine)
        assert __file__ in str(e.value)
    # Only operands with tangents count.
    mjax.grad(lambda y: (affine(X) * y).sum())(2.0)

    f = mjax.custom_jvp(lambda x: affine(x))
    f.defjvp(lambda primals, tangents: (f(*primals), 2 * tangents[0]))
    g = mjax.custom_vjp(lambda x: affine(x))
    g.defvjp(lambda x: (g(x), ()), lambda _, ct: (2 * ct,))
    for h in f, g, mjax.checkpoint(f), mjax.jit(f):
        np.testing.assert_array_equal(mjax.grad(lambda x, h=h: h(x).sum())(X), np.full_like(X, 2))


METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
           "legacy_vectorized")


@pytest.mark.parametrize("method", METHODS)
def test_batches(kernels, method):
    batch = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    options = {"vmap_method": method, "input_layouts": [(1, 0)], "output_layouts": (1, 0)}
    for axis in range(3):
        inner = functools.partial(affine, **options)
        x = np.moveaxis(batch, 0, axis)
        np.testing.assert_array_equal(mjax.vmap(inner, in_axes=axis)(x), 2 * batch + 1)
    twice = mjax.vmap(mjax.vmap(lambda x: affine(x, vmap_method=method)))(batch)
    np.testing.assert_array_equal(twice, 2 * batch + 1)
    # The numbers of elements that the function sees, of a batch of 4 and an unbatched operand.
    sizes = ffi.ffi_call("mjax_test_sizes", Struct((), "int64"), vmap_method=method)
    whole = 4 * 6 if method not in METHODS[:2] else 6
    other = {"broadcast_all": 4 * 2}.get(method, 2)
    np.testing.assert_array_equal(
        mjax.vmap(sizes, in_axes=(0, None))(batch, X[0]), [1000 * whole + other] * 4)


def test_a_batch_without_a_method_is_refused():
    call = ffi.ffi_call("mjax_test_affine", Struct((2,), "float32"))
    with pytest.raises(NotImplementedError, match="vmap of ffi_call of 'mjax_test_affine'") as e:
        mjax.vmap(call)(X)
    assert __file__ in str(e.value)


def test_control_flow(kernels):
    out, rows = lax.scan(lambda c, x: (affine(c, 1, 1), affine(x)), X[0], X)
    np.testing.assert_array_equal(out, X[0] + 8)
    np.testing.assert_array_equal(rows, 2 * X + 1)
    chosen = mjax.jit(lambda p, x: lax.cond(p, affine, lambda x: x, x))
    np.testing.assert_array_equal(chosen(True, X), 2 * X + 1)
    np.testing.assert_array_equal(chosen(False, X), X)
    np.testing.assert_array_equal(
        lax.while_loop(lambda x: x[0] < 9, lambda x: affine(x, 1, 2), X[0]), [10, 11])


# ---- effects and tokens --------------------------------------------------------------------------


def _counted(kernels, f, *args):
    mjax.effects_barrier()
    before = kernels.number_of_calls()
    mjax.block_until_ready(f(*args))
    mjax.effects_barrier()
    return kernels.number_of_calls() - before


def test_side_effects(kernels):
    def looked_at(x, **options):
        ffi.ffi_call("mjax_test_count", (), **options)(x)
        return x + 1

    aware = functools.partial(looked_at, has_side_effect=True, vmap_method="sequential")
    assert _counted(kernels, mjax.jit(aware), X) == 1
    assert _counted(kernels, mjax.jit(looked_at), X) == 0  # it has no use
    assert _counted(kernels, mjax.vmap(aware), X) == 8
    assert _counted(kernels, lambda: lax.scan(lambda c, x: (aware(c), x), X[0], X)) == 8
    assert mjax.make_jaxpr(aware)(X).effects == {ffi_effect}
    with pytest.raises(NotImplementedError, match="FfiEffect"):  # recomputed, it would run twice
        mjax.grad(mjax.checkpoint(lambda x: jnp.sum(x * affine(
            lax.stop_gradient(x), has_side_effect=True))))(X)


def test_tokens(kernels):
    ticket = ffi.ffi_call("mjax_test_ticket", (Struct((), "int32"), ffi.abstract_token))

    @mjax.jit
    def two():
        first, token = ticket(lax.create_token())
        return first, ticket(token)[0]

    if needed := lacks_tokens("cpu"):
        with pytest.raises(NotImplementedError, match=rf"takes or gives a token, which .*{needed}"):
            two()
        return
    first, second = two()
    assert second == first + 1
    out = mjax.vmap(lambda x: x + ticket(lax.create_token())[0])(jnp.zeros(3, "int32"))
    np.testing.assert_array_equal(out, [second + 1] * 3)


# ---- several devices -----------------------------------------------------------------------------


def test_over_devices(kernels):
    mesh = mjax.make_mesh((8,), ("i",))
    x = mjax.device_put(X, mjax.NamedSharding(mesh, P("i")))
    np.testing.assert_array_equal(mjax.jit(affine)(x), 2 * X + 1)
    mapped = functools.partial(mjax.shard_map, mesh=mesh, in_specs=P("i"))
    np.testing.assert_array_equal(mjax.jit(mapped(affine, out_specs=P("i")))(x), 2 * X + 1)
    # A function of operands that differ gives results that differ, unless the author knows better.
    with pytest.raises(ValueError, match="may hold different values"):
        mapped(affine, out_specs=P())(x)
    same = ffi.ffi_call("mjax_test_sizes", Struct((), "int64", vma=set()))
    assert mapped(lambda x: same(x, x), out_specs=P())(x) == 2002


def test_side_effects_over_devices(kernels):
    mesh = mjax.make_mesh((8,), ("i",))
    x = mjax.device_put(X, mjax.NamedSharding(mesh, P("i")))

    def looked_at(x):
        ffi.ffi_call("mjax_test_count", (), has_side_effect=True)(x)
        return affine(x, has_side_effect=True)

    np.testing.assert_array_equal(mjax.jit(looked_at)(x), 2 * X + 1)
    assert _counted(kernels, mjax.jit(looked_at), x) == 1
    mapped = mjax.jit(mjax.shard_map(looked_at, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
    np.testing.assert_array_equal(mapped(x), 2 * X + 1)
    assert _counted(kernels, mapped, x) == 8


# ---- export --------------------------------------------------------------------------------------


def test_export(kernels):
    with pytest.raises(ValueError, match="custom calls of mjax_test_affine"):
        mjax.export.export(mjax.jit(affine))(X)
    allowed = [mjax.export.DisabledSafetyCheck.custom_call("mjax_test_affine")]
    (n,) = mjax.export.symbolic_shape("n")
    for aval in (Struct((8, 2), "float32"), Struct((n, 2), "float32")):
        exported = mjax.export.export(mjax.jit(affine), disabled_checks=allowed)(aval)
        again = mjax.export.deserialize(exported.serialize())
        np.testing.assert_array_equal(again.call(X), 2 * X + 1)
    mjax.export.export(mjax.jit(lambda x: cholesky(2)(x, uplo=LOWER)))(X[:2])  # keeps its meaning


def test_keys_are_given_as_their_data():
    keys = mjax.random.split(mjax.random.key(0), 3)
    jaxpr = mjax.make_jaxpr(ffi.ffi_call("f", Struct((), "float32")))(keys)
    assert jaxpr.eqns[0].params["input_layouts"] == ((1, 0),)
    assert "tensor<3x2xui32>" in mjax.jit(ffi.ffi_call("f", Struct((), "float32"))).lower(
        keys).as_text()


def test_what_a_foreign_function_raises_names_it():
    """Here it is called with one result, and gives two."""
    call = mjax.ffi.ffi_call("lapack_sgeqrf_ffi", mjax.ShapeDtypeStruct((2, 2), "float32"))
    with pytest.raises(mjax.errors.JaxRuntimeError) as caught:
        call(np.eye(2, dtype=np.float32))
    assert any(note.startswith("Raised by the foreign function 'lapack_sgeqrf_ffi', called with "
                               "operands (float32[2,2]), results (float32[2,2]) and attributes ()")
               for note in caught.value.__notes__)
