"""Modules: hoisted constants, shared functions, names, locations, keys, errors that name rules."""

import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax, random
from mjax._engine.ir.types import ShapedArray
from mjax._engine.lowering.module import lower_to_module
from mjax._engine.primitives.emit import ir
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import Primitive
from mjaxlib_shim import gates

X = np.arange(3, dtype=np.float32)
BIG = np.arange(1000, dtype=np.float32)


def lower(f, *args):
    return lower_to_module(mjax.make_jaxpr(f)(*args), "f", "cpu")


def functions(text):
    """Name -> text of its arguments, of the functions of a module."""
    return dict(re.findall(r"func\.func (?:public |private )?@([\w.]+)\(([^\n]*?)\) ->", text))


def simple(name, lowering, out=None):
    p = Primitive(name)
    p.def_abstract_eval(lambda x: out or x)
    p.def_lowering(lowering)
    return p


# ---- constants -------------------------------------------------------------------------


def test_closed_over_arrays_become_arguments_once():
    array = mjax.device_put(BIG)
    lowered = lower(lambda x: lax.add(lax.mul(array, x), lax.sub(array, BIG)), BIG)
    assert len(lowered.constants) == 2
    assert lowered.constants[0] is array or lowered.constants[1] is array
    assert functions(lowered.text())["main"].count("tensor<1000xf32>") == 3
    assert "dense<" not in lowered.text()


def test_constants_of_inner_functions_are_passed_to_them():
    array = mjax.device_put(BIG)
    inner = mjax.jit(lambda x: lax.mul(array, x))
    lowered = lower(lambda x: lax.add(inner(x), mjax.jit(lambda y: inner(inner(y)))(x)), BIG)
    assert len(lowered.constants) == 1
    text = lowered.text()
    assert all(a.count("tensor<1000xf32>") == 2 for a in functions(text).values()), text
    out = mjax.jit(lambda x: lax.add(inner(x), mjax.jit(lambda y: inner(inner(y)))(x)))(BIG)
    np.testing.assert_allclose(out, BIG * BIG + BIG * (BIG * BIG), rtol=1e-6)


def test_scalars_stay_in_the_program():
    lowered = lower(lambda x: lax.mul(lax.add(x, 2.0), 2.0), X)
    assert lowered.constants == []
    assert lowered.text().count("stablehlo.constant") == 1


def test_literals_of_equal_value_and_other_bits_are_told_apart():
    f = lambda x: (lax.div(x, 0.0), lax.div(x, -0.0), lax.add(x, np.float32(np.nan)))
    a, b, c = mjax.jit(f)(np.float32(1))
    assert (a, b) == (np.inf, -np.inf) and np.isnan(c)
    g = mjax.jit(lambda x, n: (lax.add(x, 1.0), lax.add(n, 1), lax.bitwise_xor(n > 0, True)))
    assert [str(v.dtype) for v in g(np.float32(1), np.int32(1))] == ["float32", "int32", "bool"]


# ---- functions and names ---------------------------------------------------------------


def test_a_jaxpr_is_one_function():
    inner = mjax.jit(lambda x: lax.sin(x))
    lowered = lower(lambda x: inner(inner(lax.neg(inner(x)))), X)
    text = lowered.text()
    assert len(functions(text)) == 2 and text.count("call @") == 3
    other = lower(lambda x, y: lax.add(inner(x), inner(y)[0]), X, np.ones((2, 3), np.float32)[:, 0])
    assert len(functions(other.text())) == 3


def test_names():
    def step(x):
        return lax.sin(x)

    def weird(x):
        return lax.cos(x)

    weird.__name__ = "weird name-é!"
    first, second = mjax.jit(step), mjax.jit(lambda x: lax.cos(x))
    another = mjax.jit(lambda x: lax.neg(x))

    def outer(x):
        return another(second(first(mjax.jit(weird)(x))))

    text = mjax.jit(outer).lower(X).as_text()
    assert "module @jit_outer" in text
    names = set(functions(text))
    assert {"main", "step"} <= names and len(names) == 5
    assert all(re.fullmatch(r"[a-zA-Z0-9_.]+", n) for n in names), names


