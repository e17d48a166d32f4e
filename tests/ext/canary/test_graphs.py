"""Programs as graphs in JSON: written by schemas, read again, run by mjax and by NumPy."""

from __future__ import annotations

import json
from math import erf

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax_ext import core
from mjax_ext.core import primitives
from mjax_ext.state.discharge import discharge_state
from tests.ext.canary import graphs, numpy_backend
from tests.ext.canary.graphs import PRIMITIVES, CannotExportError, dump, load

X = np.array([[0.5, -1.25, 2.0], [1.5, 0.75, -0.5]], np.float32)
W = np.array([[1.0, -0.5], [0.25, 2.0], [-1.5, 0.5]], np.float32)
V = np.array([0.5, -1.25, 2.0, 0.25], np.float32)
SPD = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 2.0]], np.float32)
IMAGE = np.arange(20, dtype=np.float32).reshape(1, 4, 5, 1) % 7 - 2
KERNEL = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32).reshape(2, 2, 1, 1)


@mjax.custom_jvp
def softplus(x):
    return jnp.log1p(jnp.exp(x))


softplus.defjvp(lambda primals, tangents: (
    softplus(*primals), tangents[0] * lax.logistic(*primals)))


@mjax.custom_vjp
def clipped(x):
    return x * x


clipped.defvjp(lambda x: (x * x, x), lambda x, ct: (jnp.clip(2 * x * ct, -1, 1),))


def newton(x):
    """The square root, by iteration."""
    return lax.while_loop(lambda c: jnp.abs(c[0] * c[0] - x).max() > 1e-6 * c[1],
                          lambda c: (0.5 * (c[0] + x / c[0]), c[1] + 1), (jnp.ones_like(x), 1))[0]


def horner(coefficients, x):
    def step(total, c):
        total = total * x + c
        return total, total

    return lax.scan(step, jnp.float32(0), coefficients)


def horner_reference(coefficients, x):
    values = [np.polyval(coefficients[:n + 1], x) for n in range(len(coefficients))]
    return values[-1], np.array(values)


def image_reference(image, kernel):
    out = np.zeros((1, 3, 4, 1))
    for i, j in np.ndindex(3, 4):
        out[0, i, j, 0] = np.sum(image[0, i:i + 2, j:j + 2, 0] * kernel[..., 0, 0])
    return out


def layers(x, w):
    return jnp.tanh(mjax.nn.gelu(x, approximate=False) @ w).sum(0)


def layers_reference(x, w):
    return np.tanh(x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2))) @ w).sum(0)


