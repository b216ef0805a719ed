"""A moto server for all tests of this folder, and an environment without anybody's keys."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.store.objects.servers import MotoServer, moto_server

_CLOUD_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoServer]:
    with moto_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_keys_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(_CLOUD_VARIABLES):
            monkeypatch.delenv(name)
