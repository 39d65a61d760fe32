#!/bin/sh
# Write the logs of a cluster's pods, count them by service, and prove the counts.
set -eu
cd "$(dirname "$0")"
python3 make.py data
oncelake run --once -c conf.yaml
oncelake prove -c conf.yaml
