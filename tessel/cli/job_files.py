"""What ``tessel submit`` runs: a query, where it reads, where its result goes, and on what.

A job is a file of four sections, all but ``query`` optional and overridden by options::

    read: {store: /data/trades, symbol: trades, as_of: 7}
    query: {tessel_plan: 1, clauses: [...]}     # or the text of a condition
    write: {symbol: means, verb: append}        # or {file: means.parquet}
    engine: {name: spark, master: "spark://host:7077", conf: {spark.executor.memory: 4g}}

The plain form of a query is a job of that section alone.
"""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from tessel.cli.arguments import EngineName, Verb, executor_of, open_existing
from tessel.cli.query_options import is_document, query_of, read_document
from tessel.errors import InvalidInputError, NameNotFoundError, PlanFormatError, TesselError
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.api import LazyTable

_SECTIONS = {
    "read": {"store": "store", "symbol": "symbol", "as_of": "as_of"},
    "write": {"symbol": "into", "verb": "verb", "keys": "keys", "file": "file"},
    "engine": {"name": "engine", "master": "master", "conf": "conf"},
}
_ENGINES = get_args(EngineName)
_VERBS = get_args(Verb)


@dataclass(frozen=True, slots=True)
class JobFile:
    """One job, whose fields are those of the sections; ``query`` is the plain form of one."""

    store: str
    symbol: str
    query: Any
    as_of: str | None = None
    into: str | None = None
    verb: str = "write"
    keys: Sequence[str] | None = None
    file: str | None = None
    engine: str | None = None
    master: str | None = None
    conf: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.verb not in _VERBS:
            raise NameNotFoundError.for_name("verb", self.verb, _VERBS)
        if self.engine is not None and self.engine not in _ENGINES:
            raise NameNotFoundError.for_name("engine", self.engine, _ENGINES)
        if self.into is not None and self.file is not None:
            raise InvalidInputError(
                f"the result goes into the symbol {self.into!r} or to the file {self.file!r}, "
                "not to both",
                hint="leave one of them out, and copy what is written",
            )
        if (self.verb == "upsert") != bool(self.keys):
            raise InvalidInputError(
                "an upsert, and no other verb, takes keys", hint="--verb upsert --key COLUMN"
            )
        if self.file is not None:
            _writer_of(Path(self.file))

    def to_json(self) -> dict[str, Any]:
        """Return the sections, with which another process runs the same job."""
        told: dict[str, Any] = {"query": self.query}
        for section, fields in _SECTIONS.items():
            values = {name: getattr(self, field) for name, field in fields.items()}
            told[section] = {name: value for name, value in values.items() if value is not None}
        return told

    def run(self) -> dict[str, Any]:
        """Run the job; return its outcome as plain data, an error as ``error``.

        Ctrl-C cancels it, on Spark too.
        """
        from tessel.job import Job

        started = time.monotonic()
        outcome: dict[str, Any] = {"job": None, "state": "failed", "symbol": self.symbol}
        try:
            lazy = open_existing(self.store, read_only=self.into is None).scan(
                self.symbol, as_of=self.as_of
            )
            lazy = lazy.then(*query_of(self.query).clauses)
            executor = executor_of(self.engine, self.master, self.conf)
            job = Job(lambda: self._result(lazy, executor), f"{self.symbol!r}")
            outcome["job"] = job.id
            try:
                outcome |= job.result()
            finally:
                outcome["state"] = job.state.value
                outcome["progress"] = {"done": job.progress.done, "total": job.progress.total}
        except TesselError as error:
            outcome["error"] = error
        return {**outcome, "seconds": round(time.monotonic() - started, 3)}

    def _result(self, lazy: LazyTable, executor: Any) -> dict[str, Any]:
        if self.into is not None:
            more = {} if self.keys is None else {"keys": list(self.keys)}
            write = getattr(lazy.store, self.verb)
            version = write(self.into, lazy, executor=executor, **more)
            return {"into": self.into, "version": version}
        batches = lazy.iter_batches(executor=executor)
        if self.file is None:
            return {"rows": sum(batch.num_rows for batch in batches)}
        return {"file": self.file, "rows": write_file(Path(self.file), lazy, batches)}


def read_job(
    text: str | None, given: Mapping[str, Any], options: Mapping[str, Any] | None = None
) -> JobFile:
    """Return the job of a file, or of the text of a condition, with options laid over it.

    ``options`` are those of a query, which come behind the job's.

    Raises
    ------
    InvalidInputError, PlanFormatError, NameNotFoundError
        For what is no job: an unknown section or field, a value of another type, no symbol.
    """
    is_file = text is not None and is_document(text)
    data = read_document(Path(str(text))) if is_file else {"query": text}
    if "tessel_plan" in data:
        data = {"query": data}
    values: dict[str, Any] = {"query": data.get("query")}
    for section, fields in data.items():
        if section == "query":
            continue
        if section not in _SECTIONS:
            raise NameNotFoundError.for_name("section", str(section), ("query", *_SECTIONS))
        if not isinstance(fields, Mapping):
            raise PlanFormatError(f"the section {section!r} of a job holds fields, not {fields!r}")
        for name, value in fields.items():
            if name not in _SECTIONS[section]:
                raise NameNotFoundError.for_name(
                    f"field of {section!r}", str(name), tuple(_SECTIONS[section])
                )
            values[_SECTIONS[section][name]] = _checked(f"{section}.{name}", name, value)
    values |= {name: value for name, value in given.items() if value not in (None, [], ())}
    for name, option in (("store", "--store"), ("symbol", "--symbol")):
        if values.get(name) is None:
            raise InvalidInputError(
                f"the job says no {name}", hint=f"give {option}, or `read: {{{name}: …}}`"
            )
    query = query_of(values["query"], options)  # refused here, not in another process
    if options:
        values["query"] = query.to_json()
    return JobFile(**values)


def _checked(place: str, name: str, value: Any) -> Any:
    """Return the value of a field as options give it: a text, or texts."""
    match name, value:
        case "conf", {**settings}:
            return [f"{key}={_text(place, each)}" for key, each in settings.items()]
        case "conf" | "keys", [*texts]:
            return [_text(place, each) for each in texts]
        case "conf" | "keys", _:
            raise PlanFormatError(f"{place} of a job is a list, not {value!r}")
    return _text(place, value)


def _text(place: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise PlanFormatError(f"{place} of a job is a text, not {value!r}")


_WRITERS = {
    ".parquet": "pyarrow.parquet:ParquetWriter",
    ".arrow": "pyarrow.ipc:new_file",
    ".feather": "pyarrow.ipc:new_file",
    ".csv": "pyarrow.csv:CSVWriter",
}
"""What opens a file of each kind, by its path and schema; imported when one is written."""


def _writer_of(path: Path) -> str:
    if path.suffix not in _WRITERS:
        raise InvalidInputError(
            f"{str(path)!r} is of no kind that is written",
            hint=f"files that end in {', '.join(_WRITERS)} are",
        )
    return _WRITERS[path.suffix]


def write_file(path: Path, lazy: LazyTable, batches: Iterator[Any]) -> int:
    """Write batches to a file, which appears when all of them are in it; return their rows."""
    import os

    opened = pkgutil.resolve_name(_writer_of(path))
    rows, partial = 0, path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with ExitStack() as stack:
            writer = stack.enter_context(opened(str(partial), lazy.schema().arrow))
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        partial.replace(path)
    except OSError as error:
        raise InvalidInputError(f"cannot write {str(path)!r}: {error}", path=str(path)) from error
    finally:
        partial.unlink(missing_ok=True)
    return rows
