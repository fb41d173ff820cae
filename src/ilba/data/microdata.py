"""Reading: frames and files of every kind, counted into observed combinations.

The result is a polars frame of labels and a count `N`. Labels are whole numbers or text; missing is
null. Polars frames and files are streamed; pandas and pyarrow frames, DuckDB relations and other lazy frames are read
through narwhals, the lazy ones counted by their own engine.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.cells.codes import CodeList, CodeLists, canonical
from ilba.data.csvfiles import longer_line, other_separator
from ilba.data.letters import folded, folded_in, form_of, forms, in_form, spelled_in
from ilba.data.reading import READ, Reading, Schema, kind_of, missing_extra, scan, told
from ilba.data.recipe import Change, Recipe
from ilba.data.shorter import refuse_shorter
from ilba.design.design import COUNT, MASKED, Design
from ilba.design.labels import label_text
from ilba.design.recordkeys import KEY_RANGE, RecordKeys
from ilba.errors import InputError, listing, nearest, notice, some

Missing: TypeAlias = Literal["drop", "category"]
if TYPE_CHECKING:
    import narwhals as nw

IntArray: TypeAlias = npt.NDArray[np.int64]

_LEFT_OUT, _DIGIT = "\0left out", "\0digit"  # names that no column of a file has
_AT_ONCE = 200  # columns: the time of a query grows with their square
_MOST_NEAR = 5  # near spellings that are told
_SORTED_AT_ONCE = 2**27  # up to this many records, 8 bytes each, sorting beats hashing by far


@dataclass(frozen=True)
class Counted:
    """Observed cells, packed and sorted, with their counts and the code lists that name them."""

    codes: CodeLists
    words: list[IntArray]
    count: IntArray
    carried: IntArray | None = None
    record_keys: RecordKeys | None = None
    """the kind of the record keys, if there are any; their sums are `carried`"""


@dataclass(frozen=True)
class LabelMap:
    """The labels of each dimension as spelled in the data, and their code lists.

    It decides the labels of records and which records are left out, for every engine.
    """

    codes: CodeLists
    raw: Sequence[pl.DataFrame]
    """for each dimension its combinations as spelled in the data, with their numbers of records"""
    labels: Sequence[pl.DataFrame]
    given: Sequence[pl.DataFrame]

    @classmethod
    def of(
        cls,
        design: Design,
        raw: Sequence[pl.DataFrame],
        missing: Missing,
        missing_values: Iterable[object],
        known: Sequence[pl.DataFrame] | None,
        said: str,
    ) -> LabelMap:
        """Turn values of the data into labels."""
        if raw[0].is_empty():
            raise InputError(f"{said} has no rows. There is nothing to count.")
        absent = {text for value in missing_values if (text := label_text(canonical(value))) is not None}
        labels = [_labelled(frame, absent, missing) for frame in raw]
        observed = [frame.filter(~pl.col(_LEFT_OUT)).drop(_LEFT_OUT) for frame in labels]
        given = [
            _as_observed(more, frame)
            for more, frame in zip(known or [f.clear() for f in observed], observed, strict=True)
        ]
        if design.cells == "grid":
            _refuse_undeclared(observed, given)
        codes = CodeLists.of(design, [pl.concat(pair) for pair in zip(observed, given, strict=True)])
        spelled = cls(codes, raw, labels, given)
        if any(frame.is_empty() for frame in observed):
            spelled.tell_left_out(0)
        return spelled

    @property
    def total(self) -> int:
        """The number of records."""
        return int(self.raw[0][COUNT].sum())

    @property
    def complete(self) -> bool:
        """Whether no record is left out."""
        return not any(frame[_LEFT_OUT].any() for frame in self.labels)

    def digits(self, place: int) -> pl.Series:
        """For each combination of a dimension the place of its label in the code list; null if it is left out."""
        listed, labels = self.codes.lists[place], self.labels[place]
        numbered = listed.labels.with_row_index(_DIGIT)
        joined = labels.select(listed.columns).join(
            numbered, on=listed.columns, how="left", nulls_equal=True, maintain_order="left"
        )
        return joined[_DIGIT].cast(pl.Int64).set(labels[_LEFT_OUT], None)

    def only(self, digits: Sequence[IntArray]) -> tuple[CodeLists, list[IntArray]]:
        """The lists without labels that occur only in left-out rows, and the new place of each other label."""
        used = []
        for listed, digit, known in zip(self.codes.lists, digits, self.given, strict=True):
            numbered = listed.labels.with_row_index(_DIGIT)
            seen = np.zeros(len(listed), dtype=bool)
            seen[numbered.join(known, on=listed.columns, how="semi", nulls_equal=True)[_DIGIT].to_numpy()] = True
            seen[digit] = True
            used.append(seen)
        return self.codes.only(used), [np.cumsum(seen) - 1 for seen in used]

    def tell_left_out(self, kept: int) -> None:
        """Say how many rows are left out and which columns have missing values; refuse to leave out all rows."""
        where = listing(
            f"{name} {frame.filter(labels[name].is_null())[COUNT].sum():,}"
            for frame, labels in zip(self.raw, self.labels, strict=True)
            for name in frame.columns[:-1]
            if labels[name].null_count()
        )
        if not kept:
            raise InputError(f"every row has a missing value in the selected columns ({where}). Select fewer columns.")
        notice(
            f"{self.total - kept:,} of {some(self.total, 'row')} have a missing value in the selected columns, "
            f"left out ({where}). missing='category' (--missing category; missing = \"category\" under [source] of "
            f"publication.toml) keeps them as a category of their own."
        )


class Filtered(NamedTuple):
    """What `where` or `without` of a recipe does with the values of a column (confidential)."""

    change: Change
    """the records that it leaves out"""
    absent: tuple[str, ...]
    """its values that no record has, unless another one differs from them only by case or blanks"""
    near: tuple[str, ...]
    """values of the data that differ from these only by case or blanks"""


class Source:
    """Records of any engine: the names of their columns, and reserved names."""

    def __init__(self, columns: Iterable[str], said: str) -> None:
        self.columns = list(columns)
        self._said = said
        self._aside: set[str] = set()  # the names of the index of a frame
        self.recipe: Recipe | None = None

    def follow(self, recipe: Recipe | None) -> None:
        """Make columns by a recipe; they become columns of the data."""
        if recipe is not None:
            recipe.check_sources(self.columns, self._said)
            self.recipe, self.columns = recipe, recipe.names(self.columns)

    def spelled_in(self, columns: Sequence[str]) -> list[str]:
        """The columns of the data from which some columns are made."""
        return list(columns) if self.recipe is None else self.recipe.needs(columns)

    def as_labels(self, found: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
        """Different values of the data with their number of records, as the columns that are made from them."""
        return found if self.recipe is None else self.recipe.applied(found, columns).with_columns(found[COUNT])

    def require(self, columns: Iterable[str], argument: str) -> None:
        """Refuse columns that the data does not have."""
        for column in columns:
            if column not in self.columns:
                if column in self._aside:
                    raise InputError(f"{argument} names {column!r}, which is in the index. Give data.reset_index().")
                raise InputError(
                    f"{argument} names {column!r}, which {self._said} does not have."
                    f"{other_separator(self.columns) or nearest(column, self.columns)} "
                    f"Its columns are {listing(self.columns, 30)}.{_hint_of(column, self._said)}"
                )

    def refuse_counted(self, instead: str) -> None:
        """Refuse a store, and records with a column N or N_masked, which may be counts; `instead` takes counts."""
        if {COUNT, MASKED, "cell0"} <= {*self.columns}:
            raise InputError(
                f"{self._said} is already a store: use ilba.open_store, `ilba table` or `ilba release`. A store "
                f"is built from the records."
            )
        for column in (COUNT, MASKED):
            if column in self.columns:
                raise InputError(
                    f"{self._said} has a column called {column!r}. If its rows are single records, rename or drop that "
                    f"column. If they are counted already, type in Python: {instead}"
                )


class Microdata(Source):
    """A source of records. Nothing is read before it is counted."""

    def __init__(self, source: pl.LazyFrame | nw.LazyFrame[Any] | nw.DataFrame[Any], said: str) -> None:
        super().__init__(told(lambda: source.collect_schema().names(), said), said)
        self._all = source
        self._lines = False  # whether these are lines of text; some may be blank
        self._check: Callable[[], None] | None = None  # what refuses unequal lines, before they are first read

    def _only(self, columns: Sequence[str]) -> pl.LazyFrame | nw.LazyFrame[Any]:
        """The source with at least these columns. Only these columns of a frame in memory are converted."""
        if self._check is not None:
            self._check()
            self._check = None
        if isinstance(self._all, pl.LazyFrame):
            return self._all
        import narwhals as nw

        if isinstance(self._all, nw.LazyFrame):
            return self._all
        return pl.LazyFrame([_polars_column(self._all[name]).alias(name) for name in columns])

    @classmethod
    def open(cls, data: Any, *, schema: Schema | None = None, reading: Reading | None = None) -> Microdata:
        """Open a frame, a relation or a path."""
        if isinstance(data, str | os.PathLike):
            microdata = cls(scan(data, schema, reading), repr(os.fspath(data)))
            microdata._lines = kind_of(Path(data)) == "csv" and len(microdata.columns) > 1
            if microdata._lines:
                microdata._check = lambda: refuse_shorter(data, reading or Reading())
            return microdata
        if schema is not None:
            raise InputError("schema is only for csv files; a frame already has types.")
        if reading not in (None, Reading()):
            raise InputError("read is only for files, not for a frame.")
        if isinstance(data, pl.DataFrame | pl.LazyFrame):
            return cls(data.lazy(), "the data")
        import narwhals as nw  # imported only here: polars frames and files do not need it

        try:
            frame = nw.from_native(data)
            names = list(frame.columns)
        except nw.exceptions.DuplicateError:
            raise InputError("the data has two columns with the same name. Rename one of them.") from None
        except TypeError:
            if hasattr(data, "reset_index"):
                raise InputError(
                    "data is a pandas.Series, not a frame. If it has counts, as of groupby(...).size(), give "
                    "data.reset_index(name='N') to FinestTable.from_counts; otherwise data.to_frame()."
                ) from None
            raise InputError(
                f"data is a {type(data).__module__}.{type(data).__name__}. Give a polars, pandas or pyarrow frame, "
                f"a DuckDB relation, a Spark DataFrame, or the path of a file ({READ})."
            ) from None
        for name in names:
            if not isinstance(name, str):
                raise InputError(f"a column is called {name!r}, which is not text. Rename it.")
        microdata = cls(frame, "the data")
        microdata._aside = {name for name in getattr(getattr(data, "index", None), "names", []) if name}
        return microdata

    def categories(self, columns: Sequence[str]) -> dict[str, int]:
        """How many different values each column has."""
        if self.recipe is not None:
            made = [self._made(column) for column in columns]
            return {frame.columns[0]: frame.to_series(0).n_unique() for frame in made}
        found: dict[str, int] = {}
        for place in range(0, len(columns), _AT_ONCE):
            found |= self._categories(columns[place : place + _AT_ONCE])
        return found

    def _categories(self, columns: Sequence[str]) -> dict[str, int]:
        source = self._only(columns)
        if isinstance(source, pl.LazyFrame):
            query = source.select(pl.col(c).n_unique() for c in columns)
            frame = told(lambda: query.collect(engine="streaming"), self._said)
        else:
            import narwhals as nw

            frame = told(lambda: source.select(nw.col(*columns).n_unique()).collect("polars").to_native(), self._said)
        return {column: int(frame[column][0]) for column in columns}

    def number(self) -> int:
        """The number of records that the recipe keeps."""
        source = self._kept(self._only([*(self.recipe.asks if self.recipe else ()), self.columns[0]]))
        if isinstance(source, pl.LazyFrame):
            return int(told(lambda: source.select(pl.len()).collect(engine="streaming"), self._said).item())
        import narwhals as nw

        return int(told(lambda: source.select(nw.len()).collect("polars").to_native(), self._said).item())

    def named(self) -> list[Filtered]:
        """What `where` and `without` of the recipe leave out, each column by itself."""
        recipe = self.recipe
        if recipe is None or not recipe.asks:
            return []
        source = self._only(recipe.asks)
        if not isinstance(source, pl.LazyFrame):
            taken = source.select(*recipe.asks)
            source = told(lambda: taken.collect("polars").to_native(), self._said).lazy()
        return [
            self._named(source, step, column, values)
            for step, named in (("where", recipe.where), ("without", recipe.without))
            for column, values in named.items()
        ]

    def _named(self, source: pl.LazyFrame, step: str, column: str, values: Sequence[str]) -> Filtered:
        text = pl.col(column).cast(pl.String).str.strip_chars()
        is_named = text.is_in(forms(values)).fill_null(value=False)
        left_out = is_named if step == "without" else ~is_named
        each = (text.is_in(forms([value])).any().alias(str(n)) for n, value in enumerate(values))
        query = source.select(left_out.sum().alias(COUNT), *each)
        number, *occurs = told(lambda: query.collect(engine="streaming"), self._said).row(0)
        known = {folded(value) for value, there in zip(values, occurs, strict=True) if there}
        absent = [value for value in values if folded(value) not in known]
        near: list[str] = []
        if absent:
            alike = folded_in(text).is_in([folded(value) for value in absent])
            others = source.filter(alike).select(text.unique().sort().head(_MOST_NEAR))
            near = told(lambda: others.collect(engine="streaming"), self._said).to_series().to_list()
        return Filtered(Change(column, step, int(number)), tuple(absent), tuple(near))

    def _made(self, column: str) -> pl.DataFrame:
        """The different values of a column that a recipe makes."""
        names = self.spelled_in([column])
        source = self._kept(self._only([*names, *(self.recipe.asks if self.recipe else ())]))
        if isinstance(source, pl.LazyFrame):
            found = self._distinct(source, [names], None)[0]
        else:
            import narwhals as nw

            query = source.group_by(*names).agg(nw.len().alias(COUNT))
            found = told(lambda: query.collect("polars").to_native(), self._said)
        return self.as_labels(found, [column])

    def _kept(self, source: Any) -> Any:
        """The records that the recipe keeps."""
        if self.recipe is None:
            return source
        if isinstance(source, pl.LazyFrame):
            for column, values in self.recipe.where.items():
                source = source.filter(pl.col(column).cast(pl.String).str.strip_chars().is_in(forms(values)))
            for column, values in self.recipe.without.items():
                named = pl.col(column).cast(pl.String).str.strip_chars().is_in(forms(values))
                source = source.filter(~named.fill_null(value=False))
            return source
        import narwhals as nw

        for column, values in self.recipe.where.items():
            source = source.filter(nw.col(column).cast(nw.String).str.strip_chars().is_in(forms(values)))
        for column, values in self.recipe.without.items():
            listed = nw.col(column).cast(nw.String).str.strip_chars().is_in(forms(values))
            source = source.filter(nw.col(column).is_null() | ~listed)
        return source

    def count(
        self,
        design: Design,
        *,
        missing: Missing = "drop",
        missing_values: Iterable[object] = (),
        weight: str | None = None,
        carry: str | None = None,
        keep_codes: bool = False,
        known: Sequence[pl.DataFrame] | None = None,
        record_key: str | None = None,
    ) -> Counted:
        """Each observed combination of the design's columns with its number of records.

        With `weight` the rows are already combinations, and this column is their count. `carry` is another column to
        sum. `keep_codes` keeps labels with count 0 in the code lists. `known` has labels, as text, that belong to the
        code list of each dimension even if they do not occur. `record_key` is a column of record keys, which are
        summed and carried.
        """
        check_missing(missing)
        names = self.spelled_in(design.columns)
        where = self.recipe.asks if self.recipe else ()
        beside = [name for name in (weight, carry, record_key) if name]
        source = self._kept(self._only([*dict.fromkeys([*names, *where, *beside])]))
        if record_key and not isinstance(source, pl.LazyFrame):  # summed here, so all engines round alike
            taken = source.select(*dict.fromkeys([*names, *where, *beside]))
            source = told(lambda: taken.collect("polars").to_native(), self._said).lazy()
        keys = None
        if record_key:
            carry = "\0key"  # no column of the data is called so
            keys, source = self._keyed(source, record_key, carry)
        if not isinstance(source, pl.LazyFrame):
            import narwhals as nw

            # Its own engine counts it; the result is small enough to be packed here.
            counting = nw.len() if weight is None else nw.col(weight).sum()
            counted = told(
                lambda: source.group_by(*names).agg(counting.alias(COUNT)).collect("polars").to_native(), self._said
            )
            here = Microdata(counted.lazy(), self._said)
            here.recipe = self.recipe and self.recipe.of_every_record()  # the others are left out already
            return here.count(design, missing=missing, missing_values=missing_values, weight=COUNT, known=known)
        frame = source
        if self._lines and missing == "category":  # else a blank line is left out with the missing values
            frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
        dimensions = CodeLists.dimensions(design)
        found = self._distinct(frame, [self.spelled_in(columns) for columns in dimensions], weight)
        raw = [self.as_labels(values, columns) for values, columns in zip(found, dimensions, strict=True)]
        spelled = LabelMap.of(design, raw, missing, missing_values, known, self._said)
        words, count, carried = self._tally(frame, spelled, [one.drop(COUNT) for one in found], weight, carry)
        kept = int(count.sum())
        if kept == spelled.total or keep_codes:
            return Counted(spelled.codes, words, count, carried, keys)
        spelled.tell_left_out(kept)
        digits = spelled.codes.finest.digits(words)
        fewer, moved = spelled.only(digits)
        places = [move[digit] for move, digit in zip(moved, digits, strict=True)]
        return Counted(fewer, fewer.finest.pack(places, len(count)), count, carried, keys)

    def _keyed(self, source: pl.LazyFrame, column: str, alias: str) -> tuple[RecordKeys, pl.LazyFrame]:
        """The kind of record keys in a column, and the source with them as whole numbers in a new column."""
        number = record_key_numbers(column, source.collect_schema()[column])
        split = (number != number.round(0)).any()
        query = source.select(
            number=pl.len(),
            least=number.min(),
            most=number.max(),
            missing=number.is_null().sum() + number.is_nan().sum(),
            split=split,
        )
        found = told(lambda: query.collect(engine="streaming"), self._said).row(0, named=True)
        keys = RecordKeys.of_column(column, **found)
        whole = (number * KEY_RANGE).round(0) if found["split"] else number
        return keys, source.with_columns(whole.cast(pl.Int64).alias(alias))

    def _distinct(
        self, frame: pl.LazyFrame, dimensions: Iterable[Sequence[str]], weight: str | None
    ) -> list[pl.DataFrame]:
        """The combinations of each dimension as spelled in the data, with their numbers of records, in one pass."""
        number = pl.len() if weight is None else pl.col(weight).sum()
        queries = [frame.group_by(columns).agg(number.cast(pl.Int64).alias(COUNT)) for columns in dimensions]
        return told(lambda: pl.collect_all(queries, engine="streaming"), self._said)

    def _tally(
        self,
        frame: pl.LazyFrame,
        spelled: LabelMap,
        spellings: Sequence[pl.DataFrame],
        weight: str | None,
        carry: str | None,
    ) -> tuple[list[IntArray], IntArray, IntArray | None]:
        """Pack every record into a cell and count equal cells; records with a missing value are left out."""
        codes, digits = spelled.codes, []
        for place, listed in enumerate(codes.lists):
            is_plain = spellings[place].equals(spelled.raw[place].drop(COUNT))
            frame, digit = _encoded(frame, listed, spellings[place], spelled.digits(place), is_plain)
            digits.append(digit)
        words = []
        for place_of_word, word in enumerate(codes.finest.words):
            packed = pl.lit(0, pl.Int64)
            for place in word:
                packed = packed * codes.finest.places[place].size + digits[place]
            words.append(packed.alias(f"w{place_of_word}"))
        query = frame.select(*words, *(pl.col(name).cast(pl.Int64) for name in (weight, carry) if name))
        if weight is None and carry is None and len(words) == 1 and spelled.total <= _SORTED_AT_ONCE:
            cells = (
                told(lambda: query.collect(engine="streaming"), self._said)["w0"].drop_nulls().to_numpy(writable=True)
            )
            cells.sort()
            starts = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1]))) if len(cells) else cells
            return [cells[starts]], np.diff(starts, append=len(cells)).astype(np.int64), None
        names = [f"w{i}" for i in range(len(words))]
        number = pl.len() if weight is None else pl.col(weight).sum()
        sums = [number.cast(pl.Int64).alias(COUNT), *([pl.col(carry).sum()] if carry else [])]
        grouped = query.drop_nulls(names).group_by(names).agg(sums)
        counted = told(lambda: grouped.filter(pl.col(COUNT) > 0).collect(engine="streaming"), self._said).sort(names)
        carried = counted[carry].to_numpy() if carry else None
        return [counted[name].to_numpy() for name in names], counted[COUNT].to_numpy(), carried

    def read(self, columns: Sequence[str]) -> pl.DataFrame:
        """The columns as they are, for data that is counted already."""
        source = self._only(columns)
        if isinstance(source, pl.LazyFrame):
            query = source.select(columns)
            return told(lambda: query.collect(engine="streaming"), self._said)
        frame: pl.DataFrame = told(lambda: source.select(*columns).collect("polars").to_native(), self._said)
        return frame


def record_key_numbers(column: str, dtype: pl.DataType) -> pl.Expr:
    """A column of record keys as numbers; other values are null."""
    if dtype == pl.String:
        return pl.col(column).str.strip_chars().str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
    if not dtype.is_numeric():
        raise InputError(f"record_key names {column!r}, which has the type {dtype}. Record keys are numbers.")
    return pl.col(column).cast(pl.Float64)


def is_spark(data: object) -> bool:
    """Whether this is a Spark DataFrame, classic or Connect. PySpark is not imported for this check."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql") for kind in type(data).__mro__
    )


