"""Devices, arrays, dispatch: everything that happens when a program runs."""

# Plugs the executor into the evaluating interpreter and gives `jit` its impl.
from mjax._engine.runtime.dispatch import eager as eager
