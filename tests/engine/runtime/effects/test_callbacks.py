"""Callbacks as users call them: values in and out, printing, what they refuse."""

from __future__ import annotations

import functools
import re

import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.experimental
import mjax.numpy as jnp
from mjax import lax
from mjax.experimental import io_callback
from mjaxlib_shim.gates import FFI_CALLBACKS

F = mjax.ShapeDtypeStruct((), "float32")
X = np.arange(3, dtype="float32")


@pytest.fixture(autouse=True)
def clean():
    mjax.effects_barrier()
    yield
    mjax.effects_barrier()


@pytest.fixture(params=["jit", "at once"])
def how(request):
    return mjax.jit if request.param == "jit" else lambda f: f


CALLS = {
    "pure_callback": mjax.pure_callback,
    "io_callback": io_callback,
    "ordered io_callback": functools.partial(io_callback, ordered=True),
}

# ---- values ----------------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_trees_go_in_and_come_out(call, how):
    def swap(pair, *, scale):
        assert set(pair) == {"a", "b"} and all(isinstance(v, mjax.Array) for v in pair.values())
        return {"b": pair["a"] * scale, "a": (np.asarray(pair["b"]), None)}

    types = {"a": (mjax.ShapeDtypeStruct((), "int32"), None), "b": F}
    f = how(lambda a, b: call(swap, types, {"a": a, "b": b}, scale=np.float32(3)))
    out = f(np.float32(2), np.int32(7))
    assert out["b"] == 6 and out["a"] == (7, None)
    assert (out["b"].dtype, out["a"][0].dtype) == ("float32", "int32")


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 0)])
def test_dtypes_and_shapes(dtype, shape, how):
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = (np.arange(int(np.prod(shape))).reshape(shape) % 2).astype(dtype)
    f = how(lambda x: mjax.pure_callback(lambda v: v, mjax.ShapeDtypeStruct(shape, dtype), x))
    out = f(x)
    assert out.dtype == dtype and out.shape == shape
    np.testing.assert_array_equal(np.asarray(out), x)


def test_callbacks_may_compute_with_the_library(how):
    inner = mjax.jit(lambda x: jnp.sin(x) @ jnp.cos(x))
    f = how(lambda x: mjax.pure_callback(lambda v: inner(v) + mjax.grad(inner)(v).sum(), F, x))
    expected = np.sin(X) @ np.cos(X) + np.cos(2 * X).sum()
    np.testing.assert_allclose(f(X), expected, rtol=1e-5)
    nested = how(lambda x: mjax.pure_callback(lambda v: f(v) * 2, F, x))
    np.testing.assert_allclose(nested(X), 2 * expected, rtol=1e-5)


@pytest.mark.slow
def test_callbacks_that_compute_inside_of_each_other():
    """They do not wait for threads that callbacks around them occupy.

    Before jaxlib 0.5 each level holds a thread of the client's pool, which has one per core or
    device, here at least 8; what the innermost computes needs the last (docs/effects.md).
    """
    levels = 12 if FFI_CALLBACKS.open else len(mjax.devices()) - 1
    busy = mjax.jit(lambda x: jnp.ones((50, 50)) @ jnp.ones((50, 50)) * x)
    f = lambda x: np.float32(x) + np.asarray(busy(np.float32(0)))[0, 0]
    for _ in range(levels):
        f = mjax.jit(lambda x, f=f: (mjax.pure_callback(lambda v: np.float32(f(v) + 1), F, x)
                                     + busy(x)[0, 0] * 0))
    assert f(np.float32(1)) == levels + 1


def test_large_arrays(how):
    x = np.random.default_rng(0).normal(size=(1000, 1000)).astype("float32")
    f = how(lambda x: mjax.pure_callback(
        lambda v: np.asarray(v).T + np.asarray(v @ v)[0, 0],
        mjax.ShapeDtypeStruct(x.shape, x.dtype), x + 1))
    np.testing.assert_allclose(f(x), (x + 1).T + (x[0] + 1) @ (x[:, 0] + 1), rtol=1e-3)


def test_arguments_that_are_kept_stay_what_they_were():
    kept = []
    f = mjax.jit(lambda x: io_callback(lambda v: kept.append(v), None, x * 2, ordered=True))
    for i in range(20):
        f(X + i)
    mjax.effects_barrier()
    for i, v in enumerate(kept):
        np.testing.assert_array_equal(v, 2 * (X + i))


