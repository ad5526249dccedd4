#!/bin/sh
# Makes the role and the database of Rondo. The image of PostgreSQL runs this file once, when its volume is empty.
#
# The superuser would pass by the policies that separate users, so Rondo has a role of its own.
set -eu

psql --no-psqlrc --set=ON_ERROR_STOP=1 --set=password="$STORE_PASSWORD" \
    --username="${POSTGRES_USER:-postgres}" --dbname=postgres <<'SQL'
CREATE ROLE rondo LOGIN PASSWORD :'password';
CREATE DATABASE rondo OWNER rondo;
\connect rondo
CREATE EXTENSION vector;
SQL
