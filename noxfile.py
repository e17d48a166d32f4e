"""The sessions of mjax: `nox -l` lists them.

Before each commit `nox -s quick`, before a push `nox -s tests`. Nothing is listed twice: jaxlib
releases come from `mjaxlib_shim/versions.py`, Python versions and requirements from
`pyproject.toml`. Environments are reused, and installed into only when what they should hold has
changed; `nox --reuse-venv=no` makes them anew. Arguments after `--` go to pytest.
"""

import json
import os
import re
import runpy
import shutil
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import nox
from nox.command import CommandFailed
from packaging.requirements import Requirement

nox.needs_version = ">=2025.10.14"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["quick"]
nox.options.error_on_missing_interpreters = False
nox.options.download_python = "never"

ROOT = Path(__file__).parent
PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
REQUIREMENTS = [Requirement(line) for line in PYPROJECT["project"]["dependencies"]]
PYTHONS = nox.project.python_versions(PYPROJECT)
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"

# ------------------------------------------------------------------ which jaxlib on which Python


def _home(python):
    """The folder of a Python version: the one running nox, pyenv's, or one on PATH; else None."""
    if python == HERE:
        return Path(sys.executable).parent
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    if homes := sorted(pyenv.glob(f"{python}.*/bin")):
        return homes[-1]
    on_path = shutil.which(f"python{python}")
    return Path(on_path).parent if on_path else None


def _pair(python):
    return tuple(int(part) for part in python.split("."))


def _python_for(release):
    """This Python if the release has wheels for it, else the oldest of ours that is installed."""
    pythons = [
        python
        for python in PYTHONS
        if release.min_python <= _pair(python) <= (release.max_python or (4,))
    ]
    installed = [python for python in pythons if python in HOMES]
    return HERE if HERE in pythons else (installed or pythons)[0]


# The shim's support table is plain data in a file that imports nothing but the standard library.
TABLE = SimpleNamespace(**runpy.run_path(str(ROOT / "mjaxlib_shim" / "versions.py")))
HOMES = {python: home for python in PYTHONS if (home := _home(python))}
NEWEST_HERE = TABLE.installable(_pair(HERE)).version if HERE in PYTHONS else None
MATRIX = {
    release.version: _python_for(release)
    for release in TABLE.SUPPORT
    if release.matrix or release.version in (TABLE.FLOOR, NEWEST_HERE)
}
# Interpreters for nox; pyenv's shims answer only for the versions it has switched on.
os.environ["PATH"] = os.pathsep.join(
    [str(home) for python, home in HOMES.items() if python != HERE] + [os.environ["PATH"]]
)

# --------------------------------------------------------------------------------------- helpers


def _install(session, *groups, jaxlib=None, requirements=(), alone=(), show=False):
    """Install dependency groups and, with a jaxlib, the project; unless that is what is there.

    `alone`: packages to install without those that they ask for. `show`: whether pip shows its
    progress.
    """
    wanted = [*requirements, *nox.project.dependency_groups(PYPROJECT, *groups)]
    if jaxlib:
        wanted = ["--editable", ".", f"jaxlib=={jaxlib}", *wanted]
    stamp = Path(session.virtualenv.location) / "installed.json"
    parts = [wanted, PYPROJECT["build-system"], PYPROJECT["project"], *([alone] if alone else [])]
    recipe = json.dumps(parts, indent=1)
    if stamp.exists() and stamp.read_text() == recipe:
        return
    session.log("installing what this session needs; the first time takes about half a minute")
    session.install(*wanted, silent=not show)
    if alone:
        session.install("--no-deps", *alone, silent=not show)
    stamp.write_text(recipe)


def _newest_here(session):
    if NEWEST_HERE is None:
        session.error(f"Python {HERE} runs nox; mjax needs one of {', '.join(PYTHONS)}")
    return NEWEST_HERE


def _pytest(session, *args, env=None):
    session.run("python", "-m", "pytest", "-n", "auto", *args, *session.posargs, env=env)


def _pytest_cheaply(session, *args):
    """On code that the CPU's compiler does not make fast: most of it runs once.

    That saves more than half the time. 0.10.2, the newest of its Python, also has an older and
    quicker code generator.
    """
    flags = ["--xla_backend_optimization_level=0"]
    if NEWEST_HERE == "0.10.2":
        flags.append("--xla_cpu_use_fusion_emitters=false")
    flags = " ".join([os.environ.get("XLA_FLAGS", ""), *flags]).strip()
    session.log(f'XLA_FLAGS="{flags}"')
    _pytest(session, *args, env={"XLA_FLAGS": flags})


