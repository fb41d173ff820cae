"""Things in a notebook: labels, pandas, and how they show themselves."""

from __future__ import annotations

import polars as pl
import pytest

import ilba

CODES = pl.DataFrame(
    {
        "variable": ["town", "town", "town", "sex", "sex", "year"],
        "code": ["01", "01", "02", None, "f", None],
        "label_en": ["One <North>", "One South", "Two", "Sex", "Female", "Year"],
        "label_ko": ["하나", None, None, "성별", "여자", None],
        "parent": ["N", "S", "N", None, None, None],
    }
)
PEOPLE = pl.DataFrame(
    {
        "region": ["N"] * 20 + ["S"] * 10,
        "town": ["01"] * 10 + ["02"] * 10 + ["01"] * 10,
        "sex": ["f", "m"] * 15,
        "year": [2020, 2021] * 15,
    }
)


@pytest.fixture(scope="module")
def finest():
    secret = ilba.Secret(bytes(32))
    with pytest.warns(ilba.Notice):
        return ilba.build(PEOPLE, ["region", "town"], ["sex", "year"], secret=secret, labels=CODES)


def test_a_table_shows_labels_instead_of_codes_in_either_language(finest):
    table = finest.table("town", ["sex"])
    labelled = table.labelled()
    assert labelled.columns == ["region", "town", "Sex", "N_masked", "type1", "type2"]
    assert labelled.select("region", "town", "Sex").rows() == [
        ("N", "One <North>", "Female"),
        ("N", "One <North>", "m"),
        ("N", "Two", "Female"),
        ("N", "Two", "m"),
        ("S", "One South", "Female"),
        ("S", "One South", "m"),
    ]
    assert table.labelled("ko").select("town", "성별").row(0) == ("하나", "여자")
    assert labelled["N_masked"].equals(table.frame["N_masked"])
    with pytest.raises(ilba.InputError, match="lang='de' is not known"):
        table.labelled("de")


def test_a_release_shows_labels_too(finest, tmp_path):
    with pytest.warns(ilba.Notice):
        release = finest.release(tmp_path / "out", ledger=False)
    assert release.labelled("town.sex")["town"].unique().sort().to_list() == ["One <North>", "One South", "Two"]
    html = release._repr_html_()
    assert "public" in html
    assert "confidential" not in html


def test_html_is_escaped_and_codes_are_no_numbers(finest):
    html = finest.table("town", ["year"])._repr_html_()
    assert "One &lt;North&gt;" in html
    assert ">2020<" in html
    assert "confidential" in html


def test_a_finest_table_shows_what_it_is_and_no_count(finest):
    html = finest._repr_html_()
    assert "region &gt; town" in html
    assert "sex, year" in html
    assert "N_masked" not in html


def test_a_table_becomes_a_frame_of_pandas(finest):
    assert finest.table("town").to_pandas()["N_masked"].tolist() == finest.table("town").frame["N_masked"].to_list()


@pytest.mark.slow
def test_audit_and_risk_are_asked_from_a_release_itself(finest, tmp_path):
    chosen = finest.controlled()
    release = chosen.release(tmp_path / "out", ledger=False)
    assert release.audit(explanations=0).published.tables
    row = release.risk("proof").row("proof")
    assert (row["small"], row["proven"]) == (None, 0)
    assert release.risk("proof", store=chosen).row("proof")["proven"] == 0


@pytest.mark.slow
def test_audit_risk_and_report_are_asked_from_the_table_itself(finest, tmp_path):
    assert finest.audit(tables=["town"]).cells_disclosed >= 0
    learnt = finest.risk(["proof", "attribute"], tables=["town", "town.sex"])
    assert learnt.rows["attacker"].to_list() == ["proof", "attribute"]
    assert "confidential" in learnt._repr_html_()
    finest.report(tmp_path / "r.html", max_keys=0)
    assert "CONFIDENTIAL" in (tmp_path / "r.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ("areas", "hkey"),
        ("by", "key"),
        ("threshold", "mask_thr"),
        ("K", "mask_thr"),
        ("seed", "secret"),
        ("sep", "read"),
    ],
)
def test_words_of_other_programs_are_answered_with_ours(given, ours):
    with pytest.raises(ilba.UnknownArgument, match=rf"no argument '{given}'\. Did you mean '{ours}'\?"):
        ilba.build(PEOPLE, ["town"], **{given: 1})
