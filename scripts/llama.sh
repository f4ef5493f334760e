#!/usr/bin/env bash
# Builds llama.cpp, for adapters/llama: its source comes inside a package of the Python index. Run
# again, it does only what is missing. Where llama.cpp is installed (CMake finds its package), the
# build prefers that one, and this script is not needed.
#
#   scripts/llama.sh [--prefix DIR]     into build/llama
#
# Static libraries, so that programs made with them can be moved; tied to this machine's processor,
# and built anew on another one.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

prefix=$root/build/llama
case ${1:-} in
  '') ;;
  --prefix) prefix=${2:?} ;;
  *) usage_error "llama.sh [--prefix DIR]" ;;
esac
version=0.3.36
file=llama_cpp_python-$version.tar.gz
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
source=$root/build/llama-source

# The processor's features by name instead of -march=native: ccache would take objects of another
# machine for its own, and g++ 12 compiles llama.cpp's AMX code to what dies with SIGILL.
processor_options() {
  if [ "$(uname -m)" != x86_64 ]; then
    echo -DGGML_NATIVE=ON
    return
  fi
  local options=-DGGML_NATIVE=OFF pair
  for pair in SSE42:sse4_2 AVX:avx AVX2:avx2 BMI2:bmi2 FMA:fma F16C:f16c AVX_VNNI:avx_vnni AVX512:avx512vl \
    AVX512_VBMI:avx512_vbmi AVX512_VNNI:avx512_vnni AVX512_BF16:avx512_bf16; do
    if grep -qwm1 "${pair#*:}" /proc/cpuinfo; then
      options+=" -DGGML_${pair%:*}=ON"
    else
      options+=" -DGGML_${pair%:*}=OFF"
    fi
  done
  echo "$options"
}

unpack() {
  rm -rf "$source"
  mkdir -p "$source"
  tar -xzf "$downloads/$file" -C "$source" --strip-components=3 "${file%.tar.gz}/vendor/llama.cpp"
}

# The mark is written last and names all that the libraries depend on.
read -r -a options <<< "$(processor_options)"
wanted="llama-cpp-python $version ${options[*]} $(c++ --version | head -n 1)"
mark=$prefix/offpath-built-from.txt
[ "$(cat "$mark" 2> /dev/null)" = "$wanted" ] && exit 0
[ -x "$venv/bin/pip" ] || "$root/scripts/setup.sh"
rm -f "$mark"
# Its build backend is in .venv, and pip only asks it for the package's name.
fetch_package "llama-cpp-python==$version" "$file" "$sha256" --no-binary :all: --no-build-isolation
step llama-unpack unpack
step llama-config cmake -G Ninja -S "$source" -B "$source/build" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
  -DCMAKE_C_COMPILER_LAUNCHER="${CMAKE_CXX_COMPILER_LAUNCHER:-}" -DGGML_CCACHE=OFF \
  -DBUILD_SHARED_LIBS=OFF -DGGML_OPENMP=OFF -DGGML_BACKEND_DL=OFF -DLLAMA_BUILD_COMMON=OFF \
  -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF \
  -DLLAMA_BUILD_APP=OFF -DLLAMA_OPENSSL=OFF "${options[@]}"
step llama-build cmake --build "$source/build" --target llama ggml ggml-cpu ggml-base
rm -rf "$prefix"
step llama-install cmake --install "$source/build"
printf '%s\n' "$wanted" > "$mark"
rm -rf "$source"
