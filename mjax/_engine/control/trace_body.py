"""Bodies of control flow: users' functions of pytrees, staged to jaxprs without tracers.

Closed-over values of outer traces become leading inputs of the jaxpr, and operands of the
primitive. A body of a loop or branch is staged once per function and types, as long as the function
lives. JAX's users expect some functions to be traced in each call (`map`, solvers). Then the new
program is compared with the kept one, which is reused if they are equal.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyText, LazyTypeError
from mjax._engine.base.folding import calling
from mjax._engine.base.program_caches import programs_of
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, Var
from mjax._engine.ir.jaxpr_equality import same_program
from mjax._engine.ir.promotion import result_type
from mjax._engine.ir.pytree import keystr, tree_flatten_with_path
from mjax._engine.ir.types import same_array_type, typeof
from mjax._engine.primitives.convert import convert_element_type
from mjax._engine.tracing.flat import FlatFunction, debug_info_of, describe_function
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.reference import Ref, refuse_returned
from mjax._engine.tracing.rule_errors import refuse_effects_in
from mjax._engine.tracing.stage import StageInterpreter, lift_tracers, stage


class Body(Record):
    """A staged body.

    Attributes:
      jaxpr: from `(*consts, *arguments)` to the leaves of the function's result.
      consts: the tracers it closed over; arrays stay the jaxpr's constants.
      out_tree: the tree of its results.
    """

    jaxpr: Jaxpr
    consts: list[Any]
    out_tree: Any

    def results(self) -> Any:
        """The tree of the results' types."""
        return self.out_tree.unflatten(self.jaxpr.out_avals)


#: So many programs are kept that a function has for one key, as its branches are taken.
_MOST_ALIKE = 8


def derived(make: Callable[..., Callable[..., Any]], *functions: Callable[..., Any]
            ) -> Callable[..., Any]:
    """A function made from users' functions, cached so that it is staged, and loops in it are
    compiled, once.

    Args:
      make: a function at module level. It gets, for each user's function, a function that returns
        it. Only these may hold users' functions, because the cache must not keep them alive.
      functions: the users' functions.
    """
    known = programs_of(*functions)
    try:
        return known.get(make) or known.put(make, make(*map(weakref.ref, functions)))
    except TypeError:  # one does not take weak references
        return make(*[lambda f=f: f for f in functions])


def stage_body(traced_for: str, f: Callable[..., Any], in_tree: Any, in_avals: Sequence[Any],
               users: Callable[..., Any] | None = None, control_flow: bool = True,
               again: bool = False, interp: StageInterpreter | None = None) -> Body:
    """Stages a function; once per function, types, settings and named axes.

    Args:
      traced_for: the public function, for messages.
      f: the function.
      in_tree: structure of `(args, kwargs)`.
      in_avals: types of their leaves.
      users: the user's function if `f` is `derived` from it; for messages.
      control_flow: whether it may run more or less than once, which its effects have to allow.
      again: whether it is staged in each call, because closed-over values may have changed. If
        they have not, the result is the kept body, for which there are executables.
      interp: see `stage`. The body is kept if the interpreter says that it is general.
    """
    key = (traced_for, in_tree, tuple(in_avals), thread.settings, thread.axis_env)
    known = programs_of(f)
    body = found = known.get(key)
    if body is None or again:
        flat = FlatFunction(f, in_tree)
        args, kwargs = in_tree.unflatten(in_avals)
        info = (debug_info_of(traced_for, f, args, kwargs, *_leafless(in_tree, kwargs))
                if users is None else DebugInfo(traced_for, describe_function(users)))
        with calling(lambda: (f"Raised by the call of {info.func_src_info}, which was given to "
                              f"{traced_for}.")):
            jaxpr, consts = lift_tracers(stage(flat, in_avals, info, interp))
        refuse_returned(traced_for, jaxpr)
        if control_flow:
            refuse_effects_in(
                [jaxpr], "control_flow", lambda: f"{traced_for}: {info.func_src_info} has",
                "Move them out of the body.")
        if (found is not None and not consts and found.out_tree == flat.out_tree
                and same_program(found.jaxpr, jaxpr)):
            return found
        body = Body(jaxpr, consts, flat.out_tree)
        # Tracers would pin, and outlive, the trace they belong to.
        if all(type(c) is Ref for c in consts) and (interp is None or interp.general):
            known.put(key, body)
    return body