def test_settings_in_callbacks_are_those_of_the_call():
    f = lambda x: mjax.pure_callback(
        lambda v: np.asarray(jnp.asarray(v) + 1), mjax.ShapeDtypeStruct((), x.dtype), x)
    with mjax.enable_x64(True):
        g = mjax.jit(f)
        assert g(np.float64(1)).dtype == "float64"
    assert mjax.jit(f)(np.float32(1)).dtype == "float32"


def test_equal_programs_are_compiled_once():
    sin = np.sin
    f = mjax.jit(lambda x: lax.cond(x > 0, lambda: mjax.pure_callback(sin, F, x),
                                    lambda: mjax.pure_callback(sin, F, x)))
    assert f(np.float32(1)) == np.sin(np.float32(1))
    calls = [e for branch in mjax.make_jaxpr(f)(1.0).eqns[0].params["jaxpr"].eqns[-1].params[
        "branches"] for e in branch.eqns]
    assert calls[0].params == calls[1].params


def test_a_callback_without_arguments(how):
    seen = []
    f = how(lambda: io_callback(lambda: (seen.append(1), np.float32(4))[1], F, ordered=True))
    assert f() == 4 and f() == 4 and seen == [1, 1]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_keys(call, how):
    from mjax import random

    key, seen = random.key(3), []

    def draw(key, keys):
        seen.append((key.dtype, key.shape, keys.shape))
        return random.uniform(key) + random.uniform(keys[1])

    f = how(lambda k, ks: call(draw, F, k, ks))
    keys = random.split(key, 3)
    np.testing.assert_allclose(f(key, keys), random.uniform(key) + random.uniform(keys[1]))
    assert seen == [(key.dtype, (), (3,))]
    with pytest.raises(TypeError, match=r"asks for keys \(key<fry>\): have the callback"):
        call(draw, mjax.ShapeDtypeStruct((), key.dtype), key, keys)


def test_batches_of_keys(how):
    from mjax import random

    keys = random.split(random.key(3), 2)
    f = lambda k: mjax.pure_callback(random.uniform, F, k, vmap_method="sequential")
    np.testing.assert_array_equal(how(mjax.vmap(f))(keys), [random.uniform(k) for k in keys])


# ---- printing --------------------------------------------------------------------------


FORMATS = [
    ("{} and {y:.2f}", (X,), {"y": np.float32(1 / 3)}, "[0. 1. 2.] and 0.33"),
    ("{0}, {y:6.1e}, {0}", (np.int32(2),), {"y": np.float32(0.5)}, "2, 5.0e-01, 2"),
    ("{tree[a]} {{}} {t[0]:d}", (), {"tree": {"a": X[:1]}, "t": (np.int32(5),)}, "[0.] {} 5"),
    ("{x.shape} {!s:>5}", (np.int32(7),), {"x": X}, "(3,)     7"),
    ("nothing", (), {}, "nothing"),
]


@pytest.mark.parametrize("fmt, args, kwargs, text", FORMATS)
def test_formats(fmt, args, kwargs, text, capsys, how):
    f = how(lambda args, kwargs: mjax.debug.print(fmt, *args, **kwargs))
    f(args, kwargs)
    mjax.effects_barrier()
    assert capsys.readouterr().out == text + "\n"


@pytest.mark.parametrize("fmt, args, kwargs, text", [
    ("{}", (), {}, "0 positional and 0 named arguments: .*"),
    ("{} {}", (1,), {}, "1 positional and 0 named arguments: it asks for more"),
    ("{x}", (), {"y": 1}, "there is no argument 'x' given by name"),
    ("x", (1, 2), {}, "the arguments 0, 1 do not occur in it: write {} for each argument by"),
    ("{}", (1,), {"y": 1}, "the arguments 'y' do not occur in it"),
    ("{} {0}", (1,), {}, "cannot switch from manual"),
    ("{", (), {}, "Single '{'|expected '}'"),
    ("{x.nope}", (), {"x": X}, "nope"),
])
@pytest.mark.parametrize("trace", [lambda f: f(), lambda f: mjax.make_jaxpr(lambda: f())()],
                         ids=["at once", "traced"])
def test_formats_that_do_not_fit_are_refused_when_they_are_traced(trace, fmt, args, kwargs, text):
    with pytest.raises(ValueError, match=rf"debug.print: the format {re.escape(repr(fmt))} does "
                                         rf"not fit its .*({text})"):
        trace(lambda: mjax.debug.print(fmt, *args, **kwargs))


