"""Tables and plots that are made of data when the site is built."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any

from docs.site.definitions import ROOT
from mjaxlib_shim import GATES
from mjaxlib_shim.versions import SUPPORT

#: What `nox -s bench -- --json benchmarks/recorded.json` wrote.
RECORDED = ROOT / "benchmarks" / "recorded.json"


def table(head: Sequence[str], rows: Sequence[Sequence[object]], right: int = 0) -> str:
    """A table in Markdown; the last `right` columns are numbers."""
    rule = ["---"] * (len(head) - right) + ["---:"] * right
    lines = [head, rule, *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def _pythons(oldest: tuple[int, int], newest: tuple[int, int] | None) -> str:
    first, last = (pair and ".".join(map(str, pair)) for pair in (max(oldest, (3, 11)), newest))
    return f"{first} to {last}" if last else f"{first} and newer"


def window() -> str:
    """The supported releases of jaxlib."""
    return table(
        ["jaxlib", "Python with wheels", "StableHLO", "tests"],
        [(release.version, _pythons(release.min_python, release.max_python), release.stablehlo,
          "all" if release.matrix else "core") for release in reversed(SUPPORT)])


def gates() -> str:
    """The differences between releases."""
    rows = [(f"`{gate.name}`", gate.since_release, _text(gate.changed)) for gate in GATES]
    return table(["gate", "since", "what changed"], rows)


def _text(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|").replace("<", r"\<").replace("*", r"\*")


# -------------------------------------------------------------------------------- benchmarks


def recorded() -> dict[str, Any]:
    """The recorded report."""
    report: dict[str, Any] = json.loads(RECORDED.read_text())
    return report


def machine() -> str:
    """Where and with what the numbers were measured."""
    report = recorded()
    return (f"Measured on {report['date']} with jax {report['jax']}, jaxlib {report['jaxlib']} and "
            f"Python {report['python']}: {report['machine']}.\n")


def rows() -> str:
    """Times of single operations."""
    return table(["", "jax", "mjax", "ratio", "goal"], [
        (_text(row["row"]), _seconds(row["jax"]), _seconds(row["mjax"]), f"{row['ratio']:.2f}",
         f"{row['goal']:.2f}") for row in recorded()["rows"]], right=4)


def programs() -> str:
    """Ratios of whole programs by phase."""
    found: dict[str, dict[str, float]] = {}
    for phase in recorded()["programs"]:
        found.setdefault(phase["program"], {})[phase["phase"]] = phase["ratio"]
    phases = list(next(iter(found.values())))
    return table(["mjax over jax", *phases], [
        (name, *(f"{ratios[phase]:.2f}" for phase in phases)) for name, ratios in found.items()],
        right=len(phases))


def growth() -> str:
    """The cost per equation of longer and longer programs."""
    found = recorded()["linearity"]
    sizes = list(found[0]["seconds"])
    return table(["µs per equation at", *(f"{int(size):,}" for size in sizes)], [
        (_text(row["name"]), *(f"{1e6 * row['seconds'][size] / int(size):.1f}" for size in sizes))
        for row in found], right=len(sizes))


def _seconds(seconds: float) -> str:
    scale, unit = (1.0, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
    return f"{seconds * scale:.3g} {unit}"


def rows_plot() -> str:
    """The ratios of single operations, as bars on a logarithmic axis."""
    found = [(row["row"], row["ratio"]) for row in recorded()["rows"]]
    return _bars(found, "time of mjax ÷ time of jax")


def programs_plot() -> str:
    """The ratios of whole programs, averaged over programs for each phase."""
    found: dict[str, list[float]] = {}
    for phase in recorded()["programs"]:
        found.setdefault(phase["phase"], []).append(phase["ratio"])
    return _dots(found, "cost of mjax ÷ cost of jax, a dot for each program")


def _plot(draw: Callable[[Any], None], size: tuple[float, float]) -> str:
    """A plot, once in the colors of light pages and once in those of dark ones."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    images = []
    for theme, ink in (("light", "#333333"), ("dark", "#d0d0d0")):
        settings = {"svg.fonttype": "none", "svg.hashsalt": theme, "font.size": 9,
                    "axes.spines.top": False, "axes.spines.right": False,
                    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor",
                                     "xtick.color", "ytick.color"), ink)}
        with pyplot.rc_context(settings):
            figure, axes = pyplot.subplots(figsize=size, layout="constrained")
            draw(axes)
            axes.axvline(1.0, color=ink, linewidth=1, linestyle="--")
            file = io.StringIO()
            figure.savefig(file, transparent=True, format="svg", metadata={"Date": None})
            pyplot.close(figure)
        svg = file.getvalue()
        svg = "\n".join(line for line in svg[svg.index("<svg"):].splitlines() if line.strip())
        images.append(f'<div class="only-{theme}-plot">{svg}</div>')
    return f'<figure class="picture">{"".join(images)}</figure>\n'


def _bars(found: Sequence[tuple[str, float]], label: str) -> str:
    def draw(axes: Any) -> None:
        names, ratios = zip(*reversed(found))
        axes.barh(names, [ratio - 1 for ratio in ratios], left=1, height=0.65,
                  color=["#3b7a57" if ratio <= 1 else "#a23b72" for ratio in ratios])
        axes.set_xscale("log")
        axes.set_xticks([0.05, 0.1, 0.2, 0.5, 1, 2], ["0.05", "0.1", "0.2", "0.5", "1", "2"])
        axes.set_xlim(0.03, 3)
        axes.margins(y=0.01)
        axes.set_xlabel(label)

    return _plot(draw, (7.5, 0.22 * len(found) + 0.6))


def _dots(found: dict[str, list[float]], label: str) -> str:
    def draw(axes: Any) -> None:
        for place, ratios in enumerate(reversed(found.values())):
            axes.plot(ratios, [place] * len(ratios), "o", color="#33658a", alpha=0.6)
        axes.set_yticks(range(len(found)), list(reversed(found)))
        axes.set_xscale("log")
        axes.set_xticks([0.05, 0.1, 0.2, 0.5, 1, 2], ["0.05", "0.1", "0.2", "0.5", "1", "2"])
        axes.set_xlim(0.03, 3)
        axes.set_ylim(-0.6, len(found) - 0.4)
        axes.set_xlabel(label)

    return _plot(draw, (7.5, 2.6))


PARTS: dict[str, Callable[..., str]] = {
    "window": window, "gates": gates, "machine": machine, "rows": rows, "programs": programs,
    "growth": growth, "rows_plot": rows_plot, "programs_plot": programs_plot}
