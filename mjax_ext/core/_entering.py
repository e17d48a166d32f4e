"""Interprets the programs that a primitive holds: loops, branches, compiled calls, by its frame.

The data of a value is a tree of arrays. In the programs of the new equation its leaves take the
place of the value, and enter as the value does. The data of a carry has the same tree and types
before and after an iteration, and that of a result in all branches: `widen` is asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.records import Record
from mjax._engine.base.util import counted
from mjax._engine.control.branches.branches import Branches
from mjax._engine.control.frame import Frame
from mjax._engine.control.held import Held
from mjax._engine.control.loops.while_frame import Iteration
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.types import is_array_value, same_type_but_weak, typeof
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr


class Form(Record):
    """The form of the data of a value in a program: the tree, and the types of the leaves."""

    tree: Any
    avals: list[Any]

    def fits(self, other: Form) -> bool:
        """Whether data of the other form may take the place of this one's."""
        return bool(self.tree == other.tree) and all(
            map(same_type_but_weak, self.avals, other.avals))

    def __str__(self) -> str:
        return str(self.tree.unflatten(map(str, self.avals)))


class Entered(Record):
    """A program of leaves, and the forms of its results."""

    jaxpr: Jaxpr
    outs: list[Form]


def enter(definition: Any, primitive: Primitive, carried: Sequence[Any], params: dict[str, Any]
          ) -> list[Any]:
    """The data of the results of a primitive that holds programs.

    Args:
      definition: the interpreter of the user.
      primitive: the primitive.
      carried: the data of its operands.
      params: its params.

    Raises:
      TypeError: the primitive does not hold programs, or the forms of data do not fit.
    """
    frame = primitive.frame
    name = type(definition).__name__
    if not isinstance(frame, Frame) or frame.rules:
        msg = (f"{name}.enter({primitive}): this primitive "
               + ("holds a function with rules, which come to custom()." if frame else
                  "does not hold programs: interpret it in apply()."))
        raise TypeError(msg)
    primitive.check_params(params)
    return _Entering(definition, frame, params).apply(carried)


