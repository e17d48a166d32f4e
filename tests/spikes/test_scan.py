"""Spike: the gradient of a scan, on the engine's contracts for jaxprs.

A scan in a hundred lines: no symbolic zeros in its transpose, no reverse, no unrolling. What it
taught is in docs/design/0001-spikes.md.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base.errors import JaxprTypeError
from mjax._engine.base.util import split_list
from mjax._engine.ir.effects import Effect
from mjax._engine.ir.jaxpr import jaxprs_in_params
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.emit import constant, dense_i64, hlo, ir, ir_type
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.slicing import index_in_dim
from mjax._engine.primitives.tangents import add_tangents, instantiate
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import (
    StageInterpreter,
    eval_jaxpr,
    lift_tracers,
    stage,
    stage_under_evaluation,
)
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.batching import batch_jaxpr, to_dim
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr
from mjax._engine.transforms.transpose import backward_pass

# The body goes from (consts, carry, xs) to (carry, ys).
scan_p = Primitive("small_scan", multiple_results=True, types_cacheable=False)


def bind(jaxpr, nc, nk, length, args, reverse=False):
    return scan_p.bind(*args, jaxpr=jaxpr, num_consts=nc, num_carry=nk, length=length,
                       reverse=reverse)


def stacked(aval, n):
    return aval.update(shape=(n, *aval.shape))


@scan_p.def_effectful_abstract_eval
def _type(*avals, jaxpr, num_consts, num_carry, length, reverse):
    ys = jaxpr.out_avals[num_carry:]
    return jaxpr.out_avals[:num_carry] + [stacked(y, length) for y in ys], jaxpr.effects


def _typecheck(*avals, jaxpr, num_consts, num_carry, length, reverse):
    """What the abstract evaluation takes for granted; `check_jaxpr` calls it."""
    n = num_consts + num_carry
    expected = jaxpr.in_avals[:n] + [stacked(a, length) for a in jaxpr.in_avals[n:]]
    if [a.strip_weak_type() for a in avals] != [a.strip_weak_type() for a in expected]:
        raise TypeError(f"small_scan of {jaxpr.in_avals} applied to {avals}")
    carry = jaxpr.in_avals[num_consts:n]
    if [a.strip_weak_type() for a in carry] != [
            a.strip_weak_type() for a in jaxpr.out_avals[:num_carry]]:
        raise TypeError(f"small_scan: carry {carry} becomes {jaxpr.out_avals[:num_carry]}")


scan_p.typecheck = _typecheck


# ---- lowering --------------------------------------------------------------------------


@scan_p.def_lowering
def _lowering(ctx, *operands, jaxpr, num_consts, num_carry, length, reverse):
    consts, carry, xs = split_list(operands, [num_consts, num_carry])
    y_avals = jaxpr.out_avals[num_carry:]
    ys = [hlo.broadcast_in_dim(t, constant(np.zeros((), a.dtype)), dense_i64([]))
          for t, a in zip(ctx.out_types[num_carry:], y_avals)]
    zero = constant(np.int32(0))
    state = [zero, *carry, *ys]
    loop = hlo.WhileOp([v.type for v in state], state)
    with ir.InsertionPoint(loop.regions[0].blocks.append(*[v.type for v in state])) as point:
        i = point.block.arguments[0]
        hlo.return_([hlo.compare(i, constant(np.int32(length)),
                                 hlo.ComparisonDirectionAttr.get("LT"))])
    with ir.InsertionPoint(loop.regions[1].blocks.append(*[v.type for v in state])) as point:
        i, *rest = point.block.arguments
        carry, ys = rest[:num_carry], rest[num_carry:]
        at = hlo.subtract(constant(np.int32(length - 1)), i) if reverse else i
        inner = []
        for x, aval in zip(xs, jaxpr.in_avals[num_consts + num_carry:]):
            row = hlo.dynamic_slice(x, [at] + [zero] * aval.ndim, dense_i64((1, *aval.shape)))
            inner.append(hlo.reshape(ir_type(aval), row))
        outs = ctx.inline(jaxpr, *consts, *carry, *inner)
        new = []
        for y, out, aval in zip(ys, outs[num_carry:], y_avals):
            row = hlo.reshape(ir_type(stacked(aval, 1)), out)
            new.append(hlo.dynamic_update_slice(y, row, [at] + [zero] * aval.ndim))
        hlo.return_([hlo.add(i, constant(np.int32(1))), *outs[:num_carry], *new])
    return list(loop.results)[1:]


# ---- forward ---------------------------------------------------------------------------


def carry_fixpoint(nonzeros, nc, nk, outs_of):
    """Grows the set of carries that are non-zero (batched, unknown) until the body keeps it."""
    flags = list(nonzeros)
    for _ in range(nk + 1):
        outs = outs_of(flags, flags[nc:nc + nk])
        grown = [a or b for a, b in zip(flags[nc:nc + nk], outs[:nk])]
        if grown == flags[nc:nc + nk]:
            return flags, outs
        flags[nc:nc + nk] = grown
    raise AssertionError("a fixpoint grows at most once per carry")


@scan_p.def_jvp
def _jvp(primals, tangents, *, jaxpr, num_consts, num_carry, length, reverse):
    n, nys = len(primals), len(jaxpr.outvars) - num_carry
    nonzeros, nz_outs = carry_fixpoint(
        [type(t) is not Zero for t in tangents], num_consts, num_carry,
        lambda nz, carry: jvp_jaxpr(jaxpr, nz, [*carry, *[False] * nys])[1])
    body, _ = jvp_jaxpr(jaxpr, nonzeros, [*nonzeros[num_consts:num_consts + num_carry],
                                          *[False] * nys])
    # From (primals, tangents) to (consts, their tangents, carry, its tangents, xs, theirs).
    places = iter(range(n, n + sum(nonzeros)))
    tangent_at = [next(places) if nz else None for nz in nonzeros]
    groups = [slice(0, num_consts), slice(num_consts, num_consts + num_carry),
              slice(num_consts + num_carry, n)]
    order, sizes = [], []
    for group in groups:
        new = [*range(n)[group], *[t for t in tangent_at[group] if t is not None]]
        order += new
        sizes.append(len(new))
    m = len(jaxpr.outvars)
    places = iter(range(m, m + sum(nz_outs)))
    out_tangent_at = [next(places) if nz else None for nz in nz_outs]
    out_order = [*range(num_carry), *[t for t in out_tangent_at[:num_carry] if t is not None],
                 *range(num_carry, m), *[t for t in out_tangent_at[num_carry:] if t is not None]]
    values = [*primals, *[instantiate(t) for t, nz in zip(tangents, nonzeros) if nz]]
    body = body.replace(invars=[body.invars[i] for i in order],
                        outvars=[body.outvars[i] for i in out_order])
    outs = bind(body, sizes[0], sizes[1], length, [values[i] for i in order], reverse)
    placed = dict(zip(out_order, outs))
    return [placed[i] for i in range(m)], [
        Zero(typeof(placed[i]).to_tangent()) if t is None else placed[t]
        for i, t in enumerate(out_tangent_at)]


def _linearize(nonzeros, *primals, jaxpr, num_consts, num_carry, length, reverse):
    nc, nk, m = num_consts, num_carry, len(jaxpr.outvars)
    nonzeros, nz_outs = carry_fixpoint(
        nonzeros, nc, nk,
        lambda nz, carry: linearize_jaxpr(jaxpr, nz, [*carry, *[False] * (m - nk)]).nonzero_outs)
    parts = linearize_jaxpr(jaxpr, nonzeros, [*nonzeros[nc:nc + nk], *[False] * (m - nk)])
    # Where the residuals are: among the body's consts, carry, xs, results, or only there.
    n = len(primals)
    body = parts.primal
    # A residual that the consts determine is computed once and is not stacked.
    outs_needed = sorted({s - n for s in parts.sources if s >= n})
    cut = partial_eval_jaxpr(
        body, [False] * nc + [True] * (n - nc),
        [True] * m + [False] * (len(body.outvars) - m), effects_known=False)
    invariant = [i for i in outs_needed if not cut.unknown_outs[i]]
    known = eval_jaxpr(cut.known, cut.known.consts, *primals[:nc])
    fixed = dict(zip([i for i, u in enumerate(cut.unknown_outs) if not u], known))
    # Of a result of the body that is a carry, and of a carry, the history is wanted.
    loop, hoisted = cut.unknown, cut.residuals(primals[:nc], known)
    kept_outs = [i for i, u in enumerate(cut.unknown_outs) if u]
    history_in = sorted({s for s in parts.sources if nc <= s < nc + nk})
    extra = [*[loop.outvars[kept_outs.index(i)] for i in outs_needed
               if i < nk and i not in invariant],
             *[loop.invars[len(hoisted) + s - nc] for s in history_in]]
    extra_at = [*[n + i for i in outs_needed if i < nk and i not in invariant], *history_in]
    loop = loop.replace(outvars=[*loop.outvars, *extra])
    outs = bind(loop, len(hoisted), nk, length, [*hoisted, *primals[nc:]], reverse)
    place = {n + i: o for i, o in zip(kept_outs, outs) if i >= nk}
    place.update(zip(extra_at, outs[len(kept_outs):]))
    residuals, per_iteration = [], []
    for s in parts.sources:
        once = s < nc or (s >= n and s - n in invariant)
        per_iteration.append(not once)
        residuals.append(fixed[s - n] if s >= n and once else primals[s] if once
                         else primals[s] if nc + nk <= s < n else place[s])

    def linear(residuals, *tangents):
        ts = [instantiate(t) for t, nz in zip(tangents, nonzeros) if nz]
        order, args = linear_order(per_iteration, nonzeros, nc, nk, residuals, ts)
        body = parts.linear.replace(invars=[parts.linear.invars[i] for i in order])
        ncs, nks = (per_iteration.count(False) + sum(nonzeros[:nc]), sum(nonzeros[nc:nc + nk]))
        given = iter(bind(body, ncs, nks, length, args, reverse))
        return [next(given) if nz else Zero(a.to_tangent())
                for a, nz in zip(out_avals, nz_outs)]

    out_avals = [typeof(o) for o in outs[:m]]
    return outs[:m], nz_outs, residuals, linear


def linear_order(per_iteration, nonzeros, nc, nk, residuals, tangents):
    """From (residuals, tangents) to (same residuals, const tangents, carry tangents, x tangents,
    residuals per iteration)."""
    values = [*residuals, *tangents]
    r, (c, k) = len(residuals), (sum(nonzeros[:nc]), sum(nonzeros[nc:nc + nk]))
    order = [*[i for i, p in enumerate(per_iteration) if not p], *range(r, r + c),
             *range(r + c, r + c + k), *range(r + c + k, len(values)),
             *[i for i, p in enumerate(per_iteration) if p]]
    return order, [values[i] for i in order]


scan_p.linearize = _linearize


# ---- backward --------------------------------------------------------------------------


@scan_p.def_transpose
def _transpose(cts, *args, **params):
    """Of a body from (known consts, linear consts, linear carry, linear xs, known xs)."""
    jaxpr, nc, nk, length = (params[k] for k in ("jaxpr", "num_consts", "num_carry", "length"))
    lin = [type(a) is UndefinedPrimal for a in args]
    linear, _ = carry_fixpoint(lin, nc, nk, lambda u, carry: partial_eval_jaxpr(
        jaxpr, u, [*carry, *[False] * (len(jaxpr.outvars) - nk)]).unknown_outs)
    if not all(linear[nc:nc + nk]):
        return _transpose_rest(cts, args, linear, params)
    # A carry may start at a value that is known (a tangent that is zero before the first step);
    # a linear function is transposed in its other operands all the same.
    lin[nc:nc + nk] = [True] * nk
    cts = [instantiate(ct) for ct in cts]
    avals, n = jaxpr.in_avals, len(args)
    res_c, lin_c = ([i for i in range(nc) if lin[i] is which] for which in (False, True))
    res_x, lin_x = ([i for i in range(nc + nk, n) if lin[i] is which] for which in (False, True))

    def back(*values):
        # consts: residuals; carry: sums for the linear consts, cotangents of the carry;
        # xs: cotangents of the ys, residuals.
        rc, sums, ck, cy, rx = split_list(values, [len(res_c), len(lin_c), nk,
                                                   len(jaxpr.outvars) - nk])
        ins = [UndefinedPrimal(a) for a in avals]
        for i, v in zip(res_c + res_x, rc + rx):
            ins[i] = v
        found = backward_pass(jaxpr, jaxpr.consts, ins, [*ck, *cy])
        return [*[instantiate(add_tangents(s, found[i])) for s, i in zip(sums, lin_c)],
                *[instantiate(found[i]) for i in range(nc, nc + nk)],
                *[instantiate(found[i]) for i in lin_x]]

    in_avals = [avals[i] for i in res_c] + [
        a.to_tangent() for a in [*[avals[i] for i in lin_c], *jaxpr.out_avals]] + [
        avals[i] for i in res_x]
    body = jaxpr.cached(("small_scan transpose", tuple(lin), nc, nk),
                        lambda: stage_under_evaluation(back, in_avals, jaxpr.debug_info))
    zeros = [instantiate(Zero(avals[i].to_tangent())) for i in lin_c]
    outs = bind(body, len(res_c), len(lin_c) + nk, length,
                [*[args[i] for i in res_c], *zeros, *cts, *[args[i] for i in res_x]],
                not params["reverse"])
    found = dict(zip([*lin_c, *range(nc, nc + nk), *lin_x], outs))
    return [found[i] if type(a) is UndefinedPrimal else None for i, a in enumerate(args)]


def _transpose_rest(cts, args, linear, params):
    """Runs what no linear operand reaches (a counter), and transposes the rest."""
    cut = split_scan(linear, args, lambda body, *rest: bind(body, *rest), params)
    found = iter(_transpose([ct for ct, u in zip(cts, cut.unknown_outs) if u],
                            *cut.args, **cut.params))
    by_place = dict(zip(cut.order, found))
    return [by_place.get(i) for i in range(len(args))]


# ---- the other rules -------------------------------------------------------------------


class Split(NamedTuple):
    """A scan after its known part has run."""

    args: list[Any]
    params: dict[str, Any]
    order: list[int]  # which operand of the scan an operand of the rest is; -1: a residual
    unknown_outs: list[bool]
    known: list[Any]


def split_scan(unknown, args, bind_known, params):
    jaxpr, nc, nk, length = (params[k] for k in ("jaxpr", "num_consts", "num_carry", "length"))
    parts = partial_eval_jaxpr(jaxpr, unknown, [*unknown[nc:nc + nk],
                                                *[False] * (len(jaxpr.outvars) - nk)])
    known_at = [i for i, u in enumerate(unknown) if not u]
    known_ins = [args[i] for i in known_at]
    c, k = sum(i < nc for i in known_at), sum(nc <= i < nc + nk for i in known_at)
    n_known = len(parts.unknown_outs) - sum(parts.unknown_outs)
    # Every residual that is no const or x is stacked here; a real scan does as `_linearize`.
    at_hand = [s < c or c + k <= s < len(known_ins) for s in parts.sources]
    atoms = [*parts.known.invars, *parts.known.outvars]
    body = parts.known.replace(outvars=[
        *parts.known.outvars[:n_known],
        *[atoms[s] for s, here in zip(parts.sources, at_hand) if not here]])
    outs = bind_known(body, c, k, length, known_ins, params["reverse"])
    history = iter(outs[n_known:])
    residuals = [known_ins[s] if here else next(history)
                 for s, here in zip(parts.sources, at_hand)]
    r, unknown_at = len(residuals), [i for i, u in enumerate(unknown) if u]
    uc, uk = sum(i < nc for i in unknown_at), sum(nc <= i < nc + nk for i in unknown_at)
    once, each = ([i for i, s in enumerate(parts.sources) if (s < c) is which]
                  for which in (True, False))
    order = [*once, *range(r, r + len(unknown_at)), *each]
    values = [*residuals, *[args[i] for i in unknown_at]]
    rest = parts.unknown.replace(invars=[parts.unknown.invars[i] for i in order])
    return Split([values[i] for i in order],
                 {**params, "jaxpr": rest, "num_consts": len(once) + uc, "num_carry": uk},
                 [-1 if i < r else unknown_at[i - r] for i in order], parts.unknown_outs,
                 outs[:n_known])


def _partial_eval(interp, *args, **params):
    nc, nk = params["num_consts"], params["num_carry"]
    unknown, _ = carry_fixpoint(
        [interp.is_unknown(a) for a in args], nc, nk, lambda u, carry: partial_eval_jaxpr(
            params["jaxpr"], u, [*carry, *[False] * (len(params["jaxpr"].outvars) - nk)]
        ).unknown_outs)
    cut = split_scan(unknown, args, functools.partial(interp.call_known, bind), params)
    staged = iter(StageInterpreter.process(interp, scan_p, tuple(cut.args), cut.params))
    known = iter(cut.known)
    return [next(staged) if u else next(known) for u in cut.unknown_outs]


scan_p.partial_eval = _partial_eval


def _batch(axis, args, dims, *, jaxpr, num_consts, num_carry, length, reverse):
    nc, nk, m = num_consts, num_carry, len(jaxpr.outvars)

    def dims_of(flags):
        return [0 if b else None for b in flags]

    flags, _ = carry_fixpoint(
        [d is not None for d in dims], nc, nk,
        lambda b, carry: [d is not None for d in batch_jaxpr(
            jaxpr, axis, dims_of(b), [*carry, *[False] * (m - nk)])[1]])
    body, out_dims = batch_jaxpr(jaxpr, axis, dims_of(flags),
                                 [*flags[nc:nc + nk], *[False] * (m - nk)])
    placed = [to_dim(a, d, None if not b else 0 if i < nc + nk else 1, axis.size)
              for i, (a, d, b) in enumerate(zip(args, dims, flags))]
    outs = bind(body, nc, nk, length, placed, reverse)
    return outs, [None if d is None else int(i >= nk) for i, d in enumerate(out_dims)]


scan_p.axis_batch = _batch


def _dce(used, eqn):
    jaxpr, nc, nk = (eqn.params[k] for k in ("jaxpr", "num_consts", "num_carry"))
    used = list(used)
    while True:  # a carry is used if its result is, or if another iteration reads it
        body, used_ins = dce_jaxpr(jaxpr, used, [False] * nc + used[:nk] + [False] * (
            len(jaxpr.invars) - nc - nk))
        if used_ins[nc:nc + nk] == used[:nk]:
            break
        used[:nk] = used_ins[nc:nc + nk]
    if not any(used) and not body.effects:
        return [False] * len(eqn.invars), None
    params = {**eqn.params, "jaxpr": body, "num_consts": sum(used_ins[:nc]),
              "num_carry": sum(used[:nk])}
    return used_ins, eqn.replace(
        params=params, invars=[v for v, u in zip(eqn.invars, used_ins) if u],
        outvars=[v for v, u in zip(eqn.outvars, used) if u], effects=body.effects)


scan_p.dce = _dce


def scan(f, init, xs):
    """`mjax.lax.scan` as far as the spike goes."""
    carry, carry_tree = tree_flatten(init)
    leaves, xs_tree = tree_flatten(xs)
    length = leaves[0].shape[0]
    trees = []

    def flat(*args):
        new, y = f(carry_tree.unflatten(args[:len(carry)]), xs_tree.unflatten(args[len(carry):]))
        outs, tree = tree_flatten((new, y))
        trees.append(tree)
        return outs

    avals = [ShapedArray(typeof(c).shape, typeof(c).dtype) for c in carry] + [
        typeof(x).update(shape=typeof(x).shape[1:]) for x in leaves]
    body, consts = lift_tracers(stage(flat, avals))
    outs = bind(body, len(consts), len(carry), length, [*consts, *carry, *leaves])
    return trees[0].unflatten(outs)


# ---- tests -----------------------------------------------------------------------------


def looped(f, init, xs):
    """`scan` by a Python loop."""
    carry, ys = init, []
    for i in range(xs.shape[0]):
        carry, y = f(carry, index_in_dim(xs, i, keepdims=False))
        ys.append(lax.expand_dims(y, (0,)))
    return carry, concatenate(ys, 0)


def rnn(scan):
    """A recurrence with a const, loop-invariant work, and a result besides the carry."""

    def run(w, c, xs):
        def body(c, x):
            gate = lax.sin(lax.exp(w))  # the same in each iteration
            new = lax.tanh(lax.add(lax.mul(c, gate), x))
            return new, lax.mul(lax.cos(c), lax.mul(x, w))

        c, ys = scan(body, c, xs)
        return lax.add(lax.reduce_sum(lax.mul(c, c), (0,)), lax.reduce_sum(ys, (0, 1)))

    return run


def counting(scan):
    """One of two carries is an integer; results that are inputs, literals, duplicates."""

    def run(w, c, xs):
        def body(carry, x):
            c, i = carry
            at = lax.convert_element_type(i, np.float32)
            new = lax.mul(lax.sin(c), lax.mul(w, lax.add(at, 1.0)))
            return (new, lax.add(i, 1)), new

        (c, _), ys = scan(body, (c, np.int32(0)), xs)
        return lax.add(lax.reduce_sum(c, (0,)), lax.reduce_sum(lax.mul(ys, ys), (0, 1)))

    return run


def swapping(scan):
    """Carries that become each other: the fixpoint takes more than one step."""

    def run(w, c, xs):
        def body(carry, x):
            a, b, d = carry
            return (b, d, lax.mul(lax.sin(a), x)), jitted(a, w)

        (a, b, d), ys = scan(body, (lax.mul(c, 2.0), w, C), xs)
        return lax.add(lax.reduce_sum(lax.mul(a, lax.mul(b, d)), (0,)),
                       lax.reduce_sum(ys, (0, 1)))

    jitted = mjax.jit(lambda a, w: lax.mul(lax.sin(a), lax.exp(w)))
    return run


def nested(scan):
    """A scan in the body of a scan, over what is the same for each step of the outer one."""

    def run(w, c, xs):
        def outer(c, x):
            def inner(d, y):
                return lax.sin(lax.mul(d, lax.mul(w, x))), lax.mul(lax.exp(y), lax.exp(w))

            d, ys = scan(inner, c, xs)
            return d, lax.reduce_sum(lax.mul(ys, x_of(x, ys)), (0,))

        def x_of(x, ys):
            return lax.broadcast_in_dim(x, ys.shape, (1,))

        c, ys = scan(outer, c, xs)
        return lax.add(lax.reduce_sum(c, (0,)), lax.reduce_sum(ys, (0, 1)))

    return run


RNG = np.random.default_rng(0)
W, C = RNG.normal(size=(2, 3)).astype("float32")
X = RNG.normal(size=(4, 3)).astype("float32")
WS, CS = RNG.normal(size=(2, 4, 3)).astype("float32")
XS = RNG.normal(size=(4, 4, 3)).astype("float32")

TRANSFORMED = {
    "value": lambda f: f(W, C, X),
    "jit": lambda f: mjax.jit(f)(W, C, X),
    "grad": lambda f: mjax.grad(f, (0, 1, 2))(W, C, X),
    "grad of one": lambda f: mjax.grad(f)(W, C, X),
    "jit grad": lambda f: mjax.jit(mjax.grad(f, (0, 1, 2)))(W, C, X),
    "grad jit": lambda f: mjax.grad(mjax.jit(f), (0, 1, 2))(W, C, X),
    "jvp": lambda f: mjax.jvp(f, (W, C, X), (C, W, X)),
    "jvp of one": lambda f: mjax.jvp(lambda c: f(W, c, X), (C,), (W,)),
    "linearize": lambda f: mjax.linearize(f, W, C, X)[1](C, W, X),
    "hessian": lambda f: mjax.hessian(f, (0, 1))(W, C, X),
    "reverse over reverse": lambda f: mjax.jacrev(mjax.grad(mjax.jit(f)), (0, 2))(W, C, X),
    "vmap": lambda f: mjax.vmap(f, (0, None, None))(WS, C, X),
    "vmap xs": lambda f: mjax.vmap(f, (None, 0, 1))(W, CS, XS),
    "vmap grad": lambda f: mjax.vmap(mjax.grad(f, (0, 1)), (None, 0, None))(W, CS, X),
    "grad vmap": lambda f: mjax.grad(lambda w: lax.reduce_sum(
        mjax.vmap(f, (None, None, 1))(w, C, XS), (0,)))(W),
}


SLOW = ("hessian", "reverse over reverse", "vmap grad", "grad vmap", "grad jit", "jvp of one")


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in TRANSFORMED])
@pytest.mark.parametrize("case", [rnn, counting, swapping, nested])
def test_against_a_loop(case, name):
    actual, expected = (TRANSFORMED[name](case(how)) for how in (scan, looped))
    for a, e in zip(tree_flatten(actual)[0], tree_flatten(expected)[0], strict=True):
        np.testing.assert_allclose(a, e, 2e-4, 2e-4)


def test_transpose_of_a_scan_with_a_counter():
    def linear(x, c):
        def body(carry, x):
            i, c = carry
            at = lax.convert_element_type(i, np.float32)
            return (lax.add(i, 1), lax.add(lax.mul(c, at), x)), lax.mul(x, lax.sin(at))

        (_, c), ys = scan(body, (np.int32(1), c), x)
        return c, ys

    cts = (C, X)
    actual = mjax.linear_transpose(linear, X, C)(cts)
    _, pull = mjax.vjp(linear, X, C)
    i = np.arange(1, 5, dtype="float32")
    after = np.array([np.prod(i[n + 1:]) for n in range(4)], "float32")
    expected = (after[:, None] * C + np.sin(i)[:, None] * X, np.prod(i) * C)
    for found in (actual, pull(cts)):
        for a, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, e, 1e-5, 1e-5)


def equations(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from equations(inner)


def test_what_the_consts_determine_is_computed_once():
    jaxpr = mjax.make_jaxpr(mjax.grad(rnn(scan), (0, 1, 2)))(W, C, X)
    assert {"sin", "exp"} <= {e.primitive.name for e in jaxpr.eqns}
    forward, backward = (e for e in jaxpr.eqns if e.primitive is scan_p)
    assert "exp" not in {e.primitive.name for e in equations(forward.params["jaxpr"])}
    # Stacked are: 1 - tanh, sin and cos of the carry, x * w, the carry and its next value.
    assert len(forward.outvars) == 2 + 6
    # What is at hand is read again where it is, not stacked once more.
    assert {*jaxpr.invars} & {*backward.invars} == {jaxpr.invars[0], jaxpr.invars[2]}


def test_effects_are_not_hoisted():
    class Knock(Effect):
        pass

    knock = Knock()
    knock_p = Primitive("knock")
    knock_p.def_effectful_abstract_eval(lambda x: (x, {knock}))
    knock_p.def_jvp(lambda primals, tangents: (knock_p.bind(*primals), tangents[0]))

    def run(w, c, xs):
        c, _ = scan(lambda c, x: (lax.mul(c, lax.mul(knock_p.bind(w), x)), c), c, xs)
        return lax.reduce_sum(c, (0,))

    jaxpr = mjax.make_jaxpr(mjax.grad(run, 1))(W, C, X)
    assert jaxpr.effects == {knock}
    forward = next(e for e in jaxpr.eqns if e.primitive is scan_p)
    assert "knock" in [e.primitive.name for e in forward.params["jaxpr"].eqns]
    assert knock_p not in [e.primitive for e in jaxpr.eqns]


def test_unused_carries_and_results_are_dropped():
    def run(w, c, xs):
        def body(carry, x):
            a, b, count = carry
            return (lax.sin(a), lax.mul(b, x), lax.add(count, 1)), (lax.cos(a), b)

        return scan(body, (w, c, np.int32(0)), xs)[1][1]

    jaxpr = mjax.make_jaxpr(run)(W, C, X)
    smaller, used = dce_jaxpr(jaxpr, [True])
    assert used == [False, True, True]
    (eqn,) = smaller.eqns
    assert eqn.params["num_carry"] == 1 and len(eqn.outvars) == 2
    np.testing.assert_allclose(eval_jaxpr(smaller, smaller.consts, C, X)[0], run(W, C, X))


def test_ill_typed_bodies_are_refused():
    body = stage(lambda c, x: [lax.add(c, x), x], [typeof(C), typeof(C)])
    with pytest.raises(JaxprTypeError, match="small_scan of"):
        stage(lambda c, x: bind(body, 0, 1, 4, [c, x]), [typeof(C), typeof(C)])
