"""The confidential pages: one look, nothing fetched, and no label that writes into them."""

from __future__ import annotations

import re
import sys
import zlib
from html.parser import HTMLParser

import jinja2
import polars as pl
import pytest

import ilba
from ilba.output import choosing, decision, korean, pdf
from ilba.output.compare import compare
from ilba.output.pages import filled, inline
from ilba.output.report import report
from support.places import ROOT

pytestmark = pytest.mark.slow

TEMPLATES = ROOT / "src" / "ilba" / "output" / "templates"
HOSTILE = [
    "<script>document.title='gone'</script>",
    '"><img src=x onerror="document.title=\'gone\'">',
    "{{ 7 * 7 }}{% endblock %}",
    "</style></title><b>&amp;",
]


class Read(HTMLParser):
    """The tags, attributes and words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.words += data


@pytest.fixture(scope="module")
def pages(secret, tmp_path_factory):
    """A page of each kind, of data whose every name and label is hostile."""
    town, key = HOSTILE[0], HOSTILE[1]
    people = pl.DataFrame({town: HOSTILE * 10, key: [*HOSTILE[:2], *HOSTILE[:2]] * 9 + HOSTILE})
    finest = ilba.build(people, [town], [key], secret=secret)
    audited = ilba.audit(finest, "r-file")
    assert audited.worst
    folder = tmp_path_factory.mktemp("pages")
    release = finest.release(folder / "release", ledger=False)
    choice = {"method": "controlled", "mean_loss": 1.0, "p99_loss": 2, "max_loss": 3, "within": 0.5, "provable": 0.0}
    choice |= {"blank": 0.0, "is_safe": True, "spec": "controlled", "totals": 1.0}
    facts = {"title": HOSTILE[3], "records": 40, "data": HOSTILE[2], "audit": "certified", "proposed": HOSTILE[:1]}
    signed = decision.write(folder / "decision.html", "en", release, **facts, choices=[{**choice, "adds_up": True}])
    return {
        "decision.html": signed,
        "report.html": report(finest, folder / "report.html"),
        "audit.html": audited.to_html(folder / "audit.html"),
        "comparison.html": compare(finest, secret=secret).to_html(folder / "comparison.html"),
        "risk.html": ilba.risk(finest).to_html(folder / "risk.html"),
        "choosing.html": choosing.write_page(ilba.what_if(finest, ["ilba"], [5]), folder / "choosing.html"),
    }


def test_every_template_is_a_page_or_a_part_of_one(pages):
    assert {path.name for path in TEMPLATES.iterdir()} == {*pages, "base.html", "parts.html", "style.css"}


def test_hostile_labels_stay_words(pages):
    ours = {"report.html": HOSTILE[:2], "audit.html": HOSTILE, "decision.html": HOSTILE}
    for name, path in pages.items():
        text = path.read_text("utf-8")
        read = Read(text)
        assert not read.tags & {"script", "img", "iframe", "object", "embed", "link", "base"}, name
        assert not {one for one in read.attributes if one.startswith("on")}, name
        assert "</title><b>" not in text, name
        for label in ours.get(name, ()):
            assert label in read.words, name


def test_every_page_has_the_same_look_says_confidential_and_loads_nothing(pages):
    style = (TEMPLATES / "style.css").read_text("utf-8")
    for name, path in pages.items():
        text = path.read_text("utf-8")
        assert path.stat().st_mode & 0o777 == 0o600, name
        assert text.startswith('<!doctype html>\n<html lang="en">'), name
        assert style.strip() in text, name
        assert "<title>CONFIDENTIAL: " in text, name
        assert text.partition("<body>")[2].lstrip().startswith('<div class="mark">CONFIDENTIAL · '), name
        if name != "decision.html":  # one sheet of paper, which is marked at its top
            assert all("CONFIDENTIAL" in heading for heading in re.findall(r"<h2>(.*?)</h2>", text)), name
        assert not Read(text).attributes & {"src", "srcset", "data", "xlink:href"}, name
        assert not re.search(r"url\(\s*['\"]?(https?:|//)|@import", text), name


def test_a_name_that_a_template_misses_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="title"):
        filled("comparison.html", picture="", heads=[], rows=[])


def test_charts_of_one_page_do_not_share_names():
    drawn = '<?xml version="1.0"?><svg><g id="a"/><use href="#a"/><rect fill="url(#a)"/></svg>'
    assert inline(drawn, 3) == '<svg><g id="f3-a"/><use href="#f3-a"/><rect fill="url(#f3-a)"/></svg>'


def test_in_a_browser_the_pages_fit_a_phone_and_fetch_and_run_nothing(pages, browser):
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, viewport={"width": 375, "height": 800})
        page = context.new_page()
        asked, grounds = [], set()
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        for path in pages.values():
            page.goto(path.as_uri())
            page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            assert page.title().startswith("CONFIDENTIAL: ")
            assert page.evaluate("document.documentElement.scrollWidth") == 375, (path.name, scheme)
            grounds.add(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
        assert asked == [path.as_uri() for path in pages.values()]
        assert grounds == {"rgb(247, 246, 242)" if scheme == "light" else "rgb(17, 23, 27)"}
        context.close()


@pytest.fixture(scope="module")
def published(finest, tmp_path_factory):
    return finest.release(tmp_path_factory.mktemp("decided") / "out", max_keys=1, ledger=False)


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_decision_page_fits_one_sheet_of_paper_in_both_languages(lang, published, browser, tmp_path):
    release = published
    choice = {"mean_loss": 1.0, "p99_loss": 2, "max_loss": 3, "within": 0.5, "provable": 0.25, "adds_up": True}
    choice |= {"is_safe": False, "blank": 0.1, "totals": 4.13}
    specs = {"ilba": "ilba:cells=grid", "cell-key": "cell-key:D=5,V=3,js=2"}
    choices = [
        {**choice, "method": method, "spec": specs.get(method, method)} for method in decision.WORDS["en"]["methods"]
    ]
    learnt = {"tables": (), "proven": 0.2, "likely": 0.3, "right": 0.99, "groups": 1234, "people": 56789}
    measured = [
        {**learnt, "attacker": attacker, "bound": 7 if attacker == "insider" else None}
        for attacker in decision.WORDS["en"]["attackers"]
    ]
    measured[0]["tables"] = ["town.sex.age"]
    facts = {"title": "Title", "records": 3, "data": "people.csv", "proposed": ["keys", "recipe.age", "maps.town"] * 3}
    for audit in ("certified", "safe", "not safe", "not audited"):
        path = decision.write(
            tmp_path / "d.html", lang, release, **facts, audit=audit, choices=choices, measured=measured
        )
        text = path.read_text("utf-8")
        assert f'<html lang="{lang}">' in text
        assert "&lt;5" in text  # fewer records than K are not told
        says = decision.WORDS[lang]
        assert f"<b>{says['yes' if audit in ('certified', 'safe') else 'no']}</b>" in text
        page = browser.new_page()
        page.goto(path.as_uri())
        sheets = len(re.findall(rb"/Type\s*/Page[^s]", page.pdf(format="A4", print_background=True)))
        page.close()
        assert sheets == 1
        assert text.count('<tr class="own">') == 1
        assert sum(name in text for name in says["methods"].values()) == 4  # this one, and three alternatives
    made = pdf.write(path)
    assert made.stat().st_mode & 0o777 == 0o600
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", made.read_bytes(), re.DOTALL)
    objects = b"".join(zlib.decompressobj().decompress(one) for one in streams if one[:1] == b"x")
    assert len(re.findall(rb"/Type\s*/Page\b", objects)) == 1


def test_where_nobody_learns_anything_the_decision_page_says_so(finest, tmp_path):
    release = finest.release(tmp_path / "out", ledger=False)
    none = {"tables": (), "proven": 0.0, "likely": 0.0, "right": None, "groups": 0, "people": 0, "bound": None}
    facts = {"title": "Title", "records": 300, "data": "people.csv", "audit": "certified"}
    measured = [{**none, "attacker": attacker} for attacker in decision.WORDS["en"]["attackers"]]
    text = decision.write(tmp_path / "d.html", "en", release, **facts, measured=measured).read_text("utf-8")
    assert (
        text.count('class="open"') == text.count('class="open">proves no count of 1 to 4 here; nothing') == 1
    )  # a register
    assert text.count(">proves no count of 1 to 4 here, with no bound of errors to rely on; nothing is promised<") == 1
    guessing = [{**one, "likely": 0.234, "right": 0.99} for one in measured]
    text = decision.write(tmp_path / "d.html", "en", release, **facts, measured=guessing).read_text("utf-8")
    sure = "; with guesses 23.4%; 99.0% of its guesses are right"
    for relies in ("", ", with no bound of errors to rely on"):  # a register, an insider
        assert text.count(f'class="open">proves no count of 1 to 4 here{relies}; nothing is promised{sure}<') == 1
    assert text.count("rightly guesses 23.4% of the finest cells with 1 to 4; 99.0% of its guesses are right") == 2
    proving = [{**one, "proven": 0.4} for one in guessing]
    text = decision.write(tmp_path / "d.html", "en", release, **facts, measured=proving).read_text("utf-8")
    right = "; with guesses 23.4%; of all it believes, proofs included, 99.0% is right"
    assert text.count(f'class="open">can prove 40.0% of the finest cells with 1 to 4{right}<') == 3  # not the insider
    counts = ", with no bound of errors, by counting the masks of other cells"
    assert text.count(f'class="open">can prove 40.0% of the finest cells with 1 to 4{counts}{right}<') == 1
    relying = [{**one, "bound": 7, "right": 0.9997} for one in proving]
    text = decision.write(tmp_path / "d.html", "en", release, **facts, measured=relying).read_text("utf-8")
    assert "; without relying on it, rightly guesses 23.4%; 99.9% of its guesses are right<" in text
    unseen = [{**one, "likely": None} for one in measured]  # the finest table is not published
    text = decision.write(tmp_path / "d.html", "en", release, **facts, measured=unseen).read_text("utf-8")
    assert text.count("; nothing is promised; guesses not measured<") == 4
    unknown = [{**one, "proven": None, "likely": None, "groups": None} for one in measured]
    text = decision.write(tmp_path / "d.html", "en", release, **facts, measured=unknown).read_text("utf-8")
    assert text.count("not measured: the finest table") == 5
    text = decision.write(tmp_path / "d.html", "en", release, **facts, accepted=True).read_text("utf-8")
    assert "may prove small counts; this conflict with the ledger was accepted<" in text
    text = decision.write(tmp_path / "d.html", "en", release, **facts, accepted_before=["2025"]).read_text("utf-8")
    assert "this conflict" not in text
    assert 'class="open">finds other masks under the same codes only' in text
    assert "the publication of 2025 had a conflict with the ledger, which was accepted: audit both together<" in text


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_decision_page_says_that_the_share_of_an_insider_depends_on_the_secret(lang, finest, published, tmp_path):
    learnt = {"tables": (), "proven": 0.2, "likely": 0.3, "right": 0.99, "groups": 0, "people": 0, "bound": None}
    measured = [{**learnt, "attacker": attacker} for attacker in decision.WORDS["en"]["attackers"]]
    facts = {"title": "Title", "records": 300, "data": "people.csv", "audit": "not safe", "measured": measured}
    remark = decision.WORDS[lang]["by_secret"]
    text = decision.write(tmp_path / "d.html", lang, published, **facts).read_text("utf-8")
    assert (text.count(remark), text.count(decision.WORDS[lang]["relies_numbers"])) == (0, 1)
    facts["measured"] = [{**one, "bound": 7} for one in measured]
    text = decision.write(tmp_path / "d.html", lang, published, **facts).read_text("utf-8")
    assert (text.count(remark), text.count(decision.WORDS[lang]["relies_numbers"])) == (1, 0)
    assert remark in text.split(decision.WORDS[lang]["attackers"]["insider"])[1].split("</tr>")[0]
    wide = decision.WORDS[lang]["relies_wide"].format(bound=13)
    for proven, bound in ((0.2, 7), (0.2, 13), (0.0, 13)):
        facts["measured"] = [{**one, "proven": proven, "bound": bound} for one in measured]
        text = decision.write(tmp_path / "d.html", lang, published, **facts).read_text("utf-8")
        assert text.count(wide) == (bound == 13)
    facts["measured"] = measured
    other = finest.release(tmp_path / "out", "ilba", max_keys=1, ledger=False, accept_risk=True)
    assert remark not in decision.write(tmp_path / "d.html", lang, other, **facts).read_text("utf-8")


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_decision_page_names_the_command_for_an_insider_who_lacks_one_person(lang, published, tmp_path):
    one = {"attacker": "insider", "tables": (), "likely": None, "right": None, "groups": None, "people": None}
    facts = {"title": "Title", "records": 300, "data": "people.csv", "audit": "certified"}
    for proven in (0.0, 0.2, None):
        measured = [{**one, "proven": proven, "bound": None}]
        text = decision.write(tmp_path / "d.html", lang, published, **facts, measured=measured).read_text("utf-8")
        assert ("ilba risk --unknown 1" in text) is (proven is not None)


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_decision_page_tells_what_is_not_certified_from_what_is_proven(lang, published, tmp_path):
    says = {name: decision.WORDS[lang][name].format(below=4, relies="") for name in ("not safe", "open", "proves_none")}
    facts = {"title": "Title", "records": 300, "data": "people.csv", "audit": "not safe"}
    choice = {"mean_loss": 1.0, "p99_loss": 2, "max_loss": 3, "within": 0.5, "adds_up": True, "blank": 0.0}
    choice |= {"is_safe": False, "spec": "controlled", "totals": None}
    for provable, told in ((0.0, {"open", "proves_none"}), (0.0001, {"not safe"})):
        own = {**choice, "provable": provable, "method": published.manifest["method"]}
        text = decision.write(tmp_path / "d.html", lang, published, **facts, choices=[own]).read_text("utf-8")
        assert {name for name, sentence in says.items() if sentence in text} == told
        assert f"<b>{decision.WORDS[lang]['no']}</b>" in text


def test_the_decision_page_has_the_loss_of_totals_and_the_declared_unit(people, secret, tmp_path):
    local = ilba.build(people.head(300), ["town"], ["sex"], secret=secret, population="p", unit="local units")
    release = local.release(tmp_path / "out", ledger=False)
    choice = {"mean_loss": 1.0, "p99_loss": 2, "max_loss": 3, "within": 0.5, "adds_up": True, "blank": 0.0}
    choice |= {"is_safe": True, "spec": "controlled", "totals": 4.13, "provable": 0.0, "method": "controlled"}
    learnt = {"tables": (), "proven": 0.2, "likely": 0.3, "right": 0.99, "groups": 9, "people": 99, "bound": None}
    measured = [{**learnt, "attacker": attacker} for attacker in decision.WORDS["en"]["attackers"]]
    facts = {"title": "Title", "records": 300, "data": "p.csv", "audit": "certified", "measured": measured}
    for lang, cell in (("en", "(99 local units, counted"), ("ko", "(99 local units, 집단마다")):
        text = decision.write(tmp_path / "d.html", lang, release, **facts, choices=[choice]).read_text("utf-8")
        assert decision.WORDS[lang]["totals"] in text
        assert "4.13" in text
        assert cell in text
        assert decision.WORDS[lang]["head"][4].format(below=4) in text


def test_a_pdf_without_its_library_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    with pytest.raises(ilba.MissingExtra, match=r"pip install 'ilba\[pdf\]'"):
        pdf.write(tmp_path / "d.html")


def test_both_languages_have_the_same_words():
    assert decision.WORDS["en"].keys() == decision.WORDS["ko"].keys()
    assert decision.WORDS["en"]["attackers"].keys() == decision.WORDS["ko"]["attackers"].keys()
    assert decision.WORDS["en"]["methods"].keys() == decision.WORDS["ko"]["methods"].keys()


def test_every_word_of_the_templates_is_known_in_korean():
    for template in TEMPLATES.glob("*.html"):
        for text in re.findall(r'_\("((?:[^"\\]|\\.)*)"', template.read_text("utf-8")):
            plain = re.sub(r"%(\.\d)?[sdf]", "7", text)
            assert korean.said(plain, "ko") != plain or plain == "99%", (template.name, text)


def test_the_pages_are_korean_where_korean_is_asked_for(finest, audited, tmp_path):
    small = ["town", "town.sex"]
    written = [
        audited.to_html(tmp_path / "audit.html", "ko"),
        finest.risk(["proof", "outsider", "insider", "attribute"]).to_html(tmp_path / "risk.html", "ko"),
        compare(finest, small).to_html(tmp_path / "compare.html", "ko"),
        report(finest, tmp_path / "report.html", max_keys=1, lang="ko"),
    ]
    for path in written:
        text = path.read_text("utf-8")
        assert '<html lang="ko">' in text
        assert "<title>대외비: " in text
        body = re.sub(r"<(style|svg).*?</\1>", "", text, flags=re.DOTALL)
        read = Read(body).words
        assert re.findall(r"\b[a-z]+(?: [a-z]+){3,}", read) == [], path.name
    with pytest.raises(ilba.InputError, match="The languages are en and ko"):
        audited.to_html(tmp_path / "x.html", "fr")


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_decision_page_names_parameters_and_what_the_insider_relies_on(lang, published, tmp_path):
    says = decision.WORDS[lang]
    learnt = {"tables": (), "proven": 0.2, "likely": 0.3, "right": 0.99, "groups": 0, "people": 0}
    measured = [{**learnt, "attacker": one, "bound": 7 if one == "insider" else None} for one in says["attackers"]]
    choice = {"mean_loss": 1.0, "p99_loss": 2, "max_loss": 3, "within": 0.5, "adds_up": True, "blank": 0.0}
    choice |= {"totals": 4.13}
    choices = [
        {**choice, "method": "controlled", "spec": "controlled", "provable": 0.0, "is_safe": True},
        {**choice, "method": "ilba", "spec": "ilba", "provable": 0.0, "is_safe": False},
        {**choice, "method": "cell-key", "spec": "cell-key:D=5,V=3,js=2", "provable": 0.012, "is_safe": False},
    ]
    facts = {"title": "Title", "records": 300, "data": "people.csv", "audit": "certified"}
    path = decision.write(tmp_path / "d.html", lang, published, **facts, choices=choices, measured=measured)
    text = path.read_text("utf-8")
    own, ilba_, keys = (row.split("</tr>")[0] for row in text.split(says["choices"] + "</h2>")[1].split("<tr")[2:])
    assert "<td>0.0%</td><td>0.0%</td>" in own
    assert f"<td>{says['uncertified'].format(share='0.0%')}</td>" in ilba_
    assert f"<td>{says['uncertified'].format(share='1.2%')}</td>" in keys
    assert f">{says['methods']['ilba']}<" in ilba_
    assert f">{says['methods']['cell-key']} (cell-key:D=5,V=3,js=2)<" in keys
    relies = says["relies"].format(bound=7) + says["by_secret"]
    assert text.count(relies) == 1
    assert relies in text.split(says["attackers"]["insider"])[1].split("</tr>")[0]
