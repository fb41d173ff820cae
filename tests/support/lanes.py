"""Which tests run in one process, and which begin first, where several processes run them."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

LONGEST = (
    "tests/spark/test_spark.py::test_two_workers",  # starts Javas of its own
    "tests/spark/",
    "tests/service/page/",
    "tests/service/test_hostile.py",
    "tests/service/",
    "tests/attack/",
    "tests/project/test_docs.py::test_every_block",
    "tests/project/test_docs.py",
    "tests/project/",
    "tests/cli/",
)
"""beginnings of the names of tests that take long; the first that fits a test counts"""

TOGETHER = {"tests/spark/", "tests/service/page/", "tests/service/", "tests/attack/"}
"""those that share a Java, a browser, a server or an audit"""

APART = {"tests/project/test_docs.py::test_every_block"}
"""those that share nothing with the test beside them"""


def lane(nodeid: str) -> str:
    """The name of what a test is handed out with."""
    place = _place(nodeid)
    begins = LONGEST[place] if place < len(LONGEST) else ""
    if begins in TOGETHER:
        return begins
    return nodeid if begins in APART else nodeid.partition("::")[0]


def _place(nodeid: str) -> int:
    return next((place for place, begins in enumerate(LONGEST) if nodeid.startswith(begins)), len(LONGEST))


class Lanes(LoadScopeScheduling):
    """Hand out the tests of a file together, since what its fixtures make is made once in a process."""

    def __init__(self, config, log=None):
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid):
        return lane(nodeid)

    def _assign_work_unit(self, node):
        longest = min(self.workqueue, key=lambda scope: _place(next(iter(self.workqueue[scope]))))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)
