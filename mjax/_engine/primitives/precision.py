"""The precision of products: `Precision`, dot algorithms, and their attributes.

Shared by `dot` and `convolution`. A canonical precision is None, a pair of `Precision`s (one
per operand), or a `DotAlgorithm` or one of its presets.
"""

from __future__ import annotations

import enum
from typing import Any, Union

import numpy as np

from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import pickled_by
from mjax._engine.ir.dtypes import bfloat16
from mjax._engine.primitives.emit import array_attr, element_type, hlo, ir


@pickled_by("precision_v1")
class Precision(enum.Enum):
    """The precision of the products of `dot_general` and convolutions.

    Attributes:
      DEFAULT: the fastest way (`"default"`, `"fastest"`, `"bfloat16"`).
      HIGH: more precise (`"high"`, `"bfloat16_3x"`, `"tensorfloat32"`).
      HIGHEST: the operands' full precision (`"highest"`, `"float32"`).

    CPUs always compute in full precision.

    Example:
      >>> lax.dot(jnp.ones((2, 3)), jnp.ones(3), precision=lax.Precision.HIGHEST)
      Array([3., 3.], dtype=float32)
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


@pickled_by("dot_algorithm_v1")
class DotAlgorithm(Record):
    """An exact description of how `dot_general` computes.

    Attributes:
      lhs_precision_type: dtype the left operand is rounded to.
      rhs_precision_type: dtype the right operand is rounded to.
      accumulation_type: dtype of the sums.
      lhs_component_count: into how many values each left element is split.
      rhs_component_count: the same for the right operand.
      num_primitive_operations: number of products of such parts that are summed.
      allow_imprecise_accumulation: whether some sums may be less precise.

    Source: StableHLO `dot_general`.

    Example:
      >>> algorithm = lax.DotAlgorithm("float32", "float32", "float32")
      >>> algorithm.accumulation_type
      'float32'
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


@pickled_by("dot_algorithm_preset_v1")
class DotAlgorithmPreset(enum.Enum):
    """Dot algorithms that some platform is known to support, as `LEFT_RIGHT_ACCUMULATION`.

    `_X3`, `_X6` and `_X9` split each operand and sum that many products of parts.

    Example:
      >>> lax.dot(jnp.ones((2, 3)), jnp.ones(3), precision=lax.DotAlgorithmPreset.F32_F32_F32)
      Array([3., 3.], dtype=float32)
    """

    DEFAULT = 0
    ANY_F8_ANY_F8_F32 = 1
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 2
    ANY_F8_ANY_F8_ANY = 3
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 4
    F16_F16_F16 = 5
    F16_F16_F32 = 6
    BF16_BF16_BF16 = 7
    BF16_BF16_F32 = 8
    BF16_BF16_F32_X3 = 9
    BF16_BF16_F32_X6 = 10
    BF16_BF16_F32_X9 = 11
    TF32_TF32_F32 = 12
    TF32_TF32_F32_X3 = 13
    F32_F32_F32 = 14
    F64_F64_F64 = 15

    def __repr__(self) -> str:
        return f"DotAlgorithmPreset.{self.name}"

    def __str__(self) -> str:
        return self.name


#: The values that `precision` arguments take.
PrecisionLike = Union[  # noqa: UP007 (an object of JAX's kind)
    str, Precision, tuple[str, str], tuple[Precision, Precision], DotAlgorithm,
    DotAlgorithmPreset, None]

_NAMES = {
    "default": Precision.DEFAULT, "fastest": Precision.DEFAULT, "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH, "bfloat16_3x": Precision.HIGH, "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST, "float32": Precision.HIGHEST,
}


def canonical_precision(precision: Any) -> Any:
    """The canonical precision that a `precision` argument stands for.

    Args:
      precision: None (the setting `default_matmul_precision`), a `Precision` or a
        name of one, a pair of those, a `DotAlgorithm`, a preset or its name.

    Raises:
      ValueError: it is not one of these.
    """
    if precision is None:
        setting = thread.settings.default_matmul_precision
        return None if setting is None else canonical_precision(setting)
    if isinstance(precision, Precision):
        return precision, precision
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, str):
        if precision in DotAlgorithmPreset.__members__:
            return DotAlgorithmPreset[precision]
        if precision in _NAMES:
            return _NAMES[precision], _NAMES[precision]
    elif isinstance(precision, (tuple, list)) and len(precision) == 2:
        pair = tuple(p if isinstance(p, Precision) else _NAMES.get(p) for p in precision)
        if None not in pair:
            return pair
    msg = (f"precision {precision!r} is not understood: give None, a lax.Precision or one of "
           f"{', '.join(map(repr, _NAMES))}, a pair of those, a lax.DotAlgorithm, or a "
           "lax.DotAlgorithmPreset or its name.")
    raise ValueError(msg)


