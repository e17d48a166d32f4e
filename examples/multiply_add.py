"""A primitive from no rule to all of them: multiply_add(x, y, z) = x * y + z.

Each transformation needs one rule. Without the rule the transformation fails, and the error says
which rule is missing and how to write it. The walk prints its first line, registers the rule, and
tries again. At the end every composition is compared with its expected result.

    python examples/multiply_add.py [--errors]     # with --errors: all lines of each
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import mjax
from mjax import Array, lax
from mjax.errors import MissingRuleError
from mjax.typing import ArrayLike
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, mlir

multiply_add_p = core.Primitive("multiply_add")

#: An operand of a linear function: one in which it is linear has no value.
Operand: TypeAlias = Array | ad.UndefinedPrimal


def multiply_add(x: ArrayLike, y: ArrayLike, z: ArrayLike) -> Array:
    """x * y + z, for arrays of one shape and dtype."""
    result: Array = multiply_add_p.bind(x, y, z)
    return result


def square_add(a: ArrayLike, b: ArrayLike) -> Array:
    """a**2 + b, in terms of the primitive."""
    return multiply_add(a, a, b)


def cube_add(a: ArrayLike, b: ArrayLike) -> Array:
    """a**3 + b, in terms of the primitive."""
    return multiply_add(a, multiply_add(a, a, 0.0), b)


# ---- the rules ---------------------------------------------------------------------------


def multiply_add_impl(x: ArrayLike, y: ArrayLike, z: ArrayLike) -> Any:
    """Evaluation: any Python may run here. NumPy does for us."""
    return np.asarray(x) * np.asarray(y) + np.asarray(z)


def multiply_add_type(x: core.ShapedArray, y: core.ShapedArray, z: core.ShapedArray
                      ) -> core.ShapedArray:
    """Abstract evaluation: from the operands' types to the result's. Refuse what does not fit.

    Python numbers are weakly typed: they do not decide the dtype of a sum with an array. So is what
    is computed from them alone.
    """
    if not (x.shape == y.shape == z.shape and x.dtype == y.dtype == z.dtype):
        raise TypeError(f"multiply_add takes arrays of one shape and dtype, got {x}, {y}, {z}.")
    return core.ShapedArray(x.shape, x.dtype, x.weak_type and y.weak_type and z.weak_type)


def multiply_add_lowering(ctx: mlir.LoweringRuleContext, x: Any, y: Any, z: Any) -> Any:
    """Lowering: two operations of StableHLO. One may be fed into the next as it is."""
    hlo = mlir.hlo
    return hlo.AddOp(hlo.MulOp(x, y), z).results


def multiply_add_jvp(primals: Sequence[Array], tangents: Sequence[Array | ad.Zero]
                     ) -> tuple[Array, Array | ad.Zero]:
    """The derivative: dx y + x dy + dz.

    A tangent known to be zero is an `ad.Zero`. It costs nothing: its term is left out.
    """
    x, y, _ = primals
    dx, dy, dz = tangents
    tangent = dz
    if not isinstance(dx, ad.Zero):
        tangent = multiply_add(dx, y, ad.instantiate_zeros(tangent))
    if not isinstance(dy, ad.Zero):
        tangent = multiply_add(x, dy, ad.instantiate_zeros(tangent))
    return multiply_add(*primals), tangent


def register_jvp() -> None:
    """The table's spelling; multiply_add_p.def_jvp(multiply_add_jvp) says the same."""
    ad.primitive_jvps[multiply_add_p] = multiply_add_jvp


def multiply_add_transpose(ct: Array, x: Operand, y: Operand, z: Operand) -> list[Array | None]:
    """The transpose of the linear function that the jvp rule made.

    An operand in which it is linear has no value: it is an `ad.UndefinedPrimal`. Each of those
    gets a cotangent, every other operand None. x and y are never both undefined: the product
    would not be linear.
    """
    ct_x = ct_y = None
    if isinstance(x, ad.UndefinedPrimal):
        assert not isinstance(y, ad.UndefinedPrimal)
        ct_x = multiply_add(ct, y, ad.zeros_like_aval(x.aval))
    elif isinstance(y, ad.UndefinedPrimal):
        ct_y = multiply_add(x, ct, ad.zeros_like_aval(y.aval))
    return [ct_x, ct_y, ct if isinstance(z, ad.UndefinedPrimal) else None]


def register_transpose() -> None:
    """Or multiply_add_p.def_transpose(multiply_add_transpose)."""
    ad.primitive_transposes[multiply_add_p] = multiply_add_transpose


def multiply_add_batch(args: Sequence[Array], dims: Sequence[int | None]) -> tuple[Array, int]:
    """Batching: the same for many at once. dims[i] is the batch axis of args[i], or None."""
    size = next(x.shape[dim] for x, dim in zip(args, dims, strict=True) if dim is not None)
    args = [batching.bdim_at_front(x, dim, size) for x, dim in zip(args, dims, strict=True)]
    return multiply_add(*args), 0


def register_batch() -> None:
    """Or multiply_add_p.def_batch(multiply_add_batch)."""
    batching.primitive_batchers[multiply_add_p] = multiply_add_batch


# ---- the walk ----------------------------------------------------------------------------

A, B = np.array([2, 3], np.float32), np.array([10, 20], np.float32)


class Step(NamedTuple):
    """A transformation, its expected result, and the registration of its rule."""

    title: str
    attempt: Callable[[], Any]
    expected: Any
    register: Callable[[], Any]


