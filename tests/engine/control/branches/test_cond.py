"""The primitive cond: against Python's `if`, under every transformation."""

from __future__ import annotations

import functools
import gc
import itertools
import weakref

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.base.errors import JaxprTypeError
from mjax._engine.control.branches.cond import cond_p
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.ir.pytree import tree_map
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.tracing.stage import stage
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr
from mjax._engine.transforms.recomputation import recompute_jaxpr
from tests.engine.control.branch_programs import (
    PREDICATES,
    PROGRAMS,
    XS,
    YS,
    Python,
    X,
    Y,
    close,
    plain,
    total,
)
from tests.engine.reading import names

everywhere = pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)


def unjitted(f):
    return f


def remat(jit):
    return mjax.checkpoint if jit is mjax.jit else lambda f, policy=None: f


def sines(primitive, *avals, **params):
    """A policy of remat."""
    return primitive is lax.sin_p


#: Name -> transformation, given `jit`; what Python runs needs to know the predicate.
TRANSFORMED = {
    "value": lambda f, jit: f,
    "jit": lambda f, jit: jit(f),
    "jvp": lambda f, jit: lambda p, x, y: mjax.jvp(lambda *a: f(p, *a), (x, y), (y, x)),
    "jvp of one": lambda f, jit: lambda p, x, y: mjax.jvp(lambda y: f(p, x, y), (y,), (x,)),
    "jit of jvp": lambda f, jit: jit(lambda p, x, y: mjax.jvp(
        lambda *a: f(p, *a), (x, y), (y, x))),
    "linearize": lambda f, jit: lambda p, x, y: mjax.linearize(
        lambda x: f(p, x, y), x)[1](y),
    "vjp": lambda f, jit: lambda p, x, y: mjax.vjp(lambda *a: f(p, *a), x, y)[1](x),
    "grad": lambda f, jit: mjax.grad(total(f), (1, 2)),
    "grad of one": lambda f, jit: mjax.grad(total(f), 2),
    "jit of grad": lambda f, jit: jit(mjax.grad(total(f), (1, 2))),
    "grad of jit": lambda f, jit: mjax.grad(jit(total(f)), (1, 2)),
    "jvp of grad": lambda f, jit: lambda p, x, y: mjax.jvp(
        lambda x, y: mjax.grad(total(f), (1, 2))(p, x, y), (x, y), (y, x)),
    "grad of jvp": lambda f, jit: lambda p, x, y: mjax.grad(
        lambda x, y: jnp.sum(mjax.jvp(lambda x: f(p, x, y), (x,), (y,))[1] ** 2), (0, 1))(x, y),
    "hessian": lambda f, jit: lambda p, x, y: mjax.hessian(
        lambda x, y: jit(total(f))(p, x, y), (0, 1))(x, y),
    "reverse over reverse": lambda f, jit: lambda p, x, y: mjax.jacrev(
        jit(mjax.grad(total(f), (1, 2))), 1)(p, x, y),
    "third order": lambda f, jit: lambda p, x, y: mjax.grad(lambda x: jnp.sum(mjax.grad(
        lambda x: jnp.sum(mjax.grad(jit(total(f)), 1)(p, x, y) * y))(x) * y))(x),
    "remat of grad": lambda f, jit: lambda p, x, y: mjax.grad(lambda x: jnp.sum(
        remat(jit)(mjax.grad(total(f), 1))(p, x, y)))(x),
    "grad of remat": lambda f, jit: mjax.grad(remat(jit)(total(f)), (1, 2)),
    "grad of grad of remat": lambda f, jit: lambda p, x, y: mjax.grad(lambda x: jnp.sum(mjax.grad(
        remat(jit)(total(f), policy=sines), 1)(p, x, y) * y))(x),
}
FAST = {"value", "jit", "grad of jit"}


@everywhere
@pytest.mark.parametrize("name", [
    pytest.param(n, marks=[] if n in FAST else [pytest.mark.slow]) for n in TRANSFORMED])
def test_against_python(program, name):
    transform = TRANSFORMED[name]
    ours = transform(functools.partial(program, lax), mjax.jit)
    theirs = transform(functools.partial(program, Python), unjitted)
    for p in (True, False):
        close(ours(p, X, Y), theirs(p, X, Y))
        close(ours(jnp.array(p), X, Y), theirs(p, X, Y))


