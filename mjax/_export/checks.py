"""Safety checks of exported programs, which users can disable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from mjax._engine.base.util import pickled_by

_CUSTOM_CALL = "custom_call:"


@pickled_by("disabled_safety_check_v1", "_what")
class DisabledSafetyCheck:
    """A disabled safety check: `platform()` or `custom_call(target)`.

    Example:
      >>> mjax.export.DisabledSafetyCheck.custom_call("my_kernel")
      custom_call:my_kernel
    """

    __slots__ = ("_what",)

    def __init__(self, _what: str):
        self._what = _what

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """The program may be called on another platform than it was exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """The program may call this target, although later releases may lack it."""
        return cls(_CUSTOM_CALL + target_name)

    def is_custom_call(self) -> str | None:
        """The target that may be called, or None."""
        return self._what.removeprefix(_CUSTOM_CALL) if _CUSTOM_CALL in self._what else None

    def __str__(self) -> str:
        return self._what

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and self._what == other._what

    def __hash__(self) -> int:
        return hash(self._what)


#: Targets that all later releases of jaxlib keep: typed LAPACK kernels, their counterparts on GPUs
#: and TPUs, and targets that XLA itself replaces.
_STABLE = re.compile("|".join([
    r"lapack_[sdcz]\w+_ffi", r"tridiagonal_solve_perturbed_ffi",
    r"(cusolver|hipsolver)_(getrf|geqrf|orgqr|potrf|syevd|sytrd|gesvdj?|gesdd)_ffi",
    r"cusparse_gtsv2_ffi", r"(cu|hip)_(lu_pivots_to_permutation|threefry2x32_ffi)",
    "Eigh", "Qr", "ProductOfElementaryHouseholderReflectors", "LuDecomposition", "ApproxTopK",
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
    r"xla\.sdy\.\w+", "AllocateBuffer", "shape_assertion", "dce_sink", r"mhlo\.topk",
    r"stablehlo\.dynamic_(reduce_window|rng_bit_generator|top_k|approx_top_k)"]))


def check_custom_calls(module: Any, name: str, disabled: Sequence[DisabledSafetyCheck]) -> None:
    """Refuses a module that calls targets which later releases may not have.

    Raises:
      ValueError: it does, and no `DisabledSafetyCheck` allows it.
    """
    allowed = {check.is_custom_call() for check in disabled}
    if "ALL" in allowed:
        return
    wrong = sorted({target for target in custom_call_targets(module)
                    if target not in allowed and not _STABLE.fullmatch(target)})
    if wrong:
        msg = (f"{name} has custom calls of {', '.join(wrong)}, which another release or machine "
               "may not have. If you know that they exist, export with disabled_checks="
               f"[mjax.export.DisabledSafetyCheck.custom_call({wrong[0]!r})].")
        raise ValueError(msg)


def custom_call_targets(operation: Any) -> Iterator[str]:
    """The targets of the custom calls in a module or an operation."""
    for region in operation.operation.regions:
        for block in region:
            for inner in block:
                if inner.operation.name == "stablehlo.custom_call":
                    yield inner.operation.attributes["call_target_name"].value
                yield from custom_call_targets(inner)
