#!/bin/sh
# Brings Temporal's two databases to the schema of this image's version. The marks keep the first step from running twice.
set -eu
for name in temporal visibility; do
  database=temporal
  [ "$name" = visibility ] && database=temporal_visibility
  tool="temporal-sql-tool --plugin postgres12 --endpoint postgres --port 5432 --user temporal --database $database"
  if [ ! -e "/marks/$name" ]; then
    $tool setup-schema --version 0.0
    touch "/marks/$name"
  fi
  $tool update-schema --schema-dir "/etc/temporal/schema/postgresql/v12/$name/versioned"
done
