"""An address of a place is plain data, holds no secret, and opens the same place elsewhere."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tessel.errors import InvalidInputError, OptionError, StoreAccessError
from tessel.store.objects import (
    CloudObjects,
    CloudOptions,
    LocalObjects,
    MemoryObjects,
    address_of,
    open_address,
    open_objects,
)
from tests.store.objects.servers import CREDENTIALS, MotoServer


def _there_and_back(objects: Any) -> Any:
    return open_address(json.loads(json.dumps(address_of(objects))))


def test_a_folder_and_memory(tmp_path: Path) -> None:
    for objects in (LocalObjects(tmp_path / "store"), MemoryObjects.named("address")):
        objects.put_if_absent("log/a", b"1")
        assert _there_and_back(objects).get("log/a").to_pybytes() == b"1"


def test_options_of_a_cloud_go_along(moto: MotoServer) -> None:
    bucket = moto.new_bucket()
    uri = f"s3://{bucket}/here"
    moto.open(uri).put_if_absent("log/a", b"1")
    moto.publish(bucket)
    anyone = dataclasses.replace(moto.options, anonymous=True, attempts=2)
    found = _there_and_back(open_objects(uri, options=anyone))
    assert isinstance(found, CloudObjects)
    assert (found.uri, found.options) == (uri, anyone)
    assert found.get("log/a").to_pybytes() == b"1"


@pytest.mark.parametrize("source", [CREDENTIALS, lambda: CREDENTIALS])
def test_credentials_stay_and_the_error_says_what_to_do(moto: MotoServer, source: Any) -> None:
    objects = open_objects("s3://bucket/here", credentials=source, options=moto.options)
    with pytest.raises(StoreAccessError, match="credentials=") as caught:
        address_of(objects)
    assert caught.value.attributes["uri"] == "s3://bucket/here"
    assert "environment" in str(caught.value.hint)
    assert CREDENTIALS.secret_access_key not in str(caught.value)


def test_every_option_goes_along() -> None:
    told = {field.name for field in dataclasses.fields(CloudOptions)}
    options = CloudOptions(endpoint="https://storage.example", region="r", anonymous=True)
    address = address_of(open_objects("s3://bucket/x", options=options))
    assert set(address["options"]) == told


def test_what_is_no_address_is_refused() -> None:
    wrong: list[Any] = [
        None,
        "s3://bucket/x",
        {},
        {"uri": "memory://x"},
        {"uri": 7, "options": None},
        {"uri": "memory://x", "options": None, "credentials": "x"},
        {"uri": "memory://x", "options": {"attempts": 3}},
    ]
    for address in wrong:
        with pytest.raises(InvalidInputError):
            open_address(address)
    with pytest.raises(OptionError):
        open_address({"uri": "s3://bucket/x", "options": {"attempts": 0}})
