"""The options of a process: one frozen record, the environment, and a scoped override.

``current()`` is what the library reads. It starts from the environment (``TESSEL_WORKERS=4`` sets
``workers``) and ``with tessel.options(workers=1):`` replaces fields for the block, in this thread
and in the tasks it starts (a :mod:`contextvars` variable). Options change how fast and in how much
memory an answer is found, never the answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
import os
from contextvars import ContextVar
from typing import Any

from tessel.closing import scoped
from tessel.errors import NameNotFoundError, OptionError
from tessel.errors.arguments import checks_arguments
from tessel.lazy import dataclass

__all__ = ["LEAST_LIMIT", "LEAST_TEXT_BYTES", "Options", "current", "options"]

_ENVIRONMENT_PREFIX = "TESSEL_"
LEAST_LIMIT, LEAST_TEXT_BYTES = 16, 1024
"""What is no larger is within the limits of every process: options need not be looked up."""

_LEAST = {
    **{"inline_bytes": 0, "live_bytes": 0, "max_text_bytes": LEAST_TEXT_BYTES},
    **{"max_depth": LEAST_LIMIT, "max_nodes": LEAST_LIMIT, "max_query_depth": LEAST_LIMIT},
}


def _default_workers() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


@checks_arguments
@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the library; all have a default, all are checked when made.

    Attributes
    ----------
    workers
        Threads of the local pool; 1 runs everything in the calling thread. Default: the CPUs
        this process may use.
    live_bytes
        Bytes of units alive at a time in one query (read, in process, waiting for their turn, held
        by a clause that needs everything), the result of ``collect`` excluded, and so up to four
        times as much of what a last sort holds. What a clause or a barrier holds past half of it
        goes to a temporary file.
    spill_directory
        Where such files are made, which need no cleaning up: they have no names. Empty is the
        system's directory for temporary files.
    inline_bytes
        The first tasks of a stage, as long as they have fewer bytes together, run in the calling
        thread: a thread is started and waited for in 0.5 to 2 ms, more than a second one saves.
    segment_rows
        The most rows of a segment that a write cuts.
    segment_columns
        The most columns of a segment that a write cuts.
    profile
        What segments are encoded for: ``"fast"`` reading, or ``"compact"`` files.
    verify_always
        Verify pages each time they are read, not only the first time in this process.
    hash_bucket_bytes
        Aimed-for bytes of one hash bucket.
    fsync
        Whether a commit on a local disk survives power loss (it always survives ``kill -9``).
    spark_master
        Master of the Spark sessions that Tessel starts itself.
    spark_start_timeout
        Seconds in which a master other than a local one answers, or is taken as not there.
    progress
        Whether a progress bar may be shown on a terminal.
    max_clauses
        The most clauses of a query.
    max_nodes
        The most columns, literals and operators of one expression.
    max_depth
        The most operators from an expression to its columns; ``and`` of many terms counts once.
    max_query_depth
        The most queries within one another: inputs of ``concat``, ``merge`` and joins that are
        such clauses' results themselves. Python's stack holds some 70.
    max_text_bytes
        The most bytes of UTF-8 that ``parse`` reads.
    """

    workers: int = dataclasses.field(default_factory=_default_workers)
    live_bytes: int = 256 * 1024 * 1024
    spill_directory: str = ""
    inline_bytes: int = 2 * 1024 * 1024
    segment_rows: int = 1_048_576
    segment_columns: int = 256
    profile: str = "fast"
    verify_always: bool = False
    hash_bucket_bytes: int = 32 * 1024 * 1024
    fsync: bool = True
    spark_master: str = "local[2]"
    spark_start_timeout: int = 20
    progress: bool = True
    max_clauses: int = 10_000
    max_nodes: int = 1_000_000
    max_depth: int = 1_000
    max_query_depth: int = 50
    max_text_bytes: int = 4 * 1024 * 1024

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            kind: type = {"int": int, "bool": bool, "str": str}[str(field.type)]
            if kind is int and type(value) not in (int, bool) and hasattr(value, "__index__"):
                value = operator.index(value)  # numpy's integers are integers
                object.__setattr__(self, field.name, value)
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise OptionError(
                    f"option {field.name!r} takes {field.type}, not {value!r}", option=field.name
                )
            least = _LEAST.get(field.name, 0 if kind is bool else 1)
            if isinstance(value, int) and value < least:
                raise OptionError(
                    f"option {field.name!r} is at least {least}, not {value!r}", option=field.name
                )

    def replace(self, **changes: Any) -> Options:
        """Return a copy with some fields changed; an unknown name raises with the nearest."""
        for name in changes:
            self.known(name)
        return dataclasses.replace(self, **changes)

    def known(self, name: str) -> str:
        """Return the name of an option; an unknown one raises with the nearest."""
        names = [field.name for field in dataclasses.fields(self)]
        if name not in names:
            raise NameNotFoundError.for_name("option", name, names)
        return name


_TRUTHS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def _parse(name: str, kind: str, text: str) -> Any:
    if kind == "str":
        return text
    try:
        return _TRUTHS[text.strip().lower()] if kind == "bool" else int(text.replace("_", ""))
    except (KeyError, ValueError):
        raise OptionError(
            f"the environment variable {_ENVIRONMENT_PREFIX}{name.upper()} is {text!r}",
            hint=f"set it to {'1 or 0' if kind == 'bool' else 'a whole number'}",
            option=name,
        ) from None


_VARIABLES = tuple(
    _ENVIRONMENT_PREFIX + field.name.upper() for field in dataclasses.fields(Options)
)

_current: ContextVar[Options | None] = ContextVar("tessel_options", default=None)


def current() -> Options:
    """Return the options in force here: the innermost ``with options(...)``, or the environment."""
    found = _current.get()
    if found is not None:
        return found
    return _of_environment(tuple(os.environ.get(name) for name in _VARIABLES))


@functools.lru_cache(maxsize=8)
def _of_environment(texts: tuple[str | None, ...]) -> Options:
    """Return the defaults with the variables of the environment laid over them.

    To read these anew each time costs more than a query.
    """
    told = zip(dataclasses.fields(Options), texts, strict=True)
    given = {f.name: _parse(f.name, str(f.type), text) for f, text in told if text is not None}
    return Options(**given)


class _Scoped:
    """What :data:`options` is: called, it makes a block; it has no attributes to be set."""

    def __call__(self, **changes: Any) -> contextlib.AbstractContextManager[Options]:
        """Change options for a block: ``with tessel.options(workers=1): ...``.

        Raises
        ------
        NameNotFoundError
            For an unknown option, with the nearest name.
        OptionError
            For a value of the wrong type or outside its range.
        """
        return scoped(_current, current().replace(**changes) if changes else current())

    def __setattr__(self, name: str, value: Any) -> None:
        raise OptionError.not_set(current().known(name), value)

    def __repr__(self) -> str:
        return f"<tessel.options: {current()!r}>"


options = _Scoped()
"""Called, a block with other options."""
