"""Errors for authors of primitives: missing rules, and rules with results that do not fit.

Texts are built when they are shown. Each names the primitive, the rule, the place where the rule
is defined and the line at which the primitive was applied.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from mjax._engine.base.errors import (
    LazyArgumentError,
    LazyNotImplementedError,
    LazyText,
    LazyTypeError,
    LazyValueError,
    MissingRuleError,
)
from mjax._engine.base.folding import is_engine_file
from mjax._engine.base.records import Record
from mjax._engine.base.util import counted
from mjax._engine.ir.effects import QUESTIONS, Effect, Effects, OperandEffect, describe, forbidden
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, jaxprs_in_params
from mjax._engine.ir.source import here, user_frames
from mjax._engine.tracing.interpreter import Tracer, interpreters


class RuleRow(Record):
    """The description of a rule in messages.

    Attributes:
      name: its name.
      needed_by: the transformation that fails without it.
      spelling: a template of the rule, for the primitive bound to `{p}` with function names from
        `{f}`, operands `{xs}` and parameters `{params}`.
      hint: reasons not to write it.
    """

    name: str
    needed_by: str
    spelling: str
    hint: str = ""


_NOTHING: Mapping[str, Any] = {}

#: Field of the record -> row. The texts of `MissingRuleError`.
RULES = {
    "impl": RuleRow("implementation", "evaluation", """\
@{p}.def_impl
def {f}_impl({operands}):
  return ...  # computed with NumPy, or anything else outside of mjax

or, to have it compiled, an abstract evaluation ({p}.def_abstract_eval) and a lowering
(mlir.register_lowering)."""),
    "abstract_eval": RuleRow("abstract evaluation", "staging (jit, make_jaxpr, grad)", """\
from mjax_ext.core import ShapedArray

@{p}.def_abstract_eval
def {f}_abstract_eval({operands}):
  # each operand is a ShapedArray, with a shape and a dtype; so is the result
  return {result}"""),
    "lowering": RuleRow(
        "lowering for platform {detail}",
        "compilation (jit, and evaluation without an implementation)", """\
from mjax_ext.interpreters import mlir
from mjax_ext.interpreters.mlir import hlo

def {f}_lowering(ctx, {operands}):
  # each operand is an ir.Value; ctx.avals_in, ctx.avals_out and ctx.out_types are their types
  return hlo.SomeOp({xs}).results

mlir.register_lowering({p}, {f}_lowering)

or, from a function of arrays:

mlir.register_lowering({p}, mlir.lower_fun(function, multiple_results={multiple}))"""),
    "jvp": RuleRow("jvp rule", "differentiation (jvp, linearize, grad)", """\
from mjax_ext.interpreters import ad

def {f}_jvp(primals, tangents{params}):
  # a tangent is an array of its primal's type, or an ad.Zero; ad.instantiate_zeros(tangent)
  # makes it an array
  return {pair_of}result, {pair_of}tangent

ad.primitive_jvps[{p}] = {f}_jvp"""),
    "transpose": RuleRow(
        "transpose rule", "transposition (grad, vjp, linear_transpose)", """\
from mjax_ext.interpreters import ad

def {f}_transpose(cotangent, {operands}):
  # operands in which the equation is linear are ad.UndefinedPrimal: x.aval is their type, and
  # ad.is_undefined_primal(x) tells them from the others, which are arrays
  return [...]  # per operand: its cotangent, or None where it is not undefined

ad.primitive_transposes[{p}] = {f}_transpose""",
        "It was applied to a tangent by a jvp rule, or to an argument by a function given to\n"
        "linear_transpose. Mend these if {name!r} is not linear there.\n"),
    "batch": RuleRow("batching rule", "vectorization (vmap)", """\
from mjax_ext.interpreters import batching

def {f}_batch(args, dims{params}):
  # dims[i] is the batch axis of args[i], or None where it is the same for the whole batch
  return {pair_of}result, {pair_of}dim

