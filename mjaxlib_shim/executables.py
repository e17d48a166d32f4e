"""Compiling, running and inspecting programs.

Run one with `exe.execute_sharded(buffers).consume_with_handlers(handlers)`, both C++;
`arrays.result_handler` makes the handlers. With `with_tokens=True` the result also has
`consume_token().block_until_ready()`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from . import gates
from .client import device_list
from .miscompiled import options_against
from .mlir import bytecode
from .native import ext, xc

__all__ = [
    "LoadedExecutable",
    "UnknownOptionError",
    "any_compile_options",
    "compile_module",
    "compile_options",
    "cost_analysis",
    "cost_before_compiling",
    "deserialize",
    "has_collectives",
    "hlo_text",
    "ifrt_programs",
    "memory_analysis",
    "output_shardings",
    "parameter_shardings",
    "serialize",
    "to_hlo",
]

LoadedExecutable: Any = ext.LoadedExecutable
#: Makers of programs for `Client.compile_ifrt_program`, those of plugins among them.
ifrt_programs: Any = ext.ifrt_programs


class UnknownOptionError(xc.XlaRuntimeError, ValueError):  # type: ignore[misc]
    """An option name is unknown to XLA and jaxlib."""


def compile_module(
    client: Any,
    module: Any,
    devices: Sequence[Any],
    *,
    num_partitions: int = 1,
    num_replicas: int = 1,
    options: Mapping[str, object] | None = None,
    host_callbacks: Sequence[Any] = (),
) -> Any:
    """Compiles an `ir.Module` for `devices` and loads it.

    Args:
      devices: num_replicas * num_partitions devices, replica-major.
      options: see `compile_options`.
      host_callbacks: the Python callbacks, to which the module refers by position.
      client: the client.
      module: the module.
      num_partitions: the number of partitions.
      num_replicas: the number of replicas.

    Returns:
      A loaded executable of jaxlib.

    Raises:
      XlaRuntimeError: XLA cannot compile the module.
      ValueError: the number of devices is wrong, or an option is unknown.

    Example:
      >>> from mjaxlib_shim import client, executables
      >>> cpu = client.client_for("cpu")
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> program = executables.compile_module(cpu, module, cpu.local_devices()[:1])
      >>> "sine" in executables.hlo_text(program)
      True
    """
    def load(options: Mapping[str, object] | None) -> Any:
        settings = compile_options(
            devices, num_partitions=num_partitions, num_replicas=num_replicas, options=options
        )
        return _load(client, module, devices, settings, host_callbacks)

    loaded = load(options)
    others = options_against(loaded, client.platform)
    return load({**others, **(options or {})}) if others else loaded


def _load(
    client: Any, module: Any, devices: Sequence[Any], settings: Any, host_callbacks: Sequence[Any]
) -> Any:
    keywords = {"host_callbacks": list(host_callbacks)} if host_callbacks else {}
    if gates.COMPILE_MODULE.open:
        return client.compile_and_load(module, device_list(devices), settings, **keywords)
    if gates.COMPILE_AND_LOAD.open:
        return client.compile_and_load(bytecode(module), device_list(devices), settings, **keywords)
    loaded = client.compile(bytecode(module), settings, **keywords)
    return loaded if gates.FFI_CALLBACKS.open or not host_callbacks else _Awaited(loaded)


class _Awaited:
    """A program with Python callbacks whose calls return when it is done, as on newer jaxlibs.

    If such a program fails in a thread of its own, 0.4.36 lets programs that wait for its
    results continue with undefined contents of their buffers.
    """

    def __init__(self, loaded: Any):
        self._loaded = loaded

    def execute_sharded(self, arguments: Sequence[Any], with_tokens: bool = False) -> Any:
        results = self._loaded.execute_sharded(arguments, with_tokens=True)
        token = results.consume_token()
        token.block_until_ready()
        return ResultsAndToken(results, token)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaded, name)


class ResultsAndToken:
    """The results of an execution, without its token."""

    def __init__(self, results: Any, token: Any):
        self.consume_with_handlers = results.consume_with_handlers
        self.consume_token = lambda: token


def compile_options(
    devices: Sequence[Any],
    *,
    num_partitions: int = 1,
    num_replicas: int = 1,
    options: Mapping[str, object] | None = None,
) -> Any:
    """jaxlib's CompileOptions. With several partitions XLA partitions by Shardy.

    `options` by name: `xla_...` are XLA flags (bool, int, float or str), any other name
    is a field of ExecutableBuildOptions or CompileOptions, e.g.
    `allow_spmd_sharding_propagation_to_output=[True]`.

    Args:
      devices: num_replicas * num_partitions devices, replica-major.
      num_partitions: the number of partitions.
      num_replicas: the number of replicas.
      options: name -> value.

    Returns:
      jaxlib's `CompileOptions`.

    Raises:
      ValueError: the number of devices is wrong, or another number is below 1.
      UnknownOptionError: an option without `xla_` is a field of neither class.
      TypeError: the value of an option does not have the option's type.
      AttributeError: an element of `devices` is not a device, `options` is not a mapping, or an
        option is an attribute that cannot be set.

    Example:
      >>> from mjaxlib_shim import client, executables
      >>> devices = client.cpu_client(2).local_devices()
      >>> executables.compile_options(devices, num_partitions=2).num_partitions
      2
    """
    _check_counts(num_replicas, num_partitions)
    if len(devices) != num_replicas * num_partitions:
        raise ValueError(
            f"{num_replicas} replicas of {num_partitions} partitions need "
            f"{num_replicas * num_partitions} devices, not {len(devices)}"
        )
    ids = np.array([device.id for device in devices], np.int32)
    return any_compile_options(
        ids.reshape(num_replicas, num_partitions),
        num_partitions=num_partitions,
        num_replicas=num_replicas,
        options=options,
    )


def _check_counts(num_replicas: int, num_partitions: int) -> None:
    """Refuses numbers below 1, with which C++ would end the process."""
    if min(num_replicas, num_partitions) < 1:
        raise ValueError(
            f"num_replicas and num_partitions must be at least 1, not {num_replicas} and "
            f"{num_partitions}"
        )


def any_compile_options(
    ids: np.ndarray[Any, Any] | None,
    *,
    num_partitions: int,
    num_replicas: int,
    options: Mapping[str, object] | None = None,
) -> Any:
    """`compile_options` for ids of devices, by replica and partition; None: XLA chooses.

    Args:
      ids: numbers of devices, at least one, or None.
      num_partitions: the number of partitions.
      num_replicas: the number of replicas.
      options: as of `compile_options`.

    Returns:
      jaxlib's `CompileOptions`.

    Raises:
      UnknownOptionError: an option without `xla_` is not a field that jaxlib has.
      ValueError: a number is below 1, or `ids` does not have the shape
        (num_replicas, num_partitions).
      TypeError: `ids` is not an array, or the value of an option or a number does not have the
        right type.
      AttributeError: `options` is not a mapping, or an option is an attribute that cannot be set.

    Example:
      >>> from mjaxlib_shim import executables
      >>> executables.any_compile_options(None, num_partitions=1, num_replicas=2).num_replicas
      2
    """
    _check_counts(num_replicas, num_partitions)
    if ids is not None and np.shape(ids) != (num_replicas, num_partitions):
        raise ValueError(
            f"the ids of the devices have shape {np.shape(ids)}, but must have one for each of "
            f"{num_replicas} replicas of {num_partitions} partitions"
        )
    settings = xc.CompileOptions()
    build = settings.executable_build_options
    # XLA reads some of these from one object and some from another.
    for target in (settings, build):
        target.num_replicas = num_replicas
        target.num_partitions = num_partitions
        if ids is not None:
            target.device_assignment = xc.DeviceAssignment.create(ids)
    if num_partitions > 1:
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = True
    flags: list[tuple[str, object]] = []
    for name, value in (options or {}).items():
        if name.startswith("xla_"):
            flags.append((name, value))
        elif hasattr(type(build), name):
            setattr(build, name, value)
        elif hasattr(type(settings), name):
            setattr(settings, name, value)
        else:
            raise UnknownOptionError(f"unknown compile option {name!r}")
    if flags:
        settings.env_option_overrides = flags
    return settings


def cost_analysis(executable: Any) -> dict[str, float]:
    """XLA's estimates by name ("flops", "bytes accessed", ...).

    Args:
      executable: the compiled program.

    Returns:
      Name -> number.

    Raises:
      AttributeError: it is not a compiled program.

    Example:
      >>> from mjaxlib_shim import client, executables
      >>> cpu = client.client_for("cpu")
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> program = executables.compile_module(cpu, module, cpu.local_devices()[:1])
      >>> "bytes accessed" in executables.cost_analysis(program)
      True
    """
    return dict(executable.cost_analysis())


def to_hlo(module: Any) -> Any:
    """An `ir.Module` of StableHLO as HLO: jaxlib's XlaComputation (`as_hlo_text()`, ...).

    Args:
      module: the module.

    Returns:
      An `XlaComputation`.

    Raises:
      AttributeError: it is neither a module nor an operation.
      XlaRuntimeError: XLA cannot convert the module, for example because it does not have a
        function `main`.

    Example:
      >>> from mjaxlib_shim import executables
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> "sine" in executables.to_hlo(module).as_hlo_text()
      True
    """
    return ext.mlir.mlir_module_to_xla_computation(
        bytecode(module), use_tuple_args=False, return_tuple=False
    )


def cost_before_compiling(client: Any, module: Any) -> dict[str, float]:
    """XLA's estimates for an `ir.Module` before optimization, by name.

    Args:
      client: the client.
      module: the module.

    Returns:
      Name -> number.

    Raises:
      AttributeError: `module` is neither a module nor an operation.
      TypeError: `client` is not a client.
      XlaRuntimeError: XLA cannot convert the module, as in `to_hlo`.

    Example:
      >>> from mjaxlib_shim import client, executables
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> costs = executables.cost_before_compiling(client.client_for("cpu"), module)
      >>> costs["transcendentals"]
      1.0
    """
    return dict(ext.hlo_module_cost_analysis(client, to_hlo(module).get_hlo_module()))


def memory_analysis(executable: Any) -> Any:
    """jaxlib's CompiledMemoryStats (argument_size_in_bytes, temp_size_in_bytes, ...).

    Args:
      executable: the compiled program.

    Returns:
      A record of numbers of bytes.

    Raises:
      AttributeError: it is not a compiled program of jaxlib.

    Example:
      >>> from mjaxlib_shim import client, executables
      >>> cpu = client.client_for("cpu")
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> program = executables.compile_module(cpu, module, cpu.local_devices()[:1])
      >>> executables.memory_analysis(program).output_size_in_bytes
      4
    """
    return executable.get_compiled_memory_stats()


def programs_that_need(client: Any, size: int) -> list[tuple[int, str, Any]]:
    """The programs of a client with results or temporaries of exactly so many bytes; else those
    that need more, the smallest first.

    Returns:
      (bytes, name of the module, traceback of the call that compiled it).
    """
    exact: list[tuple[int, str, Any]] = []
    larger: list[tuple[int, str, Any]] = []
    for executable in client.live_executables():
        stats = executable.get_compiled_memory_stats()
        parts = stats.output_size_in_bytes, stats.temp_size_in_bytes
        if sum(parts) >= size:
            found = sum(parts), executable.hlo_modules()[0].name, executable.traceback
            (exact if size in parts else larger).append(found)
    return exact or sorted(larger, key=lambda program: program[0])


def hlo_text(executable: Any) -> str:
    """The optimized HLO of all modules.

    Args:
      executable: the compiled program.

    Returns:
      A string.

    Raises:
      AttributeError: it is not a compiled program of jaxlib.

    Example:
      >>> from mjaxlib_shim import client, executables
      >>> cpu = client.client_for("cpu")
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> program = executables.compile_module(cpu, module, cpu.local_devices()[:1])
      >>> executables.hlo_text(program)[:9]
      'HloModule'
    """
    return "\n\n".join(module.to_string() for module in executable.hlo_modules())


_COLLECTIVE: Final = re.compile(
    r" (all-gather|all-reduce|all-to-all|collective-\w+|ragged-all-to-all|reduce-scatter)"
    r"(-start)?\("
)


def has_collectives(executable: Any) -> bool:
    """Whether the devices of a compiled program wait for each other while it runs.

    Args:
      executable: the compiled program.

    Returns:
      A bool.

    Raises:
      AttributeError: it is not a compiled program of jaxlib.

    Example:
      >>> from mjaxlib_shim import client, executables
      >>> cpu = client.client_for("cpu")
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> program = executables.compile_module(cpu, module, cpu.local_devices()[:1])
      >>> executables.has_collectives(program)
      False
    """
    return any(_COLLECTIVE.search(module.to_string()) for module in executable.hlo_modules())


def output_shardings(executable: Any) -> list[Any] | None:
    """The HloSharding that the partitioner chose per output; None if it did not run.

    Args:
      executable: the compiled program.

    Returns:
      A list, or None.

    Raises:
      AttributeError: it is not a compiled program of jaxlib.

    Example:
      >>> from mjaxlib_shim import client, executables
      >>> cpu = client.client_for("cpu")
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> program = executables.compile_module(cpu, module, cpu.local_devices()[:1])
      >>> executables.output_shardings(program) is None
      True
    """
    return _shardings(executable.get_output_shardings())


def parameter_shardings(executable: Any) -> list[Any] | None:
    """The HloSharding that the partitioner chose per parameter; None if it did not run.

    Args:
      executable: the compiled program.

    Returns:
      A list, or None.

    Raises:
      AttributeError: it is not a compiled program of jaxlib.

    Example:
      >>> from mjaxlib_shim import client, executables
      >>> cpu = client.client_for("cpu")
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> program = executables.compile_module(cpu, module, cpu.local_devices()[:1])
      >>> executables.parameter_shardings(program) is None
      True
    """
    return _shardings(executable.get_parameter_shardings())


def _shardings(protos: Sequence[Any] | None) -> list[Any] | None:
    return None if protos is None else [xc.HloSharding.from_proto(proto) for proto in protos]


def serialize(client: Any, executable: Any) -> bytes:
    """The compiled program, for the same jaxlib on the same kind of machine.

    Args:
      client: the client.
      executable: the compiled program.

    Returns:
      Bytes.

    Raises:
      AttributeError: `client` is not a client.
      TypeError: `executable` is not a compiled program of jaxlib.

    Example:
      >>> from mjaxlib_shim import client, executables
      >>> cpu = client.client_for("cpu")
      >>> module, devices = mjax.jit(lax.sin).lower(1.0).compiler_ir(), cpu.local_devices()[:1]
      >>> data = executables.serialize(cpu, executables.compile_module(cpu, module, devices))
      >>> program = executables.deserialize(cpu, data, devices)
      >>> executables.hlo_text(program)[:9]
      'HloModule'
    """
    return bytes(client.serialize_executable(executable))


def deserialize(
    client: Any,
    data: bytes,
    devices: Sequence[Any],
    *,
    num_partitions: int = 1,
    num_replicas: int = 1,
    options: Mapping[str, object] | None = None,
) -> Any:
    """Loads a program from `serialize`; other arguments are as for `compile_module`.

    Args:
      client: the client.
      data: the bytes.
      devices: the devices.
      num_partitions: as of `compile_module`.
      num_replicas: as of `compile_module`.
      options: as of `compile_module`.

    Returns:
      A loaded executable of jaxlib.

    Raises:
      XlaRuntimeError: the bytes are not those of a program.
      ValueError: the number of devices is wrong, or an option is unknown.
      TypeError: `data` is not bytes, or the value of an option does not have the option's type.
      AttributeError: `client` is not a client, or an element of `devices` is not a device.

    Example:
      >>> from mjaxlib_shim import client, executables
      >>> cpu = client.client_for("cpu")
      >>> module, devices = mjax.jit(lax.sin).lower(1.0).compiler_ir(), cpu.local_devices()[:1]
      >>> data = executables.serialize(cpu, executables.compile_module(cpu, module, devices))
      >>> program = executables.deserialize(cpu, data, devices)
      >>> executables.hlo_text(program)[:9]
      'HloModule'
    """
    settings = compile_options(
        devices, num_partitions=num_partitions, num_replicas=num_replicas, options=options
    )
    if gates.COMPILE_AND_LOAD.open:
        return client.deserialize_executable(data, device_list(devices), settings)
    return client.deserialize_executable(data, settings)
