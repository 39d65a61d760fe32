"""The command: thousands of sequences, one seed again, or the steps of a file."""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from pipelines.session import build, java_output_to
from pipelines.settings import SparkSettings
from tests.chaos.draw import draw
from tests.chaos.game import play
from tests.chaos.shrink import shrunk
from tests.chaos.steps import parsed, spelled

if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("-n", type=int, default=1)
    p.add_argument("--steps", type=Path)
    p.add_argument("--shrink", type=float, default=0)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as d:
        with java_output_to(Path(d) / "log"):
            spark = build(SparkSettings(master="local[2]", driver_memory="2g"), app="chaos")
        spark.sparkContext.setLogLevel("OFF")
        counts = Counter()
        bad = 0
        def go(steps, n=[0]):
            n[0] += 1
            return play(steps, Path(d) / f"s{n[0]}", spark)
        t0 = time.time()
        for seed in range(a.seed, a.seed + a.n):
            steps = parsed(a.steps.read_text()) if a.steps else draw(seed)
            t = time.time()
            r = go(steps)
            counts += r.counts
            print(seed, len(steps), f"{time.time()-t:.1f}s", "BROKEN" if r.broken else "ok", flush=True)
            if r.broken:
                bad += 1
                if a.shrink:
                    r = shrunk(r, go, a.shrink)
                print(r, flush=True)
            elif a.n == 1:
                print("\n".join(r.log))
        print(bad, "broken", f"{time.time()-t0:.0f}s", dict(counts))
        spark.stop()
