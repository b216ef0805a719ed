"""The page of a run, opened and clicked through in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tessel as ts

ROWS = 200_000


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    store = ts.open(folder / "store")
    with ts.options(segment_rows=20_000):
        times = pa.array(np.arange(ROWS), pa.timestamp("s"))
        rows = {
            "t": times,
            "n": np.arange(ROWS),
            "k": np.arange(ROWS) % 5,
            "x": np.arange(ROWS) * 0.5,
        }
        store.write("t<rades>", pa.table(rows), index="t")
    lazy = (
        store.scan("t<rades>")
        .date_range("1970-01-01T14:00", "1970-01-02T17:00")
        .filter("x > 30000 and k != 2")
    )
    result = lazy.apply("y", "x * 2").sort("y").collect()
    result.profile().write_html(folder / "run.html")
    return folder / "run.html"


@pytest.fixture
def page(chromium: Any, page_file: Path) -> Iterator[Any]:
    """The page, which asked for nothing else and said nothing on the console."""
    opened = chromium.new_page(viewport={"width": 1200, "height": 900})
    asked: list[str] = []
    said: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.goto(page_file.as_uri())
    yield opened
    assert asked == [page_file.as_uri()]
    assert said == []
    opened.close()


def test_every_part_is_drawn(page: Any, tmp_path: Path) -> None:
    assert page.locator("h2").inner_text() == "A run on 't<rades>'"
    for link in page.locator("nav a").all():
        link.click()
        part = page.locator(page.evaluate("location.hash"))
        assert part.is_visible()
        assert part.locator("h3").inner_text() == link.inner_text()
    for shape in page.locator("#plan g rect, #timeline rect, #pruning rect").all():
        assert shape.bounding_box()["height"] > 0
    fills = page.eval_on_selector_all(
        "#timeline rect", "all => all.map(each => getComputedStyle(each).fill)"
    )
    assert len(set(fills)) > 1
    page.screenshot(path=str(tmp_path / "page.png"), full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_the_pointer_tells_what_is_below_it(page: Any) -> None:
    tip = page.locator("#tip")
    assert not tip.is_visible()
    page.locator("#plan g[data-of=filter]").hover()
    assert "filter(" in tip.inner_text()
    assert "rows: " in tip.inner_text()
    page.locator("#timeline rect[data-of=filter]").first.hover(force=True)
    assert "clause.process" in tip.inner_text()
    page.locator("#pruning rect.pruned").first.hover()
    assert "[0, " in tip.inner_text()
    assert "date_range" in tip.inner_text()
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1200
    page.mouse.move(600, 5)
    assert not tip.is_visible()


def test_a_click_leaves_what_has_the_name_and_another_shows_all(page: Any) -> None:
    seen = "all => all.map(each => [each.dataset.of, getComputedStyle(each).opacity])"
    page.locator("#plan g[data-of=filter]").click()
    told = page.eval_on_selector_all("[data-of]", seen)
    assert {name for name, opacity in told if opacity == "1"} == {"filter"}
    assert len({name for name, _ in told}) > 3
    page.locator("#plan g[data-of=filter]").click()
    assert {opacity for _, opacity in page.eval_on_selector_all("[data-of]", seen)} == {"1"}
    page.locator("#plan g[data-of=apply]").focus()
    page.keyboard.press("Enter")
    assert page.locator(".chosen").first.get_attribute("data-of") == "apply"
    page.keyboard.press("Escape")
    assert page.locator(".chosen").count() == 0


def test_lanes_are_stretched_and_moved(page: Any) -> None:
    lanes = page.locator("#pruning .lanes").first
    ends = lanes.locator(".axis span").last
    assert ends.inner_text() == "200,000 rows"
    lanes.get_by_title("zoom in").click()
    assert ends.inner_text() == "150,000 rows"
    lanes.get_by_title("later").click()
    assert ends.inner_text() == "200,000 rows"
    lanes.get_by_title("zoom out").click()
    lanes.get_by_title("zoom in").click()
    lanes.get_by_title("the whole axis").click()
    assert lanes.locator(".axis span").first.inner_text() == "0 rows"
    assert ends.inner_text() == "200,000 rows"
    strip = lanes.locator("svg").first
    strip.hover(force=True)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_function("document.querySelector('#pruning svg').viewBox.baseVal.width === 800")
