"""The page for the person who signs: may it be published, what is protected against whom, what it costs. Confidential.

One printed page, in plain words and with labels. It holds no true count below K.
"""

from __future__ import annotations

import datetime
import getpass
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ilba import __version__
from ilba.output import pages
from ilba.output.wording import Labels
from ilba.release import Release

Path_: TypeAlias = str | os.PathLike[str]

WORDS: dict[str, dict[str, Any]] = {
    "en": {
        "confidential": "CONFIDENTIAL",
        "mark": "for the person who decides",
        "heading": "Decision on publication",
        "question": "May this be published?",
        "yes": "YES",
        "no": "NO",
        "certified": "The masks were chosen jointly: the masked counts are themselves a possible truth, so nobody can "
        "prove a count of 1 to {below} from all published tables together. That was proven for this folder, byte by "
        "byte.",
        "safe": "The audit attacked all tables together and could prove no count of 1 to {below}; for each there is "
        "another truth that leads to the same tables.",
        "not safe": "The audit proves small counts from these tables. They were published because the risk was "
        "accepted.",
        "not audited": "These tables are too many to be audited. They were published because the risk was accepted.",
        "what": "What is published",
        "title": "Title",
        "tables": "Tables",
        "tables_of": "{n} tables by {areas}; {keys}",
        "population": "Population",
        "records": "Records",
        "data": "Data",
        "method": "Method",
        "made": "Made",
        "made_by": "{date} by {user}, ilba {version}",
        "against": "What is protected against whom",
        "who": "who",
        "result": "result",
        "everybody": "Everybody who has all tables and knows the method, K and the code lists",
        "everybody_none": "can prove no count of 1 to {below}",
        "everybody_some": "can prove {share} of the counts of 1 to {below}",
        "again": "Who compares it with earlier publications of the same people",
        "again_none": "finds the same masks: the ledger keeps them",
        "outside": "Who knows exact totals, or nearly everybody in a group, from elsewhere",
        "outside_none": "is not held back by proof; measure it before you decide (ilba risk)",
        "guess": "Who guesses",
        "guess_none": "can be right by chance; a shown count is an estimate of the true one",
        "cost": "What it costs",
        "mean": "On average a count is off by",
        "p99": "99 of 100 counts are off by at most",
        "max": "The largest error is",
        "within": "Counts off by at most {half}",
        "shown": "Every shown count is 0 or at least",
        "adds": "Tables add up",
        "choices": "Alternatives",
        "head": ["method", "mean error", "99 % within", "largest", "provable", "adds up"],
        "methods": {
            "controlled": "Masks chosen jointly",
            "ilba": "iLBA: each table masked by itself",
            "sca-sums": "Sums of counts masked one by one",
        },
        "chosen": "this publication",
        "no_choices": "The tables are too many to compare methods here: ilba compare.",
        "first": "First confirm what was proposed: see below.",
        "unconfirmed": "Proposed from the data and not confirmed by a person",
        "sign": ["Publish", "Do not publish", "Name", "Date", "Signature"],
        "true": "yes",
        "false": "no",
        "none": "no further variables",
    },
    "ko": {
        "confidential": "대외비",
        "mark": "결재자용",
        "heading": "공표 심의서",
        "question": "공표해도 됩니까?",
        "yes": "가능",
        "no": "불가",
        "certified": "모든 통계표의 조정값을 함께 선택하였습니다. 조정된 빈도 자체가 가능한 참값이므로, "
        "공표된 모든 표를 함께 보더라도 1~{below}의 빈도를 아무도 증명할 수 없습니다. "
        "이 폴더에 대하여 바이트 단위로 확인하였습니다.",
        "safe": "모든 표를 함께 공격하는 감사에서 1~{below}의 빈도가 하나도 증명되지 않았습니다. "
        "각 빈도마다 같은 표를 만드는 다른 참값이 존재합니다.",
        "not safe": "감사 결과 이 표들로부터 작은 빈도가 증명됩니다. 위험을 감수하기로 하고 공표되었습니다.",
        "not audited": "표가 너무 많아 감사하지 못하였습니다. 위험을 감수하기로 하고 공표되었습니다.",
        "what": "공표 내용",
        "title": "제목",
        "tables": "통계표",
        "tables_of": "{areas}별 통계표 {n}개; {keys}",
        "population": "모집단",
        "records": "레코드 수",
        "data": "자료",
        "method": "방법",
        "made": "작성",
        "made_by": "{date}, {user}, ilba {version}",
        "against": "누구로부터 무엇을 보호하는가",
        "who": "누가",
        "result": "결과",
        "everybody": "모든 표를 가지고 방법, K, 코드 목록을 아는 사람",
        "everybody_none": "1~{below}의 빈도를 하나도 증명할 수 없음",
        "everybody_some": "1~{below}의 빈도 중 {share}를 증명할 수 있음",
        "again": "같은 사람들에 대한 이전 공표와 비교하는 사람",
        "again_none": "같은 조정값만 보게 됨(원장이 보관)",
        "outside": "정확한 합계나 집단 구성원 대부분을 다른 경로로 아는 사람",
        "outside_none": "증명으로는 막을 수 없음. 결정 전에 측정할 것(ilba risk)",
        "guess": "추측하는 사람",
        "guess_none": "우연히 맞힐 수 있음. 공표된 빈도는 참값의 추정값임",
        "cost": "정확도 손실",
        "mean": "빈도의 평균 오차",
        "p99": "빈도 100개 중 99개의 오차 한도",
        "max": "최대 오차",
        "within": "오차가 {half} 이하인 빈도",
        "shown": "공표되는 빈도는 0이거나 다음 값 이상",
        "adds": "통계표 간 합계 일치",
        "choices": "대안",
        "head": ["방법", "평균 오차", "99 % 이내", "최대", "증명 가능", "합계 일치"],
        "methods": {
            "controlled": "조정값을 함께 선택",
            "ilba": "iLBA: 표마다 따로 조정",
            "sca-sums": "하나씩 조정한 빈도의 합",
        },
        "chosen": "이번 공표",
        "no_choices": "표가 너무 많아 여기서는 방법을 비교하지 않습니다: ilba compare.",
        "first": "먼저 아래의 제안 항목을 확인하십시오.",
        "unconfirmed": "자료로부터 제안되었고 아직 사람이 확인하지 않은 항목",
        "sign": ["공표함", "공표하지 않음", "성명", "날짜", "서명"],
        "true": "예",
        "false": "아니오",
        "none": "추가 변수 없음",
    },
}


