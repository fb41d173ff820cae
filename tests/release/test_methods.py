"""Publishing by any method: what a method says of itself is all that release, ledger, exports and service use."""

import json
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import methods
from ilba.export import export
from support.commands import run
from support.serving import serving

SECRET = ilba.Secret(bytes(range(32)))
TABLES = ["town.sex", "town", "all"]


@dataclass(frozen=True)
class Binned(methods.Method):
    """Counts are published as the lower end of a bin."""

    name = "binned"
    about = "counts become the lower end of a bin"
    strong = "simple"
    weak = "biased"
    width: int = 10

    def publish(self, cells):
        return [methods.Shown(np.maximum(table.count // self.width * self.width, 1)) for table in cells.tables]

    def preimage(self, value, size):
        return value, np.where(value == 0, 0, np.where(value == 1, self.width - 1, value + self.width - 1))


@dataclass(frozen=True)
class Dithered(methods.Method):
    """Counts are moved by 0 or 1, by a draw."""

    name = "dithered"
    about = "counts are moved by 0 or 1"
    strong = "simple"
    weak = "small"

    def publish(self, cells):
        return [methods.Shown(table.count + (cells.draws(table, "move") & 1)) for table in cells.tables]

    def preimage(self, value, size):
        return np.maximum(value - 1, 0), value


def codes():
    rows = [("town", f"t{n}") for n in range(8)] + [("sex", "f"), ("sex", "m"), ("sex", "x")]
    return pl.DataFrame(rows, schema=["variable", "code"], orient="row")


def store(seed=1, secret=SECRET, wave="1"):
    rng = np.random.default_rng(seed)
    people = pl.DataFrame({"town": [f"t{n}" for n in rng.integers(0, 7, 200)], "sex": rng.choice(["f", "m"], 200)})
    some = pl.DataFrame({"town": ["t6", "t5"], "sex": ["x", "x"]})
    return ilba.build(
        pl.concat([people, some, some]),
        ["town"],
        ["sex"],
        secret=secret,
        labels=codes(),
        population="people",
        wave=wave,
    )


def test_a_method_of_ones_own_is_audited_and_published(tmp_path):
    finest = store()
    with pytest.raises(ilba.UnsafeRelease, match="the audit does not find these tables safe"):
        finest.release(tmp_path / "r", Binned(), TABLES, ledger=False)
    release = finest.release(tmp_path / "r", Binned(), TABLES, ledger=False, accept_risk=True)
    release.verify()
    assert release.manifest["method"] == "binned"
    assert release.manifest["parameters"] == {"width": 10}
    assert release.manifest["additive"] is False
    assert (release.table("town")["N_masked"] % 10).max() == 0
    report = ilba.audit(release, method=Binned(), store=finest)
    assert report.cells_small == 2
    with pytest.raises(ilba.InputError, match="not one of ours"):
        ilba.audit(release)


def test_a_method_that_does_not_say_what_it_does_is_refused():
    @dataclass(frozen=True)
    class Blanking(Binned):
        name = "blanking"

        def publish(self, cells):
            return [methods.Shown(table.count, table.count < 5) for table in cells.tables]

    with pytest.raises(ilba.InputError, match="leaves counts blank and does not say so"):
        ilba.compare(store(), methods=[Blanking()])


def test_draws_are_those_of_the_secret_labels_and_count():
    finest = store()
    first = finest.with_method(Dithered()).table("town", "sex").detail
    again = store().with_method(Dithered()).table("town", "sex").detail
    assert first.equals(again)
    other = store(secret=ilba.Secret(bytes(32))).with_method(Dithered()).table("town", "sex").detail
    assert not first.equals(other)
    one = finest.with_method(Dithered())
    row = first.row(3, named=True)
    assert one.cell("town", "sex", [row["town"]], row["sex"]) == row["N_masked"]
    without = store().frame.filter(pl.col("town") != "t0").drop("N_masked")
    fewer = ilba.FinestTable.from_counts(without, ["town"], secret=SECRET).with_method(Dithered())
    kept = first.filter(pl.col("town") != "t0")["N_masked"]
    assert fewer.table("town", "sex").detail["N_masked"].to_list() == kept.to_list()


@pytest.mark.long
@pytest.mark.parametrize("method", ["rounding:3", "small-count-rounding:5", "suppression", Binned(), "cell-key"])
def test_every_method_publishes_a_folder_that_its_store_gives_again(method, tmp_path):
    finest = store()
    release = finest.release(tmp_path / "r", method, TABLES, ledger=False, accept_risk=True)
    release.verify()
    ilba.audit(release, method=method, store=finest)
    grid = finest.release(tmp_path / "g", method, TABLES, ledger=False, accept_risk=True, rows="grid")
    assert grid.table("town.sex").height == 8 * 3
    shown = release.table("town.sex").filter(pl.col("N_masked").is_null() | (pl.col("N_masked") > 0))
    there = grid.table("town.sex").filter(pl.col("N_masked").is_null() | (pl.col("N_masked") > 0))
    assert shown.equals(there)


@pytest.fixture(autouse=True)
def one_ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("ILBA_LEDGER", str(tmp_path / "a.ledger"))


def agency(tmp_path, seed=1, wave="1"):
    secret = tmp_path / "a.secret"
    if not secret.exists():
        SECRET.to_file(secret)
    return store(seed, secret, wave)


def test_what_a_joint_method_published_binds_the_next_list_of_tables(tmp_path):
    finest = agency(tmp_path)
    finest.release(tmp_path / "a", "suppression", TABLES, accept_risk=True)
    finest.release(tmp_path / "b", "suppression", TABLES[::-1], accept_risk=True)
    with pytest.raises(ilba.Conflict, match="depends on the others"):
        finest.release(tmp_path / "c", "suppression", ["town"], accept_risk=True)
    with pytest.raises(ilba.Conflict, match="was published with method='suppression'"):
        finest.release(tmp_path / "c", "rounding:5", ["town"], accept_risk=True)
    with pytest.raises(ilba.InputError, match="depends on the other tables"):
        finest.with_method("suppression").table("town")


def test_after_two_lists_of_tables_of_a_joint_method_neither_is_published_without_a_conflict(tmp_path):
    finest = agency(tmp_path)
    finest.release(tmp_path / "a", "suppression", ["all.sex"], accept_risk=True)
    with pytest.raises(ilba.Conflict, match="depends on the others") as refused:
        finest.release(tmp_path / "b", "suppression", ["town"], accept_risk=True)
    finest.release(tmp_path / "b", "suppression", ["town"], accept_risk=True, accept_conflict=refused.value.id)
    for tables in (["all.sex"], ["town"]):
        with pytest.raises(ilba.Conflict, match="depends on the others"):
            finest.release(tmp_path / "c", "suppression", tables, accept_risk=True)


JOINT = ["small-count-rounding:5", "suppression", "rounding:base=5,kind=controlled,seconds=5"]


@pytest.mark.slow
@pytest.mark.parametrize("method", JOINT)
@pytest.mark.parametrize("wave", ["2", "1"])
def test_a_later_wave_or_a_correction_by_a_joint_method_is_a_conflict_each_time(method, wave, tmp_path):
    tables = ["town.sex", "all.sex"]
    agency(tmp_path).release(tmp_path / "a", method, tables, accept_risk=True)
    later = agency(tmp_path, 2, wave)
    says = r"which chooses all (numbers|blanks) together, so unchanged counts can get other .* Accept it each time"
    with pytest.raises(ilba.Conflict, match=says) as refused:
        later.release(tmp_path / "b", method, tables, accept_risk=True)
    assert not (tmp_path / "b").exists()
    later.release(tmp_path / "b", method, tables, accept_risk=True, accept_conflict=refused.value.id)
    later.release(tmp_path / "c", method, tables, accept_risk=True, title="The same numbers again")
    agency(tmp_path).release(tmp_path / "d", method, tables, accept_risk=True)
    with pytest.raises(ilba.Conflict, match=says):
        agency(tmp_path, 3, "3").release(tmp_path / "e", method, tables, accept_risk=True)


def test_equal_counts_of_another_wave_are_a_conflict_only_if_their_numbers_differ(tmp_path):
    agency(tmp_path).release(tmp_path / "a", "suppression", TABLES, accept_risk=True)
    agency(tmp_path, wave="2").release(tmp_path / "b", "suppression", TABLES, accept_risk=True)


def test_equal_counts_of_another_wave_get_other_numbers_by_small_count_rounding(tmp_path):
    agency(tmp_path).release(tmp_path / "a", "small-count-rounding:5", TABLES, accept_risk=True)
    with pytest.raises(ilba.Conflict, match=r"by small-count-rounding \(wave '1'\), which chooses all"):
        agency(tmp_path, wave="2").release(tmp_path / "b", "small-count-rounding:5", TABLES, accept_risk=True)


def test_a_method_that_draws_for_each_cell_after_a_joint_one_is_a_conflict_only_once(tmp_path):
    agency(tmp_path).release(tmp_path / "a", "small-count-rounding:5", TABLES, accept_risk=True)
    advice = r"A further wave by small-count-rounding has a conflict, too\. .* only once: accept it"
    with pytest.raises(ilba.Conflict, match=advice) as refused:
        agency(tmp_path, 2, "2").release(tmp_path / "b", "rounding:5", TABLES, accept_risk=True)
    told = {"accept_risk": True, "accept_conflict": refused.value.id}
    agency(tmp_path, 2, "2").release(tmp_path / "b", "rounding:5", TABLES, **told)
    agency(tmp_path, 3, "3").release(tmp_path / "c", "rounding:5", TABLES, accept_risk=True)


@pytest.mark.parametrize("method", ["rounding:5", "cell-key:D=2,V=1", "suppression:kind=primary"])
def test_later_waves_by_a_method_that_draws_for_each_cell_are_no_conflict(method, tmp_path):
    agency(tmp_path).release(tmp_path / "a", method, TABLES, accept_risk=True)
    agency(tmp_path, 2, "2").release(tmp_path / "b", method, TABLES, accept_risk=True)
    agency(tmp_path, 3, "2").release(tmp_path / "c", method, TABLES, accept_risk=True)


def test_a_method_without_masks_leaves_none_in_the_ledger(tmp_path):
    agency(tmp_path).release(tmp_path / "a", "rounding:5", TABLES, accept_risk=True)
    ledger = ilba.Ledger(tmp_path / "a.ledger")
    assert not any(entry["kind"] == "masks" for entry in ledger.entries)
    assert [one.has_masks for one in ledger.publications] == [False]
    with pytest.raises(ilba.InputError, match="never published"):
        agency(tmp_path).published()
    agency(tmp_path).release(tmp_path / "b", "rounding:5", ["town"], accept_risk=True)  # each table by itself


@pytest.mark.slow
def test_noise_is_published_within_a_budget_that_the_ledger_adds_up(tmp_path):
    finest = agency(tmp_path)
    with pytest.raises(ilba.InputError, match="Declare it once"):
        finest.release(tmp_path / "a", "noise:1", TABLES)
    first = finest.release(tmp_path / "a", "noise:1", TABLES, budget=2.5)
    again = finest.release(tmp_path / "b", "noise:1", TABLES)
    assert first.table("town.sex").equals(again.table("town.sex"))
    ledger = ilba.Ledger(tmp_path / "a.ledger")
    assert (ledger.budgets, ledger.spent) == ({"people": 2.5}, {"people": 1.0})
    finest.release(tmp_path / "c", "noise:1", ["town"])
    with pytest.raises(ilba.UnsafeRelease, match=r"2 of 2.5 is spent.*at most 0.5"):
        finest.release(tmp_path / "d", "noise:1", ["all"])
    later = agency(tmp_path, wave="2").release(tmp_path / "e", "noise:0.5", TABLES)
    assert not first.table("town").equals(later.table("town"))
    with pytest.raises(ilba.UnsafeRelease, match=r"was declared as 2\.5"):
        finest.release(tmp_path / "f", "noise:1", TABLES, budget=9)
    with pytest.raises(ilba.InputError, match="never called safe"):
        finest.release(tmp_path / "f", "noise:1", TABLES, require_safe=True)
    shown = run("ledger", "show", "a.ledger", cwd=tmp_path).stdout
    assert "people: epsilon 2.5 of 2.5 is spent" in shown
    assert max(map(len, shown.splitlines())) <= 80
    report = ilba.audit(first, store=finest)
    assert not report.safe
    assert "never called safe" in report.verdict


def test_noise_fills_the_declared_grid_and_needs_it(tmp_path):
    finest = store()
    release = finest.release(tmp_path / "a", "noise:0.5", ["town.sex"], ledger=False)
    empty = release.table("town.sex").filter((pl.col("sex") == "x") & ~pl.col("town").is_in(["t5", "t6"]))
    assert empty.height  # nobody is there
    people = pl.DataFrame({"town": ["a"] * 6, "sex": ["f", "m"] * 3})
    with pytest.raises(ilba.InputError, match="noise needs a declared code list"):
        ilba.build(people, ["town"], secret=SECRET).release(tmp_path / "b", "noise:1", ledger=False)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_published_noise_has_the_distribution_that_it_names(kind):
    from ilba.methods.exact import ByteStream

    spread = methods.Noise(1.5, kind=kind).distribution(2)
    drawn = spread.exact(ByteStream(b"key"), 40_000)
    for value in (0, 1, -1, 3):
        chance = float(spread.p(value))
        assert abs((drawn == value).mean() - chance) < 5 * (chance * (1 - chance) / len(drawn)) ** 0.5
    assert drawn[:100].tolist() == spread.exact(ByteStream(b"key"), 40_000)[:100].tolist()


@pytest.fixture(params=["suppression:kind=primary", "cell-key:D=2,V=1,threshold=5"])
def with_blanks(request, tmp_path):
    return store().release(tmp_path / "blank", request.param, TABLES, ledger=False, accept_risk=True)


def test_exports_say_which_counts_were_not_published(with_blanks, tmp_path):
    stat, *_ = export(with_blanks, "town.sex", "json-stat", tmp_path / "t.json")
    told = json.loads(stat.read_text())
    blank = [place for place, value in enumerate(told["value"]) if value is None]
    assert blank
    assert told["status"] == {str(place): "c" for place in blank}
    assert all(isinstance(value, int) for value in told["value"] if value is not None)
    assert any("was not published" in note for note in told["note"])
    px, *_ = export(with_blanks, "town.sex", "px", tmp_path / "t.px")
    assert px.read_text().partition("DATA=")[2].count('".."') == len(blank)
    sdmx, _ = export(with_blanks, "town.sex", "sdmx-csv", tmp_path / "t.csv")
    rows = pl.read_csv(sdmx)
    assert rows.filter(pl.col("OBS_VALUE").is_null())["OBS_STATUS"].to_list() == ["Q"] * len(blank)
    xml, _ = export(with_blanks, "town.sex", "sdmx-ml", tmp_path / "t.xml")
    assert xml.read_text().count('value="Q"') == len(blank)
    for format in ("csv", "xlsx", "parquet"):
        export(with_blanks, "town.sex", format, tmp_path / f"t2.{format}")


@pytest.mark.slow
def test_the_service_says_which_counts_were_not_published(with_blanks):
    with serving(with_blanks.path) as server, server.client() as client:
        data = client.get("/tables/town.sex/data").json()
        assert None in data["value"]
        place = data["value"].index(None)
        sizes = [list(one["category"]["index"]) for one in data["dimension"].values()]
        town, sex = sizes[0][place // len(sizes[1])], sizes[1][place % len(sizes[1])]
        answer = client.get("/cell", params={"level": "town", "key": "sex", "hkey_value": town, "key_value": sex})
        assert answer.json()["N_masked"] is None