def check_missing(missing: object) -> None:
    """Check the treatment of missing values."""
    if missing not in get_args(Missing):
        raise InputError(f"missing={missing!r} is not known. It is 'drop' or 'category'.")


def _encoded(
    frame: pl.LazyFrame, listed: CodeList, spelling: pl.DataFrame, digit: pl.Series, is_plain: bool
) -> tuple[pl.LazyFrame, pl.Expr]:
    """The digit of a dimension as an expression over the spelled data; null if the record is left out.

    `is_plain` means that labels are spelled as in the data: no recipe made them.
    """
    finest, codes = spelling.to_series(-1), listed.labels.to_series(-1)
    if finest.n_unique() == len(finest) and not finest.null_count():
        spelling = spelling.select(finest.name)  # it determines the whole path
    if is_plain and all(one.n_unique() == len(one) and not one.null_count() for one in (finest, codes)):
        column = pl.col(finest.name)
        known = digit.is_not_null()
        if finest.dtype == pl.String and set(codes).isdisjoint(finest.filter(~known)):
            return frame, column.cast(pl.Enum(codes), strict=False).to_physical().cast(pl.Int64)
        whole = finest.dtype.is_integer() and finest.dtype != pl.UInt64 and codes.dtype == pl.Int64
        if whole and known.all() and codes.is_sorted():
            place = _closed_up(column.cast(pl.Int64), codes.to_list())
            if place is not None:
                return frame, place
    # A join streams. Replacing values one by one does not, and would keep every record in memory.
    name = f"{_DIGIT}{listed.columns[-1]}"
    return frame.join(
        spelling.with_columns(digit.alias(name)).lazy(), on=spelling.columns, how="left", nulls_equal=True
    ), pl.col(name)


