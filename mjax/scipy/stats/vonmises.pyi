"""Types of `mjax.scipy.stats.vonmises`; a test compares them with the functions."""



from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array

__all__: list[str]

def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array: ...
def pdf(x: ArrayLike, kappa: ArrayLike) -> Array: ...
