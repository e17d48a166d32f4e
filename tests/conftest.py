"""What holds for every test: each jaxpr that is built is type-checked.

The switch is an environment variable, so that subprocesses have it too and the tests of the
shim need no mjax.
"""

from __future__ import annotations

import os

os.environ.setdefault("MJAX_ENABLE_CHECKS", "1")
