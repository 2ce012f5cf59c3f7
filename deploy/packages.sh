#!/usr/bin/env bash
# Installs the Debian packages that embps needs, only those that are missing. usage: packages.sh [build] [test]
# build: to build and run. test: also what the tests and the sanitizer builds need.
set -euo pipefail

BUILD=(ca-certificates cmake ninja-build ccache g++ pkg-config
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libhwy-dev libcli11-dev libspdlog-dev libfmt-dev libyaml-cpp-dev libxxhash-dev nlohmann-json3-dev)
TEST=(git python3 python3-venv libgtest-dev libgmock-dev
  clang-16 clang-format-16 clang-tidy-16 libclang-rt-16-dev llvm-16)

wanted=()
for group in "${@:-build}"; do
  case "$group" in
    build) wanted+=("${BUILD[@]}") ;;
    test) wanted+=("${TEST[@]}") ;;
    *) echo "packages.sh: unknown group '$group'" >&2; exit 1 ;;
  esac
done

missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "packages.sh: run as root, or install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
