"""Sphinx's settings; `docs/site/__main__.py` gathers the pages and runs it."""

from sphinx.domains.python import PythonDomain

from mjax import __version__

project = "mjax"
author = "The mjax authors"
copyright = "The mjax authors. Apache-2.0"
version = release = __version__
html_title = f"mjax {release}"

extensions = ["myst_nb", "sphinx.ext.mathjax"]
exclude_patterns = ["static"]
source_suffix = {".md": "myst-nb"}
default_role = "code"
add_module_names = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
highlight_language = "python"

myst_enable_extensions = ["colon_fence", "fieldlist", "dollarmath"]
myst_heading_anchors = 4
# A text notebook that fails stops the build; other pages hold no cells.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["mjax.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#33658a", "color-brand-content": "#33658a"},
    "dark_css_variables": {"color-brand-primary": "#7fb2d6", "color-brand-content": "#7fb2d6"},
}
html_copy_source = False
html_show_sphinx = False


class ExactNames(PythonDomain):
    """Links of types lead to a name in full, or to one of the same module; Sphinx would guess."""

    def find_obj(self, env, modname, classname, name, type, searchmode=0):
        return super().find_obj(env, modname, classname, name, type, 0)


def setup(app):
    app.add_domain(ExactNames, override=True)
