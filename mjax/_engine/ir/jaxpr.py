"""Jaxprs: typed, functional, first-order programs in A-normal form.

    jaxpr ::= { lambda consts ; invars . let eqns in (outs) }
    eqn   ::= vars = primitive[params] atoms
    atom  ::= var | literal
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from mjax._engine.base.displays import display
from mjax._engine.base.program_caches import generation
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import NOT_GIVEN, counted, pickled_by, selected
from mjax._engine.ir.annotations import (
    Annotations,
    of_both,
    requests,
    with_compute_type,
    with_metadata,
)
from mjax._engine.ir.effects import Effect, Effects, OperandEffect, no_effects
from mjax._engine.ir.pprint import print_eqn, print_jaxpr
from mjax._engine.ir.source import (
    SourceInfo,
    annotate,
    annotations_of,
    source_info_of,
    with_annotations,
)


class Var:
    """A variable: an identity with a type. The printer invents its name.

    Args:
      aval: its type.

    Example:
      >>> x, = mjax.make_jaxpr(lax.sin)(1.0).jaxpr.invars
      >>> x.aval
      ShapedArray(float32[], weak_type=True)
    """

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self):x}):{self.aval}"


class DropVar(Var):
    """A result without a reader; printed as `_`.

    Args:
      aval: its type.

    Example:
      >>> from mjax_ext import core
      >>> core.DropVar(mjax.typeof(1.0))
      _
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class Literal:
    """A scalar constant in place: `val` is a Python or NumPy scalar, or a 0-d array.

    Args:
      val: the scalar.
      aval: its type.

    Example:
      >>> eqn, = mjax.make_jaxpr(lambda x: lax.mul(x, 2.0))(1.0).eqns
      >>> eqn.invars[1].val
      2.0
    """

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: Any):
        self.val = val
        self.aval = aval

    def __repr__(self) -> str:
        return f"{self.val}:{self.aval}"


#: An operand of an equation, or a result of a program.
Atom = Var | Literal


class JaxprEqnContext:
    """The context of an equation: requests to XLA. Settings that its meaning depends on are in its
    params; in JAX, equations keep some of these in their context.

    Args:
      compute_type: that of `compute_on`; by default the one in force.
      threefry_partitionable: not kept; it is in the params of primitives that depend on it.
      xla_metadata: that of `set_xla_metadata`; by default the one in force.

    Attributes:
      compute_type, xla_metadata: the requests; None: none.
      manager: a context manager, in which an equation is evaluated again.

    Example:
      >>> eqn, = mjax.make_jaxpr(lax.sin)(1.0).eqns
      >>> with eqn.ctx.manager:
      ...   print(eqn.primitive.bind(0.0, **eqn.params))
      0.0

    Source: JAX, `core.JaxprEqnContext` of release 0.10.2.
    """

    __slots__ = ("annotations",)

    def __init__(self, compute_type: Any = NOT_GIVEN, threefry_partitionable: Any = None,
                 xla_metadata: Any = NOT_GIVEN):
        found = thread.settings.annotations
        if compute_type is not NOT_GIVEN:
            found = with_compute_type(found, compute_type)
        if xla_metadata is not NOT_GIVEN:
            found = with_metadata(requests(found and found.compute_type, ()), xla_metadata or {})
        self.annotations: Annotations | None = found

    @property
    def compute_type(self) -> str | None:
        """Where the operation runs."""
        return self.annotations and self.annotations.compute_type

    @property
    def xla_metadata(self) -> dict[str, Any] | None:
        """The metadata of the operation."""
        return self.annotations and self.annotations.xla_metadata

    @property
    def manager(self) -> AbstractContextManager[None]:
        """Makes these requests in the body of a `with`."""
        if self.annotations is None is thread.settings.annotations:
            return nullcontext()
        return annotate(lambda around: of_both(self.annotations, around))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JaxprEqnContext) and self.annotations == other.annotations

    def __hash__(self) -> int:
        return hash((JaxprEqnContext, self.annotations))

    def __repr__(self) -> str:
        found = self.annotations
        return "JaxprEqnContext()" if found is None else (
            f"JaxprEqnContext(compute_type={found.compute_type!r}, "
            f"xla_metadata={found.xla_metadata})")


