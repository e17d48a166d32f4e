"""Errors for authors of primitives: missing rules, and rules with results that do not fit.

Texts are built when they are shown. Each names the primitive, the rule, the place where the rule
is defined and the line at which the primitive was applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from mjax._engine.base.errors import (
    LazyNotImplementedError,
    LazyText,
    LazyTypeError,
    LazyValueError,
    MissingRuleError,
)
from mjax._engine.base.folding import is_engine_file
from mjax._engine.base.records import Record
from mjax._engine.ir.effects import QUESTIONS, Effect, Effects, OperandEffect, describe, forbidden
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, jaxprs_in_params
from mjax._engine.ir.source import here, user_frames


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


#: Field of the record -> row. The texts of `MissingRuleError`.
RULES = {
    "impl": RuleRow("implementation", "evaluation", """\
@{p}.def_impl
def {f}_impl({xs}{params}):
  return ...  # computed with NumPy, or anything else outside of mjax

or, to have it compiled, an abstract evaluation ({p}.def_abstract_eval) and a lowering
(mlir.register_lowering)."""),
    "abstract_eval": RuleRow("abstract evaluation", "staging (jit, make_jaxpr, grad)", """\
from mjax_ext.core import ShapedArray

@{p}.def_abstract_eval
def {f}_abstract_eval({xs}{params}):
  # each operand is a ShapedArray, with a shape and a dtype; so is the result
  return {result}"""),
    "lowering": RuleRow(
        "lowering for platform {detail}",
        "compilation (jit, and evaluation without an implementation)", """\
from mjax_ext.interpreters import mlir
from mjax_ext.interpreters.mlir import hlo

def {f}_lowering(ctx, {xs}{params}):
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

def {f}_transpose(cotangent, {xs}{params}):
  # operands in which the equation is linear are ad.UndefinedPrimal: x.aval is their type, and
  # ad.is_undefined_primal(x) tells them from the others, which are arrays
  return [...]  # per operand: its cotangent, or None where it is not undefined

ad.primitive_transposes[{p}] = {f}_transpose""",
        "Only linear operations have one. If {name!r} is none, a jvp rule has applied it to a "
        "tangent.\n"),
    "batch": RuleRow("batching rule", "vectorization (vmap)", """\
from mjax_ext.interpreters import batching

def {f}_batch(args, dims{params}):
  # dims[i] is the batch axis of args[i], or None where it is the same for the whole batch
  return {pair_of}result, {pair_of}dim

