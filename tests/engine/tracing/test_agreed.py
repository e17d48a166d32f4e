"""What agreed with abstract evaluations, by types and params."""

from __future__ import annotations

import functools
import gc
import threading
import weakref

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base.program_caches import PlainCache, forget_programs
from mjax._engine.tracing.agreed import LONGEST, Few, Many, note, note_beside
from mjax.experimental import hijax
from mjax_ext import core
from mjax_ext.interpreters import ad, batching

X = np.ones(3, np.float32)


def test_few_params_are_compared_and_many_are_hashed():
    table = {}
    for i in range(20):
        for _ in range(2):  # noted once
            note(table, iter([("f32",)]), {"by": float(i), "kind": ("a", i)}, made="made")
    note(table, [("f32",), ("f32", "f32")], {}, start="jvp")
    many, few = table[(), "f32"], table[("jvp", "f32"), "f32", "f32"]
    assert type(many) is Many and many.made == "made" and len(many) == 20
    assert type(few) is Few and few.made is None and few == [{}]
    assert all({"by": float(i), "kind": ("a", i)} in many for i in range(20))
    assert {"by": 1.0, "kind": ("a", 2)} not in many and {} not in many and {} in few


def test_many_params_are_forgotten_by_halves():
    table = {}
    for i in range(3000):
        note(table, [("f32",)], {"by": i})
    many = table[(), "f32"]
    assert 512 <= len(many) <= 1024 and {"by": 2999} in many and {"by": 0} not in many


def test_numbers_of_results_are_few_for_all_types_together():
    cache, tracers = PlainCache(), [core.Tracer(None, core.ShapedArray((i,), np.dtype("f4")))
                                    for i in range(160)]
    sizes = []
    for x in tracers:
        for y in tracers:
            note_beside(cache, [x, y], {"by": 1}, list, 2)
            assert cache.entries[x.aval][y.aval][list] == {2: [{"by": 1}]}
        sizes.append(sum(map(len, cache.entries.values())))
    assert 4096 < max(sizes) <= 8192
    cache.clear()
    note_beside(cache, [X, 1.0], {}, list, 2)  # They do not have the attribute `aval`.
    note_beside(cache, [tracers[0]] * LONGEST, {}, list, 2)
    assert not cache.entries and not cache.nested


def test_more_than_few_params_that_two_threads_noted_are_hashed_too():
    table = {}
    table[(), "f32"] = few = Few(None)
    few.extend({"by": i} for i in range(9))
    note(table, [("f32",)], {"by": 9})
    assert type(table[(), "f32"]) is Many and len(table[(), "f32"]) == 10


def test_transformed_primitives_are_not_kept():
    def transformed(several):
        p = core.Primitive(f"short-lived, {several}", multiple_results=several)
        p.def_abstract_eval(lambda x, y: [x] if several else x)
        batching.primitive_batchers[p] = lambda args, dims: (
            [args[0]], [dims[0]]) if several else (args[0], dims[0])
        for y in None, 0:
            mjax.make_jaxpr(mjax.vmap(p.bind, in_axes=(0, y)))(X, X if y == 0 else 2.0)
        return weakref.ref(p)

    kept = [transformed(several) for several in (False, True)]
    gc.collect()
    assert [reference() for reference in kept] == [None, None]