@pytest.mark.slow
@everywhere
def test_derivatives_against_differences(program):
    f = functools.partial(program, lax)
    with mjax.enable_x64(True):
        x, y = (a.astype("float64") for a in (X, Y))
        step = 1e-6
        for p in (True, False):
            tangent = mjax.jvp(lambda x, y, p=p: f(p, x, y), (x, y), (y, x))[1]
            above, below = f(p, x + step * y, y + step * x), f(p, x - step * y, y - step * x)
            np.testing.assert_allclose(tangent, (above - below) / (2 * step), 1e-6, 1e-6)
            gx, gy = mjax.vjp(lambda x, y, p=p: f(p, x, y), x, y)[1](jnp.ones(3))
            np.testing.assert_allclose(jnp.sum(tangent), jnp.sum(gx * y + gy * x), 1e-9)


# ---- batches ---------------------------------------------------------------------------

AXES = [axes for axes in itertools.product([0, None], repeat=3) if any(a == 0 for a in axes)]


def of_batch(f, axes, args):
    """`vmap` by a Python loop."""
    rows = [f(*[a[i] if axis == 0 else a for a, axis in zip(args, axes, strict=True)])
            for i in range(4)]
    return tree_map(lambda *leaves: np.stack(leaves), *rows)


def arguments(axes):
    return [many if axis == 0 else one
            for axis, many, one in zip(axes, (PREDICATES, XS, YS), (False, X, Y), strict=True)]


@everywhere
@pytest.mark.parametrize("axes", [
    pytest.param(a, marks=[] if a in AXES[:1] + AXES[-2:] else [pytest.mark.slow]) for a in AXES],
    ids=str)
def test_vmap(program, axes):
    args = arguments(axes)
    expected = of_batch(functools.partial(program, Python), axes, args)
    close(mjax.vmap(functools.partial(program, lax), axes)(*args), expected)


@pytest.mark.slow
@everywhere
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_gradients_of_batches(program, axes):
    args = arguments(axes)
    ours, theirs = (total(functools.partial(program, m)) for m in (lax, Python))
    expected = of_batch(mjax.grad(theirs, (1, 2)), axes, args)
    close(mjax.vmap(mjax.grad(ours, (1, 2)), axes)(*args), expected)
    close(mjax.jit(mjax.vmap(mjax.grad(mjax.jit(ours), (1, 2)), axes))(*args), expected)
    # In operands that are not mapped, the gradient of the sum is the sum of the gradients.
    summed = [g if axis == 0 else g.sum(0)
              for g, axis in zip(expected, axes[1:], strict=True)]
    of_sum = mjax.grad(lambda p, x, y: jnp.sum(mjax.vmap(ours, axes)(p, x, y)), (1, 2))
    close(of_sum(*args), summed)


@pytest.mark.slow
@everywhere
def test_vmap_of_vmap(program):
    f = functools.partial(program, lax)
    rows = [[program(Python, p, x, y) for x in XS] for p, y in zip(PREDICATES, YS, strict=True)]
    close(mjax.vmap(mjax.vmap(f, (None, 0, None)), (0, None, 0))(PREDICATES, XS, YS),
          np.array(rows))
    close(mjax.vmap(mjax.vmap(f, (0, None, 0)), (None, 0, None), 1)(PREDICATES, XS, YS),
          np.array(rows))


def test_batch_axes_in_other_places():
    f = functools.partial(plain, lax)
    expected = of_batch(functools.partial(plain, Python), (0, 0, 0), (PREDICATES, XS, YS))
    close(mjax.vmap(f, (0, 1, 0), 1)(PREDICATES, XS.T, YS), expected.T)
    close(mjax.vmap(f, (None, 1, 0))(True, XS.T, YS),
          of_batch(functools.partial(plain, Python), (None, 0, 0), (True, XS, YS)))


def test_a_predicate_for_all_stays_a_branch():
    jaxpr = mjax.make_jaxpr(mjax.vmap(functools.partial(plain, lax), (None, 0, None)))(True, XS, Y)
    assert "cond" in [e.primitive.name for e in jaxpr.eqns]
    assert "select_n" not in names(jaxpr)
    jaxpr = mjax.make_jaxpr(mjax.vmap(functools.partial(plain, lax)))(PREDICATES, XS, YS)
    assert "cond" not in names(jaxpr) and "select_n" in names(jaxpr)


