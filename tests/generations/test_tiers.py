"""Frozen names are those that libraries use, or that jax always had; docs/design/0017 says why."""

from __future__ import annotations

import inspect
import re

import pytest

import mjax
from mjax_ext import _manifest, v1
from mjax_ext._audit.homes import HOMES
from mjax_ext._audit.jax_names import table
from mjax_ext._generations.breaking import breaks_of_signature
from mjax_ext._generations.facades import FACADES, PARAMS, PROMISED, SIGNATURES
from tests.ext.test_names import groups
from tests.generations.test_breaking import SEEN

ROWS = _manifest.of("v1")
HEAD = SEEN[None]
#: Frozen names without evidence -> the reason.
NEEDED = {
    "jaxlibs": "it is part of the promise",
    "program": "params are promised of the programs that it gives",
    "interpreters.mlir.hlo": "lowering rules are written with it; what it holds is jaxlib's",
    "interpreters.pxla.ResourceEnv": "thread_resources.env is one, which four libraries read",
    "ref.AbstractRef": "a type in programs; flax imports it from jax's privates",
    "ref.Ref": "the value of that type"}
#: Provisional names that two or more libraries use -> the reason.
UNSETTLED = {
    **dict.fromkeys(("api_util.safe_map", "core.safe_map"), "the name is util.safe_map"),
    "core.ConcretizationTypeError": "libraries catch it as mjax.errors.ConcretizationTypeError",
    "core.shaped_abstractify": "the name is api_util.shaped_abstractify",
    "interpreters.mlir.lowerable_effects": "effects have policies, of which it is a view",
    "interpreters.partial_eval.TracingEqn": "equations before they are part of a program",
    **dict.fromkeys(("interpreters.partial_eval.compute_on",
                     "interpreters.partial_eval.xla_metadata_lib"), "imports of that module"),
    "interpreters.xla.pytype_aval_mappings": "the name is core.pytype_aval_mappings"}


def users():
    """Name -> how many libraries of the scan use it, in the area where most do."""
    found = {}
    for names in groups("downstream_names.txt").values():
        for name, _, number in (word.partition(":") for word in names):
            found[name] = max(found.get(name, 0), int(number or 1))
    return found


USERS = users()


def always_public(dotted):
    """Whether public modules of jax have a name in all releases of the table."""
    home, _, name = dotted.rpartition(".")
    modules = [table().module(module) for module, homes in HOMES.items() if home in homes
               and not module.startswith("jax._src")]
    place = table().releases.index
    had = {at for module in modules if module for first, last in module.names.get(name, ())
           for at in range(place(first), place(last) + 1 if last else len(table().releases))}
    return len(had) == len(table().releases)


def test_frozen_names_are_used_or_were_always_public():
    names = {name for name, row in ROWS.items() if row.tier == "frozen"}
    without = {name for name in names
               if not USERS.get(name.rpartition(".")[2]) and not always_public(name)}
    assert without == NEEDED.keys()


def test_what_libraries_use_is_frozen_or_has_a_reason():
    names = {name for name, row in ROWS.items() if row.tier == "provisional"}
    assert {name for name in names if USERS.get(name.rpartition(".")[2], 0) > 1} == UNSETTLED.keys()


def test_lists_of_what_is_promised_say_less_than_the_code_has():
    """An item that says the same, or that is of no name of v1, is superfluous."""
    for name, least in SIGNATURES.items():
        has = HEAD[name][1].get("signature", "")
        assert ROWS[name].shape.get("signature", "") == least != has
        assert not least or not breaks_of_signature(least, has), name
    for name, params in PARAMS.items():
        assert ROWS[name].shape["params"].keys() == params < HEAD[name][1]["params"].keys()
    for name, attributes in PROMISED.items():
        _, shape = HEAD[name]
        assert "type" in shape or attributes < {
            *shape.get("attributes", ()), *shape.get("methods", ())}, name


@pytest.mark.parametrize("name", [
    name for name, row in ROWS.items()
    if row.kind == "class" and name not in PROMISED and name not in FACADES])
def test_rows_have_the_attributes_that_docstrings_tell(name):
    value = v1
    for part in name.split("."):
        value = getattr(value, part)
    section = re.search(r"^Attributes:\n((?:[ ]+.*\n?|\n)+)", inspect.getdoc(value) or "", re.M)
    told = re.findall(r"^  ([\w, ]+):", section[1] if section else "", re.M)
    shape = ROWS[name].shape
    assert {n for names in told for n in names.split(", ")} <= {
        *shape.get("attributes", ()), *shape.get("methods", ())}


def test_promised_arguments_are_enough():
    """Calls by what the rows of v1 say alone."""
    jaxpr = v1.core.ClosedJaxpr(jaxpr=mjax.make_jaxpr(lambda x: x + 1)(1.0), consts=())
    assert v1.core.jaxpr_as_fun(jaxpr)(2.0) == [3.0]
    x = v1.core.Var(v1.core.ShapedArray((), "float32"))
    assert v1.core.Jaxpr(constvars=[], invars=[x], outvars=[x], eqns=[]).invars == [x]
    for wrong in (lambda: v1.core.Jaxpr([], [x]), lambda: v1.core.ClosedJaxpr([], [x], [x], []),
                  lambda: v1.core.Jaxpr([], [x], [x], [], consts=())):
        with pytest.raises(TypeError, match=r"Jaxpr\(.*\): "):
            wrong()
    assert v1.interpreters.pxla.thread_resources.env.physical_mesh.empty
