"""Registration refuses what cannot be a rule, and warns of a second primitive of one name."""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import sys
import warnings

import numpy as np
import pytest

import mjax
import mjax_ext
import mjax_ext.core.primitives  # all rules of the engine
from mjax import lax
from mjax._engine.tracing.primitive import EnginePrimitive, registry
from mjax._engine.tracing.registration import (
    CALLS,
    Call,
    Taken,
    is_traceable,
    misfit,
    taken_by,
    written,
)
from mjax.errors import MissingRuleError
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, mlir, partial_eval

FIELDS = [f for f in CALLS if f != "lowering"]


def scale(**options):
    return core.Primitive("scale", params={"by": float}, **options)


def test_the_engines_own_rules_would_pass():
    seen = 0
    for p in registry:
        for field, call in CALLS.items():
            rules = [getattr(p, field)] if field != "lowering" else p.lowerings.values()
            for rule in filter(None, rules):
                how = Call((), True) if is_traceable(rule) else call
                assert not misfit(written(rule), how, p.schema), (p, field)
                seen += 1
    assert seen > 800


def test_arguments_of_plain_functions_are_those_of_their_signatures():
    def told(x, y=1, *, k, m=2, **rest):
        """Its code says the same as its signature."""

    functions = [told, lambda: 0, lambda x, /, y, z=3, *args: 0, lambda *, k: 0,
                 lambda x=1, /, *a, k=2, m, **kw: 0]
    for f in functions:
        by_code, by_signature = taken_by(f), taken_by(functools.partial(f))
        assert by_code == by_signature and isinstance(by_code, Taken)
    told.__signature__ = inspect.Signature()
    assert taken_by(told).positional == []


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("rule", [
    3, "rule", [], core.Primitive("other"), mlir.lower_fun(lambda x, *, by: x)],
    ids=lambda rule: type(rule).__name__)
def test_what_is_not_a_function(field, rule):
    for register in (lambda p: getattr(p, f"def_{field}")(rule), lambda p: p.define(field, rule),
                     lambda p: setattr(p, field, rule)):
        with pytest.raises(TypeError, match=r"primitive 'scale' must be a function, not .*rule\("):
            register(scale())


def test_none_removes_a_rule_that_is_assigned_and_is_refused_elsewhere():
    p = scale()
    p.def_jvp(lambda primals, tangents, *, by: (primals[0], tangents[0]))
    p.jvp = None
    assert p.rules()["jvp"] == "missing" and not p.foreign
    with pytest.raises(TypeError, match="the jvp rule of .* must be a function, not None"):
        p.def_jvp(None)
    with pytest.raises(TypeError, match="the lowering of .* must be a function, not None"):
        mlir.register_lowering(p, None)


@pytest.mark.parametrize("table", [
    ad.primitive_jvps, ad.primitive_linearizations, ad.primitive_transposes,
    batching.primitive_batchers, batching.fancy_primitive_batchers, partial_eval.dce_rules,
    partial_eval.custom_partial_eval_rules])
def test_tables_refuse_alike(table):
    p = scale()
    for rule in 3, lambda: None:
        with pytest.raises(TypeError, match="of primitive 'scale'"):
            table[p] = rule
    assert p not in table


#: Field, a function, and what is wrong with it: a part of the message.
MISFITS = [
    ("jvp", lambda primals, *, by: 0, r"rule\(primals, tangents, \*\*params\), but .* takes 1 pos"),
    ("jvp", lambda primals, tangents: 0, "does not take the param 'by' of the schema"),
    ("jvp", lambda primals, tangents, *, by, to: 0, "needs 'to', which the schema does not have"),
    ("jvp", lambda primals, tangents, extra, *, by: 0, "needs a further argument 'extra'"),
    ("jvp", lambda by, tangents: 0, "takes the param 'by' first"),
    ("impl", lambda x: 0, "does not take the param 'by'"),
    ("impl", lambda by, x: 0, "takes the param 'by' before the operand 'x'"),
    ("impl", lambda x, *, factor: 0, "does not take the param 'by'"),
    ("abstract_eval", lambda x: 0, "does not take the param 'by'"),
    ("linearize", lambda *, by: 0, "takes 0 positional arguments"),
    ("partial_eval", lambda *, by: 0, "takes 0 positional arguments"),
    ("transpose", lambda *, by: 0, "takes 0 positional arguments"),
    ("batch", lambda args, *, by: 0, r"rule\(args, dims, \*\*params\)"),
    ("axis_batch", lambda args, dims, *, by: 0, r"rule\(axis, args, dims, \*\*params\)"),
    ("dce", lambda used: 0, r"rule\(used_outputs, eqn\)"),
    ("dce", lambda used, eqn, *, by: 0, "needs 'by', which is not given to it"),
    ("recompute", lambda used, eqn: 0, r"rule\(saveable, used_outputs, eqn\)"),
    ("pretty", lambda: 0, r"rule\(params\)"),
    ("cast_varying", lambda *, by: 0, r"rule\(varying, \*\*params\)"),
]
FITS = [
    ("jvp", lambda *args, **params: 0), ("jvp", lambda ps, ts, **params: 0),
    ("jvp", lambda ps, ts, by: 0), ("jvp", lambda ps, ts, *, by, extra=1: 0),
    ("jvp", functools.partial(lambda table, ps, ts, *, by: 0, {})),
    ("impl", lambda x, by: 0), ("impl", lambda *xs, by: 0), ("transpose", lambda ct, x, **_: 0),
    ("dce", lambda used, eqn: 0), ("batch", max), ("pretty", dict),
]


