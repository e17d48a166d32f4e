"""Programs for runtimes of plugins, in the form that jaxlib's clients take (IFRT).

`ifrt_programs` is jaxlib's own module, and the two functions are its functions:
`make_plugin_program(data)` wraps a program that a plugin understands, given as bytes or text, and
`make_plugin_compile_options()` makes the options for its compilation.
"""

from mjax._engine.base.faces import face
from mjaxlib_shim.executables import ifrt_programs

__all__ = ["ifrt_programs", "make_plugin_compile_options", "make_plugin_program"]

make_plugin_compile_options = ifrt_programs.make_plugin_compile_options
make_plugin_program = ifrt_programs.make_plugin_program

face("mjax_ext.ifrt_programs")