class JaxprEqn(Record):
    """One equation. `source` holds the bare traceback in most cases; read `source_info`.

    A tuple, because building one is on the path of every traced operation.

    Attributes:
      invars: the operands, `Var`s and `Literal`s.
      outvars: the results, `Var`s.
      primitive: the `Primitive`.
      params: name -> value.
      effects: the equation's effects.
      source: where it comes from: a `SourceInfo`, as `source_info` of another equation, or a
        traceback; None: not known.

    Args:
      ctx: the context of another equation, in place of that of `source`; None: that of `source`.

    Example:
      >>> eqn, = mjax.make_jaxpr(lax.sin)(1.0).eqns
      >>> eqn.primitive, len(eqn.invars), eqn.params
      (sin, 1, {})
    """

    invars: list[Atom]
    outvars: list[Var]
    primitive: Any
    params: dict[str, Any]
    effects: Effects
    source: Any = None

    @property
    def source_info(self) -> SourceInfo:
        """The traceback of the call that made this equation, and its name stack."""
        return source_info_of(self.source)

    @property
    def ctx(self) -> JaxprEqnContext:
        """The context: what `compute_on` and `set_xla_metadata` ask of XLA."""
        found = annotations_of(self.source)
        return JaxprEqnContext(found and found.compute_type, None, found and found.xla_metadata)

    def replace(self, **fields: Any) -> JaxprEqn:
        """This equation with some fields replaced (`source_info` sets the source)."""
        if "source_info" in fields:
            fields["source"] = fields.pop("source_info")
        if (ctx := fields.pop("ctx", None)) is not None:
            fields["source"] = with_annotations(fields.get("source", self.source), ctx.annotations)
        return self._replace(**fields)

    def __repr__(self) -> str:
        return print_eqn(self, [v for v in self.outvars if type(v) is not DropVar])


def _new_eqn(cls: Any, invars: list[Atom], outvars: list[Var], primitive: Any,
             params: dict[str, Any], effects: Effects, source: Any = None,
             ctx: JaxprEqnContext | None = None) -> Any:
    if ctx is not None:
        source = with_annotations(source, ctx.annotations)
    return tuple.__new__(cls, (invars, outvars, primitive, params, effects, source))


JaxprEqn.__new__ = _new_eqn  # type: ignore[assignment]


@pickled_by("debug_info_v1")
class DebugInfo(Record):
    """The origin of a jaxpr; only error texts and module names use it.

    Attributes:
      traced_for: the transformation that traced it.
      func_src_info: the function, as `name at file:line`.
      arg_names: names of the leaves of its arguments; None: they are not known.
      result_paths: the same of its results.

    Example:
      >>> mjax.make_jaxpr(lambda x: lax.sin(x))(1.0).debug_info.arg_names
      ('x',)
    """

    traced_for: str = ""
    func_src_info: str = "<unknown>"
    arg_names: tuple[str, ...] | None = None
    result_paths: tuple[str, ...] | None = None

    @property
    def func_name(self) -> str:
        """The name of the function."""
        return self.func_src_info.partition(" ")[0]

    @property
    def func_filename(self) -> str | None:
        """The file of the function, if it is known."""
        return self.func_src_info.partition(" at ")[2].rpartition(":")[0] or None

    @property
    def func_lineno(self) -> int | None:
        """The line of the function, if it is known."""
        line = self.func_src_info.partition(" at ")[2].rpartition(":")[2]
        return int(line) if line.isdigit() else None

    def replace_func_name(self, name: str) -> DebugInfo:
        """The same with another name of the function."""
        _, space, rest = self.func_src_info.partition(" ")
        return self._replace(func_src_info=name + space + rest)

    def with_unknown_names(self) -> DebugInfo:
        """The same function, whose arguments and results were changed."""
        return self._replace(arg_names=None, result_paths=None)

    def arg_name(self, index: int) -> str:
        """How the user calls argument `index` of the flattened function."""
        if self.arg_names is not None and index < len(self.arg_names):
            return self.arg_names[index]
        return f"argument {index}"

    def safe_arg_names(self, expected_count: int) -> tuple[str, ...]:
        """The names of so many arguments; empty ones if they are not known.

        Raises:
          ValueError: another number of names is known.
        """
        return _safe("arg_names", self.arg_names, expected_count)

    def safe_result_paths(self, expected_count: int) -> tuple[str, ...]:
        """The names of so many results; empty ones if they are not known.

        Raises:
          ValueError: another number of names is known.
        """
        return _safe("result_paths", self.result_paths, expected_count)

    def filter_arg_names(self, keep: Sequence[bool]) -> tuple[str, ...] | None:
        """The names of the arguments whose flag is true; None if they are not known."""
        return None if self.arg_names is None else tuple(
            selected(keep, self.safe_arg_names(len(keep))))

    def filter_result_paths(self, keep: Sequence[bool]) -> tuple[str, ...] | None:
        """The names of the results whose flag is true; None if they are not known."""
        return None if self.result_paths is None else tuple(
            selected(keep, self.safe_result_paths(len(keep))))

    def resolve_result_paths(self) -> DebugInfo:
        """The same with the names of the results, where `result_paths` is a function of none."""
        paths: Any = self.result_paths
        return self._replace(result_paths=tuple(paths())) if callable(paths) else self


