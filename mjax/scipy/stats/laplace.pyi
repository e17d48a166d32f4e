"""Types of `mjax.scipy.stats.laplace`; a test compares them with the functions."""



from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array

__all__: list[str]

def cdf(x: ArrayLike, loc: ArrayLike = ..., scale: ArrayLike = ...) -> Array: ...
def logpdf(x: ArrayLike, loc: ArrayLike = ..., scale: ArrayLike = ...) -> Array: ...
def pdf(x: ArrayLike, loc: ArrayLike = ..., scale: ArrayLike = ...) -> Array: ...
