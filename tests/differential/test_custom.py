"""Functions with rules of their own on both libraries: values, derivatives, jaxprs, what is
refused."""

from __future__ import annotations

import functools
import inspect

import jax
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree, assert_equal_results, primitive_names

RNG = np.random.default_rng(5)
X, Y, DX, DY = RNG.normal(size=(4, 3)).astype(np.float32)
XS, YS = RNG.normal(size=(2, 4, 3)).astype(np.float32)
LIBRARIES = pytest.mark.parametrize("m", [mjax, jax], ids=["mjax", "jax"])

# ---- functions of two arrays, made in either library -----------------------------------


def product(m):
    return lambda x, y: m.numpy.sin(x) * y


def jvp(m):
    f = m.custom_jvp(product(m))

    @f.defjvp
    def f_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), 2 * m.numpy.cos(x) * dx * y + 3 * m.numpy.sin(x) * dy

    return f


def jvps(m):
    f = m.custom_jvp(product(m))
    f.defjvps(lambda dx, out, x, y: 2 * dx * out, None)
    return f


def jvp_of_function(m):
    f = m.custom_jvp(lambda g, x, y: g(x) * y, nondiff_argnums=(0,))
    f.defjvp(lambda g, p, t: (f(g, *p), 5 * g(p[0]) * t[1]))
    return functools.partial(f, m.numpy.sin)


def jvp_with_zeros(m):
    f = m.custom_jvp(product(m))

    def f_jvp(primals, tangents):
        zeros = [type(t) is m.custom_derivatives.SymbolicZero for t in tangents]
        terms = [t * p for p, t, z in zip(primals, tangents, zeros) if not z]
        return f(*primals), functools.reduce(m.numpy.add, terms) * (2 + sum(zeros))

    f.defjvp(f_jvp, symbolic_zeros=True)
    return f


def jvp_of_trees(m):
    f = m.custom_jvp(lambda d, n=2: {"out": d["x"] * d["y"] * n, "n": n})

    @f.defjvp
    def f_jvp(primals, tangents):
        (d, n), (dd, dn) = primals, tangents
        return f(d, n), {"out": 5 * dd["x"] * d["y"], "n": dn}

    # NumPy arrays would be multiplied by NumPy in jax.
    return lambda x, y: f({"x": m.numpy.asarray(x), "y": m.numpy.asarray(y)})["out"]


def vjp(m):
    f = m.custom_vjp(product(m))
    f.defvjp(lambda x, y: (f(x, y), (x, y)),
             lambda r, ct: (2 * m.numpy.cos(r[0]) * r[1] * ct, 3 * m.numpy.sin(r[0]) * ct))
    return f


def vjp_of_trees(m):
    f = m.custom_vjp(lambda d, n: {"out": d["x"] * d["y"], "n": n})
    f.defvjp(lambda d, n: (f(d, n), {"d": d}),
             lambda r, ct: ({"x": 2 * ct["out"] * r["d"]["y"], "y": None}, None))
    return lambda x, y: f({"x": x, "y": y}, 3)["out"]


def vjp_of_function(m):
    f = m.custom_vjp(lambda x, g, y: g(x) * y, nondiff_argnums=(1,))
    f.defvjp(lambda x, g, y: (f(x, g, y), x), lambda g, x, ct: (5 * g(x) * ct, ct))
    return lambda x, y: f(x, m.numpy.sin, y)


def vjp_with_zeros(m):
    f = m.custom_vjp(lambda x, y: (x * y, x + y))

    def fwd(x, y):
        assert x.perturbed
        return (x.value * y.value, x.value + y.value), (x.value, y.value if y.perturbed else None)

    def bwd(r, cts):
        zeros = [type(ct) is m.custom_derivatives.SymbolicZero for ct in cts]
        total = functools.reduce(m.numpy.add, [ct for ct, z in zip(cts, zeros) if not z])
        return total * (2 + sum(zeros)), None if r[1] is None else 5 * total

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return lambda x, y: f(x, y)[0]


def gradient(m):
    return m.custom_gradient(lambda x, y: (x * y, lambda ct: (2 * ct * m.numpy.sin(y), 3 * ct)))