def _closed_up(number: pl.Expr, codes: Sequence[int]) -> pl.Expr | None:
    """The place of whole numbers in a sorted list: the number, less the gaps below it; None where there are many."""
    gaps = [(code, code - before - 1) for before, code in pairwise(codes) if code - before > 1]
    if len(gaps) > 40 or codes[-1] - codes[0] >= 2**62:
        return None
    place = number - codes[0]
    for code, gap in gaps:
        place = place - (number >= code).cast(pl.Int64) * gap
    return place


def _hint_of(column: str, said: str) -> str:
    """What to type if a name is a file, or if the column names are further down."""
    if column.lower().endswith(".hrc"):
        return f" Give a file of tau-ARGUS with hrc= (--hrc COLUMN={column}); hkey names its levels and the column."
    file = Path(said.strip("'"))
    return longer_line(file) if kind_of(file) == "csv" else ""


def _refuse_undeclared(observed: Sequence[pl.DataFrame], given: Sequence[pl.DataFrame]) -> None:
    """Refuse codes outside a declared code list: in the grid reading they would change every count."""
    for labels, declared in zip(observed, given, strict=True):
        strange = labels.drop_nulls().join(declared, on=labels.columns, how="anti").unique().sort(labels.columns)
        if declared.height and strange.height:
            first = listing((" > ".join(map(str, path)) for path in strange.rows()), 6)
            raise InputError(
                f"{some(strange.height, 'code')} of {labels.columns[-1]!r} in the data are not in the declared code "
                f"list: {first}. With cells='grid' the list is the grid: add them to it, or recode the data."
            )


