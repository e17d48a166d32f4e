"""Making arrays: values against NumPy, dtypes, weak types, what is refused."""

from __future__ import annotations

import http
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax


def same(ours: Any, theirs: Any, dtype: Any = None) -> None:
    theirs = np.asarray(theirs)
    assert isinstance(ours, mjax.Array)
    assert ours.shape == theirs.shape
    if dtype is not None:
        assert ours.dtype == dtype
    np.testing.assert_allclose(np.asarray(ours).astype(theirs.dtype), theirs, rtol=1e-6)


# ---- array and asarray -----------------------------------------------------------------


@pytest.mark.parametrize(("value", "dtype", "weak"), [
    (3, "int32", True), (2.5, "float32", True), (1j, "complex64", True), (True, "bool", False),
    ([1, 2], "int32", False), ([1, 2.5], "float32", False), ([True, 2], "int32", False),
    ([], "float32", False), ([[]], "float32", False), ((1, 2), "int32", False),
    (range(3), "int32", False), (np.arange(3), "int32", False), (np.float64(2), "float32", False),
    (np.float16(2), "float16", False), ([np.float16(1), 2.5], "float16", False),
    ([np.int8(1), np.float16(2)], "float16", False), (memoryview(b"ab"), "uint8", False),
    ([np.arange(2), np.arange(2)], "int32", False), (np.zeros((0, 3), np.int8), "int8", False),
    # Numbers of subclasses.
    (http.HTTPStatus.OK, "int32", True), (type("Real", (float,), {})(2.5), "float32", True),
])
def test_array_of_host_values(value: Any, dtype: str, weak: bool) -> None:
    for f in (jnp.array, jnp.asarray):
        out = f(value)
        same(out, np.array(value), dtype)
        assert out.weak_type == weak


def test_array_of_arrays() -> None:
    x = jnp.arange(3)
    assert jnp.asarray(x) is x
    assert jnp.array(x) is not x
    assert jnp.array(x, copy=False) is x
    same(jnp.array([x, 2 * x]), [[0, 1, 2], [0, 2, 4]], "int32")
    same(jnp.array([x[0], 1.5]), [0, 1.5], "float32")
    same(jnp.array([[x[0], True], [2, x[2]]]), [[0, 1], [2, 2]], "int32")
    same(mjax.jit(lambda x: jnp.array([x, [1, 2, 3]]))(x), [[0, 1, 2], [1, 2, 3]], "int32")
    same(jnp.array(x, float), [0.0, 1, 2], "float32")
    same(jnp.array([1, 2], ndmin=3), [[[1, 2]]])
    np.testing.assert_array_equal(mjax.grad(lambda x: jnp.array([x, 2 * x]).sum())(1.0), 3.0)


def test_a_copy_survives_the_deletion_of_the_original() -> None:
    x = jnp.arange(3)
    y = jnp.array(x)
    x.delete()
    same(y, [0, 1, 2])


def test_numpy_arrays_are_copied() -> None:
    x = np.arange(1000.0)
    y = jnp.asarray(x)
    x[:] = 7
    same(y, np.arange(1000.0))


