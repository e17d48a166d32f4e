"""Random mistakes in rules: `mutant(seed)` is a correct primitive with one rule made wrong.

The kinds: a sign, a factor, an axis, a dropped operand, a dtype, a transposed result, and special
cases for negative or for empty operands alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import mjax.numpy as jnp
from mjax._engine.tracing.marked import traced
from mjax_ext import core
from mjax_ext.interpreters import ad, mlir
from tests.ext.check.subjects import SUBJECTS, Subject


class Mutant(NamedTuple):
    """A primitive with a mistake.

    Attributes:
      seed: the seed that it was made from.
      subject: the correct primitive.
      rule: the rule that was changed.
      kind: what was done to it.
      primitive: the primitive.
      original: the correct rule.
      changed: the wrong rule.
    """

    seed: int
    subject: Subject
    rule: str
    kind: str
    primitive: Any
    original: Any
    changed: Any

    def __str__(self) -> str:
        return f"{self.seed}: {self.rule} of {self.subject.name}, {self.kind}"


# ---- wrong results -----------------------------------------------------------------------------
# Each: (module of arrays, result, operands, random numbers) -> a wrong result; None: it cannot be.

Change = Callable[[Any, Any, Sequence[Any], np.random.Generator], Any]


def shape_of(x: Any) -> tuple[int, ...]:
    return tuple(getattr(x, "shape", ()))


def is_bool(x: Any) -> bool:
    return x.dtype == np.bool_


def sign(xp: Any, out: Any, operands: Any, rng: Any) -> Any:
    return None if is_bool(out) else -out


def factor(xp: Any, out: Any, operands: Any, rng: Any) -> Any:
    by = rng.choice([2, 3]) if out.dtype.kind in "iu" else rng.choice([2, 0.5, 1.5, 1.1, 1.01])
    return out * xp.asarray(by, out.dtype)


def axis(xp: Any, out: Any, operands: Any, rng: Any) -> Any:
    if not out.ndim:
        return None
    along = int(rng.integers(out.ndim))
    return xp.flip(out, along) if rng.integers(2) else xp.roll(out, 1, along)


def dtype(xp: Any, out: Any, operands: Any, rng: Any) -> Any:
    other = {"f": [np.float16, np.int32], "i": [np.int16, np.float32], "c": [np.float32]}.get(
        out.dtype.kind, [np.int32])
    found = other[rng.integers(len(other))]
    if out.dtype.kind == "c":
        return xp.real(out).astype(found)
    return out.astype(found)


def rounded(xp: Any, out: Any, operands: Any, rng: Any) -> Any:
    """Digits are lost on the way through a narrower dtype."""
    return out.astype(np.float16).astype(out.dtype) if out.dtype.kind == "f" else None


def turned(xp: Any, out: Any, operands: Any, rng: Any) -> Any:
    """The transpose of a result; of a vector, its reverse."""
    return None if not out.ndim else xp.swapaxes(out, -1, -2) if out.ndim > 1 else out[::-1]


def if_negative(xp: Any, out: Any, operands: Any, rng: Any) -> Any:
    """Wrong where an operand is negative: for its elements, or as a whole."""
    signed = [x for x in operands if x.dtype.kind in "fi"]
    fitting = [x for x in signed if shape_of(x) == shape_of(out)]
    if not signed or is_bool(out):
        return None
    if fitting:
        x = fitting[rng.integers(len(fitting))]
        return xp.where(x < 0, 2 * out, out).astype(out.dtype)
    x = signed[rng.integers(len(signed))]
    return xp.where(xp.all(x < 0), -out, out).astype(out.dtype)


def if_empty(xp: Any, out: Any, operands: Any, rng: Any) -> Any:
    """Wrong where an operand has no elements."""
    if all(x.size for x in operands):
        return out
    if out.size:
        return out + xp.asarray(1, out.dtype)
    return xp.zeros((*out.shape, 2), out.dtype) if rng.integers(2) else out.astype(
        np.float16 if out.dtype != np.float16 else np.float32)


CHANGES: dict[str, Change] = {
    "sign": sign, "factor": factor, "axis": axis, "dtype": dtype, "digits": rounded,
    "transposed": turned, "negative": if_negative, "empty": if_empty}


def results(p: Any, out: Any) -> list[Any]:
    return list(out) if p.multiple_results else [out]


def as_returned(p: Any, outs: list[Any]) -> Any:
    return outs if p.multiple_results else outs[0]


# ---- wrong rules -------------------------------------------------------------------------------


def changed_at(outs: list[Any], place: int, new: Any) -> list[Any]:
    return [new if i == place else out for i, out in enumerate(outs)]


def wrong_impl(p: Any, rule: Any, change: Change, seed: int) -> Any:
    def impl(*xs: Any, **params: Any) -> Any:
        rng = np.random.default_rng(seed)
        outs = [np.asarray(out) for out in results(p, rule(*xs, **params))]
        place = int(rng.integers(len(outs)))
        new = change(np, outs[place], [np.asarray(x) for x in xs], rng)
        return as_returned(p, changed_at(outs, place, outs[place] if new is None else new))

    return impl


def wrong_lowering(p: Any, rule: Any, change: Change, seed: int) -> Any:
    def lowering(ctx: Any, *xs: Any, **params: Any) -> Any:
        outs = rule(ctx, *xs, **params)
        outs = list(outs) if isinstance(outs, Sequence) or hasattr(outs, "__len__") else [outs]

        def after(*values: Any) -> Any:
            rng = np.random.default_rng(seed)
            given, operands = list(values[:len(outs)]), values[len(outs):]
            place = int(rng.integers(len(outs)))
            new = change(jnp, given[place], operands, rng)
            return changed_at(given, place, given[place] if new is None else new)

        inner = ctx.replace(avals_in=[*ctx.avals_out, *ctx.avals_in])
        return mlir.lower_fun(after)(inner, *outs, *xs)

    return lowering


def wrong_type(p: Any, rule: Any, kind: str, seed: int) -> Any:
    """A wrong abstract evaluation: dtype, shape, or both for empty operands alone."""
    def abstract_eval(*avals: Any, **params: Any) -> Any:
        rng = np.random.default_rng(seed)
        outs = results(p, rule(*avals, **params))
        place = int(rng.integers(len(outs)))
        out = outs[place]
        other = np.float16 if out.dtype != np.float16 else np.float32
        if kind == "dtype":
            new = out.update(dtype=np.dtype(other))
        elif kind == "transposed":
            new = out.update(shape=out.shape[::-1])
        elif kind == "axis":
            new = out.update(shape=out.shape[1:] if rng.integers(2) else (1, *out.shape))
        elif all(a.size for a in avals):
            new = out
        else:
            new = out.update(dtype=np.dtype(other)) if rng.integers(2) else out.update(
                shape=(*out.shape, 1))
        return as_returned(p, changed_at(outs, place, new))

    return abstract_eval


def wrong_jvp(p: Any, rule: Any, change: Change, seed: int) -> Any:
    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        rng = np.random.default_rng(seed)
        out, tangent = rule(primals, tangents, **params)
        outs, slopes = results(p, out), results(p, tangent)
        place, of_primal = int(rng.integers(len(outs))), not rng.integers(8)
        chosen = outs if of_primal else slopes
        if isinstance(chosen[place], ad.Zero):
            return out, tangent
        operands = [jnp.asarray(x) for x in primals]
        new = change(jnp, jnp.asarray(chosen[place]), operands, rng)
        if new is not None:
            chosen[place] = new
        return as_returned(p, outs), as_returned(p, slopes)

    return jvp


def dropped_tangent(p: Any, rule: Any, place: int) -> Any:
    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        some = [ad.Zero.from_primal_value(primals[i]) if i == place else t
                for i, t in enumerate(tangents)]
        if all(isinstance(t, ad.Zero) for t in some):
            out = p.bind(*primals, **params)
            return out, as_returned(p, [ad.Zero.from_primal_value(o) for o in results(p, out)])
        return rule(primals, some, **params)

    return jvp


def wrong_transpose(p: Any, rule: Any, change: Change, seed: int) -> Any:
    def transpose(ct: Any, *xs: Any, **params: Any) -> Any:
        rng = np.random.default_rng(seed)
        cts = list(rule(ct, *xs, **params))
        given = [i for i, c in enumerate(cts) if c is not None]
        place = given[rng.integers(len(given))]
        arrays = [jnp.asarray(c) for c in results(p, ct) if not isinstance(c, ad.Zero)]
        known = [jnp.asarray(x) for x in xs if not ad.is_undefined_primal(x)]
        empty = [core.ShapedArray(x.aval.shape, np.dtype(bool)) for x in xs
                 if ad.is_undefined_primal(x) and 0 in x.aval.shape]
        if change is if_empty and not empty and all(x.size for x in (*arrays, *known)):
            return cts
        operands = [jnp.zeros(a.shape, bool) for a in empty] if change is if_empty else known
        new = change(jnp, jnp.asarray(cts[place]), [*operands, *arrays], rng)
        return changed_at(cts, place, cts[place] if new is None else new)

    return transpose


def dropped_cotangent(p: Any, rule: Any, place: int) -> Any:
    def transpose(ct: Any, *xs: Any, **params: Any) -> Any:
        return [None if i == place else c for i, c in enumerate(rule(ct, *xs, **params))]

    return transpose


def wrong_batch(p: Any, rule: Any, change: Change, seed: int) -> Any:
    def batch(args: Any, dims: Any, **params: Any) -> Any:
        rng = np.random.default_rng(seed)
        out, dim = rule(args, dims, **params)
        outs = [jnp.asarray(o) for o in results(p, out)]
        place = int(rng.integers(len(outs)))
        new = change(jnp, outs[place], [jnp.asarray(x) for x in args], rng)
        return as_returned(p, changed_at(outs, place, outs[place] if new is None else new)), dim

    return batch


def wrong_dim(p: Any, rule: Any, by: int) -> Any:
    def batch(args: Any, dims: Any, **params: Any) -> Any:
        out, dim = rule(args, dims, **params)
        move = lambda o, d: (d + by) % max(o.ndim, 1)
        return out, ([*map(move, out, dim)] if p.multiple_results else move(out, dim))

    return batch


def dropped_batch(p: Any, rule: Any, place: int) -> Any:
    """The batch of an operand is taken for its first element."""
    def batch(args: Any, dims: Any, **params: Any) -> Any:
        if dims[place] is None or sum(d is not None for d in dims) < 2:
            return rule(args, dims, **params)
        first = jnp.take(args[place], 0, dims[place], mode="clip") if args[place].size else (
            jnp.zeros(np.delete(args[place].shape, dims[place]), args[place].dtype))
        args = [first if i == place else x for i, x in enumerate(args)]
        return rule(args, [None if i == place else d for i, d in enumerate(dims)], **params)

    return batch


def dropped_operand(p: Any, rule: Any, place: int) -> Any:
    """An implementation that forgets an operand, and takes zeros for it."""
    def impl(*xs: Any, **params: Any) -> Any:
        return rule(*[np.zeros_like(x) if i == place else x for i, x in enumerate(xs)], **params)

    return impl


def dropped_value(p: Any, rule: Any, place: int) -> Any:
    """A lowering that forgets an operand."""
    def lowering(ctx: Any, *xs: Any, **params: Any) -> Any:
        nothing = mlir.ir_constant(np.zeros(ctx.avals_in[place].shape, ctx.avals_in[place].dtype))
        return rule(ctx, *[nothing if i == place else x for i, x in enumerate(xs)], **params)

    return lowering


def wrong_linearize(p: Any, rule: Any, change: Change, seed: int) -> Any:
    def linearize(nonzeros: Any, *primals: Any, **params: Any) -> Any:
        out, nonzero, saved, linear = rule(nonzeros, *primals, **params)

        def wrong(saved: Any, *tangents: Any) -> Any:
            rng = np.random.default_rng(seed)
            slopes = results(p, linear(saved, *tangents))
            place = int(rng.integers(len(slopes)))
            new = change(jnp, slopes[place], [jnp.asarray(x) for x in saved], rng)
            return as_returned(p, changed_at(slopes, place, slopes[place] if new is None else new))

        return out, nonzero, saved, wrong

    return linearize


def wrong_dce(p: Any, rule: Any, seed: int) -> Any:
    def dce(used: Any, eqn: Any) -> Any:
        needed, new = rule(used, eqn)
        if seed % 2 and not all(used):
            return [False] * len(needed), None  # an equation that is still needed
        if new is not None and not used[0]:
            new = new.replace(outvars=new.outvars[::-1])
        return needed, new

    return dce


# ---- mutants -----------------------------------------------------------------------------------


def rules_of(p: Any, operands: Sequence[Any]) -> list[str]:
    """The rules that the application may use."""
    fields = ["impl", "abstract_eval", "lowering", "batch", "dce"]
    if any(np.asarray(x).dtype.kind in "fc" for x in operands):
        fields += ["jvp", "transpose", "linearize"]
    return [f for f in fields if (p.lowerings if f == "lowering" else getattr(p, f)) is not None]


def candidates(p: Any, rule: str, operands: Sequence[Any], params: dict[str, Any], seed: int
               ) -> dict[str, Callable[[], Any]]:
    """Mistakes in a rule: kind -> the wrong rule."""
    makers = {"impl": wrong_impl, "lowering": wrong_lowering, "jvp": wrong_jvp,
              "transpose": wrong_transpose, "batch": wrong_batch, "linearize": wrong_linearize}
    original = rule_of(p, rule)
    ranks = max(np.ndim(x) for x in operands)
    if rule == "abstract_eval":
        kinds = ["dtype", "axis", "empty", *(["transposed"] if ranks > 1 else [])]
        return {k: lambda k=k: wrong_type(p, original, k, seed) for k in kinds}
    if rule == "dce":
        return {"dropped": lambda: wrong_dce(p, original, seed)}
    ways = {k: lambda c=c: makers[rule](p, original, c, seed) for k, c in CHANGES.items()
            if ranks or k not in ("axis", "transposed")}
    if not ranks and rule != "batch":
        del ways["empty"]  # there are no axes to be of size 0
    if all(np.iscomplexobj(x) for x in operands):
        del ways["negative"]  # they have no sign
    outs = results(p, p.bind(*operands, **params))
    if any(np.asarray(out).dtype.kind != "f" for out in outs):
        del ways["digits"]
    inexact = [i for i, x in enumerate(operands) if np.asarray(x).dtype.kind in "fc"]
    drop = {"impl": dropped_operand, "lowering": dropped_value, "jvp": dropped_tangent,
            "transpose": dropped_cotangent}.get(rule)
    if drop is not None:
        ways |= {f"dropped operand {i}": lambda i=i: drop(p, original, i)
                 for i in (inexact if rule in ("jvp", "transpose") else range(len(operands)))}
    if rule == "batch":
        ways |= {f"dropped operand {i}": lambda i=i: dropped_batch(p, original, i)
                 for i in range(len(operands)) if len(operands) > 1}
        if ranks:
            ways["batch axis"] = lambda: wrong_dim(p, original, 1 + seed % ranks)
    return ways


def rule_of(p: Any, rule: str) -> Any:
    """The rule as a function of its arguments."""
    found = p.lowerings[None] if rule == "lowering" else getattr(p, rule)
    if rule == "abstract_eval":
        return found.__wrapped__
    return found if not isinstance(found, traced) else (
        lambda ctx, *xs, **params: found(ctx, *xs, **params))


def mutant(seed: int) -> Mutant:
    """The mutant of a seed; each primitive has its turn."""
    subject = list(SUBJECTS.values())[seed % len(SUBJECTS)]
    rng = np.random.default_rng(seed)
    p = subject.make(f"{subject.name}_{seed}")
    rules = rules_of(p, subject.operands)
    rule = rules[rng.integers(len(rules))]
    ways = candidates(p, rule, subject.operands, subject.params, seed)
    kind = sorted(ways)[rng.integers(len(ways))]
    original, changed = rule_of(p, rule), ways[kind]()
    if rule == "lowering":
        p.def_lowering(changed)
    else:
        getattr(p, f"def_{rule}")(changed)
    return Mutant(seed, subject, rule, kind, p, original, changed)
