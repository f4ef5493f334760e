#!/usr/bin/env bash
# Installs a peer of the benchmarks into an environment of its own, build/peers/NAME (on request; not in CI).
#
#   bench/peers/install.sh graphbolt     DGL 2.1's sampler (a download of about 2 GB, 5 GB installed)
#   bench/peers/install.sh torch-sparse  PyG's NeighborLoader over torch-sparse (built in about 17 minutes)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

built=
case ${1:-} in
  graphbolt) packages='torch==2.2.1 numpy<2 torchdata==0.7.1 scipy pandas pyyaml pydantic setuptools<81 dgl==2.1.0' ;;
  torch-sparse)
    packages='torch==2.13.0 torch_geometric==2.8.1 setuptools wheel ninja numpy scipy'
    built='torch-scatter==2.1.2 torch-sparse==0.6.18'
    ;;
  *)
    sed -n '2,5p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
env=$root/build/peers/$1
[ -x "$env/bin/python" ] || python3 -m venv "$env"
# shellcheck disable=SC2086 # a list of packages
"$env/bin/pip" install --quiet $packages
# shellcheck disable=SC2086
[ -z "$built" ] || MAX_JOBS=2 FORCE_ONLY_CPU=1 "$env/bin/pip" install --quiet --no-build-isolation --no-deps $built
echo "$env is ready" >&2
