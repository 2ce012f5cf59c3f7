#!/usr/bin/env bash
# Installs what the tests need, builds with warnings as errors and passes all tests.
# usage: test.sh [lint] [release] [asan] [tsan]   (default: lint release; the others are the sanitizer builds)
set -euo pipefail
cd "$(dirname "$0")/.."

phase_start=0 phase_name=""
phase() {
  [ -z "$phase_name" ] || echo "== $phase_name took $((SECONDS - phase_start)) s"
  phase_name=$1 phase_start=$SECONDS
  [ -z "$1" ] || echo "== $1"
}

passed=0 failed=0
count() {  # adds up ctest's closing line: "97% tests passed, 1 tests failed out of 40"
  local line
  line=$(grep -E 'tests passed, [0-9]+ tests failed out of [0-9]+' "$1" | tail -n 1)
  local bad=${line#*tests passed, } all=${line##*out of }
  bad=${bad%% *}
  failed=$((failed + bad)) passed=$((passed + all - bad))
}

run_preset() {
  phase "build $1"
  cmake --preset "$1" -DBUILD_TESTING=ON >/dev/null
  cmake --build --preset "$1"
  phase "test $1"
  local log status=0
  log=$(mktemp)
  ctest --preset "$1" --no-tests=error -j "$(nproc)" >"$log" 2>&1 || status=$?
  grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test .* Passed)' "$log" || true
  count "$log"
  rm -f "$log"
  [ "$status" -eq 0 ] || result=1
}

result=0
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(lint release)
phase packages
deploy/packages.sh build test
tests/support/make_venv.sh
for step in "${steps[@]}"; do
  case "$step" in
    lint) phase lint; tests/tidy/lint.sh ;;
    release | asan | tsan) run_preset "$step" ;;
    *) echo "test.sh: unknown step '$step'" >&2; exit 1 ;;
  esac
done
phase ""
echo "$passed passed, $failed failed"
exit "$result"
