#!/bin/sh
# Runs once, on an empty PostgreSQL: a role and its own databases for Temporal, and for Counterfoil.
set -eu
psql --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
  --set temporal="$TEMPORAL_DB_PASSWORD" --set counterfoil="$COUNTERFOIL_DB_PASSWORD" <<'SQL'
CREATE ROLE temporal LOGIN PASSWORD :'temporal';
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;
CREATE ROLE counterfoil LOGIN PASSWORD :'counterfoil';
CREATE DATABASE counterfoil OWNER counterfoil;
SQL
