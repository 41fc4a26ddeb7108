#!/bin/sh
# Builds the renderer as the program named by the only argument. Needs Go and, from Debian:
# golang-github-masterminds-sprig-dev golang-github-masterminds-semver-dev golang-github-gobwas-glob-dev
# golang-github-xeipuuv-gojsonschema-dev golang-k8s-sigs-yaml-dev
# Nothing is downloaded: the libraries are sources below GOPATH, where the packages put them.
set -eu
program=$(realpath -m "$1")
cd "$(dirname "$0")"
mkdir -p "$(dirname "$program")"
GO111MODULE=off GOFLAGS= GOPATH=${STERNA_GOPATH:-/usr/share/gocode} CGO_ENABLED=0 go build -p 2 -trimpath -o "$program" .
