"""Publish by a publication file: count, release, export, report, decide; each step once.

Completed steps are recorded in the confidential folder with a checksum of their inputs. A killed run
continues where it stopped, and a second run of an unchanged file does nothing. The release itself is made by
`FinestTable.release`, with its proof, its audit and the ledger.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ilba import __version__
from ilba.data.reading import matching, parts_of
from ilba.design.design import Origins
from ilba.errors import (
    Advice,
    InputError,
    MissingExtra,
    StoreError,
    UnsafeRelease,
    after_publishing,
    listing,
    notice,
    some,
)
from ilba.files import making, replacing, working_in
from ilba.output import decision, drawing, pdf
from ilba.output.export import FORMATS, export
from ilba.output.naming import file_names
from ilba.output.pages import LANGUAGES
from ilba.output.report import report
from ilba.progress import Progress, ProgressStep, silent
from ilba.publication.choices import can_compare, choices, measured
from ilba.publication.days import days_kept, recorded, recorded_now, released, waves_together
from ilba.publication.doubts import misspelt, tell_doubts, unused_keys
from ilba.publication.file import words
from ilba.publication.matching import Matched
from ilba.publication.planning import (
    counted,
    hold_against_others,
    named_values,
    old_ages,
    proposed_entries,
    refuse_replacing,
    total_of,
)
from ilba.publication.prepared import Prepared
from ilba.release import MANIFEST, Release
from ilba.release.ledger import Ledger
from ilba.release.recognising import ledger_of, looked_up
from ilba.tables.beside import make_beside, warn_of_another_secret
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable
from ilba.tables.opening import open_store
from ilba.tables.store import read_about

Path_: TypeAlias = str | os.PathLike[str]
_ENDINGS = {"json-stat": "json", "sdmx-csv": "sdmx.csv", "sdmx-ml": "xml"}


@dataclass(frozen=True)
class Published:
    """The result of a run."""

    release: Release
    """the release"""
    done: tuple[str, ...]
    """steps that were done in this run; none if nothing had changed"""
    steps: tuple[str, ...]
    """all steps"""
    matches: tuple[Matched, ...] = ()
    """how code lists and maps match the data (confidential)"""
    decision: tuple[Path, ...] = ()
    """the pages for the person who signs (confidential)"""

    @property
    def is_unchanged(self) -> bool:
        """Whether everything was already published."""
        return not self.done

    def __str__(self) -> str:
        tables = some(len(self.release.tables), "table")
        if self.is_unchanged:
            return f"{self.release.path}: nothing has changed since it was published ({tables}). Nothing was done."
        return f"{self.release.path}: {tables} by {self.release.manifest['method']}, public"


class _State:
    """The record of completed steps in the confidential folder: a mark of each step, a checksum of each file."""

    def __init__(self, file: Path, folder: Path) -> None:
        self._file, self._folder = file, folder
        try:
            plain = json.loads(file.read_text("utf-8"))
            self.steps: dict[str, str] = dict(plain["steps"])
            self.files: dict[str, list[Any]] = dict(plain["files"])
        except (OSError, ValueError, KeyError, TypeError):
            self.steps, self.files = {}, {}
        self.waves = recorded(file)

    def save(self) -> None:
        plain = {"confidential": True, "format": 1, "steps": self.steps, "files": self.files}
        plain |= {"waves": self.waves} if self.waves else {}
        with replacing(self._file) as temporary:
            temporary.write_text(json.dumps(plain, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def name(self, file: Path) -> str:
        """The path of a file relative to the publication file."""
        return Path(os.path.relpath(file, self._folder)).as_posix()

    def content(self, file: Path) -> str:
        """The checksum of a file; it is read again only if its size or time has changed."""
        if file.is_dir():
            return _mark(sorted((str(part.relative_to(file)), self.content(part)) for part in parts_of(file)))
        try:
            about = file.stat()
        except OSError:
            return _mark(sorted((self.name(part), self.content(part)) for part in matching(str(file))))
        name = self.name(file)
        before = self.files.get(name)
        if before and before[:2] == [about.st_size, about.st_mtime_ns]:
            return str(before[2])
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        self.files[name] = [about.st_size, about.st_mtime_ns, digest]
        return digest


def _mark(what: Any) -> str:
    return hashlib.sha256(json.dumps(what, ensure_ascii=False, sort_keys=True, default=str).encode()).hexdigest()


def publish(
    path: Path_ | None = None,
    *,
    wave: str = "",
    spark: Any = None,
    accept_conflict: str | None = None,
    correction: bool = False,
    progress: Progress | None = None,
) -> Published:
    """Publish by a publication file; steps without changes are not repeated.

    Parameters
    ----------
    path : path, optional
        The publication file, or its folder. Left out, publication.toml here.
    wave : str, default ""
        The wave, instead of that of the file, also for each `{wave}` in it.
    spark : SparkSession or callable, optional
        Count on Spark. A function that returns a session is called only if there is work. Left out, in this process.
    accept_conflict : str, optional
        The ID of a conflict, from the error of the ledger. It publishes despite this conflict.
    correction : bool, default False
        The records correct a published wave, and its release is replaced. Otherwise other records for a published
        wave are refused.
    progress : callable, optional
        Called with each `ProgressStep` of the work.

    Returns
    -------
    Published
        The release and the steps that were done.

    Raises
    ------
    InputError
        The publication file or the data is not what was expected. Nothing was published.
    UnsafeRelease
        Publishing would disclose counts. Nothing was published.
    Conflict
        It conflicts with an earlier publication, or other records were published as this wave. Nothing was published.
    """
    prepared = Prepared(path, wave)
    prepared.check_outputs()
    refuse_replacing(prepared)
    with working_in(prepared.confidential, lambda: _tell_waiting(prepared.confidential)):
        return _Run(prepared, spark, accept_conflict, correction, progress).all()


def _tell_waiting(folder: Path) -> None:
    notice(f"another run is publishing, and works in {str(folder)!r}. Waiting until it is done.", Advice)


class _Run:
    """One run through the steps."""

    def __init__(
        self,
        prepared: Prepared,
        spark: Any,
        accept_conflict: str | None,
        correction: bool,
        progress: Progress | None,
    ) -> None:
        self.prepared, self._spark, self.accept_conflict = prepared, spark, accept_conflict
        self.correction = correction
        self.progress, self.tell = progress, progress or silent
        self.state = _State(prepared.state, prepared.folder)
        self.done: list[str] = []
        self.matches: list[Matched] = []
        self._finest: AnyFinestTable | None = None
        self._has_told = False
        said = msgspec.to_builtins(prepared.said)
        said["source"]["decimal"] = said["source"]["decimal"] or "."  # it counts the same
        del said["source"]["together"]  # it answers a doubt
        counts = (
            "source",
            "hierarchies",
            "keys",
            "mask_thr",
            "cells",
            "secret",
            "population",
            "recipe",
            "codes",
            "lists",
        )
        files = [(self.state.name(file), self.state.content(file)) for file in prepared.files()]
        self.counting = _mark([[said[name] for name in counts], files, said["labels"], prepared.design.to_json()])
        shown = ("method", "accept_risk", "budget", "ledger", "about", "tables", "maps", "labels")
        how = [prepared.how] if prepared.how else []
        self.releasing = _mark([self.counting, [said[name] for name in shown], said["outputs"]["release"], *how])

    def all(self) -> Published:
        prepared = self.prepared
        if not self.is_done("release", self.releasing, self.is_released):
            doubts = (*days_kept(prepared), *waves_together(prepared), *misspelt(named_values(prepared)))
            for doubt in doubts:  # before the work, which can take hours
                notice(doubt)
        self.step("count", self.counting, self.count, self.is_counted)
        self.step("release", self.releasing, self.release, self.is_released)
        with after_publishing():
            return self.rest(Release(prepared.release))

    def rest(self, release: Release) -> Published:
        """Everything after the release."""
        prepared = self.prepared
        outputs = msgspec.to_builtins(prepared.said.outputs)
        shown = _mark([self._manifest(), outputs["formats"], outputs["languages"], outputs["exports"]])
        self.step("exports", shown, lambda: self.exports(release), lambda: self.is_exported(release))
        judged = _mark([self._manifest(), outputs["languages"], list(prepared.said.proposed), __version__])
        pages = self.pages()
        if not self.is_done("report", judged, prepared.page("report.html").exists) and self.can_draw():
            self.step("report", judged, self.report, prepared.page("report.html").exists)
        decided = _mark([judged, outputs["pdf"]])
        self.step("decision", decided, lambda: self.decide(release), lambda: all(page.exists() for page in pages))
        names = ("count", "release", "exports", "report", "decision")
        return Published(release, tuple(self.done), names, tuple(self.matches), tuple(pages))

    def step(self, name: str, mark: str, does: Callable[[], None], is_there: Callable[[], bool]) -> None:
        """Do a step, unless it was done with the same mark and its output is there."""
        if self.is_done(name, mark, is_there):
            return
        self.tell(ProgressStep(name))
        does()
        self.state.steps[name] = mark
        self.state.save()
        self.done.append(name)

    def is_done(self, name: str, mark: str, is_there: Callable[[], bool]) -> bool:
        """Whether a step was done with the same mark, and its output is there."""
        return self.state.steps.get(name) == mark and is_there()

    @property
    def spark(self) -> Any:
        """The session of Spark, started when it is first needed; None without Spark."""
        if callable(self._spark):
            self._spark = self._spark()
        return self._spark

    @property
    def finest(self) -> AnyFinestTable:
        if self._finest is None:
            store = self.prepared.store
            self._finest = open_store(store, spark=self.spark) if self.spark is not None else open_store(store)
        return self._finest

    # --- the steps

    def is_counted(self) -> bool:
        """Whether the store is there, masked by the secret at hand if it is still to be published."""
        store, secret = self.prepared.store, self.prepared.secret()
        if not store.exists() or secret is None:
            return store.exists()
        try:
            before = read_about(store)[0].fingerprint
        except StoreError:  # told when it is opened
            return True
        if self.is_done("release", self.releasing, self.is_released):
            warn_of_another_secret(store, before, secret.fingerprint)
            return True
        return before in (None, secret.fingerprint)

    def count(self) -> None:
        self._tell_proposed()
        if self._spark is not None and self.prepared.secret() is None:
            make_beside(self.prepared.store)  # before Spark starts, which can take minutes
        self._finest, _ = counted(self.prepared, self.prepared.store, self.spark, self.progress)
        for doubt in old_ages(self.prepared):
            notice(doubt)

    def release(self) -> None:
        prepared, said = self.prepared, self.prepared.said
        if said.outputs.formats:
            _spare(prepared.exports)
        own = self.finest.own_secret(prepared.secret())
        hold_against_others(prepared, self._book(), self.finest, own, self.correction)
        self.matches = prepared.matched(self.finest)
        tell_doubts(self.finest)
        for doubt in unused_keys(prepared.design, prepared.wanted):
            notice(doubt, Advice)
        self._tell_proposed()
        if said.proposed:
            self.finest.declared_by(Origins("proposed" if "keys" in said.proposed else "declared"))
        tables = said.tables
        is_audited = can_compare(self.finest, prepared.wanted) and (prepared.by is None or prepared.by.bounded)
        self.finest.release(
            prepared.release,
            prepared.by or said.method,
            [table.name for table in prepared.wanted],
            plan=list(tables.plan) or "all",
            rows=tables.rows,
            title=prepared.title,
            description=words(said.about.description),
            source=words(said.about.source),
            texts=prepared.texts,
            licence=said.about.licence,
            labels=prepared.lists.labels if prepared.lists.labels.height else None,
            geometry=prepared.maps,
            secret=prepared.secret(),
            ledger=prepared.ledger,
            accept_conflict=self.accept_conflict,
            accept_risk=said.accept_risk,
            budget=said.budget,
            **prepared.how,
            audit=prepared.page("audit.html") if is_audited else None,
            progress=self.progress,
        )
        self.state.steps["manifest"] = self._manifest()
        self.state.waves |= recorded_now(prepared)

    def _tell_proposed(self) -> None:
        """Tell once, before the work, which entries nobody confirmed."""
        proposed = self.prepared.said.proposed
        if proposed and not self._has_told:
            self._has_told = True
            notice(proposed_entries(self.prepared))

    def is_released(self) -> bool:
        """Whether the release in the output folder is complete and was made by this file."""
        try:
            release = Release(self.prepared.release)
            for file in release.digests:
                release.content(file)
        except StoreError:
            return False
        return self.state.steps.get("manifest") == self._manifest()

    def _manifest(self) -> str:
        return hashlib.sha256((self.prepared.release / MANIFEST).read_bytes()).hexdigest()

    def is_exported(self, release: Release) -> bool:
        target = self.prepared.exports
        return all((target / name).is_file() for name, *_ in self._exported(release))

    def _exported(self, release: Release) -> list[tuple[str, str, str, str]]:
        """The files of exported tables: name, table, format, language."""
        said = self.prepared.said.outputs
        several = len(said.languages) > 1
        return [
            (f"{name}{f'.{lang}' if several else ''}.{_ENDINGS.get(kind, kind)}", table, kind, lang)
            for table, name in file_names(release.tables).items()
            for kind in said.formats
            for lang in said.languages
        ]

    def exports(self, release: Release) -> None:
        target, is_for_excel = self.prepared.exports, self.prepared.said.outputs.spreadsheet
        files = self._exported(release)
        if not files:
            return
        _spare(target)
        with making(target) as folder:
            for number, (name, table, kind, lang) in enumerate(files):
                self.tell(ProgressStep("exports", number, len(files)))
                export(release, table, kind, folder / name, lang, spreadsheet=is_for_excel and kind == "csv")
            for file in (*folder.rglob("*"), folder):
                file.chmod(0o755 if file.is_dir() else 0o644)

    def can_draw(self) -> bool:
        """Whether the report on losses can be written: it needs charts. It is not published."""
        try:
            drawing.require()
        except MissingExtra as problem:
            notice(f"there is no report on losses: {problem}")
            return False
        if self._spark is None:
            return True
        if self.state.steps.get("large") == self.counting:  # known without starting Spark
            return False
        is_small = isinstance(self.finest.at_hand(), FinestTable)
        if not is_small:
            self.state.steps["large"] = self.counting
            self.state.save()
        return is_small

    def report(self) -> None:
        """The report on the loss of every table, for the methodologist."""
        published = self._published().collect()
        tables = self.prepared.said.tables
        report(
            published, self.prepared.page("report.html"), tables.levels or None, tables.keys or None,
            tables.max_keys, lang=self._page_languages()[0], progress=self.progress,
        )  # fmt: skip

    def _published(self) -> AnyFinestTable:
        """The finest table with the masks that were published."""
        finest = self.finest.at_hand()
        if self.prepared.by is not None:
            return finest.with_method(self.prepared.by, self.prepared.secret())
        if self.prepared.said.method == "ilba":
            return finest
        return finest.published(secret=self.prepared.secret(), ledger=self.prepared.ledger)

    def pages(self) -> list[Path]:
        said = self.prepared.said.outputs
        endings = ("html", "pdf") if said.pdf else ("html",)
        return [self.prepared.page(f"decision.{lang}.{end}") for lang in self._page_languages() for end in endings]

    def _page_languages(self) -> list[str]:
        """The languages of confidential pages: the requested ones that exist, else English."""
        return [lang for lang in self.prepared.said.outputs.languages if lang in LANGUAGES] or ["en"]

    def decide(self, release: Release) -> None:
        """The page for the person who signs, in each language."""
        prepared, finest = self.prepared, self.finest.at_hand()
        published = self._published()
        compared, learnt = [], []
        if isinstance(finest, FinestTable) and can_compare(finest, prepared.wanted):
            compared = choices(
                finest,
                prepared.wanted,
                published,
                by=prepared.by,
                secret=prepared.secret(),
                progress=self.progress,
            )
            if prepared.by is None:
                learnt = measured(published, prepared.wanted, release.manifest.get("bound"), self.progress)
        said, (accepted, before) = prepared.said, self._conflicts()
        for lang in self._page_languages():
            page = decision.write(
                prepared.page(f"decision.{lang}.html"),
                lang,
                release,
                title=words(said.about.title, lang),
                records=total_of(finest),
                data=prepared.source.name,
                audit=self._audited(),
                choices=[one.to_json() for one in compared],
                measured=[one.to_json(release.design.threshold) for one in learnt],
                proposed=list(said.proposed),
                accepted=accepted,
                accepted_before=before,
                by=prepared.by,
                command=prepared.risk_command,
            )
            if said.outputs.pdf:
                pdf.write(page)

    def _audited(self) -> str:
        """The result of the audit of this release, as recorded in the ledger."""
        book = self._book()
        found = [one.audit for one in (book.publications if book else ()) if one.checksum == self._manifest()]
        return found[-1] if found else "not audited"

    def _conflicts(self) -> tuple[bool, list[str]]:
        """Whether this wave was published despite a conflict, and the other waves that were."""
        book, secret = self._book(), self.finest.own_secret(self.prepared.secret())
        return (False, []) if book is None or secret is None else looked_up(self.finest, secret, book).accepted()

    def _book(self) -> Ledger | None:
        return ledger_of(self.prepared.ledger, self.finest.own_secret(self.prepared.secret()), False)


def _spare(target: Path) -> None:
    """Refuse to replace a folder that has other files than exports."""
    endings = {f".{_ENDINGS.get(kind, kind)}".rpartition(".")[2] for kind in FORMATS} | {"json", "xml"}
    strange = [
        file.name for file in target.rglob("*") if file.is_file() and file.suffix.removeprefix(".") not in endings
    ]
    if strange:
        raise InputError(
            f"{str(target)!r} has {listing(strange, 3)}, which is not an export and would be lost. Move it."
        )


def released_by(path: Path_ | None = None) -> list[Path]:
    """The releases of a publication file, for the service: all waves, if each has its own folder."""
    prepared = Prepared(path)
    found = released(prepared)
    if not found:
        raise UnsafeRelease(f"{str(prepared.file)!r} was not published yet. Type: ilba publish{prepared.typed}")
    return found