def test_results_that_no_batch_reaches_are_not_batched():
    f = lambda p, x: lax.cond(p, lambda x: (jnp.sin(Y), x), lambda x: (Y * 2, x + 1), x)
    jaxpr = mjax.make_jaxpr(mjax.vmap(f, (None, 0), (None, 0)))(True, XS)
    (eqn,) = (e for e in jaxpr.eqns if e.primitive is cond_p)
    assert [v.aval.shape for v in eqn.outvars] == [(3,), (4, 3)]


def test_gradients_are_finite_where_the_branch_not_taken_has_none():
    """The derivative of a log at 0, and of its scale, multiplied by a cotangent of 0."""
    def loss(w, xs):
        return jnp.sum(mjax.vmap(lambda x: lax.cond(
            x > 0, lambda x: jnp.log(x * w), lambda x: x * w, x))(xs))

    xs = np.array([0.0, 2.0, 0.0], "float32")
    gw, gxs = mjax.grad(loss, (0, 1))(np.float32(3), xs)
    np.testing.assert_allclose(gw, 1 / 3 + 0, 1e-6)
    np.testing.assert_allclose(gxs, [3, 0.5, 3], 1e-6)


# ---- residuals -------------------------------------------------------------------------


def conds(f, *args):
    """The cond equations of a program, in order."""
    return [e for e in mjax.make_jaxpr(f)(*args).eqns if e.primitive is cond_p]


def test_branches_share_places_for_residuals():
    """One keeps two arrays and a scalar, the other three arrays: four places."""
    def f(p, x, s):
        def true_fun(x, s):
            return jnp.sin(x) * jnp.exp(s)  # cos x, sin x; exp s

        def false_fun(x, s):
            return jnp.sin(jnp.sin(jnp.sin(x)))  # three cosines

        return jnp.sum(lax.cond(p, true_fun, false_fun, x, s))

    forward, backward = conds(mjax.grad(f, (1, 2)), True, X, np.float32(2))
    shapes = [v.aval.shape for v in forward.outvars]
    assert sorted(shapes[1:]) == [(), (3,), (3,), (3,)]
    # Index, residuals, cotangent.
    assert len(backward.invars) == 1 + 4 + 1
    zeros = forward.params["branches"][0].outvars[1:]
    assert sum(v.aval.shape == () for v in zeros) == 1


def test_residuals_that_are_operands_or_results_are_not_copied():
    f = lambda p, x, y: jnp.sum(lax.cond(
        p, lambda x, y: x * y, lambda x, y: jnp.exp(x) * 1.0, x, y))
    jaxpr = mjax.make_jaxpr(mjax.grad(f, (1, 2)))(True, X, Y)
    forward, backward = (e for e in jaxpr.eqns if e.primitive is cond_p)
    p, x, y = jaxpr.invars
    assert len(forward.outvars) == 2  # the result, and exp x
    assert {x, y} <= set(backward.invars)
    # A result that is its own derivative.
    f = lambda p, x: jnp.sum(lax.cond(p, jnp.exp, lambda x: jnp.exp(x * 2.0), x))
    forward, backward = conds(mjax.grad(f, 1), True, X)
    assert len(forward.outvars) == 1 and forward.outvars[0] in backward.invars


def test_keys_are_residuals_too():
    """A rematerialized branch keeps the key that it draws from; the other branch has none."""
    def f(p, x, key):
        def drawing(x):
            noise = mjax.checkpoint(lambda x, k: jnp.sin(x) * mjax.random.normal(k, (3,)))
            return noise(x, mjax.random.fold_in(key, 3))

        return jnp.sum(lax.cond(p, drawing, lambda x: x, x))

    key = mjax.random.key(0)
    noise = mjax.random.normal(mjax.random.fold_in(key, 3), (3,))
    np.testing.assert_allclose(mjax.grad(f, 1)(True, X, key), np.cos(X) * noise, 1e-5)
    np.testing.assert_allclose(mjax.grad(f, 1)(False, X, key), np.ones(3))


# ---- the jaxprs ------------------------------------------------------------------------


