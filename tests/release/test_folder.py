"""The files of a release, one step at a time."""

from __future__ import annotations

import polars as pl
import pyarrow.parquet as pq
import pytest

from ilba import Design
from ilba.release import folder
from ilba.tables.table import write_pieces


def test_a_table_has_groups_of_a_fixed_number_of_rows(tmp_path):
    file, rows = tmp_path / "town[1].parquet", 2**17 + 3
    table = pl.DataFrame({"town": pl.int_range(rows, eager=True).cast(pl.String).sort(), "N_masked": 7})
    write_pieces(iter([table]), file, **folder._PARQUET)
    folder._settle(file, Design.of(["town"], []).select("town"), {"town": pl.Int64})
    assert [one.name for one in tmp_path.iterdir()] == [file.name]
    with pq.ParquetFile(file) as settled:
        about = settled.metadata
        assert [about.row_group(place).num_rows for place in range(about.num_row_groups)] == [131_072, 3]
        assert about.row_group(0).column(0).compression == "ZSTD"
    assert pl.read_parquet(file, glob=False)["town"].equals(pl.int_range(rows, eager=True))


@pytest.mark.parametrize("columns", [("age",), ("sex", "age"), ("sex",), ("town",), ("town", "age")])
def test_a_table_in_other_types_is_sorted_anew_piece_by_piece(tmp_path, monkeypatch, columns):
    text = pl.DataFrame(
        {
            "town": ["10", "10", "10", "10", "10", "2", "2", "9", None],
            "sex": ["1", "1", "1", "12", "3", "1", "1", "1", "1"],
            "age": ["10", "100", "9", "1", "1", "11", "7", "8", "8"],
            "N_masked": range(5, 14),
        }
    )
    table = Design.of(["town"], ["sex", "age"]).select("town", ["sex", "age"])
    given = text.cast({"town": pl.Int64}) if "town" not in columns else text
    given = given.sort("town", "sex", "age")
    given.write_parquet(tmp_path / "t.parquet")
    others = dict.fromkeys(columns, pl.Int64)
    whole = given.cast(others).sort("town", "sex", "age")
    for size in (1, 2, 5, 100):
        monkeypatch.setattr(folder, "_PIECE", size)
        pieces = list(folder._sorted(tmp_path / "t.parquet", table, others))
        assert pl.concat(pieces).equals(whole)
        assert all(len(piece) for piece in pieces)
        assert (len(pieces) > 1) == ("town" not in columns and size < 9)
    given.head(0).write_parquet(tmp_path / "t.parquet")
    (empty,) = folder._sorted(tmp_path / "t.parquet", table, others)
    assert empty.equals(whole.head(0))
