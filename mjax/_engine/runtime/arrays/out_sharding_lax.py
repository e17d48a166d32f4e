"""`mjax.lax`'s functions that take `out_sharding`; lower layers do not handle it."""

from __future__ import annotations

from mjax._engine.control.reduce import reduce as _reduce
from mjax._engine.primitives.composed import broadcast as _broadcast
from mjax._engine.primitives.composed import empty as _empty
from mjax._engine.primitives.convolution import conv_general_dilated as _conv_general_dilated
from mjax._engine.primitives.dot import dot as _dot
from mjax._engine.primitives.dot import dot_general as _dot_general
from mjax._engine.primitives.iota import broadcasted_iota as _broadcasted_iota
from mjax._engine.primitives.ragged import ragged_dot as _ragged_dot
from mjax._engine.primitives.ragged import ragged_dot_general as _ragged_dot_general
from mjax._engine.primitives.rng import rng_bit_generator as _rng_bit_generator
from mjax._engine.primitives.shapes import broadcast_in_dim as _broadcast_in_dim
from mjax._engine.primitives.shapes import reduce_sum as _reduce_sum
from mjax._engine.primitives.shapes import reshape as _reshape
from mjax._engine.runtime.arrays.out_sharding import lays_out

broadcast = lays_out(_broadcast)
broadcast_in_dim = lays_out(_broadcast_in_dim)
broadcasted_iota = lays_out(_broadcasted_iota)
conv_general_dilated = lays_out(_conv_general_dilated, by_position=True)
dot = lays_out(_dot)
dot_general = lays_out(_dot_general)
empty = lays_out(_empty)
ragged_dot = lays_out(_ragged_dot, by_position=True)
ragged_dot_general = lays_out(_ragged_dot_general, by_position=True)
reduce = lays_out(_reduce, by_position=True)
reduce_sum = lays_out(_reduce_sum)
reshape = lays_out(_reshape)
rng_bit_generator = lays_out(_rng_bit_generator, result=1)