@pytest.mark.parametrize(("value", "error", "text"), [
    ("abc", TypeError, "'abc' of type str"), (b"abc", TypeError, "bytes"),
    ({"a": 1}, TypeError, "dict"), ({1, 2}, TypeError, "set"), (object(), TypeError, "object"),
    (None, ValueError, "None"), ([1, None], ValueError, "None"), ([1, "a"], TypeError, "'a'"),
    (np.array(["a"]), TypeError, "dtype <U1"), (np.array([None]), TypeError, "dtype object"),
    ([[1, 2], [3]], ValueError, "inhomogeneous"), ([2**40], OverflowError, "1099511627776"),
    (2**40, OverflowError, "int32"), ([10**30], OverflowError, "too large"),
])
def test_values_that_are_no_arrays(value: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        jnp.array(value)
    with pytest.raises(error, match=text):
        mjax.jit(lambda: jnp.asarray(value))()


def test_conversions_with_a_dtype() -> None:
    same(jnp.array([1.7, -1.7], int), [1, -1], "int32")
    same(jnp.array([0, 2], bool), [False, True], "bool")
    same(jnp.array(np.array([300, -1]), "uint8"), [44, 255], "uint8")
    same(jnp.uint8(3.7), 3, "uint8")
    for complex_number in (1j, np.complex64(1j)):  # not 0, whatever its real part
        same(jnp.bool_(complex_number), True, "bool")
        same(jnp.asarray([complex_number, 0], bool), [True, False], "bool")
    for bad in (300, [300], -1):
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            jnp.array(bad, "uint8")
    with pytest.raises(TypeError, match="complex"):
        jnp.array([1j], float)
    with pytest.raises(NotImplementedError, match="order='F'"):
        jnp.array([1], order="F")
    with mjax.enable_x64(True):
        same(jnp.array([2**40]), [2**40], "int64")
        same(jnp.zeros(2), [0.0, 0.0], "float64")


def test_arrays_are_no_dtypes() -> None:
    ones, ints = jnp.ones(3), jnp.arange(3)
    for f in (lambda d: jnp.zeros(3, d), lambda d: jnp.asarray([1, 2], d), ones.astype,
              lambda d: jnp.hstack(ones, d), lambda d: jnp.sum(ones, dtype=d),
              lambda d: lax.convert_element_type(ones, d)):
        for g, array in ((f, ints), (f, np.arange(3)), (mjax.jit(f), ints)):
            with pytest.raises(ValueError, match=r"an array of dtype int.* was given .* \.dtype"):
                g(array)
    assert jnp.zeros(2, np.float16(1)).dtype == np.float16
    assert jnp.issubdtype(ints, jnp.integer) and jnp.isdtype(ints, "integral")
    assert jnp.promote_types(ints, "complex64") == np.complex64
    assert mjax.ShapeDtypeStruct((), ints).dtype == np.int32


def test_dtypes_of_64_bits_warn() -> None:
    with pytest.warns(UserWarning, match=r"float64 .* float32 .*enable_x64") as caught:
        assert jnp.zeros(2, "float64").dtype == np.float32
    assert caught[0].filename == __file__
    assert jnp.zeros(2, float).dtype == np.float32  # Python's types mean the default


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "int4", "uint4"])
def test_narrow_dtypes(name: str) -> None:
    for x in (jnp.zeros(3, name), jnp.ones(3, name), jnp.array([1, 2, 3], name),
              jnp.full(3, 2, name), jnp.arange(3).astype(name)):
        assert x.dtype == name and x.shape == (3,)
    same(jnp.array([1, 2, 3], name).astype("float32"), [1.0, 2, 3])


def test_objects_with_array_methods() -> None:
    class Foreign:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.arange(3.0)

    class Ours:
        def __jax_array__(self) -> Any:
            return jnp.arange(3)

    same(jnp.asarray(Foreign()), [0.0, 1, 2], "float32")
    same(jnp.asarray(Ours()), [0, 1, 2], "int32")
    same(jnp.array([Ours(), Ours()]), [[0, 1, 2]] * 2, "int32")


# ---- of one value ----------------------------------------------------------------------


@pytest.mark.parametrize("jitted", [False, True])
def test_filled(jitted: bool) -> None:
    run = (lambda f: mjax.jit(f)()) if jitted else (lambda f: f())
    same(run(lambda: jnp.zeros((2, 3))), np.zeros((2, 3)), "float32")
    same(run(lambda: jnp.zeros(3, int)), np.zeros(3), "int32")
    same(run(lambda: jnp.ones((), bool)), True, "bool")
    same(run(lambda: jnp.empty((0, 2))), np.zeros((0, 2)), "float32")
    same(run(lambda: jnp.full((2,), 7, "int8")), [7, 7], "int8")
    same(run(lambda: jnp.full((2, 3), jnp.arange(3))), [[0, 1, 2]] * 2, "int32")
    same(run(lambda: jnp.full((2,), np.array([1, 2]))), [1, 2], "int32")
    same(run(lambda: jnp.zeros((300, 301)).sum()), 0.0)
    same(run(lambda: jnp.zeros_like(jnp.arange(3))), [0, 0, 0], "int32")
    same(run(lambda: jnp.ones_like(jnp.arange(3), float)), [1, 1, 1], "float32")
    same(run(lambda: jnp.full_like(jnp.arange(3.0), 2, shape=(2,))), [2, 2], "float32")
    same(run(lambda: jnp.full_like(jnp.arange(3), 1.5)), [1, 1, 1], "int32")
    same(run(lambda: jnp.empty_like(np.ones((2, 1)))), [[0], [0]], "float32")


