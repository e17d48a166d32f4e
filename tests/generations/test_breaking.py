"""Each mutation of a copy of the surface is caught."""

from __future__ import annotations

import copy

import pytest

from mjax._engine.transforms import jvp
from mjax._engine.transforms.batching import BatchInterpreter
from mjax_ext import _manifest, v1
from mjax_ext._generations import probes, snapshot, surface
from mjax_ext._generations.breaking import breaks, breaks_of_signature
from mjax_ext.core import JaxprEqn, Primitive

ROWS = _manifest.rows()
SEEN = surface.observe_all()


def mutated(name, **changes):
    """The surface with the shape of one name changed, in the head and in v1."""
    seen = {who: dict(names) for who, names in SEEN.items()}
    kind, shape = seen["v1"][name]
    shape = copy.deepcopy(dict(shape))
    for field, change in changes.items():
        shape[field] = change(shape[field]) if callable(change) else change
    seen["v1"][name] = kind, shape
    return seen


def without(*items):
    """Removes items of a list or a dict."""
    return lambda value: ({k: v for k, v in value.items() if k not in items}
                          if isinstance(value, dict) else [v for v in value if v not in items])


def renamed(old, new):
    """Renames an item of a list, a key of a dict, or a word in a text."""
    def change(value):
        if isinstance(value, str):
            return value.replace(old, new)
        if isinstance(value, dict):
            return {new if k == old else k: v for k, v in value.items()}
        return [new if v == old else v for v in value]
    return change


