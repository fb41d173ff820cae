"""The synthetic census that examples, tests and benchmarks use: its records, code list and map."""

from ilba.datasets.census import census, census_codes, census_geometry, census_parts

__all__ = ["census", "census_codes", "census_geometry", "census_parts"]
