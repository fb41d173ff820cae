"""SDMX: the data as SDMX-ML or SDMX-CSV, with its structure beside it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from ilba.files import PUBLIC, replacing
from ilba.output.formats import missing_extra
from ilba.output.series import time_column
from ilba.output.wording import WordedTable

Path_: TypeAlias = str | os.PathLike[str]
Axis: TypeAlias = tuple[str, str, list[str], list[str]]
_STATUS = {"OBS_STATUS": "A", "CONF_STATUS": "F"}  # the same for every cell, so it discloses nothing
_AT_ONCE = 2**16


def structure_path(path: Path_) -> Path:
    """Where the structure of an SDMX file goes: beside it."""
    return Path(path).with_suffix(".structure.xml")


def require() -> None:
    """Raise an error before long work if pysdmx or what it needs is not installed."""
    try:
        import pysdmx.io.pd
        import pysdmx.io.xml  # noqa: F401
    except ImportError as problem:
        raise missing_extra(problem, "SDMX") from None


def write(table: WordedTable, path: Path, agency: str, format: str) -> None:
    """The data, piece by piece, and the structure beside it: SDMX-ML 2.1, which most readers know."""
    require()
    from pysdmx.io import write_sdmx
    from pysdmx.io.format import Format as SdmxFormat
    from pysdmx.io.pd import PandasDataset
    from pysdmx.model import Organisation, Schema
    from pysdmx.model.message import Header

    table.values  # noqa: B018 - refused before anything is written
    axes = axes_of(table)
    structures, structure = _structures(table, axes, agency)
    flow = structures[-1]
    identity = f"{flow.id}-{table.created:%Y%m%dT%H%M%S}"
    header = Header(id=identity, prepared=table.created, sender=Organisation(id=agency))
    described = _written(structures, header, table.lang)
    with ExitStack() as files:
        data = files.enter_context(files.enter_context(replacing(path, PUBLIC)).open("wb"))
        beside = files.enter_context(replacing(structure_path(path), PUBLIC))
        beside.write_text(described, encoding="utf-8")
        if format == "sdmx-csv":
            told = {"STRUCTURE": "dataflow", "STRUCTURE_ID": f"{agency}:{flow.id}({flow.version})", "ACTION": "I"}
            before, after = ([pl.lit(text).alias(name) for name, text in one.items()] for one in (told, _STATUS))
            for first, rows, gone in _rows(table, axes):
                status = _status(gone) if _has_gaps(table) else after
                rows.select(*before, pl.all(), *status).write_csv(data, include_header=not first)
            return
        # The library writes a message without observations; they are inserted at the end of its data set.
        schema = Schema("dataflow", agency, flow.id, structure.components, structure.version)
        none = pl.DataFrame(schema=[*(name for name, *_ in axes), "OBS_VALUE"]).to_pandas()
        attributes = {} if _has_gaps(table) else dict(_STATUS)
        empty = PandasDataset(structure=schema, data=none, attributes=attributes)
        message = write_sdmx([empty], SdmxFormat.DATA_SDMX_ML_2_1_GEN, header=header) or ""
        begins, closing, ends = message.rpartition("</mes:DataSet>")
        data.write(begins.encode())
        for _, rows, gone in _rows(table, axes):
            status = _status(gone) if _has_gaps(table) else []
            data.write(_observations(rows, [name for name, *_ in axes], status).encode())
        data.write((closing + ends).encode())


def _has_gaps(table: WordedTable) -> bool:
    """Whether counts may have no value: they are blank, or did not exist at their time."""
    return table.release.has_blanks or bool(table.release.nonexistent)


def _status(gone: pl.Series) -> list[pl.Expr]:
    """The status of each observation: Q is suppressed and C confidential; M cannot exist."""
    blank = pl.col("OBS_VALUE").is_null()
    letters = {"OBS_STATUS": ("M", "Q", "A"), "CONF_STATUS": ("F", "C", "F")}
    return [
        pl.when(gone).then(pl.lit(never)).when(blank).then(pl.lit(no)).otherwise(pl.lit(yes)).alias(name)
        for name, (never, no, yes) in letters.items()
    ]


def _observations(rows: pl.DataFrame, axes: Sequence[str], status: list[pl.Expr]) -> str:
    """Observations as generic SDMX-ML; one without a value has a status."""
    key = "".join(f'<gen:Value id="{name}" value="{{}}"/>' for name in axes)
    whole = f'<gen:Obs><gen:ObsKey>{key}</gen:ObsKey><gen:ObsValue value="{{}}"/>'
    spelled = pl.format(f"{whole}</gen:Obs>\n", *rows.columns)
    if status:
        told = rows.with_columns(status)
        values = "".join(f'<gen:Value id="{name}" value="{{}}"/>' for name in _STATUS)
        ends = f"<gen:Attributes>{values}</gen:Attributes></gen:Obs>\n"
        shown = pl.format(whole + ends, *rows.columns, *_STATUS)
        blank = pl.format(f"<gen:Obs><gen:ObsKey>{key}</gen:ObsKey>{ends}", *axes, *_STATUS)
        return str(told.select(pl.when(pl.col("OBS_VALUE").is_null()).then(blank).otherwise(shown).str.join("")).item())
    return str(rows.select(spelled.str.join("")).item())


def data(table: WordedTable, agency: str) -> bytes:
    """The numbers of a table as generic SDMX-ML."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.xml"
        write(table, path, agency, "sdmx-ml")
        return path.read_bytes()


