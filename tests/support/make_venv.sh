#!/usr/bin/env bash
# The Python packages that tests use, in build/venv: plain gRPC as a foreign client, buf for the contract's lint.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/venv
stamp=$venv/.installed
packages="grpcio grpcio-tools numpy buf-bin"
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$packages" ] && exit 0
mkdir -p build
python3 -m venv "$venv"
# shellcheck disable=SC2086
"$venv/bin/pip" install -q --disable-pip-version-check $packages
echo "$packages" >"$stamp"
