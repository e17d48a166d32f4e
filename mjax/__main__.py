"""`python -m mjax`, for callers that import it: `mjax._command` ends the process before."""

import sys

from mjax._tools.doctor import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
