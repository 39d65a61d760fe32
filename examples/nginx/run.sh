#!/bin/sh
# Make an access log, count it, prove the counts, and write the dashboard to data/dashboard.html.
set -eu
cd "$(dirname "$0")"
python3 make.py data
oncelake run --once -c conf.yaml
oncelake prove -c conf.yaml
oncelake report -c conf.yaml -o data/dashboard.html
