"""A program that imports jax, for `python -m mjax.alias -m`."""

import sys

from jax import __version__  # noqa: TID251

if __name__ == "__main__":
    print(__name__, __version__, sys.argv[1:])
