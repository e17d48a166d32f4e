"""A primitive some of whose rules are replaced or left out, and uses of it."""

from __future__ import annotations

import numpy as np

import mjax
from mjax import lax
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, mlir, partial_eval

X = np.arange(3, dtype=np.float32)
XX = np.arange(15, dtype=np.float32).reshape(5, 3)
hlo = mlir.hlo


def scale_type(x, y, **params):
    return core.ShapedArray(x.shape, x.dtype)


def scale_jvp(primals, tangents, **params):
    x, y = primals
    dx, dy = map(ad.instantiate_zeros, tangents)
    return scale_p(x, y), lax.add(scale_p(dx, y), scale_p(x, dy))


RULES = {
    "impl": lambda x, y, **params: np.asarray(x) * np.asarray(y),
    "abstract_eval": scale_type,
    "lowering": lambda ctx, x, y, **params: hlo.MulOp(x, y).results,
    "jvp": scale_jvp,
    "transpose": lambda ct, x, y: [lax.mul(ct, y), None] if ad.is_undefined_primal(x) else [
        None, lax.mul(x, ct)],
    "batch": lambda args, dims, **params: (scale_p(*args), dims[0]),
}
current = []


def scale_p(x, y):
    return current[-1].bind(x, y)


def scale(multiple_results=False, without=(), **rules):
    """A function of the primitive `scale` (x * y) with some rules replaced or left out."""
    p = core.Primitive("scale", multiple_results=multiple_results)
    rules = {k: v for k, v in (RULES | rules).items() if k not in without}
    for table, field in ((ad.primitive_jvps, "jvp"), (ad.primitive_transposes, "transpose"),
                         (batching.primitive_batchers, "batch")):
        if field in rules:
            table[p] = rules[field]
    if "impl" in rules:
        p.def_impl(rules["impl"])
    if "abstract_eval" in rules:
        p.def_abstract_eval(rules["abstract_eval"])
    if "lowering" in rules:
        mlir.register_lowering(p, rules["lowering"])
    current[:] = [p]
    return p.bind


def total(f):
    return lambda *args: lax.reduce_sum(f(*args), (0,))


def run(f):
    return f(X, X)


def jit(f):
    return mjax.jit(lambda x, y: f(x, y))(X, X)


def jvp(f):
    return mjax.jvp(f, (X, X), (X, X))


def jvp_in_x(f):
    return mjax.jvp(lambda x: f(x, X), (X,), (X,))


def grad(f):
    return mjax.grad(total(f))(X, X)


def vmap(f):
    return mjax.vmap(f)(XX, XX)


def linearized(rule):
    """A primitive with two results and this linearize rule."""
    f = scale(multiple_results=True, impl=two_values, abstract_eval=two_types)
    ad.primitive_linearizations[current[-1]] = rule
    return f


def evaluated_in_part(rule):
    """A primitive with two results and this rule for operands of which some are unknown."""
    f = scale(multiple_results=True, impl=two_values, abstract_eval=two_types)
    partial_eval.custom_partial_eval_rules[current[-1]] = rule
    return f


def without_dead_code(rule):
    """A primitive with two results and this rule for results of which some are unused."""
    f = scale(multiple_results=True, impl=two_values, abstract_eval=two_types)
    partial_eval.dce_rules[current[-1]] = rule
    return f


def effectful(rule):
    """The primitive with this effectful abstract evaluation."""
    f = scale(without=("abstract_eval",))
    current[-1].def_effectful_abstract_eval(rule)
    return f


def of_a_program(impl):
    """A primitive whose types follow from a program, with this implementation."""
    p = core.Primitive("scale", multiple_results=True, types_cacheable=False)
    p.def_abstract_eval(two_types)
    p.def_impl(impl)
    current[:] = [p]
    return p.bind


def grad_of_first(f):
    return mjax.grad(lambda x, y: lax.reduce_sum(f(x, y)[0], (0,)))(X, X)


def cut(f):
    jaxpr = mjax.make_jaxpr(lambda x, y: f(x, y)[0])(X, X)
    return partial_eval.partial_eval_jaxpr(jaxpr, [False, True])


def prune(f):
    jaxpr = mjax.make_jaxpr(f)(X, X)
    return partial_eval.dce_jaxpr(jaxpr, [True, False])


def make_jaxpr(f):
    return mjax.make_jaxpr(f)(X, X)


def two_results(ctx, x, y):
    return hlo.MulOp(x, y).result, hlo.MulOp(x, y).result


def wide_type(x, y):
    return core.ShapedArray((9,), x.dtype)


def half_type(x, y):
    return core.ShapedArray(x.shape, np.float16)


def two_types(x, y):
    return [scale_type(x, y), scale_type(x, y)]


def two_values(x, y):
    return [np.asarray(x), np.asarray(y)]


#: what -> (the primitive, how it is used, what the text says).
