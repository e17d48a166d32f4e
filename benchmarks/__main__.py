"""Measures mjax and jax side by side and prints the table.

    python -m benchmarks [--rows "eager x + y,lower"] [--programs] [--functions] [--devices]
                         [--quick] [--json out.json]

By default everything is measured except `--functions` and `--devices`, which needs its own process.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from typing import Any

import jax
import numpy as np

import mjax
import mjax.numpy
import mjax.random
from benchmarks import devices, functions, growth, phases
from benchmarks.rows import IMPORT, ROWS, Row
from benchmarks.timing import import_seconds, interleaved


def same(a: Any, b: Any) -> None:
    """Raises unless both libraries computed the same."""
    ours, theirs = (x if isinstance(x, (list, tuple)) else [x] for x in (a, b))
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-4, atol=1e-6)


def measure(row: Row, turns: int, seconds: float) -> tuple[float, float]:
    """Seconds per unit: of mjax, of jax."""
    if row is IMPORT:
        return tuple(import_seconds(f"{m}, {m}.numpy", turns) for m in ("mjax", "jax"))
    ours, theirs = row.make(mjax), row.make(jax)
    same(mjax.tree_util.tree_leaves(ours.values()), jax.tree_util.tree_leaves(theirs.values()))
    best = interleaved([ours.call, theirs.call], turns, seconds)
    return best[0] / row.per, best[1] / row.per


def human(seconds: float) -> str:
    """A time in three digits."""
    scale, unit = (1.0, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
    return f"{seconds * scale:.3g} {unit}"


def machine() -> str:
    """The processor, and how many cores this process may use."""
    model = platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if "model name" in line]
        model = next(iter(names), model)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores"


def compare(rows: list[Row], quick: bool) -> list[dict[str, Any]]:
    """Measures and prints the rows."""
    if rows:
        print(f"{'':36}{'jax':>10}{'mjax':>10}{'ratio':>8}{'goal':>7}")
    results = []
    for row in rows:
        ours, theirs = measure(row, *((3, 0.005) if quick else (9, 0.03)))
        ratio = ours / theirs
        verdict = "" if ratio <= row.goal else "  missed"
        print(f"{row.name:36}{human(theirs):>10}{human(ours):>10}{ratio:8.2f}{row.goal:7.2f}"
              f"{verdict}", flush=True)
        results.append({"row": row.name, "jax": theirs, "mjax": ours, "ratio": ratio,
                        "goal": row.goal, "reached": not verdict})
    return results


def show_growth(quick: bool) -> dict[str, Any]:
    """Measures and prints how cost grows."""
    n = 100 if quick else 1000
    print(f"\n{'µs per equation at':20}" + "".join(f"{k * n:>9,}" for k in growth.FACTORS)
          + f"{'per doubling':>15}{growth.PER_DOUBLING:7.2f}")
    report: dict[str, Any] = {"linearity": [], "frames": []}
    for name, seconds, worst in growth.linearity(mjax, n):
        print(f"{name:20}" + "".join(f"{1e6 * s / k:9.1f}" for k, s in seconds.items())
              + f"{worst:15.2f}{'' if worst < growth.PER_DOUBLING else '         missed'}",
              flush=True)
        report["linearity"].append({"name": name, "seconds": seconds, "per_doubling": worst})
    print(f"\n{'frames per level':36}{'jax':>10}{'mjax':>10}")
    ours, theirs = growth.frames_per_level(mjax), growth.frames_per_level(jax)
    for name in ours:
        print(f"{name:36}{theirs[name]:10.1f}{ours[name]:10.1f}")
        report["frames"].append({"name": name, "jax": theirs[name], "mjax": ours[name]})
    return report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="names or parts of names, separated by commas")
    parser.add_argument("--programs", action="store_true", help="whole programs alone")
    parser.add_argument("--functions", action="store_true",
                        help="public functions one by one, alone")
    parser.add_argument("--devices", action="store_true", help="eight simulated devices alone")
    parser.add_argument("--quick", action="store_true", help="fewer turns, shorter programs")
    parser.add_argument("--json", metavar="FILE", help="where the numbers go as well")
    options = parser.parse_args()

    if options.devices:
        # XLA reads it at the first client.
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {devices.FLAG}"
    if options.functions and hasattr(os, "sched_setaffinity"):
        # Before the first client: on several cores, XLA's threads make runs of a few microseconds
        # differ by a half from process to process.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    alone = options.programs or options.functions
    rows = devices.ROWS if options.devices else [] if alone else [IMPORT, *ROWS]
    if options.rows:
        wanted = options.rows.split(",")
        rows = [row for row in [IMPORT, *ROWS] if any(part in row.name for part in wanted)]
        if not rows:
            parser.error(f"no row's name has one of {wanted}")
    print(f"jax {jax.__version__}, jaxlib {jax.lib.__version__}, Python "
          f"{platform.python_version()}, {platform.machine()}\n")
    report: dict[str, Any] = {"jax": jax.__version__, "jaxlib": jax.lib.__version__,
                              "python": platform.python_version(),
                              "date": datetime.date.today().isoformat(), "machine": machine(),
                              "rows": compare(rows, options.quick)}
    everything = not (options.rows or alone or options.devices)
    if everything:
        report |= show_growth(options.quick)
    if options.programs or everything:
        report["programs"] = phases.table(options.quick)
    if options.functions:
        report["functions"] = functions.table(options.quick)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    reached = [row["reached"] for row in [
        *report["rows"], *report.get("programs", ()), *report.get("functions", ())]]
    print(f"\n{sum(reached)} of {len(reached)} goals reached")


if __name__ == "__main__":
    sys.exit(main())