def structure(table: WordedTable, agency: str) -> bytes:
    """The structure of a table with its concepts and code lists, as SDMX-ML."""
    from pysdmx.model import Organisation
    from pysdmx.model.message import Header

    axes = axes_of(table)
    structures, _ = _structures(table, axes, agency)
    header = Header(id=structures[-1].id, prepared=table.created, sender=Organisation(id=agency))
    return _written(structures, header, table.lang).encode()


def _written(structures: Sequence[Any], header: Any, lang: str) -> str:
    from pysdmx.io import write_sdmx
    from pysdmx.io.format import Format as SdmxFormat

    written = write_sdmx(structures, SdmxFormat.STRUCTURE_SDMX_ML_2_1, header=header) or ""
    return written.replace('xml:lang="en"', f'xml:lang="{lang}"')


def flow_id(name: str) -> str:
    """The identifier of the dataflow of a table."""
    return f"DF_{re.sub(r'[^A-Za-z0-9_]', '_', name).upper()}"


def flows(tables: Sequence[tuple[WordedTable, str]]) -> bytes:
    """The dataflows of some tables, each with its agency, without their structures."""
    from pysdmx.model import Dataflow, Organisation
    from pysdmx.model.message import Header

    flows = [
        Dataflow(
            id=flow_id(table.table.name),
            name=table.title,
            agency=agency,
            version="1.0.0",
            structure="urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure="
            f"{agency}:{flow_id(table.table.name).replace('DF_', 'DSD_', 1)}(1.0.0)",
        )
        for table, agency in tables
    ]
    header = Header(id="dataflows", prepared=tables[0][0].created, sender=Organisation(id=tables[0][1]))
    return _written(flows, header, tables[0][0].lang).encode()


def _rows(table: WordedTable, axes: Sequence[Axis]) -> Iterator[tuple[int, pl.DataFrame, pl.Series]]:
    """The observations of the complete grid, in pieces.

    A piece is the place of its first one, the codes and counts, and which did not exist at their time.
    """
    codes = [pl.Series(name, codes, dtype=pl.String) for name, _, codes, _ in axes]
    gone = np.zeros(len(table.values), dtype=bool) if table.nonexistent is None else table.nonexistent
    for first in range(0, len(table.values), _AT_ONCE):
        values = table.values[first : first + _AT_ONCE]
        places = np.unravel_index(np.arange(first, first + len(values)), [len(known) for known in codes])
        columns = [known.gather(place) for known, place in zip(codes, places, strict=True)]
        number = pl.Series("OBS_VALUE", values).fill_nan(None)
        number = number.cast(pl.Int64) if table.measure.decimals == 0 else number
        yield first, pl.DataFrame([*columns, number]), pl.Series(gone[first : first + _AT_ONCE])


