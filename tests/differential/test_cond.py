"""cond, switch, platform_dependent on both libraries: values, types, derivatives, equations."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree, primitive_names

X = np.array([0.3, -0.5, 1.1], np.float32)
Y = np.array([-1.2, 0.4, 0.8], np.float32)
XS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
PREDICATES = np.array([True, False, True, False])
INDICES = np.array([-3, 0, 1, 9], np.int32)


def plain(m, p, x, y):
    return m.lax.cond(p, lambda x, y: m.numpy.sin(x) * y, lambda x, y: m.numpy.exp(y) + x, x, y)


def tree(m, p, x, y):
    return m.lax.cond(p, lambda: {"a": x, "b": (y, x * y)}, lambda: {"a": y, "b": (y, x + 1)})


def one_sided(m, p, x, y):
    return m.lax.cond(p, lambda x: m.numpy.ones(3, "float32"), lambda x: m.numpy.tanh(x * y), x)


def integers(m, p, x, y):
    n, z = m.lax.cond(p, lambda n, x: (n * 2, x * n), lambda n, x: (n, m.numpy.cos(x)),
                      m.numpy.arange(3), x)
    return z * n + y


def nested(m, p, x, y):
    def outer(x):
        scale = m.numpy.exp(x)
        inner = m.lax.cond(p, lambda u: u * scale, lambda u: m.numpy.sin(u) * y, x * y)
        return m.lax.cond(m.numpy.sum(scale) > 0, lambda: inner * scale, lambda: inner)

    return m.lax.cond(p, outer, lambda x: x * y, x)


def switching(m, p, x, y):
    i = m.numpy.where(p, 1, 7)
    return m.lax.switch(i, [lambda x, y: x, lambda x, y: x * y, lambda x, y: m.numpy.sin(y)], x, y)


def platforms(m, p, x, y):
    return m.lax.platform_dependent(x, y, cpu=lambda x, y: x * m.numpy.sin(y),
                                    default=lambda x, y: x + y)


def jitted(m, p, x, y):
    return m.jit(lambda p, x, y: plain(m, p, m.jit(m.numpy.cos)(x), y))(p, x, y)


def scanned(m, p, x, y):
    def body(c, x):
        c = m.lax.cond(m.numpy.sum(x) > 0, lambda c: m.numpy.sin(c * x), lambda c: c * y, c)
        return c, m.lax.cond(p, lambda: c, lambda: x)

    c, ys = m.lax.scan(body, x, XS)
    return c + m.numpy.sum(ys, 0)


PROGRAMS = [plain, tree, one_sided, integers, nested, switching, platforms, jitted, scanned]


def total(m, f):
    return lambda *args: sum(m.numpy.sum(leaf ** 2) for leaf in m.tree_util.tree_leaves(f(*args)))


TRANSFORMED = {
    "value": lambda m, f: f,
    "jit": lambda m, f: m.jit(f),
    "jvp": lambda m, f: lambda p, x, y: m.jvp(lambda *a: f(p, *a), (x, y), (y, x)),
    "vjp": lambda m, f: lambda p, x, y: m.vjp(total(m, lambda *a: f(p, *a)), x, y)[1](1.0),
    "grad": lambda m, f: m.grad(total(m, f), (1, 2)),
    "grad of jit": lambda m, f: m.grad(m.jit(total(m, f)), (1, 2)),
    "hessian": lambda m, f: m.jit(m.hessian(total(m, f), 1)),
    "third order": lambda m, f: m.jit(lambda p, x, y: m.grad(lambda x: m.numpy.sum(m.hessian(
        total(m, f), 1)(p, x, y)))(x)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program(program, name):
    def run(m, p, x, y):
        return TRANSFORMED[name](m, lambda *args: program(m, *args))(p, x, y)

    for p in (True, False):
        assert_agree(run, p, X, Y, tolerance=1e-4)


BATCHED = {
    "vmap": lambda m, f: m.vmap(f),
    "vmap of predicates": lambda m, f: lambda p, x, y: m.vmap(f, (0, None, None))(p, x[0], y[0]),
    "vmap of operands": lambda m, f: lambda p, x, y: m.vmap(f, (None, 0, None))(p[0], x, y[0]),
    "vmap of grad": lambda m, f: m.vmap(m.grad(total(m, f), (1, 2))),
    "grad of vmap": lambda m, f: m.grad(lambda p, x, y: m.numpy.sum(m.vmap(
        total(m, f), (0, 0, None))(p, x, y[0])), (1, 2)),
    "jit of vmap of jvp": lambda m, f: m.jit(m.vmap(lambda p, x, y: m.jvp(
        lambda x: f(p, x, y), (x,), (y,)))),
}


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_batch(program, name):
    def run(m, p, x, y):
        return BATCHED[name](m, lambda *args: program(m, *args))(p, x, y)

    assert_agree(run, PREDICATES, XS, XS[::-1], tolerance=1e-4)


#: Short programs, for what is accepted and what types come out.
SMALL = {
    "a weak result": (lambda m, p: m.lax.cond(p, lambda: 1, lambda: 2), True),
    "a strong result": (lambda m, p: m.lax.cond(p, lambda: 1.0, lambda: np.float32(2)), True),
    "weak if false": (lambda m, p: m.lax.cond(p, lambda: np.int32(1), lambda: 2), True),
    "weak if true": (lambda m, p: m.lax.cond(p, lambda: 1, lambda: np.int32(2)), True),
    "weak at first": (lambda m, i: m.lax.switch(i, [lambda: 1, lambda: np.int32(2)]), 1),
    "weak at last": (lambda m, i: m.jit(lambda i: m.lax.switch(
        i, [lambda: np.int32(1), lambda: 2]))(i), 1),
    "one weak of a batch": (lambda m, p: m.vmap(lambda p: m.lax.cond(
        p, lambda: np.int32(1), lambda: 2))(p), PREDICATES),
    "axis names": (lambda m, x: m.vmap(lambda x: (
        m.lax.cond(True, lambda: m.lax.axis_index("i"), lambda: 0),
        m.lax.cond(x > 0, lambda x: m.lax.psum(x, "i"), lambda x: -x, x),
        m.lax.cond(m.numpy.array(True), lambda: m.lax.psum(x, "i"), lambda: -x)),
        axis_name="i")(x), X),
    "of nothing": (lambda m, p: m.lax.cond(p, lambda: None, lambda: None), True),
    "a float predicate": (lambda m, p: m.lax.cond(p, lambda: 1, lambda: 2), 0.5),
    "an integer predicate": (lambda m, p: m.jit(lambda p: m.lax.cond(
        p, lambda: 1, lambda: 2))(p), np.int8(0)),
    "nan": (lambda m, p: m.lax.cond(p, lambda: 1, lambda: 2), np.float32(np.nan)),
    "index below": (lambda m, i: m.lax.switch(i, [lambda x: x, lambda x: x * 2], 3), -5),
    "index above": (lambda m, i: m.lax.switch(i, [lambda x: x, lambda x: x * 2], 3), 5),
    "indices": (lambda m, i: m.vmap(lambda i, x: m.lax.switch(
        i, [lambda x: x, lambda x: x * 2, lambda x: -x], x))(i, XS), INDICES),
    "small indices": (lambda m, i: m.vmap(lambda i: m.lax.switch(
        i, [lambda: 1, lambda: 2, lambda: 3]))(i), INDICES.astype(np.uint8)),
    "one branch": (lambda m, i: m.lax.switch(i, [lambda x: x * 2], X), 5),
    "operand by name": (lambda m, p: m.lax.cond(p, lambda x: x, lambda x: -x, operand=X), True),
    "operand None": (lambda m, p: m.lax.cond(p, lambda x: 1, lambda x: 2, operand=None), True),
    "the old form": (lambda m, p: m.lax.cond(p, X, lambda x: x * 2, XS, lambda x: x[0]), False),
    "finite gradients": (lambda m, x: m.grad(lambda x: m.numpy.sum(m.vmap(lambda x: m.lax.cond(
        x > 0, m.numpy.log, lambda x: x, x))(x)))(x), np.array([0, 1, 2], np.float32)),
    "keys": (lambda m, p: m.random.key_data(m.vmap(lambda p: m.lax.cond(
        p, lambda k: m.random.split(k)[1], lambda k: k, m.random.key(3)))(p)), PREDICATES),
}


@pytest.mark.parametrize("name", SMALL)
def test_small(name):
    program, *args = SMALL[name]
    assert_agree(program, *args)


#: Bad input: what jax refuses, by the class of its error.
REFUSED = {
    "vector predicate": lambda m: m.lax.cond(np.ones(2, bool), lambda: 1, lambda: 2),
    "no predicate": lambda m: m.lax.cond(None, lambda: 1, lambda: 2),
    "a list": lambda m: m.lax.cond([True], lambda: 1, lambda: 2),
    "complex predicate": lambda m: m.lax.cond(1j, lambda: 1, lambda: 2),
    "no functions": lambda m: m.lax.cond(True, 1, 2),
    "trees": lambda m: m.lax.cond(True, lambda: (1, 2), lambda: [1, 2]),
    "leaves": lambda m: m.lax.cond(True, lambda: {"a": 1}, lambda: {"b": 1}),
    "shapes": lambda m: m.lax.cond(True, lambda: X, lambda: X[:2]),
    "dtypes": lambda m: m.lax.cond(True, lambda: X, lambda: X.astype(np.int32)),
    "weak dtypes": lambda m: m.lax.cond(True, lambda: 1, lambda: 1.0),
    "weak and narrow": lambda m: m.lax.cond(True, lambda: 1, lambda: np.int8(1)),
    "bool and int": lambda m: m.lax.cond(True, lambda: True, lambda: 1),
    "operand twice": lambda m: m.lax.cond(True, lambda x: x, lambda x: x, 1, operand=2),
    "text": lambda m: m.lax.cond(True, lambda x: x, lambda x: x, "x"),
    "float index": lambda m: m.lax.switch(1.0, [lambda: 1, lambda: 2]),
    "bool index": lambda m: m.lax.switch(True, [lambda: 1, lambda: 2]),
    "vector index": lambda m: m.lax.switch(INDICES, [lambda: 1, lambda: 2]),
    "no branches": lambda m: m.lax.switch(0, []),
    "gpu": lambda m: m.lax.platform_dependent(1, gpu=lambda x: x),
    "no such platform": lambda m: m.lax.platform_dependent(1, tpu=lambda x: x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises(Exception) as theirs:
        REFUSED[name](jax)
    with pytest.raises(type(theirs.value)):
        REFUSED[name](mjax)


# ---- equations -------------------------------------------------------------------------


def structure(jaxpr):
    """The primitives of a program, those of branches nested."""
    found = []
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name == "jit":
            found += structure(eqn.params["jaxpr"].jaxpr)
        elif name == "cond":
            found.append([structure(b.jaxpr) for b in eqn.params["branches"]])
        else:
            found.append(name)
    return found


@pytest.mark.parametrize("program", [
    plain, tree, one_sided, nested, platforms, jitted,
    lambda m, p, x, y: m.lax.cond(p, lambda x, y: (x, y, x), lambda x, y: (x, x, y), x, y),
    lambda m, p, x, y: m.lax.switch(m.lax.convert_element_type(p, np.int32), [
        lambda: x, lambda: y, lambda: m.lax.sin(x)]),
    lambda m, p, x, y: m.lax.switch(m.lax.convert_element_type(p, np.int8), [
        lambda: x, lambda: y]),
    lambda m, p, x, y: m.lax.cond(True, lambda: x, lambda: y),
    lambda m, p, x, y: m.lax.cond(m.lax.reduce_sum(x, (0,)), lambda: x, lambda: y),
])
def test_equations(program):
    ours, theirs = (m.make_jaxpr(lambda *args, m=m: program(m, *args))(np.True_, X, Y)
                    for m in (mjax, jax))
    assert structure(ours) == structure(theirs.jaxpr), f"{ours}\n{theirs}"
    for mine, other in zip(ours.eqns, theirs.jaxpr.eqns, strict=True):
        if mine.primitive.name == "cond":
            assert list(mine.params) == list(other.params)
            assert len(mine.invars) == len(other.invars)
            assert len(mine.outvars) == len(other.outvars)
        if mine.primitive.name == "platform_index":
            assert mine.params == other.params


def test_derivatives_keep_no_more():
    """Forward branches compute at most as much for the backward ones as in jax."""
    def kept(m, program):
        jaxpr = m.make_jaxpr(m.grad(total(m, lambda *args: program(m, *args)), (1, 2)))(True, X, Y)
        eqns = [e for e in jaxpr.jaxpr.eqns if e.primitive.name == "cond"]
        return len(eqns), sum(len(e.outvars) for e in eqns)

    for program in (plain, one_sided, nested, switching):
        (n, ours), (count, theirs) = kept(mjax, program), kept(jax, program)
        assert n == count and ours <= theirs, program


def test_a_batched_predicate_is_a_choice_in_both():
    for m in (mjax, jax):
        jaxpr = m.make_jaxpr(m.vmap(lambda p, x, y, m=m: plain(m, p, x, y)))(PREDICATES, XS, XS)
        names = primitive_names(jaxpr.jaxpr)
        assert "cond" not in names and names.count("select_n") == 5
