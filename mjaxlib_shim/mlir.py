"""MLIR, loaded at the first touch.

`from mjaxlib_shim.mlir import hlo, ir` costs nothing: each name is an empty module
object that fills itself with the contents of the real one when its first attribute
is looked up (10 to 40 ms, once). From then on it is an ordinary module: no Python code
runs between `hlo.AddOp` and the class.
"""

from __future__ import annotations

import functools
import importlib
import io
import threading
from types import ModuleType
from typing import Any

from . import foreign_gates, gates, xla_gates

__all__ = [
    "bytecode",
    "chlo",
    "context",
    "context_class",
    "dialect_registry",
    "dialects",
    "folds_nan_right",
    "full_context",
    "func",
    "hlo",
    "ir",
    "joins_whole",
    "new_context",
    "passmanager",
    "register_passes",
    "result_accuracy",
    "sdy",
    "takes_literal",
    "takes_tokens",
    "takes_top_k",
    "unread_use",
]


def _lazy(path: str) -> Any:
    """An empty stand-in for the module `path`."""
    proxy = ModuleType(path, f"Lazy stand-in for {path}.")
    namespace = vars(proxy)

    def load(name: str) -> Any:
        # inspect, doctest and others look these up in any module; MLIR's are never needed.
        if name.startswith("__"):
            raise AttributeError(name)
        namespace.update(vars(importlib.import_module(path)))
        # Without a __getattr__ in its namespace, CPython's adaptive interpreter
        # turns proxy.name into one dictionary slot read.
        namespace.pop("__getattr__", None)
        return getattr(proxy, name)

    namespace["__getattr__"] = load
    return proxy


ir: Any = _lazy("jaxlib.mlir.ir")
func: Any = _lazy("jaxlib.mlir.dialects.func")
hlo: Any = _lazy("jaxlib.mlir.dialects.stablehlo")
chlo: Any = _lazy("jaxlib.mlir.dialects.chlo")
sdy: Any = _lazy("jaxlib.mlir.dialects.sdy")
passmanager: Any = _lazy("jaxlib.mlir.passmanager")


class _Dialects:
    """jaxlib's Python modules of dialects as attributes, loaded at the first touch."""

    def __getattr__(self, name: str) -> Any:
        module = "stablehlo" if name == "hlo" else name
        try:
            found = importlib.import_module(f"jaxlib.mlir.dialects.{module}")
        except ImportError:
            raise AttributeError(f"this jaxlib has no module of the dialect {name!r}") from None
        setattr(self, name, found)
        return found


dialects: Any = _Dialects()

_lock = threading.Lock()
_threads = threading.local()
_dialects: Any = None
_passes_registered = False


def context() -> Any:
    """This thread's `ir.Context`, made at the first call and kept.

    Everything built in a context, constants included, lives as long as the context. So code
    that lowers large constants takes a `new_context()` instead.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> mlir.context() is mlir.context()
      True
    """
    try:
        return _threads.context
    except AttributeError:
        _threads.context = new_context()
        return _threads.context


def new_context() -> Any:
    """A fresh `ir.Context` that knows func, stablehlo, chlo and sdy (0.2 to 0.4 ms).

    One thread at a time uses a context. It keeps everything built in it, large constants
    included, so each module has its own.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> mlir.new_context().is_registered_operation("stablehlo.add")
      True
    """
    result = context_class()()
    result.append_dialect_registry(dialect_registry())
    # One module is built by one thread; the pool would start a thread per core.
    result.enable_multithreading(False)
    for dialect in (sdy, chlo, hlo):
        dialect.register_dialect(result)
    # Looking a dialect up loads it. Loading the whole registry takes ten times as long; parsers
    # and passes load the dialects they need.
    result.dialects["func"]
    return result


def full_context() -> Any:
    """`new_context()` with all dialects that jaxlib has.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> mlir.full_context().is_registered_operation("stablehlo.add")
      True
    """
    result = new_context()
    dialects.mhlo.register_mhlo_dialect(result)
    result.load_all_available_dialects()
    return result


@functools.cache
def context_class() -> Any:
    """The class of contexts that know no dialect yet.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> issubclass(mlir.context_class(), mlir.ir.Context)
      True
    """
    base = ir.Context

    class Context(base):  # type: ignore[misc, valid-type]
        """An `ir.Context` without dialects.

        Example:
          >>> from mjax_ext.lowering import JaxIrContext, upstream_dialects
          >>> context = JaxIrContext()
          >>> context.append_dialect_registry(upstream_dialects)
          >>> context.load_all_available_dialects()
          >>> context.is_registered_operation("func.func")
          True
        """

        def __init__(self) -> None:
            # ir.Context.__init__ would load all dialects.
            super(base, self).__init__()

    return Context


def dialect_registry() -> Any:
    """The registry that has `func`; a plain ir.Context() does not have it.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> mlir.full_context().is_registered_operation("stablehlo.add")
      True
    """
    global _dialects
    with _lock:
        if _dialects is None:
            name = "_jax_mlir_ext" if gates.MLIR_EXT.open else "register_jax_dialects"
            extension = importlib.import_module(f"jaxlib.mlir._mlir_libs.{name}")
            registry = ir.DialectRegistry()
            extension.register_dialects(registry)
            _dialects = registry
        return _dialects


