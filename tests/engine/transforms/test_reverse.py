"""grad, value_and_grad, vjp and linear_transpose as users call them.

Oracles: derivatives by hand, and finite differences.
"""

import functools

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.dtypes import float0
from mjax.tree_util import Partial

A = np.arange(6, dtype=np.float32).reshape(2, 3)
Z = np.complex64(1 + 2j)


def cubic(x, y):
    return x * x * y


def numerical(f, x, eps=1e-6):
    """Gradient of a real function of a float64 or complex128 array, by JAX's convention:
    df/da - i df/db at a + ib."""
    x = np.asarray(x, np.complex128 if np.iscomplexobj(x) else np.float64)
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        for direction in (1, 1j) if np.iscomplexobj(x) else (1,):
            step = np.zeros_like(x)
            step[i] = eps * direction
            slope = (f(x + step) - f(x - step)) / (2 * eps)
            out[i] += slope * np.conj(direction)
    return out


# ---- argnums, trees, auxiliary results -------------------------------------------------


@pytest.mark.parametrize(("argnums", "expected"), [
    (0, 12.0), (1, 9.0), (-1, 9.0), (np.int64(1), 9.0), ((0, 1), (12.0, 9.0)),
    ((1, 0), (9.0, 12.0)), ([1], (9.0,)), ((-2,), (12.0,)),
])
def test_argnums(argnums, expected):
    assert mjax.grad(cubic, argnums)(3.0, 2.0) == expected
    assert mjax.value_and_grad(cubic, argnums)(3.0, 2.0) == (18.0, expected)
    assert mjax.jit(mjax.grad(cubic, argnums))(3.0, 2.0) == expected


def test_keyword_arguments_are_not_differentiated():
    assert mjax.grad(cubic)(3.0, y=4.0) == 24.0
    assert mjax.grad(lambda x, *, y=1.0, flag: x * y if flag else x)(3.0, flag=True) == 1.0


def test_trees():
    f = lambda d, s: d["a"] * d["b"][0] * s
    grads = mjax.grad(f)({"a": 2.0, "b": (3.0, None)}, 10.0)
    assert grads == {"a": 30.0, "b": (20.0, None)}
    both = mjax.grad(f, (0, 1))({"a": 2.0, "b": (3.0, None)}, 10.0)
    assert both == (grads, 6.0)


@pytest.mark.parametrize("pair", [tuple, list])
def test_auxiliary_results(pair):
    f = lambda x: pair([x * x, {"x": x, "note": "text", "n": None}])
    aux = {"x": 3.0, "note": "text", "n": None}
    assert mjax.grad(f, has_aux=True)(3.0) == (6.0, aux)
    assert mjax.value_and_grad(f, has_aux=True)(3.0) == ((9.0, aux), 6.0)


def test_auxiliary_results_are_no_tracers():
    _, (half, n) = mjax.grad(lambda x: (jnp.sum(x * x), (x / 2, jnp.arange(2))), has_aux=True)(A)
    np.testing.assert_array_equal(half, A / 2)
    assert isinstance(half + 1, mjax.Array) and n.dtype == np.int32
    # Under an outer transformation they are values of that one.
    second = mjax.grad(lambda x: mjax.grad(lambda y: (y * y, y * 3), has_aux=True)(x)[1])
    assert second(2.0) == 3.0


def test_values_and_types():
    value, gradient = mjax.value_and_grad(lambda x: jnp.sum(x * x))(A)
    assert value == np.sum(A * A)
    np.testing.assert_array_equal(gradient, 2 * A)
    for dtype in (np.float16, np.float32, jnp.bfloat16):
        out = mjax.grad(lambda x: jnp.sum(x * 2.0))(np.ones(2, dtype))
        assert out.dtype == dtype and not out.weak_type
    assert mjax.grad(lambda x: x * x)(2.0).weak_type


@pytest.mark.parametrize("value", [2.0, np.float32(2), np.float16(2)])
def test_gradients_of_the_identity_and_of_constants_are_arrays(value):
    one, zero = mjax.grad(lambda x: x)(value), mjax.grad(lambda x: 1.0)(value)
    assert isinstance(one, mjax.Array) and isinstance(zero, mjax.Array)
    assert (one, zero) == (1.0, 0.0) and one.dtype == zero.dtype == mjax.typeof(value).dtype
    assert mjax.grad(lambda x: jnp.float32(1))(A).shape == (2, 3)


