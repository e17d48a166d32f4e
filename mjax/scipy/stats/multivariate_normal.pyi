"""Types of `mjax.scipy.stats.multivariate_normal`; a test compares them with the functions."""



from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array

__all__: list[str]

def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = ...) -> Array: ...
def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array: ...