batching.primitive_batchers[{p}] = {f}_batch"""),
}


_FRAME = """\
from mjax_ext import core

{made}core.Frame({p}, {body!r})"""
#: Field of the record -> the template for a primitive that holds a program in the param `{body}`.
#: A frame gives all rules but two.
_OF_BODIES = {
    "abstract_eval": _FRAME, "jvp": _FRAME, "transpose": _FRAME, "batch": _FRAME,
    "impl": """\
from mjax_ext import core

@{p}.def_impl
def {f}_impl(*operands, {names}):
  return core.eval_jaxpr({body}, {body}.consts, *operands)""",
    "lowering": """\
@{p}.def_lowering
def {f}_lowering(ctx, *operands, {names}):
  return ctx.inline({body}, *operands)"""}

_TO_LOJAX = """\
def to_lojax(self, {operands}):
  # operands are arrays, and objects for values of a HiType; so is the result
  return {result_of}"""
#: The same for a `HiPrimitive`, whose rules are methods.
_OF_OBJECTS = {
    "impl": _TO_LOJAX, "lowering": _TO_LOJAX,
    "abstract_eval": """\
def abstract_eval(self, {operands}):
  # each operand is a type
  return {result_of}, set_of_effects""",
    "jvp": """\
def jvp(self, primals, tangents{params}):
  # a tangent has the tangent type of its primal, or is a hijax.Zero
  return {pair_of}result, {pair_of}tangent""",
    "transpose": """\
def transpose(self, cotangent, {operands}):
  # operands in which the equation is linear are told by hijax.is_undefined_primal
  return [...]  # per operand: its cotangent, or None where it is not undefined"""}

#: Field of the record -> the transformation that calls the rule, where `RULES` does not tell.
_CALLERS = {
    "linearize": "linearization (linearize, grad)",
    "partial_eval": "partial evaluation (linearize, grad, scan)",
    "dce": "dead-code elimination (jit, grad)",
    "recompute": "rematerialization (checkpoint)",
    "discharge": "the replacement of references by arrays",
}


class Questions(threading.local):
    """The collector of refusals of this thread, if there is one (`mjax_ext.explain`)."""

    #: Its `missing(primitive, rule, detail, source, error)` gives a rule to go on with, or raises
    #: the error; its `refused(error)` returns.
    collector: Any = None


questions = Questions()


def refuse(error: Exception) -> None:
    """Raises the error for an effect that is not allowed, unless refusals are collected."""
    if questions.collector is None:
        raise error
    questions.collector.refused(error)


def missing_rule(primitive: Any, rule: str, operands: int | None = None,
                 params: Mapping[str, Any] = _NOTHING, detail: str = "", source: Any = None
                 ) -> Any:
    """Raises the error for a missing rule; gives a rule to go on with if refusals are collected.

    Args:
      primitive: the primitive.
      rule: the rule, a key of `RULES`.
      operands: the number of operands, if known.
      params: the parameters it was applied with.
      detail: the platform, for a lowering.
      source: where it was applied; by default the present call.
    """
    row, names = RULES[rule], tuple(params)
    source, body = source or here(), _body_of(primitive, params)
    reason = primitive.exceptions.get(rule)

    def text() -> str:
        if reason is not None:
            return (f"Primitive {primitive.name!r} has no {row.name.format(detail=detail)}, which "
                    f"{row.needed_by} needs. It was left out on purpose: {reason}\n"
                    f"{applied_at(source)}")
        p = _identifier(primitive.name)
        f = p.removesuffix("_p")
        several, xs = primitive.multiple_results, _operand_names(primitive, operands, names)
        fields = {
            "name": primitive.name, "p": f + "_p", "f": f, "detail": detail, "multiple": several,
            "xs": xs, "pair_of": "list_of_each_" if several else "",
            "params": f", *, {', '.join(names)}" if names else "", "names": ", ".join(names),
            "operands": ", ".join(filter(None, [
                xs, "*" if names and xs[:1] != "*" else "", *names])),
            "result": "[ShapedArray(shape, dtype), ...]" if several else
                      "ShapedArray(shape, dtype)",
            "result_of": "list_of_each_result" if several else "result",
            "body": body, "made": "" if several else (
                f"{f}_p = core.Primitive({primitive.name!r}, multiple_results=True)\n")}
        template, hint = row.spelling, f"{row.hint.format(**fields)}Write one, as in:"
        if body and rule in _OF_BODIES:
            template = _OF_BODIES[rule]
            hint = (f"Its param {body!r} holds a program. A frame derives this rule from those of "
                    "the program, and all others but the implementation and the lowering:"
                    if template is _FRAME else "Evaluate the program that it holds, as in:")
        elif primitive.on_objects and rule in _OF_OBJECTS:
            template = _OF_OBJECTS[rule]
            hint = f"{row.hint.format(**fields)}Define it in {type(primitive).__name__}, as in:"
        spelling = "\n".join(f"    {line}" if line else "" for line in
                             template.format(**fields).splitlines())
        return (f"Primitive {primitive.name!r} has no {row.name.format(**fields)}, which "
                f"{row.needed_by} needs.\n{applied_at(source)}\n{hint}\n\n{spelling}\n")

    error = MissingRuleError(text)
    if questions.collector is None:
        raise error
    return questions.collector.missing(primitive, rule, detail, source, error)


