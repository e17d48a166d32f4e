"""The gates of LAPACK's kernels, which are part of the table in `gates`."""

from __future__ import annotations

import glob
import os

from .gate import Gate, file_mentions
from .native import ext

__all__ = [
    "LAPACK_GESVD",
    "LAPACK_ORMQR",
    "LAPACK_PIVOTED",
    "LAPACK_REGISTRATIONS",
    "LAPACK_STACKS",
    "LAPACK_TRSM",
]


def lapack_has(target: str) -> bool:
    """Whether jaxlib's library of LAPACK kernels names one; reads the file, loads nothing."""
    import jaxlib

    (path,) = glob.glob(os.path.join(jaxlib.__path__[0], "cpu", "_lapack.*"))
    with open(path, "rb") as file:
        return target.encode() in file.read()


LAPACK_REGISTRATIONS = Gate(
    "lapack_registrations",
    "jaxlib.lapack.registrations()",
    320, "0.5.3",
    "before, importing jaxlib.lapack registers its kernels",
    lambda: file_mentions("def registrations", "lapack.py"),
)  # fmt: skip
LAPACK_TRSM = Gate(
    "lapack_trsm",
    "the kernels lapack_?trsm_ffi",
    301, "0.4.38",
    "before, under another name and with one more operand; before the gate opens, XLA solves "
    "triangular systems itself",
    lambda: lapack_has("lapack_strsm_ffi"),
)  # fmt: skip
LAPACK_PIVOTED = Gate(
    "lapack_pivoted",
    "the kernels lapack_?geqp3_ffi and lapack_?gtsv_ffi",
    303, "0.5.0",
    "before, mjax composes what they compute",
    lambda: lapack_has("lapack_sgeqp3_ffi") and lapack_has("lapack_sgtsv_ffi"),
)  # fmt: skip
LAPACK_STACKS = Gate(
    "lapack_stacks",
    "register_custom_call_as_batch_partitionable",
    317, "0.5.1",
    "before, XLA does not know that a kernel computes each matrix of a stack by itself: it gathers "
    "stacks that are cut over devices",
    lambda: hasattr(ext, "register_custom_call_as_batch_partitionable"),
)  # fmt: skip
LAPACK_GESVD = Gate(
    "lapack_gesvd",
    "the kernels lapack_?gesvd_ffi",
    320, "0.5.3",
    "before, singular values come from gesdd whatever algorithm was asked for",
    lambda: lapack_has("lapack_sgesvd_ffi"),
)  # fmt: skip
LAPACK_ORMQR = Gate(
    "lapack_ormqr",
    "the kernels lapack_?{orm,unm}qr_ffi and tridiagonal_solve_perturbed_ffi",
    439, "0.10.0",
    "before, mjax composes what they compute",
    lambda: lapack_has("lapack_sormqr_ffi") and lapack_has("tridiagonal_solve_perturbed_ffi"),
)  # fmt: skip
