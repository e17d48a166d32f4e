"""Programs of symbolic shapes: one artifact, several sizes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import export, lax
from mjax.errors import InconclusiveDimensionOperation

FLOAT = "float32"


def spec(shape, dtype=FLOAT, **keywords):
    return mjax.ShapeDtypeStruct(export.symbolic_shape(shape, **keywords), dtype)


def numbers(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(FLOAT)


W = numbers(3, 4)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


PROGRAMS = {
    "network": (lambda x: jnp.tanh(x @ W + 1.0), lambda x: np.tanh(x @ W + 1)),
    "reshape": (lambda x: lax.reshape(x, (x.shape[0] * 3,)), lambda x: x.ravel()),
    "broadcast": (lambda x: jnp.broadcast_to(x[0], (x.shape[0] + 1, 3)),
                  lambda x: np.broadcast_to(x[0], (len(x) + 1, 3))),
    "zeros": (lambda x: jnp.zeros((x.shape[0], 2)), lambda x: np.zeros((len(x), 2))),
    "sum": (lambda x: x.sum(0), lambda x: x.sum(0)),
    "size": (lambda x: x.sum(0) / x.shape[0], lambda x: x.mean(0)),
    "sort": (lambda x: jnp.sort(x, 0), lambda x: np.sort(x, 0)),
    "concatenate": (lambda x: jnp.concatenate([x, x]), lambda x: np.concatenate([x, x])),
    "pad": (lambda x: jnp.pad(x, 1), lambda x: np.pad(x, 1)),
    "contraction": (lambda x: jnp.einsum("bi,bj->ij", x, x), lambda x: x.T @ x),
    "outer": (lambda x: jnp.einsum("bi,ci->bc", x, x), lambda x: x @ x.T),
    "vmap": (lambda x: mjax.vmap(lambda row: row.sum())(x), lambda x: x.sum(1)),
    "update": (lambda x: x.at[0].set(1.0), lambda x: np.vstack([np.ones((1, 3)), x[1:]])),
    "where": (lambda x: jnp.where(x > 0, x, 0), lambda x: np.maximum(x, 0)),
    "split": (lambda x: jnp.split(x, 3, 1)[1], lambda x: x[:, 1:2]),
    "stack": (lambda x: jnp.stack([x, x]), lambda x: np.stack([x, x])),
    "tile": (lambda x: jnp.tile(x, (2, 1)), lambda x: np.tile(x, (2, 1))),
    "reverse": (lambda x: lax.rev(x, (1,)), lambda x: x[:, ::-1]),
    "softmax": (lambda x: mjax.nn.softmax(x), softmax),
    "gradient": (lambda x: mjax.grad(lambda x: (jnp.sin(x) ** 2).sum())(x),
                 lambda x: np.sin(2 * x)),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, lambda x: x, lambda x: -x, x),
             lambda x: x if x[0, 0] > 0 else -x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_artifact_runs_for_several_sizes(name):
    function, oracle = PROGRAMS[name]
    exported = export.export(mjax.jit(function))(spec("b, 3"))
    read = export.deserialize(exported.serialize())
    assert read.in_avals[0].shape[1] == 3 and str(read.in_avals[0].shape[0]) == "b"
    for size in (1, 4):
        x = numbers(size, 3)
        np.testing.assert_allclose(read.call(x), oracle(x), rtol=2e-5, atol=2e-5)


def test_calls_nest_in_jit_and_in_exports():
    inner = export.export(mjax.jit(lambda x: x * 2 + x.shape[0]))(spec("n"))
    x = numbers(3)
    np.testing.assert_allclose(mjax.jit(inner.call)(x), x * 2 + 3, rtol=1e-6)
    outer = export.export(mjax.jit(lambda x: inner.call(x)))(
        spec("m + 1"))
    assert str(outer.out_avals[0].shape[0]) == "m + 1"
    np.testing.assert_allclose(outer.call(x), x * 2 + 3, rtol=1e-6)
    both = mjax.jit(lambda x, y: (inner.call(x), inner.call(y)))
    left, right = both(x, numbers(5))
    np.testing.assert_allclose(left, x * 2 + 3, rtol=1e-6)
    np.testing.assert_allclose(right, numbers(5) * 2 + 5, rtol=1e-6)


def test_derivatives_are_symbolic_too():
    exported = export.export(mjax.jit(lambda x: jnp.sin(x) @ W))(spec("b, 3"))
    read = export.deserialize(exported.serialize(vjp_order=1))
    for size in (2, 5):
        x = numbers(size, 3)
        np.testing.assert_allclose(mjax.grad(lambda x: read.call(x).sum())(x),
                                   np.cos(x) * W.sum(1), rtol=1e-5, atol=1e-6)


def test_arguments_that_only_say_sizes_are_kept():
    a, b = export.symbolic_shape("a, b")
    exported = export.export(mjax.jit(lambda x, y: y * a))(
        mjax.ShapeDtypeStruct((a,), FLOAT), mjax.ShapeDtypeStruct((b,), FLOAT))
    np.testing.assert_allclose(exported.call(numbers(3), np.ones(2, FLOAT)), [3, 3])


def test_several_platforms():
    exported = export.export(mjax.jit(lambda x: x + x.shape[0]), platforms=("tpu", "cpu"))(
        spec("b"))
    np.testing.assert_allclose(exported.call(np.zeros(3, FLOAT)), [3, 3, 3])


@pytest.mark.parametrize(("shape", "constraints", "given", "why"), [
    ("b, 3", (), (2, 4), r"args\[0\] was exported with the shape \(b, 3\), and is called with"),
    ("b, b", (), (2, 4), r"dimension 1 of args\[0\] is 4, and must be b = 2"),
    ("2*b, 3", (), (5, 3), r"is 5, and must be 2\*b, with a whole b"),
    ("b + 4, 3", (), (2, 3), r"is 2, and must be b \+ 4, with b of at least 1"),
    ("b, 3", ("b >= 4",), (2, 3), r"constraint b >= 4 does not hold for b = 2"),
    ("b, c", ("b <= c",), (3, 2), r"constraint b <= c does not hold for b = 3, c = 2"),
    ("b, c", ("mod(b, 2) == 0",), (3, 2), r"constraint mod\(b, 2\) == 0 does not hold")])
def test_sizes_that_do_not_fit_are_refused(shape, constraints, given, why):
    exported = export.export(mjax.jit(lambda x: x + 1))(spec(shape, constraints=constraints))
    with pytest.raises(ValueError, match=why):
        exported.call(numbers(*given))


def test_constraints_are_checked_by_the_program_itself():
    # Artifacts do not hold them in their tables.
    exported = export.export(mjax.jit(lambda x: x + 1))(spec("b", constraints=["b >= 4"]))
    read = export.deserialize(exported.serialize())
    assert read.call(numbers(4)).shape == (4,)
    with pytest.raises(ValueError, match=(
            "^the sizes of the arguments do not fit a program of symbolic shapes: the constraint "
            r"b >= 4 does not hold; the sides differ by -1\.")):
        read.call(numbers(3))


def test_symbols_of_different_scopes_are_refused():
    """Artifacts know them by name: two symbols of one name would become one."""
    with pytest.raises(ValueError, match=(
            r"a of args\[0\]\['x'\] and 2\*a of kwargs\['y'\] are of different scopes")):
        export.export(mjax.jit(lambda d, y: d["x"].sum() + y.sum()))(
            {"x": spec("a, 3")}, y=spec("2*a"))


def test_constraints_that_cannot_be_read():
    with pytest.raises(ValueError, match="the constraint 'a >= ': cannot read"):
        export.symbolic_shape("a", constraints=["a >= "])


def test_symbols_that_do_not_follow_are_refused():
    with pytest.raises(ValueError, match="the symbols a, b do not follow from the sizes"):
        export.export(mjax.jit(lambda x: x))(spec("a*b"))


def test_gradients_of_slices_that_may_be_empty():
    b, = export.symbolic_shape("b")
    f = lambda x: (x[:-1].sum() * x[:x.shape[0] // 2].sum() + jnp.diff(x, axis=0).sum())
    exported = export.export(mjax.jit(mjax.grad(f)))(mjax.ShapeDtypeStruct((b, 3), "float32"))
    for n in 1, 2, 5:
        x = np.linspace(0, 1, 3 * n, dtype="float32").reshape(n, 3)
        np.testing.assert_allclose(exported.call(x), mjax.grad(f)(x), rtol=1e-5)


GRADIENTS = {
    "every second": lambda x: x[::2],
    "every third but the first": lambda x: x[1::3],
    "backwards": lambda x: x[::-2],
    "all but the last": lambda x: x[:-1:2],
    "take": lambda x: jnp.take(x, jnp.array([0, 3, -1]), axis=0, mode="clip"),
    "take of as many": lambda x: jnp.take(x, jnp.arange(x.shape[0]) + 1, axis=0, mode="clip"),
    "set": lambda x: x.at[jnp.array([0, 5])].set(3 * x[0], mode="clip"),
    "add": lambda x: x.at[jnp.array([0, 5])].add(3 * x[0], mode="clip"),
}


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients_of_indexing(case):
    f = lambda x: (GRADIENTS[case](x) ** 2).sum()
    exported = export.export(mjax.jit(mjax.grad(f)))(spec("b, 3"))
    for n in 1, 2, 5:
        x = numbers(n, 3)
        np.testing.assert_allclose(exported.call(x), mjax.grad(f)(x), rtol=1e-5)


def test_symbols_that_no_argument_has():
    b, c = export.symbolic_shape("b, c")
    for f in (lambda x: x * b, lambda x: lax.full((b,), x), lambda x: jnp.zeros((2, b))):
        with pytest.raises(InconclusiveDimensionOperation, match="dimension b, but .* no symbols"):
            mjax.jit(f)(1.0)
    with pytest.raises(InconclusiveDimensionOperation,
                       match=r"dimension c \+ b, but .* only the symbols \['b'\]"):
        export.export(mjax.jit(lambda x: x * (x.shape[0] + c)))(
            mjax.ShapeDtypeStruct((b,), np.float32))
