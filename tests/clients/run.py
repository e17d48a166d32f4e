"""Runs the tests and programs of clients, on mjax under the alias or on the real jax.

    python tests/clients/run.py [SUITE ...]            # compares with what passes on jax
    python tests/clients/run.py --record [SUITE ...]   # where jax 0.10.2 is installed: writes that

`samples/` has the names of the tests that pass with jax 0.10.2, one file per suite, and the values
of the programs. `ledger.txt` has the tests among them that are expected to fail on mjax, each with
a reason; one that passes, or is unknown, is an error. The counts go to `results.json`, and from
there to the tables of `docs/compatibility.md`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import page
from page import HERE, RESULTS, SAMPLES, ledger, one_line_each, sample_of
from suites import ALSO, GOALS, SUITES

#: The least part of a suite that must pass.
GOAL = 0.97


def root_of(suite, sdists):
    """The folder that names of tests are relative to."""
    if suite.sdist:
        return sdists / f"{suite.client}-{suite.version}"
    return Path(importlib.metadata.distribution("pytest").locate_file(""))


def run_suite(suite, sdists, *options):
    """Name of a test -> how it ended, and seconds."""
    root = root_of(suite, sdists)
    with tempfile.TemporaryDirectory() as folder:
        endings = Path(folder) / "endings"
        endings.touch()
        command = [sys.executable, "-m", "pytest", "-q",
                   "-p", "recorder", "-p", "no:cacheprovider",
                   f"--suite-root={root}", f"--endings={endings}", f"--rootdir={root}", "-n", "2",
                   "--tb=short", "--continue-on-collection-errors", *suite.options, *options,
                   str(root / suite.tests)]
        # mctx reads its data from `../mctx`. The folder is not on the path: haiku has a `typing`.
        cwd = root if suite.sdist else root / suite.tests.partition("/")[0]
        path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        subprocess.run(command, cwd=cwd, check=False,
                       env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1",
                            "JAX_PLATFORMS": "cpu"})
        rows = [json.loads(line) for line in endings.read_text().splitlines()]
    ended = {}
    for name, outcome, seconds in rows:
        if ended.get(name, ["passed"])[0] == "passed":  # not a failed teardown over its call
            ended[name] = outcome, seconds
    return ended


def record(suites, sdists):
    """On the real jax: writes which tests of the samples pass, and the values of the programs."""
    for suite in suites:
        ended = run_suite(suite, sdists, f"--one-in={suite.one_in}")
        passed = sorted(name for name, (outcome, _) in ended.items() if outcome == "passed")
        (SAMPLES / f"{suite.client}.txt").write_text("".join(f"{name}\n" for name in passed))
        print(f"{suite.client}: {len(passed)} of {len(ended)} passed")


def compare(suites, sdists):
    """Under the alias: what passes and what is wrong, by suite."""
    expected, counts, wrong = ledger(), {}, []
    for suite in suites:
        names, _ = sample_of(suite.client)
        ended = run_suite(suite, sdists, "-p", "mjax.alias.pytest",
                          f"--only={SAMPLES / suite.client}.txt")
        passed = {name for name, (outcome, _) in ended.items() if outcome == "passed"}
        mine = {name for of, name in expected if of == suite.client}
        counts[suite.client] = len(passed), len(names)
        wrong += [f"{suite.client}: fails, without a row in ledger.txt: {name}"
                  for name in sorted(set(names) - passed - mine)]
        wrong += [f"{suite.client}: in ledger.txt, but passes or is not in the sample: {name}"
                  for name in sorted(mine - (set(names) - passed))]
        if len(passed) < GOAL * len(names):
            wrong.append(f"{suite.client}: only {len(passed)} of {len(names)} pass")
    return counts, wrong


def run_program(name):
    """The values of a program, by name."""
    under = [str(HERE / "on_jax.py")] if importlib.util.find_spec("jax") else ["-m", "mjax.alias"]
    program = HERE / "programs" / f"use_{name}.py"
    ended = subprocess.run([sys.executable, *under, str(program)], capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"{program.name} failed:\n{ended.stderr}")
    return json.loads(ended.stdout.splitlines()[-1])


def equal(value, expected):
    """Whether numbers agree to 6 digits, relative to the largest of their list."""
    if isinstance(expected, list):
        scale = max((abs(x) for x in flat(expected)), default=0) or 1
        pairs = zip(flat(value), flat(expected), strict=True)
        return all(abs(x - y) <= 1e-6 * scale for x, y in pairs)
    if isinstance(expected, float):
        return abs(value - expected) <= 1e-6 * max(abs(expected), 1e-30)
    return value == expected


def flat(values):
    """The numbers of nested lists."""
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]


def compare_programs(names):
    """How many values agree, by program, and what is wrong."""
    expected = json.loads((SAMPLES / "programs.json").read_text())
    counts, wrong = {}, []
    for name in names:
        values = run_program(name)
        good = [key for key, value in expected[name].items()
                if key in values and equal(values[key], value)]
        counts[name] = len(good), len(expected[name])
        wrong += [f"use_{name}.py: {key} is {values.get(key)}, with jax {value}"
                  for key, value in expected[name].items() if key not in good]
        wrong += [f"use_{name}.py: jax does not have {key}"
                  for key in values.keys() - expected[name]]
    return counts, wrong


def write_results(suites, counts, values):
    """Writes the results of this run to `results.json`, beside those of earlier runs."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    run = {"day": datetime.date.today().isoformat(), "python": platform.python_version(),
           "jaxlib": importlib.metadata.version("jaxlib")}
    for suite in suites:
        equal, of = counts[suite.client]
        known[suite.client] = {"equal": equal, "of": of, "sample": sample_of(suite.client)[1],
                               **run}
    for name, (equal, of) in values.items():
        package = {"e3nn": "e3nn-jax"}.get(name, name)
        version = f"{package} {importlib.metadata.version(package)}"
        known[name] = {"equal": equal, "of": of, "version": version, **run}
    RESULTS.write_text(one_line_each(known))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="SUITE")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--sdists", type=Path, required=True, help="a folder of unpacked sdists")
    given = parser.parse_args()
    sdists = given.sdists.resolve()
    suites = [suite for suite in SUITES if not given.names or suite.client in given.names]
    programs = [name for name in (*GOALS, *ALSO) if not given.names or name in given.names]
    if unknown := {*given.names} - {*programs, *(suite.client for suite in suites)}:
        parser.error(f"there is no suite or program {', '.join(sorted(unknown))}")
    if given.record:
        if importlib.metadata.version("jax") != "0.10.2":
            raise SystemExit(f"jax 0.10.2 is recorded, not {importlib.metadata.version('jax')}")
        record(suites, sdists)
        file = SAMPLES / "programs.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        known |= {name: run_program(name) for name in programs}
        file.write_text(one_line_each(known))
        return
    if new := {*programs} - json.loads((SAMPLES / "programs.json").read_text()).keys():
        raise SystemExit(f"use `--record` where jax 0.10.2 is, for {', '.join(sorted(new))}")
    print(f"Python {platform.python_version()}, jaxlib {importlib.metadata.version('jaxlib')}")
    counts, wrong = compare(suites, sdists)
    values, more = compare_programs(programs)
    for name, (good, all_of) in {**counts, **values}.items():
        print(f"{name}: {good} of {all_of}")
    write_results(suites, counts, values)
    page.write()
    if wrong + more:
        raise SystemExit("\n".join(wrong + more))


if __name__ == "__main__":
    main()