def precision_attr(precision: Any) -> Any:
    """The attribute for a canonical precision: one entry per operand."""
    pair = precision if type(precision) is tuple else (Precision.DEFAULT, Precision.DEFAULT)
    return array_attr([hlo.PrecisionAttr.get(p.name) for p in pair])


# ---- dot algorithms --------------------------------------------------------------------

_f16, _f32, _f64 = map(np.dtype, ("float16", "float32", "float64"))


class AlgorithmFacts(Record):
    """The facts about a dot algorithm that lowering needs.

    Attributes:
      algorithm: the algorithm; a type of "tf32" or "any_f8" is not a dtype of arrays.
      storage: dtypes an operand may be stored in; others are converted to the first. None:
        operands are taken as they are.
      on_cpu: whether XLA's CPU backend implements it.
    """

    algorithm: DotAlgorithm
    storage: tuple[Any, ...] | None
    on_cpu: bool


def _row(operand: Any, accumulation: Any, storage: Any, on_cpu: bool = False, operations: int = 1,
         fast: bool = False) -> AlgorithmFacts:
    return AlgorithmFacts(DotAlgorithm(operand, operand, accumulation, 1, 1, operations, fast),
                          storage, on_cpu)


_PRESETS = {
    DotAlgorithmPreset[name]: row for name, row in {
        "ANY_F8_ANY_F8_F32": _row("any_f8", _f32, None),
        "ANY_F8_ANY_F8_F32_FAST_ACCUM": _row("any_f8", _f32, None, fast=True),
        "ANY_F8_ANY_F8_ANY": _row("any_f8", None, None),
        "ANY_F8_ANY_F8_ANY_FAST_ACCUM": _row("any_f8", None, None, fast=True),
        "F16_F16_F16": _row(_f16, _f16, (_f16,), True),
        "F16_F16_F32": _row(_f16, _f32, (_f16,)),
        "BF16_BF16_BF16": _row(bfloat16, bfloat16, (bfloat16,)),
        "BF16_BF16_F32": _row(bfloat16, _f32, (_f32, bfloat16), True),
        "BF16_BF16_F32_X3": _row(bfloat16, _f32, (_f32,), True, 3),
        "BF16_BF16_F32_X6": _row(bfloat16, _f32, (_f32,), True, 6),
        "BF16_BF16_F32_X9": _row(bfloat16, _f32, (_f32,), False, 9),
        "TF32_TF32_F32": _row("tf32", _f32, (_f32,)),
        "TF32_TF32_F32_X3": _row("tf32", _f32, (_f32,), False, 3),
        "F32_F32_F32": _row(_f32, _f32, (_f32,), True),
        "F64_F64_F64": _row(_f64, _f64, (_f64,), True),
    }.items()
}


def algorithm_facts(precision: Any, platform: str | None) -> AlgorithmFacts | None:
    """The facts about the algorithm that a canonical precision names; None if it names none.

    Raises:
      ValueError: the platform does not implement it.
    """
    if isinstance(precision, DotAlgorithm):
        return AlgorithmFacts(precision, None, True)
    if not isinstance(precision, DotAlgorithmPreset) or precision is DotAlgorithmPreset.DEFAULT:
        return None
    facts = _PRESETS[precision]
    if platform == "cpu" and not facts.on_cpu:
        cpu = ", ".join(str(p) for p, row in _PRESETS.items() if row.on_cpu)
        msg = f"dot algorithm {precision} is not supported on CPU. Supported there: {cpu}."
        raise ValueError(msg)
    return facts


def algorithm_attr(algorithm: DotAlgorithm, operand_dtypes: Any, out_dtype: Any) -> Any:
    """The attribute for a dot algorithm, given the dtypes of the operands and the result."""

    def mlir_type(spec: Any, stored: Any) -> Any:
        if spec is None or spec == "any_f8":
            return element_type(stored)
        return ir.FloatTF32Type.get() if spec == "tf32" else element_type(np.dtype(spec))

    lhs, rhs, accumulation, *counts = algorithm
    return hlo.DotAlgorithm.get(mlir_type(lhs, operand_dtypes[0]),
                                mlir_type(rhs, operand_dtypes[1]),
                                mlir_type(accumulation, out_dtype), *counts)
