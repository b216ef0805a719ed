"""Everything that a store can do, in any order: nothing differs from dictionaries, ever."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

from tests.store.proofs.machine import StoreMachine

TestStore: Any = StoreMachine.TestCase
TestStore.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)


@pytest.mark.slow
class TestStoreForLong(StoreMachine.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=1_500, stateful_step_count=60, deadline=None)
