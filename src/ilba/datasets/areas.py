"""The areas of the synthetic city and their map.

The layout is fixed, the same for every size and seed, so that code lists and maps always fit the records.
"""

from __future__ import annotations

from functools import cache
from math import atan2, cos, hypot, pi, sin

OAS_PER_LA3 = (
    (40, 30, 26, 39, 28, 36, 36, 24, 32, 19, 39, 22, 28, 33, 38, 32),
    (40, 36, 39, 25, 25, 24, 21, 29, 27, 32, 36, 32, 32, 26, 39, 25, 32),
    (44, 24, 37, 31, 14, 31, 27, 19, 38, 27, 25, 19, 37, 41, 58, 27, 39, 40, 19, 50, 13, 35, 42),
    (30, 37, 47, 26, 23, 53, 48, 37, 20, 15),
    (31, 33, 52, 32, 18, 35, 37, 30, 30, 32, 31, 50),
)
"""Output areas (OA) of each town (LA3), district (LA2) by district; those the paper prints are among them."""

# The first district is the centre; the others follow around it, counter-clockwise from here on. Their numbers:
# 2 is the eastern district, 5 the northern, 3 the western, 4 the southern.
ROUND_THE_CENTRE = (1, 4, 2, 3)
FIRST_ANGLE = -0.85

CENTRE = (127.0, 36.5)
STEP = (0.00097, 0.00045)  # degrees of longitude and latitude; hexagons of about 170 m across

Tile = tuple[int, int]
"""A hexagon: its column and row in axial coordinates."""


def area_codes(city: str = "01") -> list[tuple[str, str, str, str]]:
    """LA1, LA2, LA3 and OA of every output area, in order of code.

    >>> area_codes()[0], len(area_codes())
    (('01', '0101', '010101', '01010101'), 2506)
    """
    codes = []
    for district, towns in enumerate(OAS_PER_LA3, start=1):
        la2 = f"{city}{district:02d}"
        for town, blocks in enumerate(towns, start=1):
            la3 = f"{la2}{town:02d}"
            codes += [(city, la2, la3, f"{la3}{block:02d}") for block in range(1, blocks + 1)]
    return codes


def outlines(level: int) -> dict[str, list[tuple[float, float]]]:
    """Code of each area of a level, 1 to 4 -> its outline.

    An outline is a closed counter-clockwise ring of (longitude, latitude).
    """
    tiles: dict[str, list[Tile]] = {}
    for codes, tile in zip(area_codes(), _tiles(), strict=True):
        tiles.setdefault(codes[level - 1], []).append(tile)
    return {code: [_position(corner) for corner in _outline(members)] for code, members in tiles.items()}


@cache
def _tiles() -> tuple[Tile, ...]:
    """The hexagon of every output area, in order of code."""
    sizes = [sum(towns) for towns in OAS_PER_LA3]
    reach = 40
    every = [(q, r) for q in range(-reach, reach + 1) for r in range(-reach, reach + 1)]
    city = sorted(every, key=lambda tile: hypot(*_centred(tile)))[: sum(sizes)]
    districts = {0: city[: sizes[0]]}
    around = sorted(city[sizes[0] :], key=_angle)
    for district in ROUND_THE_CENTRE:
        districts[district], around = around[: sizes[district]], around[sizes[district] :]
    tiles: list[Tile] = []
    for district, towns in enumerate(OAS_PER_LA3):
        for town in _split(districts[district], towns):
            # Blocks are numbered from north to south, and from west to east.
            tiles += sorted(town, key=lambda tile: (-tile[1], tile[0]))
    return tuple(tiles)


def _centred(tile: Tile) -> tuple[float, float]:
    """Position of a hexagon; the odd shift avoids equal distances from the centre and equal angles."""
    q, r = tile
    return 3**0.5 * (q + r / 2) + 0.2137, 1.5 * r + 0.1091


def _angle(tile: Tile) -> float:
    x, y = _centred(tile)
    return (atan2(y, x) - FIRST_ANGLE) % (2 * pi)


def _split(tiles: list[Tile], sizes: tuple[int, ...]) -> list[list[Tile]]:
    """Cut a connected set of hexagons into connected parts of these sizes, across its longest side."""
    if len(sizes) == 1:
        return [tiles]
    half = len(sizes) // 2
    first = sum(sizes[:half])
    places = [(*_centred(tile), tile) for tile in tiles]
    cuts = []
    for step in range(24):
        angle = step * pi / 12 + 0.05
        along = sorted((x * cos(angle) + y * sin(angle), tile) for x, y, tile in places)
        cuts.append((along[0][0] - along[-1][0], [tile for _, tile in along]))
    for _, order in sorted(cuts):
        if _connected(order[:first]) and _connected(order[first:]):
            return _split(order[:first], sizes[:half]) + _split(order[first:], sizes[half:])
    raise AssertionError(f"no straight cut leaves {sizes} connected")


def _connected(tiles: list[Tile]) -> bool:
    waiting = set(tiles)
    reached = [waiting.pop()]
    while reached:
        q, r = reached.pop()
        near = {(q + 1, r), (q - 1, r), (q, r + 1), (q, r - 1), (q + 1, r - 1), (q - 1, r + 1)} & waiting
        waiting -= near
        reached += near
    return not waiting


def _outline(tiles: list[Tile]) -> list[Tile]:
    """The closed outline of a connected set of hexagons without holes, as corners on a grid of whole numbers.

    An edge between two members occurs in both directions and cancels. At a corner only three hexagons meet, so the
    remaining edges form one simple ring.
    """
    edges: set[tuple[Tile, Tile]] = set()
    for q, r in tiles:
        x, y = 2 * q + r, 3 * r
        corners = [(x + 1, y - 1), (x + 1, y + 1), (x, y + 2), (x - 1, y + 1), (x - 1, y - 1), (x, y - 2)]
        for edge in zip(corners, corners[1:] + corners[:1], strict=True):
            if edge[::-1] in edges:
                edges.remove(edge[::-1])
            else:
                edges.add(edge)
    following = dict(edges)
    ring = [min(following)]
    while ring[-1] in following:
        ring.append(following.pop(ring[-1]))
    if following:
        raise AssertionError("an area of the layout is in pieces or has a hole")
    return ring


def _position(corner: Tile) -> tuple[float, float]:
    return round(CENTRE[0] + STEP[0] * corner[0], 6), round(CENTRE[1] + STEP[1] * corner[1], 6)
