"""The report page, tested in a browser."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from retrace.causes import Cause
from retrace.model import CallSite, Key, Kind
from retrace.present import page, page_data, side_by_side
from retrace.present.glossary import CAUSES
from retrace.present.page_source import Sources
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.reason.verdict import judge
from tests import pictures
from tests.reading.story import Story, array, at, function, hostile, killed, training, write
from tests.reading.test_cli import retrace

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """An installed browser: playwright's own would have to be downloaded."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=executable, args=list(QUIET))
        yield launched
        launched.close()


def built(story: Story, directory: Path, *others: Story) -> Path:
    """The page of one or more processes."""
    file = directory / "report.html"
    recording = write(story, directory / "rec")
    for other in others:
        write(other, recording)
    done = retrace("report", recording, "--format", "html", "--output", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return file


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    """Opens the page of a story; no errors and no network requests are allowed in it."""
    wrong: list[str] = []
    contexts: list[Any] = []

    def open_(story: Story, *others: Story, **options: Any) -> Any:
        file = built(story, tmp_path, *others)
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
        if options.get("java_script_enabled", True):
            page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert wrong == []


def test_it_shows_what_the_report_shows(opened: Opened) -> None:
    page = opened(training())
    assert page.title().endswith("train.py")
    functions = page.locator(".functions tbody tr").all_inner_texts()
    assert [row.split()[0] for row in functions] == ["train_step", "eager", "<lambda>", "loss_fn"]
    assert "weak int32[] -> int32[]" in functions[0]
    told = page.locator(".message[open]").all_inner_texts()
    assert "train_step traced again (2nd time, avoidable)" in told[0]
    assert "last partial batch" in told[1] and "drop_remainder" in told[1]
    assert page.locator("#timeline canvas").is_visible()
    assert page.locator("main section").first.get_attribute("id") == "plan"
    assert CAUSES[Cause.SHAPE_CHANGED] in page.locator("#words").inner_text()


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


def test_a_function_shows_all_its_causes(opened: Opened) -> None:
    page = opened(training())
    causes = page.locator(".functions tbody tr").first.locator("a").all_inner_texts()
    assert sorted(causes) == ["first-trace", "shape-changed", "weak-type-changed"]


def test_a_filter_applies_everywhere_and_is_in_the_address(
    opened: Opened,
) -> None:
    page = opened(training())
    page.locator("#of-cause").select_option("lambda-recreated")
    assert page.locator("#matching").inner_text() == "4 of 20"
    for part in ("#plan tbody tr", ".functions tbody tr", ".message"):
        assert page.locator(f"{part}:visible").count() == 1, part
    assert page.locator("#first tbody tr:visible").count() == 0
    assert page.locator("#source [data-line]:not(.out)").count() == 1
    assert page.locator("#all tbody tr").count() == 4
    address = page.url
    assert "cause=lambda-recreated" in address
    # Opening the address again shows the same state.
    again = page.context.new_page()
    again.goto(address)
    again.wait_for_selector("html[data-ready]", state="attached")
    assert again.locator("#all tbody tr").count() == 4
    page.locator("#filter").fill("no-such-thing")
    assert page.locator("#matching").inner_text() == "0 of 20"
    assert page.locator("#none").is_visible()
    page.locator("#clear").click()
    assert page.locator("#all tbody tr").count() == 20 and "cause=" not in page.url


def test_each_miss_has_an_address(opened: Opened) -> None:
    story = training()
    page = opened(story)
    explained = 0
    for miss in story.misses:
        page.evaluate("where => { location.hash = where }", f"miss-{miss.id}")
        arrived = page.wait_for_selector(f'[id="miss-{miss.id}"].arrived')
        assert arrived.is_visible()
        explained += arrived.evaluate("it => it.matches('details[open]')")
    assert explained == 4
    # Following a link works even if a filter hides its target.
    page.locator("#of-cause").select_option("eager-op")
    page.evaluate("where => { location.hash = where }", f"miss-{story.misses[5].id}")
    page.wait_for_selector(f'[id="miss-{story.misses[5].id}"].arrived')
    assert page.locator("#of-cause").input_value() == ""


def drawn(page: Any) -> list[list[int]]:
    """The colours that the timeline shows."""
    return page.evaluate(
        """() => {
            const canvas = document.querySelector("#icicle canvas");
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            const seen = new Set();
            for (let i = 0; i < data.length; i += 4) {
                if (data[i + 3] === 255) seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
            }
            return [...seen].map((one) => one.split(",").map(Number));
        }"""
    )


def test_the_timeline_is_drawn_and_followed_by_keys_wheel_and_click(opened: Opened) -> None:
    page = opened(training())
    # Trace, lower, compile.
    colours = drawn(page)
    for colour in ([59, 125, 216], [122, 92, 196], [217, 130, 43]):
        assert colour in colours
    canvas, said = page.locator("#icicle canvas"), page.locator("#said")
    canvas.focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    assert said.inner_text().startswith("train_step #1, first-trace")
    page.keyboard.press("ArrowDown")
    assert said.inner_text().startswith("loss_fn #1")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    was = canvas.screenshot()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(100)
    assert canvas.screenshot() != was
    page.keyboard.press("Enter")
    page.wait_for_selector(".message.arrived[open]")
    assert "2nd time" in page.locator(".message.arrived summary").inner_text()
    page.get_by_role("button", name="All", exact=True).click()
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.998, box["y"] + 38)
    assert "concatenate #4" in page.locator("#tip").inner_text()
    page.mouse.down()
    page.mouse.up()
    page.wait_for_selector("[id='miss-k3x9f2a-19'].arrived")


