"""The words of the confidential pages in Korean, by the English sentence. `{}` stands for a value.

One word for one thing, on every page: proven 증명, loss 손실, small 작은, masked 조정, release 공표.
"""

from __future__ import annotations

import re
from functools import cache

WORDS = {
    "CONFIDENTIAL": "대외비",
    "this page says which counts are small": "이 페이지는 어느 빈도가 작은지 알려 줍니다",
    "this page was computed with true counts": "이 페이지는 참값과 비교하여 계산되었습니다",
    "true counts can be derived from this page": "이 페이지에서 참값을 유도할 수 있습니다",
    "these numbers were computed with true counts": "이 수치의 배후에는 참값이 있습니다",
    # the audit
    "What the released tables prove together": "공표된 통계표들이 함께 증명하는 것",
    "What several releases prove together": "여러 공표물이 함께 증명하는 것",
    "Audit of {} tables: method={} (confidential)": "통계표 {}개의 감사: 방법={} (대외비)",
    "Audit of {} table: method={} (confidential)": "통계표 {}개의 감사: 방법={} (대외비)",
    "Joint audit of {} releases (confidential)": "공표물 {}개의 합동 감사 (대외비)",
    "Not safe: no count gives anybody away, but the folder around the tables tells more than they do.":
        "안전하지 않음: 빈도는 아무도 드러내지 않지만, 표를 담은 폴더가 표보다 많은 것을 알려 줍니다.",
    "Not safe: no count gives anybody away, but the folders around the tables tell more than they do.":
        "안전하지 않음: 빈도는 아무도 드러내지 않지만, 표를 담은 폴더들이 표보다 많은 것을 알려 줍니다.",
    "Safe: the masked finest table is itself a possible truth, so nobody can prove a small count.":
        "안전함: 조정된 최세분 표 자체가 가능한 참값이므로, 작은 빈도를 아무도 증명할 수 없습니다.",
    "Safe: the masked finest table is itself a possible truth, so nobody can prove a small count. Codes, types and "
    "maps of "
    "the folder tell nothing more.":
        "안전함: 조정된 최세분 표 자체가 가능한 참값이므로, 작은 빈도를 아무도 증명할 수 없습니다. "
        "폴더의 코드, 자료형, 지도도 더 알려 주지 않습니다.",
    "Safe: one masked finest table for each wave, taken as the truth, leads to all these releases.":
        "안전함: 시점마다 조정된 최세분 표 하나를 참값으로 보면 이 공표물이 모두 나옵니다.",
    "Not safe: everybody who has these tables can prove small counts. Release fewer tables, or sums of masks that were "
    "chosen jointly (method='controlled').":
        "안전하지 않음: 이 표들을 가진 사람은 누구나 작은 빈도를 증명할 수 있습니다. 표를 줄이거나, "
        "함께 선택한 조정값의 합을 공표하십시오(method='controlled').",
    "Not safe: everybody who has these releases can prove small counts. Withdraw one of them, and publish its tables "
    "again "
    "as sums of the masks of the other.":
        "안전하지 않음: 이 공표물들을 가진 사람은 누구나 작은 빈도를 증명할 수 있습니다. 하나를 철회하고, "
        "그 표를 다른 공표물의 조정값의 합으로 다시 공표하십시오.",
    "Safe: for each small cell there is another truth that leads to the same release.":
        "안전함: 작은 칸마다 같은 공표물을 만드는 다른 참값이 있습니다.",
    "No finest cell can be proven small. Whether a coarser count can be was not decided.":
        "최세분 칸은 하나도 작다고 증명되지 않습니다. 더 큰 단위의 빈도는 판정하지 못하였습니다.",
    "Nothing was proven, but not everything is certified: nothing is known about the undecided cells.":
        "증명된 것은 없으나 모두 보증되지도 않았습니다. 미정인 칸에 대해서는 알 수 없습니다.",
    "finest cells truly in 1..{}": "참값이 1~{}인 최세분 칸",
    "disclosed": "증명됨", "exactly": "정확히", "certified safe": "안전이 보증됨", "undecided": "미정",
    "aggregates truly in 1..{}": "참값이 1~{}인 집계 칸", "aggregates disclosed": "증명된 집계 칸",
    "aggregates exactly": "정확한 값이 증명된 집계 칸",
    "aggregates certified safe": "안전이 보증된 집계 칸", "aggregates undecided": "미정인 집계 칸", "unknown": "알 수 없음",
    "Proven means: somebody who knows the method, K, the code lists and all these tables can prove that the count "
    "lies in "
    "1..{}. The audit adds and subtracts; a better attack may prove more, never less. Certified means that another "
    "truth, in which the cell is not small, leads to the same tables. Undecided means that neither was found.":
        "증명됨: 방법, K, 코드 목록과 이 표들을 모두 아는 사람이 빈도가 1~{}임을 증명할 수 있습니다. 감사는 더하고 빼는 "
        "것만 하므로, 더 뛰어난 공격자는 더 많이 증명할 수 있고 더 적게는 아닙니다. 보증됨: 그 칸이 작지 않으면서 같은 "
        "표를 만드는 다른 참값이 있습니다. 미정: 어느 쪽도 찾지 못하였습니다.",
    "proven to lie in 1..{}": "1~{}임이 증명됨", "proven exactly": "정확한 값이 증명됨",
    "By level": "수준별", "By table": "표별", "All tables as numbers": "모든 표의 수치", "table": "표", "small": "작은 칸",
    "proven": "증명", "How it is proven": "증명 과정", "Nothing was proven.": "증명된 것이 없습니다.",
    "No proof is explained here.": "여기에 설명된 증명은 없습니다.", "cell": "칸",
    "Aggregates that are proven, the narrowest ranges first": "증명된 집계 칸, 범위가 좁은 것부터",
    "iLBA; no flags, and a row that is 0 says nothing": "iLBA; 표시가 없고, 0인 행은 아무것도 알려 주지 않음",
    "iLBA as the R package writes it: observed rows, with type1 and type2": "R 패키지가 쓰는 iLBA: 관측된 행, type1과 type2 포함",
    "iLBA as the R package writes it, without type1 and type2": "R 패키지가 쓰는 iLBA, type1과 type2 제외",
    "SCA drawn anew for the small cells of each aggregate": "집계마다 작은 칸에 새로 뽑은 SCA",
    "sums of the masked finest table": "조정된 최세분 표의 합",
    "sums of a finest table whose masks were chosen jointly": "조정값을 함께 선택한 최세분 표의 합",
    "Undecided: {}.": "미정: {}.", "proof: Undecided: {}.": "증명: 미정: {}.", "proof: {} undecided: {}.": "증명: {} 미정: {}.",
    "{} cells because {}": "칸 {}개 - {}", "{} cell because {}": "칸 {}개 - {}",
    "{} aggregates because {}": "집계 칸 {}개 - {}", "{} aggregate because {}": "집계 칸 {}개 - {}",
    "{} cells because {}; {} aggregates because {}": "칸 {}개 - {}; 집계 칸 {}개 - {}",
    "{} cells because {}; {} aggregate because {}": "칸 {}개 - {}; 집계 칸 {}개 - {}",
    "{} cell because {}; {} aggregates because {}": "칸 {}개 - {}; 집계 칸 {}개 - {}",
    "{} cell because {}; {} aggregate because {}": "칸 {}개 - {}; 집계 칸 {}개 - {}",
    "the solver was not asked (solver_seconds=60 or --solver-seconds 60)": "풀이기에 묻지 않음(solver_seconds=60)",
    "the time ran out before the solver reached them": "풀이기가 이르기 전에 시간이 다 됨",
    "their block took the solver too long": "풀이기가 이 구획에서 너무 오래 걸림",
    "counterexamples are searched for iLBA only": "반례는 iLBA에 대해서만 찾음",
    "the tables give no block that is small enough for the solver": "풀이기에 물을 만한 작은 구획이 없음",
    "the solver, which sees one block of cells at a time, found neither a proof nor another world":
        "한 번에 한 구획을 보는 풀이기가 증명도 다른 참값도 찾지 못함",
    # derivations
    "at most {} occupied cells": "사람이 있는 칸 {}개 이하", "at least {} occupied cells": "사람이 있는 칸 {}개 이상",
    "at most {} occupied cell": "사람이 있는 칸 {}개 이하", "at least {} occupied cell": "사람이 있는 칸 {}개 이상",
    "{} is at most {}": "{}의 값은 {} 이하", "{} is at least {}": "{}의 값은 {} 이상",
    "{} has at most {} occupied": "{}에 사람이 있는 칸은 {}개 이하", "{} has at least {} occupied": "{}에 사람이 있는 칸은 {}개 이상",
    "somebody is there": "누군가 있음", "nobody is there": "아무도 없음", "{} or more": "{} 이상",
    "its small cells sum to {}": "작은 칸의 합은 {}", "it has {}": "{}",
    "{} is not published.": "{}: 공표되지 않았습니다.",
    "{} is not listed: nobody is there.": "{}: 목록에 없으므로 아무도 없습니다.",
    "{}: {} published is above K, so it is exact.": "{}: 공표값 {}은(는) K보다 크므로 정확합니다.",
    "{}: {} published, {} of it in cells above K={}; {} means {}.":
        "{}: 공표값 {} 중 {}은(는) K={}보다 큰 칸에 있고, 나머지 {}은(는) {}을(를) 뜻합니다.",
    "{}: {} published with {}, {} of it in cells above K={}; {} means {}.":
        "{}: 공표값 {}({}) 중 {}은(는) K={}보다 큰 칸에 있고, 나머지 {}은(는) {}을(를) 뜻합니다.",
    "{}: {} published with {} means {}.": "{}: 공표값 {}({})은(는) {}을(를) 뜻합니다.",
    "{} in {} occupied cells": "{}(사람이 있는 칸 {}개)", "{} in {} occupied cell": "{}(사람이 있는 칸 {}개)",
    "{}: {} published means {}.": "{}: 공표값 {}은(는) {}을(를) 뜻합니다.",
    "{}: a blank means {}.": "{}: 빈칸은 {}을(를) 뜻합니다.",
    "{}: {}, because {} and its other parts are {}.": "{}: {}. 근거: {}, 나머지 부분은 {}.",
    "{}: {}, the sum of its parts ({}).": "{}: {}. 부분의 합({}).",
    "{}: {}, because {}.": "{}: {}. 근거: {}.",
    "{} other cells are published above K={}, so they are exact and not small.":
        "다른 칸 {}개는 K={}보다 크게 공표되어 정확하며 작지 않습니다.",
    "So {} is exactly {}.": "따라서 {}의 값은 정확히 {}입니다.",
    "So {} lies in {}.": "따라서 {}의 값은 {}에 있습니다.",
    "at most {}": "{} 이하", "at least {}": "{} 이상",
    # the risk
    "Who could learn what from these tables": "이 표에서 누가 무엇을 알 수 있는가",
    "Risk of {} tables: method={} (confidential)": "통계표 {}개의 위험: 방법={} (대외비)",
    "Risk of {} table: method={} (confidential)": "통계표 {}개의 위험: 방법={} (대외비)",
    "Attackers": "공격자", "attacker": "공격자", "P > .95 small": "작음 확신(P > .95)", "of small": "작은 칸 중",
    "P > .95 alone": "1명 확신(P > .95)", "groups": "집단", "proof": "증명", "outsider": "외부인", "neighbour": "이웃",
    "insider": "내부자", "attribute": "속성", "outsider, coarse tables": "외부인, 큰 단위의 표만", "register {}": "등록부 {}",
    "insider, {} cells unknown": "내부자, 칸 {}개 모름", "insider, 1 person unknown": "내부자, 1명 모름",
    "insider, {} people unknown": "내부자, {}명 모름",
    "knows everybody except one person": "한 사람을 제외한 모두를 앎", "knows everybody except {} people": "{}명을 제외한 모두를 앎",
    "has every released table and the method, and says only what is certain": "공표된 모든 표와 방법을 알고, 확실한 것만 말함",
    "has every released table and the method, and bets on what is likely": "공표된 모든 표와 방법을 알고, 가능성이 높은 값에 걺",
    "has only coarse tables: the baseline of the outsider": "큰 단위의 표만 가짐: 외부인의 기준선",
    "also knows that a certain person is in the cell": "그 밖에 특정인이 그 칸에 있음을 앎",
    "knows the true count of every finest cell except one": "하나를 제외한 모든 최세분 칸의 참값을 앎",
    "knows the true count of every finest cell except {} small ones of an area": "한 지역의 작은 칸 {}개를 제외한 모든 참값을 앎",
    "has exact counts of {} from elsewhere": "다른 곳에서 얻은 {}의 정확한 빈도를 가짐",
    "looks for groups in which everybody is shown with the same value": "모두 같은 값으로 나타나는 집단을 찾음",
    "Probabilities are from a sample of {} of {} areas. The number behind ± is the standard error between areas.":
        "확률은 지역 {}개(전체 {}개 중)의 표본에서 얻었습니다. ± 뒤의 수는 지역 간 표준오차입니다.",
    "Small cells are the finest cells with a true count in 1..{}. Proven means certain: no other truth fits the "
    "knowledge of the attacker. Likely means that the attacker's probability is above .95; a model gives it, and the "
    "bins below show how good the "
    "model is. Undecided means that neither a proof nor another truth was found.":
        "작은 칸은 참값이 1~{}인 최세분 칸입니다. 증명은 확실함을 뜻합니다. 공격자가 가진 것에 맞는 다른 참값이 없습니다. "
        "확신은 공격자의 확률이 .95보다 큼을 뜻합니다. 확률은 모형에서 나오며, 모형의 정확도는 아래 구간표에 있습니다. "
        "미정은 증명도 다른 참값도 찾지 못하였음을 뜻합니다.",
    "Small cells that are learnt": "알려지는 작은 칸", "{} proven": "{} 증명", "{} proven, {} likely": "{} 증명, {} 확신",
    "Predicted and true": "말한 확률과 실제",
    "Cells by the probability that the attacker gives them. For a good model both agree. Shares are of cells, for the "
    "neighbour of the people in them.":
        "공격자가 매긴 확률별 칸입니다. 좋은 모형은 실제와 같은 것을 말합니다. 비율은 칸의 비율이며, 이웃은 그 칸에 있는 사람의 비율입니다.",
    "event": "사건", "cells": "칸", "said": "말한 확률", "true": "실제", "alone": "1명",
    "Groups shown with one value": "한 가지 값만 나타나는 집단",
    "A group is counted if its value is neither usual in the rest of the region nor there by chance. Pure: "
    "everybody in the group truly has the value. Gain: people whose value is disclosed beyond the expectation for the"
    " region. "
    "A coalition of one or two members who do not have the value learns the rest.":
        "나머지 지역에서 당연하지 않고 우연이 아닌 값을 가진 집단만 셉니다. 순수: 집단의 모두가 실제로 그 값을 가집니다. "
        "이득: 지역에서 예상되는 것 이상으로 값이 알려지는 사람 수입니다. 그 값을 갖지 않은 한두 명이 연합하면 나머지를 압니다.",
    "These are the {} lines with the largest gain, of {}.": "전체 {1}줄 중 이득이 가장 큰 {0}줄입니다.",
    "variable": "변수", "people": "사람", "pure": "순수", "accuracy": "정확도", "expected": "예상", "gain": "이득",
    "coalition of 1": "1명 연합", "of 2": "2명 연합", "What is proven, by table": "표별로 증명된 것", "tables": "표",
    "tables of the whole alone": "전체 표만", "tables of {} alone": "{}의 표만", "numbers of masks alone": "조정값의 개수만",
    "{}: no bound is stated, but the usual one of {} is known to everybody and holds here. It holds with 19 of 20 secrets; "
    "with {}, the largest one that masks are chosen for, {} cells are proven.":
        "{}: 오차 한도는 밝히지 않았으나, 통상의 한도 {}는 누구나 알며 여기서도 지켜집니다. 비밀 키 20개 중 19개에서 지켜지며, "
        "조정값을 선택할 때 쓰는 가장 큰 한도 {}로는 칸 {}개가 증명됩니다.",
    "{}: what is likely uses no bound, so it may be less than what is proven with one.":
        "{}: 확신은 한도를 쓰지 않으므로 한도를 쓴 증명보다 적을 수 있습니다.",
    "the bound {} was not held: errors reach {}. Attackers who rely on a bound are measured with {}.":
        "한도 {}가 지켜지지 않았고 최대 오차는 {}입니다. 한도를 이용하는 공격자는 {}로 측정하였습니다.",
    "{}: no bound is stated, and the usual one of {} does not hold here. The largest one that masks are chosen for, {}, is "
    "known to everybody and holds: it is used.":
        "{}: 오차 한도는 밝히지 않았고, 통상의 한도 {}는 여기서 지켜지지 않습니다. 조정값을 선택할 때 쓰는 가장 큰 한도 {}는 누구나 알며 "
        "지켜지므로 이를 씁니다.",
    "{}: no bound is stated, and neither the usual one of {} nor {} holds here: none is used.":
        "{}: 오차 한도는 밝히지 않았고, 통상의 한도 {}도 {}도 여기서 지켜지지 않으므로 한도를 쓰지 않습니다.",
    "{}: controlled SCA masks x of every K cells with the count x to K, as nearly as possible. Everybody knows this rule. "
    "Counting the masks of all other cells proves {} cells, {} of them exactly.":
        "{}: controlled SCA는 빈도가 x인 칸 K개 중 x개를 되도록 가깝게 K로 조정하며, 이 규칙은 공개되어 있습니다. 다른 모든 칸의 조정값을 세면 "
        "이것만으로 칸 {}개가 증명되며, 그중 {}개는 정확히 알려집니다.",
    "{}: the numbers of masks are not those of the public rule of controlled SCA here, so nothing is concluded from them.":
        "{}: 여기서 조정값의 개수는 controlled SCA의 공개된 규칙과 다르므로, 이로부터 아무것도 추론하지 않습니다.",
    "{}: masks of earlier publications are kept here, so errors may be of any size, and nobody outside knows whether {} "
    "holds. It holds here and is used, so the share is more than an insider can be sure of. With a larger bound the share "
    "would be smaller.":
        "{}: 이전 공표의 조정값이 유지되므로 오차의 크기에는 제한이 없고, {}가 지켜지는지는 외부의 누구도 모릅니다. 실제로는 지켜지므로 이를 "
        "씁니다. 이 비율은 내부자가 확신할 수 있는 것보다 크며, 한도가 더 크면 더 작아집니다.",
    "{}: with {} other secrets between {} and {} of the small cells would be proven, relying on errors of at most {}. It "
    "depends on which coarse counts happen to lie at the bound.":
        "{}: 다른 비밀 키 {}개에서는 작은 칸의 {}에서 {}까지 증명됩니다(오차 한도 {} 이용). 어느 큰 빈도가 한도에 놓이는지에 달려 있습니다.",
    "{}: with {} other secrets between {} and {} of the small cells would be proven, relying on errors of at most {}; from "
    "the coarsest tables alone {} to {}. It depends on which coarse counts happen to lie at the bound.":
        "{}: 다른 비밀 키 {}개에서는 작은 칸의 {}에서 {}까지 증명됩니다(오차 한도 {} 이용). 가장 큰 지역의 표만으로는 {}에서 {}까지입니다. "
        "어느 큰 빈도가 한도에 놓이는지에 달려 있습니다.",
    "{}: At least this is proven: the finest table is not among these tables.":
        "{}: 적어도 이만큼 증명됩니다. 최세분 표가 이 표들에 없습니다.",
    "{}: Not measured: the finest table is not among these tables, or its large counts were allowed to move.":
        "{}: 측정하지 않음. 최세분 표가 이 표들에 없거나, 큰 빈도가 바뀔 수 있었습니다.",
    "What outsider, neighbour and insider believe is not measured: the numbers are fitted to each other, so no single"
    " one gives probabilities, and there is no formula for all of them together.":
        "외부인, 이웃, 내부자의 믿음은 측정하지 않음. 수들이 서로 맞춰져 있어 하나만으로는 확률을 말할 수 없고, 모두에 대한 공식이 없습니다.",
    "What outsider, neighbour and insider believe is not measured: the noise spreads so far that too many counts may "
    "stand behind a number.":
        "외부인, 이웃, 내부자의 믿음은 측정하지 않음. 잡음이 너무 넓어 한 수 뒤에 너무 많은 빈도가 있을 수 있습니다.",
    "No single finest cell was looked at: all variables together have more cells than can be listed. Instead, the counts"
    " of the tables were examined, linked by their common margins.":
        "최세분 칸은 보지 않았습니다. 모든 변수를 합하면 나열할 수 없을 만큼 칸이 많습니다. 세는 것은 공통 주변합으로 이어진 표들의 빈도입니다.",
    "{}: what is likely is measured for sums of masks alone, here only what is proven.":
        "{}: 유력한 것은 조정값의 합에 대해서만 측정하며, 여기서는 증명된 것만 봅니다.",
    "{}: attribute: Not measured: this looks at the cells that hold somebody, and noise puts people into the others, too.":
        "{}: 속성: 측정하지 않음. 누군가 있는 칸만 보는데, 잡음은 다른 칸에도 사람을 넣습니다.",
    "finest cells": "최세분 칸", "not looked at": "보지 않음",
    "{}: {} small cells were tried, {} proven by propagation.": "{}: 작은 칸 {}개를 시도하여 {}를 증명하였습니다.",
    "attribute: {} tables are too large and were left out.": "속성: 표 {}개는 너무 커서 제외하였습니다.",
    "attribute: groups are counted against the truth, which needs the store.": "속성: 집단은 참값과 비교하므로 저장소가 필요합니다.",
    # the report on losses
    "Information loss report": "정보 손실 보고서",
    "{}; keys {}. Loss is the masked minus the true count.": "{}; 변수 {}. 손실은 조정값에서 참값을 뺀 것입니다.",
    "none": "없음",
    "Masking with K={} keeps every loss within {}; with at most one small cell behind it, within {}.":
        "K={}인 조정은 모든 손실을 {} 이내로, 작은 칸이 하나뿐이면 {} 이내로 유지합니다.",
    "Tables": "통계표", "Cells": "칸", "Threshold K": "기준값 K", "Reading of S": "S의 해석", "Mean absolute loss": "평균 절대 손실",
    "99% of cells within": "칸의 99% 이내", "Largest loss": "최대 손실", "Bound": "한도", "Method": "방법", "Within {}": "{} 이내",
    "True count at most {}": "참값 {} 이하", "At a glance": "한눈에 보기", "All tables": "모든 표", "Table": "표",
    "Count ≤ {}": "빈도 ≤ {}", "Type 1": "유형 1", "Type 2": "유형 2", "Mean": "평균", "99%": "99%", "Max": "최대",
    "Table by table": "표별 내용",
    "Open a table to see how its loss is distributed. All are open in print.":
        "표를 열면 손실의 분포가 보입니다. 인쇄할 때는 모두 열립니다.",
    "{} cells, mean {}, max {}": "칸 {}개, 평균 {}, 최대 {}", "{} cell, mean {}, max {}": "칸 {}개, 평균 {}, 최대 {}",
    "{}, mean {}, max {}": "{}, 평균 {}, 최대 {}",
    "true count at most {}": "참값 {} 이하", "type 1 (shifted up)": "유형 1(위로 이동)",
    "type 2 (shifted down)": "유형 2(아래로 이동)", "mean absolute loss": "평균 절대 손실", "99% within": "99% 이내",
    "largest absolute loss": "최대 절대 손실", "{} of at most {}": "{}(한도 {})", "within {}": "{} 이내", "Loss": "손실",
    "Share": "비율", "Total": "전체",
    # the comparison of methods
    "Methods compared on {} tables, K={}": "통계표 {}개에서 방법 비교, K={}",
    "Likely is the share of small cells whose published number means a small count in more than 95 of 100 cells. Of a "
    "named attacker it is the share of small cells that are rightly believed to be small with more than .95, in the finest "
    "table or in the one that a remark names.":
        "유력은 공표된 수가 100칸 중 95칸 넘게 작은 빈도를 뜻하는 작은 칸의 비율입니다. 이름 있는 공격자에서는 .95를 넘는 확률로 작다고 "
        "옳게 믿는 작은 칸의 비율입니다. 최세분 표의 칸이거나, 비고에 적힌 표의 칸입니다.",
    "On controlled sums an insider relies on the given bound, or on the largest loss if that bound was not held. If none "
    "is given, the insider relies on the usual bound if it holds, else on 3K-2 if that holds, else on none. In a first "
    "publication the usual bound holds with 19 of 20 secrets, and the secret chooses no bound above 3K-2. A later "
    "publication keeps masks, so errors may be larger. Nobody outside knows which bound holds then, so the measured "
    "share is more than an insider can be sure of. The share depends much on the bound and on the secret. An insider "
    "who lacks one cell or one person also uses the numbers of masks, if they follow the public rule.":
        "함께 선택한 조정값의 합계에서 내부자는 주어진 한도를, 그 한도가 지켜지지 않았으면 최대 손실을 이용합니다. 주어진 한도가 없으면 "
        "통상의 한도를, 그것이 지켜지지 않으면 3K-2를 이용하고, 둘 다 지켜지지 않으면 한도를 이용하지 않습니다. 첫 공표에서 통상의 한도는 "
        "비밀 키 20개 중 19개에서 지켜지며, 3K-2는 조정값을 선택할 때 쓰는 가장 큰 한도입니다. 이후의 공표는 조정값을 유지하므로 오차가 더 클 "
        "수 있고 어느 한도가 지켜지는지 외부의 누구도 모릅니다. 이 비율은 내부자가 확신할 수 있는 것보다 크며, 한도와 비밀 키에 따라 크게 "
        "다릅니다. 칸 하나나 1명을 모르는 내부자는 조정값의 개수가 공개된 규칙과 같으면 빈도별 칸의 조정값도 셉니다.",
    "Loss is the absolute difference between masked and true counts. Provable is the share of the finest cells with a"
    " true count in 1..K-1 that everybody with all tables can prove; it is a lower bound. Bias: of the finest counts "
    "1..K-1, the largest distance between such a count and the mean of its published numbers. Totals are tables of at most "
    "one variable. Differences and ranks are of neighbouring areas; ranks turned is the share of those with different true "
    "counts that are published in the wrong order or as equal. Suppressed cells have no loss and are counted as blank. Invented cells are empty and"
    " published above 0; lost is the share of the other counts that are published as 0. Guessed is the share of small cells whose count"
    " is the most frequent one for their published number. Unbounded noise proves nothing; only certified tables are "
    "called safe.":
        "손실은 조정값과 참값의 차의 절댓값입니다. 증명 가능은 참값이 1~K-1인 최세분 칸 중, 모든 표를 가진 누구나 그렇다고 "
        "증명할 수 있는 비율이며 하한입니다. 편향은 최세분 빈도 1~K-1 중, 참값과 그 공표값 평균의 거리가 가장 큰 "
        "것입니다. 합계는 변수가 하나 이하인 표입니다. 차이와 순위는 이웃한 지역 사이의 것이며, 뒤바뀐 순위는 참값이 서로 다른 쌍 중 순서가 "
        "뒤바뀌거나 같게 공표된 비율입니다. 공란에는 손실이 없고 공란으로 셉니다. 만들어진 칸은 아무도 없는데 "
        "다른 값으로 공표된 칸, 잃음은 나머지 빈도 중 0으로 공표된 것의 비율입니다. 추측은 공표값 뒤에 가장 흔한 빈도와 같은 작은 칸의 "
        "비율입니다. 한도 없는 잡음은 아무것도 증명하지 않으며, 안전은 보증된 것에만 씁니다.",
    "{}: masks were chosen for {} tables, of which {} are measured. --plan (plan=) names fewer.":
        "{}: 조정값은 표 {}개에 대해 선택했고, 그중 {}개를 측정했습니다. 더 적은 표는 --plan (plan=)으로 지정합니다.",
    "{}: numbers depend on which tables are published. These are of a release of {} tables alone.":
        "{}: 수치는 함께 공표하는 표에 따라 달라집니다. 이 수치는 표 {}개만 공표할 때의 것입니다.",
    "What users lose": "이용자가 잃는 것", "Cells and sums": "칸과 합계", "What attackers learn": "공격자가 알아내는 것",
    "What the named attackers learn": "이름 있는 공격자가 알아내는 것", "likely %": "유력 %",
    "outsider: proven %": "외부인: 증명 %", "outsider: likely %": "외부인: 유력 %", "neighbour: proven %": "이웃: 증명 %",
    "neighbour: likely %": "이웃: 유력 %", "insider: proven %": "내부자: 증명 %", "insider: likely %": "내부자: 유력 %",
    "attribute: groups": "속성: 집단", "attribute: people": "속성: 사람",
    "provable counts %": "증명 가능한 공표 빈도 %", "Strong and weak points": "장점과 단점", "method": "방법", "strong": "장점", "weak": "단점",
    "mean loss": "평균 손실", "p99 loss": "99% 손실", "max loss": "최대 손실", "loss below K": "K 미만의 손실", "loss to 99": "99까지의"
    " 손실",
    "loss from 100": "100 이상의 손실", "loss of totals": "합계의 손실", "loss of differences": "차이의 손실",
    "ranks turned %": "뒤바뀐 순위 %", "within half K %": "K/2 이내 %", "over bound %": "한도 초과 %", "bias": "편향",
    "adds up": "합계 일치", "blank %": "공란 %", "invented": "만들어진 칸", "lost %": "잃은 칸 %", "provable %": "증명 가능 %",
    "exact %": "정확히 증명 %", "exact counts %": "정확히 증명된 공표 빈도 %",
    "guessed %": "추측 %", "aggregates": "집계 칸", "safe": "안전", "seconds": "초",
    "yes": "예", "no": "아니오",
    "sums of SCA": "SCA의 합", "SCA on each aggregate": "집계마다 SCA", "iLBA, as R writes it": "R이 쓰는 iLBA",
    "iLBA, observed cells": "iLBA, 관측된 칸", "iLBA, all cells of the grid": "iLBA, 격자의 모든 칸", "controlled": "함께 선택",
    "proves no small count; adds up": "작은 빈도를 증명하지 않음; 합계가 맞음",
    "sums of many cells lie far from the truth": "많은 칸의 합은 참값에서 멂",
    "every count within K + K/2 of the truth": "모든 빈도가 참값의 1.5K 이내",
    "many tables together prove small counts; does not add up": "많은 표가 함께 작은 빈도를 증명함; 합계가 맞지 않음",
    "proves no small count, from any number of tables; adds up; within a bound when first published":
        "표가 아무리 많아도 작은 빈도를 증명하지 않음; 합계가 맞음; 첫 공표에서는 한도 이내",
    "promises nothing about probabilities, or against an attacker who knows true counts from elsewhere":
        "확률이나 외부의 참값을 아는 사람에 대해서는 보장하지 않음",
    "the same people give the same number in every table; small changes with a known limit":
        "같은 사람들은 모든 표에서 같은 수가 됨; 한도가 알려진 작은 변동",
    "many tables together narrow counts down; does not add up": "많은 표가 함께 빈도의 범위를 좁힘; 합계가 맞지 않음",
    "simple; nothing from 1 to base - 1 is published; each count within the base":
        "단순함; 1부터 기준-1까지는 공표되지 않음; 모든 빈도가 기준 이내",
    "tables that overlap narrow counts down; sums hold only if all are rounded together":
        "겹치는 표가 빈도의 범위를 좁힘; 함께 반올림할 때만 합계가 맞음",
    "adds up; nothing from 1 to base - 1 is published; proves little": "합계가 맞음; 1부터 기준-1까지는 공표되지 않음; 거의 증명하지 않음",
    "no bound on how far a sum may lie from the truth; later tables need the same cells":
        "합이 참값에서 벗어나는 한도가 없음; 나중의 표도 같은 칸이 필요함",
    "what is published is exact": "공표된 값은 정확함",
    "many blanks; small cells remain visible; tables made separately undo each other":
        "공란이 많음; 작은 칸임이 드러남; 따로 만든 표들이 서로를 무력화함",
    "bounds what anybody learns from one person's record, whatever they know; proves nothing":
        "무엇을 알든 한 사람의 기록에서 알 수 있는 것을 제한함; 아무것도 증명하지 않음",
    "no limit to the error; empty cells fill up; epsilons add up over everything published":
        "오차에 한도가 없음; 빈 칸이 채워짐; 엡실론은 공표할수록 더해짐",
}  # fmt: skip
ENGLISH = {
    "disclosed": "proven", "aggregates disclosed": "aggregates proven", "aggregates exactly": "aggregates proven exactly"
}  # fmt: skip
"""words of reports that differ from those of the pages"""


def said(text: str, lang: str) -> str:
    """A sentence of ours in a language; one that is not ours, such as a label, stays as it is.

    >>> said("finest cells truly in 1..4", "ko")
    '참값이 1~4인 최세분 칸'
    """
    text = " ".join(str(text).split())
    if lang != "ko":
        return ENGLISH.get(text, text)
    if text in WORDS:
        return WORDS[text]
    for pattern, words in _patterns():
        found = pattern.fullmatch(text)
        if found:
            return words.format(*(said(part, lang) for part in found.groups()))
    return text


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """Sentences with values: whole sentences before their parts, the longest first."""
    open_ones = sorted((one for one in WORDS if "{}" in one), key=lambda one: (not one.endswith("."), -len(one)))
    return [(re.compile("(.+?)".join(map(re.escape, one.split("{}")))), WORDS[one]) for one in open_ones]
