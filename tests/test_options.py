"""Options: checked when made, read from the environment, changed for a block."""

from __future__ import annotations

import contextvars
import dataclasses
import threading

import pytest

from tessel.errors import NameNotFoundError, OptionError
from tessel.options import Options, current, options

FIELDS = dataclasses.fields(Options)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in FIELDS:
        monkeypatch.delenv(f"TESSEL_{field.name.upper()}", raising=False)


def test_without_anything_set_the_defaults_are_in_force():
    assert current() == Options()
    assert current().workers >= 1


def test_a_block_changes_options_and_puts_them_back_also_after_an_error():
    with options(workers=3, fsync=False) as inside:
        assert current() is inside
        assert (inside.workers, inside.fsync) == (3, False)
        with pytest.raises(ZeroDivisionError), options(workers=1) as innermost:
            raise ZeroDivisionError if current() is innermost else AssertionError
        assert current() is inside
    assert current() == Options()


def test_a_block_counts_in_its_thread_and_in_contexts_copied_from_it():
    seen: list[int] = []
    with options(workers=7):
        copied = contextvars.copy_context()
        threads = [
            threading.Thread(target=lambda: seen.append(current().live_bytes)),
            threading.Thread(target=copied.run, args=(lambda: seen.append(current().workers),)),
        ]
        with options(live_bytes=1):
            for thread in threads:
                thread.start()
                thread.join()
    assert seen == [Options().live_bytes, 7]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("workers", "5", 5),
        ("live_bytes", "1_000_000", 1_000_000),
        ("inline_bytes", "0", 0),
        ("fsync", "no", False),
        ("fsync", " TRUE ", True),
        ("progress", "0", False),
        ("spark_master", "local[4]", "local[4]"),
    ],
)
def test_the_environment_sets_options(monkeypatch, name, text, value):
    monkeypatch.setenv(f"TESSEL_{name.upper()}", text)
    assert current() == Options().replace(**{name: value})
    other = "workers" if name != "workers" else "segment_rows"
    with options(**{other: 2}) as inside:
        assert getattr(inside, name) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("workers", "many", "TESSEL_WORKERS is 'many'"),
        ("workers", "", "TESSEL_WORKERS is ''"),
        ("fsync", "maybe", "TESSEL_FSYNC is 'maybe'"),
        ("workers", "0", "'workers' is at least 1, not 0"),
        ("live_bytes", "-1", "'live_bytes' is at least 0, not -1"),
    ],
)
def test_a_bad_environment_is_told_by_name(monkeypatch, name, text, message):
    monkeypatch.setenv(f"TESSEL_{name.upper()}", text)
    with pytest.raises(OptionError, match=message) as caught:
        current()
    assert caught.value.attributes["option"] == name


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_every_option_refuses_other_types(field):
    wrong = {"int": [1.5, "1", True, None], "bool": [1, "yes", None], "str": [1, None, b"x"]}
    for value in wrong[field.type]:
        with pytest.raises(OptionError, match=f"'{field.name}' takes {field.type}") as caught:
            Options(**{field.name: value})
        assert caught.value.attributes["option"] == field.name


def test_an_unknown_option_raises_with_the_nearest_and_changes_nothing():
    with pytest.raises(NameNotFoundError, match="did you mean 'workers'"), options(worker=1):
        pytest.fail("the block must not run")
    assert current() == Options()
    with pytest.raises(OptionError), options(workers=0):
        pytest.fail("the block must not run")
    assert current() == Options()


def test_options_are_not_set_by_assignment():
    with pytest.raises(NameNotFoundError, match="did you mean 'workers'"):
        options.worker = 3
    with pytest.raises(OptionError, match=r"with tessel\.options\(workers=3\)"):
        options.workers = 3
    assert current() == Options()


def test_options_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        current().workers = 2  # type: ignore[misc]
