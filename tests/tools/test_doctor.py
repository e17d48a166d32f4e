"""`python -m mjax` where something is missing or broken: text and exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import mjax
import mjaxlib_shim
from mjax._tools import doctor
from mjaxlib_shim.examination import Finding, command
from mjaxlib_shim.versions import FLOOR, NEWEST, pip_command
from tests.broken import ROOT, Environment

INSTALL = pip_command(sys.version_info[:2]).removeprefix("python -m pip install ")
_JAX_TELLS = "open(__file__ + '.imported', 'w').close()"



def _metadata(name, version="2.0.0"):
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"


#: Name -> arguments of `Environment`, whether mjax is usable, what the report says, its command.
CASES = {
    "no jaxlib": ({"without": ["jaxlib"]}, False,
                  ["cannot be imported (No module named 'jaxlib').",
                   f"window    {FLOOR} to {NEWEST}"],
                  f"python -m pip install {INSTALL}"),
    "nothing": ({"without": ["jaxlib", "numpy", "ml_dtypes"]}, False,
                ["problem: numpy is not installed", "problem: ml_dtypes is not installed"],
                f"python -m pip install numpy ml_dtypes {INSTALL}"),
    "jaxlib broken": (
        {"files": {"jaxlib/xla_client.py": "raise ImportError('libx.so: undefined symbol: y')"}},
        False, ["jaxlib cannot be imported (ImportError: libx.so: undefined symbol: y)."],
        f"python -m pip install --force-reinstall {INSTALL}"),
    "jaxlib in part": (
        {"files": {"jaxlib/__init__.py": ""}}, False,
        ["cannot be imported (No module named 'jaxlib.version'). A part of it is there."],
        f"python -m pip install --force-reinstall {INSTALL}"),
    "jaxlib without a library": (
        {"files": {"jaxlib/cpu_feature_guard.py": "raise ImportError('no such file')",
                   "jaxlib/xla_client.py": "raise ImportError('no such file')"}}, False,
        ["jaxlib cannot be imported (ImportError: no such file)."],
        f"python -m pip install --force-reinstall {INSTALL}"),
    "numpy listed only": (
        {"without": ["numpy"], "files": {"numpy-2.0.0.dist-info/METADATA": _metadata("numpy")}},
        False, ["numpy is listed by pip, but its files are not there; mjax needs it."],
        "python -m pip install --force-reinstall numpy"),
    "jaxlib deadly": (
        {"files": {"jaxlib/xla_client.py": "import os; os.abort()"}}, False,
        ["the process that tried mjaxlib_shim was ended by SIGABRT"],
        f"python -m pip install --force-reinstall {INSTALL}"),
    "jaxlib old": (
        {"files": {"jaxlib/__init__.py": "", "jaxlib/version.py": "__version__ = '0.4.30'"}}, False,
        ["jaxlib    0.4.30 (cannot be used)",
         f"jaxlib 0.4.30 is too old for mjax, which runs on jaxlib {FLOOR} to {NEWEST}."],
        f"python -m pip install {INSTALL}"),
    "jaxlib new, as an error": (
        {"files": {"jaxlib/__init__.py": "", "jaxlib/version.py": "__version__ = '0.99.0'"},
         "variables": {"MJAX_UNTESTED_JAXLIB": "error"}}, False,
        ["jaxlib 0.99.0 is newer than the newest one", "MJAX_UNTESTED_JAXLIB=error makes this"],
        f"python -m pip install {INSTALL}"),
    "numpy broken": (
        {"files": {"numpy/__init__.py": "raise ImportError('no BLAS')"}}, False,
        ["numpy cannot be imported (ImportError: no BLAS)."],
        "python -m pip install --force-reinstall numpy"),
    "a noisy interpreter": (
        {"files": {"sitecustomize.py": "print('welcome')"}}, True, ["cpu:0"], None),
    "no ml_dtypes": ({"without": ["ml_dtypes"]}, False, ["ml_dtypes is not installed"],
                     "python -m pip install ml_dtypes"),
    "values": ({"variables": {"MJAX_UNTESTED_JAXLIB": "quiet", "JAX_ENABLE_X64": "maybe"}}, False,
               ["MJAX_UNTESTED_JAXLIB=quiet is not understood: use one of warn, ignore, error",
                "JAX_ENABLE_X64: config flag 'enable_x64' takes True or False; got 'maybe'."],
               "unset JAX_ENABLE_X64 MJAX_UNTESTED_JAXLIB"),
    "a value that the engine refuses": (
        {"variables": {"MJAX_DEFAULT_PRNG_IMPL": "dice"}}, False,
        ["default_prng_impl must be one of"], "unset MJAX_DEFAULT_PRNG_IMPL"),
    "a number of devices": (
        {"variables": {"MJAX_NUM_CPU_DEVICES": "0"}}, False,
        ["mjax cannot be imported (ValueError: num_cpu_devices must be at least 1"],
        "unset MJAX_NUM_CPU_DEVICES"),
    "no execution": (
        {"variables": {"JAX_NO_EXECUTION": "1"}}, False, ["no program can be run (RuntimeError: "],
        "unset JAX_NO_EXECUTION"),
    "a platform": ({"variables": {"JAX_PLATFORMS": "abacus"}}, False,
                   ["platform 'abacus' is not available"], "unset JAX_PLATFORMS"),
    "XLA_FLAGS": ({"variables": {"XLA_FLAGS": "--xla_no_such_flag=1"}}, False,
                  ["in XLA_FLAGS: --xla_no_such_flag=1"], "unset XLA_FLAGS"),
    # Usable:
    "a transfer guard": (
        {"variables": {"MJAX_TRANSFER_GUARD": "disallow_explicit"}}, True, ["cpu:0"], None),
    "a plugin that does not load": (
        {"files": {"jax_plugins/abacus/__init__.py": "raise OSError('no libabacus.so')",
                   "abacus-2.0.0.dist-info/METADATA": _metadata("abacus"),
                   "abacus-2.0.0.dist-info/entry_points.txt":
                   "[jax_plugins]\nabacus = jax_plugins.abacus\n"}}, True,
        ["plugins   abacus 2.0.0; mjax does not load them by itself", "cpu:0"], None),
    "jaxlib new": (
        {"files": {"jaxlib/version.py": "__version__ = '0.99.0'"}}, True,
        ["warning: jaxlib 0.99.0 is newer than the newest one mjax was tested on", "cpu:0",
         "calls itself 0.99.0"], None),
    "jax beside, and misspelt variables": (
        {"files": {"jax/__init__.py": _JAX_TELLS,
                   "jax-0.10.2.dist-info/METADATA": _metadata("jax", "0.10.2")},
         "variables": {"JAX_ENABLE_X46": "1", "MJAX_TRANSFER_GARD": "log", "XLA_FLAG": "",
                       "JAX_ENABLE_X64": "1", "XLA_MY_PASSWORD": "123"}}, True,
        ["jax 0.10.2", "settings  enable_x64=True",
         "nothing reads the environment variable JAX_ENABLE_X46: did you mean JAX_ENABLE_X64?",
         "MJAX_TRANSFER_GARD: did you mean MJAX_TRANSFER_GUARD?", "did you mean XLA_FLAGS?",
         "unset JAX_ENABLE_X46", "XLA_MY_PASSWORD=<hidden>"], None),
}
_LATE = ("a number of devices", "no execution", "a value that the engine refuses", "a platform",
         "XLA_FLAGS")


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] * (name in _LATE)) for name in CASES])
def test_reports(tmp_path, name):
    arguments, usable, texts, remedy = CASES[name]
    environment = Environment(tmp_path, **arguments)
    done = environment.python("-m", "mjax")
    assert done.returncode == (0 if usable else 1), done.stdout + done.stderr
    assert done.stderr == ""
    for text in [f"mjax      {mjax.__version__} in {ROOT / 'mjax'}", *texts]:
        assert text in done.stdout, done.stdout
    lines = done.stdout.splitlines()
    assert ("mjax can run here." in lines) == usable
    assert ("mjax cannot be used here." in lines) == (not usable)
    if not usable:
        assert lines[-2:] == ["To fix it, run:", f"  {remedy}"]
    assert not (environment.site / "jax" / "__init__.py.imported").exists()


@pytest.mark.parametrize("name", ["nothing", "jaxlib deadly", "values"])
def test_json_alone_is_on_stdout(tmp_path, name):
    arguments, _, texts, remedy = CASES[name]
    done = Environment(tmp_path, **arguments).python("-m", "mjax", "--json")
    data = json.loads(done.stdout)
    assert done.returncode == 1 and done.stderr == ""
    assert data["usable"] is False and data["remedy"] == remedy
    assert texts[-1].removeprefix("problem: ") in data["problem"]
    assert data["window"] == [FLOOR, NEWEST] and data["devices"] == [] and data["gates"] == []


@pytest.mark.parametrize("name", ["numpy broken", "jaxlib old"])
def test_an_ordinary_import_raises(tmp_path, name):
    environment = Environment(tmp_path, **CASES[name][0])
    for code in (["-c", "import mjax"], ["-m", "mjax.numpy"], ["-m", "mjax", "trace", "x.py"]):
        done = environment.python(*code)
        assert done.returncode == 1 and "Error: " in done.stderr and done.stdout == ""


def test_here(tmp_path):
    """All facts, where all is well."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "MJAX_"))}
    folder = str(tmp_path / "cache")
    environ |= {"JAX_COMPILATION_CACHE_DIR": folder,
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    done = subprocess.run([sys.executable, "-m", "mjax", "--json"], capture_output=True, text=True,
                          check=True, env=environ)
    data = json.loads(done.stdout)
    assert data["usable"] and data["problem"] is None and data["remedy"] is None
    assert data["jaxlib"] == mjaxlib_shim.jaxlib_version and data["mjax"] == mjax.__version__
    assert data["backend"] == "cpu" and len(data["devices"]) == len(mjax.devices("cpu"))
    assert {gate["name"] for gate in data["gates"]} == {gate.name for gate in mjaxlib_shim.GATES}
    assert data["caches"]["folder"] == folder and data["caches"]["writable"]
    assert not data["caches"]["exists"] and not (tmp_path / "cache").exists()
    assert data["settings"] == {"compilation_cache_dir": folder,
                                "persistent_cache_min_compile_time_secs": 0.0}
    assert not data["jax_loaded"]


def test_versions_that_mjax_does_not_ask_for(tmp_path):
    asks = ["numpy>=99", "opt-einsum>=3", "jaxlib>=99", "scipy>=99; extra == 'x'"]
    environment = Environment(tmp_path, without=["jaxlib"], files={
        "mjax-0.1.0.dist-info/METADATA": _metadata("mjax", "0.1.0") + "".join(
            f"Requires-Dist: {line}\n" for line in asks)})
    report = environment.python("-m", "mjax").stdout
    (line,) = [line for line in report.splitlines() if " is installed; mjax asks for " in line]
    assert line.startswith("warning: numpy ") and line.endswith("numpy>=99.")
    assert "  python -m pip install 'numpy>=99'" in report.splitlines()


def test_damaged_metadata(tmp_path):
    environment = Environment(tmp_path, without=["jaxlib", "numpy"], files={
        "mjax-0.1.0.dist-info/METADATA": _metadata("mjax", "0.1.0") + "Requires-Dist: !x\n",
        "numpy-2.0.0.dist-info/METADATA": "",
        "libtpu-1.dist-info/METADATA": _metadata("libtpu", "1"),
        "abacus-1.dist-info/METADATA": _metadata("abacus", "1"),
        "abacus-1.dist-info/entry_points.txt": "", "jax-1.dist-info/METADATA": ""})
    (environment.site / "numpy-2.0.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe")
    (environment.site / "abacus-1.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe")
    for module in ("mjax", "mjaxlib_shim"):
        done = environment.python("-m", module)
        assert done.returncode == 1 and done.stderr == ""
        assert "problem: numpy is not installed" in done.stdout
    assert "plugins   libtpu 1; " in environment.python("-m", "mjax").stdout


def test_a_cache_that_cannot_be_used(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    environment = Environment(tmp_path, without=["jaxlib"],
                              variables={"JAX_COMPILATION_CACHE_DIR": str(file)})
    assert (f"warning: nothing can be written to the compilation cache {file}.\n"
            "  unset JAX_COMPILATION_CACHE_DIR\n") in environment.python("-m", "mjax").stdout


def test_a_cache_that_cannot_be_read(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError

    assert doctor._of_cache(doctor._caches({"compilation_cache_dir": str(tmp_path)})) == []
    monkeypatch.setattr(doctor.os, "scandir", refuse)
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    found = doctor._of_cache(doctor._caches({"compilation_cache_dir": str(tmp_path)}))
    assert [finding.text for finding in found] == [
        f"nothing can be {what} the compilation cache {tmp_path}."
        for what in ("read from", "written to")]
    assert not any(finding.fatal for finding in found) and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["numpy", "jaxlib"])
def test_files_that_hide_a_package(tmp_path, name):
    environment = Environment(tmp_path)
    file = tmp_path / f"{name}.py"
    file.write_text("import absent")
    lines = environment.python("-m", "mjax").stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("problem: ")]
    assert "cannot be imported (" in line and "No module named 'absent')" in line
    assert line.endswith(f". {name} is {file} here, which hides {environment.site / name}.")
    assert lines[-1] == f"  mv {file} {tmp_path / f'my_{name}.py'}"
    other = tmp_path / "other"
    other.mkdir()
    file.rename(other / file.name)
    environment.environ["PYTHONPATH"] = f"{other}:{environment.environ['PYTHONPATH']}"
    assert environment.python("-m", "mjax").stdout.splitlines()[-1] == "  unset PYTHONPATH"


@pytest.mark.parametrize("module", ["mjax", "mjaxlib_shim"])
def test_output_that_ends_early_or_lacks_characters(tmp_path, module):
    environment = Environment(tmp_path, without=["jaxlib"], variables={
        "MJAX_PLATFORMS": "\N{GREEK SMALL LETTER PI}", "PYTHONIOENCODING": "ascii"})
    text = environment.python("-m", module).stdout
    assert module == "mjaxlib_shim" or "MJAX_PLATFORMS=\\u03c0\n" in text
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-S", "-m", module], env=environment.environ,
                          stdout=writer, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_help_names_the_other_command(capsys):
    with pytest.raises(SystemExit):
        doctor.main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "python -m mjax trace ..." in text.partition("Says what")[0]
    assert "`python -m mjax trace script.py`" in text and "exit status is 0 if mjax can" in text


def test_commands_are_joined():
    findings = [Finding("", ("numpy",), reinstall=True), Finding("", variables=("A", "B")),
                Finding("", ("numpy", "jaxlib==1")), Finding("", other="reboot")]
    assert command(findings) == (
        "unset A B && python -m pip install --force-reinstall numpy jaxlib==1 && reboot")
    assert command([Finding("only text")]) is None