def found_again(f: Callable[..., Any], key: Any, jaxpr: Jaxpr) -> Jaxpr:
    """An equal program kept for a function under a key, for which there are executables; else this
    one, which is kept from now on. Besides the last one, only few without constants are kept:
    constants may be large."""
    known, key = programs_of(f), (key, *jaxpr.in_avals)
    kept: tuple[Jaxpr, ...] = known.get(key, ())
    for found in kept:
        if same_program(found, jaxpr):
            return found
    if not any(isinstance(c, Tracer) for c in jaxpr.consts):
        known.put(key, (jaxpr, *[old for old in kept if not old.consts][:_MOST_ALIKE - 1]))
    return jaxpr


def _leafless(in_tree: Any, kwargs: dict[str, Any]) -> tuple[list[int], list[str]]:
    """Arguments without leaves, by position and by name: static ones have none."""
    positional, named = (tree.children() for tree in in_tree.children())
    return ([i for i, tree in enumerate(positional) if not tree.num_leaves],
            [name for name, tree in zip(sorted(kwargs), named, strict=True)
             if not tree.num_leaves])


def share_consts(bodies: Sequence[Body]) -> tuple[list[Jaxpr], list[Any]]:
    """Makes bodies take the same closed-over values; returns the jaxprs and these values."""
    values = {id(c): c for body in bodies for c in body.consts}
    shared = list(values.values())
    return [_with_consts(body, shared) if shared else body.jaxpr for body in bodies], shared


def _with_consts(body: Body, shared: Sequence[Any]) -> Jaxpr:
    """The jaxpr of a body with an input for each shared value, used or not."""
    jaxpr, n = body.jaxpr, len(body.consts)
    own = dict(zip(map(id, body.consts), jaxpr.invars[:n], strict=True))
    names = jaxpr.debug_info.arg_names or ()
    return jaxpr.replace(
        invars=[*(own.get(id(c)) or Var(typeof(c)) for c in shared), *jaxpr.invars[n:]],
        debug_info=jaxpr.debug_info._replace(
            arg_names=(*("a closed-over value" for _ in shared), *names[n:])))


# ---- types that have to agree ----------------------------------------------------------


class Typed(Record):
    """A tree of types and its name in messages."""

    name: str
    tree: Any
    avals: Sequence[Any]


def agree(a: Typed, b: Typed) -> bool:
    """Whether two trees have the same structure, shapes and dtypes.

    Weak types and device variance are made to agree.
    """
    return a.tree == b.tree and all(map(same_array_type, a.avals, b.avals))


def check_alike(wanted: Typed, given: Typed, root: str, message: Callable[[], str],
                error: type[LazyText] = LazyTypeError) -> None:
    """Refuses a tree that is not like another.

    Args:
      wanted, given: both trees.
      root: see `differences`.
      message: says what must be alike; a list of the differences follows.
      error: the class of the error.
    """
    if not agree(wanted, given):
        raise error(lambda: f"{message()}\n{differences(wanted, given, root)}")


def differences(a: Typed, b: Typed, root: str = "") -> str:
    """The differences of two trees of types: a line per leaf, with its key path below `root`."""
    left, right = _by_path(a, root), _by_path(b, root)
    lines = []
    for path in {**left, **right}:
        one, other = left.get(path), right.get(path)
        if one is None or other is None or not same_array_type(one, other):
            lines.append(f"  {path or 'the value'}: {one or 'missing'} in {a.name}, "
                         f"{other or 'missing'} in {b.name}{_remedy(one, other)}")
    if not lines:
        lines = [f"  {a.name} has the tree structure {a.tree},", f"  {b.name} {b.tree}"]
    return "\n".join(lines)


def _by_path(typed: Typed, root: str) -> dict[str, Any]:
    tree = typed.tree.unflatten(typed.avals)
    return {root + keystr(path): aval for path, aval in tree_flatten_with_path(tree)[0]}


def _remedy(wanted: Any, given: Any) -> str:
    if wanted is None or given is None:
        return ""
    if getattr(wanted, "shape", None) == getattr(given, "shape", 0):
        return f"; cast with .astype({wanted.dtype.name!r})"
    return ""


def promote_weak(values: Sequence[Any], outs: Sequence[Any]) -> list[Any] | None:
    """Start values of a loop, converted where the body turned weak types into strong ones.

    Args:
      values: the start values.
      outs: types after one iteration.

    Returns:
      The values, those of weak types converted where `outs` says so; None if there are none.
    """
    new = [convert_element_type(v, result_type(v, out.dtype))
           if typeof(v).weak_type and not same_array_type(typeof(v), out) else v
           for v, out in zip(values, outs, strict=True)]
    return new if any(n is not v for n, v in zip(new, values, strict=True)) else None