def test_weak_types_of_filled_arrays() -> None:
    assert jnp.full((2,), 1).weak_type and jnp.full((2,), 1.0).weak_type
    assert not jnp.full((2,), True).weak_type and not jnp.full((2,), 1, int).weak_type
    assert jnp.zeros_like(1.0).weak_type and jnp.ones_like(2).weak_type
    assert not jnp.zeros(2).weak_type and not jnp.zeros_like(1.0, float).weak_type
    assert mjax.eval_shape(lambda: jnp.full((2,), 1)).weak_type


def test_like_objects_with_a_type() -> None:
    struct = mjax.ShapeDtypeStruct((2, 3), np.int8)
    same(jnp.zeros_like(struct), np.zeros((2, 3)), "int8")


def test_shapes_that_are_refused() -> None:
    for bad in (-1, (2, -3), 2.0, (2, 1.5), "a", (2, "b")):
        with pytest.raises(TypeError, match="shapes must"):
            jnp.zeros(bad)
    with pytest.raises(TypeError, match=r"static|concrete"):
        mjax.jit(jnp.zeros)(3)
    with pytest.raises(ValueError, match=r"\(3,\) cannot be broadcast to shape \(2,\)"):
        jnp.full((2,), jnp.arange(3))
    for call in (lambda: jnp.zeros(2, str), lambda: jnp.zeros(2, "text"),
                 lambda: jnp.zeros(2, object)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError, match="got <class 'list'>"):
        jnp.full((2,), [1, 2])


# ---- ranges ----------------------------------------------------------------------------


@pytest.mark.parametrize("args", [
    (5,), (2, 5), (2, 9, 3), (5, 0, -2), (0,), (5, 2), (2.5,), (0, 1, 0.3), (-1, 1, 0.25),
    (1.0, -1.0, -0.5), (True, 4), (np.int8(3),), (3, 10, 2.5)])
def test_arange(args: tuple[Any, ...]) -> None:
    expected = np.arange(*args)
    same(jnp.arange(*args), expected)
    same(mjax.jit(lambda: jnp.arange(*args))(), expected)
    assert jnp.arange(*args).dtype == jnp.result_type(*args)


def test_arange_dtypes_and_errors() -> None:
    same(jnp.arange(3, dtype="float16"), [0, 1, 2], "float16")
    same(jnp.arange(jnp.array(3)), [0, 1, 2], "int32")
    same(jnp.arange(70_000), np.arange(70_000), "int32")
    same(jnp.arange(0.0, 70_000.0), np.arange(70_000.0), "float32")
    for call, error, text in (
            (lambda: jnp.arange(1, 2, 0), ValueError, "step must not be 0"),
            (lambda: jnp.arange(None), TypeError, "start must be a real number, got None"),
            (lambda: jnp.arange(jnp.ones(3)), ValueError, r"stop must be a scalar.*\(3,\)"),
            (lambda: jnp.arange(1j), ValueError, "real number"),
            (lambda: mjax.jit(jnp.arange)(3), TypeError, "static"),
            (lambda: jnp.arange("a"), TypeError, "<class 'str'>"),
            (lambda: jnp.arange(3, dtype=bool), TypeError, "bool")):
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize("options", [{}, {"num": 5}, {"num": 1}, {"num": 0},
                                     {"num": 4, "endpoint": False}, {"num": 6, "dtype": int}])
def test_linspace(options: dict[str, Any]) -> None:
    expected = np.linspace(-1, 3, **options)
    same(jnp.linspace(-1, 3, **options), expected)
    same(mjax.jit(lambda: jnp.linspace(-1, 3, **options))(), expected)


def test_linspace_of_arrays() -> None:
    low, high = np.array([0.0, 1.0]), np.array([[5.0], [7.0], [9.0]])
    for axis in (0, 1, -1):
        same(jnp.linspace(low, high, 4, axis=axis), np.linspace(low, high, 4, axis=axis))
    _, step = jnp.linspace(0, 1, 5, retstep=True)
    there = mjax.devices()[0]
    for placed in (jnp.linspace(0, 1, 3, device=there),
                   jnp.linspace(0, 1, 3, retstep=True, device=there)[0]):
        assert placed.committed
    assert step == 0.25
    assert jnp.linspace(0.0, 0.1, 7)[-1] == np.float32(0.1)
    same(jnp.linspace(1j, -3.7 + 1j, 5, dtype=int), np.array([0, -1, -2, -3, -4]))
    np.testing.assert_allclose(mjax.grad(lambda v: jnp.linspace(0, v, 5).sum())(1.0), 2.5)
    with pytest.raises(ValueError, match="num must not be negative"):
        jnp.linspace(0, 1, -1)
    with pytest.raises(TypeError, match="num must be an integer"):
        jnp.linspace(0, 1, 2.5)