def _lint(session):
    session.run("ruff", "check")
    session.run("lint-imports", "--no-cache")
    _check_hidden_imports(session)
    _check_floor(session)
    _check_extras(session)


def _check_hidden_imports(session):
    """Checks what the import graph does not show: imports by string, examples that reach inside.

    `mjax.alias` may name `jax`: it imports the module that it makes.
    """
    by_string = r"""(?:import_module|__import__|find_spec)\(\s*["'](%s)\b"""
    rules = [
        ("mjax", by_string % "jax|jaxlib"),
        ("mjax_ext", by_string % "jax|jaxlib"),
        ("mjaxlib_shim", by_string % "jax"),
        ("examples", r"(?:from|import)\s+(mjax\._\w+)"),
    ]
    found = [
        f"{path.relative_to(ROOT)}: imports {match[1]}"
        for folder, pattern in rules
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.parent != ROOT / "mjax" / "alias"
        for match in re.finditer(pattern, path.read_text())
    ]
    if found:
        session.error("\n".join(["hidden imports:", *found]))


def _check_floor(session):
    """The plain dependency of pyproject.toml is the floor of the support table."""
    (jaxlib,) = (req for req in REQUIREMENTS if req.name == "jaxlib")
    if str(jaxlib.specifier) != f">={TABLE.FLOOR}":
        session.error(f"pyproject.toml asks for {jaxlib}; mjaxlib_shim's floor is {TABLE.FLOOR}")


def _check_extras(session):
    """Groups cannot include an extra: the one of its name repeats it."""
    for name, extra in PYPROJECT["project"]["optional-dependencies"].items():
        if extra != PYPROJECT["dependency-groups"].get(name):
            session.error(f"pyproject.toml: the extra {name!r} and the group of its name differ")


def _check_links(session):
    """Local links of the documentation lead somewhere."""
    code = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
    link = re.compile(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)\s]*)?\)")
    dead = [
        f"{path.relative_to(ROOT)}: {match[1]}"
        for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for match in link.finditer(code.sub("", path.read_text()))
        if not (path.parent / match[1]).exists()
    ]
    if dead:
        session.error("\n".join(["dead links:", *dead]))


# -------------------------------------------------------------------------------------- sessions

#: What `quick` runs: the tables of primitives and of the NumPy front end take minutes, and so do
#: programs over several devices, of which it has a few.
QUICK = ["tests/test_tiny.py", "tests/test_errors.py", "tests/test_imports.py", "tests/ext",
         "tests/test_pages.py", "tests/test_docstrings.py",
         "tests/shim", "tests/engine/primitives/test_registry.py",
         *(f"tests/engine/{layer}" for layer in (
             "base", "ir", "lowering", "runtime", "tracing", "transforms",
             "spmd/test_collectives.py::test_one_axis", "spmd/test_transposes.py",
             *(f"transforms/test_{test}" for test in (
                 "jacobian.py::test_scalars", "reverse.py::test_argnums",
                 "reverse.py::test_values_and_types"))))]
#: Files of these folders that are not among them, but for the tests that `QUICK` names.
NOT_QUICK = [f"tests/{name}.py" for name in (
    "shim/test_distributed", "ext/test_authors_guide", "ext/test_check_cost",
    "ext/check/test_engine", "engine/transforms/test_compositions",
    "engine/transforms/test_jacobian", "engine/transforms/test_recomputation",
    "engine/transforms/test_reverse", *(f"engine/runtime/{name}" for name in (
        "test_array_shards", "test_exit", "test_xla_errors", "test_sharded_effects",
        "test_sharded_jit", "arrays/test_assembling",
        "arrays/test_dlpack", "arrays/test_resharding", "arrays/test_transfer",
        "dispatch/test_collective_throttle", "dispatch/test_nan_checks", "effects/test_background",
        "effects/test_callbacks", "effects/test_tokens")))]


@nox.session
def quick(session):
    """Before each commit, under 90 s: lint, types of public names, all tests but the tables'.

    Those of the tables are collected at least: what they import is there. `test_imports` looks at
    benchmarks, examples and the tests beside jax.
    """
    _install(session, "test", "lint", "types", jaxlib=_newest_here(session))
    _lint(session)
    session.run("python", "-m", "tests.typed", "shares")
    names = session.run("python", "-m", "pytest", "--collect-only", "-q", silent=True)
    if moving := re.findall(r"^.* at 0x.*$", names, re.MULTILINE):
        session.error("\n".join(["pytest-xdist needs names without addresses:", *moving]))
    _pytest_cheaply(session, "-q", "-m", "not slow", *QUICK,
                    *(f"--ignore={path}" for path in NOT_QUICK))