def test_threads_that_note_and_forget_at_once():
    p = core.Primitive("row of many kinds", params={"kind": int})
    p.def_abstract_eval(lambda x, *, kind: x)
    batching.primitive_batchers[p] = lambda args, dims, *, kind: (
        args[0] if kind % 13 != 11 else args[0].T, dims[0])
    found = []

    def use():
        for i in range(52):
            try:
                mjax.make_jaxpr(mjax.vmap(lambda x, i=i: p.bind(x, kind=i)))(
                    np.stack([X, X, X, X]))
            except Exception as error:
                found.append((i, isinstance(error, TypeError)))
            if i % 20 == 0:
                forget_programs()

    threads = [threading.Thread(target=use) for _ in range(3)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert sorted(found) == [(i, True) for i in (11, 24, 37, 50) for _ in threads]


def test_what_is_not_noted():
    cache = PlainCache()
    table = cache.entries
    note(table, ((x.aval,) for x in [X]), {})  # a NumPy array does not have the attribute
    note(table, [("f32",)], {"table": [1, 2]})
    note(table, [([1, 2],)], {})
    assert not table
    note(table, [("f32",)], {})
    forget_programs()
    assert not table


def test_a_rule_that_is_wrong_for_one_of_many_params():
    p = core.Primitive("row of a kind", params={"kind": int})
    p.def_abstract_eval(lambda x, *, kind: x)
    p.def_impl(lambda x, *, kind: x)
    wrong = lambda x, kind: x[:2] if kind == 11 else x
    ad.primitive_jvps[p] = lambda primals, tangents, *, kind: (
        wrong(*primals, kind), wrong(*tangents, kind))
    batching.primitive_batchers[p] = lambda args, dims, *, kind: (wrong(args[0].T, kind).T, 0)
    jvp = lambda kind: mjax.make_jaxpr(lambda x: mjax.jvp(
        lambda x: p.bind(x, kind=kind), (x,), (x,)))(X)
    vmap = lambda kind: mjax.make_jaxpr(mjax.vmap(lambda x: p.bind(x, kind=kind)))(X[None])
    for _ in range(2):
        for kind in range(20):
            if kind != 11:
                jvp(kind), vmap(kind)
        with pytest.raises(TypeError, match=r"jvp rule of primitive 'row of a kind'.*float32\[2\]"):
            jvp(11)
        with pytest.raises(TypeError, match=r"batching rule of primitive 'row of a kind'.*says"):
            vmap(11)


def test_a_primitive_may_turn_to_several_results():
    p = core.Primitive("turned")
    p.multiple_results = True
    p.def_abstract_eval(lambda x: [x, x])
    ad.primitive_jvps[p] = lambda primals, tangents: (primals * 2, [*tangents] * 2)
    assert p.compares_list and not p.compares_one
    for _ in range(2):
        jaxpr = mjax.make_jaxpr(lambda x: mjax.jvp(p.bind, (x,), (x,)))(X)
        assert len(jaxpr.out_avals) == 4


def test_primitives_without_operands_do_not_depend_on_a_batch():
    p = core.Primitive("three ones")
    p.def_abstract_eval(lambda: core.ShapedArray((3,), np.dtype(np.float32)))
    p.def_impl(lambda: X)
    found = mjax.vmap(lambda x: x + p.bind())(X[None])
    np.testing.assert_array_equal(found, X[None] * 2)


class Crate:
    """A value of a type of ours, which may change; `CrateType` is its type."""

    def __init__(self, content):
        self.content = content


class CrateType(hijax.HiType):
    def __init__(self, content):
        self.shape = content.shape

    def __eq__(self, other):
        return isinstance(other, CrateType) and self.shape == other.shape

    def __hash__(self):
        return hash(self.shape)


hijax.register_hitype(Crate, lambda crate: CrateType(crate.content))


def test_values_of_types_of_users_may_change_and_are_not_kept():
    p = core.Primitive("as large as a crate")
    p.def_abstract_eval(lambda x, crate: x.update(shape=crate.shape))
    batching.primitive_batchers[p] = lambda args, dims: (args[0], dims[0])
    crate = Crate(X)
    trace = lambda crate: mjax.make_jaxpr(mjax.vmap(lambda x: p.bind(x, crate)))(X[None])
    trace(crate)
    trace(crate)
    crate.content = X[:2]
    with pytest.raises(TypeError, match=r"batching rule of primitive 'as large as.*float32\[2\]"):
        trace(crate)
    reference = weakref.ref(crate)
    del crate
    gc.collect()
    assert reference() is None


class Heading(core.Trace):
    def process_primitive(self, primitive, tracers, params):
        return [tracers[0]]


def under_a_trace_of_a_user(*xs):
    p = core.Primitive("first of many, in a list", multiple_results=True)
    p.def_abstract_eval(lambda *xs: [xs[0]])
    trace = Heading()
    for _ in range(3):
        with core.set_current_trace(trace):
            assert len(p.bind(*(core.Tracer(trace, mjax.typeof(x)) for x in xs))) == 1


@pytest.mark.parametrize("number", [LONGEST - 1, LONGEST, 1200])
@pytest.mark.parametrize("transform", [
    lambda p: lambda *xs: mjax.vmap(p.bind)(*xs),
    lambda p: lambda *xs: mjax.jvp(p.bind, xs, xs),
    lambda p: lambda *xs: mjax.linearize(p.bind, *xs)[0],
    lambda p: under_a_trace_of_a_user], ids=["vmap", "jvp", "linearize", "trace"])
def test_more_operands_than_keys_hold(transform, number):
    p = core.Primitive("first of many")
    p.def_abstract_eval(lambda *xs: xs[0])
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))
    batching.primitive_batchers[p] = lambda args, dims: (args[0], dims[0])
    p.def_partial_eval(lambda interp, *args: args[0])
    for _ in range(3):
        mjax.make_jaxpr(transform(p))(*[X] * number)


