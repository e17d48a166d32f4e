"""Operations as objects: `VJPHiPrimitive`, one application with its rules as methods."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

from mjax._engine.base.util import selected
from mjax._engine.control.calls.static_arguments import Static
from mjax._engine.ir.pytree import PyTreeDef, tree_flatten, tree_leaves
from mjax._engine.primitives.shapes import reduce_sum
from mjax._engine.primitives.tangents import instantiate, with_zeros
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.batching import (
    AxisData,
    batch_flat,
    batched_type,
    to_dim,
)
from mjax._hijax.applications import (
    Accumulator,
    call_hi_primitive_p,
    computed,
    leaves_of,
    prefix_leaves,
    results_of,
    unwritten,
)


class VJPHiPrimitive:
    """One application of an operation of yours: its types, its params, and its rules as methods.

    A subclass sets `in_avals`, `out_aval` and `params` in `__init__`, then calls
    `super().__init__()`. It defines `expand`, and a rule for each transformation that it needs.
    Calling the object applies the operation. Operands, results, and what rules take and give for
    them are pytrees. Values of a `HiType` are objects in `expand` and traced values in other rules.

    - `expand(*args)`: the results, by other functions. Required.
    - `vjp_fwd(nzs_in, *args)`: the results, and residuals of any pytree; maybe which results have a
      tangent, a tree prefix. `nzs_in` says which operands have one.
    - `vjp_bwd(res, outgrad, *accums)`: gives `accums`, one for each leaf of the operands, their
      cotangents by `accum(ct)`; or `vjp_bwd_retval(res, outgrad)`, which returns their tuple.
    - `jvp(primals, tangents)`: results and tangents; tangents may be `Zero`s.
    - `lin(nzs_in, *args)` and `linearized(res, *tangents)`: the results and residuals; then the
      tangents of the results. Reverse mode uses them, too, if there is no `vjp_fwd`.
    - `transpose(out_ct, *args)`: for operations that are linear in operands, which are
      accumulators.
    - `batch(axis_data, args, dims)`: results and their dims; or `batch_dim_rule(axis_data, dims)`,
      the dims of results, where `vmap` of the rules is meant.
    - `dce(used_outs)`: which operands it uses, which results it gives, and the operation that does;
      tree prefixes of bools. By default all or nothing.
    - `staging(trace, source_info, *args)`: how it becomes part of a program.
    - `check(*in_avals)`: raises where types do not fit.

    Attributes:
      in_avals: the types of the operands, a tuple of pytrees.
      out_aval: the types of the results, a pytree.
      params: name -> value, hashable. They are attributes, too.
      effects: those of the operation.

    Example:
      >>> from mjax.experimental import hijax
      >>> class Power(hijax.VJPHiPrimitive):
      ...     def __init__(self, x, *, n):
      ...         self.in_avals, self.out_aval, self.params = (x,), x, {"n": n}
      ...         super().__init__()
      ...     def expand(self, x):
      ...         return x ** self.n
      ...     def vjp_fwd(self, nzs_in, x):
      ...         return self(x), x
      ...     def vjp_bwd_retval(self, x, ct):
      ...         return (ct * self.n * x ** (self.n - 1),)
      ...     def batch_dim_rule(self, axis_data, dims):
      ...         return dims[0]
      >>> cube = lambda x: Power(mjax.typeof(x), n=3)(x)
      >>> mjax.vmap(mjax.grad(cube))(jnp.arange(3.0))
      Array([ 0.,  3., 12.], dtype=float32)

    Source: `jax.experimental.hijax.VJPHiPrimitive` of release 0.10.2.
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Hashable]
    in_avals_flat: list[Any]
    in_tree: PyTreeDef
    out_avals_flat: list[Any]
    out_tree: PyTreeDef
    effects: ClassVar[frozenset[Any]] = frozenset()
    #: The operation whose rules this one has, vectorized.
    vectorizes: Any = None

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                msg = f"{type(self).__name__}.__init__ must set self.{name}."
                raise AttributeError(msg)
        cls, base = type(self), VJPHiPrimitive
        if base.vjp_bwd is not cls.vjp_bwd and base.vjp_bwd_retval is not cls.vjp_bwd_retval:
            msg = (f"{cls.__name__} defines vjp_bwd and vjp_bwd_retval, which are two forms "
                   "of one rule: leave one out.")
            raise AttributeError(msg)
        self.in_avals_flat, self.in_tree = tree_flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = tree_flatten(self.out_aval)
        self.__dict__.update(self.params)
        self.check(*self.in_avals)

    def __call__(self, *args: Any) -> Any:
        outs = call_hi_primitive_p.bind(*leaves_of(self, self.in_tree, args, "operands"),
                                        _prim=self)
        return self.out_tree.unflatten(outs)

    @unwritten("to compute it")
    def expand(self, *args: Any) -> Any:
        """The results, by other functions."""

    @unwritten("for reverse mode")
    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """The results and residuals."""

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        """Gives accumulators the cotangents of operands."""
        cts = prefix_leaves(self, self.in_tree, self.vjp_bwd_retval(res, outgrad),
                            "cotangents of vjp_bwd_retval")
        for accumulator, ct in zip(tree_leaves(arg_accums), cts, strict=True):
            accumulator.accum(ct)

    @unwritten("for reverse mode, if there is no vjp_bwd")
    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """The tuple of the operands' cotangents."""

    @unwritten("for forward mode")
    def jvp(self, primals: Any, tangents: Any) -> Any:
        """The results and their tangents."""

    @unwritten("for linearize")
    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """The results and residuals."""

    @unwritten("for linearize")
    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """The tangents of the results."""

    @unwritten("where it is part of a linear program")
    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        """Gives those operands that are accumulators their cotangents."""

    def batch(self, axis_data: AxisData, args: Any, dims: Any) -> Any:
        """The results for a batch, and their dims."""
        from_rule = VmapOf(self, axis_data, dims, self.batch_dim_rule(axis_data, dims))
        return from_rule(*args), from_rule.out_dim

    @unwritten("for vmap, if there is no batch")
    def batch_dim_rule(self, axis_data: AxisData, dims: Any, /) -> Any:
        """The dims of the results for a batch."""

    def dce(self, used_outs: Any) -> Any:
        """Which operands are used, which results are given, and the operation that does so."""
        used = any(tree_leaves(used_outs))
        return used, used, self if used else None

    def staging(self, trace: Any, source_info: Any, *args: Any) -> Any:
        """Adds the operation to a program that is staged; gives its traced results."""
        outs = trace.default_process_primitive(
            call_hi_primitive_p, leaves_of(self, self.in_tree, args, "operands"),
            {"_prim": self}, source_info)
        return self.out_tree.unflatten(outs)

    def check(self, *arg_tys: Any) -> None:
        """Raises where the types do not fit; by default never."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple(self.params.items()), self.effects))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and (
            self.in_avals_flat == other.in_avals_flat and self.in_tree == other.in_tree
            and self.params == other.params and self.effects == other.effects)


class VmapOf(VJPHiPrimitive):
    """An operation on a batch: every rule of the operation, vectorized.

    Args:
      prim: the operation.
      axis_data: the axis.
      in_dims, out_dim: where the axis is, trees of ints and None.
    """

    prim: Any
    axis_data: AxisData
    ins: tuple[Any, ...]
    outs: tuple[Any, ...]

    def __init__(self, prim: VJPHiPrimitive, axis_data: AxisData, in_dims: Any, out_dim: Any):
        ins = prefix_leaves(prim, prim.in_tree, in_dims, "dims of operands")
        outs = prefix_leaves(prim, prim.out_tree, out_dim, "dims of batch_dim_rule")
        self.in_avals = prim.in_tree.unflatten([
            batched_type(a, d, axis_data.size)
            for a, d in zip(prim.in_avals_flat, ins, strict=True)])
        self.out_aval = prim.out_tree.unflatten([
            batched_type(a, d, axis_data.size)
            for a, d in zip(prim.out_avals_flat, outs, strict=True)])
        self.params = {"prim": prim, "axis_data": axis_data, "ins": tuple(ins),
                       "outs": tuple(outs)}
        self.out_dim = prim.out_tree.unflatten(outs)
        inner = prim.vectorizes
        self.vectorizes = prim if inner is None else inner
        super().__init__()

    def _mapped(self, f: Any, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        return batch_flat(f, self.axis_data, args, dims)

    def _placed(self, outs: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
        return [to_dim(o, d, w, self.axis_data.size)
                for o, d, w in zip(outs, dims, self.outs, strict=True)]

    def expand(self, *args: Any) -> Any:
        outs, dims = self._mapped(lambda *values: computed(self.prim, *values),
                                  tree_leaves(args), self.ins)
        return self.out_tree.unflatten(self._placed(outs, dims))

    def jvp(self, primals: Any, tangents: Any) -> Any:
        prim, n = self.prim, len(self.ins)
        nonzero = [type(t) is not Zero for t in tree_leaves(tangents)]

        def pushed(*values: Any) -> list[Any]:
            dots = with_zeros(nonzero, values[n:], prim.in_avals_flat)
            outs, out_dots = prim.jvp(prim.in_tree.unflatten(values[:n]),
                                      prim.in_tree.unflatten(dots))
            return [*results_of(prim, outs, "jvp"), *map(
                instantiate, leaves_of(prim, prim.out_tree, out_dots, "tangents of jvp"))]

        outs, dims = self._mapped(pushed, [
            *tree_leaves(primals), *selected(nonzero, tree_leaves(tangents))],
            [*self.ins, *selected(nonzero, self.ins)])
        m = len(self.outs)
        return (self.out_tree.unflatten(self._placed(outs[:m], dims[:m])),
                self.out_tree.unflatten(self._placed(outs[m:], dims[m:])))

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        return self._forward(self.prim.vjp_fwd, nzs_in, args)

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        return self._forward(self.prim.lin, nzs_in, primals)

    def _forward(self, rule: Any, nzs_in: Any, args: Any) -> Any:
        prim, more, trees = self.prim, [], []

        def forward(*values: Any) -> list[Any]:
            outs, kept, *rest = rule(nzs_in, *prim.in_tree.unflatten(values))
            more.extend(rest)
            residuals, tree = tree_flatten(kept)
            trees.append(tree)
            return [*results_of(prim, outs, rule.__name__), *residuals]

        outs, dims = self._mapped(forward, tree_leaves(args), self.ins)
        m = len(self.outs)
        return (self.out_tree.unflatten(self._placed(outs[:m], dims[:m])),
                (outs[m:], Static((trees[0], tuple(dims[m:])))), *more)

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        prim, (kept, (tree, dims)) = self.prim, residuals
        dots, n = tree_leaves(tangents), len(dims)
        nonzero = [type(t) is not Zero for t in dots]

        def pushed(*values: Any) -> list[Any]:
            outs = prim.linearized(tree.unflatten(values[:n]), *prim.in_tree.unflatten(
                with_zeros(nonzero, values[n:], prim.in_avals_flat)))
            return [*map(instantiate, leaves_of(
                prim, prim.out_tree, outs, "results of linearized"))]

        outs, out_dims = self._mapped(
            pushed, [*kept, *selected(nonzero, dots)],
            [*dims, *selected(nonzero, self.ins)])
        return self.out_tree.unflatten(self._placed(outs, out_dims))

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        prim, (residuals, (tree, dims)) = self.prim, res
        cts, outer = tree_leaves(outgrad), tree_leaves(arg_accums)
        nonzero = [type(ct) is not Zero for ct in cts]
        given: list[int] = []

        def backward(*values: Any) -> list[Any]:
            kept, known = values[:len(dims)], iter(values[len(dims):])
            inner = [Accumulator(a.to_ct_aval(), o.wanted)
                     for a, o in zip(prim.in_avals_flat, outer, strict=True)]
            prim.vjp_bwd(tree.unflatten(kept), prim.out_tree.unflatten([
                next(known) if nz else Zero(a.to_ct_aval())
                for nz, a in zip(nonzero, prim.out_avals_flat, strict=True)]),
                *prim.in_tree.unflatten(inner))
            given.extend(i for i, a in enumerate(inner) if type(a.total) is not Zero)
            return [inner[i].total for i in given]

        found, found_dims = self._mapped(
            backward, [*residuals, *selected(nonzero, cts)],
            [*dims, *selected(nonzero, self.outs)])
        for i, ct, dim in zip(given, found, found_dims, strict=True):
            wanted = self.ins[i]
            if wanted is None and dim is not None:
                outer[i].accum(reduce_sum(ct, (dim,)))
            else:
                outer[i].accum(to_dim(ct, dim, wanted, self.axis_data.size))

    def batch_dim_rule(self, axis_data: AxisData, dims: Any, /) -> Any:
        inner = [d if d is None or mine is None else d - (mine < d)
                 for d, mine in zip(prefix_leaves(self, self.in_tree, dims, "dims of operands"),
                                    self.ins, strict=True)]
        outs = prefix_leaves(self.prim, self.out_tree, self.prim.batch_dim_rule(
            axis_data, self.in_tree.unflatten(inner)), "dims of batch_dim_rule")
        return self.out_tree.unflatten([
            d if d is None or mine is None else d + (mine <= d)
            for d, mine in zip(outs, self.outs, strict=True)])


__all__ = ["VJPHiPrimitive", "VmapOf"]
