"""The engine's own primitives, and those of the examples, pass the checker."""

from __future__ import annotations

import numpy as np
import pytest

from mjax_ext.check import check_primitive
from mjax_ext.core import primitives
from tests.ext.test_examples import load

#: One of each family, for ordinary runs.
SAMPLE = ("sin", "mul", "select_n", "reduce_sum", "reshape", "dynamic_slice", "gather",
          "dot_general", "sort", "cumsum", "cholesky", "random_bits", "cond", "psum_invariant")
NONE_IN_JAX = ("jvp",), "jax has no derivative either"
#: name -> rules that are found wrong, and why that is meant.
MEANT = {
    "nextafter": (("jvp",), "steps between floats are not a smooth function of them"),
    "stop_gradient": (("jvp",), "that its derivative is zero is what it is for"),
    **dict.fromkeys(("scatter-apply", "select_and_scatter"), NONE_IN_JAX),
    **dict.fromkeys(("pmax", "pmin", "pmax_invariant", "pmin_invariant"), NONE_IN_JAX),
    **dict.fromkeys(("geqp3", "geqrf", "hessenberg", "householder_product", "ormqr", "schur",
                     "tridiagonal"), (("jvp",), "parts of decompositions that have derivatives")),
    "custom_linear_solve": (("jvp", "transpose"), "its programs must belong to one matrix; the "
                            "values of the check change each of them alone"),
    "linear_call": (("transpose",), "the user's transpose has to sum over devices"),
    "rng_bit_generator": (("batch",), "one key generates for the whole batch, as in jax"),
    "rng_uniform": (("determinism",), "its numbers come from the device's state"),
    "custom_partitioning": (("batch",), "its partition is that of one element, as in jax"),
    "call_exported": (("batch",), "its program is that of one element, as in jax"),
    "check": (("lowering",), "compiled programs cannot raise: checkify gives them the error"),
    "random_gamma": (("jvp",), "the derivative of the distribution's quantiles, not that of the "
                     "sampler, which rejects"),
}
#: Those that are not checked, and why.
LEFT_OUT = {"ragged_all_to_all": "its operands describe each other, differently on each device; "
            "tests/engine/spmd/test_ragged.py"}
#: Those without examples, and why.
WITHOUT = {
    "xla_kernel": "its kernels are XLA's for TPUs",
    **dict.fromkeys(("custom_lin", "call_hi_primitive_linearized"),
                    "it is a backward pass: evaluation and forward mode refuse it"),
}
ALL = {p.name: p for p in (getattr(primitives, name) for name in primitives.__all__)}
NAMES = sorted({*ALL} - {*LEFT_OUT, *WITHOUT})


@pytest.mark.parametrize("name", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.slow)
                                  for n in NAMES])
def test_primitive(name):
    ((operands, params),) = ALL[name].schema.applications()
    report = check_primitive(ALL[name], *operands, **params)
    meant = MEANT.get(name, ((), ""))[0]
    assert tuple(f.rule for f in report.findings) == meant, report


def test_every_schema_has_examples():
    for name, p in ALL.items():
        applications = p.schema.applications()
        assert bool(applications) == (name not in WITHOUT), name
        for _, params in applications:
            assert p.schema.admits(params) and not p.schema.mistyped(params), name
    assert {*MEANT, *SAMPLE} <= set(NAMES) and {*LEFT_OUT, *WITHOUT} <= set(ALL)


def test_examples():
    example = load("multiply_add")
    example.walk(lambda line: None)
    for operands in ((example.A, example.B, example.B), (2.0, 10.0, -1.0)):
        report = check_primitive(example.multiply_add_p, *operands)
        assert report.ok, report
    for operands in ((2, 3, 4), (np.arange(3), np.arange(3), np.arange(3))):
        report = check_primitive(load("jep15856").mul_add_p, *operands)
        assert report.ok, report
