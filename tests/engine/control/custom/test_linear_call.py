"""linear_call: a linear function, and the transpose that its user wrote."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.base.errors import JaxprTypeError
from mjax._engine.control.custom.linear_call import linear_call_p
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.tracing.stage import eval_jaxpr
from mjax.custom_derivatives import linear_call
from mjax.sharding import Mesh
from mjax.sharding import PartitionSpec as P
from tests.engine.control.custom_programs import DX, XS, YS, X, Y, assert_same
from tests.engine.reading import names


def same(f):
    return f


def scaled(r, x):
    """Twice `r * x`; its transpose is said to be seven times `r * ct`."""
    return linear_call(lambda r, x: 2 * r["r"] * x, lambda r, ct: 7 * r["r"] * ct, {"r": r}, x)


def test_values_and_derivatives():
    for around in (same, mjax.jit, mjax.checkpoint):
        f = around(scaled)
        np.testing.assert_allclose(f(X, Y), 2 * X * Y, 1e-6)
        _, tangent = mjax.jvp(f, (X, Y), (DX, X))
        np.testing.assert_allclose(tangent, 2 * (DX * Y + X * X), 1e-5)
        r_ct, x_ct = mjax.vjp(f, X, Y)[1](DX)
        np.testing.assert_allclose(x_ct, 7 * X * DX, 1e-6)
        np.testing.assert_allclose(r_ct, 2 * Y * DX, 1e-6)
        found = mjax.linear_transpose(functools.partial(f, X), Y)(DX)[0]
        np.testing.assert_allclose(found, 7 * X * DX, 1e-6)


def test_the_transpose_of_the_transpose_is_the_function():
    def transposed(f):
        return lambda ct: mjax.linear_transpose(f, 1.0)(ct)[0]

    f = lambda x: scaled(3.0, x)
    for factor in (6, 21, 6, 21):
        assert f(1.0) == factor and mjax.jit(f)(1.0) == factor
        f = transposed(f)


@pytest.mark.parametrize("name", ["both", "first", "second", "jit"])
def test_batches(name):
    axes = {"first": (0, None), "second": (None, 0)}.get(name, (0, 0))
    args = (XS if axes[0] == 0 else X, YS if axes[1] == 0 else Y)
    around = mjax.jit if name == "jit" else same
    f = around(mjax.vmap(scaled, axes))
    assert_same(f(*args), 2 * args[0] * args[1])
    _, x_ct = mjax.vjp(f, *args)[1](YS)
    full = 7 * args[0] * YS
    np.testing.assert_allclose(x_ct, full if axes[1] == 0 else full.sum(0), 1e-4)
    found = mjax.vmap(mjax.grad(lambda x, y: scaled(x, y).sum(), 1), axes)(*args)
    np.testing.assert_allclose(found, np.broadcast_to(7 * args[0], (4, 3)), 1e-5)
    constant = mjax.vmap(lambda r, x: linear_call(
        lambda r, x: r * x, lambda r, ct: jnp.ones(3, "float32"), r, x), (0, None))
    np.testing.assert_allclose(mjax.vjp(constant, XS, Y)[1](YS)[1], np.full(3, 4.0))


def test_closing_over_traced_values():
    def f(a, x):
        return linear_call(lambda r, x: a * x, lambda r, ct: 5 * a * ct, (), x)

    for around in (same, mjax.jit):
        assert mjax.grad(around(f))(2.0, 3.0) == 3
        assert around(mjax.grad(f, 1))(2.0, 3.0) == 10
        assert mjax.grad(around(mjax.grad(f, 1)))(2.0, 3.0) == 5


@pytest.mark.parametrize("summed", [False, True], ids=["by the engine", "by the transpose"])
def test_an_operand_that_is_the_same_on_all_devices(summed):
    """Its cotangent is the sum of what the devices contribute, whoever sums."""
    mesh = Mesh(np.array(mjax.devices()[:4]), ("i",))
    over = (lambda ct: lax.psum(ct, "i")) if summed else same
    f = mjax.shard_map(
        lambda r, x: linear_call(lambda r, x: r[0] * x, lambda r, ct: over(7 * r[0] * ct), r, x),
        mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"))
    r = np.arange(12, dtype="f4").reshape(4, 3)
    for around in (same, mjax.jit):
        found = around(mjax.grad(lambda x: jnp.sum(f(r, x))))(np.ones(3, "f4"))
        np.testing.assert_allclose(found, 7 * np.sum(r, 0))
    again = mjax.linear_transpose(lambda x: f(r, x), np.ones(3, "f4"))(np.ones(12, "f4"))[0]
    np.testing.assert_allclose(again, 7 * np.sum(r, 0))


def test_in_a_scan_and_second_order():
    def loss(x):
        return lax.scan(lambda c, r: (scaled(r, c), c), x, XS)[0].sum()

    np.testing.assert_allclose(mjax.jit(mjax.grad(loss))(Y), (7 * XS).prod(0), 1e-4)
    g = lambda x: mjax.grad(lambda x: scaled(2.0, x) ** 2)(x)
    # The transpose is transposed to the function.
    assert g(3.0) == 2 * 12 * 14 and mjax.grad(g)(3.0) == 2 * 14 * 4
    assert mjax.jvp(g, (3.0,), (1.0,))[1] == 2 * 4 * 14


def test_the_primitive():
    assert "missing" not in linear_call_p.rules().values()
    jaxpr = mjax.make_jaxpr(scaled)(X, Y)
    assert names(jaxpr)[0] == "linear_call"
    params = jaxpr.eqns[0].params
    assert (params["num_callee_consts"], params["num_res"]) == (0, 1)
    np.testing.assert_allclose(eval_jaxpr(jaxpr, jaxpr.consts, X, Y)[0], 2 * X * Y, 1e-6)
    jaxpr.eqns[0] = jaxpr.eqns[0].replace(invars=jaxpr.eqns[0].invars[:1])
    with pytest.raises(JaxprTypeError, match="linear_call of a program that takes float32.* appli"):
        check_jaxpr(jaxpr)


@pytest.mark.parametrize(("transpose", "text"), [
    (lambda r, ct: np.ones(7, "float32"),
     r"result: float32\[3\] in the linear argument, float32\[7\]"),
    (lambda r, ct: (ct, ct), r"result: float32\[3\] in the linear argument, missing in the result"),
    (lambda r, ct: ct.astype("float16"), r"float32\[3\] in .*, float16\[3\] in the result; cast"),
])
def test_transposes_that_give_something_else(transpose, text):
    f = lambda x: linear_call(lambda r, x: x, transpose, (), x)
    with pytest.raises(TypeError, match="linear_call: the transpose <lambda> at .* must return a "
                       f"value of the structure and types of the linear argument:(?s:.)*{text}"):
        mjax.vjp(f, X)[1](X)


def test_arguments_that_are_refused():
    with pytest.raises(TypeError, match="linear_call expects a function, got 3"):
        linear_call(3, lambda r, x: x, 1.0, 1.0)
    with pytest.raises(TypeError, match="linear_call expects a function, got 3"):
        linear_call(lambda r, x: x, 3, 1.0, 1.0)
    with pytest.raises(TypeError, match=r"linear_call: residual_args\['a'\] is not a valid array"):
        linear_call(lambda r, x: x, lambda r, x: x, {"a": "text"}, 1.0)
    with pytest.raises(TypeError, match="linear_call: linear_args is not a valid array"):
        linear_call(lambda r, x: x, lambda r, x: x, 1.0, "text")
    with pytest.raises(TypeError, match="transpose <lambda> at .*: result is not a valid"):
        mjax.grad(lambda x: linear_call(lambda r, x: x, lambda r, x: "text", (), x))(1.0)
