"""Spike: remat with a policy, made of linearize_jaxpr, recompute_jaxpr and a backward pass that
runs what is not linear first. What it taught is in docs/design/0001-spikes.md.
"""

from __future__ import annotations

import collections
import functools

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.effects import Effect, EffectPolicy
from mjax._engine.ir.jaxpr import jaxprs_in_params
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.barrier import optimization_barrier_p
from mjax._engine.primitives.linear import define_linear
from mjax._engine.tracing.primitive import Primitive, traced
from mjax._engine.tracing.stage import (
    StageInterpreter,
    eval_jaxpr,
    lift_tracers,
    stage,
    stage_under_evaluation,
)
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.batching import batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr
from mjax._engine.transforms.recompute import recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr

remat_p = Primitive("small_remat", multiple_results=True, types_cacheable=False, own_varying=True)


def bind(jaxpr, args, policy, differentiated=True):
    return remat_p.bind(*args, jaxpr=jaxpr, policy=policy, differentiated=differentiated)


remat_p.def_effectful_abstract_eval(lambda *avals, jaxpr, **params: (jaxpr.out_avals,
                                                                     jaxpr.effects))


def body(*args, jaxpr, policy, differentiated):
    if differentiated:
        # Or the compiler finds out that all of it was computed before.
        args = optimization_barrier_p.bind(*args) if args else ()
    return eval_jaxpr(jaxpr, jaxpr.consts, *args)


remat_p.def_lowering(traced(body, multiple_results=True))


@remat_p.def_jvp
def _jvp(primals, tangents, *, jaxpr, policy, differentiated):
    jvp, nonzero_outs = jvp_jaxpr(jaxpr, [type(t) is not Zero for t in tangents], False)
    outs = bind(jvp, [*primals, *[t for t in tangents if type(t) is not Zero]], policy,
                differentiated)
    given = iter(outs[len(nonzero_outs):])
    return outs[:len(nonzero_outs)], [next(given) if nz else Zero(a.to_tangent())
                                      for a, nz in zip(jaxpr.out_avals, nonzero_outs)]


def joined(first, second, sources):
    """One program: `first` from its inputs, then `second` from its results and `sources`.

    `sources[i]` says of input `i` of `second`: None, a new input; k, input k of `first`; ~k,
    result k of it.
    """
    def f(*args):
        ins, new = args[:len(first.invars)], iter(args[len(first.invars):])
        outs = eval_jaxpr(first, first.consts, *ins)
        return eval_jaxpr(second, second.consts, *[
            next(new) if s is None else outs[~s] if s < 0 else ins[s] for s in sources])

    new_avals = [a for a, s in zip(second.in_avals, sources) if s is None]
    return first.cached(("joined", second, tuple(sources)), lambda: stage_under_evaluation(
        f, [*first.in_avals, *new_avals], first.debug_info))


def cut(program, n_keep, sources, rest, rest_new, policy):
    """What linearize and partial evaluation have in common.

    Args:
      program: a known program; of its results the first `n_keep` are wanted by others.
      sources: residuals of `rest`, by index in its inputs and results.
      rest: from residuals and `rest_new` new inputs to what depends on these.

    Returns:
      the known program with few more results; the sources of what is saved; the program that
      recomputes the residuals from that and goes on.
    """
    n, m = len(program.invars), len(program.outvars)
    wanted = sorted({s - n for s in sources if s >= n})
    parts = recompute_jaxpr(program, [i < n_keep for i in range(m)],
                            [i in wanted for i in range(m)], policy)
    # Inputs that the rest reads directly pass through.
    direct = sorted({s for s in sources if s < n} - set(parts.sources))
    again = parts.again.replace(
        invars=[*parts.again.invars, *[program.invars[i] for i in direct]])
    saved = [*parts.sources, *direct]
    place = {s: i for i, s in enumerate(saved)}
    where = [~wanted.index(s - n) if s >= n else place[s] for s in sources]
    return parts.known, saved, joined(again, rest, [*where, *[None] * rest_new])


def _linearize(nonzeros, *primals, jaxpr, policy, differentiated):
    parts = linearize_jaxpr(jaxpr, nonzeros)
    m = len(jaxpr.outvars)
    known, saved, rest = cut(parts.primal, m, parts.sources, parts.linear, sum(nonzeros), policy)
    outs = bind(known, primals, policy, False)
    both = [*primals, *outs]

    def linear(residuals, *tangents):
        given = iter(bind(rest, [*residuals, *[t for t in tangents if type(t) is not Zero]],
                          policy))
        return [next(given) if nz else Zero(a.to_tangent())
                for a, nz in zip(jaxpr.out_avals, parts.nonzero_outs)]

    return outs[:m], parts.nonzero_outs, [both[s] for s in saved], linear


remat_p.linearize = _linearize


