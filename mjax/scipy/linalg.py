"""Linear algebra, as `scipy.linalg` has it."""

from mjax._engine.base.faces import face
from mjax._scipy.linalg.exponentials import expm, expm_frechet
from mjax._scipy.linalg.factors import cho_factor, cholesky, lu, lu_factor, qr, qr_multiply
from mjax._scipy.linalg.functions import funm, solve_sylvester, sqrtm
from mjax._scipy.linalg.patterns import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    fiedler,
    fiedler_companion,
    hankel,
    leslie,
    toeplitz,
)
from mjax._scipy.linalg.sized import (
    dft,
    hadamard,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    pascal,
)
from mjax._scipy.linalg.spectra import eigh, hessenberg, polar, rsf2csf, schur, svd
from mjax._scipy.linalg.systems import cho_solve, det, inv, lu_solve, solve, solve_triangular
from mjax._scipy.linalg.tridiagonal import eigh_tridiagonal

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion",
    "convolution_matrix", "det", "dft", "eigh", "eigh_tridiagonal", "expm", "expm_frechet",
    "fiedler", "fiedler_companion", "funm", "hadamard", "hankel", "helmert", "hessenberg",
    "hilbert", "inv", "invhilbert", "invpascal", "leslie", "lu", "lu_factor", "lu_solve", "pascal",
    "polar", "qr", "qr_multiply", "rsf2csf", "schur", "solve", "solve_sylvester",
    "solve_triangular", "sqrtm", "svd", "toeplitz",
]

face("mjax.scipy.linalg")
