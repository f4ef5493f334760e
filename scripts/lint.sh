#!/usr/bin/env bash
# Checks style: clang-format over all C++ files, clang-tidy over some.
#
#   scripts/lint.sh format          clang-format; `format --fix` rewrites the files
#   scripts/lint.sh tidy [--all]    clang-tidy
#
# clang-tidy takes seconds a file, so it looks at the files of the last 20 commits and at a fifth of
# the others, chosen by the number of commits: five commits see all. It reads the compile commands
# of build/asan-ubsan (clang's) and, for what is not built there, of build/full.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

sources() { git ls-files -- 'offpath/**' 'adapters/**' 'python/**' 'tests/**' 'bench/**' 'fuzz/**' | grep -E "\.($1)$"; }

format() {
  local mode=(--dry-run --Werror)
  [ "${1:-}" = --fix ] && mode=(-i)
  sources 'h|cc' | xargs clang-format "${mode[@]}"
}

# The .cc files that clang-tidy looks at, one a line.
chosen() {
  if [ "${1:-}" = --all ]; then
    sources cc
    return
  fi
  {
    git log -20 --name-only --pretty=format: | grep '\.cc$' || true
    sources cc | awk -v fifth=$(($(git rev-list --count HEAD) % 5)) 'NR % 5 == fifth'
  } | sort -u | while read -r file; do [ -f "$file" ] && echo "$file"; done
}

tidy() {
  local databases=() database
  for database in build/asan-ubsan build/full; do
    [ -f "$database/compile_commands.json" ] && databases+=("$database")
  done
  [ ${#databases[@]} -gt 0 ] || die "no compile commands: cmake --preset asan-ubsan && cmake --build --preset asan-ubsan"
  # Each file goes with the first database that builds it.
  chosen "${1:-}" | python3 -c '
import json, os, sys
built = [(d, {c["file"] for c in json.load(open(d + "/compile_commands.json"))}) for d in sys.argv[1:]]
for file in sys.stdin.read().split():
    for database, files in built:
        if os.path.abspath(file) in files:
            print(database, file)
            break
    else:
        print(f"not built, so not checked: {file}", file=sys.stderr)
' "${databases[@]}" > build/tidy.txt
  say "clang-tidy: $(wc -l < build/tidy.txt) of $(sources cc | wc -l) files"
  # The second database is g++'s, with warnings that clang does not know.
  xargs -P "$(nproc)" -L 1 bash -c \
    'out=$(clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p "$0" "$1" 2>&1) || { printf "%s\n" "$out" | grep -v "warnings generated"; exit 1; }' \
    < build/tidy.txt
}

case ${1:-} in
  format | tidy) "$@" ;;
  *) usage_error "lint.sh format [--fix] | tidy [--all]" ;;
esac
