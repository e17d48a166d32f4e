"""Types of `mjax.scipy.cluster.vq`; a test compares them with the functions."""



from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array

__all__: list[str]

def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = ...) -> tuple[Array, Array]: ...