def test_formats_of_traced_values_are_for_run_time(capsys):
    mjax.jit(lambda x: mjax.debug.print("{:.3f} {:5d}", x, 3))(np.float32(0.5))
    mjax.effects_barrier()
    assert capsys.readouterr().out == "0.500     3\n"


def test_options_in_a_call_of_their_own(capsys):
    seen = []

    def look(x, ordered):
        seen.append((int(x), int(ordered)))

    @mjax.jit
    def f(x):
        mjax.debug.callback(ordered=True)(look, x, ordered=x + 1)
        mjax.debug.print(ordered=True)("{} and {ordered}", x, ordered=x + 1)
        mjax.debug.callback(ordered=True, partitioned=True)(look, x, x)

    f(1)
    mjax.effects_barrier()
    assert seen == [(1, 2), (1, 1)] and capsys.readouterr().out == "1 and 2\n"
    assert len(mjax.make_jaxpr(f)(1).effects) == 1
    with pytest.raises(TypeError, match="debug.callback expects a function, got None"):
        mjax.debug.callback(ordered=True)(None, 1)
    with pytest.raises(TypeError, match=r"debug.log expects .*, got int: write debug.log"):
        mjax.debug.log()(1)


def test_formats_that_values_refuse_are_named():
    with pytest.raises(ValueError, match="Unknown format code 'd'") as refused:
        mjax.debug.print("x = {x:d}", x=np.float32(0.5))
    assert "in debug.print('x = {x:d}')" in refused.value.__notes__


def test_formats_that_are_not_checked(capsys):
    f = mjax.jit(lambda x: mjax.debug.print("{x[0]}", 1, x=x, skip_format_check=True))
    f(X)
    mjax.effects_barrier()
    assert capsys.readouterr().out == "0.0\n"


def test_logging(caplog, how):
    f = how(lambda x: mjax.debug.log("x is {:.1f}, 100%s", x, ordered=True))
    with caplog.at_level("INFO", logger="mjax.debug"):
        f(np.float32(1))
        mjax.effects_barrier()
    with caplog.at_level("WARNING", logger="mjax.debug"):
        f(np.float32(2))
        mjax.effects_barrier()
    assert [(r.name, r.levelname, r.getMessage()) for r in caplog.records] == [
        ("mjax.debug", "INFO", "x is 1.0, 100%s")]
    with pytest.raises(ValueError, match=r"debug.log: the format '\{y\}' does not fit"):
        mjax.debug.log("{y}", 1)


def test_what_is_no_format():
    with pytest.raises(TypeError, match=r"debug.print expects a format string first, got ArrayI?"):
        mjax.debug.print(jnp.ones(3))


# ---- refusals --------------------------------------------------------------------------


