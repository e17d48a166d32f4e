"""The whole public behaviour on one screen: read and run this first."""

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax import lax, random
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, mlir


def test_arrays_are_numpys_but_immutable():
    x = jnp.arange(6.0).reshape(2, 3)
    assert x.shape == (2, 3) and x.dtype == jnp.float32
    np.testing.assert_allclose(x @ x.T + 1, np.arange(6.0).reshape(2, 3) @ np.array(x).T + 1)
    assert x.at[0, 1].set(10.0)[0, 1] == 10.0 and x[0, 1] == 1.0


def test_jit_compiles_once_per_type():
    traced = []

    @mjax.jit
    def f(x):
        traced.append(x)  # Python runs when the function is traced
        return jnp.sin(x) ** 2

    np.testing.assert_allclose(f(2.0), np.sin(2.0) ** 2, rtol=1e-6)
    f(3.0)
    assert len(traced) == 1


def test_programs_are_jaxprs():
    assert str(mjax.make_jaxpr(lambda x: 2.0 * jnp.sin(x))(jnp.ones(3))) == (
        "{ lambda  ; a:f32[3]. let\n"
        "    b:f32[3] = sin a\n"
        "    c:f32[3] = mul 2.0:~f32[] b\n"
        "  in (c,) }")


def test_transformations_compose():
    def f(x):
        return jnp.sum(jnp.tanh(x) ** 2)

    x = jnp.array([0.1, 0.2, 0.3])
    by_hand = 2 * np.tanh(x) * (1 - np.tanh(x) ** 2)
    np.testing.assert_allclose(mjax.grad(f)(x), by_hand, rtol=1e-5)
    np.testing.assert_allclose(mjax.jit(mjax.grad(mjax.jit(f)))(x), by_hand, rtol=1e-5)
    np.testing.assert_allclose(mjax.jvp(f, (x,), (jnp.ones(3),))[1], by_hand.sum(), rtol=1e-5)
    batch = jnp.stack([x, 2 * x])
    np.testing.assert_allclose(mjax.vmap(mjax.grad(f))(batch)[0], by_hand, rtol=1e-5)
    assert mjax.hessian(f)(x).shape == (3, 3)


def test_trees_go_in_and_out():
    params = {"w": jnp.ones((3, 2)), "b": jnp.zeros(2)}
    loss = lambda p, x: jnp.mean((x @ p["w"] + p["b"]) ** 2)
    value, grads = mjax.value_and_grad(loss)(params, jnp.ones((4, 3)))
    assert value == 9.0 and grads["w"].shape == (3, 2)
    shapes = mjax.tree.map(jnp.shape, grads)
    assert shapes == {"w": (3, 2), "b": (2,)}


def test_axes_have_names_under_vmap():
    normalize = mjax.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")
    np.testing.assert_allclose(normalize(jnp.array([1.0, 3.0])), [0.25, 0.75])


def test_random_numbers_come_from_keys():
    _, subkey = random.split(random.key(0))
    x = random.normal(subkey, (1000,))
    assert abs(float(jnp.mean(x))) < 0.2 and bool(jnp.all(x == random.normal(subkey, (1000,))))


def test_your_own_primitive():
    cube_p = core.Primitive("cube")
    cube_p.def_abstract_eval(lambda x: core.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(cube_p, mlir.lower_fun(lambda x: x * x * x, multiple_results=False))
    ad.defjvp(cube_p, lambda t, x: 3.0 * x * x * t)
    batching.defvectorized(cube_p)

    assert cube_p.bind(2.0) == 8.0 and mjax.grad(cube_p.bind)(2.0) == 12.0
    np.testing.assert_allclose(mjax.jit(mjax.vmap(mjax.grad(cube_p.bind)))(jnp.arange(3.0)),
                               [0, 3, 12])
