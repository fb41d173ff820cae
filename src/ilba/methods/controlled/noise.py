"""Noise in the target: masks are chosen for counts, a declared share of which is shifted by one.

Jointly chosen masks pull the errors of sums to 0. So an attacker who knows every count except one can guess that count
from the sums around it. With noise, sums are pulled to a target that is shifted by one for some of the small cells. A
keyed chance selects these cells, and a walk selects the direction so that the noise of every sum stays near 0. So noise
does not add up in large sums, yet a cell goes up or down with even odds. A table without small cells has no noise.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.methods.controlled.kernels import BITS, CHANCES, compiled, mixed
from ilba.methods.controlled.sets import Sets

Noise: TypeAlias = npt.NDArray[np.int8]

HEAT = 20
"""How freely a cell moves with the noise that its sums already have, on average; tuned by trial."""
_SALT = np.uint64(0xD1B54A32D192ED03)


def target_noise(
    sets: Sets, small: npt.NDArray[np.bool_], number: npt.NDArray[np.uint64], share: float, thresholds: Any
) -> Noise:
    """The shift of each cell's target in a block: plus or minus one for a share of the small cells, otherwise 0."""
    noise: Noise = _walk(sets.ptr, sets.sets, sets.n_sets, small, number, round(share * CHANCES), HEAT, thresholds)
    return noise


@compiled
def _walk(ptr: Any, sets: Any, n_sets: int, small: Any, number: Any, share: int, heat: int, threshold: Any) -> Any:
    """Move cell by cell, up or down with even odds, shifted against the noise that the cell's sets already have."""
    noise = np.zeros(len(number), np.int8)
    total = np.zeros(n_sets, np.int32)
    for j in range(len(number)):
        h = mixed(number[j] ^ _SALT)
        if not small[j] or np.int64(h >> np.uint64(52)) >= share:
            continue
        so_far = np.int64(0)
        for i in range(ptr[j], ptr[j + 1]):
            so_far += total[sets[i]]
        drawn = np.int64(h >> np.uint64(40)) & (CHANCES - 1)
        odds = threshold[CHANCES - 1 - drawn] - threshold[drawn]  # a logistic random number
        up = (4 * so_far) << BITS < odds * heat * max(ptr[j + 1] - ptr[j], 1)
        noise[j] = 1 if up else -1
        for i in range(ptr[j], ptr[j + 1]):
            total[sets[i]] += np.int32(noise[j])
    return noise
