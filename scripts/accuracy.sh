#!/usr/bin/env bash
# Measures what quantized features cost in accuracy (30 paired seeds) and writes
# docs/experiments/quantization.md. Takes about an hour on two cores.
#
#   scripts/accuracy.sh [--planetoid FOLDER] [options of python -m offpath.graph.accuracy]
#
# --planetoid: the folder of ind.cora.* and ind.citeseer.* (default: ../shared/data/planetoid).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

planetoid=$root/../shared/data/planetoid
if [ "${1:-}" = --planetoid ]; then
  planetoid=${2:-}
  shift 2 || usage_error "accuracy.sh [--planetoid FOLDER]"
fi
[ -f "$planetoid/ind.cora.graph" ] || die "$planetoid has no ind.cora.graph: name the folder with --planetoid"
planetoid=$(cd "$planetoid" && pwd)

"$root/scripts/setup.sh"
install_package
cd "$root"
exec "$venv/bin/python" -m offpath.graph.accuracy --planetoid "$planetoid" --wordnet --check \
  --output docs/experiments/quantization.md "$@"
