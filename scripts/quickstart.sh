#!/usr/bin/env bash
# Sets up, builds what the main job needs (no tests), and runs it. Run again, it does only what
# changed.
#
#   scripts/quickstart.sh          every engine's part
#   scripts/quickstart.sh graph    one engine's part
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  '' | graph) ;;
  *) usage_error "quickstart.sh [graph]" ;;
esac
"$root/scripts/setup.sh"
install_package
cd "$root"
exec "$venv/bin/python" -m offpath.quickstart "${1:-all}"
