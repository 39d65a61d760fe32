#!/bin/sh
# Send a Java service's log to Kafka, count its exceptions, serve them from a database, and prove all of it. If you name
# no broker, one is started for it; if you name no database, the counts are served from SQLite, in data/served.db.
set -eu
cd "$(dirname "$0")"
[ -n "${ONCELAKE_SOURCE__BOOTSTRAP_SERVERS:-}" ] || exec python3 broker.py sh run.sh
export ONCELAKE_SERVING__URL="${ONCELAKE_SERVING__URL:-sqlite:///data/served.db}"
python3 make.py data
oncelake serving init -c conf.yaml
oncelake run --once -c conf.yaml
oncelake prove -c conf.yaml
