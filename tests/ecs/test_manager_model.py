"""The component manager against a dictionary: any sequence of calls, also wrong ones."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tessel.ecs import Columns, ComponentManager, FetchCount
from tessel.errors import ExecutionError, NameNotFoundError


@dataclass(frozen=True)
class Red:
    value: int


@dataclass(frozen=True)
class Green:
    value: int


@dataclass(frozen=True)
class Blue:
    value: int


KINDS = (Red, Green, Blue)
kinds = st.lists(st.sampled_from(KINDS), unique=True, min_size=1)
seeds = st.integers(0, 1000)
DATA = Columns(pa.table({"value": [1, 2, 3]}))


class ManagerMachine(RuleBasedStateMachine):
    """Every rule does the same to the manager and to a plain dictionary of dictionaries."""

    @initialize()
    def start(self) -> None:
        self.manager = ComponentManager()
        self.model: dict[int, dict[type, object]] = {}

    def teardown(self) -> None:
        self.manager.close()

    def some(self, data: st.DataObject) -> list[int]:
        known = st.sampled_from(sorted(self.model) or [10_000])
        # Now and then an entity that does not exist.
        return data.draw(st.lists(known | st.just(10_000), unique=True, max_size=4))

    def missing(self, entities: list[int], types: list[type]) -> bool:
        return any(e not in self.model or t not in self.model[e] for e in entities for t in types)

    def unknown(self, entities: list[int]) -> bool:
        return any(entity not in self.model for entity in entities)

    @rule(count=st.integers(0, 4), types=kinds, seed=seeds)
    def add(self, count: int, types: list[type], seed: int) -> None:
        columns = {t: [t(seed + row) for row in range(count)] for t in types}
        for row, entity in enumerate(self.manager.add(count, columns)):
            assert entity not in self.model
            self.model[entity] = {t: columns[t][row] for t in types}

    @rule(data=st.data(), types=kinds, seed=seeds)
    def attach(self, data: st.DataObject, types: list[type], seed: int) -> None:
        entities = self.some(data)
        columns = {t: [t(seed + at) for at in range(len(entities))] for t in types}
        if self.unknown(entities):
            with pytest.raises(NameNotFoundError):
                self.manager.attach(entities, columns)
        elif any(t in self.model[e] for e in entities for t in types):
            with pytest.raises(ExecutionError):
                self.manager.attach(entities, columns)
        else:
            self.manager.attach(entities, columns)
            for at, entity in enumerate(entities):
                self.model[entity].update({t: columns[t][at] for t in types})

    @rule(data=st.data(), planned=st.integers(0, 3))
    def plan_and_load(self, data: st.DataObject, planned: int) -> None:
        entities = [e for e in self.some(data) if e in self.model]
        self.manager.set_fetch_counts(entities, planned)
        empty = [e for e in entities if Columns not in self.model[e] and planned]
        self.manager.attach(empty, {Columns: [DATA] * len(empty)})
        for entity in entities:
            self.model[entity][FetchCount] = FetchCount(planned, planned)
            self.model[entity].pop(Columns, None)
            if planned:
                self.model[entity][Columns] = DATA

    @rule(data=st.data(), types=kinds)
    def gather(self, data: st.DataObject, types: list[type]) -> None:
        entities = self.some(data)
        if self.missing(entities, [*types, FetchCount]):
            with pytest.raises(NameNotFoundError):
                self.manager.gather(entities, *types)
            return
        counts = {e: self.model[e][FetchCount] for e in entities}
        if any(count.live == 0 for count in counts.values()):
            with pytest.raises(ExecutionError):
                self.manager.gather(entities, *types)
            return
        expected = tuple([self.model[e][t] for e in entities] for t in types)
        assert self.manager.gather(entities, *types) == expected
        for entity, count in counts.items():
            self.model[entity][FetchCount] = FetchCount(count.planned, count.live - 1)
            if count.live == 1:
                self.model[entity].pop(Columns, None)

    @invariant()
    def same(self) -> None:
        shown = self.manager.inspect().to_pydict()
        assert shown["entity"] == sorted(self.model)
        for kind in (*KINDS, Columns, FetchCount):
            holding = sorted(e for e, own in self.model.items() if kind in own)
            held = shown.get(kind.__name__, [None] * len(self.model))
            holders = [
                e for e, value in zip(shown["entity"], held, strict=True) if value is not None
            ]
            assert holders == holding
            expected = [self.model[e][kind] for e in holding]
            assert self.manager.get(holding, kind) == (expected,)


TestManagerAgainstModel = ManagerMachine.TestCase
TestManagerAgainstModel.settings = settings(max_examples=60, stateful_step_count=25)
