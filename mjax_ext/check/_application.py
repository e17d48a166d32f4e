"""One application of a primitive as a function from NumPy arrays to NumPy arrays.

Keys stand for their data, and references for their contents: a function of those makes keys and
references, applies the primitive, and returns the contents afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mjax
from mjax._engine.base.records import Record
from mjax._engine.base.sockets import sockets
from mjax._engine.control.references.primitives import free_ref_p, freeze_p, new_ref_p
from mjax._engine.ir import dtypes
from mjax._engine.ir.effects import Effects
from mjax._engine.ir.jaxpr import Jaxpr, Literal, jaxprs_in_params
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.types import ShapedArray, is_object_value, typeof
from mjax._engine.primitives.keys import random_unwrap_p, random_wrap_p
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.tracing.user_types import Packed, lowered, pack_p
from mjax_ext._operands import Operands

#: Arrays in NumPy.
Arrays = list[Any]


class Operand(Record):
    """An operand of the application.

    Attributes:
      aval: its type.
      value: the example: an array of NumPy, or what is handed to the primitive as it is.
      kind: "array", "key", "reference", "packed" (a value of a user's type, by the arrays that
        represent it) or "fixed".
    """

    aval: Any
    value: Any
    kind: str


def operand_of(example: Any) -> Operand:
    """The operand that an example stands for."""
    aval = typeof(example)
    if is_reference(aval):
        return Operand(aval, np.array(example[...]), "reference")
    if isinstance(example, Packed) or is_object_value(example):
        parts = example.parts if isinstance(example, Packed) else lowered(example, aval)
        return Operand(aval, list(map(np.array, parts)), "packed")
    if not isinstance(aval, ShapedArray):
        return Operand(aval, example, "fixed")
    if aval.extended:
        return Operand(aval, np.array(random_unwrap_p.bind(example)), "key")
    return Operand(aval, np.array(example, aval.dtype), "array")


class Application:
    """A primitive with operands and params.

    Args:
      primitive: the primitive.
      examples: its operands.
      params: its params.

    Attributes:
      examples: the operands as they were given.
      given: the same with what is said about them (`Operands`).
      operands: what is known of each.
      places: the numbers of the operands that are arrays of NumPy in `values`.
      values: these arrays.
      ranks: for each of `values` the number of axes along which it may be batched.
      programs: whether the params hold programs.
      axes: the named axes that the params refer to, if the application has them.
    """

    axes: tuple[Any, ...] = ()

    def __init__(self, primitive: Primitive, examples: Sequence[Any], params: dict[str, Any]):
        self.primitive = primitive
        self.params = params
        self.examples = list(examples)
        self.given = examples if isinstance(examples, Operands) else Operands(examples)
        self.operands = [operand_of(example) for example in examples]
        self.places = [i for i, o in enumerate(self.operands) if o.kind not in ("fixed", "packed")]
        self.values: Arrays = [self.operands[i].value for i in self.places]
        self.ranks = [len(self.operands[i].aval.shape) for i in self.places]
        self.programs = any(True for _ in jaxprs_in_params(params))
        self._compiled = mjax.jit(lambda *values: self.call(*values))

    def __str__(self) -> str:
        params = "".join(f", {name}={_short(value)}" for name, value in self.params.items())
        return f"{self.primitive.name}({', '.join(str(o.aval) for o in self.operands)}{params})"

    @property
    def plain(self) -> bool:
        """Whether all operands are arrays of numbers."""
        return not self.axes and all(operand.kind == "array" for operand in self.operands)

    @property
    def inexact(self) -> list[int]:
        """The numbers of the values that have derivatives."""
        return [k for k, i in enumerate(self.places) if self.operands[i].kind != "key"
                and dtypes.is_inexact(self.values[k].dtype)]

    def types(self) -> tuple[list[Any], Effects]:
        """The types of the results and the effects, by the abstract evaluation."""
        return self.primitive.infer([operand.aval for operand in self.operands], self.params)

    def types_again(self) -> list[Any]:
        """The types of the results, by a further call of the rule."""
        rule: Any = self.primitive.abstract_eval
        out = rule(*[operand.aval for operand in self.operands], **self.params)[0]
        return list(out) if self.primitive.multiple_results else [out]

    def bind(self, *operands: Any) -> list[Any]:
        """The results of the primitive as a list."""
        out = self.primitive.bind(*operands, **self.params)
        return list(out) if self.primitive.multiple_results else [out]

    def call(self, *values: Any, bind: Callable[..., list[Any]] | None = None) -> list[Any]:
        """The results as arrays of numbers, and the contents of references afterwards.

        Args:
          values: arrays that stand for the operands.
          bind: applies the primitive; by default `self.bind`.
        """
        operands: list[Any] = [
            pack_p.bind(*operand.value, aval=operand.aval) if operand.kind == "packed" else
            operand.value for operand in self.operands]
        refs = []
        for place, value in zip(self.places, values, strict=True):
            operand = self.operands[place]
            if operand.kind == "key":
                value = random_wrap_p.bind(value, impl=operand.aval.dtype._impl)
            elif operand.kind == "reference":
                value = new_ref_p.bind(value)
                refs.append(value)
            operands[place] = value
        if self.given.fit is not None:
            operands = list(self.given.fit(*operands))
        outs = [as_numbers(out) for out in (bind or self.bind)(*operands)]
        contents = [freeze_p.bind(ref) for ref in refs
                    if self.primitive not in (freeze_p, free_ref_p)]
        return [out for out in (*outs, *contents) if out is not None]

    def evaluate(self, *values: Any) -> Arrays:
        """The results of an evaluation, in NumPy; the values are copied first."""
        forward = self.given.forward
        bind = None if forward is None else lambda *operands: list(forward(*operands))
        with np.errstate(all="ignore"):
            return list(map(in_numpy, self.call(*map(np.array, values), bind=bind)))

    def run(self, jaxpr: Jaxpr, values: Sequence[Any]) -> Arrays:
        """The results of a program that applies the primitive, operation by operation."""
        with np.errstate(all="ignore"):
            if self.given.forward is None:
                return list(map(in_numpy, eval_jaxpr(jaxpr, jaxpr.consts, *values)))
            env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*jaxpr.consts, *values],
                           strict=True))
            read = lambda atom: atom.val if isinstance(atom, Literal) else env[atom]
            for eqn in jaxpr.eqns:
                ins = list(map(read, eqn.invars))
                if eqn.primitive is self.primitive:
                    outs = twice_transposed(eqn, ins, self.given.linear)
                else:
                    out = eqn.primitive.bind(*ins, **eqn.primitive.get_bind_params(eqn.params))
                    outs = out if eqn.primitive.multiple_results else [out]
                env.update(zip(eqn.outvars, outs, strict=True))
            return list(map(in_numpy, map(read, jaxpr.outvars)))

    def lowered(self, *values: Any) -> Arrays:
        """The results of the lowering in NumPy; it is compiled once per types."""

        if not self.plain or not all(isinstance(a, ShapedArray) for a in self.types()[0]):
            with np.errstate(all="ignore"):
                return list(map(in_numpy, self._compiled(*values)))

        def bind(*operands: Any) -> list[Any]:
            out = sockets.execute(self.primitive, operands, self.params)
            return list(out) if self.primitive.multiple_results else [out]

        with np.errstate(all="ignore"):
            return list(map(in_numpy, self.call(*map(np.array, values), bind=bind)))


def twice_transposed(eqn: Any, operands: Sequence[Any], linear: Sequence[int]) -> Sequence[Any]:
    """The results of an equation, from its transpose rule alone: the transpose of its transpose.

    Args:
      eqn: the equation.
      operands: its operands.
      linear: the numbers of those in which it is linear.
    """
    def forward(*some: Any) -> Any:
        given = dict(zip(linear, some, strict=True))
        out = eqn.primitive.bind(*[given.get(i, x) for i, x in enumerate(operands)],
                                 **eqn.primitive.get_bind_params(eqn.params))
        return list(out) if eqn.primitive.multiple_results else [out]

    some = [operands[i] for i in linear]
    back = lambda *cts: mjax.linear_transpose(forward, *some)(list(cts))
    outs: Sequence[Any] = mjax.linear_transpose(back, *[mjax.ShapeDtypeStruct(
        v.aval.shape, v.aval.dtype) for v in eqn.outvars])(tuple(some))
    return outs


def as_numbers(out: Any) -> Any:
    """A result as an array of numbers; None if there are none in it."""
    aval = typeof(out)
    if is_reference(aval):
        return freeze_p.bind(out)
    if not isinstance(aval, ShapedArray):
        return None
    return random_unwrap_p.bind(out) if aval.extended else out


def in_numpy(x: Any) -> Any:
    """An array in NumPy, in its canonical dtype."""
    return np.asarray(x, typeof(x).dtype)


class Traced:
    """A program that has been traced, and is evaluated operation by operation.

    Operations are compiled once per process and types, so further values cost little, and other
    checks share them.

    Args:
      f: a function of trees of arrays, which gives a list of arrays.
      args: its arguments, of which the types are used.
    """

    def __init__(self, f: Callable[..., Any], *args: Any):
        self.jaxpr = mjax.make_jaxpr(f)(*args)

    def __call__(self, *args: Any) -> Arrays:
        with np.errstate(all="ignore"):
            outs = eval_jaxpr(self.jaxpr, self.jaxpr.consts, *mjax.tree.leaves(args))
            return list(map(in_numpy, outs))


#: Half the time of a check would go into machine code that runs once.
UNOPTIMIZED = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def together(application: Application, programs: Sequence[tuple[Traced, Sequence[Any]]]
             ) -> list[Arrays]:
    """The results of several programs for their arguments.

    They are compiled as one if the primitive has to be compiled for each type of operands, and
    evaluated one by one if it has an implementation, or only a transpose.
    """
    alone = application.primitive.impl is not None or application.given.forward is not None
    if alone or len(programs) < 2:
        return [application.run(program.jaxpr, mjax.tree.leaves(args))
                for program, args in programs]
    jaxprs = [program.jaxpr for program, _ in programs]
    run = mjax.jit(lambda args: [eval_jaxpr(jaxpr, jaxpr.consts, *xs) for jaxpr, xs in zip(
        jaxprs, args, strict=True)], compiler_options=UNOPTIMIZED)
    return [list(map(in_numpy, outs)) for outs in run(
        [mjax.tree.leaves(args) for _, args in programs])]


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
