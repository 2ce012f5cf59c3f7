#!/usr/bin/env bash
# The quick start on a finished build: it trains, every rank serves, frozen tables do worse, it stops what it started.
# usage: quickstart_test.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/../.."
export EMBPS_BUILD=$1 EMBPS_RANKS=2
flags=(--steps=150 --batch_size=1024 --size_factor=0.05 --learning_rate=0.1)

fail() { echo "quickstart_test: $*" >&2; exit 1; }
auc() { sed -n "s/^$1 *held-out AUC \([0-9.]*\).*/\1/p" <<<"$2"; }

trained=$(deploy/quickstart.sh "${flags[@]}")
echo "$trained"
frozen=$(deploy/quickstart.sh "${flags[@]}" --freeze_embeddings)
for node in 0 1; do
  for rank in 0 1; do
    grep -qE "^node $node rank $rank served [1-9][0-9]* ids" <<<"$trained" ||
      fail "node $node rank $rank served nothing"
  done
done
awk -v trained="$(auc trained "$trained")" -v planted="$(auc planted "$trained")" -v frozen="$(auc trained "$frozen")" \
  'BEGIN { print "trained", trained, "planted", planted, "frozen", frozen
           exit !(trained > frozen + 0.05 && planted > 0.75 && planted < 0.85 && trained < planted + 0.01) }' ||
  fail "AUCs are not as announced"
