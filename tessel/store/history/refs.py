"""Branches and tags: an object of their own, written when they change.

A log entry names the refs object that was valid before it and says which branches have moved since
that object was written, so a commit writes none, and nobody walks the log to find a branch.
Branches and tags share one space of names. The name of a deleted tag is never used again: what a
tag once stood for, it stands for for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tessel.errors import (
    InvalidInputError,
    OptionError,
    RefExistsError,
    RefNotFoundError,
    TesselError,
)
from tessel.lazy import dataclass
from tessel.store.history.documents import (
    HEADER,
    Fields,
    check_format,
    damaged,
    fields_of,
)
from tessel.store.manifest.packing.configuration import ManifestConfiguration
from tessel.store.names import check_new_ref_name, check_ref_name

MAIN = "main"
"""The branch that always exists."""


@dataclass(frozen=True, slots=True)
class Refs:
    """All branches and tags at one moment; immutable.

    Attributes
    ----------
    branches
        The newest version of each branch; 0 for one without commits.
    oldest
        The oldest version that is kept, besides those with a tag and the newest of each branch;
        0 while nothing has expired.
    collected
        The version that announced the last collection; 0 where there was none.
    condemned_us
        Objects that were written before this instant, by the clock of the place, and that no kept
        version refers to, may have been collected.
    manifests
        Which symbols share a manifest, on all branches; None for the usual configuration.
    """

    branches: Mapping[str, int] = field(default_factory=lambda: {MAIN: 0})
    tags: Mapping[str, int] = field(default_factory=dict)
    retired: frozenset[str] = frozenset()
    oldest: int = 0
    collected: int = 0
    condemned_us: int = 0
    manifests: ManifestConfiguration | None = None

    # --- asking -----------------------------------------------------------------------------------

    def branch(self, name: str) -> int:
        """Return the newest version of a branch; ``RefNotFoundError`` where there is none."""
        check_ref_name(name)
        if name not in self.branches:
            raise RefNotFoundError.for_name("branch", name, sorted(self.branches))
        return self.branches[name]

    def keeps(self, number: int) -> bool:
        """Whether a version that existed can still be read."""
        return (
            number >= self.oldest
            or number == 0
            or number in self.tags.values()
            or number in self.branches.values()
        )

    # --- changing ---------------------------------------------------------------------------------

    def moved(self, branches: Mapping[str, int]) -> Refs:
        """Return the refs after some branches got newer versions."""
        return dataclasses.replace(self, branches={**self.branches, **branches})

    def with_branch(self, name: str, number: int) -> Refs:
        """Return the refs with a new branch."""
        self._check_free(name)
        return self.moved({name: number})

    def without_branch(self, name: str) -> Refs:
        """Return the refs without a branch."""
        self.branch(name)
        if name == MAIN:
            raise InvalidInputError(
                f"branch {MAIN!r} cannot be deleted",
                hint=f'every store has it; reset_branch("{MAIN}", to=version) sets it elsewhere',
            )
        kept = {other: number for other, number in self.branches.items() if other != name}
        return dataclasses.replace(self, branches=kept)

    def with_tag(self, name: str, number: int) -> Refs:
        """Return the refs with a new tag."""
        self._check_free(name)
        return dataclasses.replace(self, tags={**self.tags, name: number})

    def without_tag(self, name: str) -> Refs:
        """Return the refs without a tag, whose name is retired."""
        check_ref_name(name)
        if name not in self.tags:
            raise RefNotFoundError.for_name("tag", name, sorted(self.tags))
        kept = {other: number for other, number in self.tags.items() if other != name}
        return dataclasses.replace(self, tags=kept, retired=self.retired | {name})

    def _check_free(self, name: str) -> None:
        check_new_ref_name(name)
        for what, names in (("branch", self.branches), ("tag", self.tags)):
            if name in names:
                raise RefExistsError(
                    f"there is a {what} {name!r}, at version {names[name]}",
                    hint="choose another name; branches and tags share one space of names",
                    name=name,
                )
        if name in self.retired:
            raise RefExistsError(
                f"there was a tag {name!r}, and the name of a deleted tag is never used again",
                hint="choose another name",
                name=name,
            )

    # --- at rest ----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the refs as plain data."""
        manifests = self.manifests and self.manifests.to_json()
        held = {**fields_of(self), "retired": sorted(self.retired), "manifests": manifests}
        return {**HEADER, **held}

    @classmethod
    def read(cls, fields: Fields) -> Refs:
        """Read the refs from a document."""
        check_format(fields)
        branches, tags = read_numbers(fields, "branches"), read_numbers(fields, "tags")
        retired = fields.sequence("retired")
        if MAIN not in branches or not all(isinstance(name, str) for name in retired):
            damaged(fields.name, "its branches and tags are not such as a store has")
        oldest, collected, since = map(fields.integer, ("oldest", "collected", "condemned_us"))
        manifests, gone = _read_manifests(fields), frozenset(retired)
        return cls(branches, tags, gone, oldest, collected, since, manifests)


def _read_manifests(fields: Fields) -> ManifestConfiguration | None:
    if fields.value("manifests") is None:
        return None
    try:
        return ManifestConfiguration.from_json(fields.mapping("manifests"))
    except OptionError as error:
        damaged(fields.name, f"its configuration of manifests cannot be: {error.message}")


def read_numbers(fields: Fields, key: str) -> dict[str, int]:
    """Read a field that maps names of branches or tags to versions."""
    found = fields.fields(key)
    try:
        return {check_ref_name(name): found.integer(name) for name in found}
    except TesselError as error:
        damaged(fields.name, f"its field {key!r} cannot be read: {error.message}")
