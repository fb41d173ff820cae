"""The R package's own outputs, reproduced byte for byte."""

from __future__ import annotations

import re

import polars as pl
import pytest

import ilba

DESIGNS = {
    "kr_estab": (["CP_CD", "CDW_CD", "ZONE_CD"], 5),
    "nl_grid": (["g5km", "g1km", "g500m", "g100m"], 3),
    "us_acs": (["STATE", "PUMA"], 10),
}


def opened(shared, name, kind, tmp_path) -> ilba.FinestTable:
    hkey, K = DESIGNS[name]
    if kind == "rds":
        return ilba.read_rds(shared / "golden" / name / "full_tb.rds")
    finest = ilba.FinestTable.from_counts(shared / "golden" / name / "full_tb.parquet", hkey, mask_thr=K)
    if kind == "parquet":
        return finest
    return ilba.open_store(finest.save(tmp_path / "store.parquet"))


@pytest.mark.parametrize("kind", ["parquet", "rds", "store"])
@pytest.mark.parametrize("name", DESIGNS)
def test_every_table_and_loss_file_equals_the_r_packages(shared, tmp_path, name, kind):
    finest = opened(shared, name, kind, tmp_path)
    files = sorted((shared / "golden" / name).glob("agg_*.csv"))
    assert len(files) >= 4
    for file in files:
        level, keys = re.fullmatch(r"agg_L(\d)_(.*)", file.stem).groups()
        table = finest.table(int(level), keys.split("-"))
        table.write_csv(tmp_path / "agg.csv")
        table.write_loss(tmp_path / "loss.csv")
        assert (tmp_path / "agg.csv").read_bytes() == file.read_bytes(), file.name
        reference = file.with_name(file.name.replace("agg_", "loss_"))
        assert (tmp_path / "loss.csv").read_bytes() == reference.read_bytes(), reference.name


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
def test_r_counts_what_we_count(shared, name):
    hkey, K = DESIGNS[name]
    reference = ilba.read_rds(shared / "golden" / name / "full_tb.rds")
    finest = ilba.build(
        shared / "data" / f"{name}.parquet", hkey, reference.design.keys, K, secret=ilba.Secret(bytes(32))
    )
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
