"""Linear algebra, as `numpy.linalg` has it."""

from mjax._engine.base.faces import face
from mjax._numpy.decompositions import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from mjax._numpy.determinants import cond, det, matrix_rank, slogdet
from mjax._numpy.matrix_chains import matrix_power, multi_dot
from mjax._numpy.matrix_functions import cross, diagonal, matmul, outer, tensordot, trace
from mjax._numpy.norms import matrix_norm, norm, vector_norm
from mjax._numpy.products import vecdot
from mjax._numpy.shapes import matrix_transpose
from mjax._numpy.systems import inv, lstsq, pinv, solve, tensorinv, tensorsolve

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv",
    "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose",
    "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]

face("mjax.numpy.linalg")