@nox.session
def demo(session):
    """The main job: train on real digits, then a custom primitive from no rule to all of them."""
    _install(session, "demo", jaxlib=_newest_here(session), show=True)
    picture = Path(session.create_tmp()) / "digits.svg"
    session.run("python", "examples/digits.py", "--picture", picture, *session.posargs)
    session.run("python", "examples/multiply_add.py")


@nox.session(venv_backend="none")
def tests(session):
    """The run of CI: lint, types, docs, all tests on the newest jaxlib, the core ones on the floor,
    and a sample of those beside jax."""
    session.notify("lint")
    session.notify("types")
    session.notify("docs", [])
    session.notify(f"tests_jaxlib({_newest_here(session)})")
    session.notify("floor")
    session.notify("sample")


@nox.session(venv_backend="none")
def matrix(session):
    """The tests on every jaxlib of the matrix, each on a Python that has wheels for it."""
    for version, python in MATRIX.items():
        if python in HOMES:
            session.notify(f"tests_jaxlib({version})")
        else:
            session.warn(f"jaxlib {version} left out: no Python {python} on this machine")


@nox.session
@nox.parametrize(
    "python,version",
    [nox.param(python, version, id=version) for version, python in MATRIX.items()],
)
def tests_jaxlib(session, version):
    """The tests on one jaxlib; `sweep` has the slow ones.

    On the newest, which CI runs, those of `NUMERIC` alone have code that is made fast, as users
    have; on the others, and with arguments, all tests do.
    """
    _install(session, "test", jaxlib=version)
    if version != NEWEST_HERE or session.posargs:
        _pytest(session, "-q", "-m", "not slow")
        return
    _pytest_cheaply(session, "-q", "-m", "not slow", *(f"--ignore={path}" for path in NUMERIC))
    _pytest(session, "-q", "-m", "not slow", *NUMERIC)


#: Tests that look closely at numbers: code that is not made fast does not fuse multiplications with
#: additions, which some last digits depend on.
NUMERIC = ["tests/engine/linalg", "tests/engine/primitives", "tests/nn", "tests/random",
           "tests/scipy", *(f"tests/numpy/test_{name}.py" for name in (
               "fft", "linalg", "products", "reductions", "ufuncs"))]


#: Tests of all that differs between releases: everything that compiles, runs or asks the shim.
CORE = ["tests/test_tiny.py", "tests/test_errors.py", "tests/ext", "tests/shim",
        "tests/engine/lowering", "tests/engine/linalg", "tests/engine/runtime",
        "tests/engine/control", "tests/engine/primitives/test_fft.py",
        *(f"tests/numpy/test_{name}.py" for name in ("fft", "linalg")),
        *(f"tests/engine/spmd/test_{name}.py" for name in (
            "mesh_collectives", "shard_map", "shard_map_control"))]


@nox.session
def floor(session):
    """The core tests on the oldest jaxlib; `matrix` has all tests on it."""
    _install(session, "test", jaxlib=TABLE.FLOOR)
    _pytest(session, "-q", "-m", "not slow", *CORE)


#: The matrix's quick cut: the oldest release, one between, the newest.
CUT = [TABLE.FLOOR, "0.6.2", TABLE.SUPPORT[-1].version]


@nox.session(venv_backend="none")
def cut(session):
    """The core tests on three releases of the matrix."""
    for version in CUT:
        if MATRIX[version] in HOMES:
            session.notify(f"tests_jaxlib({version})", [*CORE, *session.posargs])
        else:
            session.warn(f"jaxlib {version} left out: no Python {MATRIX[version]} on this machine")


@nox.session(venv_backend="none")
def artifacts(session):
    """Exported programs written on each release of the quick cut run on every later one."""
    versions = [version for version in CUT if MATRIX[version] in HOMES]
    for version in versions:
        earlier = versions[:versions.index(version) + 1]
        session.notify(f"artifacts_jaxlib({version})", [*earlier, *session.posargs])


@nox.session
@nox.parametrize(
    "python,version",
    [nox.param(MATRIX[version], version, id=version) for version in CUT],
)
def artifacts_jaxlib(session, version):
    """Writes exported programs on one jaxlib, and reads those of the releases that are named."""
    _install(session, "test", jaxlib=version)
    folder = Path(session.virtualenv.location).parent / "artifacts"
    (folder / version).mkdir(parents=True, exist_ok=True)
    programs = ("python", "-m", "tests.export.programs")
    devices = {"MJAX_NUM_CPU_DEVICES": "4"}
    session.run(*programs, "write", folder / version, env=devices)
    for writer in session.posargs or [version]:
        session.run(*programs, "read", folder / writer, env=devices)


