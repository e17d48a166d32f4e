"""Environments in which something is missing or broken, made of links and files: no pip."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence

ROOT = pathlib.Path(__file__).parents[1]
#: All that mjax needs.
NEEDED = ("jaxlib", "numpy", "ml_dtypes", "opt_einsum", "packaging", "typing_extensions")
#: Variables that tests set for themselves.
_OURS = ("JAX_", "MJAX_", "XLA_", "TF_CPP_", "PYTHON")


class Environment:
    """A Python without site-packages that finds some packages, and files that tests write.

    Args:
      folder: an empty one.
      without: names of packages of `NEEDED` that are not there.
      files: path -> text of files of packages, which are found first. The rest of a package whose
        `__init__.py` is not among them is that of the installed one.
      variables: environment variables.
    """

    def __init__(self, folder: pathlib.Path, without: Sequence[str] = (),
                 files: Mapping[str, str] | None = None,
                 variables: Mapping[str, str] | None = None):
        self.folder = folder
        self.site = folder / "site"
        self.site.mkdir()
        written = files or {}
        whole = {pathlib.PurePath(path).parts[0] for path in written
                 if path.endswith("__init__.py")}
        parts = {pathlib.PurePath(path).parts[0] for path in written} - whole
        for name in NEEDED:
            if name not in without and name not in whole:
                self._link(name, name in parts)
        for path, text in written.items():
            target = self.site / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.write_text(text)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
        self.environ = {**kept, **(variables or {}),
                        "PYTHONPATH": os.pathsep.join([str(self.site), str(ROOT)])}

    def _link(self, name: str, apart: bool) -> None:
        """Links a package, with its metadata and libraries; or, in a new folder, all its parts."""
        origin = pathlib.Path(importlib.util.find_spec(name).origin)
        package = origin.parent if origin.name == "__init__.py" else origin
        installed = package.parent
        for beside in (*installed.glob(f"{name}-*.dist-info"), *installed.glob(f"{name}.libs")):
            (self.site / beside.name).symlink_to(beside)
        if not apart:
            (self.site / package.name).symlink_to(package)
            return
        (self.site / name).mkdir()
        for part in package.iterdir():
            (self.site / name / part.name).symlink_to(part)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs this Python in the environment."""
        return subprocess.run([sys.executable, "-S", *arguments], env=self.environ, text=True,
                              cwd=self.folder, capture_output=True, timeout=240, check=False)
