"""Programs written by hand: what the transformations promise, on both libraries."""

from __future__ import annotations

import functools
import inspect
import operator

import jax
import numpy as np
import pytest

import mjax
import mjax.custom_batching
from tests.differential.compare import assert_agree, assert_same_equations

X = np.array([0.3, -0.5, 1.1], np.float32)
M = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
INDICES = np.array([2, 0, 1], np.int32)


UNARY = """neg sin cos tan tanh exp log log1p expm1 sqrt rsqrt cbrt square abs sign floor logistic
           asin acos atan sinh cosh asinh atanh exp2 erf"""
BINARY = "add sub mul div max min pow atan2 rem"


def cube(m, x):
    return m.lax.mul(x, m.lax.mul(x, x))


def total(m, x):
    return m.lax.reduce_sum(x, tuple(range(x.ndim)))


def sine_sum(m, x):
    return total(m, m.lax.sin(x))


def nth_derivative(m, f, n):
    return functools.reduce(lambda g, _: m.grad(g), range(n), f)


#: Name -> program and its arguments.
PROGRAMS = {
    # -- perturbations are not confused --
    "d/dx x * d/dy (x + y)": (lambda m, x: m.grad(
        lambda x: m.lax.mul(x, m.grad(lambda y: m.lax.add(x, y))(1.0)))(x), 3.0),
    "d/dx x * d/dy x": (lambda m, x: m.grad(
        lambda x: m.lax.mul(x, m.grad(lambda y: x)(x)))(x), 2.0),
    "jvp in jvp": (lambda m, x: m.jvp(lambda x: m.jvp(
        lambda y: m.lax.mul(x, cube(m, y)), (x,), (1.0,))[1], (x,), (1.0,)), 2.0),
    "grad of a closure": (lambda m, x: m.grad(lambda x: m.jit(
        lambda y: m.lax.mul(m.lax.sin(x), y))(x))(x), 0.7),
    # -- derivatives --
    **{f"derivative {n}": (lambda m, x, n=n: nth_derivative(
        m, lambda x: m.lax.mul(m.lax.sin(x), m.lax.exp(x)), n)(x), 0.5) for n in range(1, 6)},
    "value_and_grad": (lambda m, x: m.value_and_grad(lambda x: sine_sum(m, x))(x), X),
    "has_aux": (lambda m, x: m.grad(lambda x: (sine_sum(m, x), {"x": x, "n": 3}), has_aux=True)(x),
                X),
    "argnums": (lambda m, x, y: m.grad(lambda x, y: total(m, m.lax.mul(x, y)), argnums=(1, 0))(
        x, y), X, X),
    "grad of a tree": (lambda m, x: m.grad(
        lambda p: total(m, m.lax.mul(p["w"], p["b"][0])))({"w": x, "b": [x, None]}), X),
    "integers have float0 tangents": (lambda m, i: m.vjp(
        lambda x, i: m.lax.mul(x, 2.0), 1.0, i)[1](1.0), np.int32(3)),
    "allow_int": (lambda m, i: m.grad(lambda i: m.lax.mul(
        m.lax.convert_element_type(i, np.float32), 2.0), allow_int=True)(i), np.int32(3)),
    "jvp of integers": (lambda m, x, i: m.jvp(
        lambda x, i: (m.lax.mul(x, 2.0), m.lax.add(i, 1)), (x, i),
        (1.0, np.zeros((), [("float0", np.void, 0)]))), 3.0, np.int32(3)),
    "holomorphic": (lambda m, z: m.grad(lambda z: m.lax.mul(z, m.lax.sin(z)), holomorphic=True)(z),
                    np.complex64(1 + 2j)),
    "vjp of abs of complex": (lambda m, z: m.vjp(m.lax.abs, z)[1](np.float32(1)),
                              np.complex64(3 + 4j)),
    "vjp": (lambda m, x: m.vjp(lambda x: (m.lax.sin(x), total(m, x)), x)[1]((x, 2.0)), X),
    "vjp has_aux": (lambda m, x: m.vjp(lambda x: (m.lax.sin(x), x), x, has_aux=True)[::2], X),
    "linearize": (lambda m, x: m.linearize(lambda x: m.lax.sin(x), x)[1](x), X),
    "linear_transpose": (lambda m, x: m.linear_transpose(lambda x: m.lax.broadcast(x, (2,)), x)(
        m.lax.broadcast(x, (2,))), X),
    "jacfwd": (lambda m, x: m.jacfwd(m.lax.sin)(x), X),
    "jacrev": (lambda m, x: m.jacrev(lambda x: {"a": m.lax.sin(x), "b": total(m, x)})(x), X),
    "hessian": (lambda m, x: m.hessian(lambda x: total(m, cube(m, x)))(x), X),
    "a tie of max": (lambda m, x: m.grad(lambda x: m.lax.max(x, 1.0))(x), 1.0),
    "stop_gradient": (lambda m, x: m.grad(lambda x: m.lax.mul(x, m.lax.stop_gradient(x)))(x), 3.0),
    "grad of a constant": (lambda m, x: m.grad(lambda x: 2.0)(x), 3.0),
    "grad through indices": (lambda m, x, i: m.grad(lambda x: total(m, m.lax.dynamic_slice(
        x, (i,), (2,))))(x), X, np.int32(1)),
    # -- batches --
    "in_axes": (lambda m, x, y: m.vmap(m.lax.add, in_axes=(1, None))(x, y), M,
                np.ones(2, np.float32)),
    "out_axes": (lambda m, x: m.vmap(lambda x: (m.lax.sin(x), 1.0), out_axes=(1, 0))(x), M),
    "out_axes None": (lambda m, x: m.vmap(lambda x: (x, 2.0), out_axes=(0, None))(x), X),
    "negative axes": (lambda m, x: m.vmap(m.lax.neg, in_axes=-1, out_axes=-1)(x), M),
    "axis_size": (lambda m: m.vmap(lambda: 1.0, axis_size=3)(),),
    "trees of axes": (lambda m, x, y: m.vmap(
        lambda d, y: m.lax.add(d["x"], y), in_axes=({"x": 0}, None))({"x": x}, y), X, 2.0),
    "vmap of vmap": (lambda m, x: m.vmap(m.vmap(m.lax.sin, in_axes=1), in_axes=1, out_axes=1)(
        np.stack([x, x])), M),
    "vmap of grad": (lambda m, x: m.vmap(m.grad(lambda x: cube(m, x)))(x), X),
    "grad of vmap": (lambda m, x: m.grad(lambda x: total(m, m.vmap(lambda y: cube(m, y))(x)))(x),
                     X),
    "psum": (lambda m, x: m.vmap(lambda x: m.lax.psum(x, "i"), axis_name="i")(x), X),
    "pmax and axis_index": (lambda m, x: m.vmap(lambda x: m.lax.add(
        m.lax.pmax(x, "i"), m.lax.convert_element_type(m.lax.axis_index("i"), np.float32)),
        axis_name="i")(x), X),
    "grad of vmapped psum": (lambda m, x: m.grad(lambda x: total(m, m.vmap(
        lambda y: m.lax.mul(y, m.lax.psum(y, "i")), axis_name="i")(x)))(x), X),
    # -- jit --
    "weak types survive jit": (lambda m, x: m.jit(lambda x: m.lax.mul(x, 2.0))(x), 3.0),
    "static arguments": (lambda m, x: m.jit(lambda x, n: [x] * n, static_argnums=1)(x, 3), X),
    "keyword arguments": (lambda m, x: m.jit(lambda x, *, y: m.lax.sub(x, y))(x, y=X), X),
    "results without work": (lambda m, x: m.jit(lambda x: (x, 1, x))(x), X),
    "jit in jit": (lambda m, x: m.jit(lambda x: m.jit(m.lax.sin)(m.jit(m.lax.cos)(x)))(x), X),
    "closed-over array": (lambda m, x: m.jit(lambda x: m.lax.mul(x, X))(x), X),
    "eval_shape": (lambda m, x: m.tree_util.tree_map(
        lambda s: np.zeros(s.shape, s.dtype),
        m.eval_shape(lambda x: {"a": m.lax.sin(x), "b": total(m, x)}, x)), M),
    "grad of jit of vmap of jvp": (lambda m, x: m.grad(lambda x: total(m, m.jit(m.vmap(
        lambda y: m.jvp(lambda z: cube(m, z), (y,), (1.0,))[1]))(x)))(x), X),
    "jit returns a vjp": (lambda m, x: m.jit(lambda x: m.vjp(m.lax.sin, x)[1])(x)(x), X),
    "clamp": (lambda m, x: m.jacrev(lambda x: m.lax.clamp(-0.4, x, 1.0))(x), X),
    # -- types --
    "derivatives of weak scalars": (lambda m: [
        m.value_and_grad(getattr(m.lax, name))(0.5) for name in UNARY.split()],),
    # That of pow's base is strong in jax, whereas here all cotangents promote as their primals do.
    "derivatives of weak pairs": (lambda m: [
        m.grad(getattr(m.lax, name), (0, 1))(0.5, 1.5)
        for name in BINARY.split() if name != "pow"],),
    "uint8 overflows": (lambda m: m.lax.add(np.uint8(250), np.uint8(10)),),
    "float16": (lambda m: m.lax.mul(np.float16(3), np.float16(0.1)),),
    "NumPy scalars are strong": (lambda m: m.lax.add(np.float32(1), 2.0),),
    "Python scalars are weak": (lambda m: (m.lax.add(1, 2), m.lax.mul(1.5, 2.0)),),
    "64 bits become 32": (lambda m: m.lax.neg(np.array([1.5, 2.5])),),
    "convert to float": (lambda m: m.lax.convert_element_type(np.int32(1), float),),
    "device_put": (lambda m, x: m.device_put({"a": x, "b": 3.0}), X),
    "take by integers": (lambda m, x, i: m.vmap(
        lambda i: m.lax.dynamic_index_in_dim(x, i, keepdims=False))(i), X, INDICES),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    program, *args = PROGRAMS[name]
    assert_agree(program, *args)


#: Programs without derivatives and batches: how those are written down is not promised.
PLAIN = ["weak types survive jit", "static arguments", "keyword arguments", "results without work",
         "jit in jit", "uint8 overflows", "float16", "NumPy scalars are strong",
         "Python scalars are weak", "64 bits become 32",
         "closed-over array"]


@pytest.mark.parametrize("name", PLAIN)
def test_equations(name):
    program, *args = PROGRAMS[name]
    assert_same_equations(program, *args)


NUMPY_PROGRAMS = {
    "a loss": (lambda m, x, w: m.grad(lambda w: m.numpy.mean((m.numpy.tanh(x @ w) - 1) ** 2))(w),
               M, np.ones((3, 2), np.float32)),
    "softmax": (lambda m, x: m.jacrev(lambda x: m.numpy.exp(x) / m.numpy.exp(x).sum())(x), X),
    "norm": (lambda m, x: m.grad(lambda x: m.numpy.sqrt((x**2).sum()))(x), X),
    "where": (lambda m, x: m.vmap(m.grad(lambda x: m.numpy.where(x > 0, x**2, -x)))(x), X),
    "indexing": (lambda m, x, i: m.grad(lambda x: (x[i] * m.numpy.arange(3.0)).sum())(x), X,
                 INDICES),
    "a mask": (lambda m, x: x_times_mask(m, x), X),
    "updates": (lambda m, x: m.grad(lambda x: x.at[1].set(2.0).at[0].mul(3.0).prod())(
        m.numpy.asarray(x)), X),
    "operators of trees": (lambda m, x: m.tree_util.tree_map(
        lambda a: a * 2 + 1, {"a": m.numpy.asarray(x), "b": (m.numpy.ones(2), 3)}), X),
    "scalars in comparisons": (lambda m, x: (m.numpy.asarray(x) > 0) & (m.numpy.asarray(x) < 1), X),
    "promotion": (lambda m: [
        m.numpy.add(np.ones(2, a), np.ones(2, b)) for a in DTYPES for b in DTYPES],),
    "promotion with scalars": (lambda m: [
        m.numpy.multiply(np.ones(2, a), b) for a in DTYPES for b in (True, 2, 2.0, 2j)],),
    "division": (lambda m: [m.numpy.ones(2, a) / m.numpy.ones(2, a) for a in DTYPES],),
    "reductions": (lambda m: [f(np.ones(2, a)) for a in DTYPES for f in (
        m.numpy.sum, m.numpy.mean, m.numpy.prod, m.numpy.max, m.numpy.cumsum, m.numpy.var)],),
    "unary functions": (lambda m: [f(np.ones(2, a)) for a in DTYPES for f in (
        m.numpy.sin, m.numpy.sqrt, m.numpy.square, m.numpy.abs, m.numpy.exp)],),
}
DTYPES = ["bool", "uint8", "uint32", "int8", "int32", "float16", "bfloat16", "float32",
          "complex64"]


def x_times_mask(m, x):
    x = m.numpy.asarray(x)
    return x[x > 0]


@pytest.mark.parametrize("name", NUMPY_PROGRAMS)
def test_numpy_program(name):
    program, *args = NUMPY_PROGRAMS[name]
    assert_agree(program, *args)


# ---- looks of what transformations return ----------------------------------------------


class Doubler:
    def __call__(self, x):
        return 2 * x


def plain(x: float, y: float = 2.) -> float:
    """Says."""
    return x * y


plain.note = 5
LOOKS = ["__name__", "__qualname__", "__module__", "__annotations__", "note"]
WRAPPERS = {
    name: operator.attrgetter(name) for name in (
        "jit", "grad", "value_and_grad", "jacfwd", "jacrev", "hessian", "vmap", "pmap",
        "checkpoint", "custom_jvp", "custom_vjp", "custom_batching.custom_vmap",
        "custom_batching.sequential_vmap", "numpy.vectorize")}
WRAPPERS["shard_map"] = lambda m: functools.partial(
    m.shard_map, mesh=m.make_mesh((1,), ("a",)), in_specs=m.P(), out_specs=m.P())


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_they_return_looks_like_the_function(name):
    for f in (plain, Doubler().__call__):
        ours, theirs = (WRAPPERS[name](m)(f) for m in (mjax, jax))
        for look in LOOKS:
            assert getattr(ours, look, None) == getattr(theirs, look, None), look
        assert (f is plain) == (ours.__doc__ or "").endswith("Says.")
        assert inspect.signature(ours) == inspect.signature(theirs)
    assert inspect.unwrap(WRAPPERS[name](mjax)(plain)) is plain
    wrapper = WRAPPERS[name](mjax)(Doubler())
    if inspect.isfunction(wrapper) and name != "numpy.vectorize":
        assert (wrapper.__name__, wrapper.__annotations__) == ("Doubler", {})
