"""We use a generation, and nothing beside it."""

import json
import subprocess
import sys
from pathlib import Path

import leaky_sums

#: Names that are still to be settled: they may change once, and mjax's changelog will tell.
PROVISIONAL = {"mjax_ext.v1.core.Interpreter"}


def test_we_use_names_of_v1_alone():
    run = subprocess.run(
        [sys.executable, "-m", "mjax_ext", "audit", "--json", Path(leaky_sums.__file__).parent],
        capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    findings = json.loads(run.stdout)["findings"]
    assert {(f["kind"], f["generation"]) for f in findings} == {("generation", "v1")}
    assert {f["name"] for f in findings if f["tier"] == "provisional"} == PROVISIONAL
