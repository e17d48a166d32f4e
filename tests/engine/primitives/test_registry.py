"""Every primitive has all its rules, and a case in the table of its family.

Nothing is listed here but exceptions: a new primitive is covered as soon as it exists.
"""

from __future__ import annotations

import importlib
import pathlib
import pkgutil
import sys

import numpy as np
import pytest

import mjax
import mjax._engine.linalg
import mjax._engine.primitives
from mjax._engine.ir.jaxpr import jaxprs_in_params
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.variance import pvary_p
from tests.engine.primitives.harness import Case


def modules(package):
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        yield importlib.import_module(info.name)


def objects(module, cls):
    """The objects of a class in a module, those in its lists, tuples and dicts included."""
    for value in vars(module).values():
        inside = value.values() if type(value) is dict else value
        for item in inside if type(value) in (list, tuple, dict) else [value]:
            if isinstance(item, cls):
                yield item


PRIMITIVES = {p.name: p for package in (mjax._engine.primitives, mjax._engine.linalg)
              for module in modules(package) for p in objects(module, Primitive)
              if p is not pvary_p}
TABLES = [importlib.import_module(f"tests.engine.{folder}.{path.stem}")
          for folder in ("primitives", "linalg")
          for path in sorted((pathlib.Path(__file__).parents[1] / folder).glob("test_*.py"))
          if path.stem != "test_registry"]
#: Factorizations that are parts of others; jax does not differentiate them either.
PARTS = ({"jvp"}, "a part of decompositions that have derivatives; jax has none")
CASES = [case for module in TABLES for case in getattr(module, "CASES", ())]
#: Exceptions from rules and cases, and their reasons.
WITHOUT = {
    "after_all": ({"cases"}, "it takes no arrays; tested in test_sequencing"),
    "create_token": ({"cases"}, "it gives no array; tested in test_sequencing"),
    "dce_sink": ({"cases"}, "it gives nothing; tested in test_sequencing"),
    **dict.fromkeys(("geqp3", "geqrf", "hessenberg", "householder_product", "ormqr", "schur",
                     "tridiagonal"), PARTS),
    "lapack": ({"jvp", "batch", "cases"}, "only lowering rules make it"),
    "xla_kernel": ({"jvp", "batch", "cases"}, "only lowering rules make it"),
    "cumulative_loop": ({"jvp", "batch", "cases"}, "only lowering rules make it"),
    "nextafter": ({"jvp"}, "steps between floats are not a smooth function of them; jax has none"),
    "rng_uniform": ({"jvp", "batch"}, "its numbers come from the device's state; jax has none"),
    "scatter-apply": ({"jvp", "cases"}, "applies any function; tested in test_scatter"),
}
TESTED = {case.primitive for case in CASES}
LINEAR = {case.primitive for case in CASES if case.linear}
WITH_OPERANDS = {case.primitive for case in CASES if case.operands.strip()}


def test_there_are_many():
    assert len(PRIMITIVES) > 80


def test_tables_name_primitives_that_exist():
    assert all(isinstance(case, Case) for case in CASES)
    assert set(PRIMITIVES) >= TESTED


@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitive_has_cases_and_rules(name):
    primitive = PRIMITIVES[name]
    rules = primitive.rules()
    wanted = {"abstract_eval"}
    if name in WITH_OPERANDS:
        wanted |= {"jvp", "batch"}
    if name in LINEAR:
        wanted.add("transpose")
    spared, _ = WITHOUT.get(name, (set(), ""))
    wanted -= spared
    missing = {rule for rule in wanted if rules[rule] == "missing"}
    assert not missing, f"{name} has no rule for {', '.join(sorted(missing))}"
    assert primitive.lowerings or primitive.impl, f"{name} has neither lowering nor impl"
    assert name in TESTED or "cases" in spared, f"no table has a case of {name}"


@pytest.mark.parametrize("name", [n for n, p in PRIMITIVES.items() if p.transpose])
def test_transposes_are_tested(name):
    assert name in LINEAR, f"{name} has a transpose rule, but no case says in what it is linear"


def numbers_in(value):
    """The numbers in a param that are not sizes, axes or flags."""
    if isinstance(value, (tuple, frozenset)):
        return [n for v in value for n in numbers_in(v)]
    return [value] if isinstance(value, (float, complex, np.inexact)) else []


@pytest.fixture(scope="module")
def programs():
    """The jaxpr of a sample of each case, by the name of the case's primitive."""
    found = []
    for case in CASES:
        sample = next(case.samples())
        with mjax.enable_x64(sample.x64):
            found.append((case.primitive,
                          mjax.make_jaxpr(case.function)(*sample.operands(sample.rng()))))
    return found


def equations(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from equations(inner)


def test_every_primitive_of_the_engine_declares_its_params():
    importlib.import_module("mjax_ext.core.primitives")
    found = {p for name, module in list(sys.modules.items()) if name.partition(".")[0] == "mjax"
             for p in objects(module, Primitive)}
    assert len(found) > 200
    for primitive in found:
        assert primitive.schema is not None, primitive


def test_equations_have_the_params_of_the_schemas(programs):
    seen = set()
    for _, jaxpr in programs:
        for eqn in equations(jaxpr):
            schema = eqn.primitive.schema
            assert schema.admits(eqn.params), (eqn.primitive, schema.misnamed(eqn.params))
            assert not schema.mistyped(eqn.params), (eqn.primitive, schema.mistyped(eqn.params))
            assert list(jaxprs_in_params(eqn.params)) == [j for _, j in schema.jaxprs(eqn.params)]
            seen.add(eqn.primitive.name)
    assert len(seen) > 150


@pytest.mark.parametrize("name", PRIMITIVES)
def test_params_with_numbers_are_told_apart_exactly(name, programs):
    for owner, jaxpr in programs:
        if owner != name:
            continue
        for eqn in jaxpr.eqns:
            for param, value in eqn.params.items():
                exact = eqn.primitive.exact_params
                assert not numbers_in(value) or exact is True or param in exact, (eqn, param)