def test_what_is_staged():
    jaxpr = mjax.make_jaxpr(functools.partial(plain, lax))(True, X, Y)
    assert [e.primitive.name for e in jaxpr.eqns] == ["convert_element_type", "cond"]
    eqn = jaxpr.eqns[1]
    assert list(eqn.params) == ["branches"] and len(eqn.params["branches"]) == 2
    assert names(eqn.params["branches"][0]) == ["exp", "mul", "add"]
    assert eqn.invars[0].aval == ShapedArray((), "int32")
    jaxpr = mjax.make_jaxpr(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x))(
        np.int32(1), X)
    assert [e.primitive.name for e in jaxpr.eqns] == ["clamp", "cond"]
    assert [names(b) for b in jaxpr.eqns[1].params["branches"]] == [["sin"], ["cos"], ["exp"]]


def test_what_is_closed_over():
    """Values of the outer trace become operands, once; arrays stay constants."""
    def f(p, x, y):
        return lax.cond(p, lambda: x * y, lambda: y + XS)

    (eqn,) = mjax.make_jaxpr(lambda p, x, y: f(p, x, y))(True, XS, Y).eqns[1:]
    assert len(eqn.invars) == 3
    assert [len(b.consts) for b in eqn.params["branches"]] == [1, 0]


def test_results_all_branches_take_from_one_operand_do_not_pass_through():
    jaxpr = mjax.make_jaxpr(lambda p, x, y: lax.cond(
        p, lambda x, y: (x, y, x), lambda x, y: (x, x, y), x, y))(True, X, Y)
    assert jaxpr.outvars[0] is jaxpr.invars[1]
    assert len(jaxpr.eqns[-1].outvars) == 2
    a, b, c = lax.cond(True, lambda x, n: (x, n, n), lambda x, n: (x, n, 2), X, 1)
    assert all(isinstance(v, mjax.Array) for v in (a, b, c))
    close([a, b, c], [X, 1, 1])


def test_printed():
    text = str(mjax.make_jaxpr(lambda p, x: lax.cond(p, lax.sin, lax.cos, x))(True, X))
    assert text == """\
{ lambda  ; a:bool[] b:f32[3]. let
    c:i32[] = convert_element_type[new_dtype=int32 weak_type=False] a
    d:f32[3] = cond[
      branches=(
        { lambda  ; e:f32[3]. let
              f:f32[3] = cos e
            in (f,) }
        { lambda  ; g:f32[3]. let
              h:f32[3] = sin g
            in (h,) }
      )
    ] c b
  in (d,) }"""


def test_lowered():
    text = mjax.jit(functools.partial(plain, lax)).lower(True, X, Y).as_text()
    assert text.count("stablehlo.case") == 1


def test_ill_typed_equations_are_refused():
    one = stage(lambda x: [lax.sin(x)], [typeof(X)])
    two = stage(lambda x: [lax.sin(x), x], [typeof(X)])
    other = stage(lambda x: [lax.sin(x)], [typeof(np.float32(1))])
    index = typeof(np.int32(0))
    def staged(branches, *operands):
        stage(lambda i, *x: cond_p.bind(i, *x, branches=branches), [index, *operands])

    staged((one, one), typeof(X))
    for branches, operands, text in [
            ((one, other), [typeof(X)], r"branch 1 has float32\[\]"),
            ((one,), [typeof(XS)],
             r"operands have types float32\[4,3\] where branch 0 has float32\[3\]"),
            ((one,), [], "operands have types")]:
        with pytest.raises(JaxprTypeError, match=text):
            staged(branches, *operands)
    with pytest.raises(JaxprTypeError, match=r"the index has type bool\[\], not int32"):
        stage(lambda i, x: cond_p.bind(i, x, branches=(one, one)),
              [typeof(True), typeof(X)])
    with pytest.raises((JaxprTypeError, ValueError)):
        stage(lambda i, x: cond_p.bind(i, x, branches=(one, two)), [index, typeof(X)])


def staged_cond():
    def f(p, x, y):
        def true_fun(x, y):
            return jnp.sin(x), y * 2, jnp.exp(x)

        def false_fun(x, y):
            return x, jnp.cos(y) * x, jnp.exp(y)

        return lax.cond(p, true_fun, false_fun, x, y)

    return mjax.make_jaxpr(f)(True, X, Y)


def test_dead_code():
    jaxpr = staged_cond()
    smaller, used = dce_jaxpr(jaxpr, [True, False, False])
    assert used == [True, True, False]
    assert [names(b) for b in smaller.eqns[-1].params["branches"]] == [[], ["sin"]]
    smaller, used = dce_jaxpr(jaxpr, [False, True, False])
    assert used == [True, True, True]
    smaller, used = dce_jaxpr(jaxpr, [False] * 3)
    assert smaller.eqns == [] and used == [False] * 3


