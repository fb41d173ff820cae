"""The publication file: what is refused and what is said, and the schema that editors read."""

from __future__ import annotations

import json
import tomllib

import jsonschema
import pytest

import ilba
from ilba.publication import file
from ilba.publication.prepared import Prepared
from support.places import ROOT

LEAST = '[source]\nfile = "p.csv"\n[hierarchies]\narea = ["town"]\n'


def loaded(text, tmp_path):
    (tmp_path / "publication.toml").write_text(text, encoding="utf-8")
    return Prepared(tmp_path)


def wholly_read(text, tmp_path):
    prepared = loaded(text, tmp_path)
    return prepared.lists.labels, prepared.maps


def test_the_least_that_a_file_needs_is_a_source_and_a_hierarchy(tmp_path):
    prepared = loaded(LEAST, tmp_path)
    assert prepared.design.columns == ("town",)
    assert [table.name for table in prepared.wanted] == ["all", "town"]
    assert prepared.store == tmp_path / "confidential" / "publication.parquet"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('key = ["sex"]\n' + LEAST, "has the entry 'key', which is not known. Did you mean 'keys'"),
        (LEAST.replace("file", "fil"), r"source has the entry 'fil', which is not known. Did you mean 'file'"),
        (LEAST.replace("[source]", "[sorce]"), r"has no \[source\]. Did you mean 'sorce'"),
        (LEAST + "[recipe]\nage = {band = '0-4'}\n", "recipe.age has the entry 'band', which is not known"),
        (LEAST + "[recipe]\ntirm = true\n", r"recipe.tirm is not a table of steps. Did you mean 'trim'"),
        (LEAST + "[recipe]\ntrim = 3\n", "recipe.trim: expected bool"),
        (LEAST + "[codes]\ntwon = {file = 'x.csv'}\n", "codes.twon names no column .* Did you mean 'town'"),
        (
            LEAST + "[maps]\ntown = {fiel = 'x'}\n",
            "maps.town has the entry 'fiel', which is not known. Did you mean 'file'",
        ),
        (LEAST + "[maps]\nsex = {file = 'x'}\n", "maps.sex names no column"),
        (LEAST + "[labels]\nsexx = {en = 'Sex'}\n", "labels.sexx names no column"),
        ("mask_thr = 2\n" + LEAST, "mask_thr: expected int >= 3"),
        ('method = "magic"\n' + LEAST, "there is no method 'magic'"),
        ("move = 6\n" + LEAST, r"publication\.toml: move=6 is not a whole number from 0 to K=5"),
        ("bound = 3\n" + LEAST, r"publication\.toml: bound=3 is not a whole number from 4"),
        ("sweeps = 9\n" + LEAST, "sweeps: expected int >= 10"),
        ("noise = 1.5\n" + LEAST, "noise: expected float <= 1"),
        ('method = "ilba"\nmove = 1\nnoise = 0.4\n' + LEAST, "move, noise: only with method = 'controlled'"),
        ("format = 2\n" + LEAST, "format"),
        ("[source\n", "is not TOML"),
        ("keys = [sex]", r"is not TOML: .*\. Write texts in quotes\."),
        ('[source]\nfile = "C:\\data"', r"is not TOML: .*\. Write paths with / instead\."),
        (LEAST.replace('["town"]', '{column = "town", levels = ["region"]}'), "area needs either file or prefixes"),
        (
            LEAST.replace('["town"]', '{column = "t", levels = ["a"], prefixes = [1, 2]}'),
            "different number of prefixes and levels",
        ),
    ],
)
def test_what_is_unknown_or_misspelt_is_refused_with_the_nearest(text, says, tmp_path):
    with pytest.raises(ilba.InputError, match=says):
        wholly_read(text, tmp_path)


def test_where_there_is_no_file_it_says_how_to_get_one(tmp_path):
    (tmp_path / "publicaton.toml").write_text(LEAST)
    with pytest.raises(ilba.InputError, match=r"Did you mean 'publicaton\.toml'\? `ilba init FILE\.\.\.` writes one"):
        Prepared(tmp_path)


def test_the_published_schema_is_made_from_the_types():
    kept = ROOT / "src" / "ilba" / "publication" / file.SCHEMA
    assert kept.read_text("utf-8") == file.schema_text()


@pytest.mark.parametrize(
    ("text", "is_good"),
    [
        (LEAST, True),
        (LEAST + "[recipe]\nmissing = ['NA']\nage = {width = 5, top = 85}\n[maps]\ntown = {file = 'x'}\n", True),
        ("bound = 9\nsweeps = 20\nmove = 2\nnoise = 0.4\n" + LEAST, True),
        ("noise = 2\n" + LEAST, False),
        (LEAST + "[recipe]\nage = {band = 5}\n", False),
        (LEAST + "[recipe]\ntrim = 5\n", False),
        ('kes = ["sex"]\n' + LEAST, False),
    ],
)
def test_the_schema_takes_what_is_read_and_nothing_else(text, is_good):
    checker = jsonschema.Draft202012Validator(file.schema())
    assert checker.is_valid(tomllib.loads(text)) == is_good


def test_editors_are_told_where_the_schema_is_and_every_entry_says_what_it_is_or_has_a_name_that_does():
    schema = json.loads(file.schema_text())
    assert schema["$defs"]["ColumnRecipe"]["properties"]["bands"]["description"]
    assert schema["$defs"]["Recipe"]["additionalProperties"] == {"$ref": "#/$defs/ColumnRecipe"}


@pytest.mark.parametrize(
    ("heading", "entry"),
    [("codes", 'lists = ["codes.csv"]'), ("maps", 'secret = "s"'), ("source", "keys = []"), ("recipe", "mask_thr = 3")],
)
def test_an_entry_of_the_whole_file_below_a_heading_is_told_its_place(tmp_path, heading, entry):
    tables = {"source": 'file = "p.csv"\n', "hierarchies": 'area = ["town"]\n', heading: ""}
    tables |= {heading: {"source": 'file = "p.csv"\n'}.get(heading, "") + entry + "\n"}
    text = "".join(f"[{name}]\n{lines}" for name, lines in tables.items())
    (tmp_path / "publication.toml").write_text(text)
    name = entry.split()[0]
    says = f"publication.toml.{heading}.{name}: `{name}` stands at the top of the file, before the first"
    with pytest.raises(ilba.InputError, match=says):
        Prepared(tmp_path)
