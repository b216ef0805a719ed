"""Options of the data source as they were asked for: text in, typed values out.

Spark keeps options as text under names without case, logs them and shows them in plans. So nothing
secret may be among them: what looks like a secret is refused by its name, its value unread.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any, Self

from tessel.clauses.builder import QueryBuilder
from tessel.errors import NameNotFoundError, OptionError, StoreNotVisibleError
from tessel.errors.names import suggestion
from tessel.lazy import dataclass
from tessel.store.history.documents import reopened
from tessel.store.history.refs import MAIN
from tessel.store.objects.cloud_place import CloudOptions
from tessel.store.operations.finalize import Mode
from tessel.store.operations.write_ids import StreamBatch, WriteId, check_write_id
from tessel.store.repository import Repository

_SECRET = re.compile(
    r"secret|passw|token|credential|access.?key|account.?key|private.?key|\bsas\b|signature"
)
_CLOUD = {field.name: str(field.type) for field in dataclasses.fields(CloudOptions)}
_PLACE = ("store", "symbol", "branch", *_CLOUD)
_STREAM = ("starting_version", "on_edit", "max_versions_per_trigger", "max_bytes_per_trigger")
_ON_EDIT = ("error", "skip")
_WRITE = ("index", "sort", "verb", "keys")
_VERBS: tuple[Mode, ...] = ("append", "update", "upsert")
"""What goes with Spark's mode append."""
_STREAM_VERBS: tuple[Mode, ...] = ("append", "upsert")
"""An update would take out rows of earlier batches, wherever the times of a batch lie."""
_OF_SPARK = ("checkpointlocation", "queryname")
"""Options of a stream for Spark, which passes them on as well."""

_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True)
class StorePlace:
    """Which symbol of which store.

    Attributes
    ----------
    uri, branch
        Where the store is, and the branch that is read and written.
    symbol
        The symbol's name.
    cloud
        How a store in a cloud is reached, as fields of ``CloudOptions``.
    """

    uri: str
    symbol: str
    branch: str
    cloud: Mapping[str, Any]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Return the place that checked options name.

        Raises
        ------
        InvalidInputError
            Where one of them is absent.
        OptionError
            For a value that cannot be.
        """
        cloud = {name: _typed(name, options[name]) for name in _CLOUD if name in options}
        return cls(
            _required(options, "store", "where the store is: a path or a URI"),
            _required(options, "symbol", "which table of the store; store.symbols() lists them"),
            options.get("branch", MAIN),
            cloud,
        )

    def opened(self, *, read_only: bool) -> Repository:
        """Return the store; nothing is made where there is none.

        Raises
        ------
        StoreNotVisibleError
            For a store in memory: Spark opens stores in processes of its own.
        """
        if self.uri.startswith("memory:"):
            raise StoreNotVisibleError.in_memory(self.uri)
        return Repository.open(
            self.uri,
            create=False,
            read_only=read_only,
            branch=self.branch,
            options=dict(self.cloud) or None,
        )

    def reopened(self, identity: str, *, read_only: bool) -> Repository:
        """Return the store of an id in another process than the one that opened it first."""
        return reopened(self.uri, identity, lambda: self.opened(read_only=read_only))


@dataclass(frozen=True)
class ReadOptions:
    """What is read.

    Attributes
    ----------
    place
        The symbol.
    as_of
        A version, a tag or branch, or a date or time, as a store takes it; None for the newest.
    query
        What runs on it, the selection of ``columns`` last.
    """

    place: StorePlace
    as_of: str | None
    query: QueryBuilder

    @classmethod
    def of(cls, options: Mapping[str, str], *, stream: bool | None = False) -> Self:
        """Return what the options of a reader ask for.

        Parameters
        ----------
        options
            As Spark has them.
        stream
            Whether it is one of a stream; None where Spark does not tell yet.

        Raises
        ------
        NameNotFoundError
            For an option that does not exist; tells the nearest.
        OptionError
            For one that looks like a secret, or has a value that cannot be.
        TesselError
            For a query that is none.
        """
        named = ("as_of", *_STREAM) if stream is None else _STREAM if stream else ("as_of",)
        given = _checked(options, (*_PLACE, "columns", "query", *named))
        query = _query(given["query"]) if "query" in given else QueryBuilder()
        if "columns" in given:
            query = query.select(_names("columns", given["columns"]))
        return cls(StorePlace.of(given), given.get("as_of"), query)


@dataclass(frozen=True)
class StreamOptions:
    """What is read as a stream.

    Attributes
    ----------
    read
        The symbol, and what runs on its rows.
    starting_version
        The version, or its tag, whose rows are known; None to begin with all rows.
    on_edit
        What a commit means that does not only add rows: ``"error"`` or ``"skip"``.
    max_versions, max_bytes
        The most that a batch takes of either; None for no limit.
    """

    read: ReadOptions
    starting_version: int | str | None
    on_edit: str
    max_versions: int | None
    max_bytes: int | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Return what the options of a stream's reader ask for.

        Raises
        ------
        NameNotFoundError, OptionError, TesselError
            As for :class:`ReadOptions`.
        """
        read = ReadOptions.of(options, stream=True)
        given = {name.lower(): value for name, value in options.items()}
        start = given.get("starting_version")
        on_edit = given.get("on_edit", "error")
        if on_edit not in _ON_EDIT:
            raise NameNotFoundError.for_name("value of on_edit", on_edit, _ON_EDIT)
        return cls(
            read,
            start
            if start is None or not start.isdecimal()
            else _positive("starting_version", start),
            on_edit,
            *(_positive(name, given[name]) if name in given else None for name in _STREAM[2:]),
        )