def test_logspace_and_geomspace() -> None:
    same(jnp.logspace(0, 3, 4), np.logspace(0, 3, 4))
    same(jnp.logspace(0, 3, 4, base=2, endpoint=False), np.logspace(0, 3, 4, False, 2))
    same(jnp.geomspace(1, 1000, 4), np.geomspace(1, 1000, 4))
    same(jnp.geomspace(-1, -8, 4, endpoint=False), np.geomspace(-1, -8, 4, False))
    same(jnp.geomspace(np.array([1.0, 2]), 64, 3, axis=1),
         np.geomspace(np.array([1.0, 2]), 64, 3, axis=1))


def test_grids() -> None:
    x, y, z = np.arange(3), np.arange(2.0), np.arange(4)
    for options in ({}, {"indexing": "ij"}, {"sparse": True}):
        for given in ((x, y), (x, y, z), (x,), (x, 5)):
            for ours, theirs in zip(jnp.meshgrid(*given, **options),
                                    np.meshgrid(*given, **options), strict=True):
                same(ours, theirs)
    same(jnp.indices((2, 3)), np.indices((2, 3)), "int32")
    for ours, theirs in zip(jnp.indices((2, 3), sparse=True), np.indices((2, 3), sparse=True),
                            strict=True):
        same(ours, theirs)
    same(jnp.fromfunction(lambda i, j: 10 * i + j, (2, 3)),
         np.fromfunction(lambda i, j: 10 * i + j, (2, 3)), "float32")
    with pytest.raises(ValueError, match="indexing"):
        jnp.meshgrid(x, y, indexing="xz")
    with pytest.raises(ValueError, match=r"argument 1 .*\(1, 3\)"):
        jnp.meshgrid(x, x[None])


# ---- matrices --------------------------------------------------------------------------


@pytest.mark.parametrize("k", [-3, -1, 0, 1, 2, 5])
def test_matrices_with_diagonals(k: int) -> None:
    m = np.arange(12.0).reshape(3, 4)
    same(jnp.eye(3, 4, k), np.eye(3, 4, k), "float32")
    same(jnp.tri(3, 4, k, dtype=int), np.tri(3, 4, k), "int32")
    same(jnp.tril(jnp.array(m), k), np.tril(m, k))
    same(jnp.triu(jnp.array([m, -m]), k), np.triu([m, -m], k))
    same(jnp.diag(jnp.array(m), k), np.diag(m, k))
    same(jnp.diag(jnp.arange(3), k), np.diag(np.arange(3), k), "int32")
    same(jnp.diagflat(jnp.array(m[:2, :2]), k), np.diagflat(m[:2, :2], k))
    same(jnp.trace(jnp.array(m), k), np.trace(m, k))
    t = np.arange(24).reshape(2, 3, 4)
    same(jnp.diagonal(jnp.array(t), k, 0, 2), np.diagonal(t, k, 0, 2))
    same(jnp.diagonal(jnp.array(t), k, -1, 1), np.diagonal(t, k, -1, 1))


def test_indices_of_triangles_and_diagonals() -> None:
    for ours, theirs in (
            (jnp.tril_indices(3, -1, 4), np.tril_indices(3, -1, 4)),
            (jnp.triu_indices(3, 1), np.triu_indices(3, 1)),
            (jnp.tril_indices_from(jnp.ones((2, 3))), np.tril_indices_from(np.ones((2, 3)))),
            (jnp.triu_indices_from(jnp.ones((2, 3))), np.triu_indices_from(np.ones((2, 3)))),
            (jnp.diag_indices(3, 3), np.diag_indices(3, 3)),
            (jnp.diag_indices_from(jnp.ones((2, 2))), np.diag_indices(2))):
        for o, t in zip(ours, theirs, strict=True):
            same(o, t, "int32")


