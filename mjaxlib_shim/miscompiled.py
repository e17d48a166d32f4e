"""Programs that jaxlib 0.10.2 compiles wrongly for the CPU, and options that avoid it.

XLA fuses sums with the elementwise operations around them there. If summands depend on a broadcast
array, and the fusion goes on to use the sum, results can be garbage beyond 16,384 elements:
`x - (w * x).sum(-1, keepdims=True)`, with `w` of shape (1, n). jax 0.10.2 returns them.
"""

from __future__ import annotations

import re
from typing import Any

from . import xla_gates

__all__ = ["options_against"]

_CALLS = re.compile(r"calls=%?([\w.-]+).*__ynn_fusion")
_COMPUTATION = re.compile(r"^%?([\w.-]+) \([^\n]*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
#: name, operation, operands, attributes
_OPERATION = re.compile(r"^\s*(ROOT )?%?([\w.-]+) = \S+ ([\w-]+)\(([^)]*)\)(.*)$", re.MULTILINE)
#: Products of matrices stay fused, which are the most of what fusing saves.
_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_DOT"}


def options_against(executable: Any, platform: str) -> dict[str, object]:
    """XLA options under which a program has to be compiled again; empty if it is right.

    Args:
      executable: the compiled program.
      platform: the one it was compiled for.

    Returns:
      Name -> value.

    Raises:
      AttributeError: `executable` is not a compiled program, on the releases concerned.

    Example:
      >>> from mjaxlib_shim import client, executables, miscompiled
      >>> cpu = client.client_for("cpu")
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> program = executables.compile_module(cpu, module, cpu.local_devices()[:1])
      >>> miscompiled.options_against(program, "cpu")
      {}
    """
    if platform != "cpu" or not xla_gates.FUSED_SUMS.open or xla_gates.RIGHT_FUSED_SUMS.open:
        return {}
    text = "\n".join(module.to_string() for module in executable.hlo_modules())
    fused = set(_CALLS.findall(text))
    if any(name in fused and _is_wrong(body) for name, body in _COMPUTATION.findall(text)):
        return dict(_OPTIONS)
    return {}


def _is_wrong(body: str) -> bool:
    """Whether a fused computation uses a sum whose summands depend on a broadcast array."""
    operations = {
        name: (operation, re.findall(r"%([\w.-]+)", operands), rest, bool(root))
        for root, name, operation, operands, rest in _OPERATION.findall(body)
    }

    def reads(name: str, kinds: set[str], seen: set[str]) -> bool:
        """Whether a value depends on an operation of a kind, other than through sums."""
        operation, operands, rest, _ = operations.get(name, ("", [], "", False))
        if name in seen or operation == "reduce":
            return False
        seen.add(name)
        if operation == "broadcast" and operation in kinds:
            # Those of scalars and of sums are right.
            return "dimensions={}" not in rest and reads(operands[0], {"parameter"}, set())
        return operation in kinds or any(reads(operand, kinds, seen) for operand in operands)

    return any(
        operation == "reduce" and not root and reads(operands[0], {"broadcast"}, set())
        for operation, operands, _, root in operations.values()
    )
