"""`explain`: the missing rules and refused effects of a composition, before anything runs.

The function is traced, transformed and lowered for types only. Instead of raising for a
missing rule, a collector notes it and gives a rule in its place, which gives results of the right
types; so the rest is looked at, too. A value of a user context that no other call has keeps what is
traced so apart from all caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import mjax
from mjax import lax
from mjax._engine.base.folding import FOLDED
from mjax._engine.base.platforms import PLATFORMS
from mjax._engine.base.records import Record
from mjax._engine.base.user_contexts import make_user_context
from mjax._engine.ir.dtypes import float0
from mjax._engine.ir.source import summarize
from mjax._engine.ir.types import AbstractValue, typeof
from mjax._engine.lowering.module import lower_to_module
from mjax._engine.primitives.shapes import batch_size, batch_to_front, zeros_of
from mjax._engine.tracing.flat import check_callable
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import RULES, questions
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax_ext._arguments import called, named, parser_of
from mjaxlib_shim.starting import show


class Finding(Record):
    """A missing rule, or a refused effect.

    Attributes:
      primitive: the name of the primitive; empty for effects.
      rule: the missing rule (`batch`, `lowering`, ...), or `effects`.
      detail: the platform of a missing lowering; else empty.
      where: the user's line, `file:line (function)`.
      text: the message of the error, with the rule to write.
    """

    primitive: str
    rule: str
    detail: str
    where: str
    text: str

    def __str__(self) -> str:
        first, *rest = self.text.splitlines()
        frame = next((line.strip() for line in rest if line.startswith("  ")), "")
        place = self.where or frame.removesuffix(", called from")
        return f"{first}{f' At {place}' if place else ''}"


class Explanation(Record):
    """The findings for a composition. Its text is a list, one finding a line.

    Attributes:
      findings: missing rules and refused effects, each once.
      ended: the error that ended the examination, or empty: then it is complete.
    """

    findings: list[Finding]
    ended: str

    @property
    def ok(self) -> bool:
        """Whether nothing is missing and nothing is refused."""
        return not self.findings and not self.ended

    def __str__(self) -> str:
        lines = [f"- {finding}" for finding in self.findings]
        if self.ended:
            lines.append(f"The examination ended at an error; what follows it is not known:\n"
                         f"{self.ended}")
        return "\n".join(lines) or "Nothing is missing."


def explain(f: Callable[..., Any], *args: Any,
            transforms: Sequence[str | Callable[..., Any]] = (),
            platforms: Sequence[str] | None = None) -> Explanation:
    """Lists every missing rule and refused effect of a composition, before anything runs.

    Bodies of loops, branches and calls are looked at, and transformations inside of `f`.

    Args:
      f: the function.
      args: its arguments, or `ShapeDtypeStruct`s. If `transforms` has callables, the arguments of
        the last one.
      transforms: applied to `f` in this order. Names: "jit"; "jvp" and "linearize", in all
        arguments; "grad", from all results to all arguments; "vmap", over a new leading axis of
        all arguments; "checkpoint"; "scan", two iterations. Each keeps the arguments. Others as
        functions, such as `lambda f: mjax.vmap(f, in_axes=(None, 0))`.
      platforms: the platforms to lower the result for: "cpu", "cuda", "rocm", "tpu"; None: the
        default one; empty: it is not lowered.

    Returns:
      The explanation: `.ok`, `.findings`, and a text.

    Raises:
      ValueError: a transformation or a platform is unknown.
      TypeError: `f` is not a function; `transforms` or `platforms` is one name.

    Example:
      >>> import mjax_ext
      >>> from mjax_ext import core
      >>> half_p = core.Primitive("half")
      >>> _ = half_p.def_abstract_eval(lambda x: x)
      >>> report = mjax_ext.explain(half_p.bind, 1.0, transforms=("grad", "vmap"))
      >>> [(finding.primitive, finding.rule) for finding in report.findings]
      [('half', 'jvp'), ('half', 'batch')]
    """
    for name, several in (("transforms", transforms), ("platforms", platforms)):
        if isinstance(several, str):
            msg = f"explain: {name} is a list of names, such as [{several!r}], not {several!r}."
            raise TypeError(msg)
    check_callable("explain", f)
    asked = [mjax.default_backend()] if platforms is None else list(platforms)
    for platform in asked:
        if platform not in PLATFORMS:
            msg = f"explain: unknown platform {platform!r}. Platforms: {', '.join(PLATFORMS)}."
            raise ValueError(msg)
    for transform in transforms:
        if not callable(transform) and transform not in _TRANSFORMS:
            msg = (f"explain: unknown transformation {transform!r}. Names: "
                   f"{', '.join(_TRANSFORMS)}; others are given as functions.")
            raise ValueError(msg)
        f = (transform if callable(transform) else _TRANSFORMS[transform])(f)
    collector = _Collector()
    with _collecting(collector):
        try:
            jaxpr = mjax.make_jaxpr(f)(*args)
            for platform in asked:
                lower_to_module(jaxpr, "explained", platform,
                                client=lambda: mjax.devices()[0].client)
        except Exception as error:
            if not collector.has(error):
                notes = getattr(error, "__notes__", ())
                collector.ended = "\n".join([str(error), *(n for n in notes if n != FOLDED)])
    return Explanation(list(collector.found.values()), collector.ended)


_context = make_user_context(None)


@contextmanager
def _collecting(collector: _Collector) -> Iterator[None]:
    before, questions.collector = questions.collector, collector
    try:
        with _context(object()):
            yield
    finally:
        questions.collector = before


# ---- the collector ---------------------------------------------------------------------


class _Collector:
    """Notes what is missing or refused, and gives rules in the place of missing ones."""

    def __init__(self) -> None:
        self.found: dict[Any, Finding] = {}
        self.ended = ""

    def missing(self, primitive: Primitive, rule: str, detail: str, source: Any,
                error: Exception) -> Any:
        """A rule to go on with; raises the error where types are not known without the rule."""
        where = summarize(source)
        key = (primitive.name, rule, detail, where)
        self.found.setdefault(key, Finding(primitive.name, rule, detail, where, str(error)))
        make = _IN_PLACE.get(rule)
        if make is None:
            self.ended = f"Without the {RULES[rule].name} types of later results are not known."
            raise error
        return make(primitive)

    def refused(self, error: Exception) -> None:
        """Notes an effect."""
        text = str(error)
        self.found.setdefault(text, Finding("", "effects", "", "", text))

    def has(self, error: Exception) -> bool:
        """Whether an error has been noted."""
        return any(str(error) == finding.text for finding in self.found.values())


#: Depends on its operands, linearly; its results have the types in the param.
_stand_in_p = Primitive("stand_in", params={"types": tuple[AbstractValue, ...]},
                        multiple_results=True, own_varying=True)
_stand_in_p.def_abstract_eval(lambda *avals, types: list(types))
_stand_in_p.def_lowering(traced(lambda *xs, types: list(map(zeros_of, types)), True))


@_stand_in_p.def_jvp
def _stand_in_jvp(primals: Any, tangents: Any, *, types: Any) -> Any:
    return _stand_in_p.bind(*primals, types=types), _tangents(tangents, types)


@_stand_in_p.def_transpose
def _stand_in_transpose(cts: Any, *args: Any, types: Any) -> list[Any]:
    given = [ct for ct in cts if type(ct) is not Zero]
    return [_stand_in_p.bind(*given, types=(a.aval.to_cotangent(),))[0]
            if type(a) is UndefinedPrimal else None for a in args]


@_stand_in_p.def_batch
def _stand_in_batch(args: Any, dims: Any, *, types: Any) -> Any:
    size = batch_size(args, dims)
    return (_stand_in_p.bind(*args, types=tuple(a.batched(0, size) for a in types)),
            [0] * len(types))


def _tangents(tangents: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    given = [t for t in tangents if type(t) is not Zero]
    return [_stand_in_p.bind(*given, types=(a.to_tangent(),))[0] if a.inexact and given
            else Zero(a.to_tangent()) for a in avals]


def _jvp_in_place(primitive: Primitive) -> Any:
    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        outs = out if primitive.multiple_results else [out]
        found = _tangents(tangents, list(map(typeof, outs)))
        return out, found if primitive.multiple_results else found[0]

    return jvp


def _transpose_in_place(primitive: Primitive) -> Any:
    def transpose(ct: Any, *args: Any, **params: Any) -> Any:
        return _stand_in_transpose(
            ct if primitive.multiple_results else [ct], *args, types=())

    return transpose


def _batch_in_place(primitive: Primitive) -> Any:
    def batch(args: Any, dims: Any, **params: Any) -> Any:
        size = batch_size(args, dims)
        elements = [typeof(a) if d is None else typeof(a).element(d)
                    for a, d in zip(args, dims, strict=True)]
        avals, _ = primitive.infer(elements, params)
        outs = _stand_in_p.bind(*[batch_to_front(a, d, size) for a, d in zip(
            args, dims, strict=True)], types=tuple(a.batched(0, size) for a in avals))
        dims_out = [0] * len(outs)
        return (outs, dims_out) if primitive.multiple_results else (outs[0], 0)

    return batch


def _lowering_in_place(primitive: Primitive) -> Any:
    zeros = traced(lambda *xs, types: list(map(zeros_of, types)), True)
    return lambda ctx, *operands, **params: zeros(ctx, *operands, types=tuple(ctx.avals_out))


#: Missing rule -> a rule in its place, of a primitive.
_IN_PLACE: dict[str, Callable[[Primitive], Any]] = {
    "jvp": _jvp_in_place, "transpose": _transpose_in_place, "batch": _batch_in_place,
    "lowering": _lowering_in_place}


# ---- transformations by name -----------------------------------------------------------


def _direction(x: Any) -> Any:
    """A tangent or a cotangent of a value."""
    aval = typeof(x)
    return lax.full_like(x, 1) if aval.inexact else np.zeros(aval.shape, float0)


def _inexact(tree: Any) -> list[Any]:
    return [x for x in mjax.tree_util.tree_leaves(tree) if getattr(x, "dtype", None) != float0]


def _jvp(f: Callable[..., Any]) -> Callable[..., Any]:
    def pushed(*xs: Any) -> Any:
        out, tangents = mjax.jvp(f, xs, _directions(xs))
        return [*mjax.tree_util.tree_leaves(out), *_inexact(tangents)]

    return pushed


def _directions(tree: Any) -> Any:
    return mjax.tree_util.tree_map(_direction, tree)


def _linearize(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: _inexact(mjax.linearize(f, *xs)[1](*_directions(xs)))


def _grad(f: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(*xs: Any) -> Any:
        out, pull = mjax.vjp(f, *xs)
        return _inexact(pull(_directions(out)))

    return gradient


def _vmap(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: mjax.vmap(f)(*mjax.tree_util.tree_map(
        lambda x: lax.broadcast(x, (2,)), xs))


def _scan(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: lax.scan(lambda c, _: (c, f(*xs)), 0, None, length=2)[1]


_TRANSFORMS: dict[Any, Callable[..., Any]] = {
    "jit": mjax.jit, "jvp": _jvp, "linearize": _linearize, "grad": _grad, "vmap": _vmap,
    "checkpoint": mjax.checkpoint, "scan": _scan}


# ---- the command -----------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """`python -m mjax_ext explain module:function`: gives the exit status, 1 with findings."""
    parser = parser_of("explain", "Lists the missing rules and refused effects of a function.",
                       "Exit status: 0 without findings, 1 with some, 2 for bad arguments.")
    parser.add_argument("function", metavar="MODULE:FUNCTION")
    parser.add_argument("--args", metavar="MODULE:FUNCTION", help=(
        "a function without arguments that returns those of the first, a tuple"))
    parser.add_argument("--transforms", default="", help=f"some of {', '.join(_TRANSFORMS)}")
    parser.add_argument("--platforms", help=f"some of {', '.join(PLATFORMS)}")
    given = parser.parse_args(arguments)
    f = named(parser, given.function)
    args = called(parser, given.args) if given.args else ()
    if not isinstance(args, (tuple, list)):
        parser.error(f"{given.args} must return the arguments of {given.function}, a tuple. It "
                     f"returned {args!r}.")
    try:
        report = explain(
            f, *args, transforms=[name for name in given.transforms.split(",") if name],
            platforms=given.platforms.split(",") if given.platforms else None)
    except ValueError as error:
        parser.error(str(error))
    show(str(report))
    return 0 if report.ok else 1
