"""jacfwd, jacrev and hessian: shapes, trees, argnums, dtypes, errors.

Oracles: derivatives by hand, and finite differences in float64.
"""

import functools

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax.dtypes import float0

B = np.arange(1, 4, dtype=np.float32)
C = np.array([0.5, -2.0], np.float32)
Z = np.array([1 + 1j, 2 - 0.5j], np.complex64)
both = pytest.mark.parametrize("jacobian", [mjax.jacfwd, mjax.jacrev])


def shapes(tree):
    return mjax.tree.map(np.shape, tree)


def numerical(f, x, eps=1e-6):
    """Jacobian of a NumPy function of a float64 array."""
    x = np.asarray(x, np.float64)
    columns = []
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = eps
        columns.append((f(x + step) - f(x - step)) / (2 * eps))
    return np.stack(columns, -1).reshape(*columns[0].shape, *x.shape)


@both
def test_vectors(jacobian):
    f = lambda x: jnp.sin(x)[:, None] * jnp.stack([x[0] * x, x ** 2 + x[::-1]], 1)
    g = lambda x: np.sin(x)[:, None] * np.stack([x[0] * x, x ** 2 + x[::-1]], 1)
    out = jacobian(f)(B)
    assert out.shape == (3, 2, 3) and out.dtype == np.float32
    np.testing.assert_allclose(out, numerical(g, B), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mjax.jit(jacobian(f))(B), out, rtol=1e-6)


@both
def test_matrices_as_arguments(jacobian):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    out = jacobian(lambda x: x @ x.T)(x)
    assert out.shape == (2, 2, 2, 3)
    np.testing.assert_allclose(out, numerical(lambda x: x @ x.T, x), rtol=1e-4, atol=1e-4)


@both
def test_scalars(jacobian):
    assert jacobian(lambda x: x * x)(3.0) == 6.0 and jacobian(lambda x: x * x)(3.0).shape == ()
    np.testing.assert_array_equal(jacobian(lambda x: x * B)(3.0), B)
    np.testing.assert_array_equal(jacobian(lambda x: jnp.sum(x * x))(B), 2 * B)


@both
def test_trees(jacobian):
    f = lambda d: {"outer": d["b"][:, None] * d["c"][0], "sum": (jnp.sum(d["b"]), None)}
    out = jacobian(f)({"b": B, "c": (C, None)})
    assert shapes(out) == {"outer": {"b": (3, 2, 3), "c": ((3, 2, 2), None)},
                           "sum": ({"b": (3,), "c": ((2,), None)}, None)}
    np.testing.assert_array_equal(out["outer"]["b"], np.einsum("ik,j->ijk", np.eye(3), C))
    np.testing.assert_array_equal(out["outer"]["c"][0], np.einsum("i,jk->ijk", B, np.eye(2)))
    np.testing.assert_array_equal(out["sum"][0]["b"], np.ones(3))
    np.testing.assert_array_equal(out["sum"][0]["c"][0], np.zeros(2))


@both
@pytest.mark.parametrize(("argnums", "expected"), [
    (0, (3, 2, 3)), (1, (3, 2, 2)), (-1, (3, 2, 2)), (np.int64(1), (3, 2, 2)),
    ((0, 1), ((3, 2, 3), (3, 2, 2))), ([1], ((3, 2, 2),)), ((1, 0), ((3, 2, 2), (3, 2, 3))),
])
def test_argnums(jacobian, argnums, expected):
    out = jacobian(lambda x, y: x[:, None] * y, argnums)(B, C)
    assert shapes(out) == expected


@both
def test_argnums_with_trees_of_outputs(jacobian):
    out = jacobian(lambda x, y: {"p": x[:, None] * y, "x": x}, (0, 1))(B, C)
    assert shapes(out) == {"p": ((3, 2, 3), (3, 2, 2)), "x": ((3, 3), (3, 2))}


@both
def test_keyword_arguments(jacobian):
    np.testing.assert_array_equal(jacobian(lambda x, y=1.0: x * y)(B, y=2.0), 2 * np.eye(3))