def _body_of(primitive: Any, params: Mapping[str, Any]) -> str | None:
    """The name of the param that holds a program, if there is one and a frame is missing."""
    if primitive.schema is not None and primitive.schema.bodies:
        return str(primitive.schema.bodies[0])
    return next((name for name, value in params.items() if any(jaxprs_in_params({name: value}))),
                None)


def refuse_params(primitive: Any, params: Mapping[str, Any], source: Any = None) -> NoReturn:
    """Raises the error for params that the primitive's schema does not have."""
    source, names, schema = source or here(), ", ".join(params), primitive.schema
    raise LazyTypeError(lambda: (
        f"primitive {primitive.name!r} was bound with the params ({names}), but its schema has "
        f"({schema}): {schema.misnamed(params)}.\n{applied_at(source)}")) from None


def refuse_unhashable(primitive: Any, params: Mapping[str, Any]) -> None:
    """Raises the error for a param that is not hashable, if there is one."""
    for name, value in params.items():
        try:
            hash(value)
        except TypeError:
            msg = (f"Parameter {name!r} of primitive {primitive.name!r} is not hashable: {value!r} "
                   f"of type {type(value).__name__}. Params are static; pass arrays as operands "
                   "and lists as tuples.")
            raise TypeError(msg) from None


def bad_rule_result(primitive: Any, rule: str, what: Callable[[], str], source: Any = None,
                    function: Any = None) -> NoReturn:
    """Raises the error for a rule whose result does not fit; `what` continues after its name."""
    source = source or here()
    error: Any = LazyArgumentError(lambda: (
        f"{rule_text(primitive, rule, function)} {what()}\n{applied_at(source)}"))
    error.told = primitive, rule
    raise error from None


def as_pair(primitive: Any, rule: str, result: Any, meaning: str, source: Any = None) -> Any:
    """The result of a rule that has to give a pair."""
    if type(result) is tuple and len(result) == 2:
        return result
    if isinstance(result, (tuple, list)) and len(result) == 2:
        return tuple(result)
    bad_rule_result(primitive, rule, lambda: (
        f"returned {describe_value(result)}; it must return a pair: {meaning}."), source)


