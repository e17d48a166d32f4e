"""A head that moved on: a library of v1 and one of v2 run unchanged in one process."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
import mjax_ext
from mjax_ext import _manifest
from mjax_ext._generations import chain, snapshot, surface
from mjax_ext.interpreters import ad as head_ad
from mjax_ext.interpreters import batching as head_batching
from tests.generations.fixture.generations import CHANGES, installed
from tests.generations.fixture.head import window_p

LIBRARIES = [f"tests.generations.fixture.library_{g}" for g in ("v1", "v2")]


@pytest.fixture
def libraries():
    """Both libraries, over the generations of the fixture."""
    with installed():
        yield [importlib.import_module(name) for name in LIBRARIES]
        for name in LIBRARIES:
            sys.modules.pop(name, None)


def factor(before, after):
    return 1.0 + before + 10 * after


def test_libraries_of_two_generations_share_a_primitive(libraries):
    one, two = libraries

    def f(x):
        return one.window(x, 1, 2) + two.window(x, (3, 0))

    expected = factor(1, 2) + factor(3, 0)
    xs = jnp.arange(3.0)
    np.testing.assert_allclose(mjax.jit(f)(xs), expected * np.arange(3))
    # The jvp and the transpose rule are v1's, the batching rule is v2's.
    grads = mjax.vmap(mjax.grad(f))(xs)
    np.testing.assert_allclose(grads, np.full(3, expected))
    np.testing.assert_allclose(mjax.jit(mjax.vmap(f))(xs), expected * np.arange(3))
    assert set(two.SIZES) == {3} and set(one.ZEROS) == {False}


def test_both_read_the_params_that_they_know(libraries):
    one, two = libraries

    def f(x):
        return mjax.jit(lambda y: one.window(y, 1, 2))(two.window(x, (3, 0)))

    assert one.sizes_in(f, 1.0) == [(3, 0), (1, 2)]
    assert two.sizes_in(f, 1.0) == [(3, 0)]
    jaxpr = mjax.make_jaxpr(f)(1.0)
    assert jaxpr.eqns[0].primitive is window_p and jaxpr.eqns[0].params == {"sizes": (3, 0)}
    assert mjax_ext.v2.program(jaxpr) is jaxpr
    mine = mjax_ext.v1.program(jaxpr)
    assert mine is mjax_ext.v1.program(jaxpr) is not jaxpr
    assert mjax_ext.core.check_jaxpr(mine) is None
    out, = mjax_ext.core.eval_jaxpr(mine, mine.consts, 1.0)
    np.testing.assert_allclose(out, factor(3, 0) * factor(1, 2))


def test_a_walk_that_changes_params(libraries):
    one, two = libraries
    out = one.wider(lambda x: two.window(x, (3, 0)) + 1.0, jnp.float32(2))
    np.testing.assert_allclose(out, 2 * factor(4, 0) + 1)
    back = mjax.grad(lambda x: one.wider(lambda y: two.window(y, (3, 0)), x))(2.0)
    np.testing.assert_allclose(back, factor(4, 0))


def test_interpreters_and_traces_read_the_params_that_they_know(libraries):
    one, two = libraries
    collect = one.Collect()
    out = collect.run(lambda x: two.window(x, (3, 0)) + one.window(x, 1, 2), jnp.float32(1))
    assert collect.found == [(3, 0), (1, 2)] and out == factor(3, 0) + factor(1, 2)
    trace = one.CollectByTrace()
    with one.core.set_current_trace(trace):
        out = two.window(one.Tracer(trace, jnp.float32(1)), (3, 0))
    assert trace.found == [(3, 0)] and out.value == factor(3, 0)
    assert isinstance(trace, one.core.Trace) and isinstance(trace, mjax_ext.core.Trace)
    seen = []
    mjax.jit(lambda x: (seen.append(isinstance(x._trace, one.core.Trace)), x)[1])(1.0)
    assert seen == [True] and two.core.Trace is mjax_ext.core.Trace


def test_functions_that_were_renamed_removed_and_given_other_arguments(libraries):
    for library in libraries:
        out = library.again(lambda x: mjax.lax.sin(x) + 1.0, 2.0)
        np.testing.assert_allclose(out, np.sin(2.0) + 1, rtol=1e-6)
    one, two = libraries
    np.testing.assert_allclose(one.again(lambda x: two.window(x, (1, 1)), 2.0), 2 * factor(1, 1))
    assert mjax_ext.v1.util.split_list([1, 2, 3, 4], [1, 2]) == [[1], [2, 3], [4]]


def test_rules_go_between_generations_and_the_head(libraries):
    one, two = libraries
    with pytest.raises(mjax.errors.MissingRuleError):
        mjax.grad(one.double_p.bind)(1.0)
    two.add_derivative_of(one.double_p)
    assert mjax.jvp(one.double_p.bind, (1.0,), (3.0,))[1] == 6.0
    # v1's batching rule of a v1 primitive, read by v2 and by the head in their own forms.
    axis = head_batching.AxisData(None, 2, None, None)
    rule = mjax_ext.v2.interpreters.batching.primitive_batchers[one.double_p]
    assert rule(axis, [jnp.ones(2)], [0])[1] == 0
    v1_rules = mjax_ext.v1.interpreters.batching.primitive_batchers
    assert v1_rules[one.double_p]([jnp.ones(2)], [0])[1] == 0
    assert v1_rules[one.double_p].__name__ == "<lambda>" and one.double_p in v1_rules
    value, dim = v1_rules[one.window_p]([jnp.ones(2)], [0], before=1, after=0)
    np.testing.assert_allclose(value, factor(1, 0))
    jvp = head_ad.primitive_jvps[window_p]
    assert jvp([1.0], [head_ad.Zero(mjax.typeof(1.0))], sizes=(0, 0))[0] == 1.0
    assert one.ZEROS[-1]
    assert mjax_ext.v1.interpreters.ad.primitive_jvps[one.window_p]([1.0], [2.0], before=1,
                                                                      after=0)[1] == 4.0
    del v1_rules[one.double_p]
    assert one.double_p not in v1_rules
    with pytest.raises(mjax.errors.MissingRuleError):
        mjax.vmap(one.double_p.bind)(jnp.ones(2))


def test_sentinels_are_the_same(libraries):
    one, two = libraries
    assert one.ad.Zero is two.ad.Zero is head_ad.Zero
    assert one.batching.not_mapped is two.batching.not_mapped is None
    assert one.core.Literal is mjax_ext.core.Literal


def test_a_primitive_of_v1_refuses_rules_of_v2(libraries):
    one, two = libraries
    with pytest.raises(TypeError, match=r"jvp rule of primitive 'window'.*'before'") as caught:
        one.ad.primitive_jvps[one.window_p] = lambda primals, tangents, *, sizes: None
    assert "before v2" in caught.value.__notes__[0] and "before: int" in str(caught.value)
    with pytest.raises(TypeError, match="lowering of primitive 'window'.*'before'"):
        one.mlir.register_lowering(one.window_p, lambda ctx, x, *, sizes: [x])
    with pytest.raises(TypeError, match="'sizes'"):  # and the reverse
        two.ad.primitive_jvps[two.window_p] = lambda primals, tangents, *, before, after: None
    with pytest.raises(TypeError, match=r"rule of primitive 'double' in interpreters.batching"
                       ) as caught:
        one.batching.primitive_batchers[one.double_p] = lambda axis, args, dims: None
    assert "before v2" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="'sizes' is unknown"):
        one.window_p.bind(1.0, sizes=(1, 2))


def test_v1_keeps_its_promise_over_the_head_that_moved_on(libraries):
    promised = _manifest.of("v1").values()
    seen = {generation: surface.observe(generation) for generation in ("v1", "v2")}
    assert not snapshot.broken_promises(seen, promised, changelog="")
    moved = {line.partition(": ")[0] for line in snapshot.broken_promises(
        {**seen, "v1": seen["v2"]}, promised, changelog="")}
    assert moved == {f"v1.{change.name}" for change in CHANGES} - {"v1.core.primitives.window_p"}
    rows = snapshot.renewed(seen, promised)
    adapters = {row.name: row.adapter for row in rows if row.adapter}
    assert adapters == {
        "core.jaxpr_as_fun": "renamed in v2", "util.split_list": "removed in v2",
        "core.new_jaxpr_eqn": "arguments in v2", "core.primitives.window_p": "params in v2",
        "interpreters.batching.primitive_batchers": "convention in v2"}
    assert [row.generations for row in rows if row.name == "core.new_jaxpr_eqn"] == [
        ("v1",), ("v2",)]


def test_names_that_are_gone_say_what_became_of_them(libraries, monkeypatch):
    with pytest.raises(AttributeError, match="core.jaxpr_as_fun is `core.function_of_jaxpr` now"):
        mjax_ext.v2.core.jaxpr_as_fun  # noqa: B018
    with pytest.raises(AttributeError, match="util.split_list is gone: slices do it, in v2"):
        mjax_ext.v2.util.split_list  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'function_of_jaxpr'"):
        mjax_ext.v1.core.function_of_jaxpr  # noqa: B018
    # The head of the test has it under both names; it never had this one.
    monkeypatch.setattr(CHANGES[0], "name", "core.jaxpr_as_func")
    with pytest.raises(AttributeError, match="is `core.function_of_jaxpr` now, in head"):
        mjax_ext.core.jaxpr_as_func  # noqa: B018


def test_require_gives_either(libraries):
    one, two = libraries
    assert one.ext is sys.modules["mjax_ext.v1"] and two.ext is mjax_ext.v2
    with pytest.warns(mjax_ext.MixedGenerationsWarning, match="test_fixture.py:14: mjax_ext"):
        assert mjax_ext.require("v1") is one.ext  # this file uses the head
    with pytest.raises(mjax_ext.GenerationError, match="generations v1, v2"):
        mjax_ext.require("v3")


def test_texts_are_made_of_the_changes():
    assert [change.changelog() for change in CHANGES] == [
        "- v2: `core.jaxpr_as_fun` is `core.function_of_jaxpr` now.",
        "- v2: `util.split_list` is gone: slices do it.",
        "- v2: `core.new_jaxpr_eqn` takes the primitive first, and params and effects by name.",
        "- v2: `core.primitives.window_p` has the param `sizes`, the pair of `before` and `after`.",
        "- v2: `interpreters.batching.primitive_batchers` has rules that take the axis first."]
    for change in CHANGES:
        assert change.why in change.paragraph() and "migrate PATH --to v2" in change.paragraph()
        assert change.warning("head").startswith(change.name)
    assert [change.codemod()["kind"] for change in CHANGES] == [
        "rename", "none", "arguments", "none", "none"]
    assert {change.kind for change in CHANGES} == {
        "renamed", "removed", "arguments", "params", "convention"}


def test_the_fixture_leaves_nothing_behind():
    assert not chain.CHAIN.all_changes() and not hasattr(mjax_ext, "v2")
    assert mjax_ext.v1.core.jaxpr_as_fun is mjax_ext.core.jaxpr_as_fun