@nox.session
def window(session):
    """The core tests on every release that this Python can have: over an hour, for a night."""
    failed = []
    for release in TABLE.SUPPORT:
        if release.min_python <= _pair(HERE) <= (release.max_python or (4,)):
            _install(session, "test", jaxlib=release.version)
            try:
                _pytest(session, "-q", "-m", "not slow", *CORE)
            except CommandFailed:
                failed.append(release.version)
    if failed:
        session.error(f"failed on jaxlib {', '.join(failed)}")


@nox.session
def sweep(session):
    """The slow tests, on the newest jaxlib: the tables of primitives over all dtypes and shapes."""
    _install(session, "test", jaxlib=_newest_here(session))
    _pytest(session, "-q", "-m", "slow")


@nox.session
def lint(session):
    """ruff, import-linter, imports by string, the floor."""
    _install(session, "lint")
    _lint(session)


@nox.session
def types(session):
    """mypy: strict on the public packages, ordinary on the engine; no jaxlib needed.

    Then mypy and basedpyright on programs that they must accept, such as the examples, and on lines
    that they must not; and basedpyright on the types of public names.
    """
    runtime = [str(req) for req in REQUIREMENTS if req.name != "jaxlib"]
    _install(session, "types", requirements=runtime)
    session.run("mypy")
    session.run("python", "-m", "tests.typed")


@nox.session
def differential(session):
    """The same programs on mjax and on jax, in one process."""
    _install(session, "differential", jaxlib=_newest_here(session))
    _pytest(session, "tests/differential")


#: The part of `differential` that CI runs: in less than three minutes, some of everything.
SAMPLE = [f"tests/differential/test_{name}.py" for name in (
    "cond", "dispatch", "dtypes", "fft", "fuzz", "jitted", "lax", "references", "surface",
    "transformations")]


@nox.session
def sample(session):
    """A fixed sample of `differential`."""
    _install(session, "differential", jaxlib=_newest_here(session))
    _pytest(session, "-q", "-m", "not slow", *SAMPLE)


#: Libraries that import jax; they are installed without it.
CLIENTS = [
    "chex==0.1.92", "distrax==0.1.9", "dm-haiku==0.0.17", "equinox==0.13.8", "jaxtyping==0.3.11",
    "lineax==0.1.1", "mctx==0.0.71", "numpyro==0.22.0", "optax==0.2.8", "optimistix==0.1.0",
    "rlax==0.1.9", "tensorflow-probability==0.25.0",
    # tried besides
    "diffrax==0.7.2", "e3nn-jax==0.21.0", "flax==0.12.8", "flowjax==19.1.2", "jaxopt==0.8.5",
    "jraph==0.0.6.dev0", "paramax==0.0.5", "quax==0.4.6"]
#: Those whose wheels do not have their tests.
SDISTS = ["blackjax==1.7.1", "tinygp==0.3.1"]


@nox.session
def clients(session):
    """Libraries that import jax, on mjax under the alias: their tests, and programs with values
    from jax. Arguments are names of suites and programs; without any, the page is written anew.

    Two of them are those whose audit is compared with a list that people wrote.
    """
    _install(session, "clients", jaxlib=_newest_here(session), alone=[*CLIENTS, *SDISTS])
    folder = Path(session.virtualenv.location) / "sdists"
    for client in SDISTS:
        name = client.replace("==", "-")
        if not (folder / name).is_dir():
            session.run_install("pip", "download", "--no-deps", "--no-binary", ":all:", "--dest",
                                folder, client, silent=True)
            shutil.unpack_archive(folder / f"{name}.tar.gz", folder)
    session.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider",
                "tests/ext/audit/test_clients.py")
    session.run("python", "tests/clients/run.py", "--sdists", folder, *session.posargs)


@nox.session
def distributed(session):
    """Several processes: all tests of them, deaths included, with MPI, Ray and Slurm's variables;
    and the example that survives one."""
    _install(session, "demo", "processes", "test", jaxlib=_newest_here(session))
    mpich = Path(session.virtualenv.location) / "mpich"
    if not mpich.is_dir():
        session.install("--prefix", mpich, *nox.project.dependency_groups(PYPROJECT, "mpich"),
                        silent=True)
    _pytest(session, "-n", "0", "tests/distributed", "tests/shim/test_distributed.py")
    session.run("python", "examples/data_parallel.py")


@nox.session
def bench(session):
    """The table of numbers, side by side with jax."""
    _install(session, "bench", jaxlib=_newest_here(session))
    session.run("python", "-m", "benchmarks", *session.posargs)
    if not session.posargs:
        session.run("python", "-m", "benchmarks", "--devices")


