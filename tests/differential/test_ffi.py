"""Foreign functions: the same kernels, called by mjax and by jax."""

from __future__ import annotations

import itertools

import jax
import jax.export
import jax.ffi
import numpy as np
import pytest

import mjax
import mjax.export
import mjax.ffi
from tests.differential.compare import assert_agree
from tests.kernels.building import built, register, session_folder

X = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
           "legacy_vectorized")
TOKEN = {lib: lib.typeof(lib.lax.create_token()) for lib in (jax, mjax)}


@pytest.fixture(scope="module", autouse=True)
def _kernels(tmp_path_factory):
    register(built(session_folder(tmp_path_factory)))


def affine(lib, x, **options):
    return lib.ffi.ffi_call("mjax_test_affine", lib.ShapeDtypeStruct(x.shape, "float32"),
                            **options)(x, scale=np.float32(2), shift=np.float32(1))


def sizes(lib, **options):
    return lib.ffi.ffi_call("mjax_test_sizes", lib.ShapeDtypeStruct((), "int64"), **options)


# ---- attributes ----------------------------------------------------------------------------------

ATTRIBUTES = {
    "flag": True, "i8": np.int8(1), "i32": np.int32(2), "i64": 3, "u8": np.uint8(4),
    "f32": np.float32(0.5), "f64": 0.25, "text": "four", "list": np.array([1, 2], "i4"),
    "reals": np.array([0.125, 1.0]), "nested": {"inner": 5}}


@pytest.mark.parametrize("name, value", [
    ("flag", False), ("flag", np.bool_(False)), ("text", b"seven"), ("i64", np.int64(9)),
    ("f64", np.float64(2)), ("nested", {"inner": np.int64(2)}), ("list", np.zeros(0, "i4"))])
def test_attributes_reach_the_kernel(name, value):
    with jax.enable_x64(True), mjax.enable_x64(True):
        assert_agree(lambda lib: lib.ffi.ffi_call(
            "mjax_test_attributes", lib.ShapeDtypeStruct((), "float64"))(
                **ATTRIBUTES | {name: value}))


@pytest.mark.parametrize("value", [
    True, 3, 2.5, "a", b"a", np.int8(1), np.uint64(2**62), np.float16(1), np.bool_(True),
    np.arange(3), np.ones((2, 2), "f4"), np.zeros(0), np.array([True, False, True]), np.array(1j),
    (1, 2), ("a", 2.0), {"a": 1, "b": 2.0}, np.dtype("f4"), 1j, [1], None, object()], ids=repr)
def test_attributes_have_the_same_text(value):
    texts = []
    for lib in jax, mjax:
        call = lib.ffi.ffi_call("f", lib.ShapeDtypeStruct((), "float32"))
        try:
            text = lib.jit(lambda call=call: call(a=value)).lower().as_text()
            texts.append(text[text.index("{a = "):].split("}")[0])
        except TypeError:
            texts.append(TypeError)
    assert texts[0] == texts[1]


# ---- calls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("into, out_of", [*itertools.product([None, (0, 1), (1, 0)], repeat=2)])
def test_layouts(into, out_of):
    assert_agree(lambda lib: affine(lib, X[0], input_layouts=[into], output_layouts=out_of))


@pytest.mark.parametrize("method", METHODS)
def test_batches(method):
    options = {"vmap_method": method, "input_layouts": [(1, 0)], "output_layouts": (1, 0)}

    def program(lib):
        return (lib.vmap(lambda x: affine(lib, x, **options), in_axes=2, out_axes=1)(
                    np.moveaxis(X, 0, 2)),
                lib.vmap(lib.vmap(lambda x: affine(lib, x, vmap_method=method)))(X),
                *[lib.vmap(sizes(lib, vmap_method=method), axes)(X, X)
                  for axes in ((0, None), (None, 0), (0, 0))])

    assert_agree(program)


def test_results_aliases_and_tokens():
    def program(lib):
        one, number = (lib.ShapeDtypeStruct(shape, dtype)
                       for shape, dtype in (((3,), "float32"), ((), "int32")))
        ticket = lib.ffi.ffi_call("mjax_test_ticket", (number, TOKEN[lib]))

        def between():
            first, token = ticket(lib.lax.create_token())
            return ticket(token)[0] - first

        return (lib.ffi.ffi_call("mjax_test_sum_diff", [one, one])(X[0, 0], X[1, 1]),
                lib.ffi.ffi_call("mjax_test_sum_diff", (one, one))(X[0, 0], X[1, 1]),
                lib.ffi.ffi_call("mjax_test_bump_first", (one, number), input_output_aliases={
                    0: 0})(X[0, 0]),
                lib.jit(between)())

    assert_agree(program)


def test_a_lowering_rule():
    """A primitive of the same name and rules in both."""
    def program(lib):
        if lib is jax:
            from jax.extend.core import Primitive
            from jax.interpreters import mlir
        else:
            from mjax_ext.core import Primitive
            from mjax_ext.interpreters import mlir
        p = Primitive("affine")
        p.def_abstract_eval(lambda x, **params: x)
        mlir.register_lowering(p, lib.ffi.ffi_lowering(
            "mjax_test_affine", operand_layouts=[(0, 1)], result_layouts=[(1, 0)],
            operand_output_aliases={}))
        return lib.jit(lambda x: p.bind(x, scale=np.float32(1), shift=np.float32(0)))(X[0].copy())

    assert_agree(program)


# ---- errors --------------------------------------------------------------------------------------

REFUSED = {
    "gradient": lambda lib: lib.grad(lambda x: affine(lib, x).sum())(X),
    "transpose": lambda lib: lib.linear_transpose(lambda x: affine(lib, x), X)(X),
    "no method": lambda lib: lib.vmap(lambda x: affine(lib, x))(X),
    "unknown method": lambda lib: affine(lib, X, vmap_method="all"),
    "no shape": lambda lib: lib.ffi.ffi_call("f", [3]),
    "layouts": lambda lib: affine(lib, X, input_layouts=[None, None]),
    "result layouts": lambda lib: lib.ffi.ffi_call(
        "f", [lib.ShapeDtypeStruct((), "int32")], output_layouts=[None, None])(X),
    "alias of nothing": lambda lib: affine(lib, X, input_output_aliases={1: 0}),
    "alias of another type": lambda lib: lib.ffi.ffi_call(
        "f", lib.ShapeDtypeStruct((3,), "int32"), input_output_aliases={0: 0})(X),
    "alias of another layout": lambda lib: lib.ffi.ffi_call(
        "f", lib.ShapeDtypeStruct((2, 3), "float32"), input_output_aliases={0: 0},
        output_layouts=(1, 0))(X[0]),
    "old configuration": lambda lib: affine(lib, X, legacy_backend_config=""),
    "attributes before the FFI": lambda lib: affine(lib, X, custom_call_api_version=3),
    "type id": lambda lib: lib.ffi.register_ffi_type_id("t", mjax.ffi.pycapsule(1)),
    "export": lambda lib: lib.export.export(lib.jit(lambda x: affine(lib, x)))(X),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    caught = []
    for lib in jax, mjax:
        with pytest.raises((ValueError, NotImplementedError)) as info:
            REFUSED[name](lib)
        caught.append(info.type)
    assert issubclass(caught[1], caught[0]), caught
