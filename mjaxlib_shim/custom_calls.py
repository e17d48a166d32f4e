"""Custom calls: registering targets and types, and jaxlib's own LAPACK kernels."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from . import foreign_gates, lapack_gates
from .native import ext, xc

__all__ = [
    "custom_call_targets",
    "cuts_stacks",
    "include_dir",
    "lacks_tokens",
    "lapack_kernel",
    "prepare_target",
    "pycapsule",
    "register_as_batch_partitionable",
    "register_custom_call_target",
    "register_lapack",
    "register_type",
    "register_type_id",
    "unknown_target",
    "unknown_when_run",
]

_lock = threading.Lock()
_lapack_ready = False


# ---- targets and types -----------------------------------------------------------------


def include_dir() -> str:
    """The folder of jaxlib's header files for C++.

    Example:
      >>> import os
      >>> from mjaxlib_shim import custom_calls
      >>> os.path.isdir(custom_calls.include_dir())
      True
    """
    package: Any = importlib.import_module("jaxlib")
    return os.path.join(os.path.abspath(package.__path__[0]), "include")


def pycapsule(pointer: Any) -> Any:
    """A PyCapsule of a `ctypes` function, pointer, or address.

    Args:
      pointer: the pointer.

    Returns:
      A PyCapsule.

    Raises:
      ValueError: the pointer is null.
      TypeError: it is not a pointer.

    Example:
      >>> import ctypes
      >>> from mjaxlib_shim import custom_calls
      >>> type(custom_calls.pycapsule(ctypes.pythonapi.Py_IncRef)).__name__
      'PyCapsule'
    """
    if isinstance(pointer, (str, bytes)):  # ctypes would cast them
        raise TypeError("a text is not a pointer")
    try:
        address = ctypes.cast(pointer, ctypes.c_void_p)
    except ctypes.ArgumentError as error:
        raise TypeError(str(error)) from None
    # A prototype of its own: `pythonapi.PyCapsule_New` is one object for the whole process.
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    )(("PyCapsule_New", ctypes.pythonapi))
    return make(address, None, None)


#: The stages of functions of XLA's typed FFI.
_STAGES = {"instantiate", "prepare", "initialize", "execute"}


def register_custom_call_target(
    name: str, target: Any, *, platform: str = "cpu", api_version: int = 1, **options: Any
) -> None:
    """Makes a C function callable as `stablehlo.custom_call @name`.

    jaxlib looks at the target as soon as the platform has a client.

    Args:
      name: its name.
      target: a PyCapsule of the function, or a dict of one for each stage of execution. XLA calls
        functions of its typed FFI now, so others end the process.
      platform: "cpu", or the name of a plugin's platform.
      api_version: 1 is XLA's typed FFI, 0 the old untyped calling convention.
      options: further arguments of jaxlib's function, such as `traits`.

    Raises:
      XlaRuntimeError: the target is not a PyCapsule, a dict does not have the stage `execute`,
        `api_version` is neither 0 nor 1, or the name has another target.
      ValueError: a dict has a stage that XLA does not know.
      TypeError: the target is None, or jaxlib does not take an option or its type.
      RuntimeError: the name is not a string.

    Example:
      >>> import ctypes
      >>> from mjaxlib_shim import client, custom_calls
      >>> cpu = client.client_for("cpu")
      >>> function = custom_calls.pycapsule(ctypes.pythonapi.Py_IncRef)
      >>> custom_calls.register_custom_call_target("counted", function, api_version=0)
      >>> "counted" in custom_calls.custom_call_targets()
      True
    """
    unknown = set(target) - _STAGES if isinstance(target, dict) else None
    if unknown:  # jaxlib passes over them
        raise ValueError(
            f"custom call target {name!r}: {sorted(map(str, unknown))} are not stages of a "
            f"target; those of XLA are {sorted(_STAGES)}"
        )
    xc.register_custom_call_target(
        name, target, platform=platform, api_version=api_version, **options
    )


def register_type(name: str, registration: Mapping[str, Any], *, platform: str = "cpu") -> None:
    """Registers a C++ type of the states of targets.

    Args:
      name: its name.
      registration: PyCapsules of its `type_id` and `type_info`. Before jaxlib 0.8.1 the first is
        enough.
      platform: as of targets.

    Raises:
      NotImplementedError: this jaxlib does not know types.
      XlaRuntimeError: there is no `type_id`, a value is not a PyCapsule, or the type is registered
        with another id.
      KeyError: before jaxlib 0.8.1, there is no `type_id`.
      TypeError: `registration` is not a mapping.

    Example:
      >>> import ctypes
      >>> from mjaxlib_shim import client, custom_calls
      >>> cpu, number = client.client_for("cpu"), ctypes.c_int64(0)
      >>> pointer = custom_calls.pycapsule(ctypes.pointer(number))
      >>> custom_calls.register_type("Counter", {"type_id": pointer})
      >>> number.value > 0
      True
    """
    if foreign_gates.FFI_TYPES.open:
        if platform == "cpu":  # else a new client would register waiting targets before types
            xc.register_custom_type_handler("cpu", ext.register_custom_type)
        xc.register_custom_type(name, dict(registration), platform=platform)
        return
    register_type_id(name, registration["type_id"], platform=platform)


def register_type_id(name: str, type_id: Any, *, platform: str = "cpu") -> None:
    """`register_type` by the id alone, on the jaxlibs that need no more.

    Args:
      name: the name of the type.
      type_id: a PyCapsule of the id.
      platform: as of targets.

    Raises:
      NotImplementedError: this jaxlib does not know types.
      ValueError: it needs more.

    Example:
      >>> import ctypes
      >>> from mjaxlib_shim import custom_calls
      >>> pointer = custom_calls.pycapsule(ctypes.pointer(ctypes.c_int64(0)))
      >>> custom_calls.register_type_id("Counter", pointer)
      Traceback (most recent call last):
      ValueError: from jaxlib 0.8.1 on, a type is registered with its type_info beside its type_id
    """
    ids, whole = foreign_gates.FFI_TYPE_IDS, foreign_gates.FFI_TYPES
    if not foreign_gates.FFI_TYPE_IDS.open:
        raise NotImplementedError(
            f"types of foreign functions need jaxlib {ids.since_release} or newer"
        )
    if foreign_gates.FFI_TYPES.open:
        raise ValueError(
            f"from jaxlib {whole.since_release} on, a type is registered with its type_info "
            "beside its type_id"
        )
    if platform == "cpu":  # as in `register_type`
        xc.register_custom_type_id_handler("cpu", ext.register_custom_type_id)
    xc.register_custom_type_id(name, type_id, platform=platform)


def register_as_batch_partitionable(name: str) -> None:
    """Tells XLA that a target computes each element of a batch by itself.

    Args:
      name: the name of the target.

    Raises:
      NotImplementedError: this jaxlib cannot be told.
      TypeError: the name is not a string.

    Example:
      >>> from mjaxlib_shim import custom_calls
      >>> custom_calls.register_as_batch_partitionable("lapack_spotrf_ffi")
    """
    gate = lapack_gates.LAPACK_STACKS
    if not lapack_gates.LAPACK_STACKS.open:
        raise NotImplementedError(
            f"targets that XLA may cut along a batch need jaxlib {gate.since_release} or newer"
        )
    ext.register_custom_call_as_batch_partitionable(name)


def lacks_tokens(platform: str) -> str:
    """The release whose foreign functions take and give tokens; empty if this one's do.

    Args:
      platform: the platform.

    Returns:
      A string.

    Example:
      >>> from mjaxlib_shim import custom_calls
      >>> isinstance(custom_calls.lacks_tokens("cpu"), str)
      True
    """
    gate = foreign_gates.FFI_TOKENS
    done = foreign_gates.FFI_TOKENS.open or platform != "cpu"
    return "" if done else f"jaxlib {gate.since_release} or newer"


#: XLA's errors for targets that it does not know, typed and untyped ones.
_UNKNOWN = re.compile(
    r"No registered implementation for (?:FFI|untyped) custom call to (?P<late>\S+) for"
    r"|No FFI handler registered for (?P<early>\S+) on a platform"
)


def unknown_target(error: BaseException) -> str | None:
    """The target that an error of XLA says is unknown, or None.

    Args:
      error: the error.

    Returns:
      A string, or None.

    Example:
      >>> from mjaxlib_shim import custom_calls
      >>> custom_calls.unknown_target(ValueError("another one")) is None
      True
    """
    found = _UNKNOWN.search(str(error))
    return found and (found["late"] or found["early"])


def unknown_when_run(executable: Any, targets: Iterable[str], platform: str) -> str | None:
    """The target among these that a compiled program calls and nothing is registered for.

    None on the jaxlibs that refuse such programs when they compile them.

    Args:
      executable: the compiled program.
      targets: names of targets.
      platform: the platform.

    Returns:
      A string, or None.

    Raises:
      AttributeError: before jaxlib 0.6.1, `executable` is not a compiled program.
      TypeError: before jaxlib 0.6.1, `targets` is not iterable, or the platform is not a string.

    Example:
      >>> from mjaxlib_shim import client, custom_calls, executables
      >>> cpu = client.client_for("cpu")
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> program = executables.compile_module(cpu, module, cpu.local_devices()[:1])
      >>> custom_calls.unknown_when_run(program, ["not_called"], "cpu") is None
      True
    """
    if foreign_gates.FFI_TARGETS_CHECKED.open:
        return None
    text = "\n".join(module.to_string() for module in executable.hlo_modules())
    known = custom_call_targets(platform)
    return next((name for name in targets if name not in known
                 and f'custom_call_target="{name}"' in text), None)


def custom_call_targets(platform: str = "cpu") -> frozenset[str]:
    """The names registered for a platform (after its first client was made).

    Args:
      platform: the platform.

    Returns:
      A set of names.

    Raises:
      TypeError: the platform is not a string.

    Example:
      >>> from mjaxlib_shim import custom_calls
      >>> isinstance(custom_calls.custom_call_targets(), frozenset)
      True
    """
    return frozenset(ext.custom_call_targets(xc.xla_platform_names.get(platform, platform)))


# ---- LAPACK ----------------------------------------------------------------------------

#: Whether jaxlib has the kernels that some releases of the window lack.
_NEWER = {
    "geqp3": lapack_gates.LAPACK_PIVOTED.open,
    "gesvd": lapack_gates.LAPACK_GESVD.open,
    "gtsv": lapack_gates.LAPACK_PIVOTED.open,
    "ormqr": lapack_gates.LAPACK_ORMQR.open,
    "tridiagonal_solve_perturbed": lapack_gates.LAPACK_ORMQR.open,
    "trsm": lapack_gates.LAPACK_TRSM.open,
    "unmqr": lapack_gates.LAPACK_ORMQR.open,
}
#: How the names of LAPACK's targets begin.
_LAPACK = ("lapack_", "tridiagonal_")
#: Character of a NumPy dtype -> letter in the names of LAPACK's routines.
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def lapack_kernel(name: str, dtype: str) -> str | None:
    """The target of a LAPACK kernel, or None if this jaxlib does not have it.

    `name` is without the letter of the dtype, such as `"potrf"`; `dtype` is NumPy's character.

    Args:
      name: the name of the kernel.
      dtype: the character of the dtype.

    Returns:
      A string, or None.

    Raises:
      KeyError: `dtype` is not "f", "d", "F" or "D", and the name of the target depends on it.
      TypeError: the name or the dtype cannot be hashed.

    Example:
      >>> from mjaxlib_shim import custom_calls
      >>> custom_calls.lapack_kernel("potrf", "f")
      'lapack_spotrf_ffi'
    """
    if not _NEWER.get(name, True):
        return None
    if name == "tridiagonal_solve_perturbed":
        return f"{name}_ffi"
    return f"lapack_{_LETTERS[dtype]}{name}_ffi"


def cuts_stacks() -> bool:
    """Whether XLA can let each device compute its own matrices of a stack.

    Example:
      >>> from mjaxlib_shim import custom_calls
      >>> custom_calls.cuts_stacks() in (True, False)
      True
    """
    return lapack_gates.LAPACK_STACKS.open


def register_lapack() -> None:
    """Registers and initializes the `lapack_*_ffi` kernels; idempotent.

    Call it when a program that uses one is lowered, not before: it imports scipy, whose
    LAPACK jaxlib calls (0.3 to 0.7 s).

    Example:
      >>> from mjaxlib_shim import custom_calls
      >>> custom_calls.register_lapack()
      >>> "lapack_spotrf_ffi" in custom_calls.custom_call_targets()
      True
    """
    global _lapack_ready
    with _lock:
        if _lapack_ready:
            return
        lapack: Any = importlib.import_module("jaxlib.lapack")
        if lapack_gates.LAPACK_REGISTRATIONS.open:
            for platform, targets in lapack.registrations().items():
                for name, capsule, version in targets:
                    register_custom_call_target(
                        name, capsule, platform=platform, api_version=version
                    )
        lapack._lapack.initialize()
        if cuts_stacks():
            for name in custom_call_targets():
                if name.startswith(_LAPACK):
                    register_as_batch_partitionable(name)
        _lapack_ready = True


def prepare_target(name: str) -> None:
    """Registers jaxlib's own kernels if this is one of them, so that they need no set-up.

    Args:
      name: the name of the target.

    Raises:
      AttributeError: the name is not a string.
      TypeError: the name is bytes.

    Example:
      >>> from mjaxlib_shim import custom_calls
      >>> custom_calls.prepare_target("not one of them")
    """
    if name.startswith(_LAPACK):
        register_lapack()