def _partial_eval(interp, *args, jaxpr, policy, differentiated):
    unknown = [interp.is_unknown(a) for a in args]
    parts = partial_eval_jaxpr(jaxpr, unknown)
    n_known = len(parts.unknown_outs) - sum(parts.unknown_outs)
    known, saved, rest = cut(parts.known, n_known, parts.sources, parts.unknown, sum(unknown),
                             policy)
    known_ins = [a for a, u in zip(args, unknown) if not u]
    outs = interp.call_known(bind, known, known_ins, policy, False)
    both = [*known_ins, *outs]
    staged = iter(StageInterpreter.process(
        interp, remat_p, (*[both[s] for s in saved], *[a for a, u in zip(args, unknown) if u]),
        {"jaxpr": rest, "policy": policy, "differentiated": True}))
    given = iter(outs)
    return [next(staged) if u else next(given) for u in parts.unknown_outs]


remat_p.partial_eval = _partial_eval


@remat_p.def_transpose
def _transpose(cts, *args, jaxpr, policy, differentiated):
    undefined = [type(a) is UndefinedPrimal for a in args]
    transposed, nonzero_ins = transpose_jaxpr(jaxpr, undefined, [type(c) is not Zero for c in cts])
    outs = iter(bind(transposed, [*[a for a, u in zip(args, undefined) if not u],
                                  *[c for c in cts if type(c) is not Zero]], policy))
    nonzero = iter(nonzero_ins)
    return [(next(outs) if next(nonzero) else Zero(a.aval)) if u else None
            for a, u in zip(args, undefined)]


def _batch(axis, args, dims, *, jaxpr, **params):
    batched, out_dims = batch_jaxpr(jaxpr, axis, dims)
    return remat_p.bind(*args, jaxpr=batched, **params), out_dims


remat_p.axis_batch = _batch


def _dce(used, eqn):
    jaxpr, used_ins = dce_jaxpr(eqn.params["jaxpr"], used)
    if not any(used) and not jaxpr.effects:
        return [False] * len(eqn.invars), None
    return used_ins, eqn.replace(
        params={**eqn.params, "jaxpr": jaxpr}, effects=jaxpr.effects,
        invars=[v for v, u in zip(eqn.invars, used_ins) if u],
        outvars=[v for v, u in zip(eqn.outvars, used) if u])


remat_p.dce = _dce

name_p = Primitive("small_name")
name_p.def_abstract_eval(lambda x, name: x)
name_p.def_lowering(lambda ctx, x, name: [x])
name_p.def_batch(lambda args, dims, name: (name_p.bind(args[0], name=name), dims[0]))
define_linear(name_p, lambda ct, x, name: ct)


def nothing(primitive, *avals, **params):
    return False


def everything(primitive, *avals, **params):
    return True


def sines(primitive, *avals, **params):
    return primitive.name == "sin"


def named(primitive, *avals, name=None, **params):
    return primitive is name_p and name == "keep"


def remat(f, policy=nothing):
    """`mjax.checkpoint` as far as the spike goes."""

    @functools.wraps(f)
    def g(*args):
        leaves, tree = tree_flatten(args)
        trees = []

        def flat(*leaves):
            outs, out_tree = tree_flatten(f(*tree.unflatten(leaves)))
            trees.append(out_tree)
            return outs

        jaxpr, consts = lift_tracers(stage(flat, [typeof(x) for x in leaves]))
        return trees[0].unflatten(bind(jaxpr, [*consts, *leaves], policy, False))

    return g


# ---- tests -----------------------------------------------------------------------------


def chain(x, y):
    for _ in range(3):
        x = lax.mul(lax.sin(lax.mul(x, y)), lax.exp(x))
    return x


def keeps(x, y):
    z = name_p.bind(lax.tanh(lax.sin(lax.mul(x, y))), name="keep")
    return lax.exp(lax.sin(z)), z, y, lax.mul(x, 2.0), x, 1.0


inner = mjax.jit(lambda x, y: (lax.sin(lax.mul(x, y)), lax.cos(x)))


def calls(x, y):
    a, b = inner(x, lax.sin(y))
    c, _ = inner(a, b)
    return lax.mul(c, b)


def total(out):
    return functools.reduce(lax.add, [lax.reduce_sum(lax.mul(o, o), tuple(range(np.ndim(o))))
                                      for o in tree_flatten(out)[0]])


X, Y = np.random.default_rng(1).normal(size=(2, 3)).astype("float32") / 2
XS = np.random.default_rng(2).normal(size=(4, 3)).astype("float32") / 2

