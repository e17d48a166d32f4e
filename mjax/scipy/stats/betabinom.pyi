"""Types of `mjax.scipy.stats.betabinom`; a test compares them with the functions."""



from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array

__all__: list[str]

def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = ...
           ) -> Array: ...
def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = ...) -> Array: ...