def test_functions_called_main_do_not_clash():
    def main(x):
        return lax.sin(x)

    out = mjax.jit(lambda x: mjax.jit(main)(x))(X)
    np.testing.assert_allclose(out, np.sin(X), rtol=1e-6)


def test_traced_lowerings_are_shared_functions():
    p = simple("twice", traced(lambda x: lax.add(x, x), multiple_results=False))
    text = lower(lambda x: p.bind(p.bind(lax.sin(p.bind(x)))), X).text()
    assert len(functions(text)) == 2 and text.count("call @twice") == 3
    np.testing.assert_array_equal(mjax.jit(lambda x: p.bind(p.bind(x)))(X), 4 * X)
    text = lower(lambda x, y: (p.bind(x), p.bind(y)), X, np.float32(1)).text()
    assert len(functions(text)) == 3


# ---- locations -------------------------------------------------------------------------


def test_locations_name_primitive_and_line():
    def f(x):
        y = lax.sin(x)
        return lax.mul(y, y)

    first = f.__code__.co_firstlineno
    text = lower(f, X).text(debug_info=True)
    places = dict(re.findall(r'loc\("jit\(f\)/(\w+)"\((#loc\d*|".*?":\d+:\d+)\)', text))
    assert {"sin", "mul"} <= set(places)
    lines = {name: _resolve(text, place) for name, place in places.items()}
    assert lines["sin"] == (__file__, first + 1) and lines["mul"] == (__file__, first + 2)
    assert "loc(" not in lower(f, X).text()


def _resolve(text, place):
    if place.startswith("#"):
        place = re.search(rf"^{place} = loc\((.*)\)$", text, re.M)[1]
    file, line = re.match(r'"(.*)":(\d+):\d+', place).groups()
    return file, int(line)


# ---- extended dtypes -------------------------------------------------------------------


MOVES = [
    ("transpose", lambda k: lax.transpose(k, (1, 0)), lambda d: d.transpose(1, 0, 2)),
    ("reshape", lambda k: lax.reshape(k, (6,)), lambda d: d.reshape(6, 2)),
    ("slice", lambda k: lax.slice(k, (0, 1), (2, 3)), lambda d: d[0:2, 1:3]),
    ("rev", lambda k: lax.rev(k, (1,)), lambda d: d[:, ::-1]),
    ("concatenate", lambda k: lax.concatenate([k, k], 1), lambda d: np.concatenate([d, d], 1)),
    ("broadcast_in_dim", lambda k: lax.broadcast_in_dim(k, (4, 2, 3), (1, 2)),
     lambda d: np.broadcast_to(d, (4, 2, 3, 2))),
    ("select_n", lambda k: lax.select_n(np.array([[True, False, True]] * 2), k, lax.rev(k, (0,))),
     lambda d: np.where(np.array([True, False, True])[:, None], d[::-1], d)),
]


@pytest.mark.parametrize(("name", "f", "g"), MOVES, ids=[m[0] for m in MOVES])
def test_structural_primitives_on_keys(name, f, g):
    keys = lax.reshape(random.split(random.key(0), 6), (2, 3))
    data = np.asarray(random.key_data(keys))
    np.testing.assert_array_equal(random.key_data(mjax.jit(f)(keys)), g(data))
    text = lower(f, keys).text()
    assert "tensor<2x3x2xui32>" in functions(text)["main"], text


# ---- errors ----------------------------------------------------------------------------


def here(f):
    return rf"test_module\.py\"?:{f.__code__.co_firstlineno + 1}"


def test_rules_whose_results_have_another_type_are_named():
    p = simple("wrong_type", lambda ctx, x: [x], ShapedArray((4,), np.float32))

    def f(x):
        return lax.sin(p.bind(x))

    with pytest.raises(TypeError, match=r"(?s)wrong_type.*tensor<3xf32>.*float32\[4\].*" + here(f)):
        lower(f, X)
    with pytest.raises(TypeError, match="wrong_type"):
        mjax.jit(lambda x: mjax.jit(f)(x))(X)


