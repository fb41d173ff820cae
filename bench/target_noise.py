"""Noise in the target: its cost in loss, and what it takes from an insider who knows every count except one.

    python bench/target_noise.py                     200,000 people, LA1 to LA3 by three keys, twelve secrets
    python bench/target_noise.py --keys 4            by four keys
    python bench/target_noise.py --shares 0,0.2,1    other shares of small cells whose target is shifted by one

Each row is a mean over the secrets. "balanced" is what the package does: the noise of every sum is kept near 0. "one by
one" draws the noise of each cell independently, for comparison. Loss is over counts truly above 0 in all tables except
the finest; "LA1" is that of the coarsest level. The insider's figure is the share of small cells that the attacker
'insider' of `ilba.risk` believes small with more than 95 %, and how often that is right.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import ilba
from ilba.methods.controlled import noise as target

AREAS = ["LA1", "LA2", "LA3"]
KEYS = ["gender", "age", "mar", "edu", "htype"]
WAYS = {"balanced": target.HEAT, "one by one": 2**20}


def row(finests: list[ilba.FinestTable], secrets: list[ilba.Secret], share: float, way: str) -> str:
    """What comes out with one share of noise, over all secrets."""
    target.HEAT = WAYS[way]
    loss, coarse, largest, over, likely, right, proven = [], [], [], [], [], [], []
    began, last = time.process_time(), 0.0
    for finest, secret in zip(finests, secrets, strict=True):
        clock = time.process_time()
        chosen = finest.controlled(levels=[1, 2, 3], secret=secret, noise=share)
        last += time.process_time() - clock
        own = ".".join((AREAS[-1], *finest.design.keys))
        found = {"LA1": [], "rest": []}
        for table in chosen.cube(levels=[1, 2, 3]):
            off = np.abs(table.detail["loss"].to_numpy()[table.detail["N"].to_numpy() > 0])
            if table.selection.name != own:
                found["LA1" if table.selection.levels[0] == 1 else "rest"].append(off)
        every = np.concatenate([*found["LA1"], *found["rest"]])
        loss.append(every.mean())
        coarse.append(np.concatenate(found["LA1"]).mean())
        largest.append(every.max())
        over.append((every > 7).mean())
        insider = ilba.risk(chosen, [ilba.Insider(secrets=0)], levels=[1, 2, 3]).rows.row(0, named=True)
        likely.append(insider["likely_share"])
        right.append(insider["likely_right"])
        proven.append(insider["proven"] / insider["small"])
    return (
        f"{share:>5.2f}  {way:<11}{np.mean(loss):>7.3f}{np.mean(coarse):>7.2f}{np.mean(largest):>7.1f}{max(largest):>5}"
        f"{100 * np.mean(over):>8.2f} %{100 * np.mean(likely):>7.1f} % ({100 * min(likely):.1f} to "
        f"{100 * max(likely):.1f}), right {np.mean(right):.3f}{100 * np.mean(proven):>7.1f} %"
        f"{last / len(secrets):>7.1f} s of {(time.process_time() - began) / len(secrets):.1f} s"
    )


def main() -> None:
    """Print the curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=3)
    parser.add_argument("--people", type=int, default=200_000)
    parser.add_argument("--secrets", type=int, default=12)
    parser.add_argument("--shares", default="0,0.1,0.2,0.4,1")
    given = parser.parse_args()
    warnings.simplefilter("ignore", ilba.Notice)
    people = ilba.datasets.census(given.people)
    secrets = [ilba.Secret(bytes([number + 1]) * 32) for number in range(given.secrets)]
    finests = [ilba.build(people, AREAS, KEYS[: given.keys], 5, secret=one, cells="grid") for one in secrets]
    print("share  noise         loss    LA1  largest: mean, of all; over 7; insider P > .95 (of secrets); proven")
    for share in map(float, given.shares.split(",")):
        for way in WAYS if share else ["balanced"]:
            print(row(finests, secrets, share, way), flush=True)


if __name__ == "__main__":
    main()
