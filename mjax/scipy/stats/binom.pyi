"""Types of `mjax.scipy.stats.binom`; a test compares them with the functions."""



from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array

__all__: list[str]

def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = ...) -> Array: ...
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = ...) -> Array: ...