def test_what_can_be_done_ahead():
    jaxpr = staged_cond()
    cut = partial_eval_jaxpr(jaxpr, [False, False, True])
    (known,), (unknown,) = ([e for e in j.eqns if e.primitive is cond_p]
                            for j in (cut.known, cut.unknown))
    # Of `false_fun` the third result is unknown, so it is of both.
    assert cut.unknown_outs == [False, True, True]
    assert sorted(names(cut.known)) == ["broadcast_in_dim", "cond", "convert_element_type", "exp",
                                        "sin"]
    assert len(known.outvars) == 2  # sin x or x, and a place for exp x
    whole = partial_eval_jaxpr(jaxpr, [True, False, False])
    assert whole.known.eqns == [] and whole.unknown_outs == [True] * 3


@pytest.mark.parametrize(("policy", "again"), [
    (lambda p, *_, **params: False, {"sin", "mul", "cos"}),
    (sines, {"mul", "cos"}),
    (lambda p, *_, **params: p is lax.mul_p, {"sin", "cos"}),
    # It saves the result of both branches: nothing is left to do.
    (lambda p, *_, **params: p is lax.cos_p, set()),
], ids=["nothing", "sines", "products", "cosines"])
def test_recomputed(policy, again):
    def f(p, x):
        return lax.cond(p, lambda x: jnp.cos(jnp.sin(x)), lambda x: jnp.cos(jnp.sin(x) * 2.0), x)

    jaxpr = mjax.make_jaxpr(f)(True, X)
    parts = recompute_jaxpr(jaxpr, [True], [True], policy)
    check_jaxpr(parts.known)
    check_jaxpr(parts.unknown)
    assert set(names(parts.unknown)) & {"sin", "mul", "cos"} == again


def test_derived_programs_are_well_typed():
    for program in PROGRAMS:
        jaxpr = mjax.make_jaxpr(functools.partial(program, lax))(True, X, Y)
        parts = linearize_jaxpr(jaxpr, [False, True, True])
        for j in (parts.known, parts.unknown, mjax.make_jaxpr(mjax.hessian(
                total(functools.partial(program, lax)), (1, 2)))(True, X, Y)):
            check_jaxpr(j)


# ---- work that is not repeated ---------------------------------------------------------


def test_derivatives_of_nested_branches_grow_linearly():
    """Each level leaves room for what the levels inside remember, in zeros made once."""

    def nested(levels):
        def f(x):
            return jnp.sin(x)

        for _ in range(levels):
            f = (lambda g: lambda x: lax.cond(
                x[0] > 0.5, lambda x: g(jnp.sin(x)) * x, jnp.cos, x))(f)
        return lambda x: f(x).sum()

    sizes = [len(names(mjax.make_jaxpr(mjax.grad(nested(n)))(X))) for n in (4, 8, 16)]
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0]), sizes
    # One that goes all the way in, and one that leaves in the middle.
    for x in (np.full(3, 0.9, np.float32), np.full(3, 0.55, np.float32)):
        def by_hand(x, levels=8):
            if levels == 0:
                return jnp.sin(x)
            return by_hand(jnp.sin(x), levels - 1) * x if x[0] > 0.5 else jnp.cos(x)

        np.testing.assert_allclose(mjax.grad(nested(8))(x),
                                   mjax.grad(lambda x: by_hand(x).sum())(x), rtol=1e-5)


def test_branches_are_traced_once():
    traced = []

    def true_fun(x):
        traced.append("true")
        return jnp.sin(x)

    def false_fun(x):
        traced.append("false")
        return jnp.cos(x) * 2

    def f(p, x):
        return jnp.sum(lax.cond(p, true_fun, false_fun, x))

    f(True, X)
    mjax.grad(f, 1)(True, X)
    for transformed in (mjax.jit(f), mjax.jit(mjax.grad(f, 1)), mjax.hessian(f, 1), mjax.vmap(
            mjax.grad(f, 1), (None, None), 0, axis_size=2)):
        mjax.make_jaxpr(lambda x, g=transformed: g(True, x))(X)
    mjax.make_jaxpr(mjax.vmap(mjax.grad(f, 1)))(PREDICATES, XS)
    assert traced == ["true", "false"]


