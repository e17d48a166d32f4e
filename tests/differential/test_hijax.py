"""Types and primitives of authors, written once and run on mjax and on JAX."""

from __future__ import annotations

import jax
import jax._src.hijax  # MappingSpec is not public there
import jax.experimental.hijax
import numpy as np
import pytest

import mjax
import mjax.experimental.hijax
from tests.hijax.families import family

ON = {"mjax": family(mjax, mjax.experimental.hijax, mjax.experimental.hijax.MappingSpec),
      "jax": family(jax, jax.experimental.hijax, jax._src.hijax.MappingSpec)}
X = np.array([[1.0, -2.0, 4.0], [0.5, 3.0, -1.0]], np.float32)
Y = np.array([[2.0, 1.0, 0.5], [-1.0, 2.0, 3.0]], np.float32)


def product(f, t):
    return f.part(t, 0) * f.part(t, 1)


def swapped(f, t):
    return f.pack(f.part(t, 1), f.part(t, 0))


def loss(f, q):
    return (f.dequantize(q) ** 2).sum()


def cube(f, x):
    return f.pulled(x, 3)


PROGRAMS = {
    "eager": lambda m, f: f.dequantize(f.quantize(X)),
    "jit": lambda m, f: m.jit(f.dequantize)(m.jit(f.quantize)(X)),
    "leaves": lambda m, f: m.jit(f.quantize)(X).numbers,
    "closed over": lambda m, f, q=None: (lambda q: m.jit(lambda y: f.dequantize(q) + y)(Y))(
        f.quantize(X)),
    "ahead of time": lambda m, f: m.jit(f.dequantize).lower(f.quantize(X)).compile()(
        f.quantize(X)),
    "grad": lambda m, f: m.grad(lambda x: loss(f, f.quantize(x)))(X),
    "grad in a value": lambda m, f: m.grad(lambda q: loss(f, q))(f.quantize(X)),
    "vjp": lambda m, f: m.vjp(m.jit(lambda q: loss(f, q)), f.quantize(X))[1](np.float32(2)),
    "jvp": lambda m, f: m.jvp(f.dequantize, (f.quantize(X),), (Y,)),
    "linearize": lambda m, f: m.linearize(lambda x: f.dequantize(f.quantize(x)) ** 2, X)[1](Y),
    "scan": lambda m, f: f.dequantize(m.lax.scan(
        lambda c, _: (f.quantize(f.dequantize(c) + 1), None), f.quantize(X), None, length=3)[0]),
    "cond": lambda m, f: f.dequantize(m.lax.cond(
        False, lambda q: q, lambda q: f.quantize(f.dequantize(q) + 1), f.quantize(X))),
    "while": lambda m, f: f.dequantize(m.lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, f.quantize(2 * f.dequantize(c[1]))),
        (0, f.quantize(X)))[1]),
    "tuples": lambda m, f: m.jit(lambda t: swapped(f, t))(f.Tuple((X, Y))).parts,
    "types of types": lambda m, f: m.jit(lambda t: f.dequantize(f.part(t, 0)))(
        f.Tuple((f.quantize(X), Y))),
    "operators": lambda m, f: (lambda x: m.jit(lambda t: (x + t)[1] * len(t.types))(
        f.Tuple((X, Y))))(m.numpy.asarray(X)),
    "attributes": lambda m, f: m.jit(lambda t: t.part(0) * t.count)(f.Tuple((X, Y))),
    "tuple jvp": lambda m, f: m.jvp(
        lambda t: product(f, t), (f.Tuple((X, Y)),), (f.Tuple((Y, X)),)),
    "tuple grad": lambda m, f: m.grad(lambda t: product(f, t).sum())(f.Tuple((X, Y))).parts,
    "tuple jit grad": lambda m, f: m.jit(m.grad(
        lambda x: product(f, f.pack(x, 3 * x)).sum()))(X),
    "tuple remat": lambda m, f: m.grad(m.checkpoint(
        lambda x: product(f, f.pack(x, 3 * x)).sum()))(X),
    "scan over slices": lambda m, f: m.lax.scan(
        lambda c, t: (c + product(f, t).sum(), swapped(f, t)), 0.0, f.Tuple((X, Y)), length=2)[0],
    "stacked": lambda m, f: m.lax.scan(
        lambda c, t: (c, swapped(f, t)), 0.0, f.Tuple((X, Y)), length=2)[1].parts,
    "scan grad": lambda m, f: m.grad(lambda x: m.lax.scan(
        lambda c, t: (c + product(f, t).sum(), None), 0.0, f.pack(x, 2 * x), length=2)[0])(X),
    "vmap": lambda m, f: m.vmap(lambda t: product(f, t), in_axes=f.TupleSpec((0, 1)),
                                axis_size=2)(f.Tuple((X, Y.T))),
    "vmap with arrays": lambda m, f: m.vmap(
        lambda a, t: a * f.part(t, 1), in_axes=(0, f.TupleSpec((0, 1))))(X, f.Tuple((X, Y.T))),
    "vmap to values": lambda m, f: m.vmap(f.pack, out_axes=f.TupleSpec((0, 0)))(X, Y).parts,
    "vmap inside": lambda m, f: m.jit(m.vmap(lambda x, y: product(f, f.pack(x, y)), (0, 1)))(
        X, Y.T),
    "vmap grad": lambda m, f: m.vmap(m.grad(
        lambda x, y: product(f, f.pack(x, y)).sum(), (0, 1)))(X, Y),
    "power": lambda m, f: m.jit(lambda x: cube(f, x))(X),
    "power jvp": lambda m, f: m.jvp(lambda x: cube(f, x), (X,), (Y,)),
    "power grad": lambda m, f: m.jit(m.grad(lambda x: cube(f, x).sum()))(X),
    "power remat": lambda m, f: m.grad(m.checkpoint(lambda x: cube(f, x).sum()))(X),
    "power vmap": lambda m, f: m.vmap(lambda x: cube(f, x), 1, 1)(X),
    "power grad vmap": lambda m, f: m.grad(
        lambda x: m.vmap(lambda x: f.returned(x, 3))(x).sum())(X),
    "power vmap vmap": lambda m, f: m.grad(
        lambda x: m.vmap(m.vmap(lambda x: f.returned(x, 3)), 1, 1)(x).sum())(X),
    "power scan": lambda m, f: m.grad(lambda x: m.lax.scan(
        lambda c, _: (cube(f, c) / 8, None), x, None, length=2)[0].sum())(X),
    "power hessian": lambda m, f: m.hessian(lambda x: cube(f, x).sum())(X[0]),
    "power grad grad": lambda m, f: m.grad(m.grad(lambda x: cube(f, x)))(2.0),
    "lin": lambda m, f: m.linearize(lambda x: f.linearized(x, 3), X)[1](Y),
    "several": lambda m, f: f.weighted(np.float32(3), X[0]),
    "several grad": lambda m, f: m.grad(lambda w, x: sum(
        y.sum() for y in f.weighted(w, x)), (0, 1))(np.float32(3), X[0]),
    "several vmap": lambda m, f: m.vmap(f.weighted, (None, 0))(np.float32(3), X),
    "several vmap grad": lambda m, f: m.grad(lambda w, x: sum(
        y.sum() for y in m.vmap(f.weighted, (None, 0))(w, x)), (0, 1))(np.float32(3), X),
}


