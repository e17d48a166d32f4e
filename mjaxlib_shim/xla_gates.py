"""The gates of what XLA makes of programs."""

from __future__ import annotations

from .gate import Gate, jaxlib_file, keyword
from .native import ext, xc

__all__ = ["FUSED_SUMS", "PARTITIONED_TOP_K", "RIGHT_FUSED_SUMS"]


PARTITIONED_TOP_K = Gate(
    "partitioned_top_k",
    "chlo.top_k in partitioned programs",
    303, "0.5.0",
    "before, XLA does not compile one that Shardy has put a sharding on; before the gate opens, "
    "such programs sort (the probe looks for another change of that release)",
    lambda: keyword(xc.make_cpu_client, "num_devices"),
)  # fmt: skip
FUSED_SUMS = Gate(
    "fused_sums",
    "XLA fuses sums with elementwise operations on the CPU",
    467, "0.10.2",
    "before, programs that `miscompiled` looks for are right (the probe looks for another change "
    "of that release)",
    lambda: bool(jaxlib_file("_xla")),
)  # fmt: skip
RIGHT_FUSED_SUMS = Gate(
    "right_fused_sums",
    "fused sums of products with broadcast arrays",
    477, "0.11.0",
    "before, from 0.10.2 on, they can be garbage; `miscompiled` has them compiled again (the probe "
    "looks for another change of that release)",
    lambda: hasattr(ext.Client, "create_hlo_output_callback"),
)  # fmt: skip