def axes_of(table: WordedTable) -> list[Axis]:
    """Identifier, name, codes and labels of each dimension, spelled with the letters that SDMX allows."""
    axes: list[Axis] = []
    taken = {"STRUCTURE", "STRUCTURE_ID", "ACTION", "OBS_VALUE", "OBS_STATUS", "CONF_STATUS", "TIME_PERIOD"}
    for place, dimension in enumerate(table.dimensions, 1):
        name = re.sub(r"[^A-Za-z0-9_]", "_", dimension.name)
        if not re.match(r"[A-Za-z]", name):
            name = f"D{place}{name}".rstrip("_")
        while name in taken:
            name += "_"
        if dimension.name == time_column(table):
            axes.append(("TIME_PERIOD", dimension.label, dimension.codes, dimension.labels))
            continue
        taken.add(name)
        axes.append((name, dimension.label, [_code(code) for code in dimension.codes], dimension.labels))
    # A structure has at least one dimension; _T is the usual code of a total.
    return axes or [("TOTAL", table.said["all"], ["_T"], [table.said["all"]])]


def _code(code: str) -> str:
    """A code in the letters that SDMX allows; any other letter becomes $ and its bytes, like %20 in an address.

    >>> _code("01/0101"), _code("A-1")
    ('01$2F0101', 'A-1')
    """
    return re.sub(r"[^A-Za-z0-9_@\-]", lambda odd: "".join(f"${byte:02X}" for byte in odd[0].encode()), code) or "$"


def _structures(table: WordedTable, axes: Sequence[Axis], agency: str) -> tuple[list[Any], Any]:
    """The code lists, the concepts, the data structure and the dataflow; and the data structure by itself."""
    from pysdmx.model import (
        Code,
        Codelist,
        Component,
        Components,
        Concept,
        ConceptScheme,
        Dataflow,
        DataStructureDefinition,
        DataType,
        ItemReference,
        Role,
    )

    version = "1.0.0"
    name = re.sub(r"[^A-Za-z0-9_]", "_", table.table.name).upper()
    english = {"OBS_STATUS": {"A": "Normal value"}, "CONF_STATUS": {"F": "Free (free for publication)"}}
    if table.release.nonexistent:
        english["OBS_STATUS"]["M"] = "Missing value; data cannot exist"
    if table.release.has_blanks:
        english["OBS_STATUS"]["Q"] = "Missing value; suppressed"
        english["CONF_STATUS"]["C"] = "Confidential statistical information"
    lists = [
        Codelist(
            id=f"CL_{axis.upper()}",
            name=label,
            agency=agency,
            version=version,
            items=[Code(id=code, name=text) for code, text in zip(codes, labels, strict=True)],
        )
        for axis, label, codes, labels in axes
        if axis != "TIME_PERIOD"
    ]
    lists += [
        Codelist(
            id=f"CL_{axis}",
            name=axis,
            agency=agency,
            version=version,
            items=[Code(id=code, name=text) for code, text in codes.items()],
        )
        for axis, codes in english.items()
    ]
    names = {axis: label for axis, label, _, _ in axes} | {"OBS_VALUE": table.said["count"]}
    names |= {"OBS_STATUS": "Observation status", "CONF_STATUS": "Confidentiality status"}
    scheme = ConceptScheme(
        id=f"CS_{name}",
        name=table.title,
        agency=agency,
        version=version,
        items=[Concept(id=axis, name=label) for axis, label in names.items()],
    )

    level = "O" if _has_gaps(table) else "D"

    def component(axis: str, role: Role, **more: Any) -> Component:
        concept = ItemReference("Concept", agency, scheme.id, version, axis)
        urn = f"urn:sdmx:org.sdmx.infomodel.codelist.Codelist={agency}:CL_{axis.upper()}({version})"
        reference = None if role == Role.MEASURE or axis == "TIME_PERIOD" else urn
        if axis == "TIME_PERIOD":
            more["local_dtype"] = DataType.PERIOD
        return Component(id=axis, required=True, role=role, concept=concept, local_enum_ref=reference, **more)

    structure = DataStructureDefinition(
        id=f"DSD_{name}",
        name=table.title,
        agency=agency,
        version=version,
        components=Components(
            [
                *(component(axis, Role.DIMENSION) for axis, *_ in axes),
                component("OBS_VALUE", Role.MEASURE, local_dtype=DataType.LONG),
                *(component(axis, Role.ATTRIBUTE, attachment_level=level) for axis in english),
            ]
        ),
    )
    flow = Dataflow(
        id=f"DF_{name}",
        name=table.title,
        description=" ".join(table.notes(dense=True)),
        agency=agency,
        version=version,
        structure=f"urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure={agency}:{structure.id}({version})",
    )
    return [*lists, scheme, structure, flow], structure
