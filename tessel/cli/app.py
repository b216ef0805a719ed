"""The typer application: global options, the commands, and how errors end.

An error that Tessel raises on purpose is printed as its text on standard error, without a
traceback, and the exit code follows from its kind (``exit_codes``). ``--debug`` shows the
traceback.
"""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import threading
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tessel.cli.commands import register_all
from tessel.cli.exit_codes import exit_code
from tessel.errors import TesselError


class _TellingErrors(TyperGroup):
    """The group of all commands; turns our errors into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            done = super().invoke(ctx)
            sys.stdout.flush()  # here, as what cannot be written is an error of the command
            return done
        except (TesselError, OSError) as error:  # such as a full disk under our output
            if ctx.params.get("debug") or isinstance(error, BrokenPipeError):
                raise
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            typer.secho(_with_options(str(error), command), err=True, fg=typer.colors.RED)
            raise typer.Exit(exit_code(error)) from error


_ARGUMENT = re.compile(
    r"(\b\w+\((?:…, )?)?\b([a-z_]+)=(True|False|'[^']*'|\"[^\"]*\"|\[[^]]*\]|[\w.]+)(\))?"
)


def _with_options(text: str, command: Any) -> str:
    """Return the text of an error with arguments of Python as the options that a command has."""
    known = {name for param in getattr(command, "params", ()) for name in param.opts}

    def option(found: re.Match[str]) -> str:
        before, name, value, after = found.groups("")
        name, values = f"--{name.replace('_', '-')}", re.findall(r"[^][,'\" ]+", value)
        if name not in known or value == "False":
            return found[0]
        told = name if value == "True" else " ".join(f"{name} {each}" for each in values)
        # An option stands for the whole call, write(…, sort=True), that has one argument.
        return told if before and after else f"{before}{told}{after}"

    return _ARGUMENT.sub(option, text)


app = typer.Typer(
    name="tessel",
    cls=_TellingErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"tessel {version('tessel')}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="TESSEL_DEBUG", help="Show tracebacks of errors.")
    ] = False,
    progress: Annotated[
        bool | None,
        typer.Option(
            "--progress/--no-progress",
            help="Show how far work is that takes more than a second.",
            show_default="on a terminal; the option progress",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version, and exit."
        ),
    ] = False,
) -> None:
    """Versioned tables of time series: import, look, query; locally or on Spark."""
    if progress is not None:
        from tessel.options import options

        ctx.with_resource(options(progress=progress))


register_all(app)


_AGAIN_SECONDS = 0.01


def _keep_interrupts(told: sys.UnraisableHookArgs) -> None:
    """Raise Ctrl-C again that came where nothing can be raised, such as as an object is freed.

    Python would print and forget it, and the command would go on.
    """
    if isinstance(told.exc_value, KeyboardInterrupt):
        # Later, and from another thread: here it would be lost the same way.
        threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(told)


def _prepare_streams() -> bool:
    """Let standard output and error take all text; return whether there is a standard output.

    Where it was closed before we began, a pipe that nobody reads stands in for it; what would go to
    a closed standard error is dropped.
    """
    is_open = sys.stdout is not None
    if not is_open:
        reading, writing = os.pipe()
        os.close(reading)
        sys.stdout = open(writing, "w", encoding="utf-8")  # noqa: SIM115  # as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # What the user chose, such as PYTHONIOENCODING=ascii:replace, stays.
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")
    return is_open


def run() -> None:
    """Run the command of this process and exit with its code."""
    sys.unraisablehook = _keep_interrupts
    is_open = _prepare_streams()
    try:
        app()
    except (BrokenPipeError, SystemExit) as error:
        if not isinstance(error.__context__ or error, BrokenPipeError):
            raise
        # The reader of our output is gone (``tessel show x | head -3``), of which click makes exit
        # code 1, and which is no error of ours; without this, the interpreter complains once more
        # when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0 if is_open else 1)