def _safe(field: str, names: tuple[str, ...] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return ("",) * count
    if len(names) != count:
        msg = f"DebugInfo.{field} has {counted(len(names), 'name')} ({names}), not {count}."
        raise ValueError(msg)
    return names


no_debug_info = DebugInfo()


class Jaxpr:
    """A program with the values of its constants.

    Args:
      constvars: variables of the constants, as many as `consts`.
      invars: variables of the inputs.
      outvars: atoms of the results.
      eqns: the equations, in order.
      effects: a superset of the equations' effects; effects on operands are recomputed.
      debug_info: names for messages.
      consts: values of the constants.

    `Jaxpr(jaxpr, consts)` gives the same program other constants, so that the class also
    answers to JAX's name `ClosedJaxpr`. Instances are immutable by convention, compared by
    identity, and keep the outcome of transformations applied to them (`cached`).

    Example:
      >>> mjax.make_jaxpr(lax.sin)(1.0).in_avals
      [ShapedArray(float32[], weak_type=True)]
    """

    __slots__ = ("__weakref__", "_cache", "_generation", "consts", "constvars", "debug_info",
                 "effects", "eqns", "invars", "outvars")

    def __init__(self, constvars: Any, invars: Sequence[Any], outvars: Sequence[Atom] | None = None,
                 eqns: Sequence[JaxprEqn] | None = None, effects: Effects = no_effects,
                 debug_info: DebugInfo | None = None, *, consts: Sequence[Any] = ()):
        if isinstance(constvars, Jaxpr):
            base, consts = constvars, invars
            if len(consts) != len(base.constvars):
                msg = (f"a jaxpr of {counted(len(base.constvars), 'constant')} is given "
                       f"{counted(len(consts), 'value')} for them.")
                raise ValueError(msg)
            constvars, invars, outvars, eqns = (base.constvars, base.invars, base.outvars,
                                                base.eqns)
            effects, debug_info = base.effects, base.debug_info
        if outvars is None or eqns is None:
            msg = (f"{type(self).__name__} takes a jaxpr and the values of its constants, or "
                   f"variables of constants and inputs, results and equations; got {constvars!r} "
                   f"and {invars!r}.")
            raise TypeError(msg)
        self.constvars: list[Var] = list(constvars)
        self.consts: list[Any] = list(consts)
        self.invars: list[Var] = list(invars)
        self.outvars: list[Atom] = list(outvars)
        self.eqns: list[JaxprEqn] = list(eqns)
        self.effects: Effects = frozenset(effects)
        if effects and any(isinstance(e, OperandEffect) for e in effects):
            places = self.places()
            self.effects = frozenset(e for e in effects if not isinstance(e, OperandEffect)).union(
                *(effects_of(eqn, places) for eqn in self.eqns))
        self.debug_info: DebugInfo = debug_info or no_debug_info
        self._cache: dict[Any, Any] = {}
        #: The generation of rules that made the entries of `_cache`.
        self._generation = generation.number

    @property
    def jaxpr(self) -> Jaxpr:
        """This jaxpr; JAX keeps constants in a class of their own, we do not."""
        return self

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> Jaxpr:
        """The result of a function of this jaxpr, with the constants of this one.

        Args:
          f: gives a jaxpr with the same constvars.

        Example:
          >>> jaxpr = mjax.make_jaxpr(lambda x: (x, x + 1))(1.0)
          >>> jaxpr.map_jaxpr(lambda jaxpr: jaxpr.replace(outvars=jaxpr.outvars[:1]))
          { lambda  ; a:~f32[]. let
              _:~f32[] = add a 1.0:~f32[]
            in (a,) }
        """
        return Jaxpr(f(self), self.consts)

    @property
    def literals(self) -> list[Any]:
        """The values of the constants (an old name of `consts`)."""
        return self.consts

    @property
    def in_avals(self) -> list[Any]:
        """Types of the inputs."""
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[Any]:
        """Types of the results."""
        return [v.aval for v in self.outvars]

    def places(self) -> dict[Any, int | None]:
        """The numbers of the inputs by variable; None for constants."""
        places: dict[Any, int | None] = dict.fromkeys(self.constvars)
        places.update((v, i) for i, v in enumerate(self.invars))
        return places

    @property
    def is_high(self) -> bool:
        """Always false: mjax has no high-level types."""
        return False

    def replace(self, **fields: Any) -> Jaxpr:
        """A copy with some fields replaced."""
        if "jaxpr" in fields:
            return fields.pop("jaxpr").replace(**{"consts": self.consts, **fields})
        return Jaxpr(**{
            "constvars": self.constvars, "invars": self.invars, "outvars": self.outvars,
            "eqns": self.eqns, "effects": self.effects, "debug_info": self.debug_info,
            "consts": self.consts, **fields})

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """The value kept under `key`; it is made first if there is none. Does not keep None."""
        known = self.recall(key)
        return self._cache.setdefault(key, make()) if known is None else known

    def recall(self, key: Any) -> Any:
        """The value kept under `key`, or None."""
        if self._generation != generation.number:
            self._cache, self._generation = {}, generation.number
        return self._cache.get(key)

    def keep(self, key: Any, value: Any) -> Any:
        """Keeps and returns a value; another thread's value for the key takes precedence."""
        return self._cache.setdefault(key, value)

    def pretty_print(self, *, source_info: bool = False, use_color: bool | None = None,
                     **ignored: Any) -> str:
        """The text of the program, with source lines or terminal colours if asked for."""
        return print_jaxpr(self, source_info=source_info, use_color=use_color)

    def __str__(self) -> str:
        return print_jaxpr(self)

    __repr__ = __str__
    _repr_html_ = display("mjax._engine.ir.html", "jaxpr_html")
    __treescope_repr__: Callable[..., Any] = display("mjax._engine.ir.treescope", "jaxpr_parts")

    def __copy__(self) -> Jaxpr:
        return self.replace()


ClosedJaxpr = Jaxpr


def effects_of(eqn: JaxprEqn, places: dict[Any, int | None]) -> Effects:
    """The effects that a program has by one of its equations: those on operands are about inputs
    or constants, and those on values that it makes are left out.

    Args:
      eqn: the equation.
      places: the program's (`Jaxpr.places`).
    """
    effects = eqn.effects
    if not effects or not any(isinstance(e, OperandEffect) for e in effects):
        return effects
    found = set[Effect]()
    for effect in effects:
        if not isinstance(effect, OperandEffect) or effect.index is None:
            found.add(effect)
            continue
        atom = eqn.invars[effect.index]
        if type(atom) is Literal or atom in places:
            found.add(effect.at(None if type(atom) is Literal else places[atom]))
    return frozenset(found)


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The jaxprs in an equation's params, also those within tuples and lists.

    Args:
      params: name -> value.

    Yields:
      Jaxprs.

    Raises:
      AttributeError: at the first one: `params` is not a dict.

    Example:
      >>> from mjax_ext import core
      >>> eqn, = mjax.make_jaxpr(mjax.jit(lax.sin))(1.0).eqns
      >>> [len(inner.eqns) for inner in core.jaxprs_in_params(eqn.params)]
      [1]
    """
    for value in params.values():
        if isinstance(value, Jaxpr):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from (v for v in value if isinstance(v, Jaxpr))


def named_axes(params: dict[str, Any]) -> set[Any]:
    """The names of the axes that an equation's params refer to, in inner jaxprs too.

    Rules of users among the params may refer to any of their `names_in_scope`.
    """
    names = params.get("axes", params.get("axis_name", ()))
    found = set(names) if isinstance(names, (tuple, list)) else {names}
    return found.union(*map(_axes_named_in, jaxprs_in_params(params)),
                       *(getattr(value, "names_in_scope", ()) for value in params.values()))


def _axes_named_in(jaxpr: Jaxpr) -> set[Any]:
    return jaxpr.cached("named_axes", lambda: set[Any]().union(
        *(named_axes(eqn.params) for eqn in jaxpr.eqns)))


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The jaxprs in the equations of a jaxpr, one level down.

    Args:
      jaxpr: a program.

    Yields:
      Jaxprs.

    Raises:
      AttributeError: at the first one: the program is not a jaxpr.

    Example:
      >>> from mjax_ext import core
      >>> jaxpr = mjax.make_jaxpr(mjax.jit(lax.sin))(1.0)
      >>> [len(inner.eqns) for inner in core.subjaxprs(jaxpr)]
      [1]
    """
    for eqn in jaxpr.eqns:
        yield from jaxprs_in_params(eqn.params)


def used_variables(atoms: Iterable[Atom]) -> set[Var]:
    """The variables among some atoms."""
    return {a for a in atoms if type(a) is not Literal}  # type: ignore[misc]
