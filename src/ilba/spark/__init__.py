"""The same finest table and the same numbers on Spark, where the data is.

Nothing that grows with the records or with the finest table comes to the driver. Only these do: the code lists, the
sums of tables of up to a million cells, and published tables, piece by piece. The code uses nothing that Spark Connect
lacks.
"""

from ilba.spark.finest import SparkFinestTable
from ilba.spark.records import SparkMicrodata, check_names
from ilba.spark.saving import free_place
from ilba.spark.sessions import read, session
from ilba.spark.table import SparkTable

__all__ = [
    "SparkFinestTable",
    "SparkMicrodata",
    "SparkTable",
    "check_names",
    "free_place",
    "read",
    "session",
]
