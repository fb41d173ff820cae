"""Every kind of frame and file gives the same finest table, masks included."""

from __future__ import annotations

import gzip
import json
import unicodedata
import warnings
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyreadstat
import pytest

import ilba
from ilba.cells.codes import canonical
from ilba.data.microdata import Microdata
from support.people import HKEY, KEY


def as_text(finest: ilba.FinestTable) -> list[tuple]:
    """Labels as text with both counts: what does not depend on how the file was read."""
    return sorted(tuple(map(str, row)) for row in finest.frame.rows())


def write_csv(people, tmp_path):
    people.write_csv(tmp_path / "p.csv")
    return tmp_path / "p.csv"


def write_csv_gz(people, tmp_path):
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(people.write_csv().encode()))
    return str(tmp_path / "p.csv.gz")


def write_tsv(people, tmp_path):
    people.write_csv(tmp_path / "p.tsv", separator="\t")
    return tmp_path / "p.tsv"


def write_bom(people, tmp_path):
    (tmp_path / "p.csv").write_bytes(b"\xef\xbb\xbf" + people.write_csv().encode())
    return tmp_path / "p.csv"


def write_parquet(people, tmp_path):
    people.write_parquet(tmp_path / "p.parquet")
    return tmp_path / "p.parquet"


def write_parts(people, tmp_path):
    for i in range(7):
        folder = tmp_path / "parts" / f"run{i % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        people.gather_every(7, i).write_parquet(folder / f"part-{i}.parquet")
    (tmp_path / "parts" / "_SUCCESS").touch()
    return tmp_path / "parts"


def write_glob(people, tmp_path):
    write_parts(people, tmp_path)
    return str(tmp_path / "parts" / "**" / "*.parquet")


def write_csv_glob(people, tmp_path):
    for i in range(3):
        people.gather_every(3, i).write_csv(tmp_path / f"p{i}.csv")
    return str(tmp_path / "p?.csv")


def write_arrow(people, tmp_path):
    people.write_ipc(tmp_path / "p.arrow")
    return tmp_path / "p.arrow"


def write_feather(people, tmp_path):
    pyarrow.feather.write_feather(people.to_arrow(), tmp_path / "p.feather")
    return tmp_path / "p.feather"


def write_sav(people, tmp_path):
    pyreadstat.write_sav(people.to_pandas(), str(tmp_path / "p.sav"))
    return tmp_path / "p.sav"


def write_dta(people, tmp_path):
    pyreadstat.write_dta(people.to_pandas(), str(tmp_path / "p.dta"))
    return tmp_path / "p.dta"


def write_xpt(people, tmp_path):
    pyreadstat.write_xport(people.to_pandas(), str(tmp_path / "p.xpt"), file_format_version=8)
    return tmp_path / "p.xpt"


def categories(people, _):
    return people.with_columns(pl.col("sex").cast(pl.Categorical), pl.col("job").cast(pl.Enum(people["job"].unique())))


def pandas_objects(people, _):
    frame = people.to_pandas().astype({"age": object, "sex": "category"})
    frame.loc[::2, "age"] = frame.loc[::2, "age"].astype(str)
    return frame


