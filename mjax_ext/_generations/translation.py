"""Params of one form from those of another, by functions that are generated once from expressions.

So an application or a rule of an older generation costs a call more, and no dictionary: params are
arguments of the generated function.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.ir.schema import Schema
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.registration import Call

#: The value of a param that was not given.
_ABSENT = object()
#: What `Primitive.bind` does for primitives of the engine, without its call; unless it is replaced,
#: as by those who watch applications.
_AS_BIND = """\
    if _Primitive.bind is not _known:
        return _primitive.bind(*_operands, {0})
    try:
        return _thread.interpreter.process(_primitive, _operands, {{{1}}})
    except Exception as error:
        _primitive.fold_error(error, _operands)
        raise
"""


class Translation:
    """How params of one form become those of another.

    Args:
      source: the params that are given.
      target: the params that are made.
      made: param -> an expression of given ones; all others keep name and value.
      scope: what expressions may use beside params.

    Raises:
      TypeError: a param has neither an expression nor a namesake, or may be absent where it is
        needed.
    """

    def __init__(self, source: Schema, target: Schema, made: Mapping[str, str],
                 scope: Mapping[str, Any] | None = None):
        kept = target.params.keys() & source.params.keys() - made.keys()
        read = {node.id for text in made.values() for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Name)} & source.params.keys()
        wrong = sorted({*target.required - made.keys() - (kept & source.required),
                        *made.keys() - target.params.keys(), *read - source.required})
        if wrong:
            msg = (f"params ({source}) do not become ({target}): {', '.join(wrong)} cannot be "
                   "made. Give an expression, of params that are always there, for each new param.")
            raise TypeError(msg)
        always = sorted(kept & source.required)
        values = {**{name: name for name in always}, **made}
        #: Those that may be absent are handed on as they come.
        self._more = ["**_more"] if kept - source.required else []
        dropped = source.params.keys() - kept - read
        self._given = sorted(read.union(always, dropped & source.required))
        self._ignored = [f"{name}=None" for name in sorted(dropped - source.required)]
        self._made = ", ".join([*(f"{name}=({text})" for name, text in values.items()),
                                *self._more])
        self._dict_made = ", ".join([*(f"{name!r}: ({text})" for name, text in values.items()),
                                     *self._more])
        self._scope = dict(scope or {})
        self._dict = self._translated(dict, Call())

    def __call__(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The params of the target."""
        translated: dict[str, Any] = self._dict(**params)
        return translated

    def rule(self, rule: Callable[..., Any], call: Call) -> Callable[..., Any]:
        """A rule that takes the params of the source.

        Args:
          rule: it takes those of the target.
          call: its other arguments.
        """
        return functools.wraps(rule)(self._translated(rule, call))

    def _translated(self, function: Callable[..., Any], call: Call) -> Callable[..., Any]:
        leading = [f"_{i}" for i in range(len(call.leading))]
        operands = ["*_operands"] * call.operands
        names = [*self._given, *self._ignored]
        taken = [*leading, *["/"] * bool(leading), *(operands or ["*"] * bool(names)), *names,
                 *self._more]
        return self._compiled(
            f"def translated({', '.join(taken)}):\n"
            f"    return _function({', '.join([*leading, *operands, self._made])})\n",
            _function=function)

    def application(self, primitive: Primitive, refuse: Callable[[dict[str, Any]], Any]
                    ) -> Callable[..., Any]:
        """A function that applies a primitive, with the params of the source.

        Args:
          primitive: it has the params of the target.
          refuse: raises an error for params that are not those of the source.
        """
        names = [*(f"{name}=_absent" for name in self._given), *self._ignored]
        # The primitive refuses other params, once per types and params.
        wrong = [*(f"{name} is _absent" for name in self._given), *["_more"] * (not self._more)]
        given = [f"{name}={name}" for name in self._given]
        return self._compiled(
            f"def translated({', '.join(['*_operands', *names, '**_more'])}):\n"
            f"    if {' or '.join(wrong)}:\n"
            f"        _refuse(dict({', '.join([*given, '**_more'])}))\n"
            + (_AS_BIND if primitive.own else "    return _primitive.bind(*_operands, {})\n"
               ).format(self._made, self._dict_made),
            _primitive=primitive, _absent=_ABSENT, _thread=thread, _Primitive=Primitive,
            _known=Primitive.bind, _refuse=lambda params: refuse(
                {name: value for name, value in params.items() if value is not _ABSENT}))

    def _compiled(self, text: str, **names: Any) -> Callable[..., Any]:
        scope = {**self._scope, **names}
        # A file of ours: errors and equations tell the lines of users.
        exec(compile(text, f"{__file__}/generated", "exec"), scope)
        made: Callable[..., Any] = scope["translated"]
        return made
