#!/bin/sh
# Send a Java service's log to Kafka, count its exceptions, serve them from MySQL, and prove all of it.
set -eu
cd "$(dirname "$0")"
: "${ONCELAKE_SOURCE__BOOTSTRAP_SERVERS:?set it to your broker, such as broker1:9092}"
: "${ONCELAKE_SERVING__URL:?set it to your database, such as mysql+pymysql://user:password@db.example/shop}"
python3 make.py data
oncelake serving init -c conf.yaml
oncelake run --once -c conf.yaml
oncelake prove -c conf.yaml