SOURCES = {
    "polars": lambda people, _: people,
    "polars lazy": lambda people, _: people.lazy(),
    "polars categories": categories,
    "polars floats": lambda people, _: people.with_columns(pl.col("age").cast(pl.Float64)),
    "polars small integers": lambda people, _: people.with_columns(pl.col("age").cast(pl.UInt8)),
    "pandas": lambda people, _: people.to_pandas(),
    "pandas floats": lambda people, _: people.to_pandas().astype({"age": float}),
    "pandas mixed objects": pandas_objects,
    "pyarrow": lambda people, _: people.to_arrow(),
    "pyarrow dictionary": lambda people, _: categories(people, _).to_arrow(),
    "csv": write_csv,
    "csv.gz": write_csv_gz,
    "tsv": write_tsv,
    "csv with a byte order mark": write_bom,
    "several csv": write_csv_glob,
    "parquet": write_parquet,
    "folder": write_parts,
    "glob": write_glob,
    "arrow": write_arrow,
    "feather": write_feather,
    "sav": write_sav,
    "dta": write_dta,
    "xpt": write_xpt,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_cells_and_masks(kind, people, finest, secret, tmp_path):
    read = ilba.build(SOURCES[kind](people, tmp_path), HKEY, KEY, secret=secret)
    assert as_text(read) == as_text(finest)


def test_a_duckdb_relation_is_counted_where_it_lives(people, finest, secret):
    connection = duckdb.connect()
    connection.register("people", people.to_arrow())
    assert as_text(ilba.build(connection.sql("from people"), HKEY, KEY, secret=secret)) == as_text(finest)
    assert as_text(ilba.build(connection.sql("from people"), HKEY, secret=secret)) == as_text(finest)


def test_csv_codes_keep_their_leading_zeros_and_a_schema_makes_numbers(people, secret, tmp_path):
    path = write_csv(people, tmp_path)
    text = ilba.build(path, HKEY, KEY, secret=secret)
    assert text.frame["town"][0] == "0101"
    assert text.frame["age"].dtype == pl.String
    for kind in ("int", int, pl.Int32):
        numbers = ilba.build(path, HKEY, KEY, secret=secret, schema={"age": kind})
        assert numbers.table(0, "age").frame["age"].to_list() == list(range(1, 13))


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"aeg": "int"}, "Did you mean 'age'"),
        ({"age": "integer"}, "Types are 'int' and 'text'"),
        ({"sex": "int"}, "do not match its schema"),
    ],
)
def test_a_wrong_schema_is_refused(people, tmp_path, schema, says):
    with pytest.raises(ilba.InputError, match=says):
        ilba.build(write_csv(people, tmp_path), HKEY, KEY, schema=schema)


def test_a_schema_for_a_file_with_types_is_refused(people, tmp_path):
    for data in (people, write_parquet(people, tmp_path)):
        with pytest.raises(ilba.InputError, match="schema is only for csv"):
            ilba.build(data, HKEY, KEY, schema={"age": "int"})


def test_missing_values_of_every_library_are_missing(secret):
    plain = {"t": ["a", "b", None, "a"], "x": [1.0, None, 2.0, float("nan")]}
    frames = [
        pl.DataFrame(plain),
        pd.DataFrame(plain),
        pd.DataFrame(plain, dtype=object),
        pd.DataFrame(plain).convert_dtypes(),
        pa.table(plain),
    ]
    for frame in frames:
        with pytest.warns(ilba.Notice, match=r"3 of 4 rows .* \(t 1, x 2\)"):
            assert ilba.build(frame, ["t"], secret=secret).frame.rows()[0][:3] == ("a", 1, 1) or frame is frames[2]
        kept = ilba.build(frame, ["t"], secret=secret, missing="category")
        assert kept.frame["N"].sum() == 4
        assert kept.table(0, "x").frame["x"].null_count() == 1


def test_labels_can_be_declared_missing(secret):
    frame = pl.DataFrame({"t": ["a", "a", "NA", "b"], "x": [1, 9, 1, 9]})
    with pytest.warns(ilba.Notice, match=r"3 of 4 rows .* \(t 1, x 2\)"):
        finest = ilba.build(frame, ["t"], secret=secret, missing_values=["NA", 9])
    assert finest.frame.rows()[0][:3] == ("a", 1, 1)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_spellings_of_missing_values_match_in_any_form_of_unicode_and_other_labels_stay(secret, form):
    forms = [unicodedata.normalize(one, "Không rõ") for one in ("NFC", "NFD")]
    kept = [unicodedata.normalize(one, "nữ") for one in ("NFC", "NFD")]
    frame = pl.DataFrame({"t": ["a"] * 4, "x": [*forms, *kept]})
    spelled = [unicodedata.normalize(form, "Không rõ")]
    for options in (
        {"missing_values": spelled},
        {"recipe": ilba.Recipe(missing=spelled)},
        {"recipe": {"x": {"missing": spelled}}},
    ):
        finest = ilba.build(frame, ["t"], secret=secret, missing="category", **options)
        assert set(finest.frame["x"]) == {None, *kept}