def at_run_time(f, *args):
    mjax.block_until_ready(f(*args))
    mjax.effects_barrier()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("result, types, text", [
    (X, F, r"returned an array of dtype float32 and shape \(3,\) for result, but "
           r"result_shape_dtypes says float32\[\]"),
    (np.int32(1), F,
     r"returned an array of dtype int32 and shape \(\) for result, but .* float32\[\]"),
    ({"a": X, "b": X}, {"a": mjax.ShapeDtypeStruct((3,), "float32"), "b": F},
     r"returned an array of .* shape \(3,\) for result\['b'\], but .* float32\[\]"),
    ((1.0, 2.0), F, r"returned PyTreeDef\(\(\*, \*\)\), but result_shape_dtypes says PyTreeDef"),
    (None, F, r"returned PyTreeDef\(None\), but"),
    (np.float32(1), (), r"returned PyTreeDef\(\*\), but result_shape_dtypes says PyTreeDef"),
])
def test_results_that_are_not_what_was_said(call, how, result, types, text):
    def give(x):
        return result

    if call is mjax.pure_callback and types == ():
        return  # nobody can see that
    pattern = rf"(pure|io)_callback: give at .*test_callbacks.py:\d+ {text}"
    with pytest.raises(TypeError, match=pattern):
        at_run_time(how(lambda x: call(give, types, x)), np.float32(1))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_bad_arguments(call):
    with pytest.raises(TypeError, match=r"_callback expects a function, got 3 of type int"):
        call(3, F, 1)
    with pytest.raises(TypeError, match=r"_callback.*argument\[0\].* is not a valid array"):
        call(print, None, "text")
    with pytest.raises(TypeError, match=r"keyword.*'name'|argument.*name"):
        call(print, None, name="text")
    with pytest.raises(TypeError, match=r"result_shape_dtypes must hold objects with a shape and "
                                        r"a dtype .*got 'float32'"):
        call(print, "float32", 1)
    # TypeError is ours, ValueError JAX's.
    with pytest.raises(ValueError, match=r"asks for float64, but 64-bit types are off: ask for "
                                        r"float32, or enable_x64"):
        call(print, np.float64(1), 1)
    with pytest.raises(NotImplementedError, match=r"_callback: sharding must be a SingleDevice"):
        call(print, None, 1, sharding=mjax.devices()[0])


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_device_that_calls(call):
    first, second, third = (mjax.sharding.SingleDeviceSharding(d) for d in mjax.devices()[:3])
    mesh = mjax.make_mesh((2,), ("i",), devices=mjax.devices()[:2])
    cut = mjax.device_put(np.arange(4, dtype="float32"), mjax.NamedSharding(mesh, mjax.P("i")))
    double = lambda x, where: call(lambda v: 2 * np.asarray(v), x, x, sharding=where)
    jitted = mjax.jit(double, static_argnums=1)
    for f in (double, jitted):
        for x, devices in [(X, [first]), (mjax.device_put(X, second.device), [second]),
                           (cut, [first, second])]:
            for where in (first, second, third):
                if where in devices:
                    for one in f(x, where).addressable_shards:
                        np.testing.assert_array_equal(one.data, 2 * np.asarray(x)[one.index])
                else:
                    with pytest.raises(ValueError, match=f"names the device .*{where.device.id}"):
                        f(x, where)
    if FFI_CALLBACKS.open:
        assert "device_ids=[1]" in jitted.lower(cut, second).as_text()
    with mjax.default_device(third.device):
        np.testing.assert_array_equal(double(X, third), 2 * X)
    with pytest.raises(NotImplementedError, match="each device calls the function"):
        mjax.shard_map(lambda x: double(x, first), mesh=mesh, in_specs=mjax.P("i"),
                       out_specs=mjax.P("i"))(cut)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_each_device_has_the_results(call):
    mesh = mjax.make_mesh((2,), ("i",), devices=mjax.devices()[:2])
    x = mjax.device_put(np.arange(4, dtype="float32"), mjax.NamedSharding(mesh, mjax.P("i")))
    out = mjax.jit(lambda x: call(lambda v: 2 * np.asarray(v), x, x))(x)
    for one in out.addressable_shards:
        np.testing.assert_array_equal(one.data, 2 * np.asarray(x)[one.index])


def test_unknown_methods():
    with pytest.raises(ValueError, match=r"vmap_method must be one of \('sequential', .* 'loop'"):
        mjax.pure_callback(np.sin, F, 1.0, vmap_method="loop")


def test_bad_arguments_of_debug_callback():
    with pytest.raises(TypeError, match=r"debug.callback.*got None|debug.callback.*callable"):
        mjax.debug.callback(None, 1)


@pytest.mark.parametrize("how", [lambda f: f, mjax.jit, lambda f: lambda x: mjax.vmap(f)(
    x[None]), lambda f: lambda x: lax.scan(lambda c, _: (c, f(c)), x, None, 1)], ids=[
        "itself", "jit", "vmap", "scan"])
def test_what_is_no_array_reaches_debug_callbacks_as_it_is(how, capsys):
    seen, config = [], {"rate": ["fast", np.float32]}
    look = lambda *args, **kwargs: seen.append((args, kwargs))

    def f(x):
        mjax.debug.callback(look, "tag", [x, config, None], kind=object)
        mjax.debug.print("{name} {} {n}", x, name="loss", n=3)

    for _ in range(2):
        how(f)(np.float32(2))
    mjax.effects_barrier()
    ((tag, (x, given, nothing)), named), again = seen
    assert (tag, given, nothing, named) == ("tag", config, None, {"kind": object})
    assert isinstance(x, mjax.Array) and x == 2 and again[0] == seen[0][0]
    assert capsys.readouterr().out == "loss 2.0 3\n" * 2


# ---- the faces -------------------------------------------------------------------------


@pytest.mark.parametrize("module", [mjax.debug, mjax.experimental])
def test_every_name_is_there(module):
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(dir(module)) >= set(module.__all__)
    assert {"pure_callback", "effects_barrier"} <= set(mjax.__all__)
