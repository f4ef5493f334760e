#!/usr/bin/env bash
# Sets up, builds what the main job needs (no tests), and runs it. Run again, it does only what
# changed.
#
#   scripts/quickstart.sh              every engine's part
#   scripts/quickstart.sh graph        a GraphSAGE trained from a memory node
#   scripts/quickstart.sh attention    a small language model on a long text
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

attention() {
  local run=("$venv/bin/offpath" attention) model=(-m build/models/SmolLM2-135M-Instruct.Q4_1.gguf)
  head -c 16000 build/texts/bible.txt > build/texts/beginning.txt
  say "a text of 16,000 letters, and what SmolLM2 writes on, attending to 512 tokens:"
  "${run[@]}" generate "${model[@]}" -p build/texts/beginning.txt -n 48 --policy prr --selector quest --budget 512
  say "the time of a token, beside llama.cpp's own attention:"
  "${run[@]}" bench "${model[@]}" --text build/texts/bible.txt --contexts 2048 --steps 17
}

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
if [ "${1:-}" != attention ]; then "$venv/bin/python" -m offpath.quickstart graph; fi
if [ "${1:-}" != graph ]; then attention; fi