#: Mutation -> name, changes of its shape, what the message says.
MUTATIONS = {
    "rename an attribute": ("core.Jaxpr", {"attributes": renamed("eqns", "equations")},
                            "its attribute eqns is gone"),
    "drop an attribute of a record": ("core.JaxprEqn", {"attributes": without("params")},
                                      "its attribute params is gone"),
    "rename a method": ("core.Primitive", {"methods": renamed("bind", "apply")},
                        "its method bind is gone"),
    "require an argument of a method": (
        "core.Primitive",
        {"methods": lambda m: {**m, "def_lowering": "(self, rule, platform)"}},
        "def_lowering: its argument platform does not have a default"),
    "drop a param": ("core.primitives.scan_p", {"params": without("num_carry")},
                     "its param num_carry is gone"),
    "merge params": ("core.primitives.scan_p",
                     {"params": lambda p: {"jaxpr": p["jaxpr"], "ft_in": "Any"}},
                     "its param ft_in is new"),
    "retype a param": ("core.primitives.cumsum_p",
                       {"params": lambda p: {**p, "axis": "tuple[int, ...]"}},
                       "its param axis is of type tuple[int, ...], and was of type int"),
    "change operands": ("core.primitives.dot_general_p", {"operands": "3"},
                        "the number of its operands is 3, and was 2"),
    "return several results": ("core.primitives.sin_p", {"multiple_results": True},
                               "its multiple_results is True, and was False"),
    "change a rule's arguments": ("interpreters.batching.primitive_batchers",
                                  {"convention": "rule(axis, args, dims, **params)"},
                                  "its rules are called as rule(axis, args, dims, **params)"),
    "give a rule other values": ("interpreters.ad.primitive_jvps",
                                 {"called": "[value, value], [value, None], k=1"},
                                 "its rules receive [value, value], [value, None], k=1"),
    "change a sentinel": ("interpreters.ad.Zero", {"identity": "another object"},
                          "it is another object, and was the engine's"),
    "change another sentinel": ("interpreters.batching.not_mapped", {"type": "NotMapped"},
                                "its type is NotMapped, and was NoneType"),
    "rename an argument": ("core.jaxpr_as_fun", {"signature": renamed("jaxpr", "closed_jaxpr")},
                           "its argument jaxpr is gone"),
    "change a default": ("core.new_jaxpr_eqn",
                         {"signature": renamed("source_info=None", "source_info=()")},
                         "the default of its argument source_info is (), and was None"),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_mutations_of_the_surface_are_caught(mutation):
    name, changes, message = MUTATIONS[mutation]
    seen = mutated(name, **changes)
    broken = snapshot.broken_promises(seen, ROWS, changelog="")
    assert any(line.startswith(f"v1.{name}: ") and message in line for line in broken), broken
    assert {line.partition(": ")[0] for line in broken} == {f"v1.{name}"}
    assert snapshot.differences(seen, ROWS) == [f"v1.{name}"]


def test_a_name_that_is_gone_is_caught():
    seen = {**SEEN, "v1": without("core.Jaxpr")(SEEN["v1"])}
    assert snapshot.broken_promises(seen, ROWS, changelog="") == ["v1.core.Jaxpr: it is gone"]


def test_nothing_is_broken_without_a_mutation():
    assert not snapshot.broken_promises(SEEN, ROWS, changelog="")
    assert not snapshot.differences(SEEN, ROWS)


def test_additions_do_not_break():
    for name, changes in {
            "core.Jaxpr": {"attributes": lambda a: [*a, "new"]},
            "core.Primitive": {"methods": lambda m: {**m, "new": "(self)"}},
            "core.gensym": {"signature": lambda s: s[:-1] + ("" if s == "()" else ", ") + "new=0)"},
    }.items():
        seen = mutated(name, **changes)
        assert not snapshot.broken_promises(seen, ROWS, changelog="")
        assert snapshot.differences(seen, ROWS) == [f"v1.{name}"]  # the manifest has to be written


def test_provisional_names_change_with_an_entry_in_the_changelog():
    row = next(r for r in ROWS if r.tier == "provisional" and r.kind == "function" and r.head)
    seen = mutated(row.name, signature="(nothing)")
    assert snapshot.broken_promises(seen, ROWS, changelog="")
    assert not snapshot.broken_promises(seen, ROWS, changelog=f"`{row.name}` takes nothing.")
    frozen = mutated("core.eval_jaxpr", signature="(nothing)")
    assert snapshot.broken_promises(frozen, ROWS, changelog="`core.eval_jaxpr` takes nothing.")


@pytest.mark.parametrize(("before", "after", "found"), [
    ("(x)", "(x)", []),
    ("(x)", "(x, y=1, *args, z=2, **kw)", []),
    ("(x, y=1)", "(y=1, x=0)", ["its argument x is in another place",
                               "its argument y is in another place"]),
    ("(x)", "(x, /)", ["its argument x cannot be given by name"]),
    ("(x, /)", "(y, /)", ["its argument x is gone", "its argument y is new and has to be given"]),
    ("(*xs)", "(x=0)", ["it does not take any number of arguments (*) any more"]),
    ("(**kw)", "()", ["it does not take any number of arguments (**) any more"]),
    ("(*, k=1)", "(*, k)", ["its argument k does not have a default"]),
    ("(*, k)", "(*, k=1)", []),
    ("(x, y=None)", "(x, *, y=None)", ["its argument y is in another place"]),
    ("(x=1)", "", ["its arguments are not known, and were (x=1)"]),
])
def test_signatures(before, after, found):
    assert breaks_of_signature(before, after) == found


# ---- the engine itself -----------------------------------------------------------------


def observed_with(monkeypatch, name):
    """The breaks of one name of v1, as the code has it by now; nothing is remembered."""
    for remembered in (probes._called, probes.received):
        monkeypatch.setattr(probes, remembered.__name__, remembered.__wrapped__)
    monkeypatch.setattr(surface, "received", probes.received)
    value = v1
    for part in name.split("."):
        value = getattr(value, part)
    return breaks(SEEN["v1"][name], surface.shape_of(value, name, True))


def test_changes_of_the_engine_itself_are_measured(monkeypatch):
    """The probes see what rules receive, whatever a text says."""
    def apply(self, primitive, args, values, dims, params):
        return (primitive.axis_batch or primitive.batch)(self.axis, values, dims, **params)

    monkeypatch.setattr(BatchInterpreter, "apply", apply)
    found = observed_with(monkeypatch, "interpreters.batching.primitive_batchers")
    assert found == ["its rules receive AxisData, [value, value], [0, None], k=1, and "
                     "were (value, value), (0, None), k=1"]


def test_another_sentinel_is_noticed(monkeypatch):
    other = type("Zero", (jvp.Zero,), {"__slots__": ()})
    monkeypatch.setattr(jvp, "Zero", other)
    assert observed_with(monkeypatch, "interpreters.ad.Zero") == [
        "it is another object, and was the engine's"]


def test_a_renamed_attribute_is_noticed(monkeypatch):
    monkeypatch.setattr(JaxprEqn, "where", JaxprEqn.source_info, raising=False)
    monkeypatch.delattr(JaxprEqn, "source_info")
    assert observed_with(monkeypatch, "core.JaxprEqn") == ["its attribute source_info is gone"]


def test_a_dropped_param_is_noticed(monkeypatch):
    scan_p = v1.core.primitives.scan_p
    params = {name: kind for name, kind in scan_p.schema.params.items() if name != "num_carry"}
    monkeypatch.setattr(scan_p, "schema", scan_p.schema._replace(params=params))
    assert observed_with(monkeypatch, "core.primitives.scan_p") == ["its param num_carry is gone"]


def test_another_argument_of_a_method_is_noticed(monkeypatch):
    monkeypatch.setattr(Primitive, "def_jvp", lambda self, rule, order: None)
    assert observed_with(monkeypatch, "core.Primitive") == [
        "def_jvp: its argument order is new and has to be given"]