def jvp_around_vjp(m):
    inner = vjp(m)
    f = m.custom_jvp(lambda x, y: inner(x, y) + x)
    f.defjvp(lambda p, t: (f(*p), 2 * inner(*p) * t[0] + t[1]))
    return f


def vjp_around_jit(m):
    f = m.custom_vjp(m.jit(product(m)))
    f.defvjp(m.jit(lambda x, y: (f(x, y), x)), m.jit(lambda x, ct: (5 * ct, x * ct)))
    return f


JVP = [jvp, jvps, jvp_of_function, jvp_with_zeros, jvp_of_trees]
VJP = [vjp, vjp_of_trees, vjp_of_function, vjp_with_zeros, gradient, jvp_around_vjp,
       vjp_around_jit]

# ---- transformations -------------------------------------------------------------------


def total(out):
    return (out * out).sum()


def loss(f):
    return lambda x, y: total(f(x, y))


def scanned(m, f):
    return lambda x, y: m.lax.scan(lambda c, z: (f(c, z), c), x, m.numpy.stack([y, x, y]))[0]


REVERSE = {
    "eval": lambda m, f: f(X, Y),
    "jit": lambda m, f: m.jit(f)(X, Y),
    "vjp": lambda m, f: m.vjp(f, X, Y)[1](DX),
    "vjp of jit": lambda m, f: m.vjp(m.jit(f), X, Y)[1](DX),
    "jit of grad": lambda m, f: m.jit(m.grad(loss(f), (0, 1)))(X, Y),
    "grad in the first": lambda m, f: m.grad(loss(f))(X, Y),
    "vmap": lambda m, f: m.vmap(f, (0, None))(XS, Y),
    "vmap of grad": lambda m, f: m.vmap(m.grad(loss(f), (0, 1)))(XS, YS),
    "grad of vmap": lambda m, f: m.grad(loss(m.vmap(f, (0, None))), (0, 1))(XS, Y),
    "jit of all": lambda m, f: m.jit(m.vmap(m.grad(loss(m.vmap(f, (None, 0))), (0, 1)),
                                            (0, None)))(XS, YS),
    "second order": lambda m, f: m.jacrev(m.grad(lambda x: loss(f)(x, Y)))(X),
    "third order": lambda m, f: m.jit(m.jacrev(m.jacrev(m.grad(lambda x: loss(f)(x, Y)))))(X),
    "remat": lambda m, f: m.grad(loss(m.checkpoint(f)), (0, 1))(X, Y),
    "scan": lambda m, f: m.grad(loss(scanned(m, f)), (0, 1))(X, Y),
    "vmap of scan of remat": lambda m, f: m.vmap(m.grad(loss(scanned(m, m.checkpoint(f)))))(XS, YS),
}
FORWARD = {
    "jvp": lambda m, f: m.jvp(f, (X, Y), (DX, DY)),
    "jvp of jit": lambda m, f: m.jvp(m.jit(f), (X, Y), (DX, DY)),
    "jvp in one": lambda m, f: m.jvp(lambda x: f(x, Y), (X,), (DX,)),
    "linearize": lambda m, f: m.linearize(f, X, Y)[1](DX, DY),
    "vmap of jvp": lambda m, f: m.vmap(lambda x, t: m.jvp(f, (x, Y), (t, DY)))(XS, YS),
    "jvp of vmap": lambda m, f: m.jvp(m.vmap(f, (0, None)), (XS, Y), (YS, DY)),
    "hessian": lambda m, f: m.hessian(loss(f), (0, 1))(X, Y),
    "jvp of scan": lambda m, f: m.jvp(scanned(m, f), (X, Y), (DX, DY)),
}


@pytest.mark.parametrize("transformed", REVERSE)
@pytest.mark.parametrize("make", JVP + VJP)
def test_in_both_modes(make, transformed):
    assert_agree(lambda m: REVERSE[transformed](m, make(m)))


@pytest.mark.parametrize("transformed", FORWARD)
@pytest.mark.parametrize("make", JVP)
def test_forward(make, transformed):
    assert_agree(lambda m: FORWARD[transformed](m, make(m)))


# ---- programs --------------------------------------------------------------------------

