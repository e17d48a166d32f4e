"""The engine's own primitives, and those of the examples, pass the checker."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax_ext.check import check_primitive
from mjax_ext.core import primitives
from tests.engine.primitives.test_registry import CASES
from tests.ext.check.programs import DIRECT, PROGRAMS, applications
from tests.ext.test_examples import load

#: One of each family, for ordinary runs.
SAMPLE = ("sin", "mul", "select_n", "reduce_sum", "reshape", "dynamic_slice", "gather",
          "dot_general", "sort", "cumsum", "cholesky", "random_bits", "cond", "psum_invariant")
NONE_IN_JAX = ("jvp",), "jax has no derivative either"
#: name -> rules that are found wrong, and why that is meant.
MEANT = {
    "nextafter": (("jvp",), "steps between floats are not a smooth function of them"),
    "stop_gradient": (("jvp",), "that its derivative is zero is what it is for"),
    "scatter-apply": NONE_IN_JAX,
    **dict.fromkeys(("pmax", "pmin", "pmax_invariant", "pmin_invariant"), NONE_IN_JAX),
    **dict.fromkeys(("geqp3", "geqrf", "hessenberg", "householder_product", "ormqr", "schur",
                     "tridiagonal"), (("jvp",), "parts of decompositions that have derivatives")),
    "custom_linear_solve": (("jvp", "transpose"), "its programs must belong to one matrix; the "
                            "values of the check change each of them alone"),
    "linear_call": (("transpose",), "the user's transpose has to sum over devices"),
    "rng_bit_generator": (("batch",), "one key generates for the whole batch, as in jax"),
    "random_gamma": (("jvp",), "the derivative of the distribution's quantiles, not that of the "
                     "sampler, which rejects"),
}
#: Those that are not checked, and why.
LEFT_OUT = {
    "lapack": "only lowering rules make it", "cumulative_loop": "only lowering rules make it",
    "custom_lin": "only linearization makes it", "remat_opt": "only linearization makes it",
    "create_token": "it gives no array", "after_all": "it takes no arrays",
    "dce_sink": "it gives nothing", "inspect_sharding": "it gives nothing",
    "pack": "it gives no array", "unpack": "it takes no array",
    "iota_2x32_shape": "it takes no operands", "iota": "it takes no operands",
    "platform_index": "it takes no operands, and depends on the platform",
    "layout_constraint": "its layouts are of the device's", "select_and_scatter": "see its sibling",
    "rng_uniform": "its numbers come from the device's state, so no two are equal",
    "ragged_all_to_all": "its operands describe each other; tests/engine/spmd/test_ragged.py",
    "ffi_call": "its function is the user's", "custom_partitioning": "its function is the user's",
    "call_exported": "its program is an artifact; tests/export",
    "check": "it stops programs; tests/checkify", "xla_kernel": "only lowering rules make it",
}
FIRST = {case.primitive: case for case in reversed(CASES)}
NAMES = sorted({*FIRST, *PROGRAMS, *DIRECT} - set(LEFT_OUT))


def application(name):
    """An application of a primitive."""
    if name in DIRECT:
        return DIRECT[name]
    if name in PROGRAMS:
        found = applications(PROGRAMS[name][0], *PROGRAMS[name][1])
    else:
        sample = next(FIRST[name].samples())
        operands = sample.operands(sample.rng())
        found = applications(sample.call, *operands)
    return next(a for a in found if a[0].name == name)


def wide(name):
    return name in FIRST and next(FIRST[name].samples()).x64


@pytest.mark.parametrize("name", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.slow)
                                  for n in NAMES])
def test_primitive(name):
    with mjax.enable_x64(wide(name)):
        primitive, operands, params = application(name)
        report = check_primitive(primitive, *operands, **params)
    meant = MEANT.get(name, ((), ""))[0]
    assert tuple(f.rule for f in report.findings) == meant, report


def test_every_primitive_is_there():
    names = {getattr(primitives, name).name for name in primitives.__all__}
    assert names <= {*NAMES, *LEFT_OUT}
    assert set(MEANT) <= set(NAMES) and set(SAMPLE) <= set(NAMES)


def test_examples():
    example = load("multiply_add")
    example.walk(lambda line: None)
    for operands in ((example.A, example.B, example.B), (2.0, 10.0, -1.0)):
        report = check_primitive(example.multiply_add_p, *operands)
        assert report.ok, report
    for operands in ((2, 3, 4), (np.arange(3), np.arange(3), np.arange(3))):
        report = check_primitive(load("jep15856").mul_add_p, *operands)
        assert report.ok, report
