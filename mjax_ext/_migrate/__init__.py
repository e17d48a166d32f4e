"""`migrate`: moves a library to a generation, file by file."""