PROGRAMS = {
    "call": lambda m, f: f, "jit": lambda m, f: m.jit(f), "vmap": lambda m, f: m.vmap(f),
    "grad": lambda m, f: m.grad(lambda x, y: f(x, y).sum()),
    "grad of jit": lambda m, f: m.grad(m.jit(lambda x, y: f(x, y).sum())),
    "vmap of grad": lambda m, f: m.vmap(m.grad(lambda x, y: f(x, y).sum(), (0, 1))),
}
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("make", [jvp, vjp, jvp_of_function, vjp_of_function, gradient])
def test_same_primitives(make, program):
    """Calls of functions with rules; where nothing is differentiated, all primitives."""
    args = (XS, YS) if "vmap" in program else (X, Y)
    ours, theirs = [primitive_names(m.make_jaxpr(PROGRAMS[program](m, make(m)))(*args).jaxpr)
                    for m in (mjax, jax)]
    assert [n for n in ours if n.startswith("custom_")] == [
        n for n in theirs if n.startswith("custom_")]
    if "grad" not in program:
        assert ours == theirs


@pytest.mark.parametrize("make", [jvp, vjp])
def test_same_params(make):
    def params(m):
        return m.make_jaxpr(make(m))(X, Y).eqns[0].params

    ours, theirs = params(mjax), params(jax)
    # How jax unflattens; ours hold that in the rule.
    assert set(ours) == set(theirs) - {"out_trees"}
    assert ours["num_consts"] == theirs["num_consts"] == 0
    assert primitive_names(ours["call_jaxpr"]) == primitive_names(theirs["call_jaxpr"].jaxpr)


# ---- custom_vmap -----------------------------------------------------------------------


def batched(m):
    f = m.custom_batching.custom_vmap(lambda x, y: m.numpy.sin(x) * y)

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        assert axis_size == 4 and type(in_batched) is list
        return (3 + sum(in_batched)) * m.numpy.sin(x) * y, True

    return f


def sequential(m):
    return m.custom_batching.sequential_vmap(lambda x, y: m.numpy.sin(x) * y)


BATCHED = {
    "eval": lambda m, f: f(X, Y), "jit": lambda m, f: m.jit(f)(X, Y),
    "vmap": lambda m, f: m.vmap(f)(XS, YS),
    "vmap of one": lambda m, f: m.vmap(m.jit(f), (0, None))(XS, Y),
    "jvp": lambda m, f: m.jvp(f, (X, Y), (DX, DY)),
    "jvp of vmap": lambda m, f: m.jvp(m.vmap(f), (XS, YS), (YS, XS)),
    "vmap of jvp": lambda m, f: m.vmap(lambda x, y: m.jvp(f, (x, y), (y, x)))(XS, YS),
    "scan": lambda m, f: m.vmap(lambda x: m.lax.scan(lambda c, y: (f(c, y), c), x, YS)[0])(XS),
}


@pytest.mark.parametrize("transformed", BATCHED)
@pytest.mark.parametrize("make", [batched, sequential])
def test_custom_vmap(make, transformed):
    assert_agree(lambda m: BATCHED[transformed](m, make(m)))


def test_the_gradient_of_a_rule():
    assert_agree(lambda m: m.grad(loss(m.vmap(batched(m))), (0, 1))(XS, YS))
    # Reverse mode below vmap: not in jax.
    with pytest.raises(ValueError, match="Linearization failed"):
        jax.grad(loss(batched(jax)))(X, Y)
    assert_equal_results(mjax.grad(loss(batched(mjax)), (0, 1))(X, Y),
                         jax.grad(loss(product(jax)), (0, 1))(X, Y))


# ---- closures --------------------------------------------------------------------------


