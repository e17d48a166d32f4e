"""Programs with references among their arguments, as pure ones that take and give arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyDeletedError
from mjax._engine.ir.pytree import tree_structure
from mjax._engine.ir.references import written
from mjax._engine.ir.source import summarize
from mjax._engine.runtime.dispatch.executable import Asked
from mjax._engine.tracing.reference import RefPlacement, refuse_aliases
from mjax._engine.transforms.discharge import discharge_jaxpr, in_order


def discharged(asked: Asked, refs: Sequence[int], same: tuple[tuple[int, int], ...] = ()
               ) -> tuple[Asked, tuple[int, ...]]:
    """The pure form of a program, to which references are donated if it writes them.

    Args:
      asked: the program, with placements of arrays.
      refs: the arguments that are references.
      same: see `discharge_jaxpr`.

    Returns:
      The program, whose last results are the final contents of references; the numbers of these.
    """
    ends = {dict(same).get(i, i) for i in written(asked.jaxpr.effects)}
    pure, finals = discharge_jaxpr(asked.jaxpr, refs, sorted(ends), True, same)
    n, placements = len(asked.placements), asked.placements
    given = asked.in_shardings or [None] * n
    # Contents stay where they are, whatever is written.
    stay = [given[i] or (placements[i].sharding if placements[i].committed else None)
            for i in finals]
    return asked._replace(
        jaxpr=in_order(pure, finals),
        donated=[i in finals or (d and i not in refs)
                 for i, d in enumerate(asked.donated or [False] * n)],
        out_shardings=[*(asked.out_shardings or [None] * len(asked.jaxpr.outvars)), *stay]
        if any(stay) else asked.out_shardings and [*asked.out_shardings, *stay],
        stored=finals), finals


def run_on_contents(run: Callable[..., Sequence[Any]], operands: Sequence[Any], refs: Sequence[int],
                    finals: Sequence[int]) -> Sequence[Any]:
    """Runs the pure form of a program, and stores final contents.

    Args:
      run: from all arguments to the results and final contents.
      operands: the arguments.
      refs: which of them are references.
      finals: those of these that are written.

    Raises:
      RuntimeError: another thread writes one of them at this time.
    """
    given = [x.content() if i in refs else x for i, x in enumerate(operands)]
    try:
        found = run(given)
    except LazyDeletedError:
        lost = next((operands[i] for i in refs if given[i].is_deleted()), None)
        if lost is None:
            raise
        raise LazyDeletedError(lambda: (
            f"a reference of type {lost.aval}, made at {summarize(lost._source)}, is written by "
            "two threads at once, or by one while another reads it. Let one use it at a time, as "
            "by threading.Lock.")) from None
    n = len(found) - len(finals)
    for i, content in zip(finals, found[n:], strict=True):
        operands[i].store(content)
    return found[:n]


def with_references(asked: Asked, out_tree: Any, compiled: Callable[[Asked, Any], Any]
                    ) -> Callable[..., Any]:
    """A function that runs a program with references among its arguments.

    Args:
      asked: the program.
      out_tree: the tree of its results.
      compiled: from a pure program, and the tree of its results, to a function that runs it.
    """
    info = asked.jaxpr.debug_info
    refs = [i for i, p in enumerate(asked.placements) if type(p) is RefPlacement]
    asked = asked._replace(placements=[
        p.placement if type(p) is RefPlacement else p for p in asked.placements])
    known: dict[Any, Any] = {}

    def compute(*args: Any) -> Any:
        first: dict[int, int] = {}
        same = tuple((i, j) for i in refs if (j := first.setdefault(id(args[i]), i)) != i)
        if same and info.traced_for:
            refuse_aliases(info, refs, [args[i] for i in refs])
        if same not in known:
            pure, finals = discharged(asked, list(first.values()), same)
            known[same] = compiled(pure, tree_structure([0] * len(pure.jaxpr.outvars))), finals
        run, finals = known[same]
        return out_tree.unflatten(run_on_contents(lambda given: run(*given), args, refs, finals))

    return compute