@both
def test_auxiliary_results(jacobian):
    out, aux = jacobian(lambda x: (x * x, {"sum": jnp.sum(x), "s": "text"}), has_aux=True)(B)
    np.testing.assert_array_equal(out, np.diag(2 * B))
    assert aux == {"sum": 6.0, "s": "text"}
    with pytest.raises(TypeError, match=r"must return a pair .*but <lambda> returned"):
        jacobian(lambda x: x, has_aux=True)(B)


@both
def test_holomorphic_functions(jacobian):
    out = jacobian(lambda z: jnp.sin(z) * z[0], holomorphic=True)(Z)
    expected = np.diag(np.cos(Z) * Z[0]) + np.outer(np.sin(Z), [1, 0])
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    assert out.dtype == np.complex64


def test_jacrev_of_real_functions_of_complex_numbers():
    out = mjax.jacrev(lambda z: jnp.real(z * z))(Z)
    np.testing.assert_allclose(out, np.diag(2 * Z), rtol=1e-6)
    np.testing.assert_allclose(mjax.vmap(mjax.grad(lambda z: jnp.real(z * z)))(Z), 2 * Z)


def test_jacfwd_of_complex_functions_of_real_numbers():
    out = mjax.jacfwd(lambda x: x * (1 + 2j))(B)
    np.testing.assert_array_equal(out, (1 + 2j) * np.eye(3))


@both
def test_dtypes(jacobian):
    assert jacobian(lambda x: x * 2)(B.astype(np.float16)).dtype == np.float16
    out = jacobian(lambda t: t[0] * 2 + jnp.sum(t[1]).astype(np.float16))(
        (B.astype(np.float16), C))
    np.testing.assert_array_equal(out[0], 2 * np.eye(3))
    np.testing.assert_array_equal(out[1], np.ones((3, 2)))


@both
def test_results_that_do_not_depend_on_the_argument(jacobian):
    eye, zeros, number = jacobian(lambda x: (x, jnp.ones(2), 1.0))(B)
    np.testing.assert_array_equal(eye, np.eye(3))
    assert zeros.shape == (2, 3) and not np.any(zeros)
    assert number.shape == (3,) and not np.any(number)


@both
def test_empty_arguments(jacobian):
    assert jacobian(lambda x: x * 2)(np.zeros(0, np.float32)).shape == (0, 0)
    assert jacobian(lambda x: jnp.sum(x))(np.zeros((2, 0), np.float32)).shape == (2, 0)


@both
def test_inside_other_transformations(jacobian):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    out = mjax.vmap(jacobian(lambda x: x * x))(x)
    np.testing.assert_array_equal(out, [np.diag(2 * row) for row in x])
    trace = lambda x: jnp.sum(jacobian(lambda y: y ** 3)(x))
    np.testing.assert_allclose(mjax.grad(trace)(B), 6 * B, rtol=1e-6)


def test_integers():
    n = np.arange(3)
    for jacobian in (mjax.jacfwd, mjax.jacrev):
        with pytest.raises(TypeError, match=r"requires real-valued inputs.*argument\[0\].* int32"):
            jacobian(lambda x: x * 1.0)(n)
    out = mjax.jacrev(lambda d: d["x"] * d["n"], allow_int=True)({"x": B, "n": n})
    np.testing.assert_array_equal(out["x"], np.diag(n))
    assert out["n"].dtype == float0 and out["n"].shape == (3, 3)
    columns = mjax.jacfwd(lambda x: (x * n, n * 2, x > 0))(B)
    np.testing.assert_array_equal(columns[0], np.diag(n))
    assert [c.dtype for c in columns[1:]] == [np.int32, np.bool_]
    assert not np.any(columns[1] + 0) and not np.any(columns[2])


