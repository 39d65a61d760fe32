"""This is where a proof is made for a page: what it came to is told, also where it could not be made to its end."""

import time

from pyspark.sql import SparkSession

from pipelines.proof.link import Link
from pipelines.proof.prove import Proof
from pipelines.report.collect import now_ms, why
from pipelines.report.facts import ProofFacts
from pipelines.survey import Survey

LEFT_OUT = ProofFacts("left out")


def prove(chain: Survey, spark: SparkSession) -> ProofFacts:
    """Follow every link that no earlier proof covers; see `pipelines.proof.prove`."""
    began, links, said = time.monotonic(), list[Link](), ""
    proof = Proof(chain, spark)
    try:
        for link in proof.links():
            links.append(link)
    except Exception as error:
        said = why(error)
    seconds = round(time.monotonic() - began, 1)
    return ProofFacts("not possible" if said else "made", now_ms(), seconds, proof.lines, tuple(links), said)