def test_derivative_of_a_diagonal_is_a_matrix() -> None:
    np.testing.assert_array_equal(mjax.grad(lambda m: jnp.diag(m, 1).sum())(jnp.ones((3, 3))),
                                  np.eye(3, k=1))
    np.testing.assert_array_equal(mjax.jacrev(jnp.diag)(jnp.ones(2))[0], [[1, 0], [0, 0]])


def test_matrix_functions_refuse() -> None:
    for call, error, text in (
            (lambda: jnp.tril(jnp.ones(3)), ValueError, r"two axes, got shape \(3,\)"),
            (lambda: jnp.diag(jnp.ones((2, 2, 2))), ValueError, r"\(2, 2, 2\)"),
            (lambda: jnp.eye(2.5), TypeError, "N must be an integer"),
            (lambda: jnp.zeros(2, 3), TypeError, r"zeros: the argument dtype must be a dtype, .* "
             r"got 3 of type int\. Sizes of a shape are one argument, and so are axes: a tuple"),
            (lambda: jnp.sum(jnp.eye(2), 0, 1), TypeError, "sum: the argument dtype must be"),
            (lambda: mjax.random.uniform(mjax.random.key(0), (2,), 0.5), TypeError,
             "uniform: the argument dtype .* got 0.5 .* Give the arguments that follow the dtype"),
            (lambda: jnp.linspace(0, 1, axis=0.5), TypeError, "linspace: axis must be an integer"),
            (lambda: jnp.tril_indices(2, k=0.5), TypeError, "tril_indices: k must be an integer"),
            (lambda: jnp.resize(1, 2.5), TypeError, "resize: a size must be an integer, got 2.5"),
            (lambda: jnp.rot90(jnp.eye(2), 0.5), TypeError, "rot90: k must be an integer"),
            (lambda: jnp.diff(jnp.eye(2), 0.5), TypeError, "diff: the order n must be an integer"),
            (lambda: jnp.linalg.matrix_power(jnp.eye(2), 0.5), TypeError,
             "matrix_power: the exponent n must be an integer, got 0.5 of type float"),
            (lambda: jnp.eye(-1), ValueError, "negative dimensions are not allowed, got -1 rows"),
            (lambda: jnp.eye(2, -1), ValueError, "2 rows and -1 columns"),
            (lambda: jnp.identity(-1), ValueError, "negative dimensions"),
            (lambda: mjax.jit(jnp.eye)(3), TypeError, "static"),
            (lambda: jnp.diagonal(jnp.ones((2, 2)), axis1=1, axis2=-1), ValueError, "different"),
            (lambda: jnp.diag_indices_from(jnp.ones((2, 3))), ValueError, r"\(2, 3\)")):
        with pytest.raises(error, match=text):
            call()


def test_files(tmp_path: Any) -> None:
    for dtype in ("float32", "int8", "bfloat16", "complex64"):
        x = jnp.arange(3).astype(dtype)
        jnp.save(tmp_path / "x.npy", x)
        y = jnp.load(tmp_path / "x.npy")
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, x)


def test_archives(tmp_path: Any) -> None:
    jnp.savez(tmp_path / "x.npz", jnp.arange(3), weights=jnp.ones(2))
    with jnp.load(tmp_path / "x.npz") as archive:
        np.testing.assert_array_equal(archive["arr_0"], [0, 1, 2])
        np.testing.assert_array_equal(archive["weights"], [1, 1])


def test_files_of_numbers(tmp_path: Any) -> None:
    path = tmp_path / "numbers"
    np.arange(5, dtype="int16").tofile(path)
    same(jnp.fromfile(path, "int16", 2, offset=2), [1, 2], "int16")
    path.write_text("1.5 2")
    same(jnp.fromfile(path, sep=" "), [1.5, 2], "float32")


def test_texts_of_numbers() -> None:
    same(jnp.fromstring("1 2  3", dtype=int, sep=" "), [1, 2, 3], "int32")
    same(jnp.fromstring("1.5,2", sep=","), [1.5, 2], "float32")
    same(jnp.fromstring("1 2 3", dtype="int8", count=2, sep=" "), [1, 2], "int8")


def test_buffers() -> None:
    same(jnp.frombuffer(b"abcd", dtype="uint8", offset=1), [98, 99, 100], "uint8")
    same(jnp.fromiter((i * i for i in range(4)), dtype=float), [0, 1, 4, 9], "float32")
    with pytest.raises(ValueError, match="multiple"):
        jnp.frombuffer(b"abc", dtype="int32")
