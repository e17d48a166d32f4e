"""Linear algebra in stacks of matrices: factorizations, and the systems that they solve."""

from mjax._engine.base.faces import face
from mjax._engine.linalg.cholesky import (
    cholesky,
    cholesky_p,
    cholesky_update,
    cholesky_update_p,
)
from mjax._engine.linalg.eig import EigImplementation, eig, eig_p
from mjax._engine.linalg.eigh import EighImplementation, eigh, eigh_p
from mjax._engine.linalg.lu import (
    lu,
    lu_p,
    lu_pivots_to_permutation,
    lu_pivots_to_permutation_p,
)
from mjax._engine.linalg.qdwh import qdwh
from mjax._engine.linalg.qr import qr, qr_p
from mjax._engine.linalg.reflectors import (
    householder_product,
    householder_product_p,
    ormqr,
    ormqr_p,
)
from mjax._engine.linalg.schur import (
    hessenberg,
    hessenberg_p,
    schur,
    schur_p,
    tridiagonal,
    tridiagonal_p,
)
from mjax._engine.linalg.svd import SvdAlgorithm, svd, svd_p
from mjax._engine.linalg.symmetric_product import symmetric_product, symmetric_product_p
from mjax._engine.linalg.triangular import triangular_solve, triangular_solve_p
from mjax._engine.linalg.tridiagonal_solve import tridiagonal_solve, tridiagonal_solve_p

__all__ = [
    "EigImplementation", "EighImplementation", "SvdAlgorithm", "cholesky", "cholesky_p",
    "cholesky_update", "cholesky_update_p", "eig", "eig_p", "eigh", "eigh_p", "hessenberg",
    "hessenberg_p", "householder_product", "householder_product_p", "lu", "lu_p",
    "lu_pivots_to_permutation", "lu_pivots_to_permutation_p", "ormqr", "ormqr_p", "qdwh", "qr",
    "qr_p", "schur", "schur_p", "svd", "svd_p", "symmetric_product", "symmetric_product_p",
    "triangular_solve", "triangular_solve_p", "tridiagonal", "tridiagonal_p", "tridiagonal_solve",
    "tridiagonal_solve_p",
]

face("mjax.lax.linalg")