@nox.session
def package(session):
    """Wheel and sdist: their metadata and contents, and tests outside of the checkout."""
    runtime = [str(req) for req in REQUIREMENTS if req.name != "jaxlib"]
    _install(session, "package",
             requirements=[f"jaxlib=={_newest_here(session)}", *runtime])
    built, elsewhere = (Path(session.create_tmp()).resolve() / name for name in (
        "dist", "elsewhere"))
    for folder in (built, elsewhere):
        shutil.rmtree(folder, ignore_errors=True)
    # The wheel is built from the sdist, so that the latter has all that is needed.
    session.run("python", "-m", "build", "--outdir", built)
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    session.run("twine", "check", "--strict", wheel, sdist)
    session.run("check-wheel-contents", wheel)
    _check_wheel(session, wheel)
    shutil.unpack_archive(sdist, elsewhere, filter="data")
    (source,) = elsewhere.iterdir()
    for name in ("mjax", "mjax_ext", "mjaxlib_shim"):
        shutil.rmtree(source / name)  # so that the tests import the wheel's
    session.install("--force-reinstall", "--no-deps", wheel)
    session.chdir(source)
    session.run("python", "-m", "mjax")
    session.run("python", "-m", "mjaxlib_shim", silent=True)
    session.run("python", "examples/multiply_add.py", silent=True)
    _pytest(session, "-q", "-m", "not slow", *PACKAGED)


#: Tests of the installed wheel: what depends on the files it has, and some of everything.
PACKAGED = [f"tests/{name}.py" for name in (
    "test_tiny", "test_errors", "test_faces", "test_package", "generations/test_require",
    "shim/test_versions")]


def _check_wheel(session, wheel):
    """The files of the checkout's packages, and the pages, are in the wheel; the page of the
    package does not have local links."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        page = archive.read(metadata).decode()
    tracked = session.run("git", "ls-files", "mjax", "mjax_ext", "mjaxlib_shim", "docs/**.md",
                          ":!docs/site", external=True, silent=True).splitlines()
    tracked = [re.sub("^docs/", "mjax/docs/", name) for name in tracked]
    if missing := [*set(tracked) - names, *(n for n in names - set(tracked)
                                            if ".dist-info/" not in n)]:
        session.error("\n".join(["the wheel and the checkout differ in:", *sorted(missing)]))
    if local := re.findall(r"\]\((?!https?:)[^)]*\)", page):
        session.error("\n".join(["links that lead nowhere from a package page:", *local]))


@nox.session
def downstream(session):
    """A package that builds on v1: its own nox session, on the wheel, in fresh environments.

    On the oldest jaxlib, one between and the newest for this Python. Arguments go to its pytest.
    """
    jaxlibs = [*CUT[:2], _newest_here(session)]
    _install(session, requirements=["build>=1.2", "nox>=2025.10.14"])
    folder = Path(session.create_tmp()).resolve()
    built, copy, report = (folder / name for name in ("dist", "downstream", "report.json"))
    for old in (built, copy):
        shutil.rmtree(old, ignore_errors=True)
    report.unlink(missing_ok=True)
    session.run("python", "-m", "build", "--wheel", "--outdir", built, silent=True)
    (wheel,) = built.glob("*.whl")
    _check_wheel(session, wheel)
    shutil.copytree(ROOT / "examples" / "downstream", copy)
    session.chdir(copy)  # far from the checkout's packages
    session.run("python", "-m", "nox", "-s", "tests", "--report", report, "--", *session.posargs,
                env={"MJAX": str(wheel), "JAXLIBS": " ".join(jaxlibs), "PYTHONPATH": ""})
    ran = [cell["args"]["jaxlib"] for cell in json.loads(report.read_text())["sessions"]]
    if ran != jaxlibs:
        session.error(f"the cells that ran are {ran}, not {jaxlibs}")


@nox.session
def docs(session):
    """Run what the documentation and the docstrings show; follow the local links."""
    _check_links(session)
    _install(session, "docs", jaxlib=_newest_here(session))
    pages = sorted(path.name for path in ROOT.glob("*.md"))
    # Blocks of a page build on each other: one process.
    folders = ["docs", "mjax", "mjax_ext", "mjaxlib_shim"]
    _pytest(session, "-n", "0", "-p", "docs.doctests", *pages, *folders)


@nox.session
def site(session):
    """Build the documentation site, with warnings as errors, notebooks run and links followed."""
    _install(session, "site", jaxlib=_newest_here(session))
    session.run("python", "-m", "docs.site", session.create_tmp())