def test_dates_decimals_fractions_and_truth_values_have_labels(secret):
    import datetime
    import decimal

    frame = pl.DataFrame(
        {
            "day": [datetime.date(2020, 1, 2)] * 2,
            "when": [datetime.datetime(2020, 1, 2, 3, 4)] * 2,
            "share": [0.25, 1e30],
            "money": [decimal.Decimal("1.50"), decimal.Decimal("2.00")],
            "yes": [True, False],
            "huge": pl.Series([2**64 - 1, 1], dtype=pl.UInt64),
        }
    )
    labels = ilba.build(frame, ["day"], secret=secret).frame
    assert labels["day"][0] == "2020-01-02"
    assert labels["when"][0] == "2020-01-02T03:04:00"
    assert set(labels["yes"]) == {"true", "false"}
    assert set(labels["huge"]) == {"18446744073709551615", "1"}
    assert labels["share"].dtype == pl.String


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (1, 1),
        (1.0, 1),
        (np.int8(1), 1),
        ("1", "1"),
        (1.5, "1.5"),
        (True, "true"),
        (None, None),
        (pd.NA, None),
        (pd.NaT, None),
    ],
)
def test_a_value_has_one_label_whatever_its_type(value, label):
    assert canonical(value) == label


def test_columns_without_labels_are_refused(secret):
    frame = pl.DataFrame({"t": ["a"], "x": [[1, 2]]})
    with pytest.raises(ilba.InputError, match="'x' has the type List"):
        ilba.build(frame, ["t"], ["x"], secret=secret)


def test_without_keys_all_other_columns_with_few_categories_are_keys(secret):
    frame = pl.DataFrame({"t": ["a", "b"] * 150, "x": [1, 2, 3] * 100, "income": range(300)})
    with pytest.warns(ilba.Notice, match=r"more than 100 different values \(key_thr\): income"):
        finest = ilba.build(frame, ["t"], secret=secret)
    assert finest.design.keys == ("x",)
    assert ilba.build(frame, ["t"], ["income"], secret=secret).design.keys == ("income",)
    with pytest.warns(ilba.Notice, match="more than 2 different"):
        assert ilba.build(frame, ["t"], ["x"], key_thr=2, secret=secret).design.keys == ()
    with pytest.raises(ilba.InputError, match="key_thr=0"):
        ilba.build(frame, ["t"], ["x"], key_thr=0)


PEOPLE = pl.DataFrame({"region": ["01"], "town": ["0101"], "sex": ["f"]})