class Odd:
    """A param that can be hashed, but compared with itself only."""

    def __eq__(self, other):
        if self is not other:
            raise self.error
        return True

    __hash__ = object.__hash__


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
def test_params_that_cannot_be_compared(error):
    p = core.Primitive(f"of odd params, {error.__name__}")
    p.def_abstract_eval(lambda x, *, odd: x)
    ad.primitive_jvps[p] = lambda primals, tangents, odd: (*primals, p.bind(*tangents, odd=odd))
    ad.primitive_transposes[p] = lambda ct, x, odd: [ct]
    batching.primitive_batchers[p] = lambda args, dims, odd: (args[0], dims[0])
    p.def_partial_eval(lambda interp, x, *, odd: x)
    for _ in range(3):
        odd = Odd()
        odd.error = error
        f = lambda x, odd=odd: p.bind(x, odd=odd)
        mjax.make_jaxpr(mjax.vmap(f))(X)
        assert mjax.grad(f)(1.0) == 1.0


def in_a_thread_of_little_stack(run):
    before, done = threading.stack_size(256 * 1024), []
    try:
        thread = threading.Thread(target=lambda: (run(), done.append(True)))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert done


@pytest.mark.parametrize("transform", [
    lambda f: mjax.vmap(f), lambda f: lambda x: mjax.jvp(f, (x,), (x,))], ids=["vmap", "jvp"])
@pytest.mark.parametrize("several", [False, True])
def test_operands_and_results_in_a_thread_of_little_stack(transform, several):
    p = core.Primitive(f"first of very many, {several}", multiple_results=several)
    p.def_abstract_eval(lambda *xs: [*xs] if several else xs[0])
    ad.primitive_jvps[p] = lambda primals, tangents: (
        ([*primals], [*tangents]) if several else (primals[0], tangents[0]))
    batching.primitive_batchers[p] = lambda args, dims: (
        ([*args], [*dims]) if several else (args[0], dims[0]))

    def run():
        for number in 2, 8000:
            for _ in range(2):
                mjax.make_jaxpr(transform(lambda x, n=number: p.bind(*[x] * n)))(X)

    in_a_thread_of_little_stack(run)


@pytest.mark.parametrize("p", [
    lax.concatenate_p, lax.stack_p, lax.select_n_p, lax.optimization_barrier_p], ids=str)
def test_primitives_of_the_engine_in_a_thread_of_little_stack(p):
    params = {"dimension": 0} if p is lax.concatenate_p else {"axis": 0} if p is lax.stack_p else {}
    which = [np.int32(0)] * (p is lax.select_n_p)
    f = lambda x, n: p.bind(*which, *[x] * n, **params)

    def run():
        for number in 2, 8000:
            for _ in range(2):
                mjax.make_jaxpr(mjax.vmap(lambda x, n=number: f(x, n)))(X[None])

    in_a_thread_of_little_stack(run)


def test_primitives_of_a_fixed_number_of_operands_are_narrow():
    fixed, free = core.Primitive("of one operand"), core.Primitive("of any operands")
    assert not fixed._narrow
    fixed.def_abstract_eval(lambda x, *, by=1: x)
    free.def_abstract_eval(lambda *xs: xs[0])
    assert fixed._narrow and not free._narrow and lax.mul_p._narrow
    assert not any(p._narrow for p in (lax.concatenate_p, lax.select_n_p, lax.after_all_p))
    fixed.def_effectful_abstract_eval(lambda *xs: (xs[0], set()))
    assert not fixed._narrow
    fixed.def_abstract_eval(lambda x: x)
    fixed.abstract_eval = None
    assert not fixed._narrow

    @functools.wraps(lambda x: x)
    def hidden(*xs):
        return xs[0]

    fixed.def_abstract_eval(hidden)
    assert not fixed._narrow


@pytest.mark.parametrize("number", [400, LONGEST - 1, LONGEST])
@pytest.mark.parametrize("several", [False, True])
def test_a_rule_of_many_operands_that_is_wrong_later(several, number):
    wrong = []
    p = core.Primitive(f"first of {number}, {several}", multiple_results=several)
    p.def_abstract_eval(lambda *xs: [xs[0]] if several else xs[0])
    given = lambda x, axis: lax.slice_in_dim(x, 0, 2, axis=axis) if wrong else x
    in_list = lambda x: [x] if several else x
    ad.primitive_jvps[p] = lambda primals, tangents: (
        in_list(given(primals[0], 0)), in_list(given(tangents[0], 0)))
    batching.primitive_batchers[p] = lambda args, dims: (
        in_list(given(args[0], 1)), in_list(dims[0]))
    f = lambda x: p.bind(*[x] * number)
    jvp = lambda: mjax.make_jaxpr(lambda x: mjax.jvp(f, (x,), (x,)))(X)
    vmap = lambda: mjax.make_jaxpr(mjax.vmap(f))(X[None])
    for transform, rule in (jvp, "jvp"), (vmap, "batching"):
        transform(), transform()
        wrong.append(True)
        with pytest.raises(TypeError, match=rf"{rule} rule of primitive.*float32\[2\]"):
            transform()
        wrong.clear()
