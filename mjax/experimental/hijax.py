"""Types and primitives of one's own, with JAX's protocol.

- `HiType`: a type whose values are objects of a class of yours; `register_hitype` names the class,
  `MappingSpec` is the base of their axes under `vmap`. `aval_property` and `aval_method` are
  attributes that traced values have.
- `VJPHiPrimitive`: an operation with its rules as methods. `HiPrimitive`: a primitive with some.
- `AbstractValue`, `AbstractRef`, `ShapedArray`, `Zero`, `instantiate_zeros`, `is_undefined_primal`:
  what these are written with. `control_flow_allowed_effects.add_type(cls)` lets effects of a class
  into loops and branches.
"""

from mjax._engine.base.faces import face
from mjax._engine.ir.references import AbstractRef
from mjax._engine.ir.types import AbstractValue, ShapedArray
from mjax._engine.primitives.tangents import instantiate as instantiate_zeros
from mjax._engine.tracing.aval_attributes import aval_method, aval_property
from mjax._engine.tracing.effect_types import control_flow_allowed_effects
from mjax._engine.tracing.symbolic import Zero, is_undefined_primal
from mjax._hijax.primitive import HiPrimitive
from mjax._hijax.types import HiType, MappingSpec, register_hitype
from mjax._hijax.vjp_primitive import VJPHiPrimitive

__all__ = [
    "AbstractRef", "AbstractValue", "HiPrimitive", "HiType", "MappingSpec", "ShapedArray",
    "VJPHiPrimitive", "Zero", "aval_method", "aval_property", "control_flow_allowed_effects",
    "instantiate_zeros", "is_undefined_primal", "register_hitype",
]

face("mjax.experimental.hijax")
