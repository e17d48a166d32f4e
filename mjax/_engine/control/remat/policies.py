"""Policies: which values rematerialization may save.

A policy is called for each equation of the rematerialized function, of its calls and of its loops:
`policy(primitive, *types of the operands, **params)` is true if the results may be kept from the
forward pass for the backward pass. The policies made here compare by value, so that a new policy at
each call does not lead to a new program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from mjax._engine.base.records import Record
from mjax._engine.base.util import pickled_by
from mjax._engine.primitives.names import name_p
from mjax._engine.tracing.primitive import Primitive


class _Verdict:
    """A verdict that a policy may return in place of True or False."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name


#: The same as True: the results of the equation may be saved.
Saveable: Final = _Verdict("Saveable")
#: The same as False: they are recomputed.
Recompute: Final = _Verdict("Recompute")


@pickled_by("offloadable_v1")
class Offloadable(Record):
    """The verdict of a policy for results to be saved in another memory; refused.

    Args:
      src: the memory kind they are computed in.
      dst: the memory kind they are kept in.

    Example:
      >>> from mjax.ad_checkpoint import Offloadable
      >>> Offloadable("device", "pinned_host").dst
      'pinned_host'
    """

    src: str
    dst: str


class _Policy:
    """A policy that compares by the values of its slots."""

    __slots__: tuple[str, ...] = ()

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in type(self).__slots__])

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._values() == self._values()

    def __hash__(self) -> int:
        return hash((type(self), *self._values()))


@pickled_by("policy_decided_v1", "policy")
class Decided(_Policy):
    """A policy whose answers are checked and made True or False."""

    __slots__ = ("policy",)

    def __init__(self, policy: Callable[..., Any]):
        self.policy = policy

    def __call__(self, primitive: Primitive, *avals: Any, **params: Any) -> bool:
        verdict = self.policy(primitive, *avals, **params)
        if verdict is True or verdict is Saveable:
            return True
        if verdict is False or verdict is Recompute:
            return False
        if isinstance(verdict, Offloadable):
            _refuse_offloading(f"policy {policy_name(self.policy)}")
        msg = (f"a checkpoint policy must return a bool, or Saveable, Recompute or Offloadable of "
               f"mjax.ad_checkpoint; {policy_name(self.policy)} returned {verdict!r} of type "
               f"{type(verdict).__name__} for {primitive.name}.")
        raise TypeError(msg)

    @property
    def withholds(self) -> Callable[..., bool] | None:
        """Whether the operands of an equation must not be saved, whatever makes them."""
        return getattr(self.policy, "withholds", None)


def policy_name(policy: Callable[..., Any]) -> str:
    """The name of a policy in messages."""
    return getattr(policy, "__name__", None) or repr(policy)


def _refuse_offloading(who: str) -> NoReturn:
    msg = (f"{who} asks to keep values in another memory (offloading), but mjax's programs compute "
           "in the default memory of their devices: only arguments and results can be elsewhere. "
           "Save the values on the device, with checkpoint_policies.save_only_these_names for one, "
           "or recompute them.")
    raise NotImplementedError(msg)


# ---- the policies ----------------------------------------------------------------------


def everything_saveable(*_: Any, **__: Any) -> bool:
    """Saves whatever the derivative needs, as if there were no `checkpoint`."""
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Saves the function's inputs only; the default policy of `checkpoint`."""
    return False


#: By name, so that matrix products of other primitives count too.
_PRODUCTS = frozenset({"dot_general", "conv_general_dilated", "scaled_matmul_wrapper"})


def dots_saveable(primitive: Primitive, *_: Any, **__: Any) -> bool:
    """Saves the results of matrix products and convolutions."""
    return primitive.name in _PRODUCTS


def dots_with_no_batch_dims_saveable(primitive: Primitive, *avals: Any, **params: Any) -> bool:
    """Saves the results of matrix products without batch dimensions.

    Those with batch dimensions (of attention, for one) are large and cheap to repeat.
    """
    if primitive.name == "dot_general":
        _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
        return not lhs_batch and not rhs_batch
    return primitive.name == "scaled_matmul_wrapper" and avals[0].shape[0] == 1


def _call_text(maker: str, names: frozenset[str]) -> str:
    return f"{maker}({', '.join(map(repr, sorted(names)))})"


@pickled_by("policy_names_v1", "names", "saved")
class _Names(_Policy):
    """Saves the results of `checkpoint_name` whose name is in a set, or is not in it."""

    __slots__ = ("names", "saved")

    def __init__(self, names: frozenset[str], saved: bool):
        self.names, self.saved = names, saved

    def __repr__(self) -> str:
        maker = "save_only_these_names" if self.saved else "save_any_names_but_these"
        return _call_text(maker, self.names)

    def __call__(self, primitive: Primitive, *_: Any, **params: Any) -> bool:
        return primitive is name_p and (params["name"] in self.names) is self.saved


