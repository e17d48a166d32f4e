"""Wrapped functions: transformations around them, results beside their results, caches."""

from __future__ import annotations

import gc
import weakref

import pytest

import mjax
from mjax import lax
from mjax_ext import core
from mjax_ext import linear_util as lu
from mjax_ext.core import primitives

INFO = mjax.api_util.debug_info("test", lambda x: x, (1,), {})


def double(x, bias=0):
    return [2 * x + bias]


@lu.transformation2
def shifted(f, by, *args):
    return f(*(x + by for x in args))


@lu.transformation_with_aux2
def counted(f, store, *args):
    outs = f(*args)
    store.store(len(outs))
    return outs


def test_transformations_apply_from_the_outside_in():
    order = []

    @lu.transformation2
    def noting(f, name, *args):
        order.append(name)
        return f(*args)

    fun = noting(noting(lu.wrap_init(double), "inner"), "outer")
    assert fun.call_wrapped(3) == [6] and order == ["outer", "inner"]
    assert shifted(lu.wrap_init(double, {"bias": 1}), 10).call_wrapped(3) == [27]
    assert repr(fun) == "WrappedFun(noting of noting of double)" and fun.__name__ == "double"


def test_generators_are_transformations():
    @lu.transformation
    def squared(power, x):
        outs = yield (x ** power,), {"bias": 1}
        yield [-y for y in outs]

    @lu.transformation_with_aux
    def listed(*args):
        outs = yield args, {}
        yield outs, "aux"

    fun, aux = listed(squared(lu.wrap_init(double), 2))
    assert fun.call_wrapped(3) == [-19] and aux() == "aux"


def test_a_further_result_is_there_once_the_function_has_run():
    fun, count = counted(lu.wrap_init(double))
    with pytest.raises(lu.StoreException, match="Store empty"):
        count()
    assert fun.call_wrapped(1) == [2] and count() == 1
    with pytest.raises(lu.StoreException, match="Store occupied: .* a second time"):
        fun.call_wrapped(1)
    many = lu.wrap_init(lambda n: [0] * n)
    fun, count = counted(many, use_eq_store=True, unk_names=True)
    fun.call_wrapped(2), fun.call_wrapped(2)
    assert count() == 2
    with pytest.raises(lu.StoreException, match="gave 2 before and 3 now"):
        fun.call_wrapped(3)


def test_one_of_two_has_run():
    pairs = [counted(lu.wrap_init(double)) for _ in range(2)]
    (f, one), (g, two) = pairs
    with pytest.raises(lu.StoreException, match="neither store occupied"):
        lu.merge_linear_aux(one, two)
    g.call_wrapped(1)
    assert lu.merge_linear_aux(one, two) == (False, 1)
    f.call_wrapped(1)
    with pytest.raises(lu.StoreException, match="both stores occupied"):
        lu.merge_linear_aux(one, two)


def test_wrapped_functions_are_equal_if_they_do_the_same():
    wrapped = lambda by=1, f=double, **params: shifted(lu.wrap_init(f, params, debug_info=INFO), by)
    assert wrapped() == wrapped() and hash(wrapped()) == hash(wrapped())
    for other in (wrapped(2), wrapped(f=abs), wrapped(bias=1),
                  wrapped().replace_debug_info(INFO._replace(traced_for="other")),
                  lu.annotate(wrapped(), (mjax.typeof(1),)), 3):
        assert wrapped() != other


def test_names_are_for_messages():
    fun = lu.wrap_init(double, debug_info=INFO)
    assert fun.debug_info.arg_names == ("x",) and fun.debug_info.result_paths is None
    assert fun.with_unknown_names().debug_info.arg_names is None
    assert lu.wrap_init(double).debug_info.func_name == "double"


def test_types_of_operands_are_given_once():
    fun = lu.wrap_init(double)
    assert lu.annotate(fun, None) is fun
    typed = lu.annotate(fun, (mjax.typeof(1.0),))
    assert typed.in_type == (mjax.typeof(1.0),) and shifted(typed, 1).in_type is None
    with pytest.raises(TypeError, match="has the types .* already"):
        lu.annotate(typed, (mjax.typeof(1.0),))
    for wrong in ([mjax.typeof(1.0)], (1.0,)):
        with pytest.raises(TypeError, match=r"in_type must be a tuple of types"):
            lu.annotate(fun, wrong)


@pytest.mark.parametrize("make", [lu.wrap_init, lu.transformation, lu.transformation2,
                                  lu.transformation_with_aux, lu.transformation_with_aux2,
                                  lu.cache])
def test_functions_are_expected(make):
    with pytest.raises(TypeError, match=f"{make.__name__} expects a function, got 3 of type int"):
        make(3)


def test_wrapped_functions_are_expected():
    for transform in (shifted, counted):
        with pytest.raises(TypeError, match="transforms a WrappedFun, got .*: *.*wrap_init|Wrap a"):
            transform(double)


# ---- caches ------------------------------------------------------------------------------


def cached():
    calls = []

    @lu.cache
    def run(fun, *args):
        calls.append(args)
        return fun.call_wrapped(*args)

    return run, calls


def test_results_are_kept_for_equal_functions():
    run, calls = cached()
    for _ in range(2):
        fun, count = counted(shifted(lu.wrap_init(double, debug_info=INFO), 1))
        assert run(fun, 3) == [8] and count() == 1
    run(lu.wrap_init(double), 3)
    run(shifted(lu.wrap_init(double), 2), 3)
    run(lu.wrap_init(double), 4)
    assert calls == [(3,), (3,), (3,), (4,)]


def test_results_depend_on_settings_and_axes_in_scope():
    run, calls = cached()
    run(lu.wrap_init(double), 3)
    with mjax.enable_x64(True):
        run(lu.wrap_init(double), 3)
    with core.extend_axis_env_nd([("i", 2)]):
        run(lu.wrap_init(double), 3)
    run(lu.wrap_init(double), 3)
    assert len(calls) == 3


def test_results_are_forgotten():
    run, calls = cached()
    functions = [lambda x: [x], lambda x: [-x]]
    forget = (lambda: run.evict_function(functions[0]), run.cache_clear, mjax.clear_caches)
    for clear, count in zip((lambda: None, *forget), (2, 3, 5, 7), strict=True):
        clear()
        for f in functions:
            run(lu.wrap_init(f), 1)
        assert len(calls) == count
    gone = weakref.ref(f)
    del f, functions[1]
    gc.collect()
    assert gone() is None  # results do not keep the function alive


def test_misses_are_explained():
    told = []
    run = lu.cache(lambda fun, x: fun.call_wrapped(x), explain=lambda *args: told.append(args))
    run(lu.wrap_init(double), 1)
    with mjax.explain_cache_misses(True):
        run(lu.wrap_init(double), 1)
        fun = lu.wrap_init(double)
        run(fun, 2)
    ((which, first, _, _, seconds),) = told
    assert which is fun and first is False and seconds >= 0


def test_wrapped_functions_are_staged():
    fun = shifted(lu.wrap_init(lambda x: [lax.sin(x)]), 1.0)
    jaxpr = mjax.make_jaxpr(lambda x: primitives.call_p.bind(x, subfuns=(fun,)))(1.0)
    assert [e.primitive.name for e in jaxpr.eqns[0].params["call_jaxpr"].eqns] == ["add", "sin"]