#: name -> a program, its arguments, and the same in NumPy.
PROGRAMS = {
    "layers": (layers, (X, W), layers_reference),
    "weak types": (lambda x: 2 * x + 1, (1.5,), lambda x: 2 * x + 1),
    "closures": (lambda x: x + V, (V,), lambda x: x + V),
    "softmax": (lambda x: mjax.nn.softmax(x, axis=1), (X,), lambda x: (
        np.exp(x) / np.exp(x).sum(1, keepdims=True))),
    "scan": (horner, (V, np.float32(1.5)), horner_reference),
    "reversed scan": (lambda x: lax.scan(lambda c, a: (c + a, c * a), 0.0, x, reverse=True), (V,),
                      lambda x: (x.sum(), np.array([x[i] * x[i + 1:].sum() for i in range(4)]))),
    "while": (newton, (np.abs(V),), lambda x: np.sqrt(x)),
    "cond": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * x], x), (np.int32(2), V),
             lambda i, x: x * x),
    "jit": (lambda x: mjax.jit(lambda x, y: x - y)(x, 2 * x), (V,), lambda x: -x),
    "custom_jvp": (softplus, (V,), lambda x: np.log1p(np.exp(x))),
    "custom_vjp": (clipped, (V,), lambda x: x * x),
    "remat": (mjax.checkpoint(lambda x: jnp.sin(x) * x), (V,), lambda x: np.sin(x) * x),
    "grad": (mjax.grad(lambda x: softplus(clipped(x)).sum()), (V,), lambda x: np.clip(
        2 * x / (1 + np.exp(-x * x)), -1, 1)),
    "grad of scan": (mjax.grad(lambda c, x: horner(c, x)[0]), (V, np.float32(1.5)),
                     lambda c, x: np.array([x**3, x**2, x, 1])),
    "vmap": (mjax.vmap(lambda x, w: x @ w, (None, 1)), (X, W), lambda x, w: (x @ w).T),
    "einsum": (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), (SPD[None, :2], SPD[None]),
               lambda x, y: x @ y),
    "gather": (lambda x: x[np.array([2, 0, 2])] * 2, (W,), lambda x: x[[2, 0, 2]] * 2),
    "slices": (lambda x, i: lax.dynamic_update_slice(x, -lax.dynamic_slice(x, (i,), (2,)), (i,)),
               (V, np.int32(1)), lambda x, i: x * [1, -1, -1, 1]),
    "scatter": (lambda x: x.at[np.array([0, 2, 0])].add(1.0), (V,), lambda x: x + [2, 0, 1, 0]),
    "conv": (lambda x, k: lax.conv_general_dilated(
        x, k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")), (IMAGE, KERNEL),
        image_reference),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(-x)), (V,), lambda x: (
        np.sort(x), np.argsort(-x))),
    "several keys": (lambda x, y: lax.sort((x, y), num_keys=2), (np.int32([1, 0, 1]), V[:3]),
                     lambda x, y: (np.int32([0, 1, 1]), y[[1, 0, 2]])),
    "shapes": (lambda x: jnp.pad(jnp.flip(x.T, 0), ((1, 0), (0, 2))).reshape(2, 8), (X,),
               lambda x: np.pad(x.T[::-1], ((1, 0), (0, 2))).reshape(2, 8)),
    "cumulative": (lambda x: (jnp.cumsum(x), lax.cummax(x, reverse=True)), (V,), lambda x: (
        np.cumsum(x), np.maximum.accumulate(x[::-1])[::-1])),
    "booleans": (lambda x: jnp.where((x > 0) & ~(x > 1), x, 0).any(), (V,), lambda x: True),
    "integers": (lambda i: (i // 2, i % 3, i << 1), (np.int32([5, -3, 8]),), lambda i: (
        i // 2, i % 3, i << 1)),
    "factor": (jnp.linalg.cholesky, (SPD,), np.linalg.cholesky),
    "solve": (lambda a, b: jnp.linalg.solve(a, b), (SPD, V[:3]), np.linalg.solve),
    "eigenvalues": (jnp.linalg.eigvalsh, (SPD,), np.linalg.eigvalsh),
    "singular values": (lambda x: jnp.linalg.svd(x, compute_uv=False), (X,),
                        lambda x: np.linalg.svd(x, compute_uv=False)),
    "fft": (jnp.fft.fft, (V,), np.fft.fft),
    "pooling": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2,), (2,), "VALID"), (V,),
                lambda x: x.reshape(2, 2).max(1)),
    "half": (lambda x: x.astype("bfloat16") * 2, (np.float32([0.5, 1.25]),), lambda x: x * 2),
    "linear solve": (lambda a, b: lax.custom_linear_solve(
        lambda x: a @ x, b, lambda f, b: jnp.linalg.solve(a, b)), (SPD, V[:3]), np.linalg.solve),
}
#: Those with operations that the backend does not know.
MJAX_ONLY = {"scatter", "solve", "eigenvalues", "singular values", "fft", "pooling",
             "linear solve"}


def close(found, expected):
    found, expected = mjax.tree.leaves(found), mjax.tree.leaves(expected)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(x, np.asarray(y).dtype), y, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, args, reference = PROGRAMS[name]
    jaxpr = mjax.make_jaxpr(f)(*args)
    text = dump(jaxpr)
    again = load(text)
    assert again.in_avals == jaxpr.in_avals and again.out_avals == jaxpr.out_avals
    if '"inlined"' not in text:
        assert dump(again) == text
    tree = mjax.tree.structure(mjax.eval_shape(f, *args))
    expected = reference(*args)
    close(mjax.jit(core.jaxpr_as_fun(again))(*args), expected)
    if name not in MJAX_ONLY:
        close(tree.unflatten(numpy_backend.run(text, *args)), expected)


def test_wide_types():
    with mjax.enable_x64(True):
        f = lambda x, n: jnp.sum(x) * n
        jaxpr = mjax.make_jaxpr(f)(np.arange(3.0), np.int64(2**40))
        again = load(dump(jaxpr))
        assert str(again.out_avals[0]) == "float64[]" and again.out_avals == jaxpr.out_avals
        close(core.jaxpr_as_fun(again)(np.arange(3.0), np.int64(2**40)), [3.0 * 2**40])


def test_random_numbers():
    """Bits of a key are those that NumPy computes by the published hash."""
    key = mjax.random.key(7)
    f = lambda key: mjax.random.bits(key, (5,))
    again = load(dump(mjax.make_jaxpr(f)(key)))
    first, second = numpy_backend.threefry(
        np.uint32(0), np.uint32(7), np.zeros(5, np.uint32), np.arange(5, dtype=np.uint32))
    np.testing.assert_array_equal(*core.jaxpr_as_fun(again)(key), first ^ second)
    closed = load(dump(mjax.make_jaxpr(lambda: mjax.random.key_data(key))()))
    np.testing.assert_array_equal(*core.jaxpr_as_fun(closed)(), [0, 7])
    hashed = lambda x, y: primitives.threefry2x32_p.bind(np.uint32(0), np.uint32(7), x, y)
    args = np.zeros(5, np.uint32), np.arange(5, dtype=np.uint32)
    close(numpy_backend.run(dump(mjax.make_jaxpr(hashed)(*args)), *args), [first, second])


