"""This is where a proof is made for a page: what it came to is told, also where it could not be made to its end."""

import time

from pyspark.sql import SparkSession

from oncelake.engine.chain import Chain
from oncelake.observe.report.collect import now_ms, why
from oncelake.observe.report.facts import ProofFacts
from oncelake.proof.link import Link
from oncelake.proof.prove import Proof

LEFT_OUT = ProofFacts("left out")


def prove(chain: Chain, spark: SparkSession) -> ProofFacts:
    """Follow every link that no earlier proof covers; see `oncelake.proof.prove`."""
    began, links, said = time.monotonic(), list[Link](), ""
    proof = Proof(chain, spark)
    try:
        for link in proof.links():
            links.append(link)
    except Exception as error:
        said = why(error)
    seconds = round(time.monotonic() - began, 1)
    return ProofFacts("not possible" if said else "made", now_ms(), seconds, proof.lines, tuple(links), said)