@pytest.mark.parametrize("gave", [lambda x: x.type, lambda x: 3, lambda x: [3], lambda x: []])
def test_rules_that_give_no_values_are_named(gave):
    p = simple("no_values", lambda ctx, x: gave(x))
    with pytest.raises(TypeError, match=r"no_values.*"):
        lower(lambda x: p.bind(x), X)


def test_errors_in_rules_name_the_primitive_and_the_line():
    p = simple("broken", lambda ctx, x: 1 / 0)

    def f(x):
        return p.bind(x)

    with pytest.raises(ZeroDivisionError) as info:
        lower(f, X)
    notes = "\n".join(info.value.__notes__)
    assert "broken" in notes and re.search(here(f), notes)


def test_operations_that_do_not_verify_name_the_primitive():
    def rule(ctx, x):
        op = ir.Operation.create("stablehlo.add", results=[x.type], operands=[x])
        return [op.result]

    p = simple("unverifiable", rule)

    def f(x):
        return p.bind(x)

    with pytest.raises(Exception, match=r"(?s)add.*operand") as info:
        lower(f, X)
    text = str(info.value) + "".join(getattr(info.value, "__notes__", ()))
    assert "unverifiable" in text and re.search(here(f), text), text


def test_missing_rules_name_platform_primitive_and_line():
    p = Primitive("unlowered")
    p.def_abstract_eval(lambda x: x)

    def f(x):
        return p.bind(x)

    with pytest.raises(NotImplementedError, match=r"(?s)'unlowered' has no lowering.*cpu.*"
                       + here(f)):
        lower(f, X)
    p.def_lowering(lambda ctx, x: [x], platform="tpu")
    with pytest.raises(NotImplementedError, match=r"cpu.*only for tpu"):
        lower(f, X)


# ---- donation --------------------------------------------------------------------------


def test_donated_arguments_are_marked():
    text = mjax.jit(lambda x, y: lax.add(x, y), donate_argnums=1).lower(X, X).as_text()
    assert re.search(r"%arg0: tensor<3xf32>, %arg1: tensor<3xf32> \{tf.aliasing_output = 0", text)
    text = mjax.jit(lambda x: lax.reshape(x, (3, 1)), donate_argnums=0).lower(X).as_text()
    assert "jax.buffer_donor = true" in text


# ---- small constants -------------------------------------------------------------------

needs_literals = pytest.mark.skipif(not gates.LITERAL_LAYOUTS.open,
                                    reason="before jaxlib 0.8.1 constants are arguments")


@needs_literals
@pytest.mark.parametrize("make", [np.asarray, mjax.device_put], ids=["numpy", "device"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.bool_, np.complex64,
                                   "bfloat16", "float8_e4m3fn", "int4"])
def test_small_constants_are_written_down(make, dtype):
    values = np.array([[1, 0], [0, 1]]).astype(mjax.dtypes.canonicalize_dtype(dtype)
                                               if dtype is np.float64 else mjax.numpy.dtype(dtype))
    closed_over = make(values)
    f = mjax.jit(lambda x: mjax.numpy.where(x > 0, closed_over, closed_over))
    text = f.lower(1.0).as_text()
    assert "@main(%arg0: tensor<f32>)" in text
    np.testing.assert_array_equal(np.asarray(f(1.0)).astype(np.complex64),
                                  values.astype(np.complex64))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3,), (0,)], ids=str)
@pytest.mark.parametrize("value", [True, False])
def test_boolean_constants_are_numbers(value, shape):
    """What XLA makes a number of is 0 or 1, not the byte that stood for it."""
    given = np.full(shape, value)
    for flag in (given, jnp.array(given)):
        for dtype in ("int8", "uint8", "int32", "float32", "complex64"):
            out = mjax.jit(lambda x, f=flag, d=dtype: x + lax.convert_element_type(f, d))(
                np.ones(shape, dtype))
            np.testing.assert_array_equal(out, np.full(shape, 1 + value))
        threes = np.full(shape, 3, np.float32)
        carried, _ = lax.scan(lambda c, _, f=flag: (c * f, None), threes, None, 2)
        np.testing.assert_array_equal(carried, threes * value)


