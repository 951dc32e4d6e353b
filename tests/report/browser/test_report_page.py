"""The report in a browser: search, filters, links, keyboard, export, accessibility."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import convener as cv
from convener.report.comparison import render_comparison
from convener.report.run_summary import RunSummary
from convener.report.sentence_index import FILTERS, ORDERS, Query
from convener.report.viewer import Viewer, prepare_view
from tests.report.browser.conftest import Opener, fill_query, numbers
from tests.report.conftest import fitted_hmm

PHONE = {"viewport": {"width": 390, "height": 844}}
SERIOUS = {"serious", "critical"}
QUERIES = [
    *(Query(filter=name) for name in FILTERS if name != "models_differ"),
    *(Query(order=order) for order in ORDERS),
    Query(type="ORG"),
    Query(source="place_list"),
    Query(type="LOC", source="after_preposition", order="entropy"),
    Query(text="THE "),
    Query(text="in", filter="error", order="conflict"),
    Query(text="nowhere to be found"),
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_the_page_finds_the_same_sentences_as_the_index(
    query: Query, opened: Opener, demo_page: Path, summary: RunSummary
) -> None:
    tab = opened(demo_page)
    fill_query(tab, **query._asdict())
    expected = summary.sentence_index.find(query).tolist()
    assert numbers(tab) == expected[:25]
    size = len(summary.sentence_index)
    assert tab.inner_text("#count") == f"{len(expected)} of {size} sentences"


def test_the_viewer_finds_the_same_sentences_as_the_page(
    opened: Opener, demo_page: Path, summary: RunSummary, tmp_path: Path
) -> None:
    import threading

    with Viewer(prepare_view(tmp_path / "view", lambda: summary)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here, there = opened(demo_page), opened(server.address)
        for query in QUERIES:
            for tab in (here, there):
                fill_query(tab, **query._asdict())
            assert numbers(here) == numbers(there), query
            assert here.inner_text("#count") == there.inner_text("#count")
        assert there.locator(".sentence").count() == 0
        there.click("#reset")
        there.wait_for_selector("#s-0")
        assert there.inner_text("#s-0") == opened(demo_page).inner_text("#s-0")
        server.shutdown()


def test_the_response_to_an_older_query_never_replaces_a_newer_one(
    opened: Opener, summary: RunSummary, tmp_path: Path
) -> None:
    import threading

    with Viewer(prepare_view(tmp_path / "view", lambda: summary)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab = opened(server.address)
        delayed: list[Any] = []

        def delay_first(route: Any) -> None:
            if "order=entropy" in route.request.url:
                delayed.append(route)
            else:
                route.continue_()

        tab.route("**/sentences?*", delay_first)
        tab.locator("#order").select_option("entropy")
        fill_query(tab, order="conflict")
        expected = summary.sentence_index.find(Query(order="conflict")).tolist()[:25]
        assert numbers(tab) == expected
        with tab.expect_response("**/sentences?*order=entropy*"):
            delayed[0].continue_()
        tab.evaluate("() => new Promise(requestAnimationFrame)")
        assert numbers(tab) == expected
        server.shutdown()


def test_every_match_contains_the_search_text(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page)
    fill_query(tab, text="said")
    assert numbers(tab)
    words = tab.locator(".sentence").evaluate_all(
        "all => all.map(i => [...i.querySelectorAll('.word')].map(w => w.textContent).join(' '))"
    )
    assert all("said" in text.lower() for text in words)


def test_links_select_a_sentence_or_restore_a_query(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page, anchor="#sentence=57")
    item = tab.locator("#s-57")
    assert item.evaluate("item => item === document.activeElement")
    assert "selected" in item.get_attribute("class")
    assert item.evaluate("i => { const r = i.getBoundingClientRect(); return r.top >= 0 && r.top < innerHeight; }")
    tab.locator("#s-60 .meta a").click()
    tab.wait_for_selector("#s-60.selected")
    assert tab.url.endswith("#sentence=60")
    fill_query(tab, filter="source_conflict", order="entropy")
    again = opened(tab.url)
    assert numbers(again) == numbers(tab)
    assert again.input_value("#order") == "entropy"


@pytest.mark.parametrize(
    "anchor",
    ["#sentence=99999", "#sentence=-1", "#sentence=x", "#page=999", "#filter=no&type=%3Cscript%3E"],
)
def test_an_invalid_link_still_shows_sentences(anchor: str, opened: Opener, demo_page: Path) -> None:
    assert numbers(opened(demo_page, anchor=anchor))


def test_keyboard_navigation(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page)
    focused = "document.activeElement.id"
    tab.keyboard.press("/")
    assert tab.evaluate(focused) == "text"
    tab.keyboard.press("Escape")
    tab.keyboard.press("j")
    assert tab.evaluate(focused) == "s-0"
    tab.keyboard.press("j")
    assert tab.evaluate(focused) == "s-1"
    tab.keyboard.press("k")
    assert tab.evaluate(focused) == "s-0"
    tab.keyboard.press("n")
    tab.wait_for_selector("#s-25")
    assert numbers(tab)[0] == 25
    tab.keyboard.press("p")
    tab.wait_for_selector("#s-0")
    tab.reload()
    tab.wait_for_selector("html[data-ready]")
    reached = set()
    for _ in range(80):
        tab.keyboard.press("Tab")
        reached.add(tab.evaluate(focused))
    assert {
        "theme",
        "text",
        "filter",
        "type",
        "source",
        "order",
        "annotate",
        "export",
        "next",
    } <= reached


def test_exported_sentences_can_be_read(opened: Opener, demo_page: Path, summary: RunSummary, tmp_path: Path) -> None:
    tab = opened(demo_page)
    tab.click("#annotate")
    tab.wait_for_function("document.getElementById('order').value === 'entropy'")
    with tab.expect_download() as waiting:
        tab.click("#export")
    path = tmp_path / "next.jsonl"
    waiting.value.save_as(path)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    order = summary.sentence_index.find(Query(order="entropy")).tolist()
    assert [line["id"] for line in lines] == order
    data = cv.read(path, types=list(summary.data.tags.types))
    assert data[0].tokens == summary.data[order[0]].tokens
    spans = summary.predictions.data.tags.spans(data.gold, data.offsets)
    assert len(spans) == len(summary.predictions.spans)


@pytest.mark.parametrize("settings", [{}, {"color_scheme": "dark"}, PHONE], ids=["light", "dark", "phone"])
def test_no_serious_accessibility_violation(settings: dict[str, Any], opened: Opener, demo_page: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    tab = opened(demo_page, **settings)
    found = Axe().run(tab).response["violations"]
    serious = [
        (item["id"], [node["html"][:160] for node in item["nodes"][:3]]) for item in found if item["impact"] in SERIOUS
    ]
    assert serious == []


def test_the_page_fits_a_phone(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page, **PHONE)
    assert tab.evaluate("document.documentElement.scrollWidth") == 390


def test_figures_and_tables_need_no_script(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page, java_script_enabled=False)
    assert tab.locator("h1").inner_text() == "demo"
    assert tab.locator("svg").count() > 5
    assert tab.locator("noscript").count() == 1


def test_print_hides_controls(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page)
    tab.emulate_media(media="print")
    for part in ("header", "#query", ".pager >> nth=0"):
        assert not tab.locator(part).is_visible()
    assert tab.locator(".sentence").first.is_visible()


def test_the_theme_button_cycles_and_is_remembered(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page)
    background = "getComputedStyle(document.body).backgroundColor"
    before = tab.evaluate(background)
    tab.click("#theme")
    assert tab.evaluate(background) == before
    tab.click("#theme")
    assert tab.evaluate(background) != before
    tab.reload()
    tab.wait_for_selector("html[data-ready]")
    assert tab.evaluate(background) != before


def test_comparison_of_models(opened: Opener, corpus: cv.Corpus, tmp_path: Path) -> None:
    models = {"hmm": fitted_hmm(corpus), "vote": cv.MajorityVote().fit(corpus.train)}
    predictions = {name: model.predict(corpus.test) for name, model in models.items()}
    path = tmp_path / "compare.html"
    path.write_text(render_comparison(corpus.test, predictions), encoding="utf-8")
    tab = opened(path)
    fill_query(tab, filter="models_differ")
    first = numbers(tab)[0]
    names = tab.locator(f"#s-{first} .model th").all_inner_texts()
    assert set(names) <= set(models)
    assert names