@pytest.mark.parametrize(("field", "rule", "text"), MISFITS)
def test_signatures_that_do_not_fit(field, rule, text):
    with pytest.raises(TypeError, match=f"of primitive 'scale' is called as .*{text}"):
        scale().define(field, rule)


@pytest.mark.parametrize(("field", "rule"), FITS)
def test_signatures_that_fit(field, rule):
    p = scale()
    p.define(field, rule)
    assert getattr(p, field) is rule


def test_lowerings_are_compared_too():
    p = scale()
    for rule, text in ((lambda x, *, by: 0, None), (lambda *, by: 0, "takes 0 positional"),
                       (lambda ctx, x: 0, "does not take the param 'by'"),
                       (mlir.lower_fun(lambda x: x), "does not take the param 'by'")):
        if text is None:
            mlir.register_lowering(p, rule)
        else:
            with pytest.raises(TypeError, match=f"the lowering of primitive 'scale' .*{text}"):
                mlir.register_lowering(p, rule, "cpu")
    assert list(p.lowerings) == [None]


def test_without_a_schema_any_name_may_be_a_param():
    p = core.Primitive("scale")
    p.def_jvp(lambda primals, tangents, *, anything: 0)
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        p.def_jvp(lambda primals: 0)


def test_rules_that_take_another_number_of_operands():
    p = scale()
    p.def_impl(lambda x, y, *, by: x)
    with pytest.raises(TypeError, match=(
            r"the abstract evaluation of primitive 'scale' takes 1 operands by .*_registration.*"
            r"but the impl rule takes 2 by .*test_registration")):
        p.def_abstract_eval(lambda x, *, by: x)
    with pytest.raises(TypeError, match="takes at least 3 operands .* impl rule takes 2"):
        p.def_transpose(lambda ct, x, y, z, *more, by: x)
    p.def_abstract_eval(lambda x, y, z=None, *, by: x)
    p.def_impl(lambda *xs, by: 0)  # replaces the first one
    with pytest.raises(TypeError, match="takes 1 operands .* abstract_eval rule takes 2 to 3"):
        p.def_lowering(lambda ctx, x, *, by: x)


def test_a_later_schema_is_compared_with_the_rules():
    p = core.Primitive("scale")
    p.def_impl(lambda x, *, by: x)
    with pytest.raises(TypeError, match="does not take the param 'axis'"):
        p.def_schema({"axis": int})
    assert p.schema is None
    assert p.def_schema({"by": float}) is p.schema


def test_unknown_platforms_and_rules():
    p = scale()
    for register in p.def_lowering, functools.partial(mlir.register_lowering, p):
        with pytest.raises(NotImplementedError, match="for platform 'gpu0', which is unknown"):
            register(lambda ctx, x, *, by: x, platform="gpu0")
    with pytest.raises(AttributeError, match="do not have a rule 'jvps'; did you mean 'jvp'"):
        p.define("jvps", lambda primals, tangents, *, by: 0)


def test_rules_of_another_record():
    region_p = core.Primitive("region", multiple_results=True)
    core.Frame(region_p)
    p, q = core.Primitive("scale"), core.Primitive("other")
    ad.deflinear2(q, lambda ct, x: [ct])
    batching.defvectorized(q)
    for rule, owner in ((lax.neg_p.jvp, "neg"), (q.jvp, "other"), (region_p.jvp, "region")):
        with pytest.raises(TypeError, match=(
                f"jvp rule of primitive 'scale' cannot be .* derived for primitive '{owner}'")):
            ad.primitive_jvps[p] = rule
    with pytest.raises(TypeError, match="batching rule of .* derived for primitive 'other'"):
        batching.primitive_batchers[p] = q.batch
    ad.primitive_transposes[p] = q.transpose  # written by an author, who knows
    q.def_jvp(q.jvp)  # its own