def _as_observed(known: pl.DataFrame, observed: pl.DataFrame) -> pl.DataFrame:
    """Labels given as text in the types and the form of Unicode of those that occur."""
    texts = [name for name, dtype in observed.schema.items() if dtype == pl.String and name in known.columns]
    try:
        return known.cast(observed.schema).with_columns(
            in_form(column, form_of(column, observed[column.name])) for column in known.select(texts).get_columns()
        )
    except pl.exceptions.PolarsError:
        columns = [name for name, dtype in observed.schema.items() if dtype == pl.Int64]
        raise InputError(
            f"the code list has codes that are not whole numbers for {listing(columns)}, which are whole numbers in "
            f"the data. Turn the column into text, or correct the list."
        ) from None


def labelled(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The frame with label columns as whole numbers or text, and missing labels as null."""
    return frame.with_columns(_labels(frame[name]) for name in columns)


def _labelled(frame: pl.DataFrame, absent: Collection[str], missing: Missing) -> pl.DataFrame:
    """The labels of combinations, with a mark on those that are left out."""
    columns = []
    for name in frame.columns[:-1]:
        column = _labels(frame[name])
        if absent:
            column = column.set(spelled_in(column.cast(pl.String), absent), None)
        columns.append(column.alias(name))
    labels = pl.DataFrame(columns)
    left_out = pl.any_horizontal(pl.all().is_null()) if missing == "drop" else pl.lit(False)
    return labels.with_columns(left_out.alias(_LEFT_OUT))


def _labels(column: pl.Series) -> pl.Series:
    dtype = column.dtype
    if dtype == pl.String:
        return column
    if dtype.is_integer():
        try:
            return column.cast(pl.Int64)
        except pl.exceptions.PolarsError:
            return column.cast(pl.String)
    if dtype in (pl.Boolean, pl.Categorical, pl.Enum, pl.Null):
        return column.cast(pl.String)
    if dtype.is_float():
        column = column.fill_nan(None)
        if bool(((column == column.round()) & (column.abs() < 2.0**63)).fill_null(True).all()):
            return column.cast(pl.Int64)
    if dtype.is_float() or dtype.is_decimal() or dtype.is_temporal():
        # Few distinct values for many rows: write each of them once.
        distinct = column.unique()
        texts = pl.Series([label_text(canonical(value)) for value in distinct.to_list()], dtype=pl.String)
        return column.replace_strict(distinct, texts, return_dtype=pl.String)
    raise no_labels(column.name, dtype)


def no_labels(column: str, kind: object) -> InputError:
    """The error for a column whose values cannot be labels."""
    return InputError(
        f"the column {column!r} has the type {kind}, which cannot be a label. "
        f"Turn it into text or whole numbers, or leave it out."
    )


def _polars_column(column: nw.Series[Any]) -> pl.Series:
    """A column of a frame in memory of another library."""
    import narwhals as nw

    native = column.to_native()
    if column.dtype == nw.Object and hasattr(native, "factorize"):
        return _objects(column.name, native)
    try:
        return column.to_polars()
    except ModuleNotFoundError as problem:
        raise missing_extra(problem, "frames of this kind") from None
    except (Exception, pl.exceptions.PanicException):  # Arrow and polars raise their own errors for unknown types
        raise no_labels(column.name, getattr(native, "dtype", column.dtype)) from None


def _objects(name: str, native: Any) -> pl.Series:
    """A pandas column of objects, such as 1 beside "1" beside None: each distinct value is spelled once."""
    kinds = importlib.import_module("pandas.api.types")
    try:
        if kinds.infer_dtype(native, skipna=True).startswith("mixed"):
            # True, 1 and 1.0 are equal and would become one value; as text they differ.
            return pl.Series([_spelled(name, value) for value in native.array], dtype=pl.String)
        codes, distinct = native.factorize()
    except TypeError:  # lists and the like
        raise no_labels(name, "object") from None
    values = pl.Series([_spelled(name, value) for value in distinct], dtype=pl.String)
    places = pl.Series(codes).cast(pl.Int64)
    return values.gather(places.set(places < 0, None))


def _spelled(name: str, value: Any) -> str | None:
    """One object as a label."""
    if isinstance(value, Decimal):
        value = value.normalize() if value.is_finite() and value % 1 else (int(value) if value.is_finite() else value)
    if isinstance(value, list | dict | set) or getattr(type(value), "__repr__", None) is object.__repr__:
        raise no_labels(name, type(value).__name__)
    return label_text(canonical(value))
