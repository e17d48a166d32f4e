"""Bad input gets a clear error: its type, what it names, and what it says to do."""

import inspect
import re
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import mjax
from mjax import errors, lax

X = np.arange(3, dtype=np.float32)
M = np.ones((3, 4), np.float32)


def message(error, call):
    with pytest.raises(error) as info:
        call()
    return str(info.value)


def test_what_escapes_names_the_function():
    def keeps(x):
        kept.append(x)
        return x

    for trace in (lambda: mjax.grad(keeps)(1.0), lambda: mjax.vmap(keeps)(X), lambda: mjax.jit(
            keeps)(X), lambda: mjax.jvp(keeps, (1.0,), (1.0,)), lambda: mjax.linearize(keeps, 1.0),
            lambda: mjax.vmap(mjax.grad(keeps))(X), lambda: mjax.grad(
                lambda a, b: keeps(b) * a, argnums=1)(1.0, 2.0)):
        kept = []
        trace()
        text = message(errors.UnexpectedTracerError, lambda kept=kept: kept[0] + 1)
        assert re.search(rf"(keeps|<lambda>) at {re.escape(__file__)}:\d+", text)


def test_calls_that_do_not_fit_name_who_called():
    line = sys._getframe().f_lineno
    one, two, three = lambda a: a, lambda a, b: a, lambda a, b, c: a
    for call, name, at in [
            (lambda: lax.cond(True, one, two, 1.0), "cond", 1),
            (lambda: lax.switch(1, [one, three], 1.0), "switch", 1),
            (lambda: lax.while_loop(two, one, 1.0), "while_loop", 1),
            (lambda: lax.fori_loop(0, 3, one, 1.0), "fori_loop", 1),
            (lambda: lax.scan(one, 1.0, X), "scan", 1), (lambda: lax.map(two, X), "map", 1),
            (lambda: mjax.checkpoint(two)(1.0), "checkpoint", 1)]:
        with pytest.raises(TypeError) as info:
            call()
        at = rf"<lambda> at {re.escape(__file__)}:{line + 1}"
        assert any(re.search(rf"{at}, which was given to {name}\b", note)
                   for note in info.value.__notes__), info.value.__notes__
    def fails(x):
        raise TypeError("of argument 1")

    with pytest.raises(TypeError) as info:
        lax.map(fails, X)
    assert not any("was given to" in note for note in info.value.__notes__)


def test_defaults_show_as_what_they_are():
    for f in (mjax.jit, lax.cond, lax.switch, mjax.tree_util.tree_reduce, mjax.smap,
              mjax.shard_map, mjax.numpy_dtype_promotion):
        assert "object at 0x" not in str(inspect.signature(f))


# ---- tracers where Python values are needed ----------------------------------------------


@pytest.mark.parametrize(("use", "error", "remedy"), [
    (lambda x: 1 if lax.gt(x, 0) else 2, errors.TracerBoolConversionError, "where"),
    (lambda x: [0 for _ in iter(lambda: bool(lax.gt(x, 0)), False)],
     errors.TracerBoolConversionError, "static"),
    (lambda x: range(x), errors.TracerIntegerConversionError, "static"),
    (lambda x: [1, 2, 3][x], errors.TracerIntegerConversionError, "static"),
    (lambda x: int(x), errors.ConcretizationTypeError, "astype"),
    (lambda x: float(x), errors.ConcretizationTypeError, "astype"),
    (lambda x: complex(x), errors.ConcretizationTypeError, "astype"),
    (lambda x: np.sin(x), errors.TracerArrayConversionError, "mjax.numpy"),
    (lambda x: np.asarray(x), errors.TracerArrayConversionError, "mjax.numpy"),
    (lambda x: x.item(), errors.ConcretizationTypeError, "item"),
    (lambda x: f"{x:.2f}", errors.ConcretizationTypeError, "format"),
], ids=["if", "while", "range", "index", "int", "float", "complex", "numpy", "asarray", "item",
        "format"])
def test_tracers_are_no_python_values(use, error, remedy):
    @mjax.jit
    def function_of_mine(other, argument_of_mine):
        return use(argument_of_mine)

    text = message(error, lambda: function_of_mine(2, 1))
    assert remedy in text
    assert "function_of_mine" in text and "test_errors.py" in text
    assert re.search(r"depends on its argument argument_of_mine\b", text)
    assert issubclass(error, TypeError)


def test_eager_jvp_tracers_have_a_truth_value():
    assert mjax.grad(lambda x: lax.mul(x, x) if lax.gt(x, 0.0) else x)(3.0).item() == 6.0


def test_under_vmap_there_is_no_one_truth():
    text = message(errors.TracerBoolConversionError,
                   lambda: mjax.vmap(lambda x: x if lax.gt(x, 0.0) else lax.neg(x))(X))
    assert "batch element" in text


# ---- shapes and dtypes -------------------------------------------------------------------


