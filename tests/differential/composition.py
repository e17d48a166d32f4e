"""Random programs: a seed gives a sequence of operations on earlier values.

jax is asked which operations fit: one that it refuses is dropped, so that the tables below need
no rules for shapes and dtypes. What was dropped is kept, since mjax must refuse it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np


class Operation(NamedTuple):
    """A function of the library and some values."""

    name: str
    arity: int
    apply: Callable[..., Any]


def functions(path: str, arity: int, names: str) -> list[Operation]:
    """Operations that are called by name: `m.<path>.<name>(x, ...)`."""

    def named(name: str) -> Callable[..., Any]:
        return lambda m, *xs: getattr(getattr(m, path), name)(*xs)

    return [Operation(f"{path}.{name}", arity, named(name)) for name in names.split()]


def table(path: str, rows: dict[str, tuple[int, Callable[..., Any]]]) -> list[Operation]:
    """Operations with parameters, from functions of `(m.<path>, x, ...)`."""
    return [Operation(name, arity, lambda m, *xs, f=f: f(getattr(m, path), *xs))
            for name, (arity, f) in rows.items()]


LAX = [
    *functions("lax", 1, "neg sin cos tanh exp log1p abs sign floor round logistic square real "
               "imag is_finite bitwise_not population_count atan asinh expm1 erf sqrt "
               "rsqrt cbrt"),
    *functions("lax", 2, "add sub mul max min atan2 eq lt ge bitwise_and bitwise_xor add mul sub "
               "complex div rem nextafter pow shift_left"),
    *functions("lax", 3, "select_n select"),
    *table("lax", {
        "square twice": (1, lambda lax, x: lax.integer_pow(x, 2)),
        "cube": (1, lambda lax, x: lax.integer_pow(x, 3)),
        "to f32": (1, lambda lax, x: lax.convert_element_type(x, np.float32)),
        "to i32": (1, lambda lax, x: lax.convert_element_type(x, np.int32)),
        "to f16": (1, lambda lax, x: lax.convert_element_type(x, np.float16)),
        "to bf16": (1, lambda lax, x: lax.convert_element_type(x, ml_dtypes.bfloat16)),
        "to float": (1, lambda lax, x: lax.convert_element_type(x, float)),
        "bits": (1, lambda lax, x: lax.bitcast_convert_type(x, np.int32)),
        "rows": (1, lambda lax, x: lax.broadcast(x, (2,))),
        "spread": (1, lambda lax, x: lax.broadcast_in_dim(x, (2, 3), (1,))),
        "flat": (1, lambda lax, x: lax.reshape(x, (6,))),
        "folded": (1, lambda lax, x: lax.reshape(x, (3, 2))),
        "transposed": (1, lambda lax, x: lax.transpose(x, (1, 0))),
        "sum": (1, lambda lax, x: lax.reduce_sum(x, (0,))),
        "largest": (1, lambda lax, x: lax.reduce_max(x, (0,))),
        "product": (1, lambda lax, x: lax.reduce_prod(x, (0,))),
        "any": (1, lambda lax, x: lax.reduce_or(x, (0,))),
        "reversed": (1, lambda lax, x: lax.rev(x, (0,))),
        "with axis": (1, lambda lax, x: lax.expand_dims(x, (0,))),
        "without axis": (1, lambda lax, x: lax.squeeze(x, (0,))),
        "head": (1, lambda lax, x: lax.slice_in_dim(x, 0, 2)),
        "every second": (1, lambda lax, x: lax.slice_in_dim(x, 0, None, 2)),
        "window": (1, lambda lax, x: lax.dynamic_slice_in_dim(x, 1, 2)),
        "second": (1, lambda lax, x: lax.index_in_dim(x, 1, keepdims=False)),
        "dynamic": (2, lambda lax, x, i: lax.dynamic_index_in_dim(x, i)),
        "updated": (3, lambda lax, x, y, i: lax.dynamic_update_slice_in_dim(x, y, i, 0)),
        "together": (2, lambda lax, x, y: lax.concatenate([x, y], 0)),
        "padded": (1, lambda lax, x: lax.pad(
            x, np.zeros((), np.result_type(x)), [(1, 0, 0)] * np.ndim(x))),
        "dot": (2, lambda lax, x, y: lax.dot(x, y)),
        "dot_general": (2, lambda lax, x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ())))),
        "sorted": (1, lambda lax, x: lax.sort(x)),
        "argmax": (1, lambda lax, x: lax.argmax(x, 0, np.int32)),
        "cumsum": (1, lambda lax, x: lax.cumsum(x)),
        "cummax": (1, lambda lax, x: lax.cummax(x)),
        "cumprod backwards": (1, lambda lax, x: lax.cumprod(x, reverse=True)),
        "iota": (0, lambda lax: lax.iota(np.float32, 3)),
        "full": (0, lambda lax: lax.full((2, 3), 0.5)),
        "full_like": (1, lambda lax, x: lax.full_like(lax.broadcast(x, (2,)), 1)),
    }),
]

NUMPY = [
    *functions("numpy", 1, "sin cos tanh exp log1p abs sign floor ceil square sqrt cbrt ravel sum "
               "mean max min prod any all argmax argmin sort cumsum transpose atleast_2d "
               "zeros_like ones_like isfinite isnan logical_not negative var std flip squeeze "
               "expm1 trunc sinh arctan real conj nan_to_num diag trace argsort"),
    *functions("numpy", 2, "add subtract multiply divide true_divide maximum minimum power arctan2 "
               "equal less greater_equal logical_and logical_or dot matmul outer floor_divide "
               "remainder logaddexp append vdot inner fmod not_equal copysign isclose"),
    *functions("numpy", 3, "where clip"),
    *table("numpy", {
        "x + y": (2, lambda jnp, x, y: x + y), "x - y": (2, lambda jnp, x, y: x - y),
        "x * y": (2, lambda jnp, x, y: x * y), "x / y": (2, lambda jnp, x, y: x / y),
        "x // y": (2, lambda jnp, x, y: x // y), "x % y": (2, lambda jnp, x, y: x % y),
        "x @ y": (2, lambda jnp, x, y: x @ y), "x < y": (2, lambda jnp, x, y: x < y),
        "x & y": (2, lambda jnp, x, y: x & y), "-x": (1, lambda jnp, x: -x),
        "~x": (1, lambda jnp, x: ~x), "x ** 2": (1, lambda jnp, x: x**2),
        "2 ** x": (1, lambda jnp, x: 2**x), "x * 2": (1, lambda jnp, x: x * 2),
        "1.5 - x": (1, lambda jnp, x: 1.5 - x), "x / 3": (1, lambda jnp, x: x / 3),
        "x + 1j": (1, lambda jnp, x: x + 1j), "x[0]": (1, lambda jnp, x: x[0]),
        "x[-1]": (1, lambda jnp, x: x[-1]), "x[::2]": (1, lambda jnp, x: x[::2]),
        "x[1:]": (1, lambda jnp, x: x[1:]), "x[..., ::-1]": (1, lambda jnp, x: x[..., ::-1]),
        "x[None]": (1, lambda jnp, x: x[None]), "x[:, 1]": (1, lambda jnp, x: x[:, 1]),
        "x[indices]": (1, lambda jnp, x: x[np.array([0, -1, 1])]),
        "x[y]": (2, lambda jnp, x, y: x[y]), "x.T": (1, lambda jnp, x: x.T),
        "x.at[0].set(y)": (2, lambda jnp, x, y: x.at[0].set(y)),
        "x.at[1:].add(y)": (2, lambda jnp, x, y: x.at[1:].add(y)),
        "x.at[y].max(0)": (2, lambda jnp, x, y: x.at[y].max(0)),
        "sum(axis=0)": (1, lambda jnp, x: jnp.sum(x, axis=0)),
        "mean(keepdims)": (1, lambda jnp, x: jnp.mean(x, axis=-1, keepdims=True)),
        "max(axis=1)": (1, lambda jnp, x: x.max(axis=1)),
        "sum(where)": (1, lambda jnp, x: jnp.sum(x, where=x > 0)),
        "reshape(-1)": (1, lambda jnp, x: x.reshape(-1)),
        "concatenate": (2, lambda jnp, x, y: jnp.concatenate([x, y])),
        "stack": (2, lambda jnp, x, y: jnp.stack([x, y])),
        "einsum": (2, lambda jnp, x, y: jnp.einsum("ij,kj->ik", x, y)),
        "tensordot": (2, lambda jnp, x, y: jnp.tensordot(x, y, axes=1)),
        "arange": (0, lambda jnp: jnp.arange(3)),
        "linspace": (0, lambda jnp: jnp.linspace(0, 1, 3)),
        "zeros": (0, lambda jnp: jnp.zeros((2, 3))), "eye": (0, lambda jnp: jnp.eye(3)),
        "asarray": (0, lambda jnp: jnp.asarray([1.0, 2.0, 3.0])),
        "astype int": (1, lambda jnp, x: x.astype(int)),
        "astype f16": (1, lambda jnp, x: x.astype("float16")),
        "swapaxes": (1, lambda jnp, x: jnp.swapaxes(x, 0, -1)),
        "expand_dims": (1, lambda jnp, x: jnp.expand_dims(x, 1)),
        "broadcast_to": (1, lambda jnp, x: jnp.broadcast_to(x, (2, 3))),
        "tile": (1, lambda jnp, x: jnp.tile(x, 2)), "repeat": (1, lambda jnp, x: x.repeat(2)),
        "roll": (1, lambda jnp, x: jnp.roll(x, 1)), "triu": (1, lambda jnp, x: jnp.triu(x)),
        "take": (1, lambda jnp, x: jnp.take(x, np.array([1, 0]), axis=0)),
        "split": (1, lambda jnp, x: jnp.split(x, 3)[1]), "diff": (1, lambda jnp, x: jnp.diff(x)),
        "result_type": (2, lambda jnp, x, y: jnp.zeros(2, jnp.result_type(x, y))),
        "pad": (1, lambda jnp, x: jnp.pad(x, 1)),
    }),
]


def arguments(rng: np.random.Generator, dtype: Any) -> list[Any]:
    """What programs start from: arrays of several dtypes and shapes, and Python scalars."""
    return [
        rng.normal(size=(2, 3)).astype(dtype), rng.normal(size=3).astype(dtype),
        np.asarray(rng.normal(), dtype), rng.integers(-3, 4, (2, 3)).astype(np.int32),
        rng.integers(0, 3, 3).astype(np.int32), rng.integers(0, 2, (2, 3)).astype(bool), 0.5, 2,
        rng.integers(0, 9, 3).astype(np.uint8), rng.normal(size=3) + 1j * rng.normal(size=3)]


class Step(NamedTuple):
    """An operation on values made before; the arguments have the first numbers."""

    operation: Operation
    operands: tuple[int, ...]


class Composition:
    """A random program, its arguments, and the operations that jax refused on the way."""

    def __init__(self, operations: Sequence[Operation], seed: int, length: int = 8,
                 dtype: Any = np.float32):
        rng = np.random.default_rng(seed)
        self.arguments = arguments(rng, dtype)
        self.steps: list[Step] = []
        self.refused: list[Step] = []
        values = list(self.arguments)
        for _ in range(20 * length):
            if len(self.steps) == length:
                break
            operation = operations[rng.integers(len(operations))]
            # What was made lately is used more often, so that programs are deep.
            weights = np.linspace(1, 3, len(values)) ** 2
            operands = rng.choice(len(values), operation.arity, p=weights / weights.sum())
            step = Step(operation, tuple(map(int, operands)))
            try:
                values.append(operation.apply(jax, *[values[i] for i in step.operands]))
            except Exception:
                self.refused.append(step)
            else:
                self.steps.append(step)

    def __call__(self, m: Any, *args: Any) -> list[Any]:
        """Runs the program in a library; gives the values that no later step uses."""
        values = list(args)
        for operation, operands in self.steps:
            values.append(operation.apply(m, *[values[i] for i in operands]))
        used = {i for step in self.steps for i in step.operands}
        return [v for i, v in enumerate(values) if i >= len(args) and i not in used]

    def __str__(self) -> str:
        lines = [f"v{i + len(self.arguments)} = {op.name}({', '.join(f'v{j}' for j in operands)})"
                 for i, (op, operands) in enumerate(self.steps)]
        return "\n".join(lines)