def test_references_are_discharged_first():
    def f(x):
        ref = mjax.new_ref(x)
        ref[0] = 2.0
        return ref[...] * 3

    jaxpr = mjax.make_jaxpr(f)(V)
    with pytest.raises(CannotExportError, match=r"new_ref at .*test_graphs.py.*Ref\{float32"):
        dump(jaxpr)
    pure, consts = discharge_state(jaxpr, jaxpr.consts)
    text = dump(pure.replace(consts=consts))
    for out in numpy_backend.run(text, V), core.jaxpr_as_fun(load(text))(V):
        close(out, [3 * np.array([2, *V[1:]])])


def test_functions_are_refused_with_their_place():
    def f(x):
        return mjax.pure_callback(np.sin, x, x)

    with pytest.raises(CannotExportError,
                       match=r"pure_callback at .*test_graphs.py:\d+.* holds a function"):
        dump(mjax.make_jaxpr(f)(V))


def test_a_change_of_types_is_noticed():
    data = json.loads(dump(mjax.make_jaxpr(lambda x: x * 2)(V)))
    data["program"]["nodes"][0]["types"][0]["weak"] = True
    with pytest.raises(TypeError, match="mul gives .* the graph has"):
        load(json.dumps(data))
    with pytest.raises(ValueError, match="version 2"):
        load(json.dumps({**data, "version": 2}))
    data["program"]["nodes"][0]["types"][0]["weak"] = False
    data["program"]["nodes"][0]["params"]["axis"] = 1
    with pytest.raises(KeyError, match="axis"):
        load(json.dumps(data))


# ---- every primitive ---------------------------------------------------------------------------

#: Examples that cannot be written, and why.
REFUSED = {
    **dict.fromkeys(("addupdate", "free_ref", "freeze", "get", "swap", "new_ref"), "Ref{"),
    **dict.fromkeys(("after_all", "create_token"), "AbstractToken"),
    **dict.fromkeys(("debug_callback", "inspect_sharding", "io_callback", "pure_callback"),
                    "'callback' holds a function"),
    "call_exported": "class Exported", "device_put": "class Device", "shard_map": "class Mesh",
    "sharding_constraint": "class SingleDeviceSharding",
    **dict.fromkeys(("call_hi_primitive", "call_hi_primitive_linearized"), "'_prim' holds"),
    "custom_lin": "'bwd' holds a value of the class Backward",
    **dict.fromkeys(("pack", "unpack"), "Two"),
}


def test_every_schema_is_read():
    kinds = set()
    for name, primitive in PRIMITIVES.items():
        found = graphs.signature(primitive)
        assert json.loads(json.dumps(found)) == found
        assert [k for k, v in found.items() if v["program"]] == list(primitive.schema.bodies), name
        kinds |= {type(v["type"]).__name__ for v in found.values()}
    assert kinds == {"str", "dict"}
    assert graphs.signature(primitives.scan_p)["jaxpr"] == {
        "type": {"class": "Jaxpr"}, "optional": False, "program": True}
    assert graphs.signature(primitives.cond_p)["branches"]["type"] == {"each": {"class": "Jaxpr"}}
    assert graphs.signature(primitives.sort_p) == {
        name: {"type": {"class": kind}, "optional": False, "program": False}
        for name, kind in (("dimension", "int"), ("is_stable", "bool"), ("num_keys", "int"))}


def one_equation(primitive, operands, params):
    """A program of one application."""
    def f(*xs):
        out = primitive.bind(*xs, **primitive.get_bind_params(params))
        return None if primitive is primitives.new_ref_p else out

    return mjax.make_jaxpr(f, axis_env=[("i", 2)])(*operands)


def test_every_primitive_is_written_and_read():
    axes = [("i", 2)]
    for name, primitive in PRIMITIVES.items():
        for operands, params in primitive.schema.applications():
            jaxpr = one_equation(primitive, operands, params)
            assert primitive in [eqn.primitive for eqn in jaxpr.eqns], name
            if name in REFUSED:
                with pytest.raises(CannotExportError) as refused:
                    dump(jaxpr)
                assert REFUSED[name] in str(refused.value), name
                continue
            text = dump(jaxpr)
            with core.extend_axis_env_nd(axes):
                again = load(text)
            assert again.in_avals == jaxpr.in_avals and again.out_avals == jaxpr.out_avals, name
            if '"inlined"' not in text:
                assert str(again) == str(jaxpr) and dump(again) == text, name
    assert set(REFUSED) < set(PRIMITIVES)