def takes_literal(size: int) -> bool:
    """Whether XLA computes correctly with a literal of so many elements.

    Args:
      size: the number of elements.

    Returns:
      A bool.

    Raises:
      TypeError: the size is not a number.
      ValueError: the size is an array of several numbers.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> mlir.takes_literal(1)
      True
    """
    return size <= 1 or gates.LITERAL_LAYOUTS.open


def folds_nan_right(platform: str) -> bool:
    """Whether the compiler gives NaN for an exponential of a literal NaN.

    On CPU all releases up to 0.12.0.1 may give any value. XLA computes exponentials by way of an
    integer; for LLVM the integer of NaN is poison.

    Args:
      platform: the platform.

    Returns:
      A bool.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> mlir.folds_nan_right("cpu")
      False
    """
    return platform != "cpu"


def takes_top_k(cut_by_xla: bool) -> bool:
    """Whether chlo.top_k may be in a program, or in a part that XLA partitions.

    Args:
      cut_by_xla: whether XLA partitions this part of the program.

    Returns:
      A bool.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> mlir.takes_top_k(cut_by_xla=False)
      True
    """
    return xla_gates.PARTITIONED_TOP_K.open or not cut_by_xla


def joins_whole(cut_by_xla: bool) -> bool:
    """Whether values must not be cut along a dimension of concatenation.

    Args:
      cut_by_xla: whether XLA partitions this part of the program.

    Returns:
      A bool.

    Raises:
      ValueError: the argument is an array of several elements.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> mlir.joins_whole(cut_by_xla=False)
      False
    """
    return cut_by_xla and not gates.PARTIAL_CONCATENATE.open


def takes_tokens(partitioned: bool) -> bool:
    """Whether tokens may pass through a program and its regions; else booleans replace them.

    Args:
      partitioned: whether the program is for several devices.

    Returns:
      A bool.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> mlir.takes_tokens(partitioned=False)
      True
    """
    return gates.REGION_TOKENS.open or not partitioned


def bytecode(module: Any) -> bytes:
    """The MLIR bytecode of an `ir.Module`.

    Args:
      module: the module.

    Returns:
      Bytes.

    Raises:
      AttributeError: it is neither a module nor an operation.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> mlir.bytecode(mjax.jit(lax.sin).lower(1.0).compiler_ir())[:4]
      b'ML\xefR'
    """
    buffer = io.BytesIO()
    module.operation.write_bytecode(file=buffer)
    return buffer.getvalue()


def unread_use(value: Any) -> None:
    """Emits a use of an `ir.Value` without results that is never removed, nor is its operand.

    Args:
      value: the value.

    Raises:
      NotImplementedError: this jaxlib does not have such an operation.
      ValueError: it is not an `ir.Value`.
      RuntimeError: no context of MLIR is entered.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> from mjaxlib_shim.mlir import hlo, ir
      >>> with mlir.new_context(), ir.Location.unknown():
      ...   module = ir.Module.create()
      ...   with ir.InsertionPoint(module.body):
      ...     one = hlo.constant(ir.DenseElementsAttr.get(np.ones((), "float32")))
      ...     mlir.unread_use(one)
      >>> "dce_sink" in str(module)
      True
    """
    if not foreign_gates.UNREAD_USES.open:
        raise NotImplementedError(
            "the compiler of this jaxlib drops what no result needs; keeping it "
            f"(prevent_mlir_dce) needs jaxlib {foreign_gates.UNREAD_USES.since_release} or newer"
        )
    hlo.CustomCallOp(
        [],
        [value],
        call_target_name="dce_sink",
        has_side_effect=True,
        api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
        backend_config=ir.DictAttr.get({}),
    )


_ACCURACIES = ("HIGHEST", "DEFAULT", "TOLERANCE")


def result_accuracy(mode: str, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0) -> Any:
    """The attribute `result_accuracy` of elementwise operations; None if there is no choice.

    Args:
      mode: "HIGHEST", "DEFAULT" or "TOLERANCE". Further arguments are for the last.
      atol: the absolute tolerance.
      rtol: the relative tolerance.
      ulps: the tolerance in units in the last place.

    Returns:
      An `ir.Attribute`, or None.

    Raises:
      NotImplementedError: a tolerance, and this jaxlib has no such attribute.
      ValueError: the mode is another one.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> with mlir.new_context():
      ...   print(mlir.result_accuracy("HIGHEST"))
      #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>
    """
    if mode not in _ACCURACIES:  # C++ would end the process
        raise ValueError(f"the accuracy {mode!r} is not one of {', '.join(_ACCURACIES)}")
    if gates.RESULT_ACCURACY.open:
        return hlo.ResultAccuracyAttr.get(atol, rtol, ulps, mode)
    if mode == "TOLERANCE":
        raise NotImplementedError(
            "the compiler of this jaxlib cannot be asked for a tolerance (atol, rtol, ulps); that "
            f"needs jaxlib {gates.RESULT_ACCURACY.since_release} or newer"
        )
    return None


def register_passes() -> None:
    """Registers StableHLO's and CHLO's passes with `passmanager.PassManager`; idempotent.

    Example:
      >>> from mjaxlib_shim import mlir
      >>> mlir.register_passes()
    """
    global _passes_registered
    with _lock:
        if not _passes_registered:
            hlo.register_stablehlo_passes()
            _passes_registered = True
