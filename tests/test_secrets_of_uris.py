"""No message, repr, log record or event shows the user, password or query of a URI."""

from __future__ import annotations

import json
import logging
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessel
from tessel import telemetry
from tessel.errors import TesselError
from tessel.errors.root import without_secrets
from tessel.store.events import Cell, LiveStore, Reference, ReferenceReader, Row, id_bytes
from tessel.store.objects import open_foreign

SECRET = "wJalr/XUtn+FEMI"
URIS = [
    f"s3://AKIA:{SECRET}@bucket/object",
    f"s3://{SECRET.replace('/', '')}@bucket/object",
    f"https://host/object?sig={SECRET}",
    f"az://container/object?{SECRET}#{SECRET}",
    f"ftp://user:{SECRET}@name/object",
]
SECRETS = (SECRET, SECRET.replace("/", ""))


def shows(text: object) -> bool:
    return any(secret in str(text) for secret in SECRETS)


def texts(error: BaseException) -> list[str]:
    found = [str(error), repr(error), repr(error.args)]
    if isinstance(error, TesselError):
        found += [json.dumps(error.to_json()), repr(pickle.loads(pickle.dumps(error)).to_json())]
    following = error.__cause__ or error.__context__
    return found + (texts(following) if following is not None else [])


@pytest.mark.parametrize("uri", URIS)
def test_errors_of_references_and_stores_show_no_secret(uri, tmp_path):
    reference = Reference(uri, 0, 5)
    asks = [
        lambda: ReferenceReader([tmp_path, "memory://name"]).fetch(reference),
        lambda: ReferenceReader([uri]),
        lambda: ReferenceReader(uri),
        lambda: open_foreign(uri),
        lambda: tessel.open(uri),
        lambda: Reference(uri, -1),
        lambda: Reference(uri, 2**63 - 1, 2**63 - 1),
        lambda: Cell.from_values("x", [reference, uri]),
        lambda: Cell.from_values("x", [reference, 5]),
        lambda: LiveStore().latest_at(uri, 0, uri, [uri], strict=True),
        lambda: LiveStore().latest_at("f", 0, uri, [uri], strict=True),
    ]
    for ask in asks:
        with pytest.raises(TesselError) as caught:
            ask()
        assert not any(map(shows, texts(caught.value))), ask


@pytest.mark.parametrize("uri", URIS)
def test_reprs_show_no_secret_and_data_keep_it(uri):
    reference = Reference(uri, 0, 5)
    live = LiveStore()
    cell = Cell.from_values("image", [reference])
    live.insert(Row(id_bytes(1, 1), "camera", {"f": 1}, cells=[cell]))
    state = live.latest_at("f", 1, "camera")
    for shown in (reference, cell, state, state["image"], live, live.batches()[0].shape):
        assert not shows(repr(shown))
    assert state["image"].cell.to_list() == [reference]
    assert reference.uri == uri


@pytest.mark.parametrize("uri", URIS)
def test_logs_and_events_show_no_secret(uri, caplog):
    told: list[telemetry.Event] = []
    with telemetry.subscribe(told.append), telemetry.span("span", uri=uri) as facts:
        telemetry.emit("point", uri=uri, many=[uri], error=f"at {uri}: gone")
        facts["late"] = uri
    assert len(told) == 2
    assert not shows(told)
    logging.getLogger("tessel").warning("at %s: %s", uri, "gone")
    assert not shows(caplog.text)
    assert "gone" in caplog.text


@given(st.text(), st.text())
def test_what_is_no_uri_stays_and_hiding_twice_is_hiding_once(before, after):
    if "://" not in before:
        assert without_secrets(before) == before
    once = without_secrets(f"{before} s3://key:{SECRET}@bucket/{after}")
    assert SECRET not in once
    assert without_secrets(once) == once
    assert without_secrets({"a": [before, 1, None]})["a"][1:] == [1, None]


def test_uris_without_secrets_are_shown_as_they_are():
    for uri in ("s3://bucket/a folder/x.bin", "memory://name", "file:///data/a@b", "/data/a@b:c"):
        assert without_secrets(f"object {uri!r} is gone") == f"object {uri!r} is gone"
