"""Operators and methods of arrays and tracers."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax._engine.tracing.interpreter import Tracer
from mjax._numpy import methods

X = np.array([[1.5, -2.0, 3.0], [0.5, 2.0, -1.0]], np.float32)
I = np.array([[7, -2, 3], [5, 2, -1]], np.int32)  # noqa: E741

BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "divmod": divmod, "==": operator.eq,
    "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}
INTEGER = {"&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
           ">>": operator.rshift}


def close(ours: Any, theirs: Any) -> None:
    ours, theirs = (v if isinstance(v, tuple) else (v,) for v in (ours, theirs))
    for o, t in zip(ours, theirs, strict=True):
        assert isinstance(o, mjax.Array)
        np.testing.assert_allclose(np.asarray(o), t, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("symbol", BINARY)
def test_binary_operators(symbol: str) -> None:
    op = BINARY[symbol]
    y = np.float32([1.0, 2.0, -2.0])
    close(op(jnp.array(X), jnp.array(y)), op(X, y))
    close(op(jnp.array(X), 2), op(X, 2))
    close(op(2.5, jnp.array(X)), op(np.float32(2.5), X))
    close(op(jnp.array(X), y), op(X, y))
    close(op(X, jnp.array(y)), op(X, y))  # NumPy leaves it to us
    close(op(np.float32(2), jnp.array(y)), op(np.float32(2), y))
    close(mjax.jit(op)(X, y), op(X, y))
    close(mjax.jit(lambda x: op(X, x))(y), op(X, y))


@pytest.mark.parametrize("symbol", INTEGER)
def test_integer_operators(symbol: str) -> None:
    op = INTEGER[symbol]
    x = abs(I) if symbol in ("<<", ">>") else I
    close(op(jnp.array(x), 3), op(x, 3))
    close(op(3, jnp.array(abs(x))), op(3, abs(x)))
    close(mjax.jit(op)(x, np.int32([1, 2, 3])), op(x, np.int32([1, 2, 3])))


def test_unary_operators_and_powers() -> None:
    x = jnp.array(X)
    close(-x, -X)
    close(+x, X)
    close(abs(x), abs(X))
    close(~jnp.array(I), ~I)
    close(round(x, 1), np.round(X, 1))
    close(round(x), np.round(X))
    close(x**2, X**2)
    close(abs(x) ** 0.5, abs(X) ** 0.5)
    close(2**x, 2.0**X)
    close(x @ x.T, X @ X.T)
    close(X @ x.T, X @ X.T)
    close(mjax.jit(lambda x: (-x, abs(x), x**2, x @ x.T))(X), (-X, abs(X), X**2, X @ X.T))


def test_in_place_operators_make_new_arrays() -> None:
    x = y = jnp.array(X)
    x += 1
    close(y, X)
    close(x, X + 1)


def test_eager_results_of_operators_and_functions_agree() -> None:
    x, y = jnp.array(X), jnp.array(I)
    for op, f in ((operator.add, jnp.add), (operator.mul, jnp.multiply), (operator.lt, jnp.less)):
        for a, b in ((x, x), (x, y), (x, 2), (x, 2.5), (y, 2.5), (y, 2)):
            ours, theirs = op(a, b), f(a, b)
            traced = mjax.eval_shape(lambda a, b, f=f: f(a, b), a, b)
            assert (ours.dtype, ours.weak_type) == (theirs.dtype, theirs.weak_type)
            assert (ours.dtype, ours.weak_type) == (traced.dtype, traced.weak_type)
            close(ours, np.asarray(theirs))


def test_special_scalars_are_kept_apart() -> None:
    one = jnp.array(1.0)
    assert jnp.isinf(one / 0.0) and (one / -0.0) < 0 < (one / 0.0)
    assert jnp.copysign(one, -0.0) == -1 and jnp.copysign(one, 0.0) == 1
    assert mjax.jit(lambda x: x / -0.0)(1.0) < 0
    assert (jnp.int32(1) + True).dtype == np.int32 and (one + 1).dtype == np.float32
    assert jnp.isnan(one + float("nan"))


def test_settings_and_placements_are_part_of_what_is_cached() -> None:
    x = jnp.arange(3)
    assert (x + x).dtype == np.int32
    with mjax.enable_x64(True):
        y = jnp.arange(3)
        assert (y + y).dtype == np.int64 and (y + 2**40)[1] == 2**40 + 1
    with mjax.numpy_dtype_promotion("strict"), pytest.raises(mjax.errors.TypePromotionError):
        x + jnp.ones(3)
    assert (x + jnp.ones(3)).dtype == np.float32
    with mjax.disable_jit():
        close(x + 1, np.arange(3) + 1)


# ---- other operands --------------------------------------------------------------------


def test_other_classes_decide_themselves() -> None:
    class Other:
        def __radd__(self, other: Any) -> str:
            return "radd"

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    assert jnp.ones(3) + Other() == "radd"
    assert (jnp.ones(3) == Other()) is True
    assert (jnp.ones(3) == None) is False  # noqa: E711
    assert (jnp.ones(3) != "text") is True


@pytest.mark.parametrize("bad", [[1.0], (1, 2), {1}, {"a": 1}])
def test_lists_are_refused(bad: Any) -> None:
    for call in (lambda: jnp.ones(3) + bad, lambda: bad - jnp.ones(3), lambda: jnp.ones(3) == bad,
                 lambda: mjax.jit(lambda x: x * bad)(1.0)):
        with pytest.raises(TypeError, match="unsupported operand types"):
            call()


@pytest.mark.parametrize("bad", ["text", b"bytes", None, object()])
def test_no_numbers(bad: Any) -> None:
    for call in (lambda: jnp.ones(3) + bad, lambda: bad - jnp.ones(3), lambda: jnp.ones(3) < bad):
        with pytest.raises(TypeError, match=r"unsupported operand type|not supported between"):
            call()
    with pytest.raises(TypeError, match="dtype object"):
        jnp.ones(3) * np.array([None, None, None])


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(TypeError, match=r"add got .*\(3,\), \(4,\)"):
        jnp.ones(3) + jnp.ones(4)
    with pytest.raises(ValueError, match=r"subtract got .*\(3,\), \(2, 4\)"):
        jnp.ones(3) - np.ones((2, 4))


def test_assignment_is_refused() -> None:
    x = jnp.ones(3)
    with pytest.raises(TypeError, match=r"immutable.*x\.at\[i\]\.set\(y\)"):
        x[0] = 1
    with pytest.raises(TypeError, match="immutable"):
        mjax.jit(lambda x: operator.setitem(x, 0, 1))(x)


# ---- methods ---------------------------------------------------------------------------

CALLS: dict[str, tuple[Any, ...]] = {
    "all": (1,), "any": (0,), "argmax": (1,), "argmin": (1,), "astype": ("int32",),
    "clip": (-1.0, 1.0), "conj": (), "conjugate": (), "copy": (), "cumprod": (1,), "cumsum": (0,),
    "diagonal": (), "dot": (X.T,), "flatten": (), "max": (1,), "mean": (0,), "min": (), "prod": (),
    "ptp": (1,), "ravel": (), "repeat": (2, 1), "reshape": (3, 2), "round": (1,), "squeeze": (),
    "std": (), "sum": (1,), "swapaxes": (0, 1), "trace": (), "transpose": (1, 0), "var": (0,),
    "argsort": (), "sort": (1,), "take": (np.array([1, 0]), 1),
}


@pytest.mark.parametrize("name", [n for n in CALLS if n in methods.METHODS])
def test_methods_are_those_of_numpy(name: str) -> None:
    x = jnp.array(X)
    if name == "sort":
        expected = np.sort(X, 1)
    elif name == "ptp":
        expected = np.ptp(X, 1)
    else:
        expected = getattr(X, name)(*CALLS[name])
    close(getattr(x, name)(*CALLS[name]), expected)
    close(mjax.jit(lambda x: getattr(x, name)(*CALLS[name]))(x), expected)


def test_methods_with_keywords() -> None:
    x = jnp.array(X)
    close(x.sum(axis=1, keepdims=True), X.sum(axis=1, keepdims=True))
    close(x.mean(where=x > 0), X[X > 0].mean())
    close(x.reshape((3, -1)), X.reshape(3, 2))
    close(x.reshape(-1, order="F"), X.reshape(-1, order="F"))
    close(x.transpose((1, 0)), X.T)
    close(x.transpose(None), X.T)
    close(x.clip(max=1), X.clip(max=1))
    assert x.astype("int8", copy=True).dtype == np.int8
    close(x.nonzero(), X.nonzero())
    close(x.T, X.T)
    close(x.mT, X.T)
    close(jnp.array(X + 1j).imag, np.ones_like(X))
    close(x.real, X)
    assert x.to_device(mjax.devices()[0]).committed


def test_view() -> None:
    x = np.arange(8, dtype=np.float32)
    for dtype in ("int32", "uint8", "float16", "complex64"):
        np.testing.assert_array_equal(jnp.array(x).view(dtype), x.view(dtype))
        np.testing.assert_array_equal(jnp.array(x.view("int8")).view(dtype), x.view(dtype))
    np.testing.assert_array_equal(jnp.array(x.view("uint8")).view("float32"), x)
    np.testing.assert_array_equal(jnp.array(x + 1j).view("float32"),
                                  (x + 1j).astype("complex64").view("float32"))
    np.testing.assert_array_equal(jnp.array([True, False]).view("int8"), [1, 0])
    with pytest.raises(ValueError, match="multiple of 4"):
        jnp.zeros(6, "uint8").view("float32")
    with pytest.raises(ValueError, match=r"\(3,\) and dtype float32 .* multiple of 2"):
        jnp.zeros(3).view("complex64")
    with pytest.raises(ValueError, match="scalar of dtype complex64"):
        jnp.zeros((), "complex64").view("float32")
    assert jnp.zeros((2, 0)).view("complex64").shape == (2, 0)
    # The first of two half bytes is the lower one.
    halves = jnp.array([1, 2, 3, -1], "int4")
    np.testing.assert_array_equal(halves.view("int8"), [0x21, -16 + 3])
    with mjax.enable_x64(True):
        wide = np.array([1.875, -0.5])
        for dtype in ("int64", "int32", "int8", "float32"):
            np.testing.assert_array_equal(jnp.array(wide).view(dtype), wide.view(dtype))


def test_keys_are_not_numbers() -> None:
    keys = mjax.random.split(mjax.random.key(0), 2)
    for name in ("ceil", "floor", "trunc", "round", "sum", "prod", "isreal", "iscomplex",
                 "gradient", "max", "min", "any", "all", "count_nonzero", "nanmax", "signbit",
                 "logical_not", "ptp", "argmax", "exp", "square"):
        for f in (getattr(jnp, name), mjax.jit(getattr(jnp, name))):
            with pytest.raises(TypeError, match=r"\bkey<fry>(?!' as)"):
                f(keys)
    for name in ("add", "power", "isclose", "heaviside", "cov"):
        for error in (TypeError, ValueError):  # JAX has either for it
            with pytest.raises(error, match="of a key|behind a key"):
                getattr(jnp, name)(keys, 2.0)
    for array, dtype in ((keys, "uint32"), (jnp.ones(2, "uint32"), keys.dtype)):
        with pytest.raises(TypeError, match="keys are not numbers"):
            array.view(dtype)


def test_matrices_with_keys_on_the_diagonal() -> None:
    keys = mjax.random.split(mjax.random.key(0), 2)
    data, zero = mjax.random.key_data(keys), np.zeros(2, np.uint32)
    for out in (jnp.diagflat(keys), mjax.jit(jnp.diag)(keys)):
        np.testing.assert_array_equal(mjax.random.key_data(out),
                                      [[data[0], zero], [zero, data[1]]])


def test_iteration_and_containment() -> None:
    x = jnp.array(X)
    assert [row.shape for row in x] == [(3,), (3,)]
    assert 2.0 in x
    a, b = mjax.jit(lambda x: tuple(2 * row for row in x))(x)
    close((a, b), (2 * X[0], 2 * X[1]))
    for f in (list, mjax.jit(list)):
        with pytest.raises(TypeError, match="0-d"):
            f(jnp.array(1.0))


def test_facts_of_tracers() -> None:
    def f(x: Any) -> Any:
        assert isinstance(x, mjax.Array) and x.shape == (2, 3) and x.ndim == 2 and x.size == 6
        assert x.dtype == np.float32 and x.itemsize == 4 and x.nbytes == 24 and len(x) == 2
        assert x.T.shape == (3, 2) and not x.weak_type
        return x

    mjax.jit(f)(X)
    mjax.vmap(f)(X[None])
    mjax.grad(lambda x: f(x).sum())(X)


def test_array_namespace_and_pickles() -> None:
    x = jnp.array(X)
    assert x.__array_namespace__() is jnp
    close(pickle.loads(pickle.dumps(x)) + 1, X + 1)


def test_operators_work_without_importing_numpy_face() -> None:
    # mjax alone installs them.
    close(mjax.device_put(X) + 1, X + 1)


@pytest.mark.parametrize("f", [
    lambda x: ((x + 1) * 2 - x / 3).sum(), lambda x: (x**3 % 2).mean(),
    lambda x: jnp.where(x > 0, x, -2 * x).max(), lambda x: (x @ x.T).trace()])
def test_transformations_of_operators(f: Any) -> None:
    eps = 1e-2
    gradient = mjax.grad(f)(X)
    direction = np.float32([[0.3, -0.2, 0.5], [0.1, 0.4, -0.6]])
    numeric = (f(X.astype("f4") + eps * direction) - f(X - eps * direction)) / (2 * eps)
    np.testing.assert_allclose((gradient * direction).sum(), numeric, rtol=2e-2, atol=1e-2)
    close(mjax.vmap(f)(np.stack([X, 2 * X])), np.stack([f(jnp.array(X)), f(jnp.array(2 * X))]))


def test_no_attribute_of_a_tracer_hides_a_method() -> None:
    names = {*methods.METHODS, *methods.PROPERTIES}
    classes = [mjax.Array, Tracer]
    for cls in classes:
        classes += cls.__subclasses__()
    for cls in classes[2:]:
        if cls is not mjax.Ref:  # its attributes of these names refuse, and name the remedy
            assert not names & set(vars(cls)), cls
    for name in names - {"at"}:
        with pytest.raises((AttributeError, TypeError), match="read the reference"):
            getattr(mjax.new_ref(jnp.ones(2)), name)
