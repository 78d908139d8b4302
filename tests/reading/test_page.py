"""The report as a page, as a browser shows it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from retrace.causes import Cause
from retrace.model import Key
from retrace.present.glossary import CAUSES
from tests.reading.story import Story, array, at, function, hostile, training, write
from tests.reading.test_cli import retrace

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One that is installed: playwright's own would have to be downloaded."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=executable, args=list(QUIET))
        yield launched
        launched.close()


def built(story: Story, directory: Path) -> Path:
    """The page of a story."""
    file = directory / "report.html"
    recording = write(story, directory / "rec")
    done = retrace("report", recording, "--format", "html", "--output", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return file


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    """Opens the page of a story; nothing may fail in it, and nothing be asked of a network."""
    wrong: list[str] = []
    contexts: list[Any] = []

    def open_(story: Story, **options: Any) -> Any:
        file = built(story, tmp_path)
        context = browser.new_context(**{"viewport": {"width": 1100, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()

        def heard(event: Any) -> None:
            wrong.append(getattr(event, "url", None) or str(event))

        for event in ("console", "pageerror", "request"):
            page.on(event, heard)
        page.goto(file.as_uri())
        assert wrong == [file.as_uri()]
        wrong.clear()
        return page

    yield open_
    for context in contexts:
        context.close()
    assert wrong == []


def test_it_tells_what_the_report_tells(opened: Opened) -> None:
    page = opened(training())
    assert page.title().endswith("train.py")
    functions = page.locator(".functions tbody tr").all_inner_texts()
    assert [row.split()[0] for row in functions] == ["train_step", "eager", "<lambda>", "loss_fn"]
    assert "weak int32[] -> int32[]" in functions[0]
    told = page.locator(".message[open]").all_inner_texts()
    assert "train_step traced again (2nd time, avoidable)" in told[0]
    assert "last partial batch" in told[1] and "drop_remainder" in told[1]
    assert page.locator("#timeline a").count() == 17
    assert "An array has another shape." in page.locator("#words").inner_text()


def test_it_is_used_by_keyboard(opened: Opened) -> None:
    page = opened(training())
    rows = page.locator("#all tbody tr:visible")
    assert rows.count() == 20
    page.keyboard.press("/")
    page.keyboard.type("lambda-recreated")
    assert rows.count() == 4
    assert page.locator(".message:visible").count() == 1
    page.keyboard.press("Escape")
    assert rows.count() == 20
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") != "BODY"
    summary = page.locator(".message summary").last
    summary.focus()
    was = page.locator(".message").last.evaluate("it => it.open")
    page.keyboard.press("Enter")
    assert page.locator(".message").last.evaluate("it => it.open") is not was


def test_the_list_is_sorted_by_any_column(opened: Opened) -> None:
    page = opened(training())
    page.get_by_role("button", name="seconds").click()
    shown = page.locator("#all tbody tr td.number").all_inner_texts()
    assert shown[:3] == ["12.8 s", "12.5 s", "12.2 s"]
    page.get_by_role("button", name="seconds").click()
    assert page.locator("#all tbody tr td.number").first.inner_text() == "0.06 s"


def test_a_bar_leads_to_its_explanation(opened: Opened) -> None:
    page = opened(training())
    page.locator(".message").evaluate_all("found => found.forEach(it => it.open = false)")
    bar = page.locator("#timeline a").filter(has_text="train_step #3")
    bar.dispatch_event("click")
    page.wait_for_function("document.querySelector('.message:target').open")


def test_the_data_in_it_are_the_json_report(opened: Opened, tmp_path: Path) -> None:
    page = opened(training())
    with page.expect_download() as caught:
        page.get_by_role("button", name="Save report.json").click()
    saved = json.loads(Path(caught.value.path()).read_text())
    told = retrace("report", tmp_path / "rec", "--format", "json").stdout
    assert saved == json.loads(told)


def test_without_scripts_it_tells_as_much(opened: Opened) -> None:
    page = opened(training(), java_script_enabled=False)
    assert "drop_remainder" in page.content()
    assert page.locator(".needs-script").is_visible()
    assert not page.locator(".tools").is_visible()


@pytest.mark.parametrize("width", [360, 800])
def test_it_is_no_wider_than_its_window(width: int, opened: Opened) -> None:
    page = opened(training(), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_follows_the_dark(opened: Opened) -> None:
    colours = [
        opened(training(), color_scheme=scheme).evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        for scheme in ("light", "dark")
    ]
    assert colours == ["rgb(255, 255, 255)", "rgb(20, 23, 26)"]


def test_names_are_names(opened: Opened) -> None:
    owned = '</script><script>document.title="owned"</script>'
    image = "<img src=x onerror=alert(1)>"
    story = training()
    named = function(owned, 7)
    story.miss(named, story.misses[5].key, at(9, image), (0.1, 0.1, 30.0))
    page = opened(story)
    assert "owned" not in page.title()
    assert owned in page.locator(".functions").inner_text()
    assert any(owned in text for text in page.locator("#all td").all_inner_texts())
    assert page.locator("script").count() == 2 and page.locator("img").count() == 0


def test_no_other_script_runs_in_it(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(built(training(), tmp_path).as_uri())
    with pytest.raises(Exception, match="Content Security Policy"):
        page.add_script_tag(content="document.title = 'owned'")
    assert "owned" not in page.title()
    context.close()


def test_a_hostile_recording_is_a_page(opened: Opened) -> None:
    page = opened(hostile())
    assert page.locator(".message").count() == 1
    assert page.locator("script").count() == 2


def test_many_misses_are_not_put_into_it(opened: Opened) -> None:
    story = Story()
    step = function("step", 3)
    for number in range(2100):
        key = Key((array("x", "float32", number + 1),))
        story.miss(step, key, at(9, "step(x)"), (0.001 * number, None, None))
    page = opened(story)
    assert "2,100 misses are too many for a page" in page.locator("#data").inner_text()
    assert page.locator("#misses, #save").count() == 0
    assert page.locator("#timeline rect").count() == 1000
    assert "1,100 shorter ones" in page.locator("figcaption").inner_text()


def test_every_cause_is_in_the_glossary_as_in_the_pages() -> None:
    assert list(CAUSES) == list(Cause)
    pages = (Path(__file__).parents[2] / "docs/causes/README.md").read_text()
    for cause, said in CAUSES.items():
        assert f"| [`{cause.value}`]({cause.value}.md) | {said} |" in pages