@pytest.mark.parametrize(
    ("data", "options", "says"),
    [
        (PEOPLE, {"hkey": ["regoin"]}, "hkey names 'regoin'.*Did you mean 'region'.*region, town, sex"),
        (PEOPLE, {"key": ["Sex"]}, "key names 'Sex'.*Did you mean 'sex'"),
        (PEOPLE, {"hkey": ["region", "sex"], "key": ["sex"]}, "sex is in hkey and in key"),
        (PEOPLE, {"hkey": []}, "hkey is empty"),
        (PEOPLE, {"hkey": {}}, "hkey is empty"),
        (PEOPLE, {"hkey": {"area": []}}, "hkey\\['area'\\] is empty"),
        (PEOPLE, {"hkey": {"a": ["region"], "b": ["region"]}}, "in two hierarchies"),
        (PEOPLE, {"hkey": ["region", "region"]}, "twice"),
        (PEOPLE, {"hkey": 5}, "not a list of column names"),
        (PEOPLE, {"hkey": ["region", "town"], "hkey_rank": [1]}, "1 ranks for 2 columns"),
        (PEOPLE, {"hkey": ["region", "town"], "hkey_rank": [1, 1]}, "same rank twice"),
        (PEOPLE, {"hkey": ["region", "town"], "hkey_rank": [1, "b"]}, "not a number"),
        (PEOPLE, {"hkey": {"a": ["region"]}, "hkey_rank": [1]}, "one hierarchy given as a list"),
        (PEOPLE, {"mask_thr": 2}, "mask_thr=2"),
        (PEOPLE, {"mask_thr": 5.5}, "mask_thr=5.5"),
        (PEOPLE, {"cells": "observd"}, "Did you mean 'observed'"),
        (PEOPLE, {"missing": "keep"}, "missing='keep'"),
        (PEOPLE.clear(), {}, "no rows"),
        (PEOPLE.with_columns(sex=None), {}, r"every row has a missing value .*\(sex 1\)"),
        (PEOPLE.with_columns(N=1), {}, "column called 'N'.*from_counts"),
        (PEOPLE.with_columns(N_masked=1), {}, "column called 'N_masked'"),
        (PEOPLE.with_columns(type1=1), {"key": ["type1"]}, "'type1' would collide"),
        ([1, 2], {}, "data is a builtins.list"),
        ({"region": ["01"]}, {}, "data is a builtins.dict"),
        (None, {}, "data is a builtins.NoneType"),
        ("no/such/file.csv", {}, "there is no file"),
        ("no/such/*.csv", {}, "no file matches"),
    ],
)
def test_bad_input_gets_an_error_that_names_the_fix(data, options, says, tmp_path):
    store = tmp_path / "full_tb.parquet"
    with pytest.raises(ilba.InputError, match=says):
        ilba.build(data, **({"hkey": ["region"], "key": ["sex"], "output_path": store} | options))
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_not_what_they_say_are_refused(tmp_path, people):
    (tmp_path / "p.parquet").write_bytes(b"PAR1 not really")
    (tmp_path / "p.csv").write_bytes("region,sex\n서울,f\n".encode("cp949"))
    (tmp_path / "late.csv").write_bytes(b"region,sex\n" + b"x,y\n" * 300_000 + "é,z\n".encode("cp1252"))
    (tmp_path / "two.csv").write_text("region|sex;age\na|b;c\n")
    (tmp_path / "broken.csv").write_bytes("region,sex\n서울,f\n".encode("utf-16") + b"\0")
    (tmp_path / "p.sav").write_bytes(b"$FL2 nonsense")
    (tmp_path / "p.docx").write_bytes(b"")
    (tmp_path / "p.rds").write_bytes(b"")
    (tmp_path / "p.xlsx").write_bytes(b"")
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "long.csv").write_text("region,sex\na,f\na,f,x\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "other").mkdir()
    people.head(10).write_parquet(tmp_path / "other" / "1.parquet")
    people.head(10).with_columns(pl.col("sex").hash()).write_parquet(tmp_path / "other" / "2.parquet")
    for name, says in {
        "p.parquet": "cannot be read",
        "p.csv": r"is not UTF-8\..*--encoding cp949.* iconv -f CP949 -t UTF-8 .*p\.csv > utf8\.csv",
        "late.csv": r"is not UTF-8\..* iconv -f CP1252",
        "two.csv": "has semicolons and bars. Say which it is: --separator",
        "broken.csv": "damaged further on",
        "p.sav": "could not be read as a sav file",
        "p.docx": "its ending is unknown",
        "p.rds": "not a file that R saved",
        "p.xlsx": "cannot be read as a workbook",
        "empty.csv": "is empty",
        "long.csv": r"Line 3 has 3 fields, the first line 2\.",
        "other": "has parts with different columns or types",
        "parts": "has no .parquet files",
        "pp.csv": "Did you mean 'p.csv'",
    }.items():
        with pytest.raises(ilba.InputError, match=says):
            ilba.build(tmp_path / name, ["region"], ["sex"])


def test_a_csv_with_semicolons_is_read_and_a_blank_line_is_no_record(tmp_path, people, secret):
    people.write_csv(tmp_path / "p.csv", separator=";")
    same = ilba.build(people.cast(pl.String), ["region"], ["sex", "age"], secret=secret)
    assert ilba.build(tmp_path / "p.csv", ["region"], ["sex", "age"], secret=secret).frame.equals(same.frame)
    (tmp_path / "blank.csv").write_text("t,s\na,f\n\nb,\n\n")
    finest = ilba.build(tmp_path / "blank.csv", ["t"], ["s"], missing="category", secret=secret)
    assert finest.frame.select("t", "s", "N").rows() == [("a", "f", 1), ("b", None, 1)]


@pytest.mark.long
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_csv_in_another_unicode_and_with_other_separators_is_read(
    people, finest, secret, tmp_path, encoding, separator
):
    text = people.write_csv(separator=separator)
    (tmp_path / "p.csv").write_bytes(text.encode(encoding))
    read = ilba.build(tmp_path / "p.csv", HKEY, KEY, secret=secret)
    assert as_text(read) == as_text(finest)
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(text.encode(encoding)))
    assert Microdata.open(tmp_path / "*.gz").columns == people.columns


def test_objects_that_are_equal_but_written_differently_are_labels_of_their_own(secret):
    frame = pd.DataFrame({"t": ["a"] * 36, "v": pd.Series([1, True, "x"] * 12, dtype=object)})
    tables = [ilba.build(one, ["t"], ["v"], secret=secret).frame for one in (frame, frame.iloc[::-1])]
    assert tables[0].equals(tables[1])
    assert tables[0].select("v", "N").rows() == [("1", 12), ("true", 12), ("x", 12)]
    prices = pd.Series([Decimal("1.5"), Decimal("1.50"), Decimal("2")], dtype=object)
    priced = ilba.build(pd.DataFrame({"t": ["a"] * 3, "v": prices}), ["t"], ["v"], secret=secret)
    assert priced.frame.select("v", "N").rows() == [("1.5", 2), ("2", 1)]


