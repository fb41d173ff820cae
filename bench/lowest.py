"""Print the lowest versions that pyproject.toml names, as constraints for pip: `make lowest` installs and tests them.

Test tools are left out, because users do not install them.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def main() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = [
        *project["dependencies"],
        *(one for extra in extras if extra not in ("all", "dev") for one in extras[extra]),
    ]
    floors = dict(re.match(r"([\w-]+)(?:\[\w+\])?>=([\w.]+)", one).groups() for one in named)
    print(*(f"{name}=={version}" for name, version in sorted(floors.items())), sep="\n")


if __name__ == "__main__":
    main()
