"""The page at /: what is served, and what a person sees of it in headless Chromium."""

import os
import pathlib
import re
import shutil

import pytest

KEY = "sk-page"
SHOTS = os.environ.get("SLIPSTREAM_SCREENSHOTS")  # a folder: pictures to look at


@pytest.fixture(scope="module")
def chromium():
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed: scripts/install_deps --test")
        pytest.skip("no chromium here")
    from playwright.sync_api import sync_playwright
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, request):
    pages = []

    def open_at(server, **options):
        page = chromium.new_page(viewport={"width": 1100, "height": 700}, **options)
        page.set_default_timeout(20000)
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda line: line.type in ("error", "warning") and page.problems.append(line.text))
        page.goto(f"http://127.0.0.1:{server.port}/")
        pages.append(page)
        return page

    yield open_at
    for i, page in enumerate(pages):
        if SHOTS:
            page.screenshot(path=pathlib.Path(SHOTS) / f"{request.node.name}-{i}.png")
        page.close()


def ask(page, text):
    page.fill("#input", text)
    page.keyboard.press("Enter")
    page.locator("#send").wait_for()  # hidden while an answer is written


def test_the_document_stands_alone(stub):
    answer = stub.get("/")
    assert answer.status == 200 and answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert not re.findall(r"(?:src|href)=\"(?!data:)", answer.text), "nothing is fetched from elsewhere"
    assert stub.post("/", {}).status == 405


def test_the_page_can_be_switched_off(start_stub):
    answer = start_stub("--no-web-page").get("/")
    assert answer.status == 404 and answer.error["code"] == "not_found"


def test_a_conversation(stub, open_page):
    page = open_page(stub)
    page.locator("#state.ready").wait_for()
    ask(page, "the sea <b>is</b> deep")
    first = page.locator(".assistant").nth(0)
    assert first.locator(".text").inner_text() == "the sea <b>is</b> deep", "the stub echoes; markup stays text"
    facts = first.locator(".facts").inner_text()
    assert re.search(r"\d+ tokens · [\d.]+ tokens/s · first after [\d.]+ s · \d+ of \d+ prompt tokens cached", facts), facts
    ask(page, "and cold")
    assert page.locator(".message").count() == 4
    assert page.locator(".assistant").nth(1).locator(".text").inner_text() == "and cold"
    assert page.locator("#running").inner_text() == "0" and page.locator("#model").inner_text().startswith("stub")
    page.click("#new")
    assert page.locator(".message").count() == 0
    ask(page, "anew")
    assert page.locator(".message").count() == 2
    assert page.problems == []


def test_errors_are_shown_in_the_server_words(stub, open_page):
    page = open_page(stub)
    page.click("#settings summary")
    page.fill("#limit", "999999")
    ask(page, "hello")
    assert "maximum context length" in page.locator(".assistant .error").inner_text()
    page.fill("#limit", "")
    ask(page, "again")
    assert page.locator(".assistant").nth(1).locator(".text").inner_text() == "again", "the refused question was not kept"


def test_stop_cancels_the_request(start_stub, open_page):
    server = start_stub("--stub-step-us=50000")
    page = open_page(server)
    page.fill("#input", "a long text " * 20)
    page.click("#send")
    page.locator(".assistant .text").filter(has_text="a long").wait_for()
    page.click("#stop")
    page.locator(".facts", has_text="stopped").wait_for()
    server.wait_idle()
    assert server.metric("request_success_total", 'finished_reason="abort"') == 1


def test_a_key_is_asked_for_and_used(start_stub, open_page):
    server = start_stub(f"--api-key={KEY}")
    page = open_page(server)
    page.locator("#state", has_text="API key needed").wait_for()
    page.fill("#key", KEY)
    page.locator("#state.ready").wait_for()
    ask(page, "open")
    assert page.locator(".assistant .text").inner_text() == "open"


def test_a_narrow_dark_window_has_all_controls_in_sight(stub, open_page):
    page = open_page(stub, color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 780})
    ask(page, "small")
    for control in ("#input", "#send", "#new", "#running", "#cache"):
        box = page.locator(control).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] + box["height"] <= 780, control
