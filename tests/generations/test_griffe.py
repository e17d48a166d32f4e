"""`griffe`, which reads sources, agrees with the manifest about what breaks."""

from __future__ import annotations

import inspect

import pytest

import mjax_ext
from mjax_ext import _manifest
from mjax_ext._generations.facades import SIGNATURES
from tests.generations.test_breaking import MUTATIONS, SEEN, mutated

griffe = pytest.importorskip("griffe")



def stubs(names):
    """Source of a module with the functions and classes of a surface, for griffe."""
    lines = []
    for name, (kind, shape) in sorted(names.items()):
        flat = name.replace(".", "__")
        if kind == "function":
            lines.append(f"def {flat}{shape['signature']}: ...")
        elif kind in ("class", "facade"):
            body = [f"    {a}: object" for a in shape.get("attributes", ())]
            body += [f"    def {m}{s}: ..." for m, s in shape.get("methods", {}).items()]
            lines += [f"class {flat}:", *(body or ["    pass"])]
    return "\n".join(lines) + "\n"


def broken_by_griffe(before, after):
    """The names that griffe finds broken between two surfaces."""
    modules = [griffe.visit("surface", filepath=None, code=stubs(names))
               for names in (before, after)]
    return {breakage.obj.path.split(".")[1].replace("__", ".")
            for breakage in griffe.find_breaking_changes(*modules)}


def test_griffe_finds_nothing_where_we_find_nothing():
    rows = {name: (row.kind, row.shape) for name, row in _manifest.of("v1").items()}
    assert not broken_by_griffe(rows, SEEN["v1"])


#: Mutations of what griffe does not know of: params, operands, rules, identities, values.
BEYOND = {"drop a param", "merge params", "retype a param", "change operands",
          "return several results", "change a rule's arguments", "give a rule other values",
          "change a sentinel", "change another sentinel"}


@pytest.mark.parametrize("mutation", [m for m in MUTATIONS if m not in BEYOND])
def test_griffe_agrees_about_what_broke(mutation):
    name, changes, _ = MUTATIONS[mutation]
    home = name.rpartition(".")[0]
    before, after = ({n: shape for n, shape in names["v1"].items() if n.startswith(home)}
                     for names in (SEEN, mutated(name, **changes)))
    assert broken_by_griffe(before, after) == {name}


def test_griffe_reads_the_signatures_of_v1_as_we_do():
    """The signatures of the manifest are those that inspect gives for the objects of v1."""
    for name, row in _manifest.of("v1").items():
        if row.kind == "function" and name not in SIGNATURES:
            value = mjax_ext.v1
            for part in name.split("."):
                value = getattr(value, part)
            assert [*inspect.signature(value).parameters] == [
                p.name for p in griffe.visit("m", filepath=None, code=stubs(
                    {name: (row.kind, row.shape)}))[name.replace(".", "__")].parameters], name
