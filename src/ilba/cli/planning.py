"""Commands from files to a publication: look at them, write the publication file, plan, publish."""

from __future__ import annotations

import click

from ilba.cli.words import commands, example, json_option, print_json


@example("ilba inspect people.csv towns.xlsx towns.gpkg")
@commands.command("inspect", short_help="What files are, and how they belong together")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@click.option("--mask-thr", type=int, default=5, show_default=True, help="Numbers of records below it are not shown.")
@json_option
def inspect_command(paths: tuple[str, ...], mask_thr: int, as_json: bool) -> None:
    """Look at records, code lists and maps: columns, hierarchies, matches (confidential). Nothing is written."""
    from ilba.data.inspecting import inspect

    found = inspect(*paths, mask_thr=mask_thr)
    if as_json:
        print_json(found.to_json())
    else:
        click.echo(str(found))
