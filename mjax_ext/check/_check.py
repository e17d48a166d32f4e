"""The steps of the check, in order."""

from __future__ import annotations

from typing import Any

import mjax
from mjax._engine.base.folding import boundary
from mjax._engine.ir.jaxpr import named_axes
from mjax._engine.ir.types import typeof
from mjax._engine.runtime.arrays.shape_dtype_struct import ShapeDtypeStruct
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import describe_value
from mjax_ext._operands import Operands
from mjax_ext.check._batches import check_batch, check_batched_lowering
from mjax_ext.check._derivatives import check_jvp, check_linearize, check_vjp
from mjax_ext.check._devices import check_varying, check_varying_cotangents
from mjax_ext.check._mapped import application_of
from mjax_ext.check._programs import (
    check_dce,
    check_effects_kept,
    check_partial_eval,
    check_programs,
    check_recompute,
)
from mjax_ext.check._registered import check_functions, check_name, check_params
from mjax_ext.check._report import Report
from mjax_ext.check._run import Run, Step
from mjax_ext.check._transposes import check_transpose
from mjax_ext.check._values import (
    check_agreement,
    check_determinism,
    check_effects,
    check_impl,
    check_lowering,
    check_types,
)

_EVALUATED = ("params", "abstract_eval", "evaluation")
_COMPILED = (*_EVALUATED, "lowering")

STEPS = (
    Step("params", (), check_params),
    Step("determinism", (), check_name),
    Step("abstract_eval", ("params",), check_types),
    Step("impl", ("params",), check_impl),
    Step("lowering", ("params", "abstract_eval"), check_lowering),
    Step("impl", _COMPILED, check_agreement),
    Step("determinism", _EVALUATED, check_determinism),
    Step("effects", _COMPILED, check_effects),
    Step("batch", (*_EVALUATED, "determinism"), check_batch),
    Step("lowering", (*_COMPILED, "determinism", "batch"), check_batched_lowering),
    Step("jvp", (*_EVALUATED, "determinism"), check_jvp),
    Step("linearize", (*_EVALUATED, "determinism", "jvp"), check_linearize),
    Step("transpose", (*_EVALUATED, "determinism"), check_transpose),
    Step("transpose", (*_EVALUATED, "determinism", "jvp", "linearize"), check_vjp),
    Step("partial_eval", (*_EVALUATED, "determinism"), check_partial_eval),
    Step("dce", (*_EVALUATED, "determinism"), check_dce),
    Step("lowering", (*_COMPILED, "determinism"), check_programs),
    Step("recompute", (*_EVALUATED, "determinism", "jvp", "linearize", "transpose"),
         check_recompute),
    Step("effects", _EVALUATED, check_effects_kept),
    Step("varying", (*_COMPILED, "determinism"), check_varying),
    Step("varying", (*_COMPILED, "determinism", "jvp", "linearize", "transpose"),
         check_varying_cotangents),
)

#: Steps that evaluate programs; if the transpose rule does that, it is checked before them.
_BY_TRANSPOSE = ("batch", "partial_eval", "dce")
BACKWARD = (*(step for step in STEPS if step.rule not in _BY_TRANSPOSE), *(
    step._replace(needs=(*step.needs, "transpose")) for step in STEPS
    if step.rule in _BY_TRANSPOSE))


@boundary
def check_primitive(primitive: Primitive, /, *examples: Any, **params: Any) -> Report:
    """Checks the rules of a primitive against each other and against independent computations.

    It compares the implementation, the lowering and the abstract evaluation; jvp rules with finite
    differences; linearization with jvp; transposes with the primitive, where that is linear;
    batching with a loop; programs without unused results, and programs for several devices, with
    the primitive itself. `docs/checking.md` says how.

    Args:
      primitive: the primitive.
      examples: the operands of one application: arrays of any shapes and dtypes, keys, references.
        Batches, tangents, zeros, and values of other signs and sizes are derived from them. If the
        primitive takes some values only, such as symmetric matrices, the examples are of those. If
        it takes some combinations of operands only, one `Operands` stands for all of them.
      params: the params of the application.

    Returns:
      A report. `report.ok` says whether there are no findings; it prints as a table. An
      exception that a rule raises is a finding. `report.declared` has what the primitive declares
      of its rules by `p.without(rule, reason)` and `p.deviates(rule, reason)`.

    Raises:
      TypeError: `primitive` is not a primitive, an example is not an array, or the `fit` of
        `Operands` gives others than they are.

    Example:
      >>> from mjax_ext.check import check_primitive
      >>> from mjax_ext.core.primitives import mul_p
      >>> x = np.array([0.5, -1.0], "float32")
      >>> check_primitive(mul_p, x, x).ok
      True

    Source: `torch.library.opcheck`, `torch.autograd.gradcheck`.
    """
    if not isinstance(primitive, Primitive):
        msg = (f"check_primitive takes a primitive, got {primitive!r} of type "
               f"{type(primitive).__name__}.")
        raise TypeError(msg)
    if len(examples) == 1 and isinstance(examples[0], Operands):
        examples = examples[0]
    for i, example in enumerate(examples):
        if not _is_operand(example):
            msg = (f"check_primitive: example {i} must be an array, or another value that the "
                   f"primitive takes; got {describe_value(example)}.")
            raise TypeError(msg)
    run = Run(application_of(primitive, examples, params))
    if isinstance(examples, Operands) and run.application.plain and not named_axes(params):
        _refuse_unfit(examples)
    check_functions(run)
    return run.take(STEPS if run.application.given.forward is None else BACKWARD)


def _refuse_unfit(operands: Operands) -> None:
    """Refuses a `fit` that gives operands of other types, which would look like faults of rules."""
    given = list(map(typeof, operands))
    try:
        found: Any = given if operands.fit is None else mjax.eval_shape(operands.fit, *operands)
    except Exception as error:
        error.add_note("It is the `fit` of the `Operands` that raised this.")
        raise
    types = [(a.shape, a.dtype) for a in given]
    if not isinstance(found, (list, tuple)) or [(a.shape, a.dtype) for a in found] != types:
        msg = f"Operands: fit must give operands of the types {given}, but it gives {found}."
        raise TypeError(msg)


def _is_operand(value: Any) -> bool:
    """Whether a value may be an operand: types have none."""
    try:
        typeof(value)
    except TypeError:
        return False
    return not isinstance(value, ShapeDtypeStruct)