def touches(session: Any, kind: str, *points: tuple[float, float]) -> None:
    """Touches, as the browser receives them."""
    where = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
    session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": where})


def picture(page: Any) -> str:
    """The timeline as drawn."""
    return page.evaluate("document.querySelector('#icicle canvas').toDataURL()")


def test_fingers_zoom_and_open(opened: Opened) -> None:
    page = opened(training(), viewport={"width": 390, "height": 800}, has_touch=True)
    canvas, tip = page.locator("#icicle canvas"), page.locator("#tip")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    middle, y = box["x"] + box["width"] / 2, box["y"] + 40
    was, session = picture(page), page.context.new_cdp_session(page)
    touches(session, "touchStart", (middle - 20, y), (middle + 20, y))
    for apart in range(30, 130, 10):
        touches(session, "touchMove", (middle - apart, y), (middle + apart, y))
    touches(session, "touchEnd")
    page.wait_for_timeout(100)
    assert picture(page) != was
    page.get_by_role("button", name="All", exact=True).tap()
    page.wait_for_timeout(100)
    assert picture(page) == was
    # The first tap shows, the second opens: fingers cannot hover.
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    for arrived in (0, 1):
        page.touchscreen.tap(box["x"] + box["width"] * 0.4, box["y"] + 38)
        page.wait_for_timeout(100)
        assert tip.is_visible() or arrived
        assert page.locator(".arrived").count() == arrived


def test_each_process_has_a_lane(opened: Opened) -> None:
    other = training(run="k3x9f2b", process_index=1, pid=4243)
    page = opened(training(), other)
    assert page.locator("#of-process option").count() == 3
    canvas, tip = page.locator("#icicle canvas"), page.locator("#tip")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    seen: list[str] = []
    canvas.focus()
    for _ in range(2):
        for _ in range(6):
            page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        # A slow browser shows the previous one for a while.
        other_than = f":not([id='{seen[-1]}'])" if seen else ""
        row = page.wait_for_selector(f".arrived{other_than}")
        seen.append(row.get_attribute("id"))
        canvas.focus()
        # The next lane is below the nested traces.
        for _ in range(2):
            page.keyboard.press("ArrowDown")
        assert tip.is_visible()
    assert [one.split("-")[1] for one in seen] == ["k3x9f2a", "k3x9f2b"]
    assert box["height"] > 120