@pickled_by("policy_except_v1", "names")
class _Except(_Policy):
    __slots__ = ("names",)

    def __init__(self, names: frozenset[str]):
        self.names = names

    def __repr__(self) -> str:
        return _call_text("save_anything_except_these_names", self.names)

    def __call__(self, primitive: Primitive, *_: Any, **params: Any) -> bool:
        return not self.withholds(primitive, **params)

    def withholds(self, primitive: Primitive, **params: Any) -> bool:
        return primitive is name_p and params["name"] in self.names


@pickled_by("policy_either_v1", "policies")
class _Either(_Policy):
    __slots__ = ("policies",)

    def __init__(self, policies: tuple[Decided, Decided]):
        self.policies = policies

    def __repr__(self) -> str:
        names = ", ".join(policy_name(decided.policy) for decided in self.policies)
        return f"save_from_both_policies({names})"

    def __call__(self, primitive: Primitive, *avals: Any, **params: Any) -> bool:
        return any(policy(primitive, *avals, **params) for policy in self.policies)

    @property
    def withholds(self) -> Callable[..., bool] | None:
        rules = [policy.withholds for policy in self.policies]
        if None in rules:
            return None
        return lambda primitive, **params: all(
            rule(primitive, **params) for rule in rules)  # type: ignore[misc]


def save_only_these_names(*names_which_can_be_saved: str) -> Callable[..., bool]:
    """Saves values that `checkpoint_name` gave one of these names."""
    return _Names(_names("save_only_these_names", names_which_can_be_saved), True)


def save_any_names_but_these(*names_not_to_save: str) -> Callable[..., bool]:
    """Saves values that `checkpoint_name` gave any other name; no values without a name."""
    return _Names(_names("save_any_names_but_these", names_not_to_save), False)


def save_anything_except_these_names(*names_not_to_save: str) -> Callable[..., bool]:
    """Saves whatever the derivative needs, but no values that `checkpoint_name` gave one of
    these names: neither its result nor its operand."""
    return _Except(_names("save_anything_except_these_names", names_not_to_save))


def save_from_both_policies(policy_1: Callable[..., Any], policy_2: Callable[..., Any]
                            ) -> Callable[..., bool]:
    """Saves what either of two policies saves."""
    for policy in (policy_1, policy_2):
        check_policy("save_from_both_policies", policy)
    return _Either((Decided(policy_1), Decided(policy_2)))


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> NoReturn:
    """Refused: would keep the results of matrix products without batch dimensions on the host.

    Raises:
      NotImplementedError: always.
    """
    _refuse_offloading("offload_dot_with_no_batch_dims")


def save_and_offload_only_these_names(
        *, names_which_can_be_saved: Iterable[str], names_which_can_be_offloaded: Iterable[str],
        offload_src: str, offload_dst: str) -> Callable[..., bool]:
    """Saves values of some names on the device; refused where some are to be offloaded.

    Raises:
      ValueError: a name is in both lists.
      NotImplementedError: there are names to offload.
    """
    who = "save_and_offload_only_these_names"
    saved = _names(who, tuple(names_which_can_be_saved))
    offloaded = _names(who, tuple(names_which_can_be_offloaded))
    if saved & offloaded:
        msg = f"{who}: {sorted(saved & offloaded)} are both to be saved and to be offloaded."
        raise ValueError(msg)
    if offloaded:
        _refuse_offloading(who)
    return _Names(saved, True)


#: Policies for `checkpoint`, which decide what is saved for derivatives, by name.
checkpoint_policies: Final = SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
)

# Pickles find them under their public names.
for _name, _policy in vars(checkpoint_policies).items():
    if not _policy.__qualname__.startswith("checkpoint_policies."):
        _policy.__module__, _policy.__qualname__ = "mjax", f"checkpoint_policies.{_name}"


# ---- accepted policies -----------------------------------------------------------------


def check_policy(who: str, policy: Any) -> None:
    """Refuses arguments that cannot be a policy, before they are used.

    Raises:
      TypeError: it is not callable, or not hashable.
    """
    if not callable(policy):
        msg = (f"{who}: a policy must be callable, as those of mjax.checkpoint_policies are; got "
               f"{policy!r} of type {type(policy).__name__}.")
        raise TypeError(msg)
    try:
        hash(policy)
    except TypeError:
        msg = (f"{who}: the policy {policy_name(policy)} is not hashable, but policies are part "
               "of cache keys. Make it a function, or a frozen dataclass with __call__.")
        raise TypeError(msg) from None


def _names(who: str, names: tuple[Any, ...]) -> frozenset[str]:
    for name in names:
        if not isinstance(name, str):
            msg = (f"{who}: names are strings, one argument each; got {name!r} of type "
                   f"{type(name).__name__}.")
            raise TypeError(msg)
    return frozenset(names)
