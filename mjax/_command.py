"""`python -m mjax` without a command ends here, before anything is imported that may be broken."""

import sys

from mjaxlib_shim.starting import reporting

if reporting("mjax"):
    from mjax._tools.doctor import main

    sys.exit(main(sys.argv[1:]))