@pytest.mark.parametrize(("scheme", "width"), [("dark", 390), ("light", 1400)])
def test_axe_finds_nothing(scheme: str, width: int, opened: Opened) -> None:
    other = training(run="k3x9f2b", process_index=1, pid=4243, complete=False)
    # The page only runs its own script; axe is another one.
    page = opened(
        killed(),
        other,
        color_scheme=scheme,
        viewport={"width": width, "height": 800},
        bypass_csp=True,
    )
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.evaluate("location.hash = 'miss-k3x9f2b-9'")
    page.wait_for_selector("[id='miss-k3x9f2b-9'].arrived")
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
    assert len(found["passes"]) > 30
    # Also with a filter that matches nothing.
    page.locator("#filter").fill("no-such-thing")
    assert page.locator("#timeline.nothing, #misses.nothing").count() == 2
    assert page.evaluate("axe.run().then((found) => found.violations.map((one) => one.id))") == []


def test_it_is_printed_whole_on_white(opened: Opened) -> None:
    page = opened(training(), color_scheme="dark")
    folded = page.locator(".message:not([open])")
    assert folded.count() > 0
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert folded.count() == 0
    assert not page.locator("nav").is_visible()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(28, 30, 33)"
    # So is the timeline, only in the colours of a light page.
    colours = drawn(page)
    assert [59, 125, 216] in colours and [110, 168, 254] not in colours


def test_lines_show_their_cost_and_are_reached_by_key(opened: Opened) -> None:
    page = opened(training())
    lines = page.locator("#source [data-line]").all_inner_texts()
    assert [line.split("\t")[1].strip() for line in lines] == ["12", "47", "88", "97", "104"]
    assert lines[2].startswith("37.")
    page.keyboard.press("n")
    page.keyboard.press("n")
    assert page.evaluate("document.activeElement.id") == "line-0-47"
    page.keyboard.press("p")
    assert page.evaluate("document.activeElement.id") == "line-0-12"


def test_the_data_in_it_are_the_json_report(opened: Opened, tmp_path: Path) -> None:
    page = opened(training())
    with page.expect_download() as caught:
        page.get_by_role("button", name="Save report.json").click()
    saved = json.loads(Path(caught.value.path()).read_text())
    told = retrace("report", tmp_path / "rec", "--format", "json").stdout
    assert saved == json.loads(told)


def test_without_scripts_it_shows_as_much(opened: Opened) -> None:
    page = opened(training(), java_script_enabled=False)
    assert "drop_remainder" in page.content()
    assert page.locator("#misses .needs-script").is_visible()
    assert not page.locator("#filters").is_visible()


@pytest.mark.parametrize("width", [360, 800])
def test_it_fits_its_window(width: int, opened: Opened) -> None:
    page = opened(training(), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Nor is any part of it, which would be cut off until scrolled.
    parts = "[...document.querySelectorAll('main section:not(#data)')]"
    wider = page.evaluate(
        f"{parts}.filter(it => it.scrollWidth > it.clientWidth).map(it => it.id)"
    )
    assert wider == []


_PARTED = """
() => {
    const parted = [];
    const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const node = texts.currentNode;
        for (const found of node.data.matchAll(/[\\w./]*:\\d+|\\d[\\d.,]*(?: m?s\\b)?/g)) {
            const range = document.createRange();
            range.setStart(node, found.index);
            range.setEnd(node, found.index + found[0].length);
            const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
            if (tops.size > 1) parted.push(found[0]);
        }
    }
    return parted;
}
"""
"""Numbers and places whose parts are on two lines."""


@pytest.mark.parametrize("width", [390, 800, 1400])
def test_no_number_is_cut(width: int, opened: Opened) -> None:
    story = killed()
    eager = function("convert", 1, Kind.OP, file=None, site="op:convert")
    for line in range(1203, 1206):
        key = Key((array("operand", "float32", line),))
        story.miss(
            eager, key, at(line, "x.astype(dtype)", file="a_long_name.py"), (0.1, 0.1, 0.2)
        )
    page = opened(story, viewport={"width": width, "height": 800})
    assert page.locator("#eager tbody tr").count() >= 3
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate(_PARTED) == []


def test_it_follows_the_dark_scheme(opened: Opened) -> None:
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
    assert page.locator("script").count() == 3 and page.locator("img").count() == 0


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
    assert page.locator("script").count() == 3


def many(number: int) -> Story:
    story = Story()
    step = function("step", 3)
    for size in range(number):
        key = Key((array("x", "float32", size + 1),))
        story.miss(step, key, at(9, "step(x)"), (0.001 * size, None, None))
    return story


def test_a_thousand_misses_are_a_small_page(tmp_path: Path) -> None:
    assert built(many(1000), tmp_path).stat().st_size < 1_300_000


def test_many_misses_are_drawn_and_listed_in_part(opened: Opened) -> None:
    page = opened(many(2100))
    assert page.locator("#all tbody tr").count() == 300
    assert "1,800 more" in page.locator("#others").inner_text()
    assert [59, 125, 216] in drawn(page)
    page.evaluate("location.hash = 'miss-k3x9f2a-2000'")
    page.wait_for_selector("[id='miss-k3x9f2a-2000'].arrived")


def test_too_many_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_data, "MAX_MISSES", 7)
    view = many(20).view()
    whole = "".join(page.report(view, Tally.of(view), [view.verdicts]))
    packed = re.search('id="report-data">([^<]*)<', whole)
    assert packed is not None
    told = json.loads(zlib.decompress(b64decode(packed[1])))
    # The most expensive ones stay, because the page is sorted by seconds.
    assert {miss["id"] for miss in told["misses"]} == {f"k3x9f2a-{n}" for n in range(13, 20)}
    assert told["left_off"] == 13 and "13 more" in whole


