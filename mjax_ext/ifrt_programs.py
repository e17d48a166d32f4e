"""Programs for runtimes of plugins, in the form that jaxlib's clients take (IFRT)."""

from mjax._engine.base.faces import face
from mjaxlib_shim.executables import ifrt_programs

__all__ = ["ifrt_programs"]

__getattr__, __dir__ = face("mjax_ext.ifrt_programs")
