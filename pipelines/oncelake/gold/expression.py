"""Turn the text of a gold declaration into a column, with the functions that give NULL where others throw.

A line on which an expression throws would end every run. Where Spark has a `try_` form of a function, with the same
arguments and the same answer wherever there is one, the form is used in its place; the declaration stays as it is
written, and so does the table that was built by it. `oncelake.gold.throwing` refuses what is left.
"""

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

TRY_FORMS = ("aes_decrypt", "parse_json", "to_binary", "url_decode", "validate_utf8", "variant_get")

# What is quoted comes first, so that a name inside it is passed over.
_CALL = re.compile(
    rf"""(?P<passed> r'[^']*' | r"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | --[^\n]* | /\*.*?\*/ )
    | \b(?P<name> {"|".join(TRY_FORMS)} ) (?= `? \s* \( )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


def column(text: str) -> Column:
    """Return the column that a declaration's expression stands for."""
    return F.expr(with_try_forms(text))


def with_try_forms(text: str) -> str:
    """Replace each call of a function that has a `try_` form by that form."""
    return _CALL.sub(lambda found: found["passed"] or f"try_{found['name']}", text)