def check_lists(primitive: Any, rule: str, lists: Sequence[Any], count: int | None, meaning: str,
                source: Any = None) -> None:
    """Refuses results of a rule of a primitive with multiple results unless they are lists.

    Args:
      primitive: the primitive.
      rule: the rule.
      lists: the results of the rule.
      count: the length that each must have; None: that of the first.
      meaning: describes them in the message.
      source: where the primitive was applied; by default the present call.
    """
    first = lists[0]
    if count is None and isinstance(first, (list, tuple)):
        count = len(first)
    for values in lists:
        if not isinstance(values, (list, tuple)) or len(values) != count:
            bad_rule_result(primitive, rule, lambda: (
                f"returned {' and '.join(map(describe_value, lists))}; since multiple_results=True "
                f"it must return {meaning}"
                + (f", {count} for {counted(count, 'result')}." if count else ".")),
                source)


class SymbolicValueError(LazyTypeError, shown_as=TypeError):
    """A `Zero` or an `UndefinedPrimal` was used as if it were an array."""

    blamed: str | None = None

    def blame(self, primitive: Any, rule: str) -> None:
        """Names the rule at fault, at the innermost interpreter that the error passes."""
        if self.blamed is None:
            text = rule_text(primitive, rule)
            self.blamed = f"{text[:1].upper()}{text[1:]} did so."

    def __str__(self) -> str:
        return f"{super().__str__()}{' ' if self.blamed else ''}{self.blamed or ''}"


def not_linear(primitive: Any) -> NoReturn:
    """Raises the error for a primitive that is not jointly linear in its undefined operands."""
    source = here()
    raise LazyTypeError(lambda: (
        f"primitive {primitive.name!r} is applied to values that depend on tangents in a way that "
        "is not linear: a jvp rule multiplies tangents or divides by one, or linear_transpose was "
        "given a function that does so with its arguments.\n"
        f"{applied_at(source)}"))


def jvp_rule_text(primitive: Any, params: dict[str, Any]) -> str:
    """`rule_text` of the jvp rule; of a custom rule, that rule and its function."""
    if primitive.users_rule is None:
        return rule_text(primitive, "jvp")
    return f"the {primitive.users_rule(params)}"


def rule_name(rule: str) -> str:
    """The name of a rule in messages."""
    return RULES[rule].name.split(" for ")[0] if rule in RULES else f"{rule} rule"


def rule_text(primitive: Any, rule: str, function: Any = None) -> str:
    """`the jvp rule of primitive 'sin' (file:line)`."""
    function = function or _function_of(primitive, rule)
    return f"the {rule_name(rule)} of primitive {primitive.name!r} ({where(function)})"


def _function_of(primitive: Any, rule: str) -> Any:
    """The function of a rule: for batching, the one that is in use."""
    if rule == "batch":
        return primitive.axis_batch or primitive.batch
    if rule == "lowering":
        return next(iter(primitive.lowerings.values()), None)
    return getattr(primitive, rule, None)


def name_rule(error: Exception, primitive: Any, rule: str, params: Mapping[str, Any],
              source: Any = None, function: Any = None) -> None:
    """Adds to an error the user's rule that raised it; rules of the engine are not named.

    Args:
      error: the error.
      primitive: the primitive.
      rule: the field of its record.
      params: what it was applied with. If the schema does not have them, that is the error.
      source: where it was applied; by default the present call.
      function: the rule itself, if there are several.
    """
    schema = primitive.schema
    if schema is not None and not schema.admits(params):
        refuse_params(primitive, params, source)
    if isinstance(error, SymbolicValueError):
        error.blame(primitive, rule)
        return
    if getattr(error, "told", None) == (primitive, rule):
        return  # its text names the rule and the place
    function = function or _function_of(primitive, rule)
    if is_engine_file(where(function).rpartition(":")[0]):
        return
    caller = RULES[rule].needed_by if rule in RULES else _CALLERS.get(rule)
    inside = [i.name for i in interpreters() if i.parent is not None]
    again = "" if not isinstance(error, RecursionError) else (
        f" It is called again wherever it applies {primitive.name!r} to such values itself"
        + (": interpreter.default_process_primitive(primitive, operands, params) records the "
           "equation instead." if rule == "partial_eval" else "."))
    note = (f"Raised in {rule_text(primitive, rule, function)}"
            + (f", called by {caller}" if caller else "")
            + (f" inside of {', '.join(inside)}" if inside else "")
            + f".{again}\n{applied_at(source or here())}{_closed_over(params)}")
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def name_interpreter(error: Exception, name: str, primitive: Any) -> None:
    """Adds to an error the user's interpreter that raised it, unless a rule did."""
    if not any(note.startswith("Raised ") for note in getattr(error, "__notes__", ())):
        error.add_note(f"Raised while {name} interpreted primitive {primitive.name!r}.\n"
                       f"{applied_at(here())}")


