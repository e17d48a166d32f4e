"""The programs of docs/processes.md, started by the commands that it shows.

`nox -s distributed` installs the launchers. Slurm is simulated: its variables, real processes.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "processes.md").read_text()
PROGRAMS = {name: code for code, name in re.findall(r"^```py\n(# (\w+\.py)\n.*?)^```", PAGE,
                                                     re.MULTILINE | re.DOTALL)}
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)
TOTALS = [f"process {rank} of 2: 1 of 2 devices, total 28.0" for rank in range(2)]
#: Both run as root and start more processes than there are cores.
LENIENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


@pytest.fixture
def run(tmp_path):
    """Runs a command of the page beside its programs; gives what it printed."""
    for name, code in PROGRAMS.items():
        (tmp_path / name).write_text(code)

    def run(command, **environment):
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        path = [str(Path(sys.executable).parent), os.environ["PATH"]]
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("XLA_FLAGS", "OMPI_", "PMIX_", "SLURM_"))}
        ended = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=300,
            env={**kept, "PYTHONPATH": os.pathsep.join(paths), "PATH": os.pathsep.join(path),
                 **environment}, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run


def _printed(text):
    """The lines of the processes, which may write at the same time."""
    return sorted(re.findall(r"process \d of \d(?:: \d of \d devices, total \d+\.0)?", text))


def _commands(text):
    found = [command for command in COMMANDS if text in command]
    assert found, f"docs/processes.md has no command with {text!r}"
    return found


def _mpi(name):
    """The folder with `mpirun` of a kind of MPI, and variables that its programs need; or skips."""
    homes = {"Open MPI": Path(sys.prefix), "MPICH": Path(sys.prefix) / "mpich"}
    mpirun = homes[name] / "bin" / "mpirun"
    if not mpirun.exists():
        there = shutil.which("mpirun")
        said = there and subprocess.run([there, "--version"], capture_output=True, text=True).stdout
        if not said or ("HYDRA" in said) != (name == "MPICH"):
            pytest.skip(f"no mpirun of {name}: `nox -s distributed` installs it")
        return Path(there).parent, LENIENT
    library = {"MPI4PY_LIBMPI": str(homes[name] / "lib" / "libmpi.so.12")}
    return mpirun.parent, {**LENIENT, **(library if name == "MPICH" else {})}


def test_by_hand(run):
    command = "\n".join(_commands("MJAX_PROCESS_ID")) + "\nwait"
    assert _printed(run(command.replace("1234", str(processes.free_port())))) == TOTALS


@pytest.mark.parametrize("name", ["Open MPI", "MPICH"])
def test_mpi(run, name):
    folder, variables = _mpi(name)
    (command,) = _commands("mpirun -n 2 python total.py")
    assert _printed(run(f"PATH={folder}:$PATH {command}", **variables)) == TOTALS


@pytest.mark.parametrize("name", ["Open MPI", "MPICH"])
def test_mpi_gives_the_address(run, name):
    """Without the variables by which mjax knows that there is one machine only."""
    folder, variables = _mpi(name)
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed: `nox -s distributed` installs it")
    (command,) = _commands("mpirun -n 2 python total_mpi.py")
    hidden = "env -u OMPI_COMM_WORLD_LOCAL_SIZE -u MPI_LOCALNRANKS python"
    for python in ("python", hidden):
        text = run(f"PATH={folder}:$PATH {command.replace('python', python)}", **variables)
        assert _printed(text) == ["process 0 of 2", "process 1 of 2"]
    unknown = "import mjax; mjax.distributed.initialize()"
    text = run(f"PATH={folder}:$PATH mpirun -n 2 {hidden} -c '{unknown}' 2>&1 || true", **variables)
    assert re.search("coordinator_address is not known.*method='mpi4py'", text), text


def test_slurm(run):
    """As `srun python total.py` starts it, on this machine."""
    assert "\nsrun python total.py\n" in PAGE
    job = next(job for job in range(4096) if processes.is_free(61440 + job))
    shared = f"SLURM_JOB_ID={job} SLURM_STEP_NODELIST=localhost SLURM_NTASKS=2"
    tasks = [f"{shared} SLURM_PROCID={rank} python total.py & pids+=($!)" for rank in range(2)]
    assert _printed(run("\n".join([*tasks, "wait ${pids[0]} && wait ${pids[1]}"]))) == TOTALS


def test_ray(run):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: `nox -s distributed` installs it")
    (command,) = _commands("python on_ray.py")
    shown = "[(0, 28.0), (1, 28.0)]"
    assert f"$ {command}\n{shown}\n" in PAGE
    assert shown in run(command, RAY_USAGE_STATS_ENABLED="0")


def test_the_page_shows_what_it_prints():
    assert set(PROGRAMS) == {"total.py", "total_mpi.py", "on_ray.py"}
    assert all(line in PAGE for line in TOTALS)
