"""Reads the environment variables that launchers set for the processes they start.

Each launcher is one function from the environment to a `Layout`; unknown fields are None. The
network is not used, except by MPI, which is asked only on request.
"""

from __future__ import annotations

import importlib
import re
import socket
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Environment = Mapping[str, str]


class Layout(NamedTuple):
    """The processes of a computation, and the number of this one."""

    coordinator_address: str | None = None
    num_processes: int | None = None
    process_id: int | None = None

    def filled_from(self, other: Layout) -> Layout:
        """This layout, with unknown fields from `other`."""
        return other._replace(**{name: value for name, value in self._asdict().items()
                                 if value is not None})


def _number(environment: Environment, *names: str) -> int | None:
    for name in names:
        text = environment.get(name)
        if text is not None:
            if not text.strip().isdecimal():
                msg = f"environment variable {name}={text!r} is not a number."
                raise ValueError(msg)
            return int(text)
    return None


def _explicit(environment: Environment) -> Layout:
    address = (environment.get("MJAX_COORDINATOR_ADDRESS")
               or environment.get("JAX_COORDINATOR_ADDRESS"))
    return Layout(address, _number(environment, "MJAX_NUM_PROCESSES", "JAX_NUM_PROCESSES"),
                  _number(environment, "MJAX_PROCESS_ID", "JAX_PROCESS_ID"))


def _port(environment: Environment) -> int | None:
    return _number(environment, "MJAX_COORDINATOR_PORT", "JAX_COORDINATOR_PORT")


def _address(environment: Environment, host: str, job: int) -> str:
    port = _port(environment)
    if port is None:  # all processes of a job compute the same port; other jobs get other ports
        port = 61440 + job % 4096
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def first_host(nodelist: str) -> str:
    """The first host of Slurm's notation: `a[001-003,7]x,b` is a001x."""
    found = re.match(r"([^,\[]*)(?:\[([^\]]*)\])?([^,]*)", nodelist)
    prefix, numbers, suffix = found.groups() if found else ("", None, "")
    first = re.split(r"[,-]", numbers)[0] if numbers else ""
    return f"{prefix}{first}{suffix}"


def _slurm(environment: Environment) -> Layout | None:
    needed = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID")
    if not all(name in environment for name in needed):
        return None
    host = first_host(environment["SLURM_STEP_NODELIST"])
    job = _number(environment, "SLURM_JOB_ID") or 0
    return Layout(_address(environment, host, job), _number(environment, "SLURM_NTASKS"),
                  _number(environment, "SLURM_PROCID"))


def _open_mpi(environment: Environment) -> Layout | None:
    if "OMPI_COMM_WORLD_SIZE" not in environment:
        return None
    size = _number(environment, "OMPI_COMM_WORLD_SIZE")
    # "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911"; Open MPI 5 has no such variable.
    head = environment.get("OMPI_MCA_orte_hnp_uri", "")
    found = re.match(r"(\d+)\.\d+;tcp6?://(?:\[([^,\]]+)|([^,:]+))", head)
    if found:
        address: str | None = _address(environment, found[2] or found[3], int(found[1]))
    else:
        # "prterun-host-6663@1", with the launcher's process
        job = zlib.crc32(environment.get("PMIX_NAMESPACE", "").encode())
        address = _on_one_machine(environment, size, "OMPI_COMM_WORLD_LOCAL_SIZE", job)
    return Layout(address, size, _number(environment, "OMPI_COMM_WORLD_RANK"))


def _pmi(environment: Environment) -> Layout | None:
    """MPICH, Intel MPI, Cray PALS: without an address; they only tell if there is one machine."""
    size = _number(environment, "PMI_SIZE")
    if size is None:
        return None
    return Layout(_on_one_machine(environment, size, "MPI_LOCALNRANKS", size), size,
                  _number(environment, "PMI_RANK"))


def _on_one_machine(environment: Environment, size: int | None, local: str, job: int
                    ) -> str | None:
    if size is None or _number(environment, local) != size:
        return None
    return _address(environment, "127.0.0.1", job)


def _kubernetes(environment: Environment) -> Layout | None:
    """Indexed jobs; in a JobSet the name of the first pod is predictable."""
    if "KUBERNETES_SERVICE_HOST" not in environment:
        return None
    jobset, group = environment.get("JOBSET_NAME"), environment.get("REPLICATED_JOB_NAME")
    address = None
    if jobset and group:
        address = _address(environment, f"{jobset}-{group}-0-0.{jobset}", 0)
    return Layout(address, None, _number(environment, "JOB_COMPLETION_INDEX"))


def _mpi4py(environment: Environment) -> Layout:
    """The answers of MPI; process 0 chooses the address for all. MPI does not carry arrays."""
    mpi = _mpi()
    world = mpi.COMM_WORLD
    near = world.Split_type(mpi.COMM_TYPE_SHARED)
    address = None
    if world.Get_rank() == 0:
        one_machine = near.Get_size() == world.Get_size()
        host = "127.0.0.1" if one_machine else socket.gethostname()
        address = f"{host}:{_port(environment) or _free_port()}"
    near.Free()
    return Layout(world.bcast(address, root=0), world.Get_size(), world.Get_rank())


def _mpi() -> Any:
    try:
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:  # RuntimeError: without a library of MPI
        msg = (f"cluster_detection_method='mpi4py': {error}. Install mpi4py in the environment of "
               "this Python, and the MPI whose mpirun starts the processes.")
        raise ValueError(msg) from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


#: Values of `cluster_detection_method` -> launchers, in the order in which they are tried.
LAUNCHERS: dict[str, Callable[[Environment], Layout | None]] = {
    "ompi": _open_mpi,
    "pmi": _pmi,
    "slurm": _slurm,
    "k8s": _kubernetes,
}
#: Those that are asked only if they are named.
ON_REQUEST: dict[str, Callable[[Environment], Layout | None]] = {"mpi4py": _mpi4py}


def detect(given: Layout, method: str | None, environment: Environment) -> Layout:
    """`given`, completed from mjax's own variables and then from those of the launcher.

    Raises:
      ValueError: the method is unknown, or finds nothing; a variable is not a number.
    """
    layout = given.filled_from(_explicit(environment))
    if method == "deactivate" or None not in layout:
        return layout
    if method is None:
        found = next((said for ask in LAUNCHERS.values() if (said := ask(environment))), None)
    elif ask := {**LAUNCHERS, **ON_REQUEST}.get(method):
        found = ask(environment)
        if found is None:
            msg = f"cluster_detection_method={method!r}: its environment variables are not set."
            raise ValueError(msg)
    else:
        known = ", ".join(map(repr, [*LAUNCHERS, *ON_REQUEST, "deactivate"]))
        msg = f"cluster_detection_method={method!r} is not known; use one of {known}."
        raise ValueError(msg)
    return layout if found is None else layout.filled_from(found)
