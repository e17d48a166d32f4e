"""Mistakes that a rule makes after it was right: types that agreed once are not compared again."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax_ext import core
from mjax_ext.core import primitives
from mjax_ext.interpreters import ad, batching

X = np.ones(3, np.float32)


def reduction(name, jvp_axis, batch_axis=None):
    """A sum over one axis of a matrix; the rules sum over the axes of these functions of it."""
    p = core.Primitive(name, params={"axis": int})
    total = lambda x, axis: lax.reduce_sum(x, (axis,))
    p.def_impl(lambda x, *, axis: total(x, axis))
    p.def_abstract_eval(lambda x, *, axis: x.update(
        shape=x.shape[:axis] + x.shape[axis + 1:]))
    ad.primitive_jvps[p] = lambda primals, tangents, *, axis: (
        total(*primals, jvp_axis(axis)), total(*tangents, axis))
    if batch_axis is not None:
        batching.primitive_batchers[p] = lambda args, dims, *, axis: (
            total(*args, batch_axis(axis) + 1), 0)
    return p


def test_other_params():
    p = reduction("sum of an axis", lambda axis: 0, lambda axis: 0)
    x = np.ones((2, 5), np.float32)
    mjax.jvp(lambda x: p.bind(x, axis=0), (x,), (x,))
    with pytest.raises(TypeError, match=r"jvp rule of primitive 'sum of an axis'.*a primal of type "
                       r"float32\[5\], but the abstract evaluation says float32\[2\]"):
        mjax.jvp(lambda x: p.bind(x, axis=1), (x,), (x,))
    mjax.vmap(lambda x: p.bind(x, axis=0))(x[None])
    with pytest.raises(TypeError, match=r"batching rule of primitive 'sum of an axis'.*says "
                       r"float32\[2\]"):
        mjax.vmap(lambda x: p.bind(x, axis=1))(x[None])


def test_other_types_and_sizes():
    p = core.Primitive("copy of three")
    p.def_abstract_eval(lambda x: x)
    p.def_impl(lambda x: x)
    ad.primitive_jvps[p] = lambda primals, tangents: (*primals, np.ones(3, np.float32))
    batching.primitive_batchers[p] = lambda args, dims: (np.ones((2, 3), np.float32), 0)
    mjax.jvp(p.bind, (X,), (X,))
    mjax.vmap(p.bind)(np.ones((2, 3), np.float32))
    with pytest.raises(TypeError, match=r"jvp rule.*a tangent of type float32\[3\] for a result of "
                       r"type float32\[4\]"):
        mjax.jvp(p.bind, (np.ones(4, np.float32),), (np.ones(4, np.float32),))
    with pytest.raises(TypeError, match="batching rule.*that axis must exist and have size 4"):
        mjax.vmap(p.bind)(np.ones((4, 3), np.float32))


@pytest.mark.parametrize("other", [2.0, True, np.float16(2)])
def test_a_number_of_another_class(other):
    p = core.Primitive("promoted product")
    p.def_abstract_eval(lambda x, y: x if y.dtype == np.int32 else x.update(dtype=y.dtype))
    batching.primitive_batchers[p] = lambda args, dims: (args[0], dims[0])
    x = np.ones(3, np.int32)
    trace = lambda y: mjax.make_jaxpr(mjax.vmap(lambda x: p.bind(x, y)))(x)
    trace(int(other))
    with pytest.raises(TypeError, match="batching rule of primitive 'promoted product'.*says"):
        trace(other)


def test_an_operand_of_another_integer_type():
    p = core.Primitive("as precise as")
    p.def_abstract_eval(lambda x, n: x.update(dtype=np.dtype(f"f{n.dtype.itemsize}")))
    p.def_impl(lambda x, n: x)
    ad.primitive_jvps[p] = lambda primals, tangents: (primals[0], tangents[0])
    trace = lambda n: mjax.make_jaxpr(lambda x: mjax.jvp(p.bind, (x, n), (
        x, np.zeros(3, mjax.dtypes.float0))))(X)
    trace(np.ones(3, np.int32))
    with pytest.raises(TypeError, match="jvp rule of primitive 'as precise as'.*says float16"):
        trace(np.ones(3, np.int16))


def test_lists_of_two_lengths():
    more = []
    p = core.Primitive("pair", multiple_results=True)
    p.def_abstract_eval(lambda x: [x, x])
    ad.primitive_jvps[p] = lambda primals, tangents: (
        [*primals] * 2 + more[:1], [*tangents] * 2 + more[1:])
    batching.primitive_batchers[p] = lambda args, dims: (
        [*args] * 2 + more[:1], [*dims] * 2 + more[1:])
    jvp = lambda: mjax.make_jaxpr(lambda x: mjax.jvp(p.bind, (x,), (x,)))(X)
    vmap = lambda: mjax.make_jaxpr(mjax.vmap(p.bind))(X)
    jvp(), vmap()
    for extra in [X], [X, X], [X, X, X]:
        more[:] = extra
        with pytest.raises(TypeError, match="jvp rule of primitive 'pair'"):
            jvp()
        with pytest.raises(TypeError, match="batching rule of primitive 'pair'"):
            vmap()


def test_another_form():
    given = []
    p = core.Primitive("two copies", multiple_results=True)
    p.def_abstract_eval(lambda x: [x, x])
    p.def_impl(lambda x: [x, x])

    @p.def_jvp
    def jvp(primals, tangents):
        return given[-1](*primals), given[-1](*tangents)

    @p.def_batch
    def batch(args, dims):
        out = given[-1](*args)
        return out, [0] * 2

    def trace(transform, x):
        return mjax.make_jaxpr(lambda x: transform(lambda x: p.bind(x))(x))(x)

    jvp_of = lambda f: lambda x: mjax.jvp(f, (x,), (x,))[1]
    given.append(lambda x: [x, x])
    xx = np.ones((2, 3), np.float32)
    for _ in range(2):
        trace(jvp_of, X)
        trace(mjax.vmap, xx)
    stacked = lambda x: lax.concatenate([lax.reshape(x, (1, *x.shape))] * 2, 0)
    for wrong in (lambda x: [x], lambda x: [x, x, x], lambda x: (v for v in [x, x]), stacked,
                  lambda x: None):
        given.append(wrong)
        with pytest.raises(TypeError, match="jvp rule of primitive 'two copies'.*2 for 2 results"):
            trace(jvp_of, X)
        with pytest.raises(TypeError, match="batching rule of primitive 'two copies'.*2 for 2"):
            trace(mjax.vmap, xx)


@pytest.mark.parametrize("several", [False, True])
def test_batch_dimensions_that_equal_others(several):
    kinds = [int]
    p = core.Primitive(f"copy, {several}", multiple_results=several)
    p.def_abstract_eval(lambda x: [x] if several else x)

    @p.def_batch
    def batch(args, dims):
        dim = kinds[-1](dims[0])
        return ([args[0]], [dim]) if several else (args[0], dim)

    def trace():
        found = []
        f = lambda x: found.append(p.bind(x)) or x
        mjax.make_jaxpr(mjax.vmap(f, in_axes=1))(np.ones((2, 3), np.float32))
        return found[0][0] if several else found[0]

    for kind in int, int, np.int64, np.int64, bool:
        kinds.append(kind)
        dim = trace().dim
        assert type(dim) is int and dim == 1
    for wrong in float, np.float32:
        kinds.append(wrong)
        with pytest.raises(TypeError, match="batching rule.*must be an axis of the result, an int"):
            trace()


def test_another_rule():
    p = core.Primitive("replaced")
    p.def_abstract_eval(lambda x: x)
    ad.primitive_jvps[p] = lambda primals, tangents: (*primals, *tangents)
    batching.primitive_batchers[p] = lambda args, dims: (args[0], 0)
    for _ in range(2):
        mjax.make_jaxpr(lambda x: mjax.jvp(p.bind, (x,), (x,)))(X)
        mjax.make_jaxpr(mjax.vmap(p.bind))(X)
    p.def_abstract_eval(lambda x: x.update(dtype=np.dtype(np.float16)))
    with pytest.raises(TypeError, match="jvp rule of primitive 'replaced'.*says float16"):
        mjax.make_jaxpr(lambda x: mjax.jvp(p.bind, (x,), (x,)))(X)
    with pytest.raises(TypeError, match="batching rule of primitive 'replaced'.*says float16"):
        mjax.make_jaxpr(mjax.vmap(p.bind))(X)


def test_rules_of_users_on_primitives_of_the_engine():
    rule = lax.cbrt_p.jvp
    compared = lax.cbrt_p.compared
    try:
        ad.primitive_jvps[lax.cbrt_p] = lambda primals, tangents, accuracy=None: (X[:2], X[:2])
        with pytest.raises(TypeError, match=r"jvp rule of primitive 'cbrt'.*says float32\[3\]"):
            mjax.jvp(lax.cbrt, (X,), (X,))
    finally:
        lax.cbrt_p.undefine("jvp")
        object.__setattr__(lax.cbrt_p, "jvp", rule)
    assert not compared
    assert not lax.cbrt_p.compared


def test_operands_that_do_not_fit_come_before_what_rules_raise():
    p = core.Primitive("of equal shapes")

    @p.def_abstract_eval
    def abstract_eval(x, y):
        if x.shape != y.shape:
            raise ValueError("the shapes differ")
        return x

    def fail(*args):
        raise RuntimeError("a rule that trusts its operands")

    ad.primitive_jvps[p] = fail
    batching.primitive_batchers[p] = fail
    for f in (lambda x: mjax.jvp(lambda x: p.bind(x, X[:2]), (x,), (x,)),
              lambda x: mjax.vmap(lambda x: p.bind(x, X))(x)):
        with pytest.raises(ValueError, match="the shapes differ") as found:
            mjax.make_jaxpr(f)(X)
        assert found.value.__suppress_context__
    with pytest.raises(RuntimeError, match="trusts its operands"):
        mjax.make_jaxpr(mjax.vmap(p.bind))(X, X)


def test_operands_that_do_not_fit_are_refused_whatever_a_rule_does():
    x = np.ones((3, 2), np.float32)
    for p in lax.mul_p, lax.add_p:
        with pytest.raises(TypeError, match=r"of shapes \(2,\), \(3,\)"):  # those of elements
            mjax.make_jaxpr(mjax.vmap(lambda v, p=p: p.bind(v, X)))(x)


def test_engine_primitives_are_not_compared():
    compared = [p for p in map(primitives.__dict__.get, primitives.__all__) if p.compared]
    assert not compared