def test_the_pictures_of_the_docs_are_made_by_a_command(browser: Any, tmp_path: Path) -> None:
    pictures.made(write(training(), tmp_path / "rec"), tmp_path, browser, tmp_path)
    for name in pictures.NAMES:
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG"), name
    # The docs contain exactly these, and show each of them.
    assert sorted(file.name for file in pictures.FOLDER.iterdir()) == sorted(pictures.NAMES)
    pages = "".join(page.read_text("utf-8") for page in pictures.FOLDER.parent.glob("*.md"))
    assert set(re.findall(r"\]\(pictures/([^)]*)\)", pages)) == set(pictures.NAMES)


def test_tokens_that_differ_are_marked() -> None:
    old, new = side_by_side.marked("mul a:f32[3] <b> -> c", "mul a:f32[4] <b> -> c")
    assert old == "mul a:f32[<mark>3</mark>] &lt;b&gt; -&gt; c"
    assert new == "mul a:f32[<mark>4</mark>] &lt;b&gt; -&gt; c"


def test_a_file_is_shown_if_it_is_the_one_that_ran(tmp_path: Path) -> None:
    file = tmp_path / "project" / "train.py"
    elsewhere = tmp_path / "elsewhere"
    for folder in (file.parent, elsewhere):
        folder.mkdir()
    file.write_text("# a secret\nf(x)\n")

    def told(here: Path, named: Path = file) -> str:
        story = Story()
        key = Key((array("x", "float32", 3),))
        story.miss(function("f", 1), key, CallSite(str(named), 2, "main", "f(x)", False))
        view = View(story.recording(), judge(story.recording()), str(here))
        sources = Sources()
        sources.add(view, view.verdicts, [None])
        return "".join(sources.html(view))

    assert "a secret" in told(file.parent)
    # A recording from somebody else may name any of the reader's files, or lead out by a link.
    assert "a secret" not in told(elsewhere)
    (elsewhere / "train.py").symlink_to(file)
    assert "a secret" not in told(elsewhere, elsewhere / "train.py")
    file.write_text("# a secret\n\nf(x)\n")
    assert "a secret" not in told(file.parent) and "f(x)" in told(file.parent)


def test_every_cause_is_in_the_glossary_as_in_the_pages() -> None:
    assert list(CAUSES) == list(Cause)
    pages = (Path(__file__).parents[2] / "docs/causes/README.md").read_text()
    for cause, said in CAUSES.items():
        assert f"| [`{cause.value}`]({cause.value}.md) | {said} |" in pages
