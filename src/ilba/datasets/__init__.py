"""The synthetic census that examples, tests and benchmarks use: its records, code list and map."""

from ilba.datasets.census import census, census_codes, census_geometry, census_parts
from ilba.datasets.stand_ins import stand_ins

__all__ = ["census", "census_codes", "census_geometry", "census_parts", "stand_ins"]
