"""The manifest of a release: checked against its types and its own checksum, and nothing outside the folder is read."""

from __future__ import annotations

import copy
import json
import random
import shutil

import jsonschema
import polars as pl
import pytest

import ilba
from ilba.output.export import export
from ilba.release import MANIFEST, Release, manifest
from support.people import ILBA
from support.places import FORMATS, ROOT

SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
MAP = {"type": "FeatureCollection", "features": [{"type": "Feature", "id": "01", "properties": {}, "geometry": SQUARE}]}


@pytest.fixture(scope="module")
def made(finest, tmp_path_factory):
    return finest.release(tmp_path_factory.mktemp("m") / "out", max_keys=1, geometry={"region": MAP}, **ILBA).path


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "out")


def told(folder):
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))


def written(folder, changed):
    """Write a manifest whose checksum fits."""
    (folder / MANIFEST).write_text(manifest.dump(changed), encoding="utf-8")


def test_the_published_schema_is_the_one_that_the_reader_checks():
    file = ROOT / "src" / "ilba" / "release" / "manifest.schema.json"
    assert json.loads(file.read_text(encoding="utf-8")) == manifest.schema()


@pytest.mark.long
def test_manifests_of_every_version_fit_the_schema_and_wrong_ones_do_not(folder):
    schema = jsonschema.Draft202012Validator(manifest.schema())
    for file in [*FORMATS.glob("v*/release-*/release.json"), folder / MANIFEST]:
        schema.validate(json.loads(file.read_text(encoding="utf-8")))
    good = told(folder)
    for wrong in ({"threshold": 2}, {"tables": {}}, {"created": 7}, {"codes": {"file": "../x", "sha256": "0" * 64}}):
        with pytest.raises(jsonschema.ValidationError):
            schema.validate(good | wrong)
        with pytest.raises(ValueError, match="at `"):
            manifest.load(manifest.dump(good | wrong))


def test_a_manifest_with_a_changed_bit_is_refused_or_says_the_same(folder):
    content = (folder / MANIFEST).read_bytes()
    good = manifest.load(content)
    rng = random.Random(3)
    for bit in rng.sample(range(8 * len(content)), 1500):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found = manifest.load(bytes(damaged))
        except ValueError:
            continue
        assert found == good


def test_fields_that_are_not_known_are_kept(folder):
    written(folder, told(folder) | {"readers": "all", "waves": [{"wave": 1}]})
    release = Release(folder)
    assert (release.manifest["readers"], release.manifest["waves"]) == ("all", [{"wave": 1}])
    release.verify()


def test_a_manifest_without_its_checksum_is_refused_from_format_2_on(folder):
    good = told(folder)
    del good["checksum"]
    (folder / MANIFEST).write_text(json.dumps(good), encoding="utf-8")
    with pytest.raises(ilba.StoreError, match="its checksum does not fit"):
        Release(folder)
    (folder / MANIFEST).write_text(json.dumps(good | {"format": 1}), encoding="utf-8")
    Release(folder).verify()


def test_no_name_and_no_file_leads_out_of_the_folder(folder, tmp_path):
    outside = shutil.copy(folder / "tables" / "town.parquet", tmp_path / "secret.parquet")
    shutil.copy(folder / "geometry" / "region.geojson", tmp_path / "secret.geojson")
    good = told(folder)
    for place in ("../../secret", "/" + str(tmp_path / "secret"), "..\\..\\secret", "a/../../../secret"):
        changes = [copy.deepcopy(good) for _ in range(3)]
        changes[0]["tables"][0]["name"] = place
        changes[1]["tables"][0]["file"] = f"{place}.parquet"
        changes[2]["geometry"][0]["file"] = f"{place}.geojson"
        for changed in changes:
            written(folder, changed)
            with pytest.raises(ilba.StoreError, match="damaged"):
                Release(folder)
    assert outside.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["tables"][0].update(levels={"area": 9}),
        lambda m: m["tables"][0].update(levels={}),
        lambda m: m["tables"][0].update(levels={"other": 1}),
        lambda m: m["tables"][1].update(keys=["town"]),
        lambda m: m["tables"][1].update(columns=["sex", "sex"]),
        lambda m: m["tables"].append(m["tables"][0]),
        lambda m: m["geometry"].append(m["geometry"][0]),
        lambda m: m["geometry"][0].update(column="sex"),
        lambda m: m.update(additive=True),
        lambda m: m.update(method="controlled"),
        lambda m: m.update(method="cell-key", additive=True),
        lambda m: m.update(method="another", additive=True, blanks=True),
        lambda m: m.update(method="another", additive=True, absent=None),
        lambda m: m["tables"][1].update(name="other"),
        lambda m: m["tables"][1].update(file="tables/other.parquet"),
        lambda m: m.update(keys=["region"]),
        lambda m: m.update(hierarchies=m["hierarchies"] * 2),
        lambda m: m.update(threshold=True),
        lambda m: m.update(title="\ud800"),
        lambda m: m.update(deep=float("nan")),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(folder, change):
    changed = told(folder)
    change(changed)
    text = json.dumps(changed | {"checksum": manifest._checksum({k: v for k, v in changed.items() if k != "checksum"})})
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    with pytest.raises(ilba.StoreError, match="damaged"):
        Release(folder)


