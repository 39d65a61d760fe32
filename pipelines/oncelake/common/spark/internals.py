"""Which of oncelake's Java classes a Spark lacks, or cannot run because it has other internals, and what that costs."""

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from oncelake.common.explain import cause_of
from oncelake.common.spark import compiled, first_use
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.prepared import why_not_prepared
from oncelake.common.spark.runtime import has_class, is_given, on_databricks
from oncelake.common.spark.wake import why_not_woken

_NAMED = tuple(name for name, without in compiled.CLASSES.items() if without)


def missing_classes() -> list[str]:  # guard: missing-internals-warned
    """Return a warning for each of our classes that a run of this process goes on without: why, and the cost.

    One warning for all of them if they are not compiled, or not in a given session. Nothing is started: before the
    first use, and before a given Spark has a session, nothing is known.
    """
    if is_given():
        spark = SparkSession.getActiveSession()
        return [] if spark is None else _missing_in(spark)
    why = first_use.why_not_compiled()
    if why is not None:
        return [_of_all(f"could not be compiled ({why})", "To try again: python -m oncelake.set_up")]
    left_out = compiled.left_out() if compiled.is_here() else {}
    return [_warning(name, left_out[name]) for name in _NAMED if name in left_out]


def _missing_in(spark: SparkSession) -> list[str]:
    present = [name for name in _NAMED if has_class(spark, f"oncelake.{name}")]
    if not present:
        way = f"Start it with --jars {compiled.jar()}, which python -m oncelake.set_up writes"
        return [] if on_databricks() else [_of_all("are not in this Spark session", way)]
    absent = {name: "this session does not have it" for name in _NAMED if name not in present}
    unfit = {name: why for name in present if (why := _why_unfit(spark, name)) is not None}
    return [_warning(name, why) for name, why in (absent | unfit).items()]


def _why_unfit(spark: SparkSession, name: str) -> str | None:
    """Return why a session cannot run a class of ours that it has; None if nothing is known against it."""
    loader = jvm(spark).java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(f"oncelake.{name}").getDeclaredMethods()  # their types are looked up
    except Py4JError as error:
        return cause_of(error)
    if name == "PreparedPlan":
        return why_not_prepared(spark)
    return why_not_woken(spark) if name == "WakeableClock" else None


def _warning(name: str, why: str) -> str:
    return f"oncelake's Java class {name} is not used ({why}): {compiled.CLASSES[name]}"


def _of_all(why: str, remedy: str) -> str:
    without = "; ".join(compiled.CLASSES[name] for name in _NAMED)
    return f"oncelake's Java classes {why}. Without them: {without}. {remedy}"
