#!/usr/bin/env bash
# Installs, builds, starts two shard servers on loopback, trains a click model against them, shows the servers'
# statistics and stops everything. usage: quickstart.sh [flags of click_model ...], such as --steps=500 or --data=FILE
# EMBPS_BUILD: a finished build folder to use instead of installing and building. EMBPS_RANKS: ranks per server (1).
set -euo pipefail
cd "$(dirname "$0")/.."

build=${EMBPS_BUILD:-}
if [ -z "$build" ]; then
  build=build/release
  deploy/packages.sh build
  echo "building (some minutes the first time) ..."
  cmake --preset release -DBUILD_TESTING=OFF -DEMBPS_BENCH=OFF >/dev/null
  cmake --build --preset release --target embps-server click_model embpsctl
fi

run=$(mktemp -d)
servers=()
stop() {
  for pid in "${servers[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${servers[@]}"; do wait "$pid" || true; done
  rm -rf "$run"
}
trap stop EXIT

ranks=${EMBPS_RANKS:-1}
for node in 0 1; do
  mkfifo "$run/ready$node"
  "$build/bin/embps-server" --cluster_id=quickstart --node_index=$node --ranks_per_node="$ranks,$ranks" \
    --listen=127.0.0.1:0 --log_level=warning >"$run/ready$node" &
  servers+=($!)
done
nodes=()
for node in 0 1; do
  exec {ready}<"$run/ready$node"
  read -r line <&"$ready" || { echo "server $node did not start" >&2; exit 1; }
  address=${line#*address=}
  nodes+=("${address%% *}")
done
cluster=$(IFS=,; echo "${nodes[*]}")
echo "two shard servers are up: $cluster"

"$build/bin/click_model" --nodes="$cluster" --cluster_id=quickstart "$@"
"$build/bin/embpsctl" --nodes="$cluster" health
