"""Registers foreign functions and their types with XLA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mjax._engine.base.folding import boundary
from mjaxlib_shim import custom_calls as shim

#: The stages of an execution that a function may have a handler of its own for.
STAGES = ("instantiate", "prepare", "initialize", "execute")
_CAPSULE = "PyCapsule"


def _check_name(who: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        msg = f"{who}: the name must be a string that is not empty, got {name!r}."
        raise TypeError(msg)


def _check_capsule(who: str, what: str, value: Any) -> None:
    if type(value).__name__ != _CAPSULE:
        msg = (f"{who}: {what} must be a PyCapsule, got {value!r} of type {type(value).__name__}. "
               "mjax.ffi.pycapsule(library.function) makes one of a function that ctypes has "
               "loaded.")
        raise TypeError(msg)


@boundary
def register_ffi_target(name: str, fn: Any, platform: str = "cpu", api_version: int = 1,
                        **kwargs: Any) -> None:
    """Registers a foreign function, for all programs of this process.

    Args:
      name: the name by which programs call it.
      fn: a PyCapsule of the function, as `pycapsule` makes it; or a dict of them for the stages
        "instantiate", "prepare", "initialize" and "execute".
      platform: "cpu", "CUDA", "ROCM", or the name of another platform.
      api_version: 1: XLA's typed FFI; 0: the calling convention before it.
      kwargs: further arguments of jaxlib's function of this purpose.

    Raises:
      TypeError: `fn` is not a capsule, nor a dict of capsules.
      ValueError: a stage is unknown.
      JaxRuntimeError: another function has the name.

    Example:
      >>> import ctypes
      >>> libc = ctypes.CDLL(None)
      >>> mjax.ffi.register_ffi_target("a_name", mjax.ffi.pycapsule(libc.abs), api_version=0)

    Source: the public interface of `jax.ffi.register_ffi_target`.
    """
    who = "register_ffi_target"
    _check_name(who, name)
    if isinstance(fn, Mapping):
        unknown = [stage for stage in fn if stage not in STAGES]
        if unknown:
            msg = (f"{who}: {name!r} has no stage {unknown[0]!r}. Stages: "
                   f"{', '.join(STAGES)}.")
            raise ValueError(msg)
        for stage, handler in fn.items():
            _check_capsule(who, f"the stage {stage!r} of {name!r}", handler)
        fn = dict(fn)
    else:
        _check_capsule(who, f"the function {name!r}", fn)
    shim.register_custom_call_target(name, fn, platform=platform, api_version=api_version, **kwargs)


@boundary
def register_ffi_type(name: str, type_registration: Mapping[str, Any], platform: str = "cpu"
                      ) -> None:
    """Registers a C++ type: foreign functions keep states of it between stages and calls.

    Args:
      name: its name, unique in the process.
      type_registration: PyCapsules by name: "type_id", a pointer to its `ffi::TypeId`, and
        "type_info", a pointer to its `ffi::TypeInfo`. jaxlib before 0.8.1 does not read the latter.
      platform: the platform of the functions.

    Raises:
      TypeError: one is not a capsule.
      ValueError: there is no "type_id", or an unknown name.
      NotImplementedError: before jaxlib 0.4.38.

    Example:
      >>> import ctypes
      >>> library = ctypes.CDLL("libkernels.so")  # doctest: +SKIP
      >>> mjax.ffi.register_ffi_type("state", {  # doctest: +SKIP
      ...     "type_id": mjax.ffi.pycapsule(library.StateId()),
      ...     "type_info": mjax.ffi.pycapsule(library.StateInfo())})

    Source: the public interface of `jax.ffi.register_ffi_type`.
    """
    who = "register_ffi_type"
    _check_name(who, name)
    unknown = set(type_registration) - {"type_id", "type_info"}
    if unknown or "type_id" not in type_registration:
        msg = (f"{who}: the registration of {name!r} has the names "
               f"{', '.join(map(repr, type_registration)) or 'of nothing'}; it takes 'type_id' "
               "and 'type_info'.")
        raise ValueError(msg)
    for what, pointer in type_registration.items():
        _check_capsule(who, f"the {what} of {name!r}", pointer)
    shim.register_type(name, type_registration, platform=platform)


@boundary
def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """`register_ffi_type` as it was before jaxlib 0.8.1: by the type's id alone.

    Args:
      name: the type's name, unique in the process.
      obj: a PyCapsule of a pointer to its `ffi::TypeId`.
      platform: the platform of the functions.

    Raises:
      TypeError: `obj` is not a capsule.
      ValueError: from jaxlib 0.8.1 on, as in jax 0.10.2: a type needs its type_info.
      NotImplementedError: before jaxlib 0.4.38.

    Example:
      >>> mjax.ffi.register_ffi_type_id("state", None)
      Traceback (most recent call last):
      TypeError: register_ffi_type_id: the type_id of 'state' must be a PyCapsule, got None ...

    Source: the public interface of `jax.ffi.register_ffi_type_id`.
    """
    who = "register_ffi_type_id"
    _check_name(who, name)
    _check_capsule(who, f"the type_id of {name!r}", obj)
    shim.register_type_id(name, obj, platform=platform)


@boundary
def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Tells XLA that a foreign function computes each element of a batch by itself.

    Programs over several devices then call it on each device for the elements there. A lowering
    rule says how many leading axes belong to the batch, by
    `ffi_lowering(..., extra_attributes=...)`.

    Args:
      name: the name by which programs call the function.

    Raises:
      NotImplementedError: before jaxlib 0.5.1.

    Example:
      >>> mjax.ffi.register_ffi_target_as_batch_partitionable("a_name")

    Source: the public interface of `jax.ffi.register_ffi_target_as_batch_partitionable`.
    """
    _check_name("register_ffi_target_as_batch_partitionable", name)
    shim.register_as_batch_partitionable(name)


@boundary
def pycapsule(funcptr: Any) -> Any:
    """A PyCapsule of a function that `ctypes` has loaded, for `register_ffi_target`.

    Args:
      funcptr: a `ctypes` function or pointer, or an address.

    Returns:
      A PyCapsule.

    Raises:
      ValueError: the pointer is null.
      TypeError: it is not a pointer.

    Example:
      >>> import ctypes
      >>> mjax.ffi.pycapsule(ctypes.CDLL(None).abs)
      <capsule object NULL at ...>

    Source: the public interface of `jax.ffi.pycapsule`.
    """
    try:
        return shim.pycapsule(funcptr)
    except TypeError:
        msg = (f"pycapsule takes a function or pointer of ctypes, or an address, got {funcptr!r} "
               f"of type {type(funcptr).__name__}.")
        raise TypeError(msg) from None


@boundary
def include_dir() -> str:
    """The folder of jaxlib's header files, for the compiler of foreign functions.

    Example:
      >>> import os
      >>> os.path.isfile(os.path.join(mjax.ffi.include_dir(), "xla", "ffi", "api", "ffi.h"))
      True

    Source: the public interface of `jax.ffi.include_dir`.
    """
    return shim.include_dir()


__all__ = ["include_dir", "pycapsule", "register_ffi_target",
           "register_ffi_target_as_batch_partitionable", "register_ffi_type",
           "register_ffi_type_id"]
