#!/usr/bin/env bash
# Installs a peer of the benchmarks into an environment of its own, build/peers/NAME (on request; not in CI).
#
#   bench/peers/install.sh graphbolt     DGL 2.1's sampler (a download of about 2 GB, 5 GB installed)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

case ${1:-} in
  graphbolt) packages='torch==2.2.1 numpy<2 torchdata==0.7.1 scipy pandas pyyaml pydantic setuptools<81 dgl==2.1.0' ;;
  *)
    sed -n '2,4p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
env=$root/build/peers/$1
[ -x "$env/bin/python" ] || python3 -m venv "$env"
# shellcheck disable=SC2086 # a list of packages
"$env/bin/pip" install --quiet $packages
echo "$env is ready" >&2
