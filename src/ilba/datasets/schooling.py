"""Education in the synthetic census: an ordered probit for adults, the school calendar for the young."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NONE, ELEMENTARY, MIDDLE, HIGH, COLLEGE, UNIVERSITY, MASTER, DOCTOR, NOT_STATED = range(1, 10)

SHARE_NOT_STATED = 0.0007

# Highest school attended, roughly per thousand: a line per age group from 21-25 to over 85, a column each for
# none, elementary, middle, high school, college, university, master, doctor. Plausible, not sourced.
SCHOOLING = (
    (  # men
        (0.3, 0.8, 3, 160, 220, 610, 6, 0),
        (0.3, 0.8, 4, 220, 250, 460, 60, 4),
        (0.3, 1, 6, 260, 240, 400, 80, 13),
        (0.5, 2, 10, 320, 200, 360, 80, 28),
        (1, 6, 25, 400, 140, 320, 75, 33),
        (2, 20, 60, 450, 90, 280, 65, 33),
        (4, 50, 110, 440, 60, 240, 60, 36),
        (8, 100, 150, 410, 40, 210, 50, 32),
        (15, 170, 180, 360, 30, 190, 35, 20),
        (30, 250, 190, 310, 20, 170, 20, 10),
        (60, 330, 170, 250, 15, 150, 15, 10),
        (120, 380, 150, 200, 10, 120, 10, 6),
        (200, 400, 120, 160, 8, 100, 6, 3),
        (330, 380, 100, 100, 5, 70, 4, 2),
    ),
    (  # women
        (0.3, 0.8, 2, 110, 260, 610, 12, 0),
        (0.3, 0.8, 3, 190, 300, 440, 62, 2),
        (0.3, 1, 5, 300, 270, 350, 66, 7),
        (0.4, 2, 10, 420, 210, 290, 56, 10),
        (1, 8, 35, 520, 120, 260, 45, 9),
        (3, 40, 110, 540, 60, 200, 34, 7),
        (8, 110, 190, 490, 28, 145, 22, 5),
        (20, 230, 230, 380, 14, 105, 13, 3),
        (50, 360, 220, 270, 8, 72, 8, 2),
        (110, 440, 180, 190, 5, 55, 4, 1),
        (220, 470, 130, 125, 3, 35, 2, 0.4),
        (360, 430, 90, 80, 2, 25, 1, 0.2),
        (500, 360, 60, 50, 1, 18, 0.6, 0.1),
        (640, 270, 40, 30, 0.6, 9, 0.3, 0.05),
    ),
)
FLATTENED = 0.87  # exponent on the table; below 1, rare levels occur at more ages


def _schooling_limits() -> Floats:
    """Sex x age group from 21-25 on -> the seven limits of the education latent."""
    shares = np.array(SCHOOLING) ** FLATTENED
    total = shares.cumsum(axis=-1)
    cumulative = (total[..., :-1] / total[..., -1:]).round(9)
    # A share of 1 means that nobody goes further: the limit is beyond every draw.
    limits = [99.0 if share >= 1 else NormalDist().inv_cdf(share) for share in cumulative.flat]
    return np.array(limits).reshape(cumulative.shape).round(9)


_LIMITS = _schooling_limits()


def education(
    rng: np.random.Generator, latent: Floats, gender: Ints, years: Floats, age: Ints, unrelated: Flags
) -> Ints:
    """Education codes; `latent` is standard normal, higher for areas and households with more schooling."""
    adult = np.clip(age - 5, 0, 13)
    edu = np.full(len(age), NONE, np.int8)
    for limits in np.moveaxis(_LIMITS, -1, 0):
        edu += latent > limits[gender - 1, adult]
    young = np.flatnonzero(age < 5)
    edu[young] = _pupils(rng.random(len(young)), latent[young], years[young])
    edu[(edu == DOCTOR) & (years < 27)] = MASTER
    edu[(edu == MASTER) & (years < 23.5)] = UNIVERSITY
    silent = rng.random(len(age)) < SHARE_NOT_STATED * np.where(unrelated, 4, 1)
    edu[silent & (years >= 15)] = NOT_STATED
    _one_pupil_ahead(years, edu)
    return edu


def _pupils(u: Floats, latent: Floats, years: Floats) -> Ints:
    """School by age up to 20; `u` stands for the birthday within the school year."""
    edu = np.full(len(years), NONE, np.int8)
    edu[years >= 6.2 + 0.5 * u] = ELEMENTARY
    edu[years >= 12.2 + 0.8 * u] = MIDDLE
    edu[years >= 15.2 + 0.8 * u] = HIGH
    graduate = years >= 18.2 + 0.7 * u
    edu[graduate & (latent > -0.9)] = COLLEGE
    edu[graduate & (latent > -0.1)] = UNIVERSITY
    return edu


def _one_pupil_ahead(years: Floats, edu: Ints) -> None:
    """Send the oldest person under 15 to high school, a year early.

    The paper counts 79 combinations of sex, marital status and education: 72 of the persons asked about
    marriage and seven of the younger ones, so one sex has one more level of school than the other.
    """
    oldest = int(np.argmax(np.where(years < 15, years, -1)))
    if 14 <= years[oldest] < 15:
        edu[oldest] = HIGH
