"""The commands, one file for those of one purpose: functions, or groups of functions.

A command reads its arguments, calls the public interface and hands what it got to an output object.
It imports what is heavy inside its function.
"""

from __future__ import annotations

import typer

from tessel.cli.commands.demo import demo
from tessel.cli.commands.history import (
    branches,
    diff,
    log,
    ls,
    revert,
    show,
    tags,
    version,
    versions,
)
from tessel.cli.commands.import_files import import_files
from tessel.cli.commands.queries import check, explain, export, plot, query
from tessel.cli.commands.spark import group as spark
from tessel.cli.commands.spark import submit
from tessel.cli.commands.upkeep import compact, expire, fsck, gc

__all__ = ["register_all"]


def register_all(app: typer.Typer) -> None:
    """Add every command to the application, in the order in which help lists them."""
    app.command()(demo)
    app.command("import")(import_files)
    looking = (ls, show, versions, log, query, export, plot, explain, submit, check, diff, revert)
    for each in looking:
        app.command()(each)
    for group in (branches, tags):
        app.add_typer(group)
    for upkeep in (fsck, compact, expire, gc):
        app.command()(upkeep)
    app.add_typer(spark)
    app.command()(version)
