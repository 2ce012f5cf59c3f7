#!/usr/bin/env bash
# What needs no build: formatting, the contract's lint, structure rules.
set -euo pipefail
cd "$(dirname "$0")/../.."
git ls-files '*.h' '*.cc' | xargs clang-format-16 --dry-run --Werror
(cd proto && ../build/venv/bin/buf lint)
python3 tests/tidy/structure_test.py