STEPS = [
    Step("evaluation: square_add(2., 10.)", lambda: square_add(2.0, 10.0), 14,
         lambda: multiply_add_p.def_impl(multiply_add_impl)),
    Step("staging: make_jaxpr(square_add)(2., 10.)",
         lambda: str(mjax.make_jaxpr(square_add)(2.0, 10.0)),
         "{ lambda  ; a:~f32[] b:~f32[]. let\n"
         "    c:~f32[] = multiply_add a a b\n"
         "  in (c,) }",
         lambda: multiply_add_p.def_abstract_eval(multiply_add_type)),
    Step("compilation: jit(square_add)(2., 10.)", lambda: mjax.jit(square_add)(2.0, 10.0), 14,
         lambda: mlir.register_lowering(multiply_add_p, multiply_add_lowering)),
    Step("forward derivative: jvp(square_add, (2., 10.), (1., 1.))",
         lambda: mjax.jvp(square_add, (2.0, 10.0), (1.0, 1.0)), (14, 5),
         register_jvp),
    Step("reverse derivative: grad(square_add)(2., 10.)",
         lambda: mjax.grad(square_add)(2.0, 10.0), 4, register_transpose),
    Step("vectorization: vmap(square_add)([2, 3], [10, 20])",
         lambda: mjax.vmap(square_add)(A, B), [14, 29], register_batch),
]


def walk(show: Callable[[str], object] = print, whole_errors: bool = False) -> None:
    """Takes the primitive through all steps and shows the errors."""
    for number, step in enumerate(STEPS, 1):
        show(f"{number}. {step.title}")
        try:
            step.attempt()
        except MissingRuleError as error:
            lines = str(error).splitlines()
            show("   before  " + "\n           ".join(lines if whole_errors else lines[:1]))
        else:
            raise AssertionError(f"{step.title} worked before its rule was registered")
        step.register()
        value = step.attempt()
        check(step.title, value, step.expected)
        show("   after   " + str(plain(value)).replace("\n", "\n           "))


# ---- the compositions --------------------------------------------------------------------


def vmapped_sum(a: ArrayLike, b: ArrayLike) -> Array:
    """The sum of square_add over a batch."""
    return lax.reduce_sum(mjax.vmap(square_add)(a, b), (0,))


def pushforward(a: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    """Value and derivative of square_add along (1, 1)."""
    return mjax.jvp(square_add, (a, b), (1.0, 1.0))


COMPOSITIONS: dict[str, tuple[Callable[[], Any], Any]] = {
    "eval": (lambda: square_add(2.0, 10.0), 14),
    "jit": (lambda: mjax.jit(square_add)(2.0, 10.0), 14),
    "jvp": (lambda: pushforward(2.0, 10.0), (14, 5)),
    "jit of jvp": (lambda: mjax.jit(pushforward)(2.0, 10.0), (14, 5)),
    "jvp of jit": (lambda: mjax.jvp(mjax.jit(square_add), (2.0, 10.0), (1.0, 1.0)), (14, 5)),
    "grad": (lambda: mjax.grad(square_add)(2.0, 10.0), 4),
    "grad in b": (lambda: mjax.grad(square_add, argnums=1)(2.0, 10.0), 1),
    "jit of grad": (lambda: mjax.jit(mjax.grad(square_add))(2.0, 10.0), 4),
    "grad of jit": (lambda: mjax.grad(mjax.jit(square_add))(2.0, 10.0), 4),
    "vmap": (lambda: mjax.vmap(square_add)(A, B), [14, 29]),
    "vmap over a": (lambda: mjax.vmap(square_add, in_axes=(0, None))(A, np.float32(10)),
                    [14, 19]),
    "jit of vmap": (lambda: mjax.jit(mjax.vmap(square_add))(A, B), [14, 29]),
    "vmap of jit": (lambda: mjax.vmap(mjax.jit(square_add))(A, B), [14, 29]),
    "grad of vmap": (lambda: mjax.grad(vmapped_sum)(A, B), [4, 6]),
    "vmap of grad": (lambda: mjax.vmap(mjax.grad(square_add))(A, B), [4, 6]),
    "jvp of grad": (lambda: mjax.jvp(mjax.grad(square_add), (2.0, 10.0), (1.0, 1.0)), (4, 2)),
    "third derivative": (lambda: mjax.grad(mjax.grad(mjax.grad(cube_add)))(2.0, 10.0), 6),
    "jit of vmap of third": (
        lambda: mjax.jit(mjax.vmap(mjax.grad(mjax.grad(mjax.grad(cube_add)))))(A, B), [6, 6]),
    "make_jaxpr": (lambda: [eqn.primitive for eqn in mjax.make_jaxpr(square_add)(2.0, 10.0).eqns],
                   [multiply_add_p]),
}


def compare(show: Callable[[str], object] = print) -> None:
    """Evaluates all compositions and shows them beside their expected results."""
    width = max(map(len, COMPOSITIONS))
    for name, (compute, expected) in COMPOSITIONS.items():
        value = compute()
        check(name, value, expected)
        show(f"{name:{width}}  {plain(value)!s:24}  as expected")


def plain(value: Any) -> Any:
    """Arrays as Python numbers, for printing and comparing."""
    return mjax.tree.map(lambda x: x.tolist() if hasattr(x, "tolist") else x, value)


def check(what: str, value: Any, expected: Any) -> None:
    """Refuses a value that is not the expected one."""
    if plain(value) != expected:
        raise AssertionError(f"{what} gave {value}, expected {expected}")


def main() -> None:
    """The walk, the record, the compositions."""
    walk(whole_errors="--errors" in sys.argv[1:])
    print("\nThe record now:\n")
    print(multiply_add_p.rules())
    print("\nAll compositions:\n")
    compare()


if __name__ == "__main__":
    main()