def leaves_of(m, out):
    return [np.asarray(leaf) for leaf in m.tree.leaves(out)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    program = PROGRAMS[name]
    found, wanted = (leaves_of(m, program(m, ON[m.__name__])) for m in (mjax, jax))
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in wanted]
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)


REFUSED = {
    "types": lambda m, f: m.jit(lambda x: f.dequantize(f.Quantized(x.astype("int8"), x[:, 0])))(X),
    "moved": lambda m, f: m.vmap(f.pack, out_axes=f.TupleSpec((0, 1)))(X, Y),
    "length": lambda m, f: m.lax.scan(lambda c, t: (c, None), 0.0, f.Tuple((X, Y))),
    "size": lambda m, f: m.vmap(lambda t: f.part(t, 0), in_axes=f.TupleSpec((0, 0)))(
        f.Tuple((X, Y))),
    "no jvp": lambda m, f: m.jvp(lambda x: f.linearized(x, 3), (X,), (Y,)),
    "no batching": lambda m, f: m.vmap(f.quantize)(X[None]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    errors = []
    for m in (mjax, jax):
        with pytest.raises((TypeError, ValueError, NotImplementedError)) as caught:
            REFUSED[name](m, ON[m.__name__])
        errors.append(caught.value)
    mine, theirs = errors
    assert isinstance(mine, type(theirs)), errors


def test_jaxprs_show_operations_alike() -> None:
    for program in (lambda f, x: f.dequantize(f.quantize(x)), cube):
        mine, theirs = (m.make_jaxpr(lambda x, m=m, program=program: program(
            ON[m.__name__], x))(X) for m in (mjax, jax))
        assert [e.primitive.name for e in mine.eqns] == [e.primitive.name for e in theirs.eqns]
        assert [*mine.eqns[0].params] == [*theirs.eqns[0].params]
        assert [str(v.aval) for v in mine.eqns[0].outvars] == [
            str(v.aval) for v in theirs.eqns[0].outvars]


def test_names() -> None:
    lacking = {name for name in dir(jax.experimental.hijax) if not name.startswith("_")} - set(
        mjax.experimental.hijax.__all__)
    assert lacking == {"AvalMutableQDD", "AvalQDD", "HiPspec", "MutableHiType", "TransformedRef"}
