"""vjp against differences, for primitives that refuse forward mode: there is no jvp to compare."""

from __future__ import annotations

from typing import Any

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
    """Compares the cotangents of a value, for one result after the other: they differ in size."""
    application, along = run.application, direction(run.random, values[k])
    found = list(slopes(application.evaluate, values, {k: along}))
    outs = [out for out in application.evaluate(*values) if is_inexact(out)]
    places = [n for n, slope in enumerate(found) if slope is not None]
    for i, n in enumerate(places):
        slope: Any = found[n]
        ct = np.where(slope.valid, direction(run.random, np.asarray(slope.value)), 0)
        cts = [np.zeros(out.shape, out.dtype) for out in outs]
        cts[i] = np.asarray(ct, outs[i].dtype)
        with run.blaming("linearize", "vjp"):
            (back,) = map(in_numpy, pulled(application.call, (k,), values, cts)[1])
        of = "the result" if len(found) == 1 else f"result {n}"
        run.require_same("linearize", (
            f"vjp of operand {application.places[k]} does not fit differences of {of}: the "
            "product of cotangent and direction"),
            unpaired([np.where(slope.valid, slope.value, 0)], [wide(cts[i])],
                     [along], [back], 2 * slope.allowed),
            "Derive the backward pass anew: the cotangent of a result times the partial "
            "derivative, summed over results.")
