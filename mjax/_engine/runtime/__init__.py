"""Running programs: devices, arrays, dispatch, effects, processes."""

# Plugs the executor into the evaluating interpreter and gives `jit` its impl.
from mjax._engine.runtime.dispatch import eager as eager
