"""The Primitive record: all facts and all rules of a primitive in one place.

Rules follow JAX's signatures, for the engine's own primitives as for users':

    impl(*args, **params)                    -> value
    abstract_eval(*avals, **params)          -> aval
    lowering(ctx, *operands, **params)       -> sequence of ir.Value
    jvp(primals, tangents, **params)         -> primal, tangent
    linearize(nonzeros, *primals, **params)  -> primal, nonzero, residuals, linear function
    partial_eval(unknown, *args, **params)   -> see `transforms.partial_eval`
    transpose(cotangent, *args, **params)    -> a cotangent or None per operand
    batch(args, dims, **params)              -> value, dim
    axis_batch(axis, args, dims, **params)   -> value, dim; for rules that need axis data
    dce(used_outputs, eqn)                   -> used inputs, new equation or None
    pretty(params)                           -> params to print

Transpose rules are called only where some cotangent is not zero. With `multiple_results` values, avals, tangents and dims in results are lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mjax._engine.base.context import Context, ctx
from mjax._engine.base.errors import LazyTypeError, MissingRuleError
from mjax._engine.base.util import BoundedCache
from mjax._engine.ir.effects import Effects, no_effects
from mjax._engine.ir.types import AbstractToken, ShapedArray

Rule = Callable[..., Any]

#: Rule name -> (what fails without it, what to write). The texts of `MissingRuleError`.
RULES = {
    "impl": ("evaluation", "@{p}.def_impl\ndef impl(*args, **params): ...  # NumPy or mjax "
             "values\nor give it an abstract evaluation and a lowering."),
    "abstract_eval": ("staging (jit, make_jaxpr, grad)", "@{p}.def_abstract_eval\n"
                      "def abstract_eval(*avals, **params):\n"
                      "  return mjax_ext.core.ShapedArray(shape, dtype)"),
    "lowering": ("compilation for platform {detail}", "def lowering(ctx, *operands, **params):"
                 "\n  return [hlo.add(*operands)]\nmlir.register_lowering({p}, lowering)  # or "
                 "mlir.lower_fun(f, multiple_results=False)"),
    "jvp": ("differentiation (jvp, linearize, grad)", "def jvp(primals, tangents, **params):\n"
            "  ...  # a tangent may be an ad.Zero\n  return primal_out, tangent_out\n"
            "ad.primitive_jvps[{p}] = jvp"),
    "transpose": ("transposition (reverse-mode differentiation, linear_transpose)",
                  "def transpose(cotangent, *args, **params):\n"
                  "  # ad.is_undefined_primal(arg) marks the operands it is linear in\n"
                  "  return [ct_or_None for arg in args]\n"
                  "ad.primitive_transposes[{p}] = transpose"),
    "batch": ("vectorization (vmap)", "def batch(args, dims, **params):  # a dim may be None\n"
              "  return value, out_dim\nbatching.primitive_batchers[{p}] = batch"),
}


class Primitive:
    """A primitive operation.

    Args:
      name: what jaxprs and messages call it.

    Attributes:
      multiple_results: `bind` returns a list, and rules take and give lists.
      types_cacheable: abstract evaluation depends on types and hashable params alone.
      structural: moves elements without looking at them, so that it works for extended
        dtypes through their physical arrays, with the rule in `batch`.

    Example:
      >>> from mjax_ext.core import Primitive
      >>> double_p = Primitive("double")
      >>> double_p.def_impl(lambda x: x + x)  # doctest: +ELLIPSIS
      <function ...>
      >>> double_p.bind(3)
      6
    """

    __slots__ = ("__dict__", "__weakref__", "abstract_eval", "axis_batch", "batch", "dce", "derived",
                 "executables", "impl", "jvp", "linearize", "lowerings", "multiple_results",
                 "name", "partial_eval", "pretty", "structural", "transpose", "typecheck",
                 "types", "types_cacheable")

    def __init__(self, name: str, *, multiple_results: bool = False,
                 types_cacheable: bool = True, structural: bool = False):
        self.name = name
        self.multiple_results = multiple_results
        self.types_cacheable = types_cacheable
        self.structural = structural
        self.impl: Rule | None = None
        #: Gives (avals, effects); `def_abstract_eval` adapts rules that give avals only.
        self.abstract_eval: Rule | None = None
        self.typecheck: Rule | None = None
        #: Platform (None: any) -> rule.
        self.lowerings: dict[str | None, Any] = {}
        self.jvp: Rule | None = None
        self.linearize: Rule | None = None
        self.partial_eval: Rule | None = None
        self.transpose: Rule | None = None
        self.batch: Rule | None = None
        self.axis_batch: Rule | None = None
        self.dce: Rule | None = None
        self.pretty: Rule | None = None
        #: Names of rules that a helper derived rather than an author wrote.
        self.derived: set[str] = set()
        #: (settings, avals, params) -> (type or list of types, effects).
        self.types: BoundedCache = BoundedCache()
        #: The executor's compiled forms of single applications.
        self.executables: BoundedCache = BoundedCache()

    def __repr__(self) -> str:
        return self.name

    # -- application --

    def bind(self, *args: Any, **params: Any) -> Any:
        """Applies the primitive under the current interpreter.

        Args:
          args: arrays, tracers, NumPy or Python scalars.
          params: static parameters; hashable.

        Returns:
          One value, or a list of them if `multiple_results`.
        """
        return ctx.interpreter.process(self, args, params)

    # -- registration of rules --

    def def_impl(self, impl: Rule) -> Rule:
        """Sets how the primitive is evaluated outside of any transformation."""
        self.impl = impl
        self.executables.clear()
        return impl

    def def_abstract_eval(self, rule: Rule) -> Rule:
        """Sets the rule from operand types to result types."""
        self.abstract_eval = lambda *avals, **params: (rule(*avals, **params), no_effects)
        self.abstract_eval.__wrapped__ = rule  # type: ignore[attr-defined]
        self.types.clear()
        return rule

    def def_effectful_abstract_eval(self, rule: Rule) -> Rule:
        """Sets the rule from operand types to result types and a set of effects."""
        self.abstract_eval = rule
        self.types.clear()
        return rule

    def def_lowering(self, rule: Any, platform: str | None = None) -> Any:
        """Sets how the primitive becomes StableHLO, for one platform or all."""
        self.lowerings[platform] = rule
        self.executables.clear()
        return rule

    def def_jvp(self, rule: Rule) -> Rule:
        """Sets the forward derivative."""
        self.jvp = rule
        return rule

    def def_transpose(self, rule: Rule) -> Rule:
        """Sets the transpose of the operation in its undefined operands."""
        self.transpose = rule
        return rule

    def def_batch(self, rule: Rule) -> Rule:
        """Sets how the operation is done for a batch at once."""
        self.batch = rule
        return rule

    def rules(self) -> dict[str, str]:
        """Which rules exist: name to `file:line`, `derived`, or `missing`."""
        table = {name: getattr(self, name) for name in
                 ("impl", "abstract_eval", "jvp", "linearize", "partial_eval", "transpose", "dce",
                  "pretty")}
        table["batch"] = self.batch or self.axis_batch
        table |= {f"lowering[{platform or 'any'}]": rule
                  for platform, rule in (self.lowerings or {None: None}).items()}
        return {name: _where(rule) + (" (derived)" if name in self.derived and rule else "")
                for name, rule in table.items()}

    # -- typing --

    def type_of(self, avals: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, Effects]:
        """Cached result types (one, or a list with `multiple_results`) and effects."""
        if not self.types_cacheable:
            return self._type_of(avals, params)
        key = (ctx.settings, avals, *params.items()) if params else (ctx.settings, avals)
        try:
            return self.types[key]
        except KeyError:
            return self.types.put(key, self._type_of(avals, params))
        except TypeError:
            self._refuse_unhashable(params)

    def infer(self, avals: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], Effects]:
        """Result types as a list, and effects."""
        out, effects = self.type_of(tuple(avals), params)
        return (out if self.multiple_results else [out]), effects

    def _type_of(self, avals: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, Effects]:
        if self.abstract_eval is None:
            self.missing("abstract_eval")
        # Helpers that the rule calls must not be staged into the program under construction.
        previous, ctx.interpreter = ctx.interpreter, Context.interpreter
        try:
            out, effects = self.abstract_eval(*avals, **params)
        finally:
            ctx.interpreter = previous
        outs = list(out) if self.multiple_results else [out]
        for aval in outs:
            if not isinstance(aval, (ShapedArray, AbstractToken)):
                raise LazyTypeError(lambda: (
                    f"the abstract evaluation of primitive {self.name!r} gave {out!r}; it must "
                    f"give {'a list of types' if self.multiple_results else 'one type'} "
                    "(mjax_ext.core.ShapedArray)."))
        outs = [_join_varying(aval, avals) for aval in outs]
        return (outs if self.multiple_results else outs[0]), effects

    # -- errors --

    def missing(self, rule: str, detail: str = "") -> NoReturn:
        """Raises the error for a rule that is not there."""
        transformation, spelling = RULES[rule]
        raise MissingRuleError(lambda: (
            f"Primitive {self.name!r} has no rule for {transformation.format(detail=detail)}. "
            f"Write one, as in:\n\n{spelling.format(p=self.name + '_p')}\n"))

    def _refuse_unhashable(self, params: dict[str, Any]) -> NoReturn:
        for name, value in params.items():
            try:
                hash(value)
            except TypeError:
                msg = (f"Parameter {name!r} of primitive {self.name!r} is not hashable: "
                       f"{value!r} of type {type(value).__name__}. Params are static; pass "
                       "arrays as operands and lists as tuples.")
                raise TypeError(msg) from None
        raise AssertionError("all params are hashable")


def _join_varying(aval: Any, avals: tuple[Any, ...]) -> Any:
    """A result may differ between the devices along every axis along which an operand may."""
    varying = frozenset[Any]().union(*(a.varying for a in avals if isinstance(a, ShapedArray)))
    if varying and isinstance(aval, ShapedArray) and not varying <= aval.varying:
        return aval.update(varying=aval.varying | varying)
    return aval


def _where(rule: Any) -> str:
    if rule is None:
        return "missing"
    rule = getattr(rule, "__wrapped__", getattr(rule, "function", rule))
    code = getattr(rule, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(rule)


class traced:
    """Marks a lowering given as a traceable function; the lowering pass traces it.

    Args:
      function: takes values and the primitive's params, gives values.
      multiple_results: whether it gives a sequence.
    """

    __slots__ = ("function", "multiple_results")

    def __init__(self, function: Rule, multiple_results: bool = False):
        self.function = function
        self.multiple_results = multiple_results
