"""Types of `mjax.scipy.stats.gennorm`; a test compares them with the functions."""



from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array

__all__: list[str]

def cdf(x: ArrayLike, beta: ArrayLike) -> Array: ...
def logpdf(x: ArrayLike, beta: ArrayLike) -> Array: ...
def pdf(x: ArrayLike, beta: ArrayLike) -> Array: ...