@pytest.mark.parametrize(
    "strange",
    [
        [["x"]] * 12,
        [{"a": 1}] * 12,
        [object() for _ in range(12)],
        [1 + 2j] * 12,
        pd.arrays.SparseArray([0] * 12),
        pd.cut(pd.Series(range(12)), 3),
    ],
    ids=["lists", "dicts", "objects", "complex", "sparse", "intervals"],
)
def test_a_column_without_labels_is_refused_as_a_key_and_ignored_elsewhere(secret, strange):
    frame = pd.DataFrame({"t": ["a"] * 12, "s": ["f", "m"] * 6}).assign(strange=strange)
    assert len(ilba.build(frame, ["t"], ["s"], secret=secret)) == 2
    with pytest.raises(ilba.InputError, match=r"the column 'strange' has the type .*, which cannot be a label"):
        ilba.build(frame, ["t"], ["strange"], secret=secret)


def test_a_relation_that_fails_is_told_without_its_values():
    connection = duckdb.connect()
    relation = connection.sql("select 'a' as t, cast(x as integer) as n from (values ('secret')) as v(x)")
    with pytest.raises(ilba.InputError, match=r"DuckDB fails \(ConversionException\)") as told:
        ilba.build(relation, ["t"], ["n"])
    assert "secret" not in str(told.value)
    assert told.value.__suppress_context__  # nor in what a log shows of how it came about


def test_a_name_in_the_index_and_two_columns_of_one_name_are_told():
    frame = pd.DataFrame({"t": ["a"] * 3, "s": ["f"] * 3})
    with pytest.raises(ilba.InputError, match=r"'t', which is in the index\. Give data\.reset_index\(\)"):
        ilba.build(frame.set_index("t"), ["t"], ["s"])
    with pytest.raises(ilba.InputError, match="two columns with the same name"):
        ilba.build(pd.concat([frame, frame], axis=1), ["t"], ["s"])


def test_a_series_of_counts_is_refused_with_how_to_make_a_frame_of_it():
    frame = pd.DataFrame({"t": ["a", "a", "b"], "s": ["f", "m", "f"]})
    counts = frame.groupby(["t", "s"]).size()
    for count in (ilba.FinestTable.from_counts, ilba.build):
        with pytest.raises(ilba.InputError, match=r"^data is a pandas\.Series.*reset_index\(name='N'\) to FinestTable"):
            count(counts, ["t"], ["s"])
    assert len(ilba.FinestTable.from_counts(counts.reset_index(name="N"), ["t"], ["s"])) == 3


def test_a_column_without_a_name_is_no_key_and_a_wrong_number_names_its_column(tmp_path, secret):
    (tmp_path / "p.csv").write_text(",t,age\n0,a,1\n1,a,x\n")
    assert ilba.build(tmp_path / "p.csv", ["t"], secret=secret).design.keys == ("age",)
    with pytest.raises(ilba.InputError, match="has values in the column 'age' that do not match") as told:
        ilba.build(tmp_path / "p.csv", ["t"], ["age"], schema={"age": "int"})
    assert "x" not in str(told.value).replace(str(tmp_path), "")


