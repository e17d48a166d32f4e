"""The commands of `python -m mjax`; without one `mjax._command` ends the process before."""

import sys

from mjax._tools.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
