#!/bin/sh
# Makes the namespace where it is missing. The server accepts connections some time before it serves.
set -eu
until temporal operator cluster health; do sleep 2; done
temporal operator namespace describe --namespace "$NAMESPACE" ||
  temporal operator namespace create --namespace "$NAMESPACE" --retention 168h
