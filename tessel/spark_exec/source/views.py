"""Symbols of a store as views of a session, for plain Spark SQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tessel.errors import InvalidInputError, StoreNotVisibleError
from tessel.errors.root import naming
from tessel.spark_exec.source import register_source
from tessel.spark_exec.source.types import spark_schema
from tessel.store.history.refs import MAIN
from tessel.store.objects.open import address_of
from tessel.store.repository import Repository

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_views(
    session: SparkSession, repository: Repository, symbols: Iterable[str], version: int
) -> list[str]:
    """Make a temporary view of each symbol, all at one version; return their names.

    Raises
    ------
    InvalidInputError
        For two names that differ in case alone, which are one name to Spark.
    StoreNotVisibleError, StoreAccessError
        For a store that other processes cannot open.
    """
    names = list(symbols)
    _check_case(names)
    options = _options(repository)
    for name in names:
        schema = repository.view(name, version).schema
        with naming(symbol=name):
            spark_schema(schema.arrow)
    register_source(session)
    reader = session.read.format("tessel").options(**options).option("as_of", version)
    # All are planned before the first is registered: an error leaves the session as it was.
    frames = [reader.option("symbol", name).load() for name in names]
    for name, frame in zip(names, frames, strict=True):
        frame.createOrReplaceTempView("`" + name.replace("`", "``") + "`")
    return names


def _options(repository: Repository) -> dict[str, str]:
    """Return the options by which the data source opens the same store."""
    if repository.uri.startswith("memory:"):
        raise StoreNotVisibleError.in_memory(repository.uri)
    address = address_of(repository.objects)
    options = {"store": str(address["uri"])}
    if repository.branch != MAIN:
        options["branch"] = repository.branch
    for name, value in (address["options"] or {}).items():
        if value is not None:
            options[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return options


def _check_case(names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidInputError(
                f"symbols {other!r} and {name!r} differ in case alone, and are one name to Spark",
                hint="register one of them with pattern=, or make views of your own: "
                "store.scan(symbol).to_spark(session).createOrReplaceTempView(name)",
                symbols=[other, name],
            )