def test_primitives_of_other_libraries():
    class Primitive:
        __module__ = "jax.extend.core"
        __repr__ = lambda self: "sin"

    with pytest.raises(TypeError, match=r"sin of type jax\.extend\.core\.Primitive is not an mja"):
        ad.primitive_jvps[Primitive()] = lambda primals, tangents: 0


def test_what_an_author_writes_replaces_what_would_come_first():
    p = core.Primitive("p")
    p.define("axis_batch", lambda axis, args, dims: (args[0], dims[0]), derived=True)
    p.define("linearize", lambda nonzeros, x: (x, True, (), None), derived=True)
    p.def_batch(lambda args, dims: (args[0], dims[0]))
    p.def_jvp(lambda primals, tangents: (primals[0], tangents[0]))
    assert p.axis_batch is None and p.linearize is None and not p.derived
    p.def_axis_batch(written_rule := lambda axis, args, dims: (args[0], dims[0]))
    p.def_batch(lambda args, dims: (args[0], dims[0]))
    assert p.axis_batch is written_rule


# ---- primitives of one name ------------------------------------------------------------


def second(make):
    """The texts of the warnings for primitives of one name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kept = make()
    return [(str(w.message), w.filename, w.lineno) for w in caught], kept


def line():
    return sys._getframe(1).f_lineno


def test_a_second_primitive_of_one_name_warns_and_names_both_places():
    def make():
        first, where = core.Primitive("of one name"), line()
        return where, first, core.Primitive("of one name")

    ((text, file, at),), (where, *_) = second(make)
    assert text.startswith(
        f"a second primitive named 'of one name' is made at {__file__}:{where + 1}; the first was "
        f"made at {__file__}:{where}. ")
    assert (file, at) == (__file__, where + 1)


def test_a_primitive_may_be_made_beside_arrays():
    class Layer:
        def __init__(self, weights):
            self.weights, self.primitive = weights, core.Primitive("layer of weights")

    first, again = Layer(np.ones(2)), Layer(np.ones(2))
    assert first.primitive is not again.primitive


def test_examples_need_params():
    examples = [((1.0,), {})]
    with pytest.raises(TypeError, match=r"'shown' is given examples, .* params=\{\}"):
        core.Primitive("shown", examples=examples)
    assert core.Primitive("shown", params={}, examples=examples).schema.applications() == examples
    with pytest.raises(TypeError, match="'of any params' is given examples"):
        core.primitive_from_function("of any params", lambda x, **params: x, examples=examples)


def test_the_same_statement_again_does_not_warn():
    make = lambda: core.Primitive("made again")
    assert second(lambda: [make(), make()])[0] == []


def test_a_first_one_that_is_gone_does_not_count():
    core.Primitive("gone")
    gc.collect()
    assert second(lambda: core.Primitive("gone"))[0] == []


def test_subclasses_are_made_where_users_make_them():
    class Mine(core.Primitive):
        def __init__(self, name):
            super().__init__(name)

    def make():
        return Mine("of a subclass"), line(), Mine(
            "of a subclass of other lines")

    assert second(make)[0] == []
    texts, (_, where, _) = second(lambda: (Mine("mine"), line(), [
        Mine("mine")]))
    assert f"{__file__}:{where + 1}; the first was made at {__file__}:{where}" in texts[0][0]


def test_the_engines_own_do_not_warn():
    def make(kind):
        first = kind("made twice")
        return first, kind("made twice")

    assert second(lambda: make(EnginePrimitive))[0] == []
    assert len(second(lambda: make(core.Primitive))[0]) == 1


def test_reloads_do_not_warn(tmp_path, monkeypatch):
    file = tmp_path / "scaling_of_reload.py"
    file.write_text("from mjax_ext import core\nscale_p = core.Primitive('reloaded')\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("scaling_of_reload")
    kept = module.scale_p
    file.write_text("# A line more.\n\n" + file.read_text())
    importlib.invalidate_caches()
    assert second(lambda: importlib.reload(module))[0] == []
    assert module.scale_p is not kept
    del sys.modules["scaling_of_reload"]
    file.write_text("# Another.\n" + file.read_text())
    importlib.invalidate_caches()
    assert second(lambda: importlib.import_module("scaling_of_reload"))[0] == []
    (tmp_path / "scaling_elsewhere.py").write_text(file.read_text())
    texts, _ = second(lambda: importlib.import_module("scaling_elsewhere"))
    assert len(texts) == 1 and "scaling_elsewhere.py:" in texts[0][0]


def test_cells_of_a_session_may_be_run_again():
    names = {"__name__": "__main__", "core": core}
    text = "p = core.Primitive('of a cell')"
    cell = lambda number: exec(compile(text, f"<cell {number}>", "exec"), names)
    cell(1)
    kept = names["p"]
    assert second(lambda: cell(2))[0] == [] and kept is not names["p"]


# ---- rules that are left out -----------------------------------------------------------


def test_a_rule_that_is_left_out_gives_its_reason():
    p = scale()
    p.def_abstract_eval(lambda x, *, by: x)
    p.def_batch(lambda args, dims, *, by: (p.bind(*args, by=by), dims[0]))
    p.without("batch", "Scales are those of one element.")
    assert p.batch is None
    assert p.rules()["batch"] == "left out: Scales are those of one element."
    with pytest.raises(MissingRuleError) as caught:
        mjax.make_jaxpr(mjax.vmap(lambda x: p.bind(x, by=2.0)))(np.ones(3))
    assert str(caught.value).startswith(
        "Primitive 'scale' has no batching rule, which vectorization (vmap) needs. It was left out "
        "on purpose: Scales are those of one element.\nIt was applied at\n")
    assert "Write one" not in str(caught.value)
    report = mjax_ext.explain(lambda x: p.bind(x, by=2.0), 1.0, transforms=["vmap"], platforms=[])
    assert "Scales are those of one element." in str(report)


@pytest.mark.parametrize(("rule", "define"), [
    ("batch", lambda p: p.def_axis_batch(lambda axis, args, dims, *, by: (args[0], dims[0]))),
    ("batch", lambda p: batching.defvectorized(p)),
    ("jvp", lambda p: p.def_linearize(lambda nonzeros, x, *, by: None)),
    ("transpose", lambda p: setattr(p, "transpose", lambda ct, x, *, by: [ct]))])
def test_defining_a_rule_takes_back_that_it_is_left_out(rule, define):
    p = scale()
    p.without(rule, "For now.")
    define(p)
    assert not p.exceptions and "left out" not in p.rules()[rule]


def test_leaving_out_removes_derived_rules():
    p = scale()
    p.def_linearize(lambda nonzeros, x, *, by: None)
    p.def_axis_batch(lambda axis, args, dims, *, by: (args[0], dims[0]))
    p.without("jvp", "For now.")
    p.without("batch", "For now.")
    assert p.linearize is None and p.axis_batch is None


@pytest.mark.parametrize(("rule", "reason", "text"), [
    ("dce", "For now.", "primitive 'scale' cannot be without 'dce'"),
    ("determinism", "For now.", "primitive 'scale' cannot be without 'determinism'"),
    ("jvp", " ", "primitive 'scale' is without the jvp rule: say why"),
    ("jvp", None, "primitive 'scale' is without the jvp rule: say why")])
def test_what_cannot_be_left_out(rule, reason, text):
    with pytest.raises(ValueError, match=text):
        scale().without(rule, reason)


# ---- rules that deviate ----------------------------------------------------------------


def test_a_rule_that_deviates_stays_and_gives_its_reason():
    p = scale()
    p.def_abstract_eval(lambda x, *, by: x)
    p.def_batch(lambda args, dims, *, by: (p.bind(*args, by=by), dims[0]))
    batch = p.batch
    p.deviates("batch", "Scales are those of one element.")
    p.deviates("determinism", "Scales wear out.")
    assert p.batch is batch and p.exceptions.keys() == {"batch", "determinism"}
    assert p.rules()["batch"].endswith(", deviates: Scales are those of one element.")
    assert p.rules()["determinism"] == "deviates: Scales wear out."


@pytest.mark.parametrize("define", [
    lambda p: p.def_batch(lambda args, dims, *, by: (args[0], dims[0])),
    lambda p: p.undefine("batch"),
    lambda p: batching.defvectorized(p)])
def test_another_rule_takes_back_that_it_deviates(define):
    p = scale()
    p.def_batch(lambda args, dims, *, by: (args[0], dims[0]))
    p.deviates("batch", "For now.")
    define(p)
    assert not p.exceptions and "deviates" not in p.rules()["batch"]


def test_another_lowering_takes_back_that_it_deviates():
    p = scale()
    p.def_lowering(lambda ctx, x, *, by: [x])
    p.deviates("lowering", "For now.")
    p.def_lowering(lambda ctx, x, *, by: [x], platform="tpu")
    assert not p.exceptions


@pytest.mark.parametrize(("rule", "reason", "text"), [
    ("dce", "For now.", "primitive 'scale' cannot deviate in 'dce'"),
    ("jvp", "For now.", r"does not have a rule 'jvp' .*scale_p.without\('jvp', reason\)"),
    ("determinism", " ", "primitive 'scale' deviates in the determinism rule: say why")])
def test_what_cannot_deviate(rule, reason, text):
    with pytest.raises(ValueError, match=text):
        scale().deviates(rule, reason)
