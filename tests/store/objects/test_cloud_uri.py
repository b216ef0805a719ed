"""URIs, credentials and options: what is refused, and that no text shows a secret."""

from __future__ import annotations

import builtins
import copy
import datetime as dt
import logging
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import tessel
from tessel.errors import (
    InvalidInputError,
    MissingDependencyError,
    NameNotFoundError,
    OptionError,
    StoreAccessError,
    StoreError,
    TesselError,
)
from tessel.store.objects import (
    AzureCredentials,
    CloudOptions,
    GoogleCredentials,
    S3Credentials,
    open_objects,
)
from tessel.store.objects.cloud_place import CloudPlace
from tessel.telemetry import Event, subscribe
from tests.store.objects.scripted import Fault, Rule, scripted_server
from tests.store.objects.servers import MotoServer

SECRET = "hunter2-very-secret"
LATER = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("s3://bucket", CloudPlace("s3", "bucket", "")),
        ("s3://bucket/", CloudPlace("s3", "bucket", "")),
        ("gs://my.bucket_1/a/b", CloudPlace("gs", "my.bucket_1", "a/b")),
        ("az://container/Day=1/x.y/", CloudPlace("az", "container", "Day=1/x.y")),
    ],
)
def test_places(uri: str, place: CloudPlace) -> None:
    assert CloudPlace.parse(uri) == place
    assert CloudPlace.parse(place.uri) == place


@pytest.mark.parametrize(
    "rest",
    [
        *("", "/", "b", "BUCKET/a", "b u/a", "bucket//a", "bucket/a//b", "bucket/../a"),
        *("bucket/./a", "bucket/a\nb", "bucket/ä", "bucket/%2e%2e", "bucket/a:b"),
        *("bucket/" + "a" * 700, "bucket--use1-az4--x-s3/a"),
    ],
)
@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_what_is_no_place_is_refused(scheme: str, rest: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        open_objects(f"{scheme}://{rest}")
    assert caught.value.hint


@pytest.mark.parametrize(
    "uri",
    [
        f"s3://key:{SECRET}@bucket/a",
        f"s3://{SECRET}@bucket/a",
        f"s3://bucket/a?secret_access_key={SECRET}",
        f"az://container/a?sig={SECRET}",
        f"gs://bucket/a#{SECRET}",
        f"s4://key:{SECRET}@bucket",
        f"https://{SECRET}@host/bucket",
        f"file://user:{SECRET}@host/bucket",
        f"s3://key:{SECRET}@bucket".encode(),
    ],
)
def test_a_uri_with_a_secret_is_refused_and_not_shown(
    uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(InvalidInputError) as caught:
        tessel.open(uri)
    _shows_nothing(caught.value, caplog)


@pytest.mark.parametrize(("wrong", "right"), [("s3a", "s3"), ("gcs", "gs"), ("abfss", "az")])
def test_other_words_for_a_cloud_get_a_hint(wrong: str, right: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        open_objects(f"{wrong}://bucket/a")
    assert f"{right}://" in str(caught.value.hint)


CREDENTIALS = [
    S3Credentials(SECRET, SECRET, SECRET, LATER),
    GoogleCredentials(SECRET, LATER),
    AzureCredentials(access_key=SECRET),
    AzureCredentials(sas_token=f"?sig={SECRET}"),
    AzureCredentials(token=SECRET, expires_at=LATER),
]


@pytest.mark.parametrize("credentials", CREDENTIALS, ids=lambda c: type(c).__name__)
def test_credentials_show_no_secret(credentials: Any) -> None:
    assert SECRET not in repr(credentials) + str(credentials) + f"{credentials}"
    assert copy.deepcopy(credentials) == credentials
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(StoreAccessError, match="is not pickled") as caught:
            pickle.dumps({"credentials": [credentials]}, protocol)
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: S3Credentials("", "x"),
        lambda: S3Credentials("x", None),  # type: ignore[arg-type]
        lambda: S3Credentials("x", SECRET + "\n"),
        lambda: S3Credentials("x", SECRET, ""),
        lambda: S3Credentials("x", SECRET, expires_at=dt.datetime(2100, 1, 1)),
        lambda: GoogleCredentials(SECRET, "soon"),  # type: ignore[arg-type]
        lambda: AzureCredentials(),
        lambda: AzureCredentials(access_key=SECRET, token=SECRET),
        lambda: open_objects("s3://bucket", credentials=GoogleCredentials(SECRET)),
        lambda: open_objects("az://bucket", credentials=SECRET, options={"account": "a"}),  # type: ignore[arg-type]
        lambda: open_objects("memory://", credentials=S3Credentials("k", SECRET)),
        lambda: open_objects("some/path", options=CloudOptions()),
    ],
)
def test_wrong_credentials_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        make()
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"endpoint": "bucket.example"},
        {"endpoint": "ftp://host"},
        {"endpoint": "http://127.0.0.1:1"},
        {"endpoint": f"https://user:{SECRET}@host"},
        {"endpoint": f"https://host?key={SECRET}"},
        {"endpoint": "https://[bad"},
        {"region": 7},
        {"region": ""},
        {"allow_http": "yes"},
        {"attempts": 0},
        {"attempts": True},
        {"in_flight": 5_000},
        {"request_timeout_seconds": 0},
        {"request_timeout_seconds": float("nan")},
        {"connect_timeout_seconds": "5"},
        {"account": "only-azure"},
        [("region", "x")],
    ],
)
def test_wrong_options_are_refused(options: Any) -> None:
    with pytest.raises(OptionError) as caught:
        open_objects("s3://bucket/a", options=options)
    assert SECRET not in str(caught.value)


