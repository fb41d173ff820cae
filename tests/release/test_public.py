"""The rule: everything public is a function of the masked finest table and of what was declared.

Two truths with the same masked counts are published. Every byte of the folders, of every export and of every answer of
the service must be equal. And each leak that was ever found must be noticed when it is put back.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import tempfile
from pathlib import Path

import httpx
import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import ilba
from ilba import FinestTable, Release, Secret
from ilba.files import exchange
from ilba.methods.controlled.search import Chosen
from ilba.output.export import FORMATS, export
from ilba.release import folder as folder_module
from ilba.release import proving, writing
from ilba.release.ledger import Publication
from ilba.service.app import application
from ilba.tables.store import About
from support.people import HKEY, ILBA, KEY, population

pytestmark = pytest.mark.slow

ZEROS = Secret(bytes(32))
SPELLINGS = {
    "whole": lambda i: i,
    "text": lambda i: f"{i}",
    "padded": lambda i: f"{i:02}",
    "broken": lambda i: i + 0.5 if i == 3 else float(i),
    "word": lambda i: "가나다라마"[i % 5] + str(i),
    "date": lambda i: f"2026-01-{i + 1:02}",
}


@pytest.fixture
def _one_moment(monkeypatch):
    """The time of creation is declared: here it is always the same."""
    monkeypatch.setattr(writing, "_time", lambda: "2026-11-16T12:00:00+00:00")


def files_of(path: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every file of a folder with its bytes, its time and its mode."""
    found = {}
    for file in sorted(path.rglob("*")):
        told = file.stat()
        content = file.read_bytes() if file.is_file() else b""
        found[file.relative_to(path).as_posix()] = (content, int(told.st_mtime), stat.S_IMODE(told.st_mode))
    return found


def answers_of(path: Path) -> dict[str, tuple[int, bytes]]:
    """What the service answers to the questions that a client asks, wrong ones too."""

    async def ask() -> dict[str, tuple[int, bytes]]:
        app = application([str(path)])
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v2") as client:
            asked = ["/tables", "/config", "/navigation", "/releases", "/tables/nothing/data"]
            listed = (await client.get("/tables", params={"pageSize": 1000})).json()
            for table in listed["tables"][-3:]:
                asked += [f"/tables/{table['id']}/{what}" for what in ("metadata", "data", "defaultselection")]
            answers = [(url, await client.get(url)) for url in asked]
            return {url: (answer.status_code, answer.content) for url, answer in answers}

    return asyncio.run(ask())


def expanded(frame: pl.DataFrame, count: str) -> pl.DataFrame:
    """One record per person."""
    return frame.select(pl.exclude("N", "N_masked").repeat_by(count).explode()).drop_nulls(frame.columns[0])


