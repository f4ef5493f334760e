#!/usr/bin/env bash
# Sets up, builds, and runs every test, C++ and Python. Run again, it does only what changed.
#
#   scripts/test.sh [--shared DIR]
#
# --shared: a folder with the recorded data that some tests compare with (default: ../shared where
# it exists; without it those tests are skipped, and say so).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

shared=
while [ $# -gt 0 ]; do
  case $1 in
    --shared)
      [ -d "${2:-}/data" ] || usage_error "--shared ${2:-}: not a folder with data/ in it"
      shared=$(cd "$2" && pwd)
      shift 2
      ;;
    *) usage_error "test.sh [--shared DIR]" ;;
  esac
done
if [ -z "$shared" ] && [ -d "$root/../shared/data" ]; then
  shared=$(cd "$root/../shared" && pwd)
fi
if [ -n "$shared" ]; then
  export OFFPATH_SHARED=$shared
elif [ -n "${OFFPATH_REQUIRE_SHARED:-}" ]; then
  die "no ../shared, and OFFPATH_REQUIRE_SHARED says that its tests must run"
else
  say "no ../shared: tests that compare with its data are skipped (--shared DIR names another place)"
fi

"$root/scripts/setup.sh"
"$root/scripts/llama.sh"
"$root/scripts/models.sh"
build_full
install_package

results=$root/build/results
mkdir -p "$results"
rm -f "$results"/ctest.xml "$results"/pytest.xml
failed=0
step ctest ctest --test-dir "$build" -j "$(nproc)" --output-on-failure --no-tests=error --timeout 300 \
  --output-junit "$results/ctest.xml" || failed=1
cd "$root"
step pytest "$venv/bin/python" -m pytest -q --junitxml="$results/pytest.xml" || failed=1
python3 "$root/scripts/count_tests.py" --skips "$results/ctest.xml" "$results/pytest.xml" || failed=1
exit "$failed"