batching.primitive_batchers[{p}] = {f}_batch"""),
}


def missing_rule(primitive: Any, rule: str, operands: int | None = None,
                 params: Iterable[str] = (), detail: str = "", source: Any = None) -> NoReturn:
    """Raises the error for a missing rule.

    Args:
      primitive: the primitive.
      rule: the rule, a key of `RULES`.
      operands: the number of operands, if known.
      params: names of the parameters it was applied with.
      detail: the platform, for a lowering.
      source: where it was applied; by default the present call.
    """
    row, names = RULES[rule], tuple(params)
    source = source or here()

    def text() -> str:
        p = _identifier(primitive.name)
        f = p.removesuffix("_p")
        several = primitive.multiple_results
        fields = {
            "name": primitive.name, "p": f + "_p", "f": f, "detail": detail, "multiple": several,
            "xs": _operand_names(operands), "pair_of": "list_of_each_" if several else "",
            "params": f", *, {', '.join(names)}" if names else "",
            "result": "[ShapedArray(shape, dtype), ...]" if several else
                      "ShapedArray(shape, dtype)"}
        spelling = "\n".join(f"    {line}" if line else "" for line in
                             row.spelling.format(**fields).splitlines())
        return (f"Primitive {primitive.name!r} has no {row.name.format(**fields)}, which "
                f"{row.needed_by} needs.\n{applied_at(source)}\n{row.hint.format(**fields)}"
                f"Write one, as in:\n\n{spelling}\n")

    raise MissingRuleError(text)


def bad_rule_result(primitive: Any, rule: str, what: Callable[[], str], source: Any = None
                    ) -> NoReturn:
    """Raises the error for a rule whose result does not fit; `what` continues after its name."""
    source = source or here()
    raise LazyTypeError(lambda: f"{rule_text(primitive, rule)} {what()}\n{applied_at(source)}")


def as_pair(primitive: Any, rule: str, result: Any, meaning: str) -> Any:
    """The result of a rule that has to give a pair."""
    if type(result) is tuple and len(result) == 2:
        return result
    if isinstance(result, (tuple, list)) and len(result) == 2:
        return tuple(result)
    bad_rule_result(primitive, rule, lambda: (
        f"returned {describe_value(result)}; it must return a pair: {meaning}."))


def check_lists(primitive: Any, rule: str, lists: Sequence[Any], count: int | None, meaning: str
                ) -> None:
    """Refuses results of a rule of a primitive with multiple results unless they are lists.

    Args:
      primitive: the primitive.
      rule: the rule.
      lists: the results of the rule.
      count: the length that each must have; None: that of the first.
      meaning: describes them in the message.
    """
    first = lists[0]
    if count is None and isinstance(first, (list, tuple)):
        count = len(first)
    for values in lists:
        if not isinstance(values, (list, tuple)) or len(values) != count:
            bad_rule_result(primitive, rule, lambda: (
                f"returned {' and '.join(map(describe_value, lists))}; since multiple_results=True "
                f"it must return {meaning}{f', {count} for {count} results' if count else ''}."))


class SymbolicValueError(LazyTypeError, shown_as=TypeError):
    """A `Zero` or an `UndefinedPrimal` was used as if it were an array."""

    blamed: str | None = None

    def blame(self, primitive: Any, rule: str) -> None:
        """Names the rule at fault, at the innermost interpreter that the error passes."""
        if self.blamed is None:
            self.blamed = f"{rule_text(primitive, rule)} did so."

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


def rule_text(primitive: Any, rule: str) -> str:
    """`the jvp rule of primitive 'sin' (file:line)`."""
    function = (getattr(primitive, rule, None)
                or (primitive.axis_batch if rule == "batch" else None)
                or (next(iter(primitive.lowerings.values()), None) if rule == "lowering" else None))
    name = RULES[rule].name.split(" for ")[0] if rule in RULES else f"{rule} rule"
    return f"the {name} of primitive {primitive.name!r} ({where(function)})"


def name_rule(error: Exception, primitive: Any, rule: str) -> None:
    """Adds to an error the user's rule that raised it; rules of the engine are not named."""
    file = where(getattr(primitive, rule)).rpartition(":")[0]
    if not isinstance(error, LazyText) and not is_engine_file(file):
        error.add_note(f"Raised in {rule_text(primitive, rule)}.\n{applied_at(here())}")


def where(rule: Any) -> str:
    """`file:line` of a rule."""
    while True:
        inner = getattr(rule, "__wrapped__", getattr(rule, "func", getattr(rule, "function", None)))
        if inner is None or inner is rule:
            break
        rule = inner
    code = getattr(rule, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(rule)


def refuse_effects(primitive: Any, effects: Any, policy: str) -> None:
    """Raises the error for effects that a transformation does not allow, if there are any."""
    refused = forbidden(effects, policy)
    if refused:
        question = QUESTIONS[policy]
        source = here()
        raise LazyValueError(lambda: (
            f"{question.transformation} of {primitive.name}, which has the effects "
            f"{describe(refused)}: their policy says {policy}=False. {question.reason}. Move it "
            "out of the function that is transformed, or use an effect that allows it.\n"
            f"{applied_at(source)}"))


def refuse_masked_effects(who: str, programs: Sequence[Jaxpr]) -> None:
    """Refuses effects in a cond or while with a batched predicate, which cannot mask them.

    Raises:
      NotImplementedError: names the effects, and the equations that have them.
    """
    if not any(forbidden(jaxpr.effects, "masked") for jaxpr in programs):
        return
    found = [(jaxpr, forbidden(jaxpr.effects, "masked")) for jaxpr in programs]
    raise LazyNotImplementedError(lambda: (
        f"vmap of {who} over its predicate: it has the effects "
        f"{describe({e for _, effects in found for e in effects})}, whose policy says "
        f"masked=False. {QUESTIONS['masked'].reason}. Move them out of it, or do not map over "
        "its predicate.\n" + "\n".join(carriers(j, effects) for j, effects in found if effects)))


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


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)


def _operand_names(count: int | None) -> str:
    return "*operands" if count is None or count > 4 else ", ".join("xyzw"[:count])
