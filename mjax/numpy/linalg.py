"""NumPy's linear algebra, as far as it is made of products and sums; decompositions come later."""

from mjax._numpy.matrix_chains import matrix_power, multi_dot
from mjax._numpy.matrix_functions import cross, diagonal, matmul, outer, tensordot, trace
from mjax._numpy.norms import matrix_norm, norm, vector_norm
from mjax._numpy.products import vecdot
from mjax._numpy.shapes import matrix_transpose

__all__ = [
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "multi_dot",
    "norm", "outer", "tensordot", "trace", "vecdot", "vector_norm",
]