@pytest.mark.parametrize("name", ["f.csv", "f.xlsx", "f.rds", "f.csv.gz"])
def test_a_store_is_not_called_like_another_kind_of_file(tmp_path, finest, people, name):
    with pytest.raises(ilba.InputError, match="a store is a Parquet file"):
        finest.save(tmp_path / name)
    with pytest.raises(ilba.InputError, match="a store is a Parquet file"):
        ilba.build(people, ["region"], ["sex"], output_path=tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_read_before_it_is_counted(tmp_path, people):
    path = write_parquet(people, tmp_path)
    assert Microdata.open(path).columns == people.columns


def test_hkey_ranks_put_the_hierarchy_in_order(people, finest, secret):
    ranked = ilba.build(people, ["town", "region", "block"], KEY, hkey_rank=[2, 1, 3], secret=secret)
    assert ranked.frame.equals(finest.frame)


def test_a_folder_counts_each_data_file_once_and_no_unfinished_write(tmp_path, secret):
    def write(name, town):
        (tmp_path / "lake" / name).parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame({"town": [town] * 10}).write_parquet(tmp_path / "lake" / name)

    def counted(data):
        finest = ilba.build(data, ["town"], [], secret=secret)
        return dict(finest.frame.select("town", "N").iter_rows())

    write("_x=1/part.parquet", "kept")
    for place in ("_temporary/0/_x=2/part.parquet", "_x=1/.staging/part.parquet", "_x=1/_old.parquet", ".p.parquet"):
        write(place, "no data")
    assert counted(tmp_path / "lake") == {"kept": 10}
    write("_x=3/written.parquet/part.parquet", "once")  # a folder that is called like a file
    assert counted(tmp_path / "lake") == {"kept": 10, "once": 10}
    assert counted(tmp_path / "lake" / "_x=3" / "**" / "*.parquet") == {"once": 10}


def test_a_feather_file_of_the_first_version_is_told_with_what_to_write(tmp_path, secret):
    (tmp_path / "p.feather").write_bytes(b"FEA1" + bytes(100) + b"FEA1")
    with pytest.raises(ilba.InputError, match=r"p\.feather' is a feather file of version 1.*Write it as version 2"):
        ilba.build(tmp_path / "p.feather", ["town"], [], secret=secret)
    assert "feather file of version 1" in str(ilba.inspect(tmp_path / "p.feather"))


def test_damage_in_a_folder_names_the_damaged_file(tmp_path, people):
    for name in "abc":
        people.write_parquet(tmp_path / f"{name}.parquet", compression="uncompressed")
    whole = (tmp_path / "b.parquet").read_bytes()
    for broken in (b"", whole[:-9], whole[:4] + bytes(255 - one for one in whole[4:40]) + whole[40:]):
        (tmp_path / "b.parquet").write_bytes(broken)
        for data in (tmp_path, tmp_path / "*.parquet"):
            with pytest.raises(ilba.InputError, match=r"b\.parquet', a part of '.*', cannot be read: it is damaged"):
                ilba.build(data, HKEY, KEY)


def test_codes_in_the_names_of_folders_stay_text(people, finest, secret, tmp_path):
    night = tmp_path / "night=2026-11-15"  # itself a part of a larger table, of which it is not a column
    for (region,), part in people.group_by("region"):
        (night / f"region={region}").mkdir(parents=True)
        part.drop("region").write_parquet(night / f"region={region}" / "part.parquet")
    (night / "_SUCCESS").touch()
    assert as_text(ilba.build(night, HKEY, KEY, secret=secret)) == as_text(finest)
    assert "night" not in ilba.build(night, HKEY, secret=secret).design.keys
    assert ilba.build(tmp_path, HKEY, ["night"], secret=secret).frame["night"].unique().to_list() == ["2026-11-15"]


def test_the_store_cannot_take_the_place_of_the_data(people, tmp_path):
    source = write_csv(people, tmp_path)
    before = source.read_bytes()
    for data, out in ((source, source), (write_parts(people, tmp_path), tmp_path / "parts" / "full_tb.parquet")):
        with pytest.raises(ilba.InputError, match="where the data is"):
            ilba.build(data, HKEY, KEY, output_path=out)
    assert source.read_bytes() == before


def test_a_csv_of_counts_comes_back(finest, secret, tmp_path):
    finest.frame.write_csv(tmp_path / "counts.csv")
    back = ilba.FinestTable.from_counts(tmp_path / "counts.csv", HKEY, KEY)
    assert as_text(back) == as_text(finest)


def test_two_columns_of_one_name_are_refused(tmp_path):
    (tmp_path / "p.csv").write_text("t,x,y,x\na,1,2,3\n")
    with pytest.raises(ilba.InputError, match="two columns called 'x', number 2 and number 4"):
        ilba.build(tmp_path / "p.csv", ["t"])


def test_a_tsv_is_known_by_its_own_ending(people, finest, secret, tmp_path):
    folder = tmp_path / "my.tsv.folder"
    folder.mkdir()
    assert as_text(ilba.build(write_csv(people, folder), HKEY, KEY, secret=secret)) == as_text(finest)


def test_column_names_that_are_not_text_and_huge_floats_are_met(secret):
    with pytest.raises(ilba.InputError, match="called 0, which is not text"):
        ilba.build(pd.DataFrame({0: ["a"], "t": ["b"]}), ["t"])
    assert len(ilba.build(pl.DataFrame({"t": [1e300, 1.0]}), ["t"], secret=secret)) == 2


def test_a_label_that_only_stood_in_rows_left_out_is_not_in_the_code_list(secret):
    frame = pl.DataFrame({"t": ["a", "b", "c"], "x": [1, 2, None], "y": ["p", None, "q"]})
    with pytest.warns(ilba.Notice, match=r"2 of 3 rows"):
        finest = ilba.build(frame, ["t"], secret=secret, cells="grid")
    assert [listed.labels.to_series().to_list() for listed in finest.codes.lists] == [["a"], [1], ["p"]]


def test_a_notice_points_at_the_callers_line(people):
    with pytest.warns(ilba.Notice) as caught:
        ilba.build(people.with_columns(n=pl.int_range(pl.len())), HKEY)
    assert caught[0].filename == __file__


LABELS = pl.DataFrame(
    {
        "variable": ["region", "region", "town", "town", "town", "sex", "sex", "sex", "age", "age"],
        "code": ["01", "03", "0101", "0109", "0301", "f", "m", "x", "1", "99"],
        "label_en": ["North", "Far", "A", "B", "C", "Female", "Male", "Other", "young", "unknown"],
        "parent": [None, None, "01", "01", "03", None, None, None, None, None],
    }
)


def test_a_code_list_adds_codes_to_the_grid_and_changes_no_mask(people, secret, tmp_path):
    hkey, key = ["region", "town"], ["sex", "age"]
    plain = ilba.build(people, hkey, key, secret=secret, cells="grid")
    with pytest.raises(
        ilba.InputError, match=r"5 codes of 'town' in the data are not in the declared code list: 01 > "
    ):
        ilba.build(people, hkey, key, secret=secret, cells="grid", labels=LABELS)
    rest = [("region", "02", None), *(("town", f"{r:02}{t:02}", f"{r:02}") for r in (1, 2) for t in (1, 2, 3))]
    rest += [("age", str(age), None) for age in range(1, 13)]
    more = pl.DataFrame(rest, schema=["variable", "code", "parent"], orient="row")
    every = pl.concat([LABELS, more], how="diagonal").unique(["variable", "code"])
    listed = ilba.build(
        people, hkey, key, secret=secret, cells="grid", labels=every, output_path=tmp_path / "s.parquet"
    )
    assert listed.frame.equals(plain.frame)
    lists = [one.labels for one in listed.codes.lists]
    assert {("01", "0109"), ("03", "0301")} <= set(lists[0].rows())
    assert lists[1].to_series().to_list() == ["f", "m", "x"]
    assert lists[2].to_series().to_list() == [*range(1, 13), 99]
    assert listed.cell(2, "sex", ["03", "0301"], "x") == 0
    size = len(lists[0]) * 3 * 13
    assert listed.codes.finest.grid == size
    opened = ilba.open_store(tmp_path / "s.parquet")
    assert opened.labels.equals(listed.labels)
    assert opened.table(1, "sex").detail.equals(listed.table(1, "sex").detail)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read as csv or json"),
        ("[1, 2]", "is not a list of objects"),
        ("3", "is not a list of objects"),
        ("[null]", "is not a list of objects"),
        ("[" * 100_000, "cannot be read as csv or json"),
        ('[{"variable": "sex", "code": ["a"]}]', "lists or objects in the column 'code'"),
        ('[{"variable": "sex", "code": {"a": 1}}]', "lists or objects in the column 'code'"),
        ('{"variable": ["sex"], "code": ["m", "f"]}', "is not a table"),
        ('{"sex": {"m": "Male"}}', "no column 'variable'"),
        ("[]", "no column 'variable'"),
    ],
)
def test_an_odd_code_list_is_told_in_a_sentence(people, tmp_path, text, says):
    (tmp_path / "codes.json").write_text(text)
    with pytest.raises(ilba.InputError, match=says):
        ilba.build(people, HKEY, KEY, labels=tmp_path / "codes.json")