def test_other_methods_may_add_up_or_leave_blanks(folder):
    for change in ({"additive": True}, {"additive": False, "blanks": True}, {"additive": False, "absent": None}):
        written(folder, told(folder) | {"method": "another"} | change)
        assert Release(folder).manifest["additive"] is change["additive"]


def test_the_checksum_does_not_depend_on_the_order_of_fields(folder):
    (folder / MANIFEST).write_text(json.dumps(dict(reversed(told(folder).items()))), encoding="utf-8")
    Release(folder).verify()


def test_numbers_that_json_does_not_know_are_refused_also_without_a_checksum(folder):
    plain = {name: value for name, value in told(folder).items() if name != "checksum"} | {"format": 1}
    manifest.load(json.dumps(plain))
    for word, number in (("NaN", float("nan")), ("Infinity", float("inf"))):
        with pytest.raises(ValueError, match=f"{word} is not JSON"):
            manifest.load(json.dumps(plain | {"more": number}))


def test_a_manifest_of_a_newer_format_is_known_by_its_number(folder):
    good = told(folder)
    with pytest.raises(manifest.NewerFormat, match="format 3"):
        manifest.load(json.dumps(good | {"format": 3}))
    for wrong in (True, "3", 3.5, None):
        with pytest.raises(ValueError, match="at `"):
            manifest.load(json.dumps(good | {"format": wrong}))


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, '{"format": 1e999}', '{"format": true}', "1" * 9999]
)
def test_text_that_is_hard_to_read_is_a_sentence(tmp_path, text):
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(ilba.StoreError, match="damaged"):
        Release(tmp_path)


def test_everything_that_reads_a_release_checks_what_it_reads(folder, finest, tmp_path):
    """One changed bit, that polars would read as another count or label without a word."""
    release = Release(folder)
    ways = {
        "tables/town.sex.parquet": [
            lambda one: one.table("town.sex"),
            lambda one: one.code_lists(),
            lambda one: export(one, "town.sex", "csv", tmp_path / "t.csv"),
            lambda one: ilba.audit(one),
            lambda one: ilba.audit(one, store=finest),
        ],
        "codes.csv": [
            lambda one: one.codes,
            lambda one: one.code_lists(),
            lambda one: export(one, "town.sex", "json-stat", tmp_path / "t.json"),
            lambda one: ilba.audit(one),
        ],
        "geometry/region.geojson": [lambda one: one.geometry("region")],
    }
    for file, reads in ways.items():
        content = bytearray((folder / file).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / file).write_bytes(content)
        for read in reads:
            with pytest.raises(ilba.StoreError, match=rf"'{file}' of the release .* is missing or was changed"):
                read(Release(folder))
        content[len(content) // 2] ^= 1
        (folder / file).write_bytes(content)
    release.verify()
    assert not list(tmp_path.glob("t.*"))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda f: f.rename({"N_masked": "N"}),
        lambda f: f.rename({"sex": "job"}),
        lambda f: f.head(1),
        lambda f: f.with_columns(pl.col("N_masked").cast(pl.String)),
        lambda f: f.with_columns(pl.lit(None, pl.Int64).alias("N_masked")),
    ],
)
def test_a_table_that_is_not_what_its_entry_says_is_refused(folder, spoil):
    file = folder / "tables" / "town.sex.parquet"
    spoil(pl.read_parquet(file)).write_parquet(file)
    changed = told(folder)
    entry = next(table for table in changed["tables"] if table["name"] == "town.sex")
    entry["sha256"] = manifest.hashlib.sha256(file.read_bytes()).hexdigest()
    written(folder, changed)
    with pytest.raises(ilba.StoreError, match="was changed"):
        Release(folder).table("town.sex")


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["nonzero", "grid"])
def test_a_path_with_brackets_is_a_path(finest, tmp_path, rows):
    home = tmp_path / "wave[1] *?"
    home.mkdir()
    release = finest.release(home / "out", max_keys=1, rows=rows)
    release.verify()
    assert release.table("town.sex").height
    release.code_lists()
    export(release, "town.sex", "json-stat", home / "t.json")
    store = finest.save(home / "s[1].parquet")
    assert ilba.open_store(store).frame.equals(finest.frame)
    finest.save(store)
    finest.cube(max_keys=0).write(home / "cube[1]")
    finest.cube(max_keys=0).write(home / "cube[1]")
