"""mjax_ext.interpreters.partial_eval: rules and jaxprs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.experimental.compute_on import compute_on
from mjax_ext import core
from mjax_ext import linear_util as lu
from mjax_ext.interpreters import ad, mlir, partial_eval

X = np.arange(3, dtype=np.float32)
F3 = mjax.typeof(X)


class Noted(core.Effect):
    """An effect."""


def names(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def test_tracing_flat_functions():
    big = mjax.device_put(X)
    jaxpr, out_avals, consts = partial_eval.trace_to_jaxpr_dynamic(
        lambda x, y: [lax.mul(x, big), lax.sin(y)], [F3, F3])
    assert names(jaxpr) == ["mul", "sin"] and out_avals == [F3, F3]
    assert consts[0] is big and len(consts) == 1


def test_programs_have_the_names_of_their_functions():
    def double(x):
        return [2 * x]

    info = mjax.api_util.debug_info("mine", double, (X,), {})
    fun, other = lu.wrap_init(double, debug_info=info), info._replace(traced_for="other")
    trace = partial_eval.trace_to_jaxpr_dynamic
    assert trace(fun, [F3])[0].debug_info == info and info.arg_names == ("x",)
    assert trace(fun, [F3], other)[0].debug_info == other
    assert trace(double, [F3])[0].debug_info.func_name == "double"
    unknown = [partial_eval.PartialVal.unknown(F3)]
    assert partial_eval.trace_to_jaxpr_nounits(fun, unknown)[0].debug_info.traced_for == "mine"


def test_dce():
    jaxpr, *_ = partial_eval.trace_to_jaxpr_dynamic(
        lambda x, y: [lax.sin(x), lax.cos(y)], [F3, F3])
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [False, True])
    assert names(smaller) == ["cos"] and used == [False, True]
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [False, True], True)
    assert used == [True, True] and len(smaller.invars) == 2


def test_dce_rule():
    p = core.Primitive("pair", multiple_results=True)
    p.def_abstract_eval(lambda *avals: list(avals))

    def rule(used_outputs, eqn):
        if not any(used_outputs):
            return [False] * len(eqn.invars), None
        keep = [i for i, used in enumerate(used_outputs) if used]
        return used_outputs, eqn.replace(invars=[eqn.invars[i] for i in keep],
                                         outvars=[eqn.outvars[i] for i in keep])

    partial_eval.dce_rules[p] = rule
    jaxpr, *_ = partial_eval.trace_to_jaxpr_dynamic(
        lambda x, y: p.bind(lax.sin(x), lax.cos(y)), [F3, F3])
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [True, False])
    core.check_jaxpr(smaller)
    assert names(smaller) == ["sin", "pair"] and used == [True, False]
    assert names(partial_eval.dce_jaxpr(jaxpr, [False, False])[0]) == []


def test_partial_evaluation_of_a_jaxpr():
    jaxpr, *_ = partial_eval.trace_to_jaxpr_dynamic(
        lambda x, y: [lax.mul(lax.sin(x), y), lax.cos(x)], [F3, F3])
    parts = partial_eval.partial_eval_jaxpr(jaxpr, [False, True])
    assert isinstance(parts, partial_eval.PartialEvaluated)
    assert names(parts.known) == ["sin", "cos"] and names(parts.unknown) == ["mul"]


def test_partial_evaluation_rule():
    """A primitive of two independent halves, cut between what is known and what is not."""
    p, asked = core.Primitive("halves", multiple_results=True), []
    p.def_abstract_eval(lambda x, y: [x, y])
    mlir.register_lowering(p, mlir.lower_fun(lambda x, y: [lax.sin(x), lax.cos(y)]))

    def rule(interpreter, x, y):
        asked.append([interpreter.is_unknown(x), interpreter.is_unknown(y)])
        first = lax.sin(x) if interpreter.is_unknown(x) else interpreter.call_known(lax.sin, x)
        second = lax.cos(y) if interpreter.is_unknown(y) else interpreter.call_known(lax.cos, y)
        return [first, second]

    partial_eval.custom_partial_eval_rules[p] = rule
    jaxpr, *_ = partial_eval.trace_to_jaxpr_dynamic(lambda x, y: p.bind(x, y), [F3, F3])
    parts = partial_eval.partial_eval_jaxpr(jaxpr, [False, True])
    assert asked == [[False, True]]
    assert parts.unknown_outs == [False, True]
    assert names(parts.known) == ["sin"] and names(parts.unknown) == ["cos"]
    assert p not in ad.primitive_jvps


# ---- jaxprs in other forms ---------------------------------------------------------------


def weighted(x, y):
    return [lax.mul(x, W), lax.sub(x, y)]


W = mjax.device_put(np.float32([1, 2, 3]))


def traced(f, *args):
    return mjax.make_jaxpr(f)(*args)


def run(jaxpr, *args, consts=None):
    return core.eval_jaxpr(jaxpr, jaxpr.consts if consts is None else consts, *args)


def same(got, wanted):
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6)


def test_constants_become_inputs_and_back():
    jaxpr = traced(weighted, X, 2 * X)
    wanted = [X * np.asarray(W), -X]
    lifted = partial_eval.convert_constvars_jaxpr(jaxpr)
    assert lifted is partial_eval.convert_constvars_jaxpr(jaxpr) and not lifted.constvars
    same(run(lifted, *jaxpr.consts, X, 2 * X), wanted)
    assert partial_eval.close_jaxpr(lifted).jaxpr is lifted
    back = partial_eval.convert_invars_to_constvars(lifted, 1)
    assert len(back.constvars) == 1 and len(back.invars) == 2
    same(run(back, X, 2 * X, consts=[W]), wanted)
    more = partial_eval.convert_envvars_to_constvars(jaxpr, 1)
    same(run(more, 2 * X, consts=[W, X]), wanted)
    apart, consts = partial_eval.separate_consts(jaxpr)
    same(run(apart, *consts, X, 2 * X), wanted)
    core.check_jaxpr(lifted)
    with pytest.raises(ValueError, match=r"1 constant, so it is not closed .*convert_constvars"):
        partial_eval.close_jaxpr(jaxpr)
    with pytest.raises(ValueError, match=r"1 constant already; convert_envvars_to_constvars"):
        partial_eval.convert_invars_to_constvars(jaxpr, 1)
    with pytest.raises(ValueError, match=r"has 2 inputs, of which 3 cannot be taken"):
        partial_eval.convert_envvars_to_constvars(jaxpr, 3)
    with pytest.raises(TypeError, match=r"separate_consts|convert_constvars_jaxpr takes a jaxpr"):
        partial_eval.convert_constvars_jaxpr(weighted)


def test_inputs_in_another_order():
    jaxpr = traced(lambda a, b, c: [lax.sub(a, lax.mul(b, c))], X, X, X)
    args = [X, X + 1, X + 2]
    for flags in itertools.product([False, True], repeat=3):
        first = [i for i, f in enumerate(flags) if f]
        rest = [i for i, f in enumerate(flags) if not f]
        front = partial_eval.move_binders_to_front(jaxpr, flags)
        same(run(front, *[args[i] for i in first + rest]), run(jaxpr, *args))
        back = partial_eval.move_binders_to_back(jaxpr, flags)
        same(run(back, *[args[i] for i in rest + first]), run(jaxpr, *args))
    assert front.debug_info.arg_names == ("a", "b", "c")
    short = partial_eval.move_binders_to_back(jaxpr, [True])
    same(run(short, *args[1:], args[0]), run(jaxpr, *args))
    with pytest.raises(ValueError, match="to_move has 2 entries for 3 inputs; give one for each"):
        partial_eval.move_binders_to_front(jaxpr, [True, False])


def test_constants_stay_unless_dropped():
    jaxpr = traced(weighted, X, X)
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [False, True])
    assert len(smaller.constvars) == len(smaller.consts) == 1 and used == [True, True]
    smaller, used_consts, used = partial_eval.dce_jaxpr_consts(jaxpr, [False, True])
    assert not smaller.constvars and used_consts == [False] and used == [True, True]
    smaller, used_consts, used = partial_eval.dce_jaxpr_consts(jaxpr, [True, False])
    assert used_consts == [True] and used == [True, False] and smaller.consts == [W]
    same(run(smaller, X), [X * np.asarray(W)])
    assert partial_eval.dce_jaxpr_consts(jaxpr, True)[1:] == ([True], [True, True])
    with pytest.raises(ValueError, match="used_outputs has 1 entry for 2 results"):
        partial_eval.dce_jaxpr(jaxpr, [True])
    with pytest.raises(TypeError, match=r"used_outputs must be a bool, or a list of bools.*None"):
        partial_eval.dce_jaxpr(jaxpr, None)


def test_dead_code_rule_of_calls():
    call_p = core.Primitive("call", multiple_results=True)
    core.Frame(call_p, "call_jaxpr")
    partial_eval.dce_rules[call_p] = partial_eval.dce_jaxpr_call_rule
    inner = traced(lambda x, y: [lax.sin(x), lax.cos(y)], X, X)
    jaxpr = traced(lambda x, y: call_p.bind(x, y, call_jaxpr=inner), X, X)
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [True, False])
    core.check_jaxpr(smaller)
    assert used == [True, False] and names(smaller.eqns[0].params["call_jaxpr"]) == ["sin"]
    assert partial_eval.dce_jaxpr(jaxpr, [False, False])[0].eqns == []
    loud = traced(lambda x: [mjax.debug.print("{}", x), lax.sin(x)][1:], X)
    jaxpr = traced(lambda x: call_p.bind(x, call_jaxpr=loud), X)
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [False])
    assert used == [True] and smaller.effects == loud.effects
    assert partial_eval.has_effects(smaller.eqns[0])
    assert names(smaller.eqns[0].params["call_jaxpr"]) == ["debug_callback"]
    assert partial_eval.dce_jaxpr_closed_call_rule.__name__ == "dce_jaxpr_closed_call_rule"


def test_effects_of_parts():
    jaxpr = traced(lambda x: mjax.debug.print("{}", x), X)
    parts = jaxpr.constvars, jaxpr.invars, jaxpr.outvars, jaxpr.eqns
    assert partial_eval.make_jaxpr_effects(*parts) == jaxpr.effects != core.no_effects

    def own(x):
        ref = mjax.new_ref(x)
        ref[...] = x + 1
        return ref[...]

    jaxpr = traced(own, X)
    assert partial_eval.make_jaxpr_effects([], jaxpr.invars, jaxpr.outvars, jaxpr.eqns
                                           ) == jaxpr.effects
    assert not any(isinstance(e, core.OperandEffect) for e in jaxpr.effects)


# ---- functions to jaxprs -----------------------------------------------------------------


def test_inputs_that_the_function_is_not_given():
    jaxpr, _, _ = partial_eval.trace_to_jaxpr_dynamic(
        lambda x: [lax.sin(x)], [F3, F3], keep_inputs=[False, True])
    same(run(jaxpr, X, X + 1), [np.sin(X + 1)])
    jaxpr, *_ = partial_eval.trace_to_jaxpr_dynamic(
        lambda x: [lax.sin(lax.cos(x)), x][1:], [F3], auto_dce=True)
    assert jaxpr.eqns == []
    with pytest.raises(TypeError, match=r"in_avals\[1\] must be a type.*got 3"):
        partial_eval.trace_to_jaxpr_dynamic(weighted, [F3, 3])
    with pytest.raises(TypeError, match=r"trace_to_jaxpr_dynamic: a function of flat "
                       r"values must return a list of its results, but sin returned"):
        partial_eval.trace_to_jaxpr_dynamic(lax.sin, [F3])
    with pytest.raises(TypeError, match="trace_to_jaxpr_dynamic takes a function; got 3"):
        partial_eval.trace_to_jaxpr_dynamic(3, [F3])


def test_functions_that_carry_their_types():
    def f(x):
        return [lax.neg(x)]

    f.in_type = ((F3, False), (F3, True))
    jaxpr, out_type, consts = partial_eval.trace_to_jaxpr_dynamic2(f)
    assert len(jaxpr.invars) == 2 and out_type == ((F3, True),) and consts == []
    with pytest.raises(TypeError, match=r"a function with an in_type, as linear_util\.annotate"):
        partial_eval.trace_to_jaxpr_dynamic2(lambda x: x)
    with pytest.raises(NotImplementedError, match=r"dynamic shapes, which are gone"):
        partial_eval.infer_lambda_input_type([{0: "n"}], [X])


def test_functions_of_trees():
    jaxpr, out = partial_eval.trace_to_jaxpr(
        lambda a, *, b: {"sum": lax.add(a["x"], b), "a": a}, (({"x": F3},), {"b": F3}))
    assert out == {"sum": F3, "a": {"x": F3}} and len(jaxpr.invars) == 2
    with pytest.raises(TypeError, match=r"must be a pair of a tuple and a dict of types"):
        partial_eval.trace_to_jaxpr(lax.sin, [F3])


def test_inlining():
    inner = traced(weighted, X, X)

    def f(x):
        return partial_eval.inline_jaxpr_into_trace(x.interp, None, inner, inner.consts, x, x)

    jaxpr = traced(f, X)
    assert names(jaxpr) == ["mul", "sub"] and jaxpr.consts == [W]
    same(run(jaxpr, X), [X * np.asarray(W), 0 * X])


# ---- known and unknown -------------------------------------------------------------------


def test_partial_values():
    known, unknown = partial_eval.PartialVal.known(X), partial_eval.PartialVal.unknown(F3)
    assert known == (None, known.get_known()) and known.get_aval() is F3 and known.is_known()
    assert unknown == (F3, None) and unknown.get_known() is None and not unknown.is_known()
    with pytest.raises(TypeError, match=r"takes \(None, value\) or \(type, None\)"):
        partial_eval.PartialVal((X, None))


def test_functions_of_partly_known_arguments():
    pvals = [partial_eval.PartialVal.known(X), partial_eval.PartialVal.unknown(F3)]

    def f(x, y):
        lax.cos(y)  # dead
        return [lax.sin(x), lax.mul(y, lax.exp(x)), y, lax.neg(x)]

    jaxpr, outs, consts = partial_eval.trace_to_jaxpr_nounits(f, pvals, [False, False, False, True])
    assert [o.is_known() for o in outs] == [True, False, False, False]
    same([outs[0].get_known(), *run(jaxpr, X + 1, consts=consts)],
         [np.sin(X), (X + 1) * np.exp(X), X + 1, -X])
    assert names(jaxpr) == ["mul"] and len(consts) == 2
    with pytest.raises(ValueError, match="instantiate has 1 entry for 4 results"):
        partial_eval.trace_to_jaxpr_nounits(f, pvals, [True])
    assert partial_eval.partition_pvals(outs)[0] == [True, False, False, False]
    # It is itself differentiated.
    slope = mjax.grad(lambda s: partial_eval.trace_to_jaxpr_nounits(
        lambda x, y: [lax.mul(x, x)], [partial_eval.PartialVal.known(s), pvals[1]]
    )[1][0].get_known())(3.0)
    assert float(slope) == 6


def ladder(x, y, z):
    a = mjax.jit(lambda x, y: (lax.sin(x), lax.mul(lax.cos(y), lax.exp(x))))(x, y)
    b, c = lax.scan(lambda c, e: (lax.mul(c, z), lax.add(e, c)), a[0], a[1])
    return [b, c, lax.mul(a[1], W), lax.neg(z), x]


ARGS = [np.float32(0.5), X, np.float32(1.5)]


@pytest.mark.parametrize("unknown", list(itertools.product([False, True], repeat=3)))
def test_the_parts_of_a_program_make_the_whole(unknown):
    jaxpr = traced(ladder, *ARGS)
    known, rest, out_unknowns, types = partial_eval.partial_eval_jaxpr_nounits(
        jaxpr, unknown, [False, False, False, True, False])
    core.check_jaxpr(known)
    core.check_jaxpr(rest)
    firsts = run(known, *[a for a, u in zip(ARGS, unknown, strict=True) if not u])
    n = out_unknowns.count(False)
    assert [mjax.typeof(r) for r in firsts[n:]] == [t.strip_weak_type() for t in types]
    seconds = iter(run(rest, *firsts[n:], *[a for a, u in zip(ARGS, unknown, strict=True) if u]))
    given = iter(firsts[:n])
    same([next(seconds) if u else next(given) for u in out_unknowns], run(jaxpr, *ARGS))
    assert out_unknowns[3] and out_unknowns[4] == unknown[0]


def test_programs_between_values_of_a_trace():
    found = []

    def f(x, y):
        a = lax.sin(x)
        b = lax.mul(lax.cos(a), W)
        mjax.debug.print("{}", b)
        mjax.debug.print("{}", y)
        found.append(partial_eval.tracers_to_jaxpr([a], [lax.neg(b)]))
        with pytest.raises(ValueError, match=r"depends on an input .*not among in_tracers"):
            partial_eval.tracers_to_jaxpr([a], [lax.add(b, y)])
        return partial_eval.instantiate_const_at(x.interp, False, b)

    traced(f, X, X)
    (jaxpr, consts, env), = found
    core.check_jaxpr(jaxpr)
    assert names(jaxpr) == ["cos", "mul", "debug_callback", "neg"] and env == ()
    same(run(jaxpr, X, consts=consts), [-np.cos(X) * np.asarray(W)])
    with pytest.raises(TypeError, match="takes values of a trace that stages"):
        partial_eval.tracers_to_jaxpr([X], [X])


# ---- by a policy -------------------------------------------------------------------------


def cosines(primitive, *avals, **params):
    return primitive.name == "cos"


@pytest.mark.parametrize("policy", [cosines, lambda *_, **__: True, lambda *_, **__: False])
@pytest.mark.parametrize("unknown", [(False, False, True), (True, False, False),
                                     (False, False, False)])
def test_the_parts_by_a_policy_make_the_whole(unknown, policy):
    jaxpr = traced(ladder, *ARGS)
    known, staged, out_unknowns, out_inst, n = partial_eval.partial_eval_jaxpr_custom(
        jaxpr, unknown, unknown, False, [False, True, False, False, True], policy)
    core.check_jaxpr(known)
    core.check_jaxpr(staged)
    firsts = run(known, *[a for a, u in zip(ARGS, unknown, strict=True) if not u])
    seconds = run(staged, *firsts[len(firsts) - n:],
                  *[a for a, u in zip(ARGS, unknown, strict=True) if u])
    wanted = run(jaxpr, *ARGS)
    same(firsts[:len(firsts) - n], [w for w, u in zip(wanted, out_unknowns, strict=True) if not u])
    same(seconds, [w for w, i in zip(wanted, out_inst, strict=True) if i])
    assert all(i for u, i in zip(out_unknowns, out_inst, strict=True) if u)
    assert out_inst[1] and out_inst[4]


def test_the_policy_decides_inside_of_calls():
    f = mjax.jit(lambda x, y: lax.mul(lax.sin(lax.cos(lax.exp(x))), y))
    jaxpr = traced(f, X, X)
    known, staged, *_, n = partial_eval.partial_eval_jaxpr_custom(
        jaxpr, [False, True], [False, True], False, False, cosines)
    assert names(known.eqns[0].params["jaxpr"]) == ["exp", "cos", "sin"]
    # x and cos x; a caller removes the dead code of both parts.
    assert names(staged.eqns[0].params["jaxpr"]) == ["exp", "sin", "mul"] and n == 2
    with pytest.raises(ValueError, match="an unknown input must be instantiated"):
        partial_eval.partial_eval_jaxpr_custom(jaxpr, [False, True], False, False, False, cosines)


def test_a_rule_by_a_policy_and_checkpoint():
    """A primitive that saves the first of its results, and computes the second again."""
    p, ran = core.Primitive("pair", multiple_results=True), []
    p.def_impl(lambda x: (ran.append(1), [np.sin(x), np.cos(x)])[1])
    p.def_abstract_eval(lambda x: [x, x])
    ad.primitive_jvps[p] = lambda primals, tangents: (
        p.bind(*primals), [lax.mul(tangents[0], o) for o in p.bind(*primals)])

    def rule(saveable, unks_in, inst_in, eqn):
        assert unks_in == [False] and inst_in == [True]
        return eqn, None, [False, False], [False, False], []

    def f(x):
        return lax.reduce_sum(lax.mul(*p.bind(lax.exp(x))), (0,))

    def passes():
        ran.clear()
        mjax.grad(mjax.checkpoint(f))(X)
        return len(ran)

    before = passes()
    partial_eval.partial_eval_jaxpr_custom_rules[p] = rule
    assert p in partial_eval.partial_eval_jaxpr_custom_rules and passes() < before
    e = np.exp(X)
    np.testing.assert_allclose(mjax.grad(mjax.checkpoint(f))(X), 2 * np.sin(e) * np.cos(e) * e,
                               rtol=1e-5)
    partial_eval.partial_eval_jaxpr_custom_rules[p] = lambda *args: None
    with pytest.raises(TypeError, match=r"'pair'.*returned None.*known equation or None"):
        mjax.grad(mjax.checkpoint(f))(X)
    del partial_eval.partial_eval_jaxpr_custom_rules[p]
    assert p.recompute is None and passes() == before
    with pytest.raises(TypeError, match="maps primitives to functions"):
        partial_eval.partial_eval_jaxpr_custom_rules[p] = 3


def test_staging_rules():
    """A primitive that leaves two equations, and one that is left out where it does nothing."""
    p, times_p = core.Primitive("twice"), core.Primitive("times")
    for each, types in ((p, lambda x: x), (times_p, lambda x, *, by: x)):
        each.def_abstract_eval(types)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: lax.add(x, x), multiple_results=False))
    mlir.register_lowering(times_p, mlir.lower_fun(lambda x, by: lax.mul(x, float(by)),
                                                   multiple_results=False))
    before = traced(lambda x: p.bind(x), X)
    seen = []

    def rule(trace, source_info, x):
        assert isinstance(trace, partial_eval.DynamicJaxprTrace) and source_info is not None
        assert isinstance(x, partial_eval.DynamicJaxprTracer)
        seen.append(x.aval)
        return lax.add(x, times_p.bind(x, by=1))

    def nothing(trace, source_info, x, *, by):
        if by == 1:
            return x
        return trace.default_process_primitive(times_p, [x], {"by": by}, source_info)

    partial_eval.custom_staging_rules[p] = rule
    partial_eval.custom_staging_rules[times_p] = nothing
    assert p in partial_eval.custom_staging_rules and "test_partial_eval" in p.rules()["staging"]

    def f(x):
        return p.bind(times_p.bind(x, by=3)), p.bind(W)

    for _ in range(2):
        jaxpr = traced(f, X)
        assert names(jaxpr) == ["times", "add", "add"] and len(jaxpr.consts) == 1
    assert seen[:2] == [F3, F3] and names(before) == ["twice"]
    core.check_jaxpr(jaxpr)
    np.testing.assert_array_equal(mjax.jit(f)(X)[0], 6 * X)
    np.testing.assert_array_equal(p.bind(X), 2 * X)  # evaluation does not stage it
    assert names(traced(lambda: p.bind(2.0))) == ["add"]
    del partial_eval.custom_staging_rules[p]
    assert names(traced(lambda x: p.bind(x), X)) == ["twice"]


def test_staging_rules_of_several_results():
    p = core.Primitive("both", multiple_results=True)
    p.def_abstract_eval(lambda x: [x, x])
    partial_eval.custom_staging_rules[p] = lambda trace, source_info, x: (
        trace.default_process_primitive(p, [x], {}) if x.ndim else [x, x])
    assert names(traced(p.bind, X)) == ["both"] and names(traced(p.bind, 1.0)) == []


def test_equations_made_by_staging_rules():
    p = core.Primitive("both", multiple_results=True)
    p.def_abstract_eval(lambda x, y: [x, y])

    def rule(trace, source_info, x, y):
        with compute_on("device_host"):
            eqn, outs = trace.make_eqn([y, x], [y.aval, x.aval], p, {}, {noted}, source_info)
        assert isinstance(eqn, partial_eval.TracingEqn) and eqn.invars == eqn.in_tracers == [y, x]
        trace.frame.add_eqn(eqn)
        trace.emit_eqn(outs, [x.aval], lax_add, {}, core.no_effects, source_info, eqn.ctx)
        return outs[::-1]

    lax_add, noted = core.primitives.add_p, Noted()
    partial_eval.custom_staging_rules[p] = rule
    jaxpr = traced(lambda x: p.bind(x, W), X)
    assert names(jaxpr) == ["both", "add"] and jaxpr.effects == {noted}
    assert [v.aval for v in jaxpr.eqns[0].invars] == [core.get_aval(W), F3]
    assert {eqn.ctx.compute_type for eqn in jaxpr.eqns} == {"device_host"}
    assert jaxpr.outvars == jaxpr.eqns[0].outvars[::-1]


# ---- traces and wrapped functions --------------------------------------------------------


def test_a_trace_of_partial_evaluation_by_hand():
    with core.take_current_trace() as parent:
        trace = partial_eval.JaxprTrace(parent, (), core.TraceTag())
    x = trace.new_arg(partial_eval.PartialVal.unknown(F3))
    known = trace.new_arg(partial_eval.PartialVal.known(W))
    assert known is W and trace.new_const(W) is W and trace.to_jaxpr_tracer(x) is x
    with core.set_current_trace(trace):
        y = lax.mul(lax.sin(known), x)
        z = lax.cos(known)
    assert isinstance(y, partial_eval.JaxprTracer) and not isinstance(z, partial_eval.JaxprTracer)
    assert isinstance(trace, partial_eval.JaxprTrace)
    assert isinstance(trace.instantiate_const(2.0), partial_eval.JaxprTracer)
    jaxpr, consts, _ = partial_eval.tracers_to_jaxpr([x], [y, trace.instantiate_const(z)])
    assert names(jaxpr) == ["mul"] and len(consts) == 2
    same(run(jaxpr, X, consts=consts), [np.sin(W) * X, np.cos(W)])


@pytest.mark.parametrize("wrap", [lambda f: f, lu.wrap_init])
@pytest.mark.parametrize("knowns", list(itertools.product([False, True], repeat=2)))
def test_wrapped_functions_of_partly_known_arguments(wrap, knowns):
    def f(x, y):
        return [lax.sin(x), lax.mul(lax.mul(x, W), lax.exp(y)), y]

    args = [mjax.device_put(X), mjax.device_put(X + 1)]
    given = [a for a, k in zip(args, knowns, strict=True) if k]
    rest = [a for a, k in zip(args, knowns, strict=True) if not k]
    for forwarding in (False, True):
        if forwarding:
            inner = partial_eval.trace_to_subjaxpr_nounits_fwd(wrap(f), core.TraceTag(), None,
                                                               [False, True, False])
        else:
            with core.take_current_trace() as parent:
                trace = partial_eval.JaxprTrace(parent)
            inner = partial_eval.trace_to_subjaxpr_nounits(wrap(f), trace, [False, True, False])
        g, more = partial_eval.partial_eval_wrapper_nounits(inner, knowns, [F3] * len(rest))
        outs = g.call_wrapped(*given)
        *forwarded, out_knowns, out_avals, jaxpr, env = more()
        n = sum(out_knowns)
        consts = iter(outs[n:])
        if forwarding:
            consts = iter([next(consts) if i is None else given[i] for i in forwarded[0]])
            assert not any(o is a for o in outs[n:] for a in given)
        late = iter(run(jaxpr, *rest, consts=list(consts)))
        early = iter(outs[:n])
        assert not out_knowns[1] and env == () and len(out_avals) == 3 - n
        same([next(early) if k else next(late) for k in out_knowns], f(*args))
    with pytest.raises(TypeError, match="trace_to_subjaxpr_nounits: a function of flat "
                       "values must return a list of its results, but sin returned"):
        partial_eval.trace_to_subjaxpr_nounits_fwd(wrap(lax.sin), None).call_wrapped(
            [partial_eval.PartialVal.unknown(F3)])


@pytest.mark.parametrize(("several", "given", "text"), [
    (True, None, "returned None; since multiple_results=True it must return a list of results"),
    (True, ["a"], "returned 'a' for a value of the program"),
    (False, None, "returned None for a value of the program")])
def test_what_staging_rules_return_wrongly_is_named(several, given, text):
    p = core.Primitive("staged wrongly", multiple_results=several)
    partial_eval.custom_staging_rules[p] = lambda trace, source, *tracers, **params: given
    with pytest.raises(TypeError, match=f"staging rule of primitive 'staged wrongly' .*{text}"):
        mjax.make_jaxpr(p.bind)(1.0)