TRANSFORMED = {
    "value": lambda f: f(X, Y),
    "grad": lambda f: mjax.grad(lambda x, y: total(f(x, y)), (0, 1))(X, Y),
    "grad of one": lambda f: mjax.grad(lambda y: total(f(X, y)))(Y),
    "jit grad": lambda f: mjax.jit(mjax.grad(lambda x, y: total(f(x, y)), (0, 1)))(X, Y),
    "grad jit": lambda f: mjax.grad(mjax.jit(lambda x, y: total(f(x, y))), (0, 1))(X, Y),
    "jvp": lambda f: mjax.jvp(f, (X, Y), (Y, X)),
    "hessian": lambda f: mjax.hessian(lambda x, y: total(f(x, y)), (0, 1))(X, Y),
    "reverse over reverse": lambda f: mjax.jacrev(mjax.grad(lambda x: total(f(x, Y))))(X),
    "grad of jvp": lambda f: mjax.grad(
        lambda x: total(mjax.jvp(f, (x, Y), (Y, x))[1]))(X),
    "vmap grad": lambda f: mjax.vmap(mjax.grad(lambda x, y: total(f(x, y)), (0, 1)), (0, None))(
        XS, Y),
    "grad vmap": lambda f: mjax.grad(lambda y: total(mjax.vmap(f, (0, None))(XS, y)))(Y),
}


@functools.cache
def expected(f, name):
    return tree_flatten(TRANSFORMED[name](f))[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize(("f", "policy"), [
    (chain, nothing), (keeps, named), (calls, nothing), (calls, sines), (keeps, everything)])
def test_against_no_remat(f, policy, name):
    actual = tree_flatten(TRANSFORMED[name](remat(f, policy)))[0]
    for a, e in zip(actual, expected(f, name), strict=True):
        np.testing.assert_allclose(a, e, 2e-4, 2e-4)


def count(jaxpr, inside=False):
    """How often each primitive stands in the program, and within remat."""
    counts = collections.Counter()
    for eqn in jaxpr.eqns:
        within = inside or (eqn.primitive is remat_p and eqn.params["differentiated"])
        counts[eqn.primitive.name, within] += 1
        for jaxpr in jaxprs_in_params(eqn.params):
            counts += count(jaxpr, within)
    return counts


def of_gradient(f, policy):
    jaxpr = mjax.make_jaxpr(mjax.grad(lambda x, y: total(remat(f, policy)(x, y)), (0, 1)))(X, Y)
    return count(jaxpr), jaxpr


def saved(f, policy):
    """The types of what goes from the forward pass to the backward pass."""
    _, pull = mjax.vjp(remat(f, policy), X, Y)
    return len(tree_flatten(pull)[0])


def test_nothing_is_saved_but_the_inputs():
    counts, jaxpr = of_gradient(chain, nothing)
    assert counts["sin", False] == 3 and counts["sin", True] == 3
    assert saved(chain, nothing) == 2
    backward = [e for e in jaxpr.eqns if e.primitive is remat_p][-1]
    assert len(backward.params["jaxpr"].in_avals) == 3  # x, y and a cotangent


def test_what_the_policy_saves_is_not_computed_again():
    counts, _ = of_gradient(chain, sines)
    assert counts["sin", True] == 0 and counts["exp", True] == 3
    assert saved(chain, sines) == 2 + 3
    counts, _ = of_gradient(chain, everything)
    assert counts["sin", True] == counts["exp", True] == counts["cos", True] == 0


def test_names_inside_of_jit():
    @mjax.jit
    def f(x, y):
        z = name_p.bind(lax.sin(lax.exp(lax.mul(x, y))), name="keep")
        return lax.mul(lax.sin(z), x)

    counts, _ = of_gradient(f, named)
    # The derivatives of the inner sin and exp need exp; sin(z) and cos(z) only what was saved.
    assert counts["exp", True] == 1 and counts["sin", True] == 1
    counts, _ = of_gradient(f, nothing)
    assert counts["exp", True] == 1 and counts["sin", True] == 2


def test_the_compiler_does_not_merge_the_two_computations():
    grad = mjax.grad(lambda x, y: total(remat(chain)(x, y)), (0, 1))
    text = mjax.jit(grad).lower(X, Y).as_text()
    assert "optimization_barrier" in text


def test_an_effect_that_forbids_it():
    class Once(Effect):
        policy = EffectPolicy(remat=False)

    once_p, once = Primitive("once"), Once()
    once_p.def_effectful_abstract_eval(lambda x: (x, {once}))
    once_p.def_jvp(lambda primals, tangents: (once_p.bind(*primals), tangents[0]))
    with pytest.raises(Exception, match="once has the effects Once, whose policy says remat=Fal"):
        mjax.make_jaxpr(mjax.grad(remat(lambda x: lax.sin(once_p.bind(x)))))(1.0)
    saving = remat(lambda x: lax.sin(once_p.bind(x)), lambda p, *_, **__: p is once_p)
    assert mjax.make_jaxpr(mjax.grad(saving))(1.0).effects == {once}
