"""Random chains on random tables, cut at random: the pipeline against a plain interpreter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clauses.chain_cases import ChainCase
from tests.clauses.helpers import SETTINGS


def _check_chain(data: st.DataObject) -> None:
    case = ChainCase.drawn(data)
    case.check([SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))])


@settings(max_examples=150)
@given(data=st.data())
def test_chains(data: st.DataObject) -> None:
    _check_chain(data)


@pytest.mark.slow
@settings(max_examples=10_000)
@given(data=st.data())
def test_many_chains(data: st.DataObject) -> None:
    _check_chain(data)


def test_what_differs_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TESSEL_KEPT", str(tmp_path))
    kept: list[ChainCase] = []

    @settings(max_examples=20, database=None)
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        kept.append(ChainCase.drawn(data))

    draw()
    case = next(each for each in kept if each.symbols["x"].table.num_rows)
    wrong = [lambda store, query: store.read("x", query=query).to_arrow().slice(1)]
    truth = [lambda store, query: store.read("x").to_arrow()]
    with pytest.raises(AssertionError) as failed:
        ChainCase(case.symbols, []).check(reads=[*truth, *wrong])
    (folder,) = tmp_path.iterdir()
    assert str(folder) in failed.value.__notes__[0]
    assert {"x.arrow", "y.arrow", "found-0.arrow", "found-1.arrow", "told.txt"} <= {
        each.name for each in folder.iterdir()
    }
