"""`install`, and the finder of the modules and of the metadata of `jax`."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from types import ModuleType
from typing import Any

from mjax.alias._modules import AliasModule, is_provided, why_no_module

#: The release that mjax follows.
JAX = "0.10.2"
_RELEASE = re.compile(r"\d+\.\d+\.\d+", re.ASCII)


class _Distribution(Distribution):
    """The metadata of a package that is not installed."""

    def __init__(self, version: str):
        self._texts = {"METADATA": f"Metadata-Version: 2.1\nName: jax\nVersion: {version}\n"}

    def read_text(self, filename: str) -> str | None:
        return self._texts.get(filename)

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{path}: jax is an alias of mjax and does not have files")


class _Finder(DistributionFinder, Loader):
    """Finds `jax` and its modules, which are those of `_modules`, and its metadata."""

    def __init__(self, version: str):
        self.version = version

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "jax" and not name.startswith("jax."):
            return None
        if not is_provided(name):
            if sys._getframe(2).f_globals.get("__name__") == "importlib.util":
                return None  # find_spec of importlib asks whether there is such a module
            # Not with `name`: `from jax.m import n` hides an error of that name behind its own.
            raise ModuleNotFoundError(why_no_module(*name.rsplit(".", 1)))
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return AliasModule(spec.name, self.version)

    def exec_module(self, module: ModuleType) -> None:
        """Names are looked up when they are used."""

    def find_distributions(self, context: Any = DistributionFinder.Context()  # noqa: B008
                           ) -> Iterator[Distribution]:
        if context.name is None or context.name.lower() == "jax":
            yield _Distribution(self.version)


def install(jax_version: str = JAX) -> ModuleType:
    """Makes `import jax` give mjax, in this process and from now on.

    The module `jax` and its submodules are objects of their own: assigning to their attributes does
    not change mjax. Private names, those of `jax._src`, are the few that `docs/alias.md` lists.

    Args:
      jax_version: what `jax.__version__` says, `"0.10.2"` or another release. Libraries choose
        their ways by it; the meaning of all names stays that of jax 0.10.2.

    Returns:
      The module `jax`. A second call with the same version gives it again.

    Raises:
      RuntimeError: the real jax is loaded already, or the alias is there with another version.
      ValueError: the version is not of the form `1.2.3`.

    Example:
      >>> import subprocess, sys
      >>> program = "from mjax.alias import install; print(install().numpy.arange(3).sum())"
      >>> subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
      '3\\n'

    Source: `docs/alias.md`.
    """
    if not isinstance(jax_version, str) or not _RELEASE.fullmatch(jax_version):
        raise ValueError(
            f"jax_version must be a release such as '{JAX}', not {jax_version!r}")
    loaded = sys.modules.get("jax")
    if loaded is None:
        for name in [name for name in sys.modules if name.startswith("jax.")]:
            del sys.modules[name]  # what an import of jax that failed has left
        sys.meta_path.insert(0, _Finder(jax_version))
        return importlib.import_module("jax")  # the finder's
    if not isinstance(loaded, AliasModule):
        raise RuntimeError(
            "mjax.alias.install() came too late: the real jax is loaded already, from "
            f"{getattr(loaded, '__file__', 'an unknown place')}. Install the alias before anything "
            "imports jax, or start the program with `python -m mjax.alias`.")
    if loaded.__version__ != jax_version:
        raise RuntimeError(
            f"mjax.alias is installed already, as jax {loaded.__version__}: libraries that are "
            f"loaded have seen that version. Ask for {jax_version} in the first call.")
    return loaded
