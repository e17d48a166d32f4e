"""The frozen tests of v1 run on jax, where it has their names: what v1 means is not ours alone.

The bodies are those of `tests/generations/v1`, where mjax runs them; here their imports give jax.
"""

from __future__ import annotations

import builtins
import importlib
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace

import jax
import jax.extend.core
import pytest
from jax._src import core as jax_core
from jax._src.interpreters import batching
from jax._src.interpreters import partial_eval as pe

#: jax warns of its own forms.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
FOLDER = Path(__file__).parents[1] / "generations" / "v1"
#: Module of v1 -> the modules of jax that have its names, public ones first.
HOMES = {
    "core": ["jax.extend.core", "jax.core", "jax._src.core"],
    "core.primitives": ["jax.extend.core.primitives", "jax._src.core"],
    **{f"interpreters.{name}": [f"jax.interpreters.{name}", f"jax._src.interpreters.{name}"]
       for name in ("ad", "batching", "mlir", "partial_eval", "xla")},
    **{name: [f"jax.extend.{name}", f"jax._src.{name}"]
       for name in ("backend", "linear_util", "source_info_util")},
    "sharding": ["jax.extend.sharding", "jax._src.sharding_impls", "jax._src.export._export"],
    "random": ["jax.extend.random", "jax._src.random.prng"],
    "api_util": ["jax.api_util"], "ffi": ["jax.ffi"], "ref": ["jax.ref", "jax._src.state.types"],
    "state.discharge": ["jax._src.state.discharge"], "traceback_util": ["jax._src.traceback_util"],
    "util": ["jax._src.util"], "check": [],
}


class Primitive(jax.extend.core.Primitive):
    """jax's, which takes the name alone."""

    def __init__(self, name, *, multiple_results=False):
        super().__init__(name)
        self.multiple_results = multiple_results


class _Programs(type):
    def __instancecheck__(cls, value):
        return isinstance(value, (jax.extend.core.Jaxpr, jax.extend.core.ClosedJaxpr))

    def __call__(cls, *args, **kwargs):
        return jax.extend.core.Jaxpr(*args, **kwargs)


class Jaxpr(metaclass=_Programs):
    """Open and closed programs: in v1 each program has its constants."""


class Closed(jax.extend.core.ClosedJaxpr):
    """A program of jax that replaces the fields of the open one in it, too."""

    def replace(self, **fields):
        return Closed(self.jaxpr.replace(**fields), self.consts)


def make_jaxpr(f):
    def made(*args):
        jaxpr = jax.make_jaxpr(f)(*args)
        return Closed(jaxpr.jaxpr, jaxpr.consts)
    return made


def opened(function):
    """A function of jax that takes an open program, for programs with constants."""
    return lambda jaxpr, *args: function(getattr(jaxpr, "jaxpr", jaxpr), *args)


#: Names of v1 that jax 0.10.2 has in another form, and that form.
FORMS = {
    "core.Jaxpr": Jaxpr, "core.Primitive": Primitive, "core.get_aval": jax.typeof,
    "core.primitives.new_ref_p": jax_core.ref_p, "core.check_jaxpr": opened(jax_core.check_jaxpr),
    "interpreters.batching.broadcast": lambda x, size, axis: batching.broadcast(
        x, size, axis, None),
    "interpreters.batching.not_mapped": None,  # until 0.10.1
    "interpreters.partial_eval.convert_constvars_jaxpr": opened(pe.convert_constvars_jaxpr),
    "interpreters.partial_eval.dce_jaxpr": opened(pe.dce_jaxpr),
}


class Module:
    """A module of v1 whose names are jax's."""

    def __init__(self, path=""):
        self.path = path

    def __getattr__(self, name):
        below = f"{self.path}.{name}".lstrip(".")
        if any(home == below or home.startswith(f"{below}.") for home in HOMES):
            return Module(below)
        if below in FORMS:
            return FORMS[below]
        for home in HOMES.get(self.path, ()):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                found = getattr(importlib.import_module(home), name, self)
            if found is not self:
                return found
        raise AttributeError(f"jax does not have {below}")


JAX = ModuleType("jax")
vars(JAX).update(vars(jax), make_jaxpr=make_jaxpr)
V1 = Module()
V1.program = lambda jaxpr: jaxpr


def imported(name, names=None, inner=None, fromlist=(), level=0):
    """`__import__` for the frozen tests: that of mjax gives jax."""
    if name.startswith("mjax_ext"):
        module = V1
        for part in name.split(".")[2:]:
            module = getattr(module, part)
        return module if name != "mjax_ext" else SimpleNamespace(v1=module)
    if name.partition(".")[0] != "mjax":
        return builtins.__import__(name, names, inner, fromlist, level)
    module = importlib.import_module(name.replace("mjax", "jax", 1))
    return module if fromlist and "." in name else JAX


def read(file):
    space = {"__name__": f"on_jax_{file.stem}", "__file__": str(file),
             "__builtins__": {**vars(builtins), "__import__": imported}}
    exec(compile(file.read_text(), str(file), "exec"), space)
    for name, test in space.items():
        if name.startswith("test_"):
            yield f"{file.stem}_{name.removeprefix('test_')}".removeprefix("test_"), test


CHECKS, OWN = "jax does not check it, or says it in other words", "jax does not have it"
#: Tests whose meaning jax does not share -> why.
OURS = {
    "ad_zeros_have_the_tangent_type": "0.10.2 does not have Zero.from_primal_value any more",
    "ad_linearize_rules_give_a_linear_function": "rules take how they are called, too",
    "ad_rules_that_return_a_wrong_tangent_are_named": CHECKS,
    "ad_derivatives_of_programs": "jvp of 0.10.2 takes the primals with the function",
    "batching_a_wrong_axis_is_named": CHECKS,
    "lowering_types_and_constants_of_the_ir": "aval_to_ir_type of 0.10.2 takes the context, too",
    "lowering_programs_are_inlined_and_called": "contexts do not have inline and call",
    "lowering_rules_that_give_a_wrong_number_of_values_are_named": CHECKS,
    "other_modules_generators_of_keys": "define_prng_impl gives a spec of a generator",
    "other_modules_lines_of_programs": "lines are those within the function alone",
    "other_modules_the_checker_finds_a_wrong_derivative": OWN,
    "other_modules_explain_lists_missing_rules": OWN,
    "other_modules_references_are_discharged": "discharge_state takes a program with its constants",
    "params_collectives": OWN,
    "primitives_a_missing_rule_is_named": CHECKS,
    "primitives_a_schema_refuses_other_params": OWN,
    "primitives_results_are_compared_with_the_declared_type": CHECKS,
    "primitives_effects_are_kept_and_told": OWN,
    "primitives_calls_hold_programs": "calls are without rules when they are made",
    "primitives_a_primitive_from_a_function": OWN,
    "primitives_an_interpreter_sees_each_primitive": OWN,
    "primitives_primitives_hold_a_frame": OWN,
}
FOUND = {name: test for file in sorted(FOLDER.glob("test_*.py")) for name, test in read(file)}
globals().update({f"test_{name}": pytest.mark.xfail(strict=True, reason=OURS[name])(test)
                  if name in OURS else test for name, test in FOUND.items()})


def test_most_of_v1_is_shared():
    assert OURS.keys() <= FOUND.keys() and len(OURS) < len(FOUND) / 3