@st.composite
def worlds(draw):
    """A design, records, and how they are to be published."""
    n_areas, depth = draw(st.integers(2, 6)), draw(st.integers(1, 3))
    keys = [f"k{i}" for i in range(draw(st.integers(0, 2)))]
    spelled = {name: SPELLINGS[draw(st.sampled_from(sorted(SPELLINGS)))] for name in ["area", "kind", *keys]}
    several = draw(st.booleans())
    columns = [f"a{i}" for i in range(depth)]
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, n_areas - 1), *(st.integers(0, 3) for _ in [*keys, "kind"]), st.integers(1, 9)),
            min_size=3,
            max_size=25,
        )
    )
    records: dict[str, list[object]] = {name: [] for name in [*columns, *(["kind"] if several else []), *keys]}
    missing = draw(st.booleans())
    for area, *values, times in rows:
        path = [spelled["area"](area // 2 ** (depth - 1 - level)) for level in range(depth)]
        path = [str(part) if level else part for level, part in enumerate(path)]
        for name, value in zip(columns, path, strict=True):
            records[name] += [value] * times
        for name, value in zip([*keys, "kind"], values, strict=True):
            if name in records:
                absent = missing and value == 3 and name in keys
                records[name] += [None if absent else spelled[name](value)] * times
    return {
        "records": pl.DataFrame(records, strict=False),
        "hkey": {"area": columns, "kind": ["kind"]} if several else columns,
        "key": keys,
        "K": draw(st.sampled_from([3, 5])),
        "cells": draw(st.sampled_from(["observed", "grid"])),
        "missing": "category" if missing else "drop",
        "options": {
            "rows": draw(st.sampled_from(["nonzero", "grid"])),
            "labels": draw(st.sampled_from([None, *columns, *keys])),
            "geometry": draw(st.booleans()),
            "max_keys": draw(st.sampled_from([None, 1])),
        },
    }


def published(finest: FinestTable, world, path: Path) -> Release:
    path.parent.mkdir()
    given = world["options"]
    codes = [str(SPELLINGS[kind](i)) for kind in ("whole", "word") for i in range(9)]
    labels = given["labels"] and pl.DataFrame({"variable": [given["labels"]] * len(codes), "code": codes})
    column = "a0"
    shapes = {column: {"type": "FeatureCollection", "features": [{"type": "Feature", "id": c} for c in codes]}}
    return finest.release(
        path,
        rows=given["rows"],
        max_keys=given["max_keys"],
        labels=labels,
        geometry=shapes if given["geometry"] else None,
        ledger=False,
    )


@pytest.mark.usefixtures("_one_moment")
@settings(
    max_examples=int(os.environ.get("ILBA_EXAMPLES", "3")),  # set it to some hundred to look harder
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(world=worlds(), other=st.randoms(use_true_random=False))
def test_truths_with_the_same_masked_counts_publish_the_same_bytes(world, other):
    K, design = world["K"], {"hkey": world["hkey"], "key": world["key"]}
    real = ilba.build(
        world["records"], **design, mask_thr=K, cells=world["cells"], missing=world["missing"], secret=ZEROS
    )
    chosen = real.controlled()
    masked = chosen.frame.filter(pl.col("N_masked") > 0)
    with tempfile.TemporaryDirectory() as home:
        first = published(chosen, world, Path(home) / "first" / "r")
        seen = [files_of(first.path)]
        exports = [exported(first)]
        answers = [answers_of(first.path)]
        truths = [same_masks(real, other)]
        if masked.height:
            # The masked counts as the truth, counted from records of their own: types and code lists come from these.
            people = expanded(masked, "N_masked")
            shown = ilba.build(people, **design, mask_thr=K, cells=world["cells"], missing="category", secret=ZEROS)
            truths.append(shown)
        for number, truth in enumerate(truths):
            release = published(truth, world, Path(home) / f"world{number}" / "r")
            seen.append(files_of(release.path))
            exports.append(exported(release))
            answers.append(answers_of(release.path))
    for files, written, answered in zip(seen[1:], exports[1:], answers[1:], strict=True):
        assert files.keys() == seen[0].keys()
        for name, content in files.items():
            assert content == seen[0][name], name
        assert written == exports[0]
        assert answered == answers[0]


def same_masks(real: FinestTable, random) -> FinestTable:
    """Another truth with the same masked counts: small counts drawn anew, some cells empty, each masked as before."""
    chosen = real.controlled()
    K = real.design.threshold
    rows = chosen.frame.to_dicts()
    for row in rows:
        if row["N_masked"] == K:
            row["N"] = random.randint(1, K)
        elif row["N_masked"] == 0:
            row["N"] = random.randint(0, K - 1)
    frame = pl.DataFrame(rows, schema=chosen.frame.schema)
    if not frame["N"].sum():
        frame = frame.with_columns(pl.lit(1).alias("N"))
    other = FinestTable.from_counts(
        frame,
        {h.name: list(h.columns) for h in real.design.hierarchies},
        list(real.design.keys),
        K,
        cells=real.design.cells,
        missing="category",
    )
    about = About(other.codes, chosen=Chosen(chosen.chosen.tables, None, True))
    return FinestTable.of_cells(about, other.cells)


def exported(release: Release) -> dict[str, bytes]:
    """Two tables in every format."""
    found = {}
    with tempfile.TemporaryDirectory() as home:
        for name in list(release.tables)[-2:]:
            for kind in FORMATS:
                try:
                    for file in export(release, name, kind, Path(home) / f"t.{kind}"):
                        found[f"{name} {kind} {file.name}"] = file.read_bytes()
                except ilba.InputError as problem:
                    found[f"{name} {kind}"] = str(problem).encode()
    return found


# --- each leak that was found is noticed when it is put back


@pytest.fixture
def hidden():
    """Counts in which one person alone has a label that no whole number spells, and one area is masked to 0."""
    counts = pl.DataFrame(
        {
            "town": ["1", "2", "10", "10"],
            "age": ["1", "2", "10", "3.5"],
            "N": [9, 8, 7, 1],
            "N_masked": [9, 8, 7, 0],
        }
    )
    finest = FinestTable.from_counts(counts, ["town"], ["age"])
    return FinestTable.of_cells(About(finest.codes, chosen=Chosen(("town.age",), None, True)), finest.cells)


def test_types_order_and_codes_follow_from_what_is_published(hidden, tmp_path):
    release = hidden.release(tmp_path / "r", ledger=False)
    assert release.table("town.age").schema == {"town": pl.Int64, "age": pl.Int64, "N_masked": pl.Int64}
    assert release.table("town.age")["town"].to_list() == [1, 2, 10]
    assert "3.5" not in release.codes["code"].to_list()
    assert hidden.table("town", "age").public().equals(release.table("town.age"))
    declared = pl.DataFrame({"variable": ["age"] * 5, "code": ["1", "2", "10", "3.5", "never"]})
    told = hidden.release(tmp_path / "told", labels=declared, ledger=False)
    assert told.table("town.age")["age"].to_list() == ["1", "2", "10"]
    assert told.table("all.age")["age"].to_list() == ["1", "10", "2"]
    assert told.manifest["origins"]["codes"] == {"town": "published", "age": "declared"}


def in_both_worlds(monkeypatch, name, changed):
    """Change a step for the folder that is published and for the one that proves it."""
    for module in (writing, proving):
        monkeypatch.setattr(module, name, changed)


def leak_codes(monkeypatch, finest):
    real = folder_module.fill

    def fill(folder, tables, declared):
        shown = real(folder, tables, declared)
        with (folder / "codes.csv").open("a") as file:
            file.write("".join(f"age,{code},,,\n" for code in leak_codes.source.codes.lists[1].labels["age"]))
        return shown

    def as_truth(self, kind, before=FinestTable.as_truth):
        leak_codes.source = self
        return before(self, kind)

    monkeypatch.setattr(FinestTable, "as_truth", as_truth)
    in_both_worlds(monkeypatch, "fill", fill)


def types_of_the_data(monkeypatch):
    real = proving.shown_rows

    def published(finest, declared, step):
        types = {c: d for one in finest.codes.lists for c, d in one.labels.schema.items()}
        monkeypatch.setattr(proving, "declared_type", lambda given, column, codes: types[column])
        return real(finest, declared, step)

    in_both_worlds(monkeypatch, "shown_rows", published)


def leak_types(monkeypatch, finest):
    types_of_the_data(monkeypatch)
    monkeypatch.setattr(folder_module, "_settle", lambda *_: None)


def leak_order(monkeypatch, finest):
    def settle(file, selection, kinds):
        table = pl.read_parquet(file).cast({column: kinds[column] for column in selection.columns})
        table.write_parquet(file)

    types_of_the_data(monkeypatch)
    monkeypatch.setattr(folder_module, "_settle", settle)


def leak_a_file(monkeypatch, finest):
    real = folder_module.fill

    def fill(folder, tables, declared):
        shown = real(folder, tables, declared)
        if folder.name != "again":
            (folder / "tables" / "extra.parquet").touch()
        return shown

    in_both_worlds(monkeypatch, "fill", fill)


def leak_rows(monkeypatch, finest):
    """The number of true cells in a table stands in the manifest."""
    real = folder_module._entry

    def entry(declared, selection, folder):
        return real(declared, selection, folder) | {"cells": leak_rows.cells}

    def rows(self, wanted, before=FinestTable.public_rows):
        leak_rows.cells = len(self)
        return before(self, wanted)

    def as_truth(self, kind, before=FinestTable.as_truth):
        truth = before(self, kind)
        truth.public_rows = lambda wanted: rows(self, wanted)
        return truth

    monkeypatch.setattr(folder_module, "_entry", entry)
    monkeypatch.setattr(FinestTable, "as_truth", as_truth)


@pytest.mark.parametrize("leak", [leak_codes, leak_types, leak_order, leak_a_file, leak_rows])
def test_a_release_that_depends_on_more_is_stopped_and_leaves_nothing(hidden, tmp_path, monkeypatch, leak):
    leak(monkeypatch, hidden)
    with pytest.raises(ilba.UnsafeRelease, match=r"depends on more than the masked counts and what was declared"):
        hidden.release(tmp_path / "r", ledger=False)
    assert list(tmp_path.iterdir()) == []


def test_ilba_is_made_again_from_its_published_tables(people, tmp_path, monkeypatch):
    finest = ilba.build(people.cast({"age": pl.String}), HKEY, KEY, secret=ZEROS)
    release = finest.release(tmp_path / "r", max_keys=1, **ILBA)
    assert release.table("all.age")["age"].to_list() == list(range(1, 13))
    monkeypatch.setattr(folder_module, "_settle", lambda *_: None)
    monkeypatch.setattr(folder_module, "declared_type", lambda given, column, codes: codes.dtype)
    finest = ilba.build(people, HKEY, KEY, secret=ZEROS)
    with pytest.raises(ilba.UnsafeRelease, match=r"'tables/all\.age\.parquet' depends on more"):
        finest.release(tmp_path / "s", tables=["all.age"], **ILBA)


# --- declared or not


def test_a_key_that_the_data_dropped_bars_a_release_until_the_keys_are_named(people, tmp_path):
    wide = people.with_columns(pl.int_range(pl.len()).alias("id"))
    finest = ilba.build(wide, HKEY, secret=ZEROS, output_path=tmp_path / "s.parquet")
    for one in (finest, ilba.open_store(tmp_path / "s.parquet")):
        assert one.origins.dropped == ("id",)
        for options in ({}, ILBA):
            with pytest.raises(ilba.UnsafeRelease, match="id was left out when the store was built"):
                one.release(tmp_path / "r", max_keys=1, **options)
        with pytest.raises(ilba.UnsafeRelease, match="id was left out"):
            one.publishable("region")
    few = ilba.build(people, HKEY, KEY, key_thr=5, secret=ZEROS)
    assert few.origins.dropped == ("age",)
    proposed = ilba.build(people, HKEY, secret=ZEROS)
    assert proposed.release(tmp_path / "r", max_keys=0).manifest["origins"]["keys"] == "proposed"
    named = ilba.build(wide, HKEY, KEY, secret=ZEROS)
    assert named.release(tmp_path / "n", max_keys=0).manifest["origins"]["keys"] == "declared"


def test_grid_squares_by_ilba_need_a_declared_list_and_then_the_code_list_proves_nothing(tmp_path, shared):
    data = pl.read_parquet(shared / "data" / "nl_grid.parquet")
    finest = ilba.build(data, ["g100m"], [], cells="grid", secret=ZEROS)
    with pytest.raises(ilba.InputError, match="needs a declared code list for g100m"):
        finest.release(tmp_path / "r", tables=["g100m"], **ILBA)
    squares = sorted({str(code) for code in data["g100m"]})
    numbers = [int("".join(filter(str.isdigit, code))) for code in squares]
    template = squares[0]
    empty = [f"{template}-empty-{number}" for number in range(len(numbers))]
    every = pl.DataFrame({"variable": ["g100m"] * (2 * len(squares)), "code": [*squares, *empty]})
    whole = ilba.build(data, ["g100m"], [], cells="grid", secret=ZEROS, labels=every)
    release = whole.release(tmp_path / "r", tables=["g100m"], **ILBA)
    shown = set(release.table("g100m")["g100m"])
    silent = set(release.codes["code"]) - shown
    assert set(empty) <= silent  # the squares without a count are the empty ones and the masked ones alike
    assert ilba.audit(release, store=whole).cells_disclosed == 0


def test_a_code_beside_the_declared_list_is_refused_at_build_in_the_grid_reading(people):
    some = pl.DataFrame({"variable": ["sex"], "code": ["f"]})
    with pytest.raises(ilba.InputError, match=r"1 code of 'sex' in the data are not in the declared code list: m\."):
        ilba.build(people, HKEY, KEY, cells="grid", secret=ZEROS, labels=some)
    ilba.build(people, HKEY, KEY, secret=ZEROS, labels=some)


# --- bounds


def test_no_bound_is_stated_unless_it_is_asked_for_and_holds_in_every_table(people, tmp_path):
    finest = ilba.build(people, HKEY, KEY, secret=ZEROS)
    assert "bound" not in finest.release(tmp_path / "a", bound=9, max_keys=1).manifest
    few = ilba.build(people, HKEY, KEY, secret=ZEROS).controlled(tables=["all"], bound=6)
    assert few.chosen.held
    with pytest.raises(ilba.UnsafeRelease, match="the bound 6 does not hold in every table"):
        few.release(tmp_path / "b", stated_bound=6, ledger=tmp_path / "few.ledger")
    with pytest.raises(ilba.UnsafeRelease, match="an earlier requested bound did not hold"):
        few.release(tmp_path / "b", stated_bound=3000, ledger=tmp_path / "few.ledger")
    assert "bound" not in few.release(tmp_path / "b", ledger=tmp_path / "few.ledger").manifest
    other = ilba.build(people, HKEY, KEY, secret=ZEROS)
    stated = other.release(tmp_path / "c", stated_bound=20, ledger=tmp_path / "c.ledger")
    assert stated.manifest["bound"] == 20
    losses = [table.detail["loss"].abs().max() for table in other.controlled(bound=20).cube()]
    assert max(losses) <= 20


def test_a_bound_that_did_not_hold_is_remembered_and_later_waves_state_none(people, tmp_path):
    store = ilba.build(people, HKEY, KEY, secret=ZEROS).save(tmp_path / "s.parquet")
    opened = ilba.open_store(store)
    with pytest.raises(ilba.UnsafeRelease, match="does not hold"):
        opened.release(tmp_path / "r", stated_bound=4, plan=["all"], secret=ZEROS)
    with pytest.raises(ilba.UnsafeRelease, match="did not hold"):
        ilba.open_store(store).release(tmp_path / "r", stated_bound=400, secret=ZEROS)
    assert not (tmp_path / "r").exists()
    kept = {"secret": ZEROS, "ledger": tmp_path / "w.ledger"}
    wave = ilba.build(people, HKEY, KEY, secret=ZEROS).save(tmp_path / "w.parquet")
    ilba.open_store(wave).release(tmp_path / "w", max_keys=1, **kept)
    ilba.build(people.head(2900), HKEY, KEY, secret=ZEROS).save(wave)
    with pytest.raises(ilba.UnsafeRelease, match="an earlier wave of this population was published"):
        ilba.open_store(wave).release(tmp_path / "w", max_keys=1, stated_bound=400, **kept)


def test_masks_whose_choice_was_interrupted_are_not_published(finest, tmp_path):
    def interrupted(step):
        if step.stage == "choosing masks":
            raise KeyboardInterrupt

    with pytest.raises(ilba.UnsafeRelease, match="the choice of masks was interrupted"):
        finest.release(tmp_path / "r", progress=interrupted)
    assert list(tmp_path.iterdir()) == []
    assert finest.release(tmp_path / "r", max_keys=1).additive


# --- what was published before


def entered() -> Publication:
    """The last publication in the ledger of this test."""
    return ilba.Ledger(os.environ["ILBA_LEDGER"]).publications[-1]


def test_masks_are_chosen_once_and_every_later_release_shows_the_same(people, tmp_path):
    store = ilba.build(people, HKEY, KEY, secret=ZEROS).save(tmp_path / "s.parquet")
    first = ilba.open_store(store).release(tmp_path / "a", tables=["block.sex.age.job", "all"], secret=ZEROS)
    second = ilba.open_store(store).release(tmp_path / "b", secret=ZEROS)
    name = "tables/block.sex.age.job.parquet"
    assert (first.path / name).read_bytes() == (second.path / name).read_bytes()
    kept = ilba.open_store(store).published(secret=ZEROS)
    assert kept.table(3, KEY).public().equals(second.table("block.sex.age.job"))
    assert stat.S_IMODE((tmp_path / "s.published.json").stat().st_mode) == 0o600
    assert not (tmp_path / "s.masks.parquet").exists()


@pytest.mark.parametrize("saved", [True, False])
def test_the_same_data_is_not_published_in_two_ways(people, tmp_path, saved):
    def table(**options):
        finest = ilba.build(people, HKEY, KEY, secret=ZEROS, **options)
        return ilba.open_store(finest.save(tmp_path / "s.parquet")) if saved else finest

    kept = {"max_keys": 1, "secret": ZEROS}
    finest = table()
    finest.release(tmp_path / "a", **kept)
    moved = ilba.open_store(finest.save(tmp_path / "moved.parquet"))
    fewer = ilba.build(people.head(2999), HKEY, KEY, secret=ZEROS)
    for again in (finest, moved, fewer):
        with pytest.raises(ilba.Conflict, match="was published with method='controlled', K=5"):
            again.release(tmp_path / "b", **kept, **ILBA)
    with pytest.raises(ilba.Conflict, match="K=5"):
        table(mask_thr=3).release(tmp_path / "b", **kept)
    more = moved.release(tmp_path / "c", max_keys=2, secret=ZEROS)
    assert more.table("block.sex").equals(Release(tmp_path / "a").table("block.sex"))
    assert not (tmp_path / "b").exists()


def test_the_target_folder_remembers_the_method_and_k(people, tmp_path):
    ilba.build(people, HKEY, KEY, secret=ZEROS).release(tmp_path / "r", max_keys=1, ledger=False)
    before = files_of(tmp_path / "r")
    for K, options in ((5, ILBA), (3, {})):
        again = ilba.build(people, HKEY, KEY, K, secret=ZEROS)
        with pytest.raises(ilba.UnsafeRelease, match="shows the same columns by another method, K or reading"):
            again.release(tmp_path / "r", max_keys=1, ledger=False, **options)
    other = ilba.build(people, HKEY, KEY, secret=ilba.Secret(bytes(range(32))))
    with pytest.raises(ilba.UnsafeRelease, match="shows other tables of the same data with other masks"):
        other.release(tmp_path / "r", max_keys=3, ledger=False)
    assert files_of(tmp_path / "r") == before
    ilba.build(people, HKEY, KEY[:2], secret=ZEROS).release(tmp_path / "r", max_keys=1, ledger=False)


def test_masks_that_came_with_the_data_are_not_chosen_anew_silently(tmp_path, recwarn):
    counts = pl.DataFrame({"town": ["a", "b", "c"], "N": [9, 1, 3], "N_masked": [9, 0, 5]})
    with pytest.raises(ilba.InputError, match=r"came with its counts, .* \(--method ilba\).* \(--secret "):
        FinestTable.from_counts(counts, ["town"]).release(tmp_path / "r")
    kept = FinestTable.from_counts(counts, ["town"]).release(tmp_path / "r", secret=ZEROS, **ILBA)
    assert kept.table("town")["N_masked"].to_list() == [9, 5]
    assert not recwarn.list
    with pytest.warns(ilba.Notice, match="new ones are chosen now"):
        FinestTable.from_counts(counts, ["town"]).release(
            tmp_path / "s", method="controlled", secret=ZEROS, ledger=tmp_path / "s.ledger"
        )


def test_damaged_memory_is_told_and_nothing_is_published(people, tmp_path):
    store = ilba.build(people, HKEY, KEY, secret=ZEROS).save(tmp_path / "s.parquet")
    for said in ("{", "[]", "{}", '{"publications": [{}], "bounds_not_held": []}'):
        (tmp_path / "s.published.json").write_text(said)
        with pytest.raises(ilba.StoreError, match="records the state of the ledger when"):
            ilba.open_store(store).release(tmp_path / "r", max_keys=0, secret=ZEROS)
    assert not (tmp_path / "r").exists()


def test_the_masks_of_a_release_that_was_stopped_at_the_last_moment_are_kept(people, tmp_path, monkeypatch):
    finest, real = ilba.build(people, HKEY, KEY, secret=ZEROS), exchange

    def stopped(made, target):
        if target == tmp_path / "r":
            raise KeyboardInterrupt
        real(made, target)

    with monkeypatch.context() as patch:
        patch.setattr("ilba.files.exchange", stopped)
        with pytest.raises(KeyboardInterrupt):
            finest.release(tmp_path / "r", max_keys=1)
    assert not (tmp_path / "r").exists()
    ledger = ilba.Ledger(os.environ["ILBA_LEDGER"])
    assert ledger.publications == ()
    assert [entry["kind"] for entry in ledger.entries].count("masks") == 1
    finest.release(tmp_path / "r", max_keys=1)
    assert entered().method == "controlled"


# --- iLBA


def test_ilba_is_published_if_the_audit_finds_it_safe_and_else_with_the_risk_accepted_alone(people, tmp_path):
    finest = ilba.build(people, HKEY, KEY, secret=ZEROS)
    with pytest.raises(ilba.UnsafeRelease, match=r"does not find these tables safe.*--accept-risk"):
        finest.release(tmp_path / "r", "ilba", audit=tmp_path / "audit.html")
    assert "Not safe" in (tmp_path / "audit.html").read_text()
    assert not (tmp_path / "r").exists()
    finest.release(tmp_path / "r", "ilba", accept_risk=True)
    assert entered().audit == "not safe"
    large = population(3000).with_columns(pl.lit("x").alias("job"), pl.lit(1).alias("age"))
    safe = ilba.build(
        large.with_columns(pl.col("region").alias("block"), pl.col("region").alias("town")), HKEY, KEY, secret=ZEROS
    )
    safe.declared_as(ilba.Population("others"))
    safe.release(tmp_path / "safe", "ilba", require_safe=True, ledger=tmp_path / "safe.ledger")
    assert ilba.Ledger(tmp_path / "safe.ledger").publications[0].audit == "safe"


def test_tables_published_one_after_the_other_are_audited_together(tmp_path):
    """Neither table proves anything by itself; both do."""
    people = population(3000)
    finest = ilba.build(people, HKEY, KEY, secret=ZEROS)
    names = [table.name for table in finest.cube(max_keys=1).selections]
    alone = [name for name in names if ilba.audit(finest, tables=[name], explanations=0).safe]
    assert alone
    published = []
    for name in alone:
        together = ilba.audit(finest, tables=[*published, name], explanations=0).safe
        if together:
            finest.release(tmp_path / "r", "ilba", tables=[name])
            published.append(name)
        else:
            with pytest.raises(ilba.UnsafeRelease, match=r"together with those published before.*with accept_risk"):
                finest.release(tmp_path / "r", "ilba", tables=[name])
            return
    assert len(published) == len(alone)


def test_what_is_too_large_for_the_audit_is_refused_as_not_audited(people, tmp_path, monkeypatch):
    monkeypatch.setattr("ilba.attack.audit.BUDGET", 100)
    finest = ilba.build(people, HKEY, KEY, secret=ZEROS)
    with pytest.raises(ilba.UnsafeRelease, match="are not audited: they have"):
        finest.release(tmp_path / "r", "ilba")
    finest.release(tmp_path / "r", "ilba", accept_risk=True)
    assert entered().audit == "not audited"


def test_a_table_by_itself_says_that_it_was_not_audited(finest, tmp_path, recwarn):
    finest.controlled().table("town").write_csv(tmp_path / "sums.csv", public=True)
    assert not recwarn.list
    with pytest.warns(ilba.Notice, match="masked by iLBA and was not audited"):
        finest.table("town").write_csv(tmp_path / "t.csv", public=True)


# --- the audit of a folder


def test_the_audit_of_a_folder_names_what_its_codes_types_and_bounds_tell(finest, tmp_path):
    release = finest.release(tmp_path / "r", max_keys=1)
    report = ilba.audit(release)
    assert report.folder == ()
    assert report.safe
    assert "Codes, types and maps of the folder tell nothing more" in report.verdict
    manifest = release.manifest | {"format": 1, "bound": 7}
    del manifest["origins"]
    codes = (release.path / "codes.csv").read_bytes() + b"sex,rare,rare,,\n"
    (release.path / "codes.csv").write_bytes(codes)
    manifest["codes"]["sha256"] = hashlib.sha256(codes).hexdigest()
    (release.path / "release.json").write_text(json.dumps(manifest))
    old = Release(release.path)
    told = ilba.audit(old)
    assert not told.safe
    assert told.verdict.startswith("Not safe: no count gives anybody away, but the folder")
    assert any("1 code of 'sex' stand in the code list but in no published count" in line for line in told.folder)
    assert any("a bound is stated" in line for line in told.folder)
    assert told.to_dict()["folder"] == list(told.folder)
    assert all(line in str(told) for line in told.folder)