@needs_literals
def test_large_constants_are_arguments():
    small, large = np.ones(256, np.float32), np.ones(257, np.float32)
    text = mjax.jit(lambda x: (x + small.sum(), small * x, large * x)).lower(1.0).as_text()
    assert "@main(%arg0: tensor<257xf32>, %arg1: tensor<f32>)" in text


@needs_literals
def test_loops_carry_no_small_constants():
    a = mjax.numpy.asarray([[1.0, 1.0], [0.0, 1.0]])
    f = lambda x: mjax.lax.fori_loop(0, 9, lambda _, x: a @ x, x)
    (loop,) = [line for line in mjax.jit(f).lower(np.ones(2, np.float32)).as_text().splitlines()
               if "stablehlo.while" in line]
    assert "2x2" not in loop
    np.testing.assert_allclose(mjax.jit(f)(np.ones(2, np.float32)), [10, 1])


@pytest.mark.parametrize("turned", [np.transpose, lambda a: np.moveaxis(a, 0, -1)],
                         ids=["transposed", "moved"])
def test_loops_over_constants_of_other_layouts(turned):
    """XLA from jaxlib 0.5.3 to 0.8.0 computes the sine of the constant as it lies in memory."""
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

    def f(x):
        b = turned(mjax.numpy.asarray(a))
        return lax.fori_loop(0, 4, lambda i, c: c + mjax.numpy.sin(b) * x * i, 0 * b)

    expected = 6 * np.sin(turned(a))
    np.testing.assert_allclose(mjax.jit(f)(1.0), expected, 1e-5)
    np.testing.assert_allclose(mjax.jit(lambda: f(1.0))(), expected, 1e-5)
    np.testing.assert_allclose(mjax.vmap(f)(np.ones(2, np.float32))[1], expected, 1e-5)


def test_a_constant_in_several_functions_has_one_value_under_all_transformations():
    a = mjax.numpy.asarray([1.0, -2.0])
    inner = mjax.jit(lambda x: a * x)
    f = mjax.jit(lambda x: (inner(x) * inner(a) + a).sum())
    np.testing.assert_allclose(f(3.0), (3 * np.array([1, -2.0]) * [1, 4] + [1, -2]).sum())
    np.testing.assert_allclose(mjax.grad(f)(3.0), 1 - 8)
    np.testing.assert_allclose(mjax.vmap(f)(np.float32([3, 0])), [f(3.0), f(0.0)])


# ---- sizes -----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda n: jnp.zeros((n, n)), lambda n: jnp.full(4 * n * n, 1.0), lambda n: jnp.pad(X, n * n),
    lambda n: jnp.broadcast_to(X, (n, n, 3)), lambda n: jnp.tile(X, (n, n)), lambda n: jnp.eye(n),
    lambda n: lax.iota(np.int32, n * n), lambda n: lax.broadcasted_iota(np.int32, (n, n), 0),
    lambda n: random.bits(random.key(0), (n, n)), lambda n: jnp.linspace(0, 1, n * n),
    lambda n: jnp.zeros((n, n), np.complex64), lambda n: mjax.jit(lambda: jnp.ones((n, n, 2)))(),
    lambda n: mjax.jit(lambda: jnp.ones((n, n, 0)) + 1)(),
    lambda n: mjax.jit(lambda x: x + 1).lower(mjax.ShapeDtypeStruct((n, n), "float32"))])
def test_arrays_of_too_many_bytes_are_refused(make):
    with pytest.raises(ValueError, match=r"bytes; no device has that many|array is too big"):
        make(2**40)  # XLA ended the process


def test_types_may_be_of_any_size():
    assert mjax.eval_shape(lambda: jnp.zeros((2**40, 2**40))).shape == (2**40, 2**40)
    assert jnp.zeros((0, 2**40)).shape == (0, 2**40)
