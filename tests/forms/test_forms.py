"""All ways to store and to read a table give one answer; for long: ``python -m tests.forms``."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.forms.cases import check_bound_chain, check_chain


@settings(max_examples=12)
@given(data=st.data())
def test_chains(data: st.DataObject) -> None:
    check_chain(data)


@settings(max_examples=12)
@given(data=st.data())
def test_chains_of_what_binds(data: st.DataObject) -> None:
    check_bound_chain(data)


@pytest.mark.slow
@settings(max_examples=4_000)
@given(data=st.data())
def test_many_chains(data: st.DataObject) -> None:
    check_chain(data)


@pytest.mark.slow
@settings(max_examples=4_000)
@given(data=st.data())
def test_many_chains_of_what_binds(data: st.DataObject) -> None:
    check_bound_chain(data)
