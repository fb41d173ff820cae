"""Whatever an older version wrote is opened, audited, exported and served with the same numbers, for ever.

`tests/data/formats/make.py` wrote the files, once for each version of the formats.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import ilba
from ilba.release import Release
from support.numbers import numbers_of_cube, numbers_of_release, numbers_of_store
from support.places import FORMATS, VERSIONS
from support.serving import serving


@pytest.fixture(params=VERSIONS)
def kept(request, tmp_path) -> Path:
    """A copy of what one version wrote."""
    home = tmp_path / request.param
    shutil.copytree(FORMATS / request.param, home)
    return home


def expected(kept: Path) -> dict[str, dict[str, object]]:
    return json.loads((kept / "expected.json").read_text(encoding="utf-8"))


def plain(found: object) -> object:
    return json.loads(json.dumps(found))


def same(found: object, numbers: dict, name: str) -> None:
    """The same numbers; what nobody can prove may be certified more often than by the version that wrote them."""
    ours, theirs = plain(found), json.loads(json.dumps(numbers))
    certified, before = (one["audit"].pop("cells_certified") for one in (ours, theirs))
    undecided, _ = (one["audit"].pop("cells_undecided") for one in (ours, theirs))
    assert ours == theirs, name
    if before is None:
        assert (certified, undecided) == (None, None), name
        return
    assert certified >= before, name
    assert undecided == ours["audit"]["cells_small"] - ours["audit"]["cells_disclosed"] - certified, name


def test_there_are_files_of_every_version_so_far():
    assert "v1" in VERSIONS


@pytest.mark.long
def test_stores_of_every_version_open_with_their_numbers(kept):
    for name, numbers in expected(kept)["stores"].items():
        same(numbers_of_store(kept / name), numbers, name)


@pytest.mark.long
def test_releases_of_every_version_are_read_audited_and_exported_with_their_numbers(kept):
    for name, numbers in expected(kept)["releases"].items():
        same(numbers_of_release(kept / name), numbers, name)


def test_the_audit_names_what_the_folders_of_format_1_tell():
    told = ilba.audit(Release(FORMATS / "v1" / "release-controlled"))
    assert told.certificate
    assert not told.safe
    assert "a bound is stated that was not checked for every table." in told.folder
    for name in ("release-controlled", "release-ilba", "release-labelled"):
        assert ilba.audit(Release(FORMATS / "v2" / name)).folder == (), name


def test_the_secret_of_every_version_draws_the_same_masks(kept):
    secret = ilba.Secret.from_file(kept / "agency.key")
    assert secret == ilba.Secret(bytes(32))
    finest = ilba.open_store(kept / "ilba-observed.parquet")
    again = finest.with_threshold(5, secret)
    assert again.frame.equals(finest.frame)


def test_jointly_chosen_masks_of_every_version_are_kept_in_the_next_wave(kept):
    drawn, masks = ilba.open_store(kept / "ilba-observed.parquet"), ilba.open_store(kept / "masks.parquet")
    secret = ilba.Secret.from_file(kept / "agency.key")
    again = drawn.controlled(["town.sex.age", "town.sex"], 9, secret=secret, previous=masks)
    assert again.frame.equals(masks.frame)


def test_a_cube_of_every_version_is_gone_on_with(kept):
    numbers = expected(kept)["cube"]
    assert plain(numbers_of_cube(kept / "cube")) == numbers
    file = kept / "cube" / "town.sex.parquet"
    file.unlink()
    ilba.open_store(kept / "ilba-observed.parquet").cube(max_keys=1).write(kept / "cube")
    assert plain(numbers_of_cube(kept / "cube")) == numbers


@pytest.mark.slow
def test_releases_of_every_version_are_served_with_their_numbers(kept):
    numbers = expected(kept)["releases"]
    with serving(*(kept / name for name in numbers)) as server, server.client() as client:
        for name, release in numbers.items():
            table = release["json-stat"]["table"]
            answer = client.get(f"/tables/{name}:{table}/data", params={"outputFormat": "json-stat2"})
            assert answer.status_code == 200, answer.text
            assert answer.json()["value"] == release["json-stat"]["value"], name
