"""Dtypes: promotion, canonicalization, and the dtypes that NumPy does not have."""

from ml_dtypes import bfloat16

from mjax._engine.base.errors import TypePromotionError
from mjax._engine.base.faces import face
from mjax._engine.ir.dtypes import extended, float0, issubdtype, prng_key
from mjax._engine.ir.promotion import canonicalize_dtype, itemsize_bits, result_type, scalar_type_of
from mjax._numpy.scalars import finfo, iinfo

__all__ = [
    "TypePromotionError", "bfloat16", "canonicalize_dtype", "extended", "finfo", "float0", "iinfo",
    "issubdtype", "itemsize_bits", "prng_key", "result_type", "scalar_type_of",
]

face("mjax.dtypes")
