"""Functions on jaxprs of `mjax_ext.interpreters`, beside those of jax."""

from __future__ import annotations

import importlib
import itertools
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import mjax

X = np.float32([0.5, 1.0, 2.0])


def library(m):
    """A library's modules, wherever it keeps them."""
    if m is mjax:
        home, core = "mjax_ext.interpreters", importlib.import_module("mjax_ext.core")
    else:
        home, core = "jax._src.interpreters", importlib.import_module("jax._src.core")
    modules = {n: importlib.import_module(f"{home}.{n}")
               for n in ("ad", "batching", "partial_eval")}
    return SimpleNamespace(**modules, core=core, lax=m.lax, closed=m.make_jaxpr,
                           jaxpr=lambda f, *args: m.make_jaxpr(f)(*args).jaxpr)


BOTH = [library(mjax), library(jax)]


def names(jaxpr):
    """The primitives of a program, those of inner ones too."""
    found = []
    for eqn in jaxpr.eqns:
        inner = [names(v) for v in eqn.params.values() if hasattr(v, "eqns")]
        found.append((eqn.primitive.name, *inner) if inner else eqn.primitive.name)
    return found


def types(values):
    return [(tuple(v.aval.shape), str(v.aval.dtype)) for v in values]


def shown(m, jaxpr):
    """The facts of a program that both libraries must agree on."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    return names(jaxpr), types(jaxpr.constvars), types(jaxpr.invars), types(jaxpr.outvars)


def agree(program):
    ours, theirs = (program(m) for m in BOTH)
    assert ours == theirs
    return ours


def straight(m):
    return m.jaxpr(lambda x, y: [m.lax.mul(m.lax.sin(m.lax.cos(x)), y), m.lax.exp(y), x], X, X)


# ---- partial_eval ------------------------------------------------------------------------


@pytest.mark.parametrize("unknown", [*itertools.product([False, True], repeat=2)])
def test_partial_eval_jaxpr_nounits(unknown):
    def program(m):
        closed = m.closed(lambda x, y: [m.lax.mul(m.lax.sin(m.lax.cos(x)), y), m.lax.exp(y), x])
        known, rest, out_unknown, residuals = m.partial_eval.partial_eval_jaxpr_nounits(
            closed(X, X), list(unknown), [False, True, False])
        return (shown(m, known), shown(m, rest), list(out_unknown),
                [tuple(r.shape) for r in residuals])

    agree(program)


@pytest.mark.parametrize("saved", [(), ("cos",), ("sin", "cos", "exp", "mul")])
@pytest.mark.parametrize("unknown", [*itertools.product([False, True], repeat=2)])
def test_partial_eval_jaxpr_custom(unknown, saved):
    def program(m):
        known, staged, out_unknown, out_inst, n = m.partial_eval.partial_eval_jaxpr_custom(
            straight(m), list(unknown), list(unknown), False, [False, True, False],
            lambda primitive, *avals, **params: primitive.name in saved)
        return shown(m, known), shown(m, staged), list(out_unknown), list(out_inst), n

    agree(program)


@pytest.mark.parametrize("used", [*itertools.product([False, True], repeat=2)])
def test_dce_jaxpr_consts(used):
    w = np.float32([1, 2, 3])

    def program(m):
        w_ = m.lax.neg(w)
        jaxpr = m.jaxpr(lambda x, y: [m.lax.mul(x, w_), m.lax.sin(y)], X, X)
        smaller, *flags = m.partial_eval.dce_jaxpr_consts(jaxpr, list(used))
        whole, flag = m.partial_eval.dce_jaxpr(jaxpr, list(used), [True, False])
        return shown(m, smaller), [list(f) for f in flags], shown(m, whole), list(flag)

    agree(program)


def test_binders():
    def program(m):
        pe, closed = m.partial_eval, m.closed(lambda a, b, c: [a])(X, X[:2], X[:1])
        moved = [pe.move_binders_to_front(closed, [False, True, False]),
                 pe.move_binders_to_back(closed, [True, False]),
                 pe.convert_invars_to_constvars(closed.jaxpr, 2),
                 pe.convert_constvars_jaxpr(pe.convert_invars_to_constvars(closed.jaxpr, 2))]
        return [shown(m, j) for j in moved]

    agree(program)


def test_trace_to_jaxpr_nounits():
    def program(m):
        pe = m.partial_eval

        def f(x, y):
            return [m.lax.sin(x), m.lax.mul(y, m.lax.exp(x)), m.lax.neg(x)]

        wrapped = f if m is BOTH[0] else importlib.import_module("jax._src.linear_util").wrap_init(
            f, debug_info=jax.api_util.debug_info("test", f, (X, X), {}))
        jaxpr, outs, consts = pe.trace_to_jaxpr_nounits(
            wrapped, [pe.PartialVal.known(m.lax.neg(X)),
                      pe.PartialVal.unknown(m.core.ShapedArray((3,), np.dtype("float32")))],
            [False, False, True])
        return (shown(m, jaxpr), [o.is_known() for o in outs],
                [tuple(np.asarray(c).round(5).tolist()) for c in consts])

    agree(program)


# ---- batching ----------------------------------------------------------------------------


def axis(m, size=3):
    return (m.batching.AxisData(None, size) if m is BOTH[0]
            else m.batching.AxisData(m.core.no_axis_name, size, None, None))


@pytest.mark.parametrize("in_axes", [(0, None), (1, 0), (None, 1), (None, None)])
def test_batch_jaxpr(in_axes):
    def program(m):
        jaxpr = m.closed(lambda x, y: [m.lax.mul(x, y), m.lax.neg(y), x])(X, X)
        b = m.batching
        two, dims = b.batch_jaxpr2(jaxpr, axis(m), in_axes)
        one, flags = b.batch_jaxpr(jaxpr, axis(m), [a is not None for a in in_axes],
                                   [False, True, False])
        axes, more = b.batch_jaxpr_axes(jaxpr, axis(m), in_axes, [1, b.zero_if_mapped, 0])
        return ([types(j.jaxpr.outvars) for j in (one, two, axes)], list(dims), list(flags),
                list(more))

    agree(program)


@pytest.mark.parametrize("src, dst", [(0, 1), (1, 0), (None, 1), (0, 0), (None, -1), (1, -1)])
def test_matchaxis(src, dst):
    agree(lambda m: np.asarray(m.batching.matchaxis(
        axis(m), src, dst, m.lax.neg(np.arange(9, dtype=np.float32).reshape(3, 3)))).tolist())


class Pair:
    def __init__(self, first, second, index=None):
        self.first, self.second, self.index = first, second, index


class Axes:
    def __init__(self, first, second):
        self.first, self.second = first, second


def test_register_vmappable():
    def program(m):
        seen = []

        def to_elt(cont, get_idx, x, spec):
            seen.append(type(spec).__name__)
            if isinstance(spec, int):
                spec = Axes(spec, spec)
            return Pair(cont(x.first, spec.first), cont(x.second, spec.second), get_idx)

        def from_elt(cont, size, x, spec):
            seen.append((size, type(spec).__name__))
            return Pair(cont(size, x.first, spec.first), cont(size, x.second, spec.second))

        m.batching.register_vmappable(Pair, Axes, int, to_elt, from_elt, None)
        lib = mjax if m is BOTH[0] else jax
        out = lib.vmap(lambda p, y: (Pair(p.first + y, m.lax.neg(p.second) * p.index()), p.first),
                       (Axes(0, 1), 0), (Axes(1, 0), 0), axis_size=3)(
            Pair(np.ones((3, 2), np.float32), np.ones((2, 3), np.float32)), X)
        again = lib.vmap(lambda p: p.second, axis_size=3)(Pair(X, X))
        return [np.asarray(v).tolist() for v in (out[0].first, out[0].second, out[1], again)], seen

    try:
        agree(program)
    finally:
        BOTH[0].batching.unregister_vmappable(Pair)


# ---- ad ----------------------------------------------------------------------------------


def lu_of(m):
    return importlib.import_module(
        "mjax_ext.linear_util" if m is BOTH[0] else "jax._src.linear_util")


def wrapped(m, f, *args):
    info = (mjax if m is BOTH[0] else jax).api_util.debug_info("test", f, args, {})
    return lu_of(m).wrap_init(f, debug_info=info)


def numbers(values):
    return [np.asarray(v).round(4).tolist() for v in values]


def test_backward_pass():
    def program(m):
        jaxpr = m.jaxpr(lambda x, y: [m.lax.mul(x, m.lax.sin(y)), m.lax.neg(x), y], X, X)
        undefined = m.ad.UndefinedPrimal(jaxpr.invars[0].aval)
        zero = m.ad.Zero(jaxpr.invars[0].aval)
        both = m.ad.backward_pass(jaxpr, False, [], [undefined, X], [X, X, zero])
        none = m.ad.backward_pass(jaxpr, False, [], [undefined, X], [zero, zero, zero])
        return (numbers(both[:1]), type(both[1]).__name__, [type(c).__name__ for c in none])

    agree(program)


@pytest.mark.parametrize("nonzero", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("instantiate", [False, True, [True, False, True]])
def test_jvp_jaxpr(nonzero, instantiate):
    def program(m):
        jaxpr = m.closed(lambda x, y: [m.lax.mul(x, y), m.lax.floor(y), x])(X, X)
        pushed, out = m.ad.jvp_jaxpr(jaxpr, list(nonzero), instantiate)
        facts = types(pushed.jaxpr.invars), types(pushed.jaxpr.outvars), list(out)
        moved = m.ad.rearrange_binders(
            jaxpr, [1], [1], [1, 0], [1, 1])
        return facts, types(moved.jaxpr.invars), types(moved.jaxpr.outvars)

    agree(program)


def test_subtraces():
    def program(m):
        tag = m.core.TraceTag()
        f = wrapped(m, lambda x, y: [m.lax.mul(x, y), m.lax.neg(y)], X, X)
        zero = m.ad.Zero(m.core.ShapedArray((3,), np.dtype("float32")))
        outs, tangents = m.ad.jvp_subtrace(f, tag).call_wrapped([X, X], [X, zero])
        g, dims = m.batching.batch_subtrace(f, tag, axis(m), (0, None))
        batch = g.call_wrapped(np.stack([X] * 3), X)
        same, which = m.ad.nonzero_tangent_outputs(m.ad.jvp_subtrace(f, tag))
        same.call_wrapped([X, X], [zero, X])
        return (numbers(outs), numbers(tangents[:1]), type(tangents[1]).__name__, numbers(batch),
                list(dims()), list(which()))

    agree(program)


@pytest.mark.parametrize("rule", ["standard_jvp", "standard_jvp2"])
def test_rules(rule):
    def program(m):
        sub = m.lax.sub_p
        rules = [lambda t, *args: m.lax.neg(t), None]
        zero = m.ad.Zero(m.core.ShapedArray((3,), np.dtype("float32")))
        f = getattr(m.ad, rule)
        found = [f(rules, sub, [X, X], tangents) for tangents in ([X, X], [zero, X])]
        linear = m.ad.linear_jvp(sub, [X, X], [X, zero])
        flat = m.ad.zero_jvp(m.lax.floor_p, [X], [X])
        undefined = m.ad.UndefinedPrimal(zero.aval)
        by = [m.ad.linear_transpose(lambda ct: [ct], zero, undefined, X),
              m.ad.linear_transpose2(lambda ct, x, y: [m.lax.neg(ct), None], X, undefined, X),
              m.ad.bilinear_transpose(lambda ct, x, y: m.lax.mul(ct, y), None, X, undefined, X)]
        return ([(numbers(p[:1]), type(p[1]).__name__ if i else numbers(p[1:]))
                 for i, p in enumerate(found)], numbers(linear), type(flat[1]).__name__,
                [[type(v).__name__ if v is None or isinstance(v, m.ad.Zero)
                  else np.asarray(v).tolist() for v in cts] for cts in by])

    agree(program)


# ---- partial_eval: traces of functions ---------------------------------------------------


def test_wrapped_functions_of_partly_known_arguments():
    def program(m):
        pe = m.partial_eval

        def f(x, y):
            return [m.lax.sin(x), m.lax.mul(m.lax.mul(m.lax.cos(x), x), y), y]

        info = (mjax if m is BOTH[0] else jax).api_util.debug_info("test", f, (X, X), {})
        inner = pe.trace_to_subjaxpr_nounits_fwd(
            lu_of(m).wrap_init(f, debug_info=info), m.core.TraceTag(), info, False)
        g, rest = pe.partial_eval_wrapper_nounits(
            inner, (True, False), (m.core.ShapedArray((3,), np.dtype("float32")),))
        outs = g.call_wrapped(m.lax.neg(X))
        forwarded, knowns, avals, jaxpr, env = rest()
        return (numbers(outs), list(forwarded), list(knowns), [tuple(a.shape) for a in avals],
                shown(m, jaxpr), env)

    agree(program)


def test_staging_rules():
    def program(m):
        p = m.core.Primitive("twice")
        p.def_abstract_eval(lambda x: x)
        seen = []

        def rule(trace, source_info, x):
            seen.append((isinstance(trace, m.partial_eval.DynamicJaxprTrace),
                         isinstance(x, m.partial_eval.DynamicJaxprTracer)))
            if x.ndim == 0:
                return trace.default_process_primitive(p, [x], {}, source_info)
            return trace.default_process_primitive(m.lax.add_p, [x, x], {}, source_info)

        m.partial_eval.custom_staging_rules[p] = rule
        return [names(m.jaxpr(p.bind, x)) for x in (X, np.float32(1))], seen

    agree(program)