@dataclass(frozen=True)
class WriteOptions:
    """How a DataFrame is written.

    Attributes
    ----------
    place
        The symbol.
    mode
        What becomes of the rows: Spark's mode overwrite is ``"write"``.
    index
        The time index; None for that of the symbol.
    sort
        Whether rows are put in the order of the index.
    keys
        For an upsert, the columns that tell one row from another.
    write_id
        A name of the user's for the write, which is done once; of a stream, its batch 0.
    """

    place: StorePlace
    mode: Mode
    index: str | None
    sort: bool
    keys: tuple[str, ...] | None
    write_id: WriteId | None

    @classmethod
    def of(cls, options: Mapping[str, str], *, overwrite: bool, stream: bool = False) -> Self:
        """Return what the options of a writer ask for.

        Parameters
        ----------
        options
            As Spark has them.
        overwrite
            Whether the symbol is written anew: Spark's mode overwrite, its output mode complete.
        stream
            Whether batches of a stream are written.

        Raises
        ------
        NameNotFoundError
            For an option or a verb that does not exist; tells the nearest.
        OptionError
            For one that looks like a secret, has a value that cannot be, or does not go with
            another one.
        """
        named = ("stream_id", "stream_restart") if stream else ("write_id",)
        given = _checked(options, (*_PLACE, *_WRITE, *named), _OF_SPARK if stream else ())
        mode = _mode(given.get("verb"), _STREAM_VERBS if stream else _VERBS, overwrite=overwrite)
        if (mode == "upsert") != ("keys" in given):
            raise OptionError(
                "option 'keys' goes with the verb 'upsert', and needs it"
                if "keys" in given
                else "the verb 'upsert' needs the option 'keys'",
                hint='option("verb", "upsert").option("keys", "time,ticker"): the columns that '
                "tell one row from another",
                option="keys",
            )
        write_id: WriteId | None = given.get("write_id")
        if stream:
            name = _required(
                given, "stream_id", "by which name the stream is known when it goes on"
            )
            restart = truth("stream_restart", given.get("stream_restart", "false"))
            write_id = StreamBatch(name, 0, restart=restart)
        if write_id is not None:
            check_write_id(write_id)
        return cls(
            StorePlace.of(given),
            mode,
            given.get("index"),
            truth("sort", given.get("sort", "false")),
            tuple(_names("keys", given["keys"])) if "keys" in given else None,
            write_id,
        )


def _mode(verb: str | None, verbs: tuple[Mode, ...], *, overwrite: bool) -> Mode:
    if verb is not None and verb not in verbs:
        raise NameNotFoundError.for_name("verb", verb, verbs)
    if not overwrite:
        return next(mode for mode in verbs if mode == (verb or "append"))
    if verb is not None:
        raise OptionError(
            f"the verb {verb!r} goes with mode append, not with one that writes the symbol anew",
            hint="leave it out with mode('overwrite') and outputMode('complete')",
            option="verb",
        )
    return "write"


def _checked(
    options: Mapping[str, str], known: tuple[str, ...], ignored: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return options by their names in lower case; refuse unknown ones."""
    lower = {name.lower(): value for name, value in options.items()}
    given = {name: value for name, value in lower.items() if name not in ignored}
    for name in given:
        if name in known:
            continue
        if _SECRET.search(name):
            raise OptionError(
                f"option {name!r} looks like a secret, and Spark logs options and shows them",
                hint="let the workers have an identity of their own: that of their machines, or "
                "the provider's variables in their environment",
                option=name,
            )
        if name == "path":
            raise OptionError(
                "the data source tessel takes no path",
                hint='option("store", URI) and option("symbol", NAME), then load() or save() '
                "without arguments",
                option=name,
            )
        raise NameNotFoundError(
            f"the data source tessel has no option {name!r} here",
            name=name,
            **suggestion(name, known, "options"),
        )
    return given


def _required(options: Mapping[str, str], name: str, meaning: str) -> str:
    value = options.get(name)
    if not value:
        raise OptionError(
            f"the data source tessel needs the option {name!r}",
            hint=f'option("{name}", …) says {meaning}',
            option=name,
        )
    return value


def _names(option: str, text: str) -> list[str]:
    """Return names from text: with commas between them, or as a JSON list."""
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",")]
    try:
        names = json.loads(text)
    except ValueError as error:
        raise OptionError(f"option {option!r} is no JSON list: {error}", option=option) from error
    if not all(isinstance(name, str) for name in names):
        raise OptionError(
            f"option {option!r} is a list of names, not {text:.80}",
            hint='write a,b or ["a", "b"]',
            option=option,
        )
    return list(names)


def _query(text: str) -> QueryBuilder:
    """Return a query from its JSON, or from a condition as text."""
    if text.lstrip().startswith("{"):
        return QueryBuilder.from_json(text)
    return QueryBuilder().filter(text)


def _typed(name: str, text: str) -> Any:
    kind = _CLOUD[name]
    if kind == "bool":
        return truth(name, text)
    if kind not in ("int", "float"):
        return text
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError as error:
        raise OptionError(f"option {name!r} is a number, not {text!r:.40}", option=name) from error


def _positive(name: str, text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise OptionError(
            f"option {name!r} is a whole number from 1 on, not {text!r:.40}",
            hint="leave it out for no limit, or to begin with all rows",
            option=name,
        )
    return int(text)


def truth(name: str, text: str) -> bool:
    """Return the truth value that an option has; ``OptionError`` for anything else."""
    found = _TRUTHS.get(text.lower())
    if found is None:
        raise OptionError(
            f"option {name!r} is true or false, not {text!r:.40}",
            option=name,
            **suggestion(text, list(_TRUTHS), "values"),
        )
    return found
