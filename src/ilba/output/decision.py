"""The page for the person who signs: the decision, the protection against each attacker, the loss. Confidential.

One printed page, in plain words and with labels. It contains no true count below K.
"""

from __future__ import annotations

import datetime
import getpass
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ilba import __version__
from ilba.design.tables import wanted_tables
from ilba.methods.controlled.search import declared_bound
from ilba.methods.method import Method
from ilba.output import pages
from ilba.output.wording import Labels
from ilba.release import Release

Path_: TypeAlias = str | os.PathLike[str]

_ALTERNATIVES = ("controlled", "ilba", "cell-key", "suppression", "small-count-rounding", "sca")
"""the methods, the most relevant for the decision first"""
WORDS: dict[str, dict[str, Any]] = {
    "en": {
        "confidential": "CONFIDENTIAL",
        "mark": "for the person who decides",
        "heading": "Decision on publication",
        "question": "May this be published?",
        "yes": "YES",
        "no": "NO",
        "certified": "The masks were chosen jointly: the masked counts are themselves a possible truth, so nobody can "
        "prove a count of 1 to {below} from all published tables together. This was checked for this folder, byte by "
        "byte.",
        "safe": "The audit attacked all tables together and could prove no count of 1 to {below}; for each there is "
        "another truth that leads to the same tables.",
        "not safe": "The audit proves small counts from these tables. They were published because the risk was "
        "accepted.",
        "open": "The audit proves no count of 1 to {below}, but it does not certify them all, so a better attack may "
        "prove some. The tables were published because the risk was accepted.",
        "noise": "Noise is never called safe: no count is proven, and none is impossible. Its promise is the epsilon "
        "of the budget, which limits what anybody learns of one person.",
        "not audited": "There are too many tables to audit. They were published because the risk was accepted.",
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
        "against": "Protection against attackers",
        "who": "attacker",
        "result": "result",
        "everybody": "Everybody who has all tables and knows the method, K and the code lists",
        "everybody_none": "can prove no count of 1 to {below}",
        "everybody_some": "can prove {share} of the counts of 1 to {below} in all tables",
        "again": "A reader who compares it with earlier publications",
        "again_none": "finds other masks under the same codes only where counts changed; new codes for the same "
        "people can prove small counts",
        "again_keyed": "finds the same number wherever the codes and the people are the same; with the same codes, a "
        "changed number shows that the people changed, even if their count did not",
        "again_joint": "finds other numbers or blanks in another wave or a correction, also where counts did not "
        "change, and so can prove small counts; the ledger refuses it unless the conflict is accepted",
        "again_noise": "finds new noise in another wave or a correction; the ledger sums the epsilon",
        "outside": "An attacker who knows exact totals, or nearly everybody in a group",
        "outside_none": "was not measured here; measure it before you decide: {command}",
        "accepted": "may prove small counts; this conflict with the ledger was accepted",
        "accepted_before": "; the publication of {waves} had a conflict with the ledger, which was accepted: audit "
        "both together",
        "attackers": {
            "register": "An attacker with exact counts of {tables} from a register",
            "insider": "An insider who knows every true count but one",
            "outsider": "An outsider who guesses by probability",
            "neighbour": "A neighbour who knows one member of the cell",
            "attribute": "An attacker who looks for groups shown with one value only",
        },
        "proves": "can prove {share} of the finest cells with 1 to {below}",
        "proves_more": "can prove at least {share} of the finest cells with 1 to {below}",
        "proves_none": "proves no count of 1 to {below} here{relies}; nothing is promised",
        "bets": "rightly guesses {share} of the finest cells with 1 to {below}; {right} of its guesses are right",
        "also": "; with guesses {share}; of all it believes, proofs included, {right} is right",
        "also_alone": "; with guesses {share}; {right} of its guesses are right",
        "also_free": "; without relying on it, rightly guesses {share}; {right} of its guesses are right",
        "no_guess": "; guesses not measured",
        "relies": ", relying on errors of at most {bound}",
        "relies_wide": ", relying on errors of at most {bound} (the usual bound does not hold, and with a larger one "
        "less is proven)",
        "relies_none": ", with no bound of errors to rely on",
        "relies_numbers": ", with no bound of errors, by counting the masks of other cells",
        "by_secret": " (depends much on this bound and the secret)",
        "one_person": " (all but one person: ilba risk --unknown 1)",
        "bets_none": "can be sure of no count of 1 to {below}",
        "groups": "finds {groups} groups ({people}{unit}, counted in each group)",
        "unit": " people",
        "groups_none": "finds none",
        "unmeasured": "not measured: the finest table is not published",
        "cost": "Loss",
        "mean": "Mean error of a count",
        "totals": "The same of totals (at most one variable)",
        "p99": "Largest error of 99 of 100 counts",
        "max": "Largest error",
        "within": "Counts with an error of at most {half}",
        "shown": "Every published count is 0 or at least",
        "adds": "Tables add up",
        "choices": "Alternatives",
        "head": [
            "method",
            "mean loss",
            "99 % within",
            "largest",
            "provable of the counts 1 to {below}",
            "blank",
            "adds up",
        ],
        "methods": {
            "controlled": "Masks chosen jointly",
            "ilba": "iLBA: each table masked separately",
            "sca": "Sums of counts masked independently",
            "cell-key": "Cell keys: small random changes",
            "small-count-rounding": "Rounding of small counts",
            "suppression": "Suppression: small counts left blank",
        },
        "uncertified": "{share} found, not certified",
        "chosen": "this publication",
        "no_choices": "There are too many tables to compare methods here: ilba compare.",
        "first": "First confirm the proposed entries: see below.",
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
        "open": "감사 결과 1~{below}의 빈도는 하나도 증명되지 않지만 모두 인증되지는 않았으므로, "
        "더 나은 공격으로 증명될 수 있습니다. 위험을 감수하기로 하고 공표되었습니다.",
        "noise": "잡음을 더한 표는 안전하다고 판정하지 않습니다. 어떤 빈도도 증명되지 않고 불가능하지도 않습니다. "
        "예산의 epsilon이 한 사람에 대해 알 수 있는 것을 제한합니다.",
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
        "everybody_some": "모든 표의 1~{below}인 빈도 중 {share}를 증명할 수 있음",
        "again": "이전 공표와 비교하는 사람",
        "again_none": "코드와 빈도가 같으면 같은 조정값을 봄(원장이 보관). 코드가 같은데 조정값이 바뀌면 빈도가 "
        "바뀌었음을 알게 됨. 같은 사람들의 코드가 바뀌면 조정값이 새로 정해져 작은 빈도가 증명될 수 있음",
        "again_keyed": "코드가 같고 같은 사람들이면 같은 값을 봄. 코드가 같은데 값이 바뀌면 빈도가 같더라도 사람들이 "
        "바뀌었음을 알게 됨",
        "again_joint": "다른 시점이나 정정 공표에서는 빈도가 같아도 다른 값이나 빈칸을 보며, 이로써 작은 빈도가 증명될 "
        "수 있음. 충돌을 감수하지 않으면 원장이 공표를 거부함",
        "again_noise": "다른 시점이나 정정 공표에서는 새로운 잡음을 봄. 원장이 epsilon을 합산함",
        "outside": "정확한 합계나 집단 구성원 대부분을 다른 경로로 아는 사람",
        "outside_none": "여기서는 측정하지 않았음. 결정 전에 측정할 것: {command}",
        "accepted": "작은 빈도가 증명될 수 있음. 이 원장 충돌의 위험을 감수함",
        "accepted_before": ". 단, {waves} 공표는 원장과의 충돌을 감수한 것이므로 함께 감사할 것",
        "attackers": {
            "register": "등록부에서 {tables}의 정확한 빈도를 아는 사람",
            "insider": "하나를 제외한 모든 참값을 아는 사람",
            "outsider": "가능성이 높은 값에 거는 사람",
            "neighbour": "특정 대상이 그 칸에 있음을 아는 사람",
            "attribute": "한 가지 값만 나타나는 집단을 찾는 사람",
        },
        "proves": "가장 세분된 표에서 1~{below}인 칸 중 {share}를 증명할 수 있음",
        "proves_more": "가장 세분된 표에서 1~{below}인 칸 중 적어도 {share}를 증명할 수 있음",
        "proves_none": "여기서는 1~{below}의 빈도를 하나도 증명하지 못함{relies}. 보장하지는 않음",
        "bets": "가장 세분된 표에서 1~{below}인 칸 중 {share}를 옳게 추측하며, 전체 추측의 {right}가 맞음",
        "also": "; 증명이나 추측으로 {share}를 알아내며, 증명을 포함한 모든 판단의 {right}가 맞음",
        "also_alone": "; {share}를 옳게 추측하며, 전체 추측의 {right}가 맞음",
        "also_free": "; 이를 이용하지 않고 {share}를 옳게 추측하며, 전체 추측의 {right}가 맞음",
        "no_guess": "; 추측은 측정하지 않음",
        "relies": "(오차가 {bound} 이하라는 점을 이용)",
        "relies_wide": "(오차가 {bound} 이하라는 점을 이용. 통상의 한도는 지켜지지 않으며, "
        "한도가 더 크면 증명되는 것이 적음)",
        "relies_none": "(이용할 오차 한도 없음)",
        "relies_numbers": "(오차 한도 없이 다른 칸의 조정값을 세어)",
        "by_secret": " (한도와 비밀 키에 따라 이 비율이 크게 다름)",
        "one_person": " (한 명만 모르는 경우: ilba risk --unknown 1)",
        "bets_none": "1~{below}의 빈도를 하나도 확신할 수 없음",
        "groups": "집단 {groups}개를 찾음({people}{unit}, 집단마다 셈)",
        "unit": "명",
        "groups_none": "하나도 찾지 못함",
        "unmeasured": "측정하지 않음: 가장 세분된 표가 공표되지 않음",
        "cost": "정확도 손실",
        "mean": "빈도의 평균 오차",
        "totals": "변수가 하나 이하인 표의 평균 오차",
        "p99": "빈도 100개 중 99개의 오차 한도",
        "max": "최대 오차",
        "within": "오차가 {half} 이하인 빈도",
        "shown": "공표되는 빈도는 0이거나 다음 값 이상",
        "adds": "통계표 간 합계 일치",
        "choices": "대안",
        "head": ["방법", "평균 손실", "99 % 이내", "최대", "1~{below}의 빈도 중 증명 가능", "공란", "합계 일치"],
        "methods": {
            "controlled": "조정값을 함께 선택",
            "ilba": "iLBA: 표마다 따로 조정",
            "sca": "하나씩 조정한 빈도의 합",
            "cell-key": "셀 키: 작은 임의 변동",
            "small-count-rounding": "작은 빈도의 반올림",
            "suppression": "작은 빈도를 공란으로 처리",
        },
        "uncertified": "{share} 발견, 인증되지 않음",
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
    measured: Sequence[Mapping[str, Any]] = (),
    proposed: Sequence[str] = (),
    accepted: bool = False,
    accepted_before: Sequence[str] = (),
    by: Method | None = None,
    command: str = "ilba risk",
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
        The number of counted records.
    data : str
        The name of the data.
    audit : str
        The result of the audit: "certified", "safe", "not safe", "not audited" or "noise".
    choices : sequence of dict
        The methods, each with its losses and what it discloses.
    measured : sequence of dict
        What attackers learn by guessing or with further knowledge.
    proposed : sequence of str
        Entries that were proposed from the data and not confirmed.
    accepted : bool, default False
        Whether it was published despite a conflict with an earlier publication.
    accepted_before : sequence of str
        Other waves of the same people that were published despite a conflict.
    by : Method, optional
        The method that made the tables, unless they come from masks.
    command : str, default "ilba risk"
        The command that measures attackers on this release.

    Returns
    -------
    Path
        Where it was written.
    """
    says = WORDS[lang]
    facts = _facts(says, lang, release, title, records, data)
    method, K = release.manifest["method"], release.design.threshold
    own = next((one for one in choices if one["method"] == method), None)
    despite = says["accepted"] if accepted else ""
    if accepted_before:
        despite = (despite or says[_again(by)]) + says["accepted_before"].format(waves=", ".join(accepted_before))
    return pages.write(
        path,
        "decision.html",
        title=says["heading"],
        lang=lang,
        says=says,
        head=[one.format(below=K - 1) for one in says["head"]],
        is_yes=audit in ("certified", "safe"),
        reason=says["open" if _is_open(audit, own) else audit].format(below=K - 1),
        facts=facts,
        against=_against(says, lang, release, audit, own, measured, despite, by, command),
        cost=_cost(says, own, release.additive, K, K if by is None else by.smallest(K)),
        choices=[_row(says, one, one is own) for one in _alternatives(choices, own)],
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


def _is_open(audit: str, own: Mapping[str, Any] | None) -> bool:
    """Whether nothing was proven, but not everything certified."""
    return audit == "not safe" and own is not None and own["provable"] == 0


def _against(
    says: Mapping[str, Any],
    lang: str,
    release: Release,
    audit: str,
    own: Mapping[str, Any] | None,
    measured: Sequence[Mapping[str, Any]],
    despite: str,
    by: Method | None,
    command: str,
) -> list[tuple[str, str, bool]]:
    """What each attacker learns; the last value says whether the tables protect against it."""
    safe, K = audit in ("certified", "safe"), release.design.threshold
    share = "?" if own is None else pages.percent(own["provable"])
    proof = says["everybody_none"].format(below=K - 1)
    if _is_open(audit, own):
        proof = says["proves_none"].format(below=K - 1, relies="")
    elif not safe:
        proof = says["everybody_some"].format(below=K - 1, share=share)
    rows = [
        (says["everybody"], proof, safe),
        (says["again"], despite or says[_again(by)], not despite),
    ]
    labels = Labels(release.codes, lang)
    declared = release.manifest.get("population", {}).get("unit")
    unit = f" {declared}" if declared else says["unit"]
    for one in measured:
        named = [_named(labels, release, table) for table in one["tables"]]
        who = says["attackers"][one["attacker"]].format(tables=", ".join(named))
        by_bound = one["attacker"] == "insider" and release.manifest["method"] == "controlled"
        is_wide = by_bound and "bound" not in release.manifest and one["bound"] == declared_bound(K)
        relies = says["relies_wide" if is_wide else "relies"]
        if one["attacker"] == "insider" and one["proven"] is not None:
            who += says["one_person"]
        rows.append((who, *_learnt({**says, "unit": unit, "relies": relies}, one, K, by_bound)))
    if not measured:
        rows.append((says["outside"], says["outside_none"].format(command=command), False))
    return rows


def _again(by: Method | None) -> str:
    """Which words say what earlier publications tell: what a number of this method depends on."""
    if by is None or not (by.keyed or by.joint):
        return "again_none"
    return "again_keyed" if by.keyed else "again_joint" if by.renumbers else "again_noise"


def _named(labels: Labels, release: Release, table: str) -> str:
    """A table by the labels of its variables."""
    (selection,) = wanted_tables(release.design, [table])
    return " × ".join(labels.variable(column) for column in (*selection.finest, *selection.keys))


def _learnt(says: Mapping[str, Any], one: Mapping[str, Any], K: int, by_bound: bool) -> tuple[str, bool]:
    """What an attacker learns, in words, and whether this is nothing. `by_bound`: a bound of errors decides it."""
    if one["attacker"] == "attribute":
        if one["groups"] is None:
            return says["unmeasured"], False
        return says["groups" if one["groups"] else "groups_none"].format(
            groups=_told(one["groups"]), people=_told(one["people"]), unit=says["unit"]
        ), not one["groups"]
    proven, likely = one["proven"], one["likely"]
    if proven is None and likely is None:
        return says["unmeasured"], False

    def told(words: str, share: float, relies: str = "") -> str:
        right = "?" if one["right"] is None else pages.percent(one["right"])
        text: str = says[words].format(share=pages.percent(share), below=K - 1, right=right, relies=relies)
        return text

    is_bet = one["attacker"] in ("outsider", "neighbour")
    if likely is not None and (proven is None or (is_bet and not proven)):
        return told("bets" if likely else "bets_none", likely), not likely
    if one["bound"] is not None:
        relies = says["relies"].format(bound=one["bound"])
    else:
        relies = says["relies_numbers" if proven else "relies_none"] if by_bound else ""
    words = "proves_more" if one.get("at_least") else "proves"
    text = told(words if proven else "proves_none", proven, relies)
    if proven:
        text += relies + (says["by_secret"] if by_bound and one["bound"] is not None else "")
    if likely is None:
        text += says["no_guess"]
    elif likely:
        free = proven and one["bound"] is not None
        text += told("also_free" if free else "also" if proven else "also_alone", likely)
    return text, not proven and likely == 0 and one[
        "attacker"
    ] != "register"  # the attack of a register is not complete


def _told(number: int | str) -> str:
    return number if isinstance(number, str) else f"{number:,}"


def _alternatives(choices: Sequence[Mapping[str, Any]], own: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The published method and three alternatives."""
    others = [one for one in choices if one is not own]
    others.sort(key=lambda one: _ALTERNATIVES.index(one["method"]))
    return [*([own] if own is not None else []), *others[:3]]


def _cost(
    says: Mapping[str, Any], own: Mapping[str, Any] | None, additive: bool, K: int, smallest: int
) -> list[tuple[str, str]]:
    rows = []
    if own is not None:
        rows += [
            (says["mean"], f"{own['mean_loss']:.2f}"),
            *([] if own["totals"] is None else [(says["totals"], f"{own['totals']:.2f}")]),
            (says["p99"], f"{own['p99_loss']}"),
            (says["max"], f"{own['max_loss']}"),
            (says["within"].format(half=K // 2), pages.percent(own["within"])),
        ]
    if smallest > 1:
        rows.append((says["shown"], f"{smallest}"))
    return [*rows, (says["adds"], says["true"] if additive else says["false"])]


def _row(says: Mapping[str, Any], one: Mapping[str, Any], is_own: bool) -> dict[str, Any]:
    provable = pages.percent(one["provable"])
    if not one["is_safe"]:
        provable = says["uncertified"].format(share=provable)
    cells = [f"{one['mean_loss']:.2f}", f"{one['p99_loss']}", f"{one['max_loss']}", provable]
    cells += [pages.percent(one["blank"]), says["true"] if one["adds_up"] else says["false"]]
    name, spec = says["methods"].get(one["method"], one["method"]), one["spec"]
    return {"name": f"{name} ({spec})" if spec != one["method"] else name, "is_own": is_own, "cells": cells}