def test_a_code_list_in_json_or_in_another_csv_means_the_same(people, secret, tmp_path):
    rows = [("sex", "f", "Female"), ("sex", 1, "One"), ("age", 1.0, "Young")]
    as_json = [dict(zip(("variable", "code", "label_en"), row, strict=True)) for row in rows]
    (tmp_path / "a.json").write_text(json.dumps(as_json), "utf-8-sig")
    (tmp_path / "b.json").write_text(json.dumps({name: [row[name] for row in as_json] for name in as_json[0]}))
    text = "variable|code|label_en\nsex|f|Female\nsex|1|One\nage|1|Young\n"
    (tmp_path / "c.csv").write_bytes(text.encode("utf-16"))
    for name in ("a.json", "b.json", "c.csv"):
        built = ilba.build(people, HKEY, KEY, secret=secret, labels=tmp_path / name)
        assert built.labels.select("code", "label_en").rows() == [("f", "Female"), ("1", "One"), ("1", "Young")]
    with pytest.raises(ilba.InputError, match="is not a table"):
        ilba.build(people, HKEY, KEY, secret=secret, labels=3)


def test_weights_are_not_taken_for_counts_without_a_word(secret):
    weights = pl.DataFrame({"town": ["a", "a", "b"], "N": [12.5, 30.25, 8.0]})
    with pytest.raises(ilba.InputError, match=r"not a whole number\. .* weights are not"):
        ilba.FinestTable.from_counts(weights, ["town"], secret=secret)
    whole = weights.with_columns(pl.Series("N", [12, 30, 8]))
    with pytest.warns(ilba.Notice, match=r"3 rows are added up into 2 cells\. N has to be a number of people"):
        ilba.FinestTable.from_counts(whole, ["town"], secret=secret)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ilba.FinestTable.from_counts(whole.tail(2), ["town"], secret=secret)


