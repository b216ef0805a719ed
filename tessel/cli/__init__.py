"""The ``tessel`` command: commands compute, an output object prints.

Nothing imports this part. It is the only one that knows typer and rich (extra ``cli``) and the
only one that prints. Whatever is heavy is imported by the command that needs it, so that
``tessel --help`` answers at once.

- ``app``: the application and how errors become exit codes (``exit_codes``)
- ``commands/``: one file for the commands of one purpose
- ``output``: what prints, as a table, JSON, CSV or Arrow
- ``arguments``, ``query_options``, ``job_files``: what commands are given
- ``flights``: the data of the demo
"""

from __future__ import annotations

import gc
import os
import sys

from tessel.errors import MissingDependencyError

__all__ = ["main"]

_ALLOCATIONS = 50_000  # of objects, less those that were freed, before garbage is collected
_BLAS_CYCLES = "20"  # they sleep after 2^20 cycles without work, by default after 2^28


def main() -> None:
    """Run the ``tessel`` command with the arguments of this process, and exit."""
    # What modules make lives as long as the process: looking through it for garbage while they are
    # imported took a tenth of the time of a command that lists symbols.
    gc.set_threshold(_ALLOCATIONS)
    # Threads of numpy's BLAS, which no command uses, wait busily for work while others start.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _BLAS_CYCLES)
    try:
        from tessel.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        from tessel.cli.exit_codes import exit_code

        missing = MissingDependencyError.for_extra(error.name, "cli", "the tessel command")
        print(missing, file=sys.stderr)
        sys.exit(exit_code(missing))
    run()
