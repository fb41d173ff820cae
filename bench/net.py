"""How well the ledger recognises the same people under another name, and how often it is wrong.

python bench/net.py [--people 20000] [--trials 5] [--surveys 40]

For each change of the data, a population is published, and then the changed data under another name. The script prints
how often this was recognised. Then unrelated surveys of 50 people each are published in one ledger under different
names. The script prints how many of them were taken for another one.
"""

from __future__ import annotations

import argparse
import tempfile
import unicodedata
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import ilba

HKEY, KEY = ["LA1", "LA2", "LA3"], ["gender", "age", "mar"]


def corrected(people: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """One record in a hundred gets the age of another one."""
    chosen = pl.Series(rng.random(people.height) < 0.01)
    other = people["age"].shuffle(seed=int(rng.integers(1000)))
    return people.with_columns(pl.when(chosen).then(other).otherwise(pl.col("age")).alias("age"))


def filtered(people: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """One record in ten is left out."""
    return people.filter(pl.Series(rng.random(people.height) >= 0.1))


def renamed(people: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """A column has another name."""
    return people.rename({"gender": "sex"})


def padded(people: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """01 for 1."""
    return people.with_columns(pl.col("age").cast(pl.String).str.zfill(2))


def named(people: pl.DataFrame, form: str) -> pl.DataFrame:
    """Areas with names that have accents, composed or not."""
    names = (
        pl.col("LA3")
        .cast(pl.String)
        .map_elements(lambda code: unicodedata.normalize(form, f"é{code}"), return_dtype=pl.String)
    )
    return people.with_columns(names.alias("LA3"))


def unchanged(people: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """The same records."""
    return people


def others(people: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Other people of the same country: catching them would be wrong."""
    return ilba.datasets.census(people.height, seed=int(rng.integers(10_000)) + 5_000).select(people.columns)


def caught(home: Path, first: pl.DataFrame, second: pl.DataFrame) -> bool:
    """Whether the second data is refused after the first one was published."""
    ilba.Secret(bytes(range(32))).to_file(home / "agency.secret")
    publish(home, first, "first")
    try:
        publish(home, second, "second")
    except ilba.Conflict:
        return True
    return False


def publish(home: Path, people: pl.DataFrame, name: str, hkey: list[str] = HKEY) -> None:
    """Publish one table of some people under a name."""
    keys = [column for column in people.columns if column not in hkey]
    finest = ilba.build(people, hkey, keys, secret=home / "agency.secret", population=name)
    finest.release(home / name, tables=[hkey[0]], plan=[hkey[0]])


def survey(number: int) -> pl.DataFrame:
    """Fifty people who were asked three questions."""
    rng = np.random.default_rng(number)
    answers = {
        name: rng.choice(size, 50, p=rng.dirichlet(np.ones(size))) for name, size in (("a", 2), ("b", 4), ("c", 6))
    }
    return pl.DataFrame({"town": rng.choice(5, 50), **answers}).cast(pl.String)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--surveys", type=int, default=40)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ilba.Notice)
    changes: list[tuple[str, Callable[[pl.DataFrame, np.random.Generator], pl.DataFrame], str]] = [
        ("the same records", unchanged, ""),
        ("1 % of records corrected", corrected, ""),
        ("10 % of records filtered", filtered, ""),
        ("a column renamed", renamed, ""),
        ("01 for 1", padded, ""),
        ("NFC for NFD", unchanged, "NFD"),
        ("other people (an alarm is false)", others, ""),
    ]
    for name, change, form in changes:
        found = 0
        for trial in range(asked.trials):
            people = ilba.datasets.census(asked.people, seed=trial).select(*HKEY, *KEY)
            later = change(people, np.random.default_rng(trial))
            if form:
                people, later = named(people, form), named(later, "NFC")
            with tempfile.TemporaryDirectory() as folder:
                found += caught(Path(folder), people, later)
        print(f"{name:<34} caught {found} of {asked.trials}")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        ilba.Secret(bytes(range(32))).to_file(home / "agency.secret")
        wrong = 0
        for number in range(asked.surveys):
            try:
                publish(home, survey(number), f"survey-{number}", ["town"])
            except ilba.Conflict:
                wrong += 1
    print(f"{'unrelated surveys of 50 people':<34} false alarms {wrong} of {asked.surveys}")


if __name__ == "__main__":
    main()
