"""What is installed is what was cloned: the wheel carries the page, the code lists and the types."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile

import httpx
import pytest

from support.places import ROOT
from support.serving import serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_carries_every_file_of_the_package_and_nothing_else(wheel):
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    ours = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert held == {name for name in ours if "__pycache__" not in name}
    pages = {"ilba/service/page/index.html", "ilba/service/openapi.yaml", "ilba/output/templates/base.html"}
    assert {"ilba/py.typed", "ilba/datasets/census_codes.csv", *pages} <= held


def take_over_compiled(home):
    """Give an installed package the loops that are compiled here; numba looks at the time of their source."""
    for kept in (ROOT / "src").rglob("__pycache__/*.nb[ic]"):
        folder = home / kept.parent.relative_to(ROOT / "src")
        folder.mkdir(exist_ok=True)
        shutil.copy(kept, folder)
        source = kept.parent.parent / f"{kept.name.partition('.')[0]}.py"
        shutil.copystat(source, folder.parent / source.name)


def test_the_installed_package_works_from_any_folder(wheel, tmp_path, monkeypatch):
    home, place = tmp_path / "installed", tmp_path / "anywhere"
    place.mkdir()
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(home), str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    take_over_compiled(home)
    monkeypatch.setenv("PYTHONPATH", str(home))
    monkeypatch.chdir(place)
    where = [sys.executable, "-c", "import ilba; print(ilba.__file__)"]
    assert subprocess.run(where, capture_output=True, text=True, check=True).stdout.startswith(str(home))
    tour = [sys.executable, "-m", "ilba", "demo", "--records", "4000"]
    subprocess.run(tour, check=True, capture_output=True, env={**os.environ})
    with serving(place / "ilba-demo" / "release") as server:
        assert "<main" in httpx.get(server.address).text
        assert httpx.get(f"{server.address}api/v2/config").json()["maxDataCells"] == 100_000
