"""The report in a real browser: found, filtered, linked, by keyboard, by everybody."""

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
from tests.report.browser.conftest import Opener, chosen, numbers
from tests.report.html_reader import params_of

PHONE = {"viewport": {"width": 390, "height": 844}}
SERIOUS = {"serious", "critical"}
QUERIES = [
    *(Query(filter=odd) for odd in FILTERS if odd != "models"),
    *(Query(order=order) for order in ORDERS),
    Query(type="ORG"),
    Query(source="place_list"),
    Query(type="LOC", source="after_preposition", order="entropy"),
    Query(text="THE "),
    Query(text="in", filter="error", order="conflict"),
    Query(text="nowhere to be found"),
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_the_page_finds_what_the_sheet_finds(
    query: Query, opened: Opener, demo_page: Path, account: RunSummary
) -> None:
    tab = opened(demo_page)
    chosen(tab, **params_of(query))
    expected = account.sentence_index.find(query).tolist()
    assert numbers(tab) == expected[:25]
    size = len(account.sentence_index)
    assert tab.inner_text("#count") == f"{len(expected)} of {size} sentences"


def test_the_viewer_finds_what_the_page_finds(
    opened: Opener, demo_page: Path, account: RunSummary, tmp_path: Path
) -> None:
    import threading

    with Viewer(prepare_view(tmp_path / "view", lambda: account)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here, there = opened(demo_page), opened(server.address)
        for query in QUERIES:
            for tab in (here, there):
                chosen(tab, **params_of(query))
            assert numbers(here) == numbers(there), query
            assert here.inner_text("#count") == there.inner_text("#count")
        assert there.locator(".sentence").count() == 0
        there.click("#reset")
        there.wait_for_selector("#s-0")
        assert there.inner_text("#s-0") == opened(demo_page).inner_text("#s-0")
        server.shutdown()


def test_an_answer_to_an_older_query_never_replaces_a_newer_one(
    opened: Opener, account: RunSummary, tmp_path: Path
) -> None:
    import threading

    with Viewer(prepare_view(tmp_path / "view", lambda: account)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab = opened(server.address)
        held: list[Any] = []

        def hold_the_first(route: Any) -> None:
            if "order=entropy" in route.request.url:
                held.append(route)
            else:
                route.continue_()

        tab.route("**/sentences?*", hold_the_first)
        tab.locator("#order").select_option("entropy")
        chosen(tab, order="conflict")
        expected = account.sentence_index.find(Query(order="conflict")).tolist()[:25]
        assert numbers(tab) == expected
        with tab.expect_response("**/sentences?*order=entropy*"):
            held[0].continue_()
        tab.evaluate("() => new Promise(requestAnimationFrame)")
        assert numbers(tab) == expected
        server.shutdown()


def test_searched_words_are_in_every_sentence_found(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page)
    chosen(tab, text="said")
    assert numbers(tab)
    words = tab.locator(".sentence").evaluate_all(
        "all => all.map(i => [...i.querySelectorAll('.word')].map(w => w.textContent).join(' '))"
    )
    assert all("said" in text.lower() for text in words)


def test_a_link_leads_to_its_sentence_and_stays_valid(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page, anchor="#sentence=57")
    item = tab.locator("#s-57")
    assert item.evaluate("item => item === document.activeElement")
    assert "chosen" in item.get_attribute("class")
    assert item.evaluate("i => { const r = i.getBoundingClientRect(); return r.top >= 0 && r.top < innerHeight; }")
    tab.locator("#s-60 .meta a").click()
    tab.wait_for_selector("#s-60.chosen")
    assert tab.url.endswith("#sentence=60")
    chosen(tab, odd="disagreement", order="entropy")
    again = opened(tab.url)
    assert numbers(again) == numbers(tab)
    assert again.input_value("#order") == "entropy"


@pytest.mark.parametrize(
    "anchor",
    ["#sentence=99999", "#sentence=-1", "#sentence=x", "#page=999", "#odd=no&type=%3Cscript%3E"],
)
def test_a_link_that_leads_nowhere_still_shows_sentences(anchor: str, opened: Opener, demo_page: Path) -> None:
    assert numbers(opened(demo_page, anchor=anchor))


def test_everything_can_be_done_by_keyboard(opened: Opener, demo_page: Path) -> None:
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
        "odd",
        "type",
        "source",
        "order",
        "annotate",
        "export",
        "next",
    } <= reached


def test_the_list_to_annotate_can_be_exported_and_read(
    opened: Opener, demo_page: Path, account: RunSummary, tmp_path: Path
) -> None:
    tab = opened(demo_page)
    tab.click("#annotate")
    tab.wait_for_function("document.getElementById('order').value === 'entropy'")
    with tab.expect_download() as waiting:
        tab.click("#export")
    path = tmp_path / "next.jsonl"
    waiting.value.save_as(path)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    order = account.sentence_index.find(Query(order="entropy")).tolist()
    assert [line["id"] for line in lines] == order
    data = cv.read(path, types=list(account.data.tags.types))
    assert data[0].tokens == account.data[order[0]].tokens
    spans = account.predictions.data.tags.spans(data.gold, data.offsets)
    assert len(spans) == len(account.predictions.spans)


@pytest.mark.parametrize("settings", [{}, {"color_scheme": "dark"}, PHONE], ids=["light", "dark", "phone"])
def test_no_serious_barrier(settings: dict[str, Any], opened: Opener, demo_page: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    tab = opened(demo_page, **settings)
    found = Axe().run(tab).response["violations"]
    serious = [
        (item["id"], [node["html"][:160] for node in item["nodes"][:3]]) for item in found if item["impact"] in SERIOUS
    ]
    assert serious == []


def test_nothing_is_wider_than_a_phone(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page, **PHONE)
    assert tab.evaluate("document.documentElement.scrollWidth") == 390


def test_figures_and_tables_do_without_a_script(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page, java_script_enabled=False)
    assert tab.locator("h1").inner_text() == "demo"
    assert tab.locator("svg").count() > 5
    assert tab.locator("noscript").count() == 1


def test_print_leaves_out_what_paper_cannot_do(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page)
    tab.emulate_media(media="print")
    for part in ("header", "#query", ".pager >> nth=0"):
        assert not tab.locator(part).is_visible()
    assert tab.locator(".sentence").first.is_visible()


def test_the_theme_goes_round(opened: Opener, demo_page: Path) -> None:
    tab = opened(demo_page)
    back = "getComputedStyle(document.body).backgroundColor"
    before = tab.evaluate(back)
    tab.click("#theme")
    assert tab.evaluate(back) == before
    tab.click("#theme")
    assert tab.evaluate(back) != before
    tab.reload()
    tab.wait_for_selector("html[data-ready]")
    assert tab.evaluate(back) != before


def test_models_side_by_side(opened: Opener, corpus: cv.Corpus, tmp_path: Path) -> None:
    models = {"chain": cv.HMM().fit(corpus.train), "vote": cv.MajorityVote().fit(corpus.train)}
    answers = {name: model.predict(corpus.test) for name, model in models.items()}
    path = tmp_path / "compare.html"
    path.write_text(render_comparison(corpus.test, answers), encoding="utf-8")
    tab = opened(path)
    chosen(tab, odd="models")
    first = numbers(tab)[0]
    lanes = tab.locator(f"#s-{first} .model th").all_inner_texts()
    assert set(lanes) <= set(models)
    assert lanes
