"""The tests, in a fresh environment for each of several releases of jaxlib.

    nox                     # all cells
    JAXLIBS=0.6.2 nox       # one, as a job of CI does
"""

import os

import nox

#: The oldest release that mjax runs on, one between, and the newest for Python 3.11.
JAXLIBS = os.environ.get("JAXLIBS", "0.4.36 0.6.2 0.10.2").split()
#: The mjax that pip installs: a requirement, or a wheel.
MJAX = os.environ.get("MJAX", "mjax")


@nox.session
@nox.parametrize("jaxlib", JAXLIBS)
def tests(session, jaxlib):
    session.install(MJAX, f"jaxlib=={jaxlib}", ".[test]")
    # A cell that tests another release than its name says is worse than none: see conftest.py.
    session.run("python", "-m", "pytest", *session.posargs, env={"EXPECTED_JAXLIB": jaxlib})
    session.run("python", "-m", "mjax_ext", "audit", "leaky-sums")
    session.run("python", "-m", "mjax_ext", "manifest")  # mjax keeps what its manifest promises
