"""The commands, one file each: a function ``register`` that adds it to the application.

A command reads its arguments, calls the public interface and hands what it got to an output object.
It imports what is heavy inside its function.
"""

from __future__ import annotations

import typer

from tessel.cli.commands import (
    branch,
    compact,
    demo,
    diff,
    expire,
    explain,
    fsck,
    gc,
    import_files,
    log,
    ls,
    query,
    revert,
    show,
    spark,
    tag,
    version,
    versions,
)

__all__ = ["register_all"]

_COMMANDS = (
    demo,
    import_files,
    ls,
    show,
    versions,
    log,
    query,
    explain,
    diff,
    revert,
    branch,
    tag,
    fsck,
    compact,
    expire,
    gc,
    spark,
    version,
)


def register_all(app: typer.Typer) -> None:
    """Add every command to the application, in the order in which help lists them."""
    for command in _COMMANDS:
        command.register(app)
