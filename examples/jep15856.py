"""The primitive of JEP 15856, which proposed JAX's extension surface: mul_add(x, y, z).

Its implementation runs on Python ints. Its lowering is for all platforms and feeds one operation
into the next. `bind` itself is jitted, and a primitive is a static argument. Two things are not in
the JEP: results of Python numbers are weakly typed, and there is a batching rule. `mjax_ext.check`
asks for them.

    python examples/jep15856.py
"""

from __future__ import annotations

import functools
from typing import Any

import mjax
from mjax.typing import ArrayLike
from mjax_ext import core
from mjax_ext.interpreters import batching, mlir

mul_add_p = core.Primitive("mul_add")
mul_add_p.def_impl(lambda x, y, z: x * y + z)


@mul_add_p.def_abstract_eval
def mul_add_abstract(x: core.ShapedArray, y: core.ShapedArray, z: core.ShapedArray
                     ) -> core.ShapedArray:
    return core.ShapedArray(x.shape, x.dtype, x.weak_type and y.weak_type and z.weak_type)


def mul_add_mlir(ctx: mlir.LoweringRuleContext, x: Any, y: Any, z: Any) -> Any:
    add = mlir.hlo.AddOp
    mul = mlir.hlo.MulOp
    return add(mul(x, y), z).results


mlir.register_lowering(mul_add_p, mul_add_mlir)
batching.defvectorized(mul_add_p)


@functools.partial(mjax.jit, static_argnums=0)
def apply(primitive: core.Primitive, *operands: ArrayLike) -> Any:
    """Applies a primitive that is a static argument."""
    return primitive.bind(*operands)


def results() -> dict[str, Any]:
    """The JEP's program, and the primitive as a static argument."""
    return {
        "mul_add_p.bind(2, 3, 4)": mul_add_p.bind(2, 3, 4),
        "jit(mul_add_p.bind)(2, 3, 4)": mjax.jit(mul_add_p.bind)(2, 3, 4),
        "apply(mul_add_p, 2, 3, 4)": apply(mul_add_p, 2, 3, 4),
    }


if __name__ == "__main__":
    for call, value in results().items():
        print(f"{call:30} -> {value!r}")
