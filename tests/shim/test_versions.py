"""The window and its check, on jaxlibs that are not installed."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import subprocess
import sys
import warnings

import pytest
from packaging.version import Version

import mjaxlib_shim
from mjaxlib_shim import versions
from mjaxlib_shim.versions import (
    FLOOR,
    NEWEST,
    SUPPORT,
    JaxlibMissingError,
    JaxlibVersionError,
    UntestedJaxlibWarning,
    check,
    installable,
)


def _accepts(version, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check(version, **keywords) == version


# ---------------------------------------------------------------- the table


def test_table_is_ordered():
    numbers = [Version(release.version) for release in SUPPORT]
    assert numbers == sorted(set(numbers))
    assert (str(numbers[0]), str(numbers[-1])) == (FLOOR, NEWEST)
    for field in ("extension_version", "min_python"):
        values = [getattr(release, field) for release in SUPPORT]
        assert values == sorted(values), field
    stablehlo = [Version(release.stablehlo) for release in SUPPORT]
    assert stablehlo == sorted(stablehlo)


def test_matrix_holds_both_ends():
    matrix = [release.version for release in SUPPORT if release.matrix]
    assert matrix[0] == FLOOR and matrix[-1] == NEWEST


def test_row_of_the_running_jaxlib():
    rows = {release.version: release for release in SUPPORT}
    row = rows.get(mjaxlib_shim.jaxlib_version)
    if row is None:
        pytest.skip("a jaxlib outside the table")
    from mjaxlib_shim.mlir import hlo

    assert row.extension_version == mjaxlib_shim.extension_version
    assert row.stablehlo == hlo.get_current_version()
    assert row.min_python <= sys.version_info[:2] <= (row.max_python or (3, 99))


def test_table_loads_without_site_packages():
    file = pathlib.Path(versions.__file__)
    code = f"import runpy; print(len(runpy.run_path({str(file)!r})['SUPPORT']))"
    output = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert int(output.stdout) == len(SUPPORT)


# ---------------------------------------------------------------- check


def test_installed_one_passes():
    assert check() == mjaxlib_shim.jaxlib_version


@pytest.mark.parametrize("version", [release.version for release in SUPPORT])
def test_every_release_of_the_table_passes(version):
    _accepts(version)


@pytest.mark.parametrize(
    "version",
    [
        "0.4.37",  # a hole in the table is still inside the window
        "0.10.2.dev20260101",
        "0.9.0rc1",
        "0.5.1+cuda12",
        f"{FLOOR}+local",
        f"{FLOOR}.post1",
        f"{NEWEST}+selfbuilt",
        f"{NEWEST}.post2",
        f"{NEWEST}rc1",
    ],
)
def test_inside_the_window(version):
    _accepts(version)


@pytest.mark.parametrize("version", ["0.4.35", "0.4.9", f"{FLOOR}.dev1", f"{FLOOR}rc2", "0.1.70"])
def test_too_old(version):
    with pytest.raises(JaxlibVersionError) as error:
        check(version, python=(3, 11))
    assert str(error.value) == (
        f"jaxlib {version} is too old for mjax, which runs on jaxlib 0.4.36 to 0.12.0.1. "
        "Install a supported one with:\n  python -m pip install jaxlib==0.10.2"
    )


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ((3, 10), "python -m pip install jaxlib==0.6.2"),
        ((3, 11), "python -m pip install jaxlib==0.10.2"),
        ((3, 12), "python -m pip install jaxlib==0.12.0.1"),
        ((3, 14), "python -m pip install jaxlib==0.12.0.1"),
        ((3, 9), "python3.12 -m pip install jaxlib==0.12.0.1   "),
    ],
)
def test_command_installs_what_this_python_can_have(python, command):
    with pytest.raises(JaxlibVersionError) as error:
        check("0.4.30", python=python)
    assert f"\n  {command}" in str(error.value)


def test_no_wheel_for_this_python():
    assert installable((3, 9)) is None
    with pytest.raises(JaxlibVersionError, match=r"no supported jaxlib has wheels for Python 3\.9"):
        check("0.4.30", python=(3, 9))


@pytest.mark.parametrize("version", ["0.12.1", "0.13.0.dev20270101", "0.13.0rc1", "1.0", "1!0.5.0"])
def test_untested_warns_once(version):
    with pytest.warns(UntestedJaxlibWarning) as caught:
        assert check(version, environ={}) == version
    (warning,) = caught
    assert str(warning.message) == (
        f"jaxlib {version} is newer than the newest one mjax was tested on (0.12.0.1; the "
        "window is 0.4.36 to 0.12.0.1). Set MJAX_UNTESTED_JAXLIB=ignore to silence this "
        "warning or MJAX_UNTESTED_JAXLIB=error to make it an error."
    )


def test_untested_ignored():
    _accepts("0.13.0", environ={"MJAX_UNTESTED_JAXLIB": "ignore"})


def test_untested_is_an_error():
    with pytest.raises(JaxlibVersionError, match="MJAX_UNTESTED_JAXLIB=error makes this") as error:
        check("0.13.0", python=(3, 12), environ={"MJAX_UNTESTED_JAXLIB": "error"})
    assert "python -m pip install jaxlib==0.12.0.1" in str(error.value)


def test_variable_with_another_value():
    with pytest.raises(ValueError, match="=quiet is not understood: use one of warn, ignore"):
        check("0.13.0", environ={"MJAX_UNTESTED_JAXLIB": "quiet"})
    with pytest.raises(ValueError, match="quiet is not understood: use one of warn, ignore, err"):
        check("0.6.2", environ={"MJAX_UNTESTED_JAXLIB": "quiet"})


def test_the_warning_of_a_newer_jaxlib_is_at_the_line_of_the_import(tmp_path):
    (tmp_path / "jaxlib").mkdir()
    (tmp_path / "jaxlib" / "__init__.py").write_text("")
    (tmp_path / "jaxlib" / "version.py").write_text("__version__ = '0.99.0'")
    (tmp_path / "user.py").write_text("import os\n\nimport mjax.numpy\n")
    root = os.path.dirname(os.path.dirname(mjaxlib_shim.__file__))
    done = subprocess.run([sys.executable, tmp_path / "user.py"], text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), root])})
    assert f"{tmp_path / 'user.py'}:3: UntestedJaxlibWarning: jaxlib 0.99.0" in done.stderr


def test_no_version_at_all():
    with pytest.raises(JaxlibVersionError, match="calls itself 'unknown', which is not a PEP 440"):
        check("unknown")


@pytest.mark.parametrize("module, listed, again", [
    ("jaxlib", False, ""), ("jaxlib", True, "--force-reinstall "),
    ("jaxlib.version", False, "--force-reinstall ")])
def test_missing_jaxlib(monkeypatch, module, listed, again):
    class Without:
        def find_spec(self, name, path=None, target=None):
            if name == module:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for loaded in ("jaxlib", "jaxlib.version"):
        monkeypatch.delitem(sys.modules, loaded, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Without(), *sys.meta_path])
    if not listed:
        monkeypatch.setattr(importlib.metadata, "version", _unlisted)
    with pytest.raises(JaxlibMissingError) as error:
        check(python=(3, 11))
    assert str(error.value).endswith(f"with:\n  python -m pip install {again}jaxlib==0.10.2")
    assert ("A part of it is there." in str(error.value)) == bool(again)
    assert "mjax needs jaxlib (and only jaxlib, not jax)" in str(error.value)


def _unlisted(name):
    raise importlib.metadata.PackageNotFoundError(name)


def test_import_fails_before_any_c_code(run_python, tmp_path):
    """A fake old jaxlib: the message comes from `check`, nothing else is touched."""
    package = tmp_path / "jaxlib"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "version.py").write_text("__version__ = '0.4.14'\n")
    (package / "xla_client.py").write_text("raise SystemExit('touched')\n")

    def body():
        try:
            import mjaxlib_shim  # noqa: F401
        except ImportError as error:
            assert type(error).__name__ == "JaxlibVersionError"
            assert "jaxlib 0.4.14 is too old" in str(error)
        else:
            raise AssertionError

    run_python(body, path=[tmp_path])