def test_arguments_that_are_not_used():
    gx, gy = mjax.grad(lambda x, y: x, (0, 1))(2.0, A)
    assert gx == 1.0
    np.testing.assert_array_equal(gy, np.zeros((2, 3)))


def test_names():
    assert mjax.grad(cubic).__name__ == "cubic"
    assert mjax.grad(functools.partial(cubic, y=2.0))(3.0) == 12.0

    @functools.partial(mjax.grad, argnums=1)
    def f(x, y):
        return x * y

    assert f(2.0, 3.0) == 2.0


def test_higher_orders_and_compositions():
    f = lambda x: jnp.sin(x) * x
    third = mjax.grad(mjax.grad(mjax.grad(f)))(0.7)
    np.testing.assert_allclose(third, -3 * np.sin(0.7) - 0.7 * np.cos(0.7), rtol=1e-4)
    second = -0.7 * np.sin(0.7) + 2 * np.cos(0.7)
    np.testing.assert_allclose(mjax.jvp(mjax.grad(f), (0.7,), (1.0,))[1], second, rtol=1e-5)
    np.testing.assert_allclose(mjax.grad(lambda x: mjax.jvp(f, (x,), (1.0,))[1])(0.7), second,
                               rtol=1e-5)
    np.testing.assert_allclose(mjax.jit(mjax.grad(mjax.jit(mjax.grad(f))))(0.7), second, rtol=1e-5)


def test_perturbations_are_not_confused():
    assert mjax.grad(lambda x: x * mjax.grad(lambda y: x + y)(1.0))(3.0) == 1.0


# ---- integers --------------------------------------------------------------------------


@pytest.mark.parametrize("value", [3, True, np.arange(3), np.uint8(1)])
def test_integers_are_refused(value):
    with pytest.raises(TypeError, match=r"argument 0 of total has dtype .*allow_int=True"):
        def total(x):
            return jnp.sum(x * 1.0)
        mjax.grad(total)(value)


def test_integers_are_named_by_path():
    with pytest.raises(TypeError, match=r"argument 1\['n'\]\[0\] of <lambda> has dtype int32"):
        mjax.grad(lambda x, d: x, argnums=1)(1.0, {"n": [3], "x": 1.0})


def test_allow_int():
    out = mjax.grad(lambda d: jnp.sum(d["x"] * d["n"]), allow_int=True)(
        {"x": 2.0, "n": np.arange(3)})
    assert out["x"] == 3.0 and out["n"].dtype == float0 and out["n"].shape == (3,)
    out = mjax.grad(lambda b: 1.0 * b, allow_int=True)(True)
    assert out.dtype == float0 and out.shape == ()
    value, out = mjax.value_and_grad(lambda n: n * 0.5, allow_int=True)(4)
    assert value == 2.0 and out.dtype == float0


# ---- complex numbers -------------------------------------------------------------------

REAL_OF_COMPLEX = [
    (lambda z: jnp.real(z * z), lambda z: np.real(z * z)),
    (lambda z: jnp.imag(z) * jnp.real(z), lambda z: np.imag(z) * np.real(z)),
    (lambda z: jnp.real(z * jnp.conj(z)), lambda z: np.abs(z) ** 2),
    (jnp.abs, np.abs),
    (lambda z: jnp.real(jnp.sin(z) * jnp.exp(1j * z)),
     lambda z: np.real(np.sin(z) * np.exp(1j * z))),
    (lambda z: jnp.abs(jnp.conj(z) * (2 - 1j) + z ** 2),
     lambda z: np.abs(np.conj(z) * (2 - 1j) + z**2)),
]


@pytest.mark.parametrize(("f", "g"), REAL_OF_COMPLEX)
def test_real_functions_of_complex_numbers(f, g):
    np.testing.assert_allclose(mjax.grad(f)(Z), numerical(g, Z), rtol=1e-4)
    zs = np.array([1 + 2j, -0.5 + 1j], np.complex64)
    np.testing.assert_allclose(mjax.vmap(mjax.grad(f))(zs),
                               numerical(lambda z: np.sum(g(z)), zs), rtol=1e-4)


