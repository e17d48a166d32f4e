"""`python -m mjax.alias script.py ARGUMENTS` and `python -m mjax.alias -m module ARGUMENTS`."""

import sys

from mjax.alias._command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