def test_binary_operations():
    text = message(TypeError, lambda: lax.add(X, np.ones(4, np.float32)))
    assert "add" in text and "(3,), (4,)" in text and "broadcast" in text
    text = message(TypeError, lambda: lax.mul(X, np.arange(3)))
    assert "float32, int32" in text and "mjax.numpy" in text
    text = message(TypeError, lambda: lax.sin(np.arange(3)))
    assert "sin does not accept dtype int32" in text and "floating" in text


@pytest.mark.parametrize(("call", "parts"), [
    (lambda: lax.reshape(M, (5,)), ["(3, 4)", "size 12", "(5,)"]),
    (lambda: lax.transpose(M, (0, 0)), ["permutation", "(3, 4)"]),
    (lambda: lax.broadcast_in_dim(X, (2, 4), (1,)), ["(3,)", "(2, 4)"]),
    (lambda: lax.squeeze(M, (0,)), ["(0,)", "(3, 4)", "1"]),
    (lambda: lax.rev(M, (2,)), ["(2,)", "2 dimensions"]),
    (lambda: lax.reduce_sum(M, (2,)), ["(2,)", "(3, 4)"]),
    (lambda: lax.expand_dims(X, (5,)), ["axis 5"]),
    (lambda: lax.integer_pow(np.arange(3), -1), ["negative power", "floats"]),
    (lambda: lax.select(X, X, X), ["bool", "float32"]),
    (lambda: lax.clamp(X, M, 1.0), ["(3, 4)", "(3,)"]),
])
def test_shapes_that_do_not_fit(call, parts):
    text = message((TypeError, ValueError), call)
    for part in parts:
        assert part in text, text


@pytest.mark.parametrize("value", ["text", [1.0, 2.0], None, np.array(["a"]),
                                   np.array([None, 1]), np.datetime64("2020-01-01")],
                         ids=["str", "list", "None", "strings", "objects", "date"])
def test_values_that_are_no_arrays(value):
    text = message(TypeError, lambda: lax.sin(value))
    assert "not a valid array" in text or "no valid array" in text


def test_python_ints_that_overflow():
    assert "int32" in message(OverflowError, lambda: lax.add(2**40, 1))


# ---- transformations ---------------------------------------------------------------------


def test_vmap_sizes_that_differ():
    text = message(ValueError, lambda: mjax.vmap(lambda a, b: a)(X, {"k": np.ones((5, 2))}))
    assert "argument 0 (a) of shape (3,) has size 3 along axis 0" in text
    assert "argument 1['k'] (b) of shape (5, 2) has size 5 along axis 0" in text


@pytest.mark.parametrize(("call", "parts"), [
    (lambda: mjax.vmap(lambda a, b: a, in_axes=(0,))(X, X), ["1 entries", "2 positional"]),
    (lambda: mjax.vmap(lambda a: a, in_axes=({"x": 0},))({"y": X}), ["prefix"]),
    (lambda: mjax.vmap(lambda a: a, in_axes="0"), ["in_axes", "'0'"]),
    (lambda: mjax.vmap(lambda a: a, in_axes=2)(M), ["(3, 4)", "no axis 2"]),
    (lambda: mjax.vmap(lambda a: a, in_axes=None)(M), ["at least one mapped", "axis_size"]),
    (lambda: mjax.vmap(lambda a: a, out_axes=None)(X), ["out_axes is None", "mapped"]),
    (lambda: mjax.vmap(lambda a: a, out_axes=5)(X), ["out_axes 5", "out of range"]),
    (lambda: mjax.vmap(lambda a: a, out_axes=(0, 0))(X), ["out_axes", "prefix"]),
    (lambda: mjax.vmap(lambda a: a, axis_size=7)(X), ["axis_size is 7", "size 3"]),
])
def test_vmap_axes_that_do_not_fit(call, parts):
    text = message((TypeError, ValueError), call)
    for part in parts:
        assert part in text, text


@pytest.mark.parametrize(("call", "parts"), [
    (lambda: mjax.grad(lambda x: x)(X), ["scalar-output", "(3,)", "jacrev"]),
    (lambda: mjax.grad(lambda x: (x, x))(1.0), ["scalar-output", "structure", "has_aux"]),
    (lambda: mjax.grad(lambda x: x)(1), ["int32", "argument 0", "allow_int"]),
    (lambda: mjax.grad(lambda x: lax.gt(x, 0.0))(1.0), ["real-valued outputs", "bool"]),
    (lambda: mjax.grad(lambda x: lax.complex(x, x))(1.0), ["complex64", "holomorphic=True"]),
    (lambda: mjax.grad(lambda x: x, argnums=1)(1.0), ["argnums=1", "1 positional"]),
    (lambda: mjax.grad(lambda x: x, has_aux=True)(1.0), ["has_aux", "pair"]),
    (lambda: mjax.grad(lambda x: x, holomorphic=True)(1.0), ["holomorphic=True", "float32"]),
    (lambda: mjax.grad(lambda x: x)("a"), ["argument 0", "not a valid array"]),
    (lambda: mjax.grad(3), ["expects a function"]),
    (lambda: mjax.jvp(lax.sin, 1.0, 1.0), ["tuples"]),
    (lambda: mjax.jvp(lax.sin, (1.0,), (X,)), ["tangent[0]", "float32[3]"]),
    (lambda: mjax.jvp(lax.neg, (1,), (1,)), ["float0"]),
    (lambda: mjax.jvp(lambda x: x["a"], ({"a": 1.0},), ({"b": 1.0},)), ["structure"]),
    (lambda: mjax.vjp(lax.sin, X)[1](np.ones(4, np.float32)), ["cotangent", "float32[4]",
                                                               "float32[3]"]),
    (lambda: mjax.vjp(lax.sin, X)[1]((X, X)), ["structure"]),
    (lambda: mjax.linearize(lax.sin, X)[1](M), ["float32[3,4]", "float32[3]"]),
    (lambda: mjax.jacfwd(lambda x: x)(1), ["real-valued", "int32"]),
])
def test_derivatives_that_make_no_sense(call, parts):
    text = message((TypeError, ValueError), call)
    for part in parts:
        assert part in text, text


