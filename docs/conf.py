"""How the documentation is built. Nothing here needs a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from docutils import nodes
from docutils.parsers.rst import Directive

import ilba
from ilba.cli import commands

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "ilba"
author = "the ilba contributors"
copyright = f"{author}, Apache-2.0"
version = release = ilba.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
myst_enable_extensions = ["deflist"]
exclude_patterns = ["_build", "_templates"]
default_role = "literal"  # docstrings write `name`, as Markdown does
pygments_style = "friendly"
templates_path = ["_templates"]

myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the types stand in the signatures of the code; here they hide the names
autodoc_default_options = {"members": True}
numpydoc_show_class_members = False  # autodoc lists them

html_theme = "furo"
html_title = "ilba"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_theme_options = {  # a line of 120 letters fits into the column on a screen of 1280
    "light_css_variables": {"code-font-size": "78%"},
}
html_show_sphinx = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}


class Commands(Directive):
    """Every command with its own help, so that this page cannot drift from the program."""

    def run(self) -> list[nodes.Node]:
        """One section per command."""
        root = click.Context(commands, info_name="ilba", terminal_width=90, **commands.context_settings)
        return [self._section(context) for context in _walk(root)]

    def _section(self, context: click.Context) -> nodes.section:
        name, text = context.command_path, context.get_help()
        section = nodes.section(ids=[name.replace(" ", "-")], names=[name])
        section += nodes.title(name, name)
        section += nodes.literal_block(text, text, language="text")
        self.state.document.note_implicit_target(section)
        return section


def _walk(context: click.Context) -> list[click.Context]:
    found = [context]
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            found += _walk(click.Context(command, parent=context, info_name=name, **command.context_settings))
    return found


def setup(app: Sphinx) -> None:
    """Tell Sphinx of the directive."""
    app.add_directive("ilba-commands", Commands)
