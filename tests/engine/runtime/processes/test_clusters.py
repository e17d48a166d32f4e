"""Layouts from launchers, by the variables in their documentation."""

from __future__ import annotations

import socket
import sys
import types
import zlib

import pytest

from mjax._engine.runtime.processes.clusters import LAUNCHERS, Layout, detect, first_host

SLURM = {"SLURM_JOB_ID": "4100", "SLURM_STEP_NODELIST": "tux[003-005,9],login", "SLURM_NTASKS": "6",
         "SLURM_PROCID": "4"}
OPEN_MPI_4 = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3",
              "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911"}
OPEN_MPI_5 = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0",
              "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
MPICH = {"PMI_SIZE": "4", "PMI_RANK": "2", "MPI_LOCALNRANKS": "4"}
JOBSET = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "1",
          "JOBSET_NAME": "digits", "REPLICATED_JOB_NAME": "workers"}


@pytest.mark.parametrize("environment, expected", [
    ({}, Layout()),
    (SLURM, Layout("tux003:61444", 6, 4)),
    (OPEN_MPI_4, Layout(f"10.96.0.1:{61440 + 1531576320 % 4096}", 4, 3)),
    (OPEN_MPI_4 | {"OMPI_MCA_orte_hnp_uri": "7.0;tcp6://[fe80::1,fe80::2]:1"},
     Layout("[fe80::1]:61447", 4, 3)),
    (OPEN_MPI_5, Layout("127.0.0.1:61440", 2, 0)),
    (OPEN_MPI_5 | {"PMIX_NAMESPACE": "prterun-vm-6663@1"}, Layout(
        f"127.0.0.1:{61440 + zlib.crc32(b'prterun-vm-6663@1') % 4096}", 2, 0)),
    (OPEN_MPI_5 | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, Layout(None, 2, 0)),
    (MPICH, Layout("127.0.0.1:61444", 4, 2)),
    (MPICH | {"MPI_LOCALNRANKS": "2"}, Layout(None, 4, 2)),
    (JOBSET, Layout("digits-workers-0-0.digits:61440", None, 1)),
    (JOBSET | {"JAX_NUM_PROCESSES": "2"}, Layout("digits-workers-0-0.digits:61440", 2, 1)),
    (SLURM | {"JAX_COORDINATOR_PORT": "99"}, Layout("tux003:99", 6, 4)),
    (SLURM | {"JAX_COORDINATOR_ADDRESS": "a:1"}, Layout("a:1", 6, 4)),
    (SLURM | {"MJAX_COORDINATOR_ADDRESS": "b:2", "JAX_COORDINATOR_ADDRESS": "a:1",
              "MJAX_PROCESS_ID": "0"}, Layout("b:2", 6, 0)),
    (SLURM | MPICH, Layout("127.0.0.1:61444", 4, 2)),
], ids=str)
def test_detection(environment, expected):
    assert detect(Layout(), None, environment) == expected


def test_what_is_given_wins():
    given = Layout("here:5", 2, 1)
    assert detect(given, None, SLURM) == given
    assert detect(Layout(num_processes=2), None, SLURM) == Layout("tux003:61444", 2, 4)
    assert detect(Layout(), "deactivate", SLURM) == Layout()
    assert detect(Layout(), "slurm", SLURM | MPICH) == Layout("tux003:61444", 6, 4)


@pytest.mark.parametrize("nodes, host", [
    ("a", "a"), ("a,b", "a"), ("n[1-4]", "n1"), ("n[007,9]x,m", "n007x"), ("n-1[03]", "n-103"),
])
def test_first_host(nodes, host):
    assert first_host(nodes) == host


def _world(monkeypatch, size, near, rank=0):
    """Stands for mpi4py in a world of `size` processes, `near` of them on this machine."""
    split = types.SimpleNamespace(Get_size=lambda: near, Free=lambda: None)
    world = types.SimpleNamespace(
        Get_size=lambda: size, Get_rank=lambda: rank, Split_type=lambda kind: split,
        bcast=lambda value, root: "first:7" if value is None else value)
    fake = types.SimpleNamespace(COMM_WORLD=world, COMM_TYPE_SHARED="shared")
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", fake)


@pytest.mark.parametrize("near, host", [(3, "127.0.0.1"), (2, socket.gethostname())])
def test_mpi_is_asked_on_request(monkeypatch, near, host):
    _world(monkeypatch, 3, near)
    assert detect(Layout(), None, {}) == Layout()
    address, size, rank = detect(Layout(), "mpi4py", OPEN_MPI_5)
    assert address.startswith(f"{host}:") and int(address.rpartition(":")[2]) > 0
    assert (size, rank) == (3, 0)
    assert detect(Layout(), "mpi4py", {"MJAX_COORDINATOR_PORT": "9"}) == Layout(f"{host}:9", 3, 0)
    _world(monkeypatch, 3, near, rank=2)
    assert detect(Layout(), "mpi4py", {}) == Layout("first:7", 3, 2)


def test_mpi_that_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    with pytest.raises(ValueError, match="'mpi4py': .*Install mpi4py in the environment of"):
        detect(Layout(), "mpi4py", {})


def test_errors():
    with pytest.raises(ValueError, match="'slurm': its environment variables are not set"):
        detect(Layout(), "slurm", {})
    with pytest.raises(ValueError, match="'lsf' is not known; use one of 'ompi', 'pmi'"):
        detect(Layout(), "lsf", {})
    with pytest.raises(ValueError, match="SLURM_PROCID='x' is not a number"):
        detect(Layout(), None, SLURM | {"SLURM_PROCID": "x"})
    assert set(LAUNCHERS) == {"ompi", "pmi", "slurm", "k8s"}