def write(
    path: Path_,
    lang: str,
    release: Release,
    *,
    title: str,
    records: int,
    data: str,
    audit: str,
    choices: Sequence[Mapping[str, Any]] = (),
    measured: Sequence[Any] = (),
    proposed: Sequence[str] = (),
) -> Path:
    """Write the page for a release that was made.

    Parameters
    ----------
    path : path
        Where to write.
    lang : {"en", "ko"}
        The language.
    release : Release
        The release.
    title : str
        Its title in this language.
    records : int
        How many records were counted.
    data : str
        What the data is called.
    audit : str
        What is known of the safety of its tables: "certified", "safe", "not safe" or "not audited".
    choices : sequence of dict
        The methods there are, each with its losses and what it gives away.
    measured : sequence
        Attackers whose success was measured: each with `attacker` and `text`.
    proposed : sequence of str
        What was proposed from the data and not confirmed.

    Returns
    -------
    Path
        Where it was written.
    """
    says = WORDS[lang]
    facts = _facts(says, lang, release, title, records, data)
    method, K = release.manifest["method"], release.design.threshold
    own = next((one for one in choices if one["method"] == method), None)
    return pages.write(
        path,
        "decision.html",
        title=says["heading"],
        lang=lang,
        says=says,
        is_yes=audit in ("certified", "safe"),
        reason=says[audit].format(below=K - 1),
        facts=facts,
        against=_against(says, audit, own, K, measured),
        cost=_cost(says, own, release.additive, K),
        choices=[_row(says, one, one is own) for one in choices],
        proposed=list(proposed),
    )


def _facts(
    says: Mapping[str, Any], lang: str, release: Release, title: str, records: int, data: str
) -> list[tuple[str, str]]:
    labels, design = Labels(release.codes, lang), release.design
    areas = " · ".join(" > ".join(labels.variable(one) for one in h.columns) for h in design.hierarchies)
    keys = ", ".join(labels.variable(one) for one in design.keys) or says["none"]
    population = release.manifest.get("population", {})
    whom = ", ".join(text for name in ("name", "wave", "period", "unit") if (text := population.get(name)))
    K = design.threshold
    date = datetime.datetime.now(datetime.UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    return [
        (says["title"], title),
        (says["tables"], says["tables_of"].format(n=f"{len(release.tables):,}", areas=areas, keys=keys)),
        (says["population"], whom or "-"),
        (says["data"], data),
        (says["records"], f"{records:,}" if records >= K else f"<{K}"),
        (says["method"], f"{says['methods'].get(release.manifest['method'], release.manifest['method'])}, K={K}"),
        (says["made"], says["made_by"].format(date=date, user=_user(), version=__version__)),
    ]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a name for its user
        return "?"


def _against(
    says: Mapping[str, Any], audit: str, own: Mapping[str, Any] | None, K: int, measured: Sequence[Any]
) -> list[tuple[str, str, bool]]:
    """Who learns what; the last says whether that is held back."""
    safe = audit in ("certified", "safe")
    share = "?" if own is None else pages.percent(own["provable"])
    proof = says["everybody_none"].format(below=K - 1)
    if not safe:
        proof = says["everybody_some"].format(below=K - 1, share=share)
    rows = [
        (says["everybody"], proof, safe),
        (says["again"], says["again_none"], True),
    ]
    rows += [(one.attacker, one.text, False) for one in measured]
    if not measured:
        rows.append((says["outside"], says["outside_none"], False))
    return [*rows, (says["guess"], says["guess_none"], False)]


def _cost(says: Mapping[str, Any], own: Mapping[str, Any] | None, additive: bool, K: int) -> list[tuple[str, str]]:
    rows = []
    if own is not None:
        rows += [
            (says["mean"], f"{own['mean_loss']:.2f}"),
            (says["p99"], f"{own['p99_loss']}"),
            (says["max"], f"{own['max_loss']}"),
            (says["within"].format(half=K // 2), pages.percent(own["within"])),
        ]
    return [*rows, (says["shown"], f"{K}"), (says["adds"], says["true"] if additive else says["false"])]


def _row(says: Mapping[str, Any], one: Mapping[str, Any], is_own: bool) -> dict[str, Any]:
    cells = [f"{one['mean_loss']:.2f}", f"{one['p99_loss']}", f"{one['max_loss']}", pages.percent(one["provable"])]
    cells.append(says["true"] if one["adds_up"] else says["false"])
    return {"name": says["methods"].get(one["method"], one["method"]), "is_own": is_own, "cells": cells}
