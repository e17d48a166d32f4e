"""Requests to XLA about operations: `compute_on`, `set_xla_metadata`, and how they are lowered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.platforms import names_of
from mjax._engine.ir.annotations import (
    Annotations,
    text_of,
    with_compute_type,
    with_metadata,
)
from mjax._engine.ir.pytree import tree_map
from mjax._engine.ir.source import annotate
from mjax._engine.primitives.emit import ir
from mjax._engine.tracing.flat import check_arguments, wraps
from mjax._engine.tracing.primitive import EnginePrimitive

#: Compute type -> what XLA calls it, and the platform whose lowering rules are taken; None: that of
#: the module.
_TYPES = {"device_host": ("host", "cpu"), "device": ("dense", None),
          "tpu_sparsecore": ("sparseoffload", "tpu")}
_STREAM = "gpu_stream:"


@boundary
@contextmanager
def compute_on(compute_type: str) -> Iterator[None]:
    """Asks XLA to run the operations in the body of a `with` elsewhere; also a decorator.

    Args:
      compute_type: "device_host" (the host of the device), "device", "tpu_sparsecore", or
        "gpu_stream:N" (a stream of a GPU, by its number). XLA for CPU ignores it.

    Returns:
      A context manager, which also decorates functions.

    Raises:
      TypeError: by `with`: it is not a string.
      ValueError: by `with`: there is no such type.

    Example:
      >>> from mjax.experimental.compute_on import compute_on
      >>> @mjax.jit
      ... def f(x):
      ...   with compute_on("device_host"):
      ...     return lax.sin(x)
      >>> '_xla_compute_type = "host"' in f.lower(1.0).as_text()
      True

    Source: JAX, `jax.experimental.compute_on.compute_on`.
    """
    if not isinstance(compute_type, str):
        raise LazyTypeError(lambda: (
            f"compute_on: the compute type must be a string, got {compute_type!r} of type "
            f"{type(compute_type).__name__}."))
    if compute_type not in _TYPES and not compute_type.startswith(_STREAM):
        raise LazyValueError(lambda: (
            f"compute_on: {compute_type!r} is not a compute type. These are: "
            f"{', '.join(map(repr, _TYPES))} and 'gpu_stream:N'."))
    with annotate(lambda before: with_compute_type(before, compute_type)):
        yield


@boundary
def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Gives operations metadata: entries of `mhlo.frontend_attributes` in StableHLO.

    XLA and its tools read some of them; they do not change values. Equal programs with different
    metadata are different programs.

    Args:
      x: pytree of arrays: the operations that made them get the metadata. None: all operations in
        the body of a `with`, or of a decorated function, do.
      kwargs: name -> value. A value is written as its text; `True` is "true". None removes the
        name in the body of a `with` inside of another one.

    Returns:
      `x`, unchanged; or a context manager, which is also a decorator. A decorated function keeps
      its attributes; its methods (`lower` of a jitted one) run in the context too.

    Raises:
      TypeError: a leaf of `x` is not an array, or a value is not hashable.

    Example:
      >>> from mjax.experimental.xla_metadata import set_xla_metadata
      >>> @mjax.jit
      ... def f(x):
      ...   with set_xla_metadata(level=1):
      ...     return lax.sin(x)
      >>> 'level = "1"' in f.lower(1.0).as_text()
      True

    Source: JAX, `jax.experimental.xla_metadata.set_xla_metadata`.
    """
    with_metadata(None, kwargs)  # refuses values here rather than in the body
    if x is None:
        return _WithMetadata(kwargs)
    check_arguments("set_xla_metadata", x, "x")
    entries = tuple(sorted(kwargs.items()))
    return tree_map(lambda leaf: xla_metadata_value_p.bind(leaf, xla_metadata_kvs=entries), x)


class _WithMetadata:
    """A context manager for metadata; it can be entered again."""

    def __init__(self, metadata: dict[str, Any]):
        self.metadata = metadata
        self.open: list[AbstractContextManager[None]] = []

    def context(self) -> AbstractContextManager[None]:
        if not self.metadata:
            return nullcontext()
        return annotate(lambda before: with_metadata(before, self.metadata))

    def __enter__(self) -> None:
        self.open.append(self.context())
        self.open[-1].__enter__()

    def __exit__(self, *error: Any) -> None:
        self.open.pop().__exit__(*error)

    def __call__(self, f: Callable[..., Any]) -> _Decorated:
        return _Decorated(f, self.context)


class _Decorated:
    """A function that runs in a context, as its methods do."""

    def __init__(self, f: Callable[..., Any], context: Callable[[], AbstractContextManager[None]]):
        wraps(f)(self)
        self._f = f
        self._context = context

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._context():
            return self._f(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._f, name)
        if not callable(found):
            return found

        @wraps(found)
        def method(*args: Any, **kwargs: Any) -> Any:
            with self._context():
                return found(*args, **kwargs)

        return method


xla_metadata_value_p = EnginePrimitive("xla_metadata_value", params={"xla_metadata_kvs": tuple})
xla_metadata_value_p.def_impl(lambda x, *, xla_metadata_kvs: x)
xla_metadata_value_p.def_abstract_eval(lambda x, *, xla_metadata_kvs: x)
xla_metadata_value_p.def_transpose(lambda ct, x, *, xla_metadata_kvs: [ct])
xla_metadata_value_p.def_batch(
    lambda args, dims, **params: (xla_metadata_value_p.bind(*args, **params), *dims))
xla_metadata_value_p.def_jvp(lambda primals, tangents, **params: (
    xla_metadata_value_p.bind(*primals, **params), xla_metadata_value_p.bind(*tangents, **params)))


@xla_metadata_value_p.def_lowering
def _xla_metadata_value_lowering(ctx: Any, x: Any, *, xla_metadata_kvs: Any) -> Any:
    _write([x], [(name, text_of(value)) for name, value in xla_metadata_kvs])
    return [x]


# ---- lowering ----


def rule_names_for(annotations: Annotations, names: Sequence[str | None]) -> Sequence[str | None]:
    """The names under which the lowering rules of an annotated operation are found.

    Args:
      annotations: of the operation.
      names: those for other operations of the module.
    """
    platform = _TYPES.get(annotations.compute_type or "", ("", None))[1]
    return names if platform is None else (*names_of(platform), None)


def write_annotations(values: Iterable[Any], annotations: Annotations) -> None:
    """Writes annotations to the attributes of the operations that made IR values."""
    place = annotations.compute_type
    entries: list[tuple[str, str]] = []
    if place is not None and place.startswith(_STREAM):
        entries = [("_xla_stream_annotation", place.removeprefix(_STREAM)), ("inlineable", "false")]
    elif place is not None:
        entries = [("_xla_compute_type", _TYPES[place][0])]
    _write(values, [*entries, *(entry[:2] for entry in annotations.entries)])


def _write(values: Iterable[Any], entries: Sequence[tuple[str, str]]) -> None:
    """Adds attributes to the operations that made IR values; earlier ones of a name stay."""
    for value in values:
        owner = value.owner
        if not entries or isinstance(owner, ir.Block):
            continue
        attributes = owner.attributes
        known = {}
        if "mhlo.frontend_attributes" in attributes:
            known = {a.name: a.attr for a in ir.DictAttr(attributes["mhlo.frontend_attributes"])}
        attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(
            {**{name: ir.StringAttr.get(text) for name, text in entries}, **known})