def test_options_of_another_cloud_and_unknown_ones_are_refused() -> None:
    with pytest.raises(OptionError, match="for s3:// only"):
        open_objects("gs://bucket", options=CloudOptions(region="x"))
    with pytest.raises(OptionError, match="'account'"):
        open_objects("az://container")
    with pytest.raises(OptionError, match="exclude each other"):
        open_objects(
            "s3://bucket",
            credentials=S3Credentials("k", SECRET),
            options=CloudOptions(anonymous=True),
        )
    with pytest.raises(NameNotFoundError, match="end_point") as caught:
        open_objects("s3://bucket", options={"end_point": "https://host"})
    assert "endpoint" in str(caught.value.hint)


def test_without_the_extra_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "obstore":
            raise ModuleNotFoundError("No module named 'obstore'", name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingDependencyError) as caught:
        open_objects("s3://bucket/a")
    assert caught.value.hint == 'pip install "tessel[cloud]"'


# --- in use ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.FORBIDDEN_403, Fault.ERROR_500, Fault.DROPPED])
@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_no_failure_shows_a_secret(
    scheme: str, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    credentials: Any = {
        "s3": S3Credentials(SECRET, SECRET, SECRET),
        "gs": GoogleCredentials(SECRET),
        "az": AzureCredentials(sas_token=f"sv=1&sig={SECRET}"),
    }[scheme]
    events: list[Event] = []
    with scripted_server() as server, subscribe(events.append), caplog.at_level(logging.DEBUG):
        for method in ("PUT", "GET", "HEAD"):
            server.rules.append(Rule(method, fault, times=1_000))
        options = CloudOptions(
            endpoint=server.url,
            allow_http=True,
            attempts=2,
            account="account" if scheme == "az" else None,
        )
        objects = open_objects(
            f"{scheme}://bucket/store", credentials=lambda: credentials, options=options
        )
        assert SECRET not in repr(objects) + objects.uri
        for act in (
            lambda: objects.put_if_absent("a", b"1"),
            lambda: objects.get("a"),
            lambda: objects.get_range("a", 0, 5),
            lambda: objects.size("a"),
        ):
            with pytest.raises(StoreError) as caught:
                act()
            _shows_nothing(caught.value, caplog)
            assert isinstance(caught.value, StoreAccessError) == (fault is Fault.FORBIDDEN_403)
        assert server.log, "requests were made"
    assert SECRET not in repr(events)


def test_credentials_are_asked_for_again_before_they_expire(moto: MotoServer) -> None:
    bucket = moto.new_bucket()
    asked: list[int] = []

    def provide() -> S3Credentials:
        asked.append(len(asked))
        soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)
        return S3Credentials("key", SECRET, expires_at=soon)

    objects = open_objects(f"s3://{bucket}/a", credentials=provide, options=moto.options)
    objects.put_if_absent("a", b"1")
    first = len(asked)
    objects.get("a")
    objects.put_if_absent("b", b"1")
    assert len(asked) > first >= 1

    lasting: list[int] = []

    def provide_once() -> S3Credentials:
        lasting.append(1)
        return S3Credentials("key", SECRET, expires_at=LATER)

    objects = open_objects(f"s3://{bucket}/a", credentials=provide_once, options=moto.options)
    for number in range(5):
        objects.put_if_absent(f"c/{number}", b"1")
    assert len(lasting) == 1


@pytest.mark.parametrize(
    ("provide", "told"),
    [
        (lambda: {}[SECRET], "raised KeyError"),
        (lambda: None, "S3Credentials"),
        (lambda: GoogleCredentials(SECRET), "not GoogleCredentials"),
    ],
)
def test_a_function_that_fails_to_give_credentials(
    moto: MotoServer, provide: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    objects = open_objects(f"s3://{moto.new_bucket()}/a", credentials=provide, options=moto.options)
    with pytest.raises(StoreAccessError, match=told) as caught:
        objects.get("a")
    _shows_nothing(caught.value, caplog)


def _shows_nothing(error: TesselError, caplog: pytest.LogCaptureFixture) -> None:
    """Check all that a program or a reader of logs could see of an error."""
    texts = [str(error), repr(error), str(error.to_json()), caplog.text]
    texts += traceback.format_exception(error, chain=True)
    seen: BaseException | None = error
    while seen is not None:
        texts.append(repr(seen))
        seen = seen.__cause__ or seen.__context__
    # The line of the test itself is part of a traceback, and has no secret in it.
    assert SECRET not in "".join(texts)
