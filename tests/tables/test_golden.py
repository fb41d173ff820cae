"""The R package's own outputs, reproduced byte for byte.

Those of our own census and of the American survey are part of the repository, so that a bare clone is compared with R.
Those of data under other licences are read from the shared folder.
"""

from __future__ import annotations

import re

import polars as pl
import pytest

import ilba
from support.places import GOLDEN, golden_bytes

DESIGNS = {
    "census30k": (["LA1", "LA2", "LA3", "OA"], 5),
    "kr_estab": (["CP_CD", "CDW_CD", "ZONE_CD"], 5),
    "nl_grid": (["g5km", "g1km", "g500m", "g100m"], 3),
    "us_acs": (["STATE", "PUMA"], 10),
}
HERE = {"census30k": 6, "us_acs": 4}
"""how many tables of R are in the repository"""


@pytest.fixture
def folder(request, name):
    """The folder with R's outputs on some data: in the repository, else in the shared folder."""
    return GOLDEN / name if name in HERE else request.getfixturevalue("shared") / "golden" / name


def opened(folder, kind, tmp_path) -> ilba.FinestTable:
    hkey, K = DESIGNS[folder.name]
    if kind == "rds":
        return ilba.read_rds(folder / "full_tb.rds")
    finest = ilba.FinestTable.from_counts(folder / "full_tb.parquet", hkey, mask_thr=K)
    if kind == "parquet":
        return finest
    return ilba.open_store(finest.save(tmp_path / "store.parquet"))


@pytest.mark.parametrize("kind", ["parquet", "rds", "store"])
@pytest.mark.parametrize("name", DESIGNS)
def test_every_table_and_loss_file_equals_the_r_packages(folder, tmp_path, name, kind):
    finest = opened(folder, kind, tmp_path)
    files = sorted({folder / file.name.removesuffix(".gz") for file in folder.glob("agg_*.csv*")})
    assert len(files) == HERE.get(name, 5)
    for file in files:
        level, keys = re.fullmatch(r"agg_L(\d)_(.*)", file.stem).groups()
        table = finest.table(int(level), keys.split("-"))
        table.write_csv(tmp_path / "agg.csv")
        table.write_loss(tmp_path / "loss.csv")
        assert (tmp_path / "agg.csv").read_bytes() == golden_bytes(file), file.name
        reference = file.with_name(file.name.replace("agg_", "loss_"))
        assert (tmp_path / "loss.csv").read_bytes() == golden_bytes(reference), reference.name


def test_the_outputs_of_r_in_the_repository_are_those_of_the_shared_folder(shared):
    files = [file for file in sorted(GOLDEN.rglob("*")) if file.is_file() and file.name != "README.md"]
    assert len(files) == 1 + sum(2 * tables + 2 for tables in HERE.values())
    for file in files:
        plain = file.with_name(file.name.removesuffix(".gz"))
        assert golden_bytes(plain) == (shared / "golden" / plain.relative_to(GOLDEN)).read_bytes(), file.name


def test_the_4000_rows_of_the_older_table_are_reproduced(shared):
    folder = shared / "golden" / "kr_estab_history"
    counts = pl.read_parquet(folder / "full_tb.parquet").rename({"N_masked_ref": "N_masked"})
    finest = ilba.FinestTable.from_counts(counts, hkey=["CDW_CD"])
    table = finest.table(1, ["RPRSNTV_SEXDSTN", "AGE_FACTOR", "ORG_FORM_CD"])
    reference = pl.read_csv(folder / "ilba_ref_aggtable_nonnested.csv", infer_schema=False)
    assert reference.height == 4000
    ours = table.frame.select(pl.all().cast(pl.String))
    assert ours.rows() == reference.drop("").rows()
    loss = pl.read_csv(folder / "ilba_ref_infoloss_nonnested.csv")
    assert table.loss.rows() == loss.drop("").rows()


def test_areas_that_do_not_nest_are_told_and_kept_apart_by_their_path(shared):
    counts = pl.read_parquet(shared / "golden" / "kr_estab_history" / "full_tb.parquet").drop("N_masked_ref")
    with pytest.warns(ilba.Notice, match="'CDW_CD' has .* under different parents"):
        finest = ilba.FinestTable.from_counts(
            counts, hkey=["CP_CD", "CDW_CD", "ZONE_CD"], secret=ilba.Secret(bytes(32))
        )
    assert len(finest.table("CDW_CD")) == counts.select("CP_CD", "CDW_CD").n_unique()


def test_reused_area_codes_are_areas_of_their_own(shared):
    data = pl.read_parquet(shared / "data" / "us_travel_reused_codes.parquet")
    with pytest.warns(ilba.Notice, match="'SUBREG_GRP' has 8 codes under different parents"):
        finest = ilba.build(data, ["SUBREGCluster", "SUBREG_GRP", "SUBREG"], ["PGender"], secret=ilba.Secret(bytes(32)))
    assert len(finest.table(2)) > data["SUBREG_GRP"].n_unique()


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
def test_r_counts_what_we_count(folder, name, request):
    hkey, K = DESIGNS[name]
    reference = ilba.read_rds(folder / "full_tb.rds")
    if name == "census30k":
        records = ilba.datasets.census(30_000, seed=411)
    else:
        records = request.getfixturevalue("shared") / "data" / f"{name}.parquet"
    finest = ilba.build(records, hkey, reference.design.keys, K, secret=ilba.Secret(bytes(32)))
    assert finest.frame.drop("N_masked").equals(reference.frame.drop("N_masked"))


def test_the_seeds_missing_rows_are_dropped_and_counted(shared):
    with pytest.warns(ilba.Notice, match=r"17 of 3,000 rows .* \(AGE_FACTOR 17\)"):
        ilba.build(
            shared / "data" / "kr_estab_sample_with_na.parquet",
            ["CP_CD", "CDW_CD", "ZONE_CD"],
            missing_values=["NA"],
            secret=ilba.Secret(bytes(32)),
        )


def test_two_hierarchies_of_a_survey(shared):
    finest = ilba.build(
        shared / "data" / "us_acs.parquet",
        {"area": ["STATE", "PUMA"], "industry": ["INDP_CAT", "INDP"]},
        ["SEX"],
        secret=ilba.Secret(bytes(32)),
    )
    table = finest.table({"area": 1, "industry": "INDP_CAT"}, "SEX")
    assert table.frame.columns == ["STATE", "INDP_CAT", "SEX", "N_masked", "type1", "type2"]
    for *labels, masked, _, _ in table.frame.sample(50, seed=1).rows():
        path = {"area": labels[:1], "industry": labels[1:2]}
        assert finest.cell({"area": 1, "industry": 1}, "SEX", path, labels[2]) == masked