def test_the_convention():
    assert mjax.grad(jnp.real)(Z) == 1.0
    assert mjax.grad(jnp.imag)(Z) == -1j
    np.testing.assert_allclose(mjax.grad(jnp.abs)(np.complex64(3 + 4j)), 0.6 - 0.8j, rtol=1e-6)


def test_real_functions_through_complex_numbers():
    out = mjax.grad(lambda x: jnp.abs(x * (1 + 1j)) ** 2)(2.0)
    np.testing.assert_allclose(out, 8.0, rtol=1e-6)
    assert out.dtype == np.float32
    expected = numerical(lambda x: np.abs(np.fft.fft(x)[1]), A[1])
    w = np.exp(-2j * np.pi * np.arange(3) / 3).astype(np.complex64)
    np.testing.assert_allclose(mjax.grad(lambda x: jnp.abs(jnp.sum(w * x)))(A[1]), expected,
                               rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("f", "derivative"), [
    (lambda z: z * z, 2 * Z), (jnp.sin, np.cos(Z)), (jnp.exp, np.exp(Z)),
    (lambda z: 1 / z, -1 / Z**2), (lambda z: (2 + 1j) * z, 2 + 1j),
])
def test_holomorphic_functions(f, derivative):
    out = mjax.grad(f, holomorphic=True)(Z)
    np.testing.assert_allclose(out, derivative, rtol=1e-5)
    assert out.dtype == np.complex64


@pytest.mark.parametrize(("f", "x", "options", "text"), [
    (lambda z: z * z, Z, {}, "real-valued outputs.*returned dtype complex64.*holomorphic=True"),
    (lambda x: x * 1j, 2.0, {}, "real-valued outputs.*complex64"),
    (lambda z: z * z, 1.0, {"holomorphic": True}, "requires complex inputs.*argument 0.*float32"),
    (jnp.real, Z, {"holomorphic": True}, "requires complex outputs; .* returned dtype float32"),
])
def test_holomorphic_or_not(f, x, options, text):
    with pytest.raises(TypeError, match=text):
        mjax.grad(f, **options)(x)


# ---- what is refused -------------------------------------------------------------------


@pytest.mark.parametrize(("f", "args", "options", "text"), [
    (lambda x: x, (A,), {}, r"only defined for scalar-output functions; <lambda>.*shape \(2, 3\)"),
    (lambda x: (x,), (1.0,), {}, r"scalar-output functions; .*structure PyTreeDef\(\(\*,\)\)"),
    (lambda x: (x, x), (1.0,), {}, "scalar-output functions"),
    (lambda x: None, (1.0,), {}, "scalar-output functions"),
    (lambda x: lax.convert_element_type(x, np.int32), (1.0,), {}, "real-valued outputs.*int32"),
    (cubic, (1.0, 2.0), {"argnums": 2}, r"grad: argnums=2 .*cubic was not given.*2 positional"),
    (cubic, (1.0, 2.0), {"argnums": (0, -2)}, "names an argument of cubic twice"),
    (lambda x: x, ("text",), {}, "argument 0 of <lambda> is not a valid array"),
    (lambda x: x, ([1.0, "text"],), {}, r"argument 0\[1\] of <lambda> is not a valid array"),
    (lambda x: x, (1.0,), {"has_aux": True}, r"must return a pair \(output, aux\), but <lambda>"),
    (lambda x: (x, x, x), (1.0,), {"has_aux": True}, "but <lambda> returned tuple of length 3"),
])
def test_calls_that_do_not_fit(f, args, options, text):
    for transform in (mjax.grad, mjax.value_and_grad):
        with pytest.raises(TypeError, match=text):
            transform(f, **options)(*args)


def test_arguments_before_the_first():
    for transform in (mjax.grad, mjax.value_and_grad, mjax.jacfwd):
        with pytest.raises(ValueError, match="names an argument that cubic was not given"):
            transform(cubic, (0, -3))(1.0, 2.0)


