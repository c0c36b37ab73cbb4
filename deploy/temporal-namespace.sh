#!/bin/sh
# Makes the namespace where it is missing, and waits until it is there. The server accepts connections some time before
# it serves, and knows a new namespace some time after it made it.
set -eu
exists() { temporal operator namespace describe --namespace "$NAMESPACE"; }

until temporal operator cluster health; do sleep 2; done
exists || temporal operator namespace create --namespace "$NAMESPACE" --retention 168h || true
tries=30
until exists; do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || exit 1
  sleep 2
done
