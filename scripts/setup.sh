#!/usr/bin/env bash
# Installs what building and testing Offpath needs, and nothing that is there already: Debian 12
# packages (as root or with sudo) and a Python environment in .venv.
#
#   scripts/setup.sh          to build, test and run
#   scripts/setup.sh --dev    also clang, for the sanitizers, clang-format and clang-tidy
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

packages=(
  ca-certificates g++ cmake ninja-build pkg-config python3 python3-dev python3-venv
  libhwy-dev nlohmann-json3-dev libcli11-dev libfmt-dev libspdlog-dev zlib1g-dev libzip-dev libisal-dev liburing-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  iproute2 wordnet-base
)
case ${1:-} in
  '') ;;
  --dev) packages+=(git clang clang-tidy clang-format libclang-rt-14-dev) ;;
  *) usage_error "setup.sh [--dev]" ;;
esac

install_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || die "these packages are missing and need root or sudo: ${missing[*]}"
    as_root=(sudo)
    sudo -v
  fi
  step apt-update "${as_root[@]}" apt-get update
  step apt-install "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
}

install_python() {
  local requirements=$root/scripts/requirements.txt done_mark=$venv/offpath-requirements.txt
  cmp -s "$requirements" "$done_mark" && [ -x "$venv/bin/python" ] && return
  [ -x "$venv/bin/pip" ] || step venv python3 -m venv "$venv"
  step pip "$venv/bin/pip" install --progress-bar off -r "$requirements"
  cp "$requirements" "$done_mark"
}

if command -v dpkg-query > /dev/null && command -v apt-get > /dev/null; then
  install_packages
else
  say "not a Debian system: install the counterparts of these packages yourself: ${packages[*]}"
fi
install_python