def test_reduce_axes_are_empty():
    calls = (lambda **how: mjax.grad(cubic, **how)(1.0, 2.0),
             lambda **how: mjax.value_and_grad(cubic, **how)(1.0, 2.0)[1],
             lambda **how: mjax.vjp(lambda x: cubic(x, 2.0), 1.0, **how)[1](1.0)[0],
             lambda **how: mjax.linear_transpose(lambda x: 2 * x, 1.0, **how)(3.0)[0])
    for call in calls:
        assert call(reduce_axes=()) == call()
        with pytest.raises(NotImplementedError, match=r"reduce_axes.*lax.psum"):
            call(reduce_axes=("i",))


def test_what_transformations_say_of_themselves():
    def f(x):
        """Says."""
        return x

    for g in (mjax.grad(f), mjax.value_and_grad(f), mjax.vmap(f), mjax.jacfwd(f), mjax.jacrev(f),
              mjax.hessian(f)):
        assert g.__name__ == "f" and g.__doc__.endswith("Says.") and " f" in g.__doc__
    assert mjax.make_jaxpr(f).__name__ == "make_jaxpr(f)"


def test_hessian_of_a_padding_of_scalars():
    f = lambda x: lax.pad(x, x * x, []) * lax.pad(x, 1.0, [])
    assert mjax.hessian(f)(3.0) == 2.0 and mjax.hessian(lambda x: lax.pad(x, x * x, []))(1.0) == 0


def test_arguments_given_by_keyword_only():
    with pytest.raises(TypeError, match="keyword are not differentiated"):
        mjax.grad(lambda x: x)(x=1.0)


def test_what_is_no_function_is_refused():
    for call in (lambda: mjax.grad(3), lambda: mjax.value_and_grad(3), lambda: mjax.vjp(3, 1.0)):
        with pytest.raises(TypeError, match="expects a function, got 3 of type int"):
            call()


@pytest.mark.parametrize("argnums", [1.5, "x", ("x",), None])
def test_argnums_that_are_no_integers_are_refused_at_once(argnums):
    for transform in (mjax.grad, mjax.value_and_grad):
        with pytest.raises(TypeError, match="grad: argnums must be an integer or a sequence"):
            transform(cubic, argnums)


# ---- vjp -------------------------------------------------------------------------------


def test_vjp_of_trees():
    f = lambda d, s: {"p": d["a"] * s, "q": (d["a"], None)}
    out, pull = mjax.vjp(f, {"a": 3.0, "unused": A}, 4.0)
    assert out == {"p": 12.0, "q": (3.0, None)}
    d, s = pull({"p": 10.0, "q": (1.0, None)})
    assert d["a"] == 41.0 and s == 30.0
    np.testing.assert_array_equal(d["unused"], np.zeros((2, 3)))


def test_vjp_is_the_transpose_of_jvp():
    rng = np.random.default_rng(1)
    f = lambda x: (jnp.sin(x) @ A.T, jnp.sum(x, 0) * x)
    t = rng.standard_normal((2, 3)).astype(np.float32)
    out, tangent = mjax.jvp(f, (A,), (t,))
    cotangent = tuple(rng.standard_normal(o.shape).astype(np.float32) for o in out)
    (ct,) = mjax.vjp(f, A)[1](cotangent)
    np.testing.assert_allclose(np.vdot(ct, t), sum(map(np.vdot, cotangent, tangent)), rtol=1e-4)


def test_vjp_with_auxiliary_results():
    out, pull, aux = mjax.vjp(lambda x: (x * x, {"x": x, "s": "text"}), 3.0, has_aux=True)
    assert out == 9.0 and pull(1.0) == (6.0,) and aux == {"x": 3.0, "s": "text"}


def test_vjp_with_integers():
    _out, pull = mjax.vjp(lambda x, n, b: x * n, 3.0, np.arange(2), True)
    x, n, b = pull(np.ones(2, np.float32))
    assert x == 1.0 and (n.dtype, n.shape) == (float0, (2,)) and (b.dtype, b.shape) == (float0, ())
    _, pull = mjax.vjp(lambda x: (x * x, 3, np.arange(2)), 3.0)
    assert pull((1.0, np.zeros((), float0), np.zeros(2, float0))) == (6.0,)
    with pytest.raises(ValueError, match=r"cotangent\[1\] has type int32\[2\].*type float0\[\]"):
        pull((1.0, np.arange(2), np.zeros(2, float0)))