def _closed_over(params: Mapping[str, Any]) -> str:
    """The remedy for a traced value that a program in the params closes over, if one does."""
    for name, value in params.items():
        for jaxpr in jaxprs_in_params({name: value}):
            if any(isinstance(const, Tracer) for const in jaxpr.consts):
                return (f"\nThe program in its param {name!r} closes over a value that is being "
                        f"traced. Make it an operand: bind(*{name}.consts, *operands, {name}="
                        f"partial_eval.convert_constvars_jaxpr({name})), of mjax_ext.interpreters.")
    return ""


def innermost(rule: Any) -> Any:
    """The function that an author wrote, of a rule that a helper made from it."""
    while True:
        inner = getattr(rule, "__wrapped__", getattr(rule, "func", getattr(rule, "function", None)))
        if inner is None or inner is rule:
            return rule
        rule = inner


def where(rule: Any) -> str:
    """`file:line` of a rule."""
    rule = innermost(rule)
    code = getattr(rule, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(rule)


def refuse_effects(primitive: Any, effects: Any, policy: str) -> None:
    """Raises the error for effects that a transformation does not allow, if there are any."""
    refused = forbidden(effects, policy)
    if refused:
        question = QUESTIONS[policy]
        source = here()
        refuse(LazyValueError(lambda: (
            f"{question.transformation} of {primitive.name}, which has the effects "
            f"{describe(refused)}: their policy says {policy}=False. {question.reason}. Move it "
            "out of the function that is transformed, or use an effect that allows it.\n"
            f"{applied_at(source)}")))


def refuse_masked_effects(who: str, programs: Sequence[Jaxpr]) -> None:
    """Refuses effects in a cond or while with a batched predicate, which cannot mask them.

    Raises:
      NotImplementedError: names the effects, and the equations that have them.
    """
    refuse_effects_in(
        programs, "masked", lambda: f"vmap of {who} over its predicate: it has",
        f"{QUESTIONS['masked'].reason}. Move them out of it, or do not map over its predicate.",
        LazyNotImplementedError)


def refuse_effects_in(programs: Sequence[Jaxpr], policy: str, who: Callable[[], str], remedy: str,
                      error: type[LazyText] = LazyTypeError) -> None:
    """Refuses programs that have effects whose policy says no.

    Args:
      programs: the programs.
      policy: the field of the policy.
      who: gives the start of the message, as "the body of f has".
      remedy: what to do.
      error: the class of the error, which also names the equations that have the effects.
    """
    found = [(jaxpr, forbidden(jaxpr.effects, policy)) for jaxpr in programs]
    if any(refused for _, refused in found):
        refuse(error(lambda: (
            f"{who()} the effects {describe({e for _, refused in found for e in refused})}, whose "
            f"policy says {policy}=False. {remedy}\n"
            + "\n".join(carriers(jaxpr, refused) for jaxpr, refused in found if refused))))


def carriers(jaxpr: Jaxpr, refused: Sequence[Effect]) -> str:
    """Lists the equations of a program that have refused effects, with their places."""
    found: dict[Effect, JaxprEqn] = {}
    for effect in refused:
        inner: Jaxpr | None = jaxpr
        while inner is not None:
            for eqn in inner.eqns:
                if _has(eqn.effects, effect):
                    break
            else:
                break  # a loop of no iterations
            found[effect] = eqn
            inner = next((j for j in jaxprs_in_params(eqn.params) if _has(j.effects, effect)), None)
    return "\n".join(f"Primitive {eqn.primitive.name!r} has {effect!r}. {applied_at(eqn.source)}"
                     for effect, eqn in found.items())


def _has(effects: Effects, effect: Effect) -> bool:
    """Whether an effect is among others, whatever operand it has a number of."""
    return effect in effects or (isinstance(effect, OperandEffect) and any(
        isinstance(e, OperandEffect) and e.at(effect.index) == effect for e in effects))


def applied_at(source: Any) -> str:
    """The place where a primitive was applied: at most five user frames, innermost first."""
    frames = user_frames(source)[:5]
    if not frames:
        return "It is not known where it was applied."
    return "It was applied at\n" + "\n".join(
        f"  {f.file}:{f.line} ({f.function})" + (", called from" if i + 1 < len(frames) else "")
        for i, f in enumerate(frames))


def describe_value(value: Any) -> str:
    """A short description of a rule's result: types rather than elements."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    aval = getattr(value, "aval", None)
    if aval is not None:
        return f"{type(value).__name__} of type {aval}"
    if isinstance(value, (tuple, list)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return f"a {kind} of {len(value)} ({', '.join(map(describe_value, value[:4]))}" + (
            ", ...)" if len(value) > 4 else ")")
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of type {value.dtype}{list(value.shape)}"
    return repr(value)[:200]


def as_jaxpr(who: str, jaxpr: Any) -> Jaxpr:
    """The argument, which must be a program.

    Raises:
      TypeError: it is not one.
    """
    if not isinstance(jaxpr, Jaxpr):
        msg = (f"{who} takes a jaxpr, such as mjax.make_jaxpr(f)(*args) gives; got "
               f"{describe_value(jaxpr)}.")
        raise TypeError(msg)
    return jaxpr


def refuse_flags(who: str, jaxpr: Any, **flags: Any) -> None:
    """Refuses arguments of a function of a jaxpr and flags; called where it has failed.

    Raises:
      TypeError: the program is not one, or flags are not bools in a list. One bool is enough for
        those named "instantiate".
    """
    as_jaxpr(who, jaxpr)
    for name, given in flags.items():
        if not (isinstance(given, Iterable)
                or (isinstance(given, bool) and name.startswith("instantiate"))):
            msg = f"{who}: {name} must be a list of bools, got {describe_value(given)}."
            raise TypeError(msg)


def refuse_results(function: Any, outs: Any, who: str = "") -> None:
    """Refuses the results of a function of flat values that are not in a list.

    Args:
      function: the function.
      outs: its results, not a list or a tuple.
      who: the function that takes nothing else; without it, other iterables pass.

    Raises:
      TypeError: they are refused.
    """
    if who or not _is_iterable(outs):
        while hasattr(function, "func"):
            function = function.func
        name = getattr(function, "__name__", None) or type(function).__name__
        msg = (f"{who and who + ': '}a function of flat values must return a list of its results, "
               f"but {name} returned {describe_value(outs)}."
               f"{who and ' For functions of pytrees there is mjax.make_jaxpr.'}")
        raise TypeError(msg)


def _is_iterable(x: Any) -> bool:
    try:
        iter(x)
    except TypeError:
        return False
    return True


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)


def _operand_names(primitive: Any, count: int | None, params: Sequence[str]) -> str:
    """The operands in templates: as in another rule of the author's, if that names them."""
    for rule in (primitive.impl, getattr(primitive.abstract_eval, "adapts", None)):
        code = getattr(rule, "__code__", None)
        if code is not None and not code.co_flags & inspect.CO_VARARGS:
            names = [n for n in code.co_varnames[:code.co_argcount] if n not in params]
            if len(names) == count and {"ctx", "cotangent"}.isdisjoint(names):
                return ", ".join(names)
    return "*operands" if count is None or count > 4 else ", ".join("xyzw"[:count])
