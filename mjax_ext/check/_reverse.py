"""vjp against differences, for primitives that refuse forward mode: there is no jvp to compare."""

from __future__ import annotations

import numpy as np

from mjax_ext.check._application import Arrays, in_numpy
from mjax_ext.check._compare import wide
from mjax_ext.check._operands import points
from mjax_ext.check._pairs import is_inexact, pulled, unpaired
from mjax_ext.check._run import Refusal, Run
from mjax_ext.check._slopes import digits_of, direction, slopes


def check_reverse(run: Run) -> None:
    """Products of cotangents with slopes are those of the operands' cotangents with directions."""
    digits = digits_of(run.application)
    with digits.on():
        for values in [digits.of(point) for point in points(run.application, run.random)]:
            for k in run.application.inexact:
                try:
                    _check_at(run, k, values)
                except Refusal:  # it refuses reverse mode, too
                    return
    run.checked["linearize"] = None


def _check_at(run: Run, k: int, values: Arrays) -> None:
    """Compares the cotangent of a value."""
    application, along = run.application, direction(run.random, values[k])
    found = [s for s in slopes(application.evaluate, values, {k: along}) if s is not None]
    cts = [np.where(s.valid, direction(run.random, np.asarray(s.value)), 0) for s in found]
    outs = [out for out in application.evaluate(*values) if is_inexact(out)]
    given = [np.asarray(ct, out.dtype) for ct, out in zip(cts, outs, strict=True)]
    with run.blaming("linearize", "vjp"):
        (back,) = map(in_numpy, pulled(application.call, (k,), values, given)[1])
    at = [np.where(s.valid, s.value, 0) for s in found]
    run.require_same("linearize", (
        f"vjp of operand {application.places[k]} does not fit differences of the results: the "
        "product of cotangent and direction"),
        unpaired(at, list(map(wide, given)), [along], [back], 2 * max(
            (s.allowed for s in found), default=0.0)),
        "Derive the backward pass anew: the cotangent of a result times the partial derivative, "
        "summed over results.")
