#!/usr/bin/env bash
# Sets up, builds what the main job needs (no tests), and runs it. Run again, it does only what
# changed.
#
#   scripts/quickstart.sh              every engine's part
#   scripts/quickstart.sh graph        a GraphSAGE trained from a memory node
#   scripts/quickstart.sh attention    a small language model on a long text, by several policies
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  '' | graph | attention) ;;
  *) usage_error "quickstart.sh [graph | attention]" ;;
esac
"$root/scripts/setup.sh"
if [ "${1:-}" != graph ]; then
  "$root/scripts/llama.sh"
  "$root/scripts/models.sh" smollm2
  "$root/scripts/texts.sh"
fi
install_package
cd "$root"
"$venv/bin/python" -m offpath.quickstart "${1:-all}"