@pytest.mark.parametrize(("jacobian", "f", "x", "options", "text"), [
    (mjax.jacfwd, jnp.sin, B, {"holomorphic": True}, r"complex inputs; argument\[0\].*float32"),
    (mjax.jacrev, jnp.sin, B, {"holomorphic": True}, r"complex inputs; argument\[0\].*float32"),
    (mjax.jacfwd, jnp.real, Z, {"holomorphic": True}, "complex outputs; .* returned float32"),
    (mjax.jacrev, jnp.real, Z, {"holomorphic": True}, "complex outputs; .* returned float32"),
    (mjax.jacfwd, jnp.real, Z, {}, r"real-valued inputs .*argument\[0\] has dtype complex64"),
    (mjax.jacrev, lambda x: x * 1j, B, {}, "real-valued .* outputs; <lambda> returned complex64"),
    (mjax.jacrev, lambda x: x.astype(int), B, {}, "real-valued .* outputs; <lambda> .* int32"),
    (mjax.hessian, jnp.sum, np.arange(3), {}, "real-valued inputs.*int32"),
])
def test_dtypes_that_do_not_fit(jacobian, f, x, options, text):
    with pytest.raises(TypeError, match=text):
        jacobian(f, **options)(x)


def test_what_does_not_fit():
    for jacobian in (mjax.jacfwd, mjax.jacrev, mjax.hessian):
        with pytest.raises(TypeError, match="expects a function, got 3"):
            jacobian(3)
        with pytest.raises(ValueError, match="argnums=1 names an argument that sin was not given"):
            jacobian(jnp.sin, argnums=1)(B)
        with pytest.raises(TypeError, match="argnums must be an integer .* got 'x'"):
            jacobian(jnp.sin, argnums="x")
        with pytest.raises(TypeError, match="not a valid array"):
            jacobian(jnp.sin)("text")


def test_jacobian_is_jacrev():
    x = np.float32([1, 2])
    np.testing.assert_array_equal(mjax.jacobian(jnp.sin)(x), mjax.jacrev(jnp.sin)(x))
    assert mjax.jacfwd(jnp.sin).__name__ == "sin"


# ---- hessian ---------------------------------------------------------------------------


def test_hessian_of_a_vector():
    f = lambda x: jnp.sum(x ** 3) + x[0] * x[1]
    expected = np.diag(6 * B)
    expected[0, 1] = expected[1, 0] = 1
    np.testing.assert_allclose(mjax.hessian(f)(B), expected, rtol=1e-5)
    np.testing.assert_allclose(mjax.jit(mjax.hessian(f))(B), expected, rtol=1e-5)
    for inner, outer in ((mjax.jacfwd, mjax.jacfwd), (mjax.jacrev, mjax.jacrev),
                         (mjax.jacfwd, mjax.jacrev)):
        np.testing.assert_allclose(outer(inner(f))(B), expected, rtol=1e-5)


def test_hessian_of_trees_and_of_several_arguments():
    out = mjax.hessian(lambda d: d["a"] ** 2 * d["b"])({"a": 2.0, "b": 3.0})
    assert out == {"a": {"a": 6.0, "b": 4.0}, "b": {"a": 4.0, "b": 0.0}}
    assert mjax.hessian(lambda x, y: x * x * y, (0, 1))(2.0, 3.0) == ((6.0, 4.0), (4.0, 0.0))
    out = mjax.hessian(lambda x, y: jnp.sum(x) * y, (0, 1))(B, C)
    assert shapes(out) == (((2, 3, 3), (2, 3, 2)), ((2, 2, 3), (2, 2, 2)))


def test_hessian_of_a_function_with_several_results():
    assert mjax.hessian(lambda x: x[:2] ** 2)(B).shape == (2, 3, 3)


def test_hessian_with_auxiliary_results_and_complex_numbers():
    out, aux = mjax.hessian(lambda x: (jnp.sum(x ** 3), jnp.sum(x)), has_aux=True)(B)
    np.testing.assert_allclose(out, np.diag(6 * B), rtol=1e-5)
    assert aux == 6.0
    z = np.complex64(1 + 2j)
    np.testing.assert_allclose(mjax.hessian(lambda z: z ** 3, holomorphic=True)(z), 6 * z,
                               rtol=1e-5)


def test_as_decorator():
    @functools.partial(mjax.jacfwd, argnums=1)
    def f(x, y):
        return x * y

    assert f(2.0, 3.0) == 2.0 and f.__name__ == "f"