class _Entering:
    """One application of a primitive whose programs are interpreted."""

    def __init__(self, definition: Any, frame: Frame, params: dict[str, Any]):
        self.definition, self.frame = definition, frame
        self.name = f"{type(definition).__name__}.enter({frame.primitive})"
        self.held = frame.again(frame.open(params))

    def apply(self, carried: Sequence[Any]) -> list[Any]:
        n, frame, held = self.frame.aside, self.frame, self.held
        if len(carried) != n + len(held.ins):
            msg = (f"{self.name}: the primitive takes {counted(n + len(held.ins), 'operand')}, and "
                   f"is given data of {len(carried)}.")
            raise TypeError(msg)
        aside = [self.array(c) for c in carried[:n]]
        data = [tree_flatten(c) for c in carried[n:]]
        for leaves, _ in data:
            self.check(leaves)
        with frame.scope(held):
            ins = [self.inside(i, list(map(typeof, leaves)), tree)
                   for i, (leaves, tree) in enumerate(data)]
            ins, body, outs = self.steady(ins)
        operands = [self.widened(c, form.tree) for c, form in zip(carried[n:], ins, strict=True)]
        hows = [how for how, leaves in zip(held.ins, operands, strict=True) for _ in leaves]
        out_hows = [how for how, form in zip(held.outs, outs, strict=True) for _ in form.avals]
        found = iter(frame.runner(Held(body, hows, out_hows, held.rest))(
            [*aside, *(leaf for leaves in operands for leaf in leaves)]))
        return [form.tree.unflatten([next(found) for _ in form.avals]) for form in outs]

    # -- forms --

    def inside(self, i: int, avals: list[Any], tree: Any) -> Form:
        """The form in which the data of an operand is in the program."""
        held, frame = self.held, self.frame
        own, how = held.body.in_avals[i], held.ins[i]
        return Form(tree, [self.entered(frame.outer(held, own, how), own, aval, how)
                           for aval in avals])

    def entered(self, whole: Any, own: Any, aval: Any, how: Any) -> Any:
        """The type of a leaf in the program.

        Args:
          whole: the type of the operand.
          own: that of the value in the program.
          aval: that of the leaf outside.
          how: how the operand enters.
        """
        if same_type_but_weak(aval, whole):
            return own.update(weak_type=aval.weak_type) if hasattr(own, "weak_type") else own
        candidates = [aval, *([aval.element(0)] if aval.axis_size(0) is not None else ())]
        for inner in candidates:
            if self.frame.outer(self.held, inner, how) == aval:
                return inner
        raise LazyTypeError(lambda: (
            f"{self.name}: a leaf of type {aval} belongs to an operand of type {whole}, which the "
            f"program takes as {own}. How such a leaf enters is not known: interpret this "
            "primitive in apply()."))

    def steady(self, ins: list[Form]) -> tuple[list[Form], Any, list[Form]]:
        """Forms of operands in which carries stay, the program, and the forms of its results."""
        carries = self.frame.carries(self.held)
        for _ in range(len(carries) + 1):
            body, outs = self.programs(ins, [None] * len(self.held.outs))
            grown = {i: outs[j] for i, j in carries if len(outs[j].avals) > len(ins[i].avals)}
            if not grown:
                break
            ins = [grown.get(i, form) for i, form in enumerate(ins)]
        wanted: list[Any] = [None] * len(outs)
        for i, j in carries:
            wanted[j] = ins[i].tree
        if any(outs[j].tree != ins[i].tree for i, j in carries):
            body, outs = self.programs(ins, wanted)
        for i, j in carries:
            if not ins[i].fits(outs[j]):
                self.refuse("a carry", ins[i], outs[j])
        return ins, body, outs

    def programs(self, ins: Sequence[Form], wanted: Sequence[Any]) -> tuple[Any, list[Form]]:
        """The programs of leaves, and the forms of their results.

        Args:
          ins: the forms of their inputs.
          wanted: the trees that results have to have; None: any.
        """
        body = self.held.body
        if isinstance(body, Jaxpr):
            return self.program(body, ins, wanted)
        if isinstance(body, Iteration):
            found = self.program(body[0], ins, wanted)
            decision = self.program(body[1], ins, [None], self.array)
            return Iteration((found.jaxpr, decision.jaxpr)), found.outs
        if not isinstance(body, Branches):
            msg = f"{self.name}: how these programs belong together is not known."
            raise NotImplementedError(msg)
        parts = [self.program(branch, ins, wanted) for branch in body]
        trees = [self.common(forms) for forms in zip(*[p.outs for p in parts], strict=True)]
        parts = [part if [form.tree for form in part.outs] == trees else
                 self.program(branch, ins, trees) for branch, part in zip(body, parts, strict=True)]
        for part in parts:
            for form, first in zip(part.outs, parts[0].outs, strict=True):
                if not form.fits(first):
                    self.refuse("a result of branches", first, form)
        return Branches(part.jaxpr for part in parts), parts[0].outs

    def program(self, jaxpr: Jaxpr, ins: Sequence[Form], wanted: Sequence[Any],
                finish: Callable[[Any], Any] = lambda carried: carried) -> Entered:
        """A program of leaves; `finish` is applied to the data of each result."""
        outs: list[Form] = []

        def of_leaves(*leaves: Any) -> list[Any]:
            given = iter(leaves)
            data = [form.tree.unflatten([next(given) for _ in form.avals]) for form in ins]
            results = self.definition.run(
                lambda *args: eval_jaxpr(jaxpr, jaxpr.consts, *args), *data)
            found = []
            for carried, tree in zip(results, wanted, strict=True):
                carried = finish(carried)
                parts, own = tree_flatten(carried)
                if tree is not None and own != tree:
                    parts, own = self.widened(carried, tree), tree
                self.check(parts)
                outs.append(Form(own, list(map(typeof, parts))))
                found += parts
            return found

        avals = [aval for form in ins for aval in form.avals]
        staged = trace_to_jaxpr(of_leaves, avals, jaxpr.debug_info._replace(arg_names=None))
        for const in staged.consts:
            if isinstance(const, Tracer):
                raise LazyTypeError(lambda const=const: (  # type: ignore[misc]
                    f"{self.name}: the interpreter uses a traced value of type {const.aval} that "
                    "is not data of an operand. Hold arrays in the interpreter that are known, or "
                    "carry the value as data."))
        return Entered(staged, outs)

    # -- trees --

    def array(self, carried: Any) -> Any:
        """The array for data of which one is needed: an index of branches, the end of a loop."""
        found = self.definition.array(carried)
        if not is_array_value(found):
            msg = (f"{type(self.definition).__name__}.array returned {describe_value(found)}; it "
                   "must return an array.")
            raise TypeError(msg)
        return found

    def widened(self, carried: Any, tree: Any) -> list[Any]:
        """The leaves of data in another tree."""
        leaves, own = tree_flatten(carried)
        if own == tree:
            return leaves
        leaves, own = tree_flatten(self.definition.widen(carried, tree))
        if own != tree:
            msg = (f"{type(self.definition).__name__}.widen returned the tree {own} for "
                   f"{describe_value(carried)}; it must have the structure {tree}.")
            raise TypeError(msg)
        return leaves

    def common(self, forms: Sequence[Form]) -> Any:
        """The tree with the most leaves."""
        return max(forms, key=lambda form: len(form.avals)).tree

    def check(self, leaves: Sequence[Any]) -> None:
        for leaf in leaves:
            if not is_array_value(leaf):
                msg = (f"{self.name}: data that enters a program is a tree of arrays, but this "
                       f"holds {describe_value(leaf)}. Register its class as a pytree, or "
                       "interpret the primitive in apply().")
                raise TypeError(msg)

    def refuse(self, what: str, one: Form, other: Form) -> NoReturn:
        raise LazyTypeError(lambda: (
            f"{self.name}: the data of {what} has different types, {one} and {other}. Give them "
            "the same types in apply(), or cast them in widen()."))