def test_vjp_of_complex_functions():
    assert mjax.vjp(lambda z: z * z, Z)[1](np.complex64(1)) == (2 * Z,)
    assert mjax.vjp(jnp.imag, Z)[1](np.float32(1)) == (-1j,)
    (ct,) = mjax.vjp(lambda x: x * (2 + 3j), np.float32(1))[1](np.complex64(1j))
    assert ct == -3.0 and ct.dtype == np.float32


def test_vjp_functions_are_called_many_times_and_mapped():
    traced = []
    _, pull = mjax.vjp(lambda x: (traced.append(1), jnp.sin(x))[1], A)
    for scale in range(3):
        np.testing.assert_allclose(pull(A * scale)[0], np.cos(A) * A * scale, rtol=1e-5)
    (rows,) = mjax.vmap(pull)(np.stack([A, 2 * A]))
    np.testing.assert_allclose(rows[1], 2 * np.cos(A) * A, rtol=1e-5)
    assert len(traced) == 1


def test_vjp_functions_are_trees():
    pull = mjax.jit(lambda x: mjax.vjp(jnp.sin, x)[1])(2.0)
    assert type(pull) is Partial and [np.shape(leaf) for leaf in mjax.tree.leaves(pull)] == [()]
    np.testing.assert_allclose(pull(1.0)[0], np.cos(2), rtol=1e-6)
    applied = mjax.jit(lambda f, ct: f(ct))
    np.testing.assert_allclose(applied(pull, 3.0)[0], 3 * np.cos(2), rtol=1e-6)
    doubled = mjax.tree.map(lambda r: r * 2, pull)
    np.testing.assert_allclose(doubled(1.0)[0], 2 * np.cos(2), rtol=1e-6)


def test_vjp_can_be_differentiated():
    f = lambda x: mjax.vjp(jnp.sin, x)[1](1.0)[0]
    np.testing.assert_allclose(mjax.grad(f)(0.3), -np.sin(0.3), rtol=1e-5)
    g = lambda ct: mjax.vjp(jnp.sin, 0.3)[1](ct)[0]
    np.testing.assert_allclose(mjax.grad(g)(5.0), np.cos(0.3), rtol=1e-6)


def test_vjp_without_arguments():
    assert mjax.vjp(lambda: 1.0)[1](1.0) == ()


@pytest.mark.parametrize(("cotangents", "error", "text"), [
    ((1.0,), ValueError, "function's output and the cotangent given must have the same structure"),
    (([A, 1.0],), ValueError, "must have the same structure"),
    ((None,), ValueError, "must have the same structure"),
    (((A, 1.0), 1.0), TypeError, "takes one argument, a cotangent.*got 2"),
    ((), TypeError, "takes one argument, a cotangent.*got 0"),
    (((A[0], 1.0),), ValueError, r"cotangent\[0\] has type float32\[3\].*type float32\[2,3\]"),
    (((A, np.float16(1)),), ValueError, r"cotangent\[1\] has type float16\[\].*type float32\[\]"),
    (((A, 1),), ValueError, r"cotangent\[1\] has type ~int32\[\]"),
    (((A, "text"),), TypeError, "not a valid array"),
])
def test_cotangents_that_do_not_fit(cotangents, error, text):
    _, pull = mjax.vjp(lambda x: (x * 2, jnp.sum(x)), A)
    with pytest.raises(error, match=text):
        pull(*cotangents)


@pytest.mark.parametrize("how", [lambda f: f, mjax.jit, mjax.checkpoint], ids=[
    "itself", "jit", "checkpoint"])
def test_cotangents_promote_as_their_primals_do(how):
    """So that a learning rate that is a Python number leaves bfloat16 what it is."""
    two = np.float32(2)
    weak = [mjax.grad(how(lambda x: x * two))(1.0), mjax.grad(mjax.grad(how(
        lambda x: x**3 * two)))(1.0), mjax.vjp(how(lambda x: x * two), 1.0)[1](two)[0],
        mjax.vjp(lambda x: x, 1.0)[1](1.0)[0], mjax.jacrev(how(lambda x: A * x))(1.0)]
    strong = [mjax.grad(how(lambda x: x * 2.0))(two), mjax.vjp(lambda x: x, two)[1](1.0)[0]]
    assert all(isinstance(ct, mjax.Array) for ct in weak + strong)
    assert [ct.weak_type for ct in weak + strong] == [True] * 5 + [False] * 2
    assert (jnp.ones(2, "bfloat16") - weak[0]).dtype == "bfloat16"


