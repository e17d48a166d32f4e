"""`docs/compatibility.md`: its tables, from `results.json`, which a run writes.

    python tests/clients/page.py    # writes the tables anew
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from suites import ALSO, GOALS, MISSING, SUITES

HERE = Path(__file__).parent
SAMPLES = HERE / "samples"
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "compatibility.md"
MARK = "<!-- written by nox -s clients -->\n"


def ledger():
    """(suite, name) -> reason."""
    rows = [line.split(" ", 2) for line in (HERE / "ledger.txt").read_text().splitlines()]
    return {(suite, name): reason for suite, name, reason in rows}


def sample_of(suite):
    """The names of a sample, and a short hash of them."""
    text = (SAMPLES / f"{suite}.txt").read_text()
    return text.splitlines(), hashlib.sha256(text.encode()).hexdigest()[:8]


def one_line_each(groups):
    """JSON of two levels with a line for each value."""
    parts = []
    for name, values in sorted(groups.items()):
        rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(v)}"
                          for key, v in sorted(values.items()))
        parts.append(f" {json.dumps(name)}: {{\n{rows}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _suites(results):
    yield "| library | tests | pass with jax 0.10.2 | pass on mjax | sample | run |"
    yield "|---|---|---|---|---|---|"
    for suite in SUITES:
        found = results.get(suite.client)
        if not found or found["sample"] != sample_of(suite.client)[1]:
            continue  # the sample is another one by now
        share = "all" if suite.one_in == 1 else f"one in {suite.one_in}"
        percent = 100 * found["equal"] / found["of"]
        yield (f"| {suite.client} {suite.version} | {share} | {found['of']} | "
               f"{found['equal']} ({percent:.1f} %) | `{found['sample']}` | {found['day']} |")


def _programs(results, names):
    yield "| library | values of programs | equal on mjax | run |"
    yield "|---|---|---|---|"
    for name in names:
        if found := results.get(name):
            yield f"| {found['version']} | {found['of']} | {found['equal']} | {found['day']} |"


def tables(results):
    """The part of the page that is written."""
    notes = [f"- {of}, `{name.partition('::')[2]}`: {reason}"
             for (of, name), reason in ledger().items()]
    where = sorted({f"Python {found['python']} and jaxlib {found['jaxlib']}"
                    for found in results.values()})
    return "\n".join([
        f"Run with {'; '.join(where)}.", "",
        *_suites(results), "", *_programs(results, GOALS), "",
        "Also tried, with programs of the same kind:", "", *_programs(results, ALSO), "",
        "Tried, and not running:", "", *(f"- {name}: {why}" for name, why in MISSING.items()), "",
        *(["Expected failures:", "", *notes] if notes else ["None fails."])]) + "\n"


def write():
    """The page with the tables of the last results."""
    text = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(f"{text}{MARK}\n{tables(json.loads(RESULTS.read_text()))}")


if __name__ == "__main__":
    write()
