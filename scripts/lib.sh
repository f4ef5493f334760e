# Sourced by the scripts of this folder: where things are, and how a step shows its progress.
# All messages go to stderr: stdout is for results.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
# One build folder for everything that is released or tested: quickstart and bench build only the
# targets that they need in it, and the wheel is made from its objects.
build=$root/build/full
logs=$root/build/logs
downloads=$root/build/downloads

# Used where it is installed; the builds do not need it.
if command -v ccache > /dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_SLOPPINESS=pch_defines,time_macros
fi

say() { printf '%s\n' "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}
usage_error() {
  say "error: $*"
  exit 2
}

# step NAME COMMAND...: runs it with its output in build/logs/NAME.log. Its last line is shown while it
# runs (drawn over on a terminal, every 15 s otherwise); the end of the log where it fails.
step() {
  local name=$1 log=$logs/$1.log begin=$SECONDS every=15 command status=0
  shift
  mkdir -p "$logs"
  [ -t 2 ] && every=1
  printf '%-14s' "$name" >&2
  [ -t 2 ] || printf '\n' >&2
  # A process group of its own, so that Ctrl-C ends all of it: a build would go on otherwise.
  set -m
  "$@" > "$log" 2>&1 < /dev/null &
  command=$!
  set +m
  trap 'kill -- "-$command" 2> /dev/null; exit 130' INT TERM
  local waited=0
  while kill -0 "$command" 2> /dev/null; do
    sleep 0.2
    waited=$((waited + 1))
    if [ $((waited % (every * 5))) -eq 0 ] && kill -0 "$command" 2> /dev/null; then
      local last
      last=$(tail -c 400 "$log" | tr '\r' '\n' | awk 'NF { last = $0 } END { print substr(last, 1, 90) }')
      if [ -t 2 ]; then
        printf '\r\033[K%-14s%4d s  %s' "$name" $((SECONDS - begin)) "$last" >&2
      else
        printf '%14s%4d s  %s\n' '' $((SECONDS - begin)) "$last" >&2
      fi
    fi
  done
  wait "$command" || status=$?
  trap - INT TERM
  [ -t 2 ] && printf '\r\033[K' >&2
  if [ "$status" -eq 0 ]; then
    printf '%-14sdone in %d s\n' "$name" $((SECONDS - begin)) >&2
  else
    tail -n 60 "$log" >&2
    printf '%-14sFAILED after %d s; the whole log: %s\n' "$name" $((SECONDS - begin)) "$log" >&2
  fi
  return "$status"
}

# fetch_package NAME==VERSION FILE SHA256 [PIP OPTION...]: a file of the Python index in build/downloads,
# checked; kept for the next time.
fetch_package() {
  local package=$1 file=$downloads/$2 sha256=$3
  shift 3
  mkdir -p "$downloads"
  if ! echo "$sha256  $file" | sha256sum --check --status 2> /dev/null; then
    rm -f "$file"
    step download "$venv/bin/pip" download --progress-bar off --no-deps --dest "$downloads" "$@" "$package" ||
      return
    echo "$sha256  $file" | sha256sum --check --status || die "$file: not the file that was expected (its sha256 differs)"
  fi
}

# Configures build/full once; later changes to CMake files are seen by the build itself, but not that
# llama.cpp is there now.
configure_full() {
  local wanted="-DPython_EXECUTABLE=$venv/bin/python" cache=$build/CMakeCache.txt
  if [ ! -f "$build/build.ninja" ] || ! grep -qx -- "Python_EXECUTABLE:[A-Z]*=$venv/bin/python" "$cache" ||
    { [ -d "$root/build/llama" ] && grep -qx 'llama_DIR:PATH=llama_DIR-NOTFOUND' "$cache"; }; then
    (cd "$root" && step configure cmake --preset full "$wanted")
  fi
}

# build_full [TARGET...]: all targets where none is named.
build_full() {
  configure_full || return
  local targets=()
  [ $# -gt 0 ] && targets=(--target "$@")
  step build cmake --build "$build" "${targets[@]}"
}

# Installs the Python package and the command into .venv, from the objects of build/full.
install_package() {
  build_full offpath_cli offpath_python || return
  step package "$venv/bin/pip" install --no-build-isolation --no-deps --force-reinstall \
    --config-settings build-dir="$build" "$root"
}