def test_a_code_list_survives_rows_that_are_left_out(secret):
    frame = pl.DataFrame({"region": ["01", "02", "05"], "sex": ["f", None, "m"]})
    with pytest.warns(ilba.Notice, match="1 of 3 rows"):
        finest = ilba.build(frame, ["region"], secret=secret, labels=LABELS)
    assert finest.codes.lists[0].labels.to_series().to_list() == ["01", "03", "05"]
    assert finest.codes.lists[1].labels.to_series().to_list() == ["f", "m", "x"]
    assert sorted(finest.frame["N"].to_list()) == [1, 1]


def test_a_code_list_that_does_not_fit_the_data_is_refused(people):
    wrong = pl.DataFrame({"variable": ["age"], "code": ["old"]})
    with pytest.raises(ilba.InputError, match="not whole numbers for age"):
        ilba.build(people, HKEY, KEY, labels=wrong)


def test_a_release_carries_the_labels_of_its_store(people, secret, tmp_path):
    finest = ilba.build(people, ["region"], ["sex"], secret=secret, labels=LABELS)
    store = finest.save(tmp_path / "s.parquet")
    release = ilba.open_store(store).release(tmp_path / "out", secret=secret)
    assert "Female" in release.codes["label_en"].to_list()


@pytest.mark.skipif(
    tuple(map(int, pl.__version__.split(".")[:2])) < (2, 1),
    reason="this needs polars 2.1: pip install -U polars",
)
def test_the_labels_of_all_dimensions_are_found_in_one_reading(people, secret, tmp_path):
    file = write_csv(people, tmp_path)
    read = []

    def seen(part: pl.DataFrame) -> pl.DataFrame:
        read.append(part.height)
        return part

    records = pl.scan_csv(file, infer_schema=False).map_batches(seen, streamable=True)
    finest = ilba.build(records, HKEY, KEY, secret=secret)
    assert sum(read) == 2 * people.height  # once for the labels of four dimensions, once to count the cells
    assert as_text(finest) == as_text(ilba.build(file, HKEY, KEY, secret=secret))


@pytest.mark.parametrize(
    "codes", [[1, 2, 3], [-5, 0, 7, 8, 99], [*range(0, 200, 2)], [-(2**62), 0, 2**62], [-(2**63), 2**63 - 1]]
)
def test_whole_numbers_are_counted_whatever_their_gaps(codes, secret):
    ages = np.random.default_rng(1).choice(codes, 500)
    finest = ilba.build(pl.DataFrame({"town": "a", "age": ages}), ["town"], ["age"], secret=secret)
    values, counts = np.unique(ages, return_counts=True)
    assert finest.frame.select("age", "N").rows() == list(zip(values.tolist(), counts.tolist(), strict=True))