@pytest.mark.parametrize("transformation", [
    lambda f: f, lambda f: mjax.grad(f, 1), lambda f: mjax.hessian(f, 1),
    lambda f: lambda p, x: mjax.jvp(lambda x: f(p, x), (x,), (x,)),
    lambda f: lambda p, x: mjax.vmap(f)(PREDICATES, XS),
    lambda f: lambda p, x: mjax.vmap(mjax.grad(f, 1))(PREDICATES, XS)],
    ids=["value", "grad", "hessian", "jvp", "vmap", "vmap of grad"])
def test_eager_calls_find_their_programs_again(transformation, monkeypatch):
    true_fun, false_fun = lambda x: (jnp.sin(x), x), lambda x: (jnp.cos(x) * 2, x)
    f = transformation(lambda p, x: jnp.sum(lax.cond(p, true_fun, false_fun, x)[0]))
    x = jnp.asarray(X)
    f(jnp.array(True), x)

    def compile(*args, **kwargs):
        raise AssertionError("a program is compiled once more")

    monkeypatch.setattr("mjax._engine.runtime.dispatch.runners.compile_module", compile)
    f(jnp.array(True), x)
    f(jnp.array(False), x)


def test_functions_are_not_kept():
    def run():
        scale = mjax.device_put(np.float32(2))
        true_fun = lambda x: x * scale
        lax.cond(True, true_fun, lambda x: x, X)
        return weakref.ref(true_fun)

    reference = run()
    gc.collect()
    assert reference() is None


# ---- closures and loops ----------------------------------------------------------------


def test_perturbations_of_outer_functions():
    """d/dx of x d/dy (y^2 if x > 0 else x y), where branches close over both."""
    def f(x):
        return x * mjax.grad(lambda y: lax.cond(x > 0, lambda: y * y, lambda: x * y))(x)

    np.testing.assert_allclose(mjax.grad(f)(3.0), 12.0)
    np.testing.assert_allclose(mjax.grad(f)(-3.0), -6.0)
    np.testing.assert_allclose(mjax.vmap(mjax.grad(f))(np.array([3.0, -3.0], "float32")), [12, -6])


@pytest.mark.slow
def test_scan_of_cond():
    def loss(scan, m, c, xs):
        def body(c, x):
            c = m.cond(jnp.sum(x) > 0, lambda c: jnp.sin(c * x), lambda c: c * x + c, c)
            return c, m.switch(jnp.sum(x > 0), [lambda: c, lambda: x * c, lambda: x], )

        c, ys = scan(body, c, xs)
        return jnp.sum(c) + jnp.sum(ys ** 2)

    def loop(f, c, xs):
        ys = []
        for x in xs:
            c, y = f(c, x)
            ys.append(y)
        return c, jnp.stack(ys)

    ours, theirs = (functools.partial(loss, *how) for how in ((lax.scan, lax), (loop, Python)))
    close(mjax.grad(ours, (0, 1))(X, XS), mjax.grad(theirs, (0, 1))(X, XS))
    close(mjax.jit(mjax.grad(ours, (0, 1)))(X, XS), mjax.grad(theirs, (0, 1))(X, XS))
    batch = np.stack([XS, -XS])
    expected = [mjax.grad(theirs, 1)(X, xs) for xs in batch]
    close(mjax.vmap(mjax.grad(ours, 1), (None, 0))(X, batch), np.stack(expected))


def test_while_in_cond_in_scan():
    def halve(x):
        return lax.while_loop(lambda x: x > 1, lambda x: x / 2, x)

    def body(c, x):
        y = lax.cond(x > 0, halve, lambda x: x * c, x)
        return c + y, y

    def run(x):
        return lax.scan(body, 0.5, x)

    xs = np.array([5.0, -1.0, 0.3, 9.0], "float32")
    c, ys = 0.5, []
    for x in xs:
        y = x / 2 ** max(0, np.ceil(np.log2(x))) if x > 0 else x * c
        c, ys = c + y, [*ys, y]
    close(run(xs), (np.float32(c), np.array(ys, "float32")))
    tangent = mjax.jvp(run, (xs,), (np.ones(4, "float32"),))[1][0]
    step = np.float32(1e-2)
    close(tangent, (run(xs + step)[0] - run(xs - step)[0]) / (2 * step), 1e-3)
