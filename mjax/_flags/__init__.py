"""The tables of flags. They need no jaxlib: `python -m mjax` reads them where nothing else runs."""
