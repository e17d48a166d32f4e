"""The functions that pickles name. They stay here; a changed form gets the next version."""

from __future__ import annotations

import mjax.random  # noqa: F401  # generators of keys are found by their names
from mjax._checkify.nan_source import NaNSource
from mjax._engine.base.util import from_pickle
from mjax._engine.control.remat.policies import Decided, Offloadable
from mjax._engine.control.remat.policies import _Either as EitherPolicy
from mjax._engine.control.remat.policies import _Except as ExceptPolicy
from mjax._engine.control.remat.policies import _Names as NamesPolicy
from mjax._engine.ir.effects import EffectPolicy
from mjax._engine.ir.jaxpr import DebugInfo
from mjax._engine.ir.manual_axes import _manual_axis_type as manual_axis_type_v1
from mjax._engine.ir.mesh import AxisType
from mjax._engine.ir.mesh import _abstract_mesh as abstract_mesh_v1
from mjax._engine.ir.mesh import _partition_spec as partition_spec_v1
from mjax._engine.ir.mesh import _unconstrained as unconstrained_v1
from mjax._engine.ir.pytree import _partial as partial_v1
from mjax._engine.ir.pytree import _tree_structure as tree_structure_v1
from mjax._engine.ir.references import AbstractRef
from mjax._engine.ir.token_types import _abstract_token as abstract_token_v1
from mjax._engine.ir.types import ShapedArray
from mjax._engine.linalg.eig import EigImplementation
from mjax._engine.linalg.eigh import EighImplementation
from mjax._engine.linalg.svd import SvdAlgorithm
from mjax._engine.primitives.accuracy import AccuracyMode, Tolerance
from mjax._engine.primitives.arithmetic import RoundingMethod
from mjax._engine.primitives.convolution import ConvDimensionNumbers
from mjax._engine.primitives.fft import FftType
from mjax._engine.primitives.gather import GatherDimensionNumbers, GatherScatterMode
from mjax._engine.primitives.keys import PRNGSpec
from mjax._engine.primitives.keys import _generator as prng_impl_v1
from mjax._engine.primitives.keys import _key_type as key_type_v1
from mjax._engine.primitives.precision import DotAlgorithm, DotAlgorithmPreset, Precision
from mjax._engine.primitives.ragged import RaggedDotDimensionNumbers
from mjax._engine.primitives.rng import RandomAlgorithm
from mjax._engine.primitives.scatter import ScatterDimensionNumbers
from mjax._engine.runtime.arrays.array import _array as array_v1
from mjax._engine.runtime.arrays.layouts import Layout
from mjax._engine.runtime.arrays.memory_spaces import Space
from mjax._engine.runtime.arrays.shape_dtype_struct import _rebuild as shape_dtype_struct_v1
from mjax._engine.runtime.dispatch.stages import ArgInfo
from mjax._engine.transforms.batching import AxisData
from mjax._export.checks import DisabledSafetyCheck
from mjax._library.image import ResizeMethod
from mjax._numpy.ufuncs import _rebuilt as ufunc_v1
from mjax._tools.flops import Flops

accuracy_mode_v1 = from_pickle(AccuracyMode)
arg_info_v1 = from_pickle(ArgInfo)
axis_data_v1 = from_pickle(AxisData)
axis_type_v1 = from_pickle(AxisType)
conv_dimension_numbers_v1 = from_pickle(ConvDimensionNumbers)
debug_info_v1 = from_pickle(DebugInfo)
disabled_safety_check_v1 = from_pickle(DisabledSafetyCheck)
dot_algorithm_preset_v1 = from_pickle(DotAlgorithmPreset)
dot_algorithm_v1 = from_pickle(DotAlgorithm)
effect_policy_v1 = from_pickle(EffectPolicy)
eig_implementation_v1 = from_pickle(EigImplementation)
eigh_implementation_v1 = from_pickle(EighImplementation)
fft_type_v1 = from_pickle(FftType)
flops_v1 = from_pickle(Flops)
gather_dimension_numbers_v1 = from_pickle(GatherDimensionNumbers)
gather_scatter_mode_v1 = from_pickle(GatherScatterMode)
layout_v1 = from_pickle(Layout)
memory_space_v1 = from_pickle(Space)
nan_source_v1 = from_pickle(NaNSource)
offloadable_v1 = from_pickle(Offloadable)
policy_decided_v1 = from_pickle(Decided)
policy_either_v1 = from_pickle(EitherPolicy)
policy_except_v1 = from_pickle(ExceptPolicy)
policy_names_v1 = from_pickle(NamesPolicy)
precision_v1 = from_pickle(Precision)
prng_spec_v1 = from_pickle(PRNGSpec)
ragged_dot_dimension_numbers_v1 = from_pickle(RaggedDotDimensionNumbers)
random_algorithm_v1 = from_pickle(RandomAlgorithm)
resize_method_v1 = from_pickle(ResizeMethod)
rounding_method_v1 = from_pickle(RoundingMethod)
scatter_dimension_numbers_v1 = from_pickle(ScatterDimensionNumbers)
abstract_ref_v1 = from_pickle(AbstractRef)
shaped_array_v1 = from_pickle(ShapedArray)
svd_algorithm_v1 = from_pickle(SvdAlgorithm)
tolerance_v1 = from_pickle(Tolerance)

__all__ = [
    "abstract_mesh_v1", "abstract_ref_v1", "abstract_token_v1", "accuracy_mode_v1", "arg_info_v1",
    "array_v1",
    "axis_data_v1", "axis_type_v1", "conv_dimension_numbers_v1", "debug_info_v1",
    "disabled_safety_check_v1", "dot_algorithm_preset_v1", "dot_algorithm_v1", "effect_policy_v1",
    "eig_implementation_v1", "eigh_implementation_v1", "fft_type_v1", "flops_v1",
    "gather_dimension_numbers_v1",
    "gather_scatter_mode_v1", "key_type_v1", "layout_v1", "manual_axis_type_v1",
    "memory_space_v1", "offloadable_v1",
    "partial_v1", "partition_spec_v1", "policy_decided_v1", "policy_either_v1", "policy_except_v1",
    "policy_names_v1", "precision_v1", "prng_impl_v1", "prng_spec_v1",
    "ragged_dot_dimension_numbers_v1", "random_algorithm_v1",
    "resize_method_v1", "rounding_method_v1", "scatter_dimension_numbers_v1",
    "shape_dtype_struct_v1", "shaped_array_v1", "svd_algorithm_v1", "tolerance_v1",
    "tree_structure_v1", "ufunc_v1", "unconstrained_v1",
]
