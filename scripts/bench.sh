#!/usr/bin/env bash
# Runs a benchmark by name. Results go to stdout (with --json one object a line), progress to stderr.
#
#   scripts/bench.sh                 lists the names
#   scripts/bench.sh NAME [--json] [further options of the benchmark]
#
# Each checks its results before it times anything. Where a peer is not installed, its line says so;
# bench/peers/README.md says how to install one.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

names='codec               row codecs against the memory bandwidth of the same run
attention-coverage  the part of a selection that predictors find, on traces of a real model
attention-dense     dense decode attention against llama.cpp and the limit of the machine
attention-llama     a token of SmolLM2 at 8K and its perplexity, sparse against llama.cpp (--all: the curve)
attention-prefill   causal attention in tiles against token by token and the multiply-adds of the machine
attention-prr       speculation against select, read, attend: KV cache in a file and in memory
attention-select    exact selection from bounds against the flat scan: bytes and time by context
wire-tcp            tcp channels against plain sockets on loopback
graph-sample        batches and edges a second against GraphBolt; threads; growth with the graph
graph-gather        the same with the gather of 128 f32 features
graph-pack          bytes an edge of a packed batch against the int64 form
graph-overlap       a memory node over a shaped link against its physical limit'

[ $# -gt 0 ] || {
  printf '%s\n' "$names"
  exit 0
}
name=$1
shift
model_and_texts() {
  "$root/scripts/llama.sh"
  "$root/scripts/models.sh" smollm2
  "$root/scripts/texts.sh"
}

# What each runs: a C++ program, or a script that needs the package and, for some, a C++ program too.
targets=() program=
# What the program draws its contexts from; made where it is not there, which takes minutes.
fit=
case $name in
  codec) targets=(bench_codec) program=$build/bench/codec/bench_codec ;;
  attention-coverage)
    model_and_texts
    targets=(offpath_cli) program=$root/bench/attention/coverage.py
    ;;
  attention-dense)
    "$root/scripts/llama.sh"
    targets=(bench_attention_dense) program=$build/bench/attention/bench_attention_dense
    ;;
  attention-llama)
    model_and_texts
    targets=(bench_attention_llama) program=$build/bench/attention/bench_attention_llama
    ;;
  attention-prefill) targets=(bench_attention_prefill) program=$build/bench/attention/bench_attention_prefill ;;
  attention-prr | attention-select)
    model_and_texts
    name=bench_${name/-/_}
    targets=("$name" offpath_cli) program=$build/bench/attention/$name
    fit=$root/build/bench/select-traces.npy
    ;;
  wire-tcp) targets=(bench_wire) program=$build/bench/wire/bench_wire ;;
  graph-pack) targets=(bench_graph_pack) program=$root/bench/graph/pack.py ;;
  graph-sample) targets=(bench_graph_sample_hops) program=$root/bench/graph/sample.py ;;
  graph-gather | graph-overlap) program=$root/bench/graph/${name#graph-}.py ;;
  *) usage_error "no benchmark $name; the names are:
$names" ;;
esac

"$root/scripts/setup.sh"
[ ${#targets[@]} -eq 0 ] || build_full "${targets[@]}"
fitting=$root/bench/attention/fit_select_traces.py
if [ -n "$fit" ] && [ ! "$fit" -nt "$fitting" ]; then
  install_package
  "$venv/bin/python" "$fitting" "$fit"
fi
case $program in
  *.py)
    install_package
    exec "$venv/bin/python" "$program" "$@"
    ;;
  *) exec "$program" "$@" ;;
esac