def test_cotangents_of_what_has_no_derivative_are_not_read():
    _, pull = mjax.vjp(lambda x: (2 * x, jnp.argmax(x), x > 0), A)
    expected = pull((A, np.zeros((), mjax.dtypes.float0), np.zeros(A.shape, mjax.dtypes.float0)))
    np.testing.assert_array_equal(expected[0], 2 * A)
    for n, flags in [(np.int32(7), A > 1), (7, np.ones(A.shape)), (np.float32(2), A)]:
        np.testing.assert_array_equal(pull((A, n, flags))[0], 2 * A)
    with pytest.raises(ValueError, match=r"cotangent\[1\] has type"):
        pull((A, np.ones(2), A > 0))


# ---- linear_transpose ------------------------------------------------------------------


def test_linear_transpose():
    matrix = np.arange(6, dtype=np.float32).reshape(3, 2)
    t = mjax.linear_transpose(lambda x: matrix @ x, mjax.ShapeDtypeStruct((2,), np.float32))
    np.testing.assert_array_equal(t(np.ones(3, np.float32))[0], matrix.sum(0))
    t = mjax.linear_transpose(lambda d: (2.0 * d["a"], d["a"] + d["b"]), {"a": 1.0, "b": 1.0})
    assert t((1.0, 10.0)) == ({"a": 12.0, "b": 10.0},)
    both = mjax.linear_transpose(lambda x, y: x + y, 1.0, 2.0)(3.0)
    assert both == (3.0, 3.0) and all(isinstance(ct, mjax.Array) for ct in both)


def test_linear_transpose_twice_is_the_function():
    f = lambda x: jnp.cumsum(x)[::-1] * 2
    x = A[1]
    back = mjax.linear_transpose(mjax.linear_transpose(f, x), x)
    np.testing.assert_allclose(back((x,))[0], f(x))


def test_linear_transpose_of_integers():
    weights = np.arange(6, dtype=np.int32).reshape(2, 3)
    functions = [
        lambda x: x * 2, lambda x: x[1:] + x[:-1], lambda x: jnp.cumsum(x)[::-1], lambda x: x.sum(),
        lambda x: jnp.dot(weights, x), lambda x: mjax.jit(lambda y: y * 3)(x)[None],
        lambda x: lax.scan(lambda c, _: (c * 2, c), x, None, 3),
        lambda x: lax.cond(True, lambda y: y * 2, lambda y: y, x),
        lambda x: jnp.asarray(x).at[1].set(0)[np.array([0, 0, 2])],
        lambda x: jnp.zeros(2, np.int32)]
    x = np.array([3, -1, 4], np.int32)
    for f in functions:
        out = mjax.tree.map(lambda y: np.arange(2, 2 + y.size, dtype=y.dtype).reshape(y.shape),
                            f(x))
        (found,) = mjax.linear_transpose(f, x)(out)
        rows = [f(row) for row in np.eye(3, dtype=np.int32)]
        expected = [sum(int(np.sum(np.asarray(a) * b)) for a, b in zip(
            mjax.tree.leaves(row), mjax.tree.leaves(out), strict=True)) for row in rows]
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("f", "primal", "ct", "error", "text"), [
    (lambda x: x.astype("float32"), 1, 1.0, TypeError, r"integer dtypes; got arguments ~int32\[\]"),
    (lambda x: x, True, True, TypeError, r"got arguments bool\[\] and results bool\[\]"),
    (lambda x: x * 2, 1, 1.0, TypeError, r"cotangent has type ~float32\[\]"),
    (lambda x: x * x, 1.0, 1.0, TypeError, "'mul'.*not linear"),
    (jnp.sin, 1.0, 1.0, NotImplementedError, "'sin' has no transpose rule"),
    (lambda x: x * 2, A, A[0], TypeError, r"cotangent has type float32\[3\]"),
    (lambda x: x * 2, A, (A,), TypeError, "must have the same structure"),
])
def test_linear_transpose_of_what_does_not_fit(f, primal, ct, error, text):
    with pytest.raises(error, match=text):
        mjax.linear_transpose(f, primal)(ct)