def test_linear_transpose_of_what_is_not_linear():
    text = message(NotImplementedError, lambda: mjax.linear_transpose(lax.sin, 1.0)(1.0))
    assert "sin" in text and "transpos" in text


@pytest.mark.parametrize("call", [
    lambda: mjax.jit(lambda x: x, statics=0), lambda: mjax.vmap(lambda x: x, axes=0),
    lambda: mjax.grad(lambda x: x, argnum=0), lambda: mjax.jit(lambda x: x)(X, y=1)])
def test_unknown_keywords(call):
    assert "unexpected keyword" in message(TypeError, call)


def test_config_flags():
    assert "no flag named" in message(AttributeError, lambda: mjax.config.update("jax_nope", 1))
    assert "standard" in message(ValueError,
                                 lambda: mjax.config.update("numpy_dtype_promotion", "x"))
    assert "True or False" in message(ValueError, lambda: mjax.config.update("enable_x64", 7))


# ---- tracebacks --------------------------------------------------------------------------


ENGINE = str(Path(mjax.__file__).parent)


def engine_frames(call):
    try:
        call()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        return [f for f in frames if f.filename.startswith(ENGINE)], frames[-1], error
    raise AssertionError("no error")


@pytest.mark.parametrize("call", [
    lambda: lax.add(X, M), lambda: mjax.jit(lambda x: lax.add(x, M))(X),
    lambda: mjax.grad(lambda x: lax.add(x, M))(X), lambda: mjax.vmap(lambda x: lax.sin(1))(X)])
def test_engine_frames_are_folded(call):
    ours, last, error = engine_frames(call)
    assert not ours and last.filename == __file__
    assert any("MJAX_TRACEBACK_FILTERING" in note for note in error.__notes__)


def test_a_switch_shows_all_frames():
    mjax.config.update("traceback_filtering", "off")
    try:
        ours, _, _ = engine_frames(lambda: lax.add(X, M))
    finally:
        mjax.config.update("traceback_filtering", "auto")
    assert ours


def test_texts_are_built_only_when_shown():
    calls = []

    class Spy(mjax._engine.base.errors.LazyTypeError):
        pass

    error = Spy(lambda: calls.append(1) or "text")
    assert not calls and str(error) == "text" and str(error) == "text" and calls == [1]


# ---- jaxlib itself -----------------------------------------------------------------------

IMPORT = """
import sys, types
{setup}
try:
    import mjax
except ImportError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(("setup", "parts"), [
    ("sys.modules['jaxlib'] = None", ["JaxlibMissingError", "pip install", "jaxlib"]),
    ("import jaxlib.version; jaxlib.version.__version__ = '0.4.30'",
     ["JaxlibVersionError", "0.4.30", "0.4.36", "pip install"]),
])
def test_jaxlibs_that_do_not_do(setup, parts):
    done = subprocess.run([sys.executable, "-c", IMPORT.format(setup=setup)], text=True,
                          capture_output=True, check=False)
    for part in parts:
        assert part in done.stdout, done.stdout + done.stderr


def test_a_jaxlib_that_is_too_new_warns():
    setup = "import jaxlib.version; jaxlib.version.__version__ = '99.0'"
    done = subprocess.run([sys.executable, "-c", IMPORT.format(setup=setup)], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0 and "MJAX_UNTESTED_JAXLIB" in done.stderr


@pytest.mark.parametrize("call", [
    lambda: lax.add(X, M), lambda: mjax.jit(lambda x: lax.add(x, M))(X), lambda: lax.sin("a"),
    lambda: mjax.jit(lax.sin)("a"), lambda: mjax.make_jaxpr(mjax.jit(lax.sin))(1)])
def test_no_cache_miss_shows_in_the_context(call):
    _, _, error = engine_frames(call)
    assert not isinstance(error.__context__, (KeyError, AttributeError))
    assert error.__context__ is None or error.__suppress_context__
