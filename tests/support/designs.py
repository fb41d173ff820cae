"""Designs of every shape."""

from __future__ import annotations

from hypothesis import strategies as st

from ilba import Design
from ilba.design.design import RESERVED

NAMES = st.one_of(
    st.sampled_from(["all", "a.b", "a+b", "a/b", "%61ll", "..", "시도", "a b", "1", "~", "All"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4),
).filter(lambda name: name not in {*RESERVED, "*"} and not name.isdecimal() and (name[:1], name[-1:]) != ("^", "$"))
"""names of columns: those that a file system or an address would take amiss, and any others"""


@st.composite
def designs(draw):
    """One or two hierarchies of one to three levels, up to three keys, any names."""
    names = draw(st.lists(NAMES, min_size=2, max_size=8, unique=True))
    depths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    hkey = {}
    for number, depth in enumerate(depths):
        columns = [names.pop() for _ in range(min(depth, len(names)))]
        if columns:
            hkey[f"hierarchy {number}"] = columns
    return Design.of(hkey, names[:3], draw(st.integers(3, 12)), draw(st.sampled_from(["observed", "grid"])))
