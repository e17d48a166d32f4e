"""Registration that refuses: what is not a rule, and a second primitive of one name.

A rule is compared with its calling convention (`CALLS`), with the schema of its primitive and with
the other rules, by its signature alone. The engine's own rules are not compared: a test does that.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import weakref
from collections.abc import Iterator
from types import FunctionType
from typing import Any, NoReturn

from mjax._engine.base.folding import is_engine_file
from mjax._engine.base.platforms import PLATFORMS
from mjax._engine.base.records import Record
from mjax._engine.base.util import closest, counted
from mjax._engine.ir.source import warn
from mjax._engine.tracing.rule_errors import innermost, rule_name


class Call(Record):
    """How a rule is called.

    Attributes:
      leading: its first positional arguments.
      operands: whether an argument for each operand follows.
      params: whether the params follow, by name.
    """

    leading: tuple[str, ...] = ()
    operands: bool = False
    params: bool = True

    def __str__(self) -> str:
        return ", ".join([*self.leading, *["*operands"] * self.operands,
                          *["**params"] * self.params])


#: Field of the record -> how its rule is called.
CALLS = {
    "impl": Call((), True),
    "abstract_eval": Call((), True),
    "lowering": Call(("ctx",), True),
    "jvp": Call(("primals", "tangents")),
    "linearize": Call(("nonzeros",), True),
    "partial_eval": Call(("interpreter",), True),
    "transpose": Call(("cotangent",), True),
    "batch": Call(("args", "dims")),
    "axis_batch": Call(("axis", "args", "dims")),
    "dce": Call(("used_outputs", "eqn"), params=False),
    "discharge": Call((), True),
    "recompute": Call(("saveable", "used_outputs", "eqn"), params=False),
    "staging": Call(("trace", "source_info"), True),
    "typecheck": Call((), True),
    "collective_axes": Call((), True),
    "cast_varying": Call(("varying",)),
    "scope": Call(),
    "pretty": Call(("params",), params=False),
    "users_rule": Call(("params",), params=False),
}

#: Rule -> the one that is asked for in its place, if there is one.
BEFORE: dict[str, Any] = {"batch": "axis_batch", "jvp": "linearize"}
#: The reverse.
_INSTEAD = {before: rule for rule, before in BEFORE.items()}


class Taken(Record):
    """The arguments that a function takes, by its signature.

    Attributes:
      positional: names of positional arguments.
      required: how many of them do not have a default.
      by_name: those of them that may be given by name, too.
      any_number: whether it takes more (`*args`).
      keywords: names of arguments that are given by name only.
      required_keywords: those of them without a default.
      any_keyword: whether it takes more (`**params`).
    """

    positional: list[str]
    required: int
    by_name: set[str]
    any_number: bool
    keywords: set[str]
    required_keywords: set[str]
    any_keyword: bool


def taken_by(function: Any) -> Taken | None:
    """The arguments of a function; None if it does not tell."""
    if type(function) is FunctionType and "__signature__" not in vars(function):
        return _taken_by_code(function)
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None
    found = Taken([], 0, set(), False, set(), set(), False)
    for name, p in signature.parameters.items():
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            found.positional.append(name)
            if p.default is p.empty:
                found = found._replace(required=found.required + 1)
            if p.kind is p.POSITIONAL_OR_KEYWORD:
                found.by_name.add(name)
        elif p.kind is p.KEYWORD_ONLY:
            found.keywords.add(name)
            if p.default is p.empty:
                found.required_keywords.add(name)
        elif p.kind is p.VAR_POSITIONAL:
            found = found._replace(any_number=True)
        else:
            found = found._replace(any_keyword=True)
    return found


def _taken_by_code(function: FunctionType) -> Taken:
    """The arguments of a plain function, in a tenth of the time of `inspect.signature`."""
    code, flags = function.__code__, function.__code__.co_flags
    count = code.co_argcount
    positional = list(code.co_varnames[:count])
    keywords = set(code.co_varnames[count:count + code.co_kwonlyargcount])
    return Taken(positional, count - len(function.__defaults__ or ()),
                 set(positional[code.co_posonlyargcount:]), bool(flags & inspect.CO_VARARGS),
                 keywords, keywords.difference(function.__kwdefaults__ or ()),
                 bool(flags & inspect.CO_VARKEYWORDS))


def misfit(function: Any, call: Call, schema: Any) -> str:
    """Says why a function cannot be called so; empty if it can, or does not tell."""
    taken = taken_by(function)
    if taken is None:
        return ""
    count = len(call.leading)
    if not taken.any_number and len(taken.positional) < count:
        return f"takes {counted(len(taken.positional), 'positional argument')}"
    names = (set() if not call.params else None if schema is None else set(schema.params))
    if names is None:
        return ""  # any argument by name may be a param
    first = names.intersection(taken.positional[:count])
    if first:
        return f"takes the param {_quoted(first)} first"
    known = taken.keywords | taken.by_name.difference(taken.positional[:count])
    if names - known and not taken.any_keyword:
        return f"does not take the param {_quoted(names - known)} of the schema ({schema})"
    if taken.required_keywords - names:
        return (f"needs {_quoted(taken.required_keywords - names)}, which "
                + (f"the schema does not have ({schema})" if call.params else "is not given to it"))
    needed = taken.positional[count:taken.required]
    extra = [p for p in needed if p not in names]
    if extra and not call.operands:
        return f"needs a further argument {_quoted(extra)}"
    early = names.intersection(needed[:needed.index(extra[-1])]) if extra else ()
    return f"takes the param {_quoted(early)} before the operand {extra[-1]!r}" if early else ""


def operands_of(function: Any, call: Call, schema: Any) -> tuple[int, float]:
    """The least and the greatest number of operands for which a rule can be called."""
    taken = taken_by(function)
    if taken is None or schema is None or not call.operands:
        return 0, float("inf")
    count = len(call.leading)
    required = [p for p in taken.positional[count:taken.required] if p not in schema.params]
    possible = [p for p in taken.positional[count:] if p not in schema.params]
    return len(required), float("inf") if taken.any_number else len(possible)


def refuse_other(primitive: Any) -> None:
    """Refuses what is not a primitive, where a rule is given to one.

    Raises:
      TypeError: it is something else.
    """
    if isinstance(primitive, type) or not hasattr(primitive, "lowerings"):
        kind = type(primitive)
        of = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        msg = (f"rules belong to primitives: {primitive!r} of type {of}{kind.__name__} is not an "
               "mjax_ext.core.Primitive.")
        raise TypeError(msg)


def check_rule(primitive: Any, field: str, rule: Any) -> None:
    """Refuses what is not a rule of this kind for this primitive.

    Args:
      primitive: the primitive.
      field: the field of its record.
      rule: the function that the author gave.

    Raises:
      TypeError: it is not a function, or its signature does not fit.
      AttributeError: there is no such rule.
    """
    call = CALLS.get(field)
    if call is None:
        close = closest(field, CALLS)
        msg = (f"primitives do not have a rule {field!r}"
               + (f"; did you mean {close!r}?" if close else f": {', '.join(CALLS)}."))
        raise AttributeError(msg)
    who = f"the {rule_name(field)} of primitive {primitive.name!r}"
    function, traceable = written(rule), is_traceable(rule)
    if not callable(function) or (field != "lowering" and (traceable or is_traceable(function))):
        msg = (f"{who} must be a function, not {function!r} of type {type(function).__name__}; it "
               f"is called as rule({call}).")
        raise TypeError(msg)
    call = Call((), True) if traceable else call
    refuse_misfit(primitive, who, function, call)
    least, most = operands_of(function, call, primitive.schema)
    for other, theirs, low, high in _operands_of_rules(primitive):
        if other != field and (least > high or low > most):
            msg = (f"{who} takes {_range(least, most)} operands by {_place(function)}, but the "
                   f"{other} rule takes {_range(low, high)} by {_place(theirs)}.")
            raise TypeError(msg)


def refuse_derived(primitive: Any, field: str, rule: Any) -> None:
    """Refuses a rule that was derived for another primitive, and applies that one.

    Raises:
      TypeError: names both primitives.
    """
    frame = getattr(rule, "__self__", None)
    owner = getattr(frame, "primitive", None)
    if getattr(owner, "frame", rule) is not frame:  # not a rule of a frame
        owner = getattr(rule, "derived_for", None)
    if owner is not None and owner is not primitive:
        msg = (f"the {rule_name(field)} of primitive {primitive.name!r} cannot be {_place(rule)}, "
               f"which was derived for primitive {owner.name!r} and applies that one. Derive one "
               f"for {primitive.name!r}, by the same helper or by a frame of its own.")
        raise TypeError(msg)


def refuse_misfit(primitive: Any, who: str, function: Any, call: Call) -> None:
    """Refuses a function that cannot be called so.

    Raises:
      TypeError: says how it is called, and what it takes.
    """
    wrong = misfit(function, call, primitive.schema)
    if wrong:
        msg = f"{who} is called as rule({call}), but {_place(function)} {wrong}."
        raise TypeError(msg)


def check_rules(primitive: Any) -> None:
    """Compares the rules that authors have given with a new schema."""
    for field, rule in _rules_of_authors(primitive):
        check_rule(primitive, field, rule)


def _operands_of_rules(primitive: Any) -> Iterator[tuple[str, Any, float, float]]:
    """The rules that authors have given: field, function, least and greatest number of operands."""
    for field, rule in _rules_of_authors(primitive):
        call = Call((), True) if is_traceable(rule) else CALLS[field]
        yield field, written(rule), *operands_of(written(rule), call, primitive.schema)


def _rules_of_authors(primitive: Any) -> Iterator[tuple[str, Any]]:
    for name in sorted(primitive.foreign, key=str):
        field = name if isinstance(name, str) else "lowering"
        rule = getattr(primitive, field) if field == name else primitive.lowerings[name[1]]
        if rule is not None and field not in primitive.derived:
            yield field, rule


def written(rule: Any) -> Any:
    """The function that an author wrote, of a rule that adapts or marks it."""
    return rule.function if is_traceable(rule) else getattr(rule, "adapts", rule)


def is_traceable(rule: Any) -> bool:
    """Whether it is a lowering given as a traceable function (`tracing.primitive.traced`)."""
    return getattr(type(rule), "traceable", False) is True


def mark_derived(rule: Any, primitive: Any) -> None:
    """Remembers for which primitive a helper made a rule; nothing if it serves several."""
    if isinstance(rule, (FunctionType, functools.partial)):
        known = getattr(rule, "derived_for", primitive)
        vars(rule)["derived_for"] = primitive if known is primitive else None


def refuse_examples(name: str) -> NoReturn:
    """Raises the error for examples of a primitive that does not declare its params."""
    msg = (f"primitive {name!r} is given examples, but not the types of its params, with which "
           "they are kept. Give params={name: type, ...}; params={} if it takes none.")
    raise TypeError(msg)


def check_platform(primitive: Any, platform: str | None) -> None:
    """Refuses platforms that XLA does not know.

    Raises:
      NotImplementedError: the platform is unknown.
    """
    if platform is not None and platform not in PLATFORMS:
        msg = (f"the lowering of primitive {primitive.name!r} is for platform {platform!r}, which "
               f"is unknown. Platforms: {', '.join(PLATFORMS)}; None: all.")
        raise NotImplementedError(msg)


def note_owner(primitive: Any, field: Any, rule: Any, derived: bool = False) -> None:
    """Notes whose a rule is, as it is set.

    Rules of the engine's own primitives are the engine's if its modules wrote them, and no program
    has applied the primitive. A frame's rules are the engine's on any primitive. An engine
    primitive with a rule of a user's is compared as the user's own are (`Primitive.compared`).

    Args:
      primitive: the primitive.
      field: the field of its record; ("lowering", platform) for a lowering.
      rule: the rule.
      derived: whether a helper made it.
    """
    if primitive.own:
        module = getattr(innermost(rule), "__module__", None) or ""
        ours = not primitive.applied and module.startswith(("mjax.", "mjax_ext."))
    else:
        ours = derived and primitive.frame is not None
    (primitive.foreign.discard if ours else primitive.foreign.add)(field)
    if field in _SORTED or (primitive.own and bool(primitive.foreign) is not primitive.compared):
        sort_out(primitive)
    take_back(primitive, field)


def take_back(primitive: Any, field: Any) -> None:
    """Forgets what was declared about a rule, as another one takes its place, or none."""
    if primitive.exceptions:
        name = "lowering" if isinstance(field, tuple) else _INSTEAD.get(field, field)
        primitive.exceptions = {k: why for k, why in primitive.exceptions.items() if k != name}


#: The rules of which `sort_out` tells.
_SORTED = frozenset({"axis_batch", "batch", "jvp"})


def sort_out(primitive: Any) -> None:
    """Sets what transformations ask of each application, so that they ask once.

    `compared`: whether results of its rules are compared with the abstract evaluation.
    `compares_one`, `compares_list`: the same, and whether a result is one value or a list.
    `free_jvp`, `free_batch`: the rules, but None where effects have to be allowed before they run.
    """
    compared, several = not primitive.own or bool(primitive.foreign), primitive.multiple_results
    free, assign = not primitive.effectful, object.__setattr__
    assign(primitive, "compared", compared)
    assign(primitive, "compares_one", compared and not several)
    assign(primitive, "compares_list", compared and several)
    assign(primitive, "free_jvp", primitive.jvp if free else None)
    assign(primitive, "free_batch", (primitive.axis_batch or primitive.batch) if free else None)


def has_fixed_arity(rule: Any) -> bool:
    """Whether a rule is a function of a fixed number of operands, as far as its code says."""
    code = getattr(written(rule), "__code__", None)
    return code is not None and not code.co_flags & inspect.CO_VARARGS


# ---- primitives of one name ------------------------------------------------------------


class Birth(Record):
    """Where a primitive was made.

    Attributes:
      file: the file.
      line: the line.
      module: the name of the module.
      spec: the module's specification, another object after each reload.
    """

    file: str
    line: int
    module: str
    spec: Any


#: Name -> the last primitive of users with the name, and where it was made.
_born: dict[str, tuple[weakref.ref[Any], Birth]] = {}


def note_birth(primitive: Any) -> None:
    """Warns of a second primitive of one name that a user makes; called by `__init__`.

    Raises:
      TypeError: the name is not a text.
    """
    if primitive.own:
        return
    if not isinstance(primitive.name, str):
        name, primitive.name = primitive.name, "unnamed"
        msg = f"the name of a primitive is a text, not {name!r} of type {type(name).__name__}."
        raise TypeError(msg)
    frame = sys._getframe(2)
    while (frame.f_back is not None and frame.f_code.co_name == "__init__"
           and any(value is primitive for value in frame.f_locals.values())):
        frame = frame.f_back  # of a subclass
    while frame.f_back is not None and is_engine_file(frame.f_code.co_filename):
        frame = frame.f_back
    birth = Birth(frame.f_code.co_filename, frame.f_lineno,
                  str(frame.f_globals.get("__name__")), frame.f_globals.get("__spec__"))
    name = primitive.name
    reference, first = _born.get(name, (None, birth))
    if reference is not None and reference() is not None and _is_second(first, birth):
        warn(f"a second primitive named {name!r} is made at {birth.file}:{birth.line}; the first "
             f"was made at {first.file}:{first.line}. They are two primitives, with rules of their "
             "own, but jaxprs and messages show the same name. Give one of them another name.")
    _born[name] = weakref.ref(primitive), birth


def _is_second(first: Birth, birth: Birth) -> bool:
    """Whether a primitive is another one, rather than the same statement run again."""
    if first.file == birth.file:
        return first.line != birth.line and first.spec is birth.spec  # else it was reloaded
    # The cells of a session are files of their own, which do not exist.
    return first.module != birth.module or os.path.exists(birth.file)


# ---- texts -----------------------------------------------------------------------------


def _place(rule: Any) -> str:
    code = getattr(rule, "__code__", None)
    name = getattr(rule, "__qualname__", repr(rule))
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else name


def _quoted(names: Any) -> str:
    return ", ".join(map(repr, sorted(names)))


def _range(least: float, most: float) -> str:
    if least == most:
        return str(least)
    return f"at least {least}" if most == float("inf") else f"{least} to {most}"
