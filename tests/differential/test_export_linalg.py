"""Linear algebra exported for GPUs and TPUs calls the kernels that JAX calls, in the same way."""

from __future__ import annotations

import re

import jax
import jax.export
import numpy as np
import pytest

import mjax
import mjax.export

TALL, STACK, SQUARE = (4, 3), (2, 40, 35), (3, 3)
CASES = {
    "lu": (lambda m, x: m.lu(x), TALL, STACK),
    "qr": (lambda m, x: m.qr(x, full_matrices=False), TALL, STACK),
    "qr, full": (lambda m, x: m.qr(x), TALL, (3, 4)),
    "eigh": (lambda m, x: m.eigh(x, symmetrize_input=False), SQUARE, (2, 3, 3)),
    "eigh, upper": (lambda m, x: m.eigh(x, symmetrize_input=False, lower=False), SQUARE),
    "svd": (lambda m, x: m.svd(x, full_matrices=False), TALL, STACK, (3, 4), (1030, 4), (4, 1030)),
    "svd, full": (lambda m, x: m.svd(x), TALL, STACK),
    "svd, values": (lambda m, x: m.svd(x, compute_uv=False), TALL, STACK),
    "tridiagonal": (lambda m, x: m.tridiagonal(x), SQUARE),
}
#: JAX reads transposed matrices row by row there, and counts pivots by a kernel of its own.
OTHERWISE = ("lu_pivots_to_permutation",)
FIELDS = ("operand_layouts", "result_layouts", "output_operand_aliases")


def field(name, text):
    """The value of an attribute in the text of an operation, with balanced brackets."""
    start = re.search(rf"(?<![\w.]){re.escape(name)} = ", text)
    if start is None:
        return None
    depth, end = 0, start.end()
    while end < len(text) and (depth or text[end] not in ",}"):
        depth += (text[end] in "[{<(") - (text[end] in "]}>)" and text[end - 1] != "-")
        end += 1
    return text[start.end():end]


def calls(library, f, platform, x):
    exported = library.export.export(library.jit(lambda x: f(library.lax.linalg, x)),
                                     platforms=[platform])(x)
    found = []
    for line in exported.mlir_module().splitlines():
        target = re.search(r"custom_call @([\w.]+)", line)
        if target and not target[1].endswith(OTHERWISE):
            config = field("mhlo.backend_config", line) or field("backend_config", line)
            config = None if config in ("{}", '""') else config
            found.append((target[1], config, *(field(name, line) for name in FIELDS),
                          re.sub(r" loc\(.*", "", line).rsplit(" : ", 1)[-1]))
    return found


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
@pytest.mark.parametrize("name", CASES)
def test_kernels(name, platform, dtype):
    f, *shapes = CASES[name]
    for shape in shapes:
        x = np.zeros(shape, dtype)
        if platform == "tpu" and name == "tridiagonal":
            for library in (mjax, jax):
                with pytest.raises(NotImplementedError, match="tridiagonal"):
                    calls(library, f, platform, x)
            continue
        ours, theirs = (calls(library, f, platform, x) for library in (mjax, jax))
        if platform == "tpu" and name.startswith("svd"):
            ours, theirs = ({call[0] for call in found} for found in (ours, theirs))
            assert "Eigh" in ours and ours <= theirs | {
                "ProductOfElementaryHouseholderReflectors"}
        elif max(shape) > 1024:
            assert {call[0] for call in ours} == {call[0] for call in theirs}
        else:
            assert ours == theirs