def closing(m, kind):
    def outer(w, x):
        if kind == "jvp":
            f = m.custom_jvp(lambda x: x * w)
            f.defjvp(lambda p, t: (f(*p), 7 * w * t[0]))
        else:
            f = m.custom_vjp(lambda x: x * w)
            # In jax a bwd rule must not close over what is gone when it runs.
            f.defvjp(lambda x: (f(x), w), lambda w, ct: (7 * w * ct,))
        return f(x)
    return outer


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize("program", [
    lambda m, f: m.grad(f, 1)(2.0, 3.0), lambda m, f: m.jit(m.grad(f, 1))(2.0, 3.0),
    lambda m, f: m.vmap(m.grad(f, 1), (0, None))(X, X[0]),
    lambda m, f: m.jit(lambda w, x: m.grad(m.checkpoint(lambda x: f(w, x)))(x))(2.0, 3.0),
    lambda m, f: m.jit(lambda w, x: m.grad(lambda x: m.lax.scan(
        lambda c, _: (f(w, c), None), x, None, length=2)[0])(x))(2.0, 3.0),
    lambda m, f: m.make_jaxpr(f)(2.0, 3.0).eqns[0].params["num_consts"],
])
def test_closures(program, kind):
    assert_agree(lambda m: program(m, closing(m, kind)))


@pytest.mark.parametrize("program", [
    lambda m, f: m.grad(f)(2.0, 3.0), lambda m, f: m.grad(m.jit(f))(2.0, 3.0)])
@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@LIBRARIES
def test_closures_over_differentiated_values_are_refused(m, kind, program):
    with pytest.raises(Exception, match="closed-over|tracer|closes over|being differentiated|hand"):
        program(m, closing(m, kind))


def test_closure_convert():
    def f(m, x, n):
        converted, closed = m.closure_convert(lambda y: {"out": y * x * n}, 1.0)
        return converted(2.0, *closed)["out"] + 100 * len(closed)

    for program in (lambda m: f(m, 3.0, 2), lambda m: m.grad(lambda x: f(m, x, 2))(3.0),
                    lambda m: m.jit(lambda x, n: f(m, x, n))(3.0, 2),
                    lambda m: m.vmap(lambda x: f(m, x, 2))(X),
                    lambda m: m.grad(lambda x: m.vmap(lambda x: f(m, x, 2))(x).sum())(X)):
        assert_agree(program)


# ---- what is refused -------------------------------------------------------------------


def ruled(m, rule, f=lambda x: x):
    g = m.custom_jvp(f)
    g.defjvp(rule)
    return lambda: m.jvp(m.jit(g), (X,), (X,))


def pulled(m, fwd, bwd, f=lambda x: x):
    g = m.custom_vjp(f)
    g.defvjp(fwd, bwd)
    return lambda: m.grad(m.jit(lambda x: g(x).sum()))(X)


REFUSED = {
    "no rule": lambda m: lambda: m.custom_jvp(lambda x: x)(X),
    "no rules": lambda m: lambda: m.custom_vjp(lambda x: x)(X),
    "no vmap rule": lambda m: lambda: m.custom_batching.custom_vmap(lambda x: x)(X),
    "no pair": lambda m: ruled(m, lambda p, t: p[0]),
    "other tangent structure": lambda m: ruled(m, lambda p, t: (p[0], (t[0],))),
    "no tangent": lambda m: ruled(m, lambda p, t: (p[0], None)),
    "other tangent shape": lambda m: ruled(m, lambda p, t: (p[0], m.numpy.ones(7))),
    "other tangent dtype": lambda m: ruled(m, lambda p, t: (p[0], t[0].astype("float16"))),
    "other output structure": lambda m: ruled(m, lambda p, t: ((p[0],), (t[0],))),
    "other output shape": lambda m: ruled(m, lambda p, t: (p[0][:2], t[0][:2])),
    "forward mode": lambda m: lambda: m.jvp(vjp(m), (X, Y), (X, Y)),
    "fwd without residuals": lambda m: pulled(m, lambda x: x, lambda r, ct: (ct,)),
    "fwd of other structure": lambda m: pulled(m, lambda x: ((x,), x), lambda r, ct: (ct,)),
    "fwd of other shape": lambda m: pulled(m, lambda x: (x[:2], x), lambda r, ct: (ct,)),
    "bwd no tuple": lambda m: pulled(m, lambda x: (x, x), lambda r, ct: ct),
    "bwd too long": lambda m: pulled(m, lambda x: (x, x), lambda r, ct: (ct, ct)),
    "bwd None": lambda m: pulled(m, lambda x: (x, x), lambda r, ct: None),
    "bwd of other shape": lambda m: pulled(m, lambda x: (x, x), lambda r, ct: (ct[:2],)),
    "residual no array": lambda m: pulled(m, lambda x: (x, "text"), lambda r, ct: (ct,)),
    "nondiff traced": lambda m: lambda: m.grad(m.jit(vjp_of_traced(m)), 1)(2.0, 3.0),
    "keyword": lambda m: lambda: keyword_only(m)(1.0, y=2.0),
    "too many": lambda m: lambda: jvp(m)(X, Y, Y),
    "no array": lambda m: lambda: jvp(m)(X, "text"),
    "defjvps with nondiff": lambda m: lambda: m.custom_jvp(product(m), (0,)).defjvps(None),
    "both options": lambda m: lambda: m.custom_vjp(product(m)).defvjp(
        product, product, symbolic_zeros=True, optimize_remat=True),
    "vmap rule of other structure": lambda m: lambda: m.vmap(wrongly_batched(m))(XS, YS),
}


def vjp_of_traced(m):
    f = m.custom_vjp(lambda w, x: w * x, nondiff_argnums=(0,))
    f.defvjp(lambda w, x: (w * x, None), lambda w, r, ct: (w * ct,))
    return f


def keyword_only(m):
    f = m.custom_jvp(lambda x, *, y: x * y)
    f.defjvp(lambda p, t: (p[0], t[0]))
    return f


def wrongly_batched(m):
    f = m.custom_batching.custom_vmap(lambda x, y: x)
    f.def_vmap(lambda n, b, x, y: ((x, y), (True, True)))
    return f


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_same_kind_of_error(name):
    kinds = []
    for m in (mjax, jax):
        with pytest.raises(Exception) as error:
            REFUSED[name](m)()
        kinds.append({c.__name__ for c in type(error.value).__mro__} & {
            "TypeError", "ValueError", "AttributeError", "NotImplementedError",
            "UnexpectedTracerError"})
    assert kinds[0] >= kinds[1]  # ours may be of more kinds


# ---- where they differ, and why --------------------------------------------------------


def test_cotangents_of_what_a_batch_shares():
    """jax takes each element's cotangent of a common result, and no sum of what is constant."""
    def f(m):
        g = m.custom_vjp(lambda x, y: x * y)
        g.defvjp(lambda x, y: (x * y, None), lambda _, ct: (ct, 7.0))
        return m.grad(lambda y: m.vmap(g, (0, None))(X, y).sum())(2.0)

    assert f(mjax) == 3 * 7 and f(jax) == 7


def test_cotangents_of_another_dtype():
    def f(m):
        g = m.custom_vjp(lambda x: x * 2)
        g.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct.astype("float16"),))
        return m.grad(g)(np.float32(1))

    assert f(jax).dtype == np.float16
    with pytest.raises(ValueError, match="is of type float16.*Cast with .astype"):
        f(mjax)


# ---- names -----------------------------------------------------------------------------


def public(module):
    return {n for n in dir(module) if not n.startswith("_")}


@pytest.mark.parametrize("name", ["custom_derivatives", "custom_batching"])
def test_the_faces_have_all_names(name):
    ours, theirs = getattr(mjax, name), getattr(jax, name)
    assert public(theirs) <= set(ours.__all__)
    for n in ("custom_jvp", "custom_vjp", "custom_gradient", "closure_convert"):
        assert getattr(mjax, n) is getattr(mjax.custom_derivatives, n)


@pytest.mark.parametrize("path", [
    "custom_jvp", "custom_vjp", "custom_gradient", "closure_convert", "custom_jvp.defjvp",
    "custom_jvp.defjvps", "custom_vjp.defvjp", "custom_derivatives.linear_call",
    "custom_derivatives.zero_from_primal", "custom_derivatives.CustomVJPPrimal",
    "custom_derivatives.SymbolicZero", "custom_batching.custom_vmap",
    "custom_derivatives.custom_vjp_primal_tree_values", "custom_batching.sequential_vmap",
    "custom_batching.custom_vmap.def_vmap"])
def test_signatures(path):
    ours, theirs = [inspect.signature(functools.reduce(getattr, path.split("."), m))
                    for m in (mjax, jax)]
    assert [(p.name, p.kind, p.default) for p in ours.parameters.values()] == [
        (p.name, p.kind, p.default) for p in theirs.parameters.values()]
