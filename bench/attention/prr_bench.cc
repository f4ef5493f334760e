// bench_attention_prr [--json] [--folder DIR] [--threads N]: speculation against the
// serial chain of selection, reads and attention, with the KV cache in a file and in memory.
//
// Both sides select by Quest 32 blocks of 16 tokens from contexts of 32K to 256K, f16, 4 KV heads
// of 128 and 12 query heads, and keep as many hot blocks a KV head as they select. Reads of the
// file are limited to one rate for all contexts, set so that what serial reads takes it as long as
// its selection, at 128K. One worker selects and attends: the file is the part of the machine that
// is idle meanwhile. In memory all cores work.
//
// A pair is a few steps of each side, by turns, over the same queries. Every step's selections are
// compared, serial's output with that of a decoder in memory bit for bit, and prr's with it to
// rounding. The limit of prr's time is
//   max(selection, reads ahead) + reads of what was missing + attention to what was missing
// with the selection's and the attention's time from the decoder in memory, and reads at the rate.
// It can be passed: prr reads what a head is missing while the other heads select.
//
// The file lies in memory (/dev/shm) by default, and the limit of the rate stands for the disk:
// what one does in a virtual machine differs from minute to minute. --folder /var/tmp reads a disk.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/attention/prr_model.h"
#include "bench/attention/rate_limited_tier.h"
#include "bench/base/clock.h"
#include "bench/base/quantile.h"
#include "bench/base/run.h"
#include "offpath/attention/tier/block_file.h"
#include "offpath/base/error.h"

namespace offpath::bench {
namespace {

using namespace attention;

constexpr size_t kContexts[] = {32, 64, 128, 256};  // thousands of tokens
constexpr size_t kRateContext = 128;
constexpr size_t kHotBudgets[] = {64, 128, 256, 512};  // blocks a KV head; of 2048
constexpr size_t kWarmSteps = 24;
constexpr size_t kStepsAPair = 8;

struct Options {
  bool json = false;
  std::string folder = "/dev/shm";
  size_t threads = std::max(1U, std::thread::hardware_concurrency());  // in memory
  size_t pairs = 15;
};

// Threads that run a function together with the caller.
class Crew {
 public:
  explicit Crew(size_t workers) : workers_(workers) {
    for (size_t w = 1; w < workers; ++w) threads_.emplace_back([this, w] { Work(w); });
  }
  ~Crew() {
    stop_ = true;
    ++round_;
    for (std::thread& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void Run(const std::function<void(const Worker&)>& call) {
    call_ = &call;
    left_ = workers_ - 1;
    ++round_;
    call({.index = 0, .count = workers_, .team = &team_});
    while (left_ > 0) std::this_thread::yield();
  }

 private:
  void Work(size_t index) {
    for (size_t seen = 0;;) {
      while (round_ == seen) std::this_thread::yield();
      seen = round_;
      if (stop_) return;
      (*call_)({.index = index, .count = workers_, .team = &team_});
      --left_;
    }
  }

  size_t workers_;
  Team team_;
  const std::function<void(const Worker&)>* call_ = nullptr;
  std::atomic<size_t> round_{0};
  std::atomic<size_t> left_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// A decoder with a sequence in it.
struct Side {
  std::unique_ptr<Decoder> decoder;
  SequenceId whole = 0;  // of the longest context
  SequenceId id = 0;     // that steps
  std::vector<float> output = std::vector<float>(kPrrLayers * kPrrHeads * kPrrDim);

  PrrModel::Target target() const { return {decoder.get(), id}; }
  const DecodeCounters& counters() const { return decoder->counters(); }
};

Side MakeSide(const DecoderOptions& options) {
  Side side;
  side.decoder = std::make_unique<Decoder>(options);
  side.whole = side.decoder->Create();
  return side;
}

Side MakeTieredSide(Policy policy, size_t hot, const Options& options, const uint64_t* interval_ns,
                    bool by_head) {
  // Memory for what is not yet spilled.
  DecoderOptions decoder = PrrOptions(policy, 64 * kTraceBlock);
  decoder.tier.hot_blocks = hot;
  decoder.tier.read_by_head = by_head;
  decoder.tier.make = [&](size_t block_bytes) {
    return std::make_unique<RateLimitedTier>(
        std::make_unique<BlockFile>(BlockFileOptions{
            .folder = options.folder,
            .block_bytes = block_bytes,
            .queue_depth = decoder.tier.queue_depth,
            .warn =
                [](std::string_view line) {
                  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
                }}),
        interval_ns);
  };
  return MakeSide(decoder);
}

// A step of all layers; the seconds of its attention.
double Step(const PrrModel& model, Side& side, Crew* crew) {
  double seconds = 0;
  for (size_t layer = 0; layer < kPrrLayers; ++layer) {
    model.Append(side.target(), layer);
    const OutputRows output = {.rows = side.output.data() + layer * kPrrHeads * kPrrDim,
                               .token_stride = 0,
                               .head_stride = kPrrDim};
    const auto attend = [&](const Worker& worker) {
      side.decoder->Attend(side.id, layer, model.Queries(layer), output, worker);
    };
    const double begin = Now();
    if (crew == nullptr) {
      attend({});
    } else {
      crew->Run(attend);
    }
    seconds += Now() - begin;
  }
  return seconds;
}

void CheckSame(const Side& a, const Side& b, bool bits) {
  for (size_t layer = 0; layer < kPrrLayers; ++layer) {
    for (size_t h = 0; h < kPrrKvHeads; ++h) {
      if (a.decoder->LastSelection(a.id, layer, h) != b.decoder->LastSelection(b.id, layer, h)) {
        throw Error(ErrorCode::kInternal, "selections differ");
      }
    }
  }
  for (size_t i = 0; i < a.output.size(); ++i) {
    const float difference = std::abs(a.output[i] - b.output[i]);
    if (!(difference <= (bits ? 0.0F : 1e-5F))) {
      throw Error(ErrorCode::kInternal, "outputs differ by " + std::to_string(difference));
    }
  }
}

// The mean of a step within a pair.
struct Pair {
  double prr = 0;
  double serial = 0;
  double limit = 0;
};

struct Case {
  std::string name;
  double hidden = 0;  // of what serial reads: prr reads it while it selects
  std::vector<Pair> pairs;
  bool limited = false;
};

double Microseconds(uint64_t ns) { return static_cast<double>(ns) * 1e-3; }

// Steps both sides, and one in memory where given, which tells the limit.
Case Measure(const std::string& name, PrrModel& model, size_t position, Side& prr, Side& serial,
             Side* memory, uint64_t interval_ns, size_t pairs, Crew* crew) {
  Case result = {.name = name, .hidden = 0, .pairs = {}, .limited = memory != nullptr};
  const auto step = [&](size_t number, Pair& sum) {
    model.Advance(position++);
    if (number % 2 == 0) {
      sum.prr += Step(model, prr, crew);
      sum.serial += Step(model, serial, crew);
    } else {
      sum.serial += Step(model, serial, crew);
      sum.prr += Step(model, prr, crew);
    }
    if (memory != nullptr) {
      Step(model, *memory, crew);
      CheckSame(serial, *memory, true);
    }
    CheckSame(prr, serial, false);
  };
  Pair warm;
  for (size_t i = 0; i < kWarmSteps; ++i) step(i, warm);
  uint64_t ahead_hits = 0;
  uint64_t serial_reads = 0;
  for (size_t p = 0; p < pairs; ++p) {
    Pair pair;
    prr.decoder->ResetCounters();
    serial.decoder->ResetCounters();
    if (memory != nullptr) memory->decoder->ResetCounters();
    for (size_t i = 0; i < kStepsAPair; ++i) step(i, pair);
    const TierCounters& tier = prr.counters().tier;
    if (memory != nullptr) {
      const DecodeCounters& alone = memory->counters();
      const uint64_t missing = tier.early_hits + tier.misses;
      pair.limit =
          1e-9 * (static_cast<double>(std::max(alone.select_ns, tier.ahead * interval_ns)) +
                  static_cast<double>(missing * interval_ns) +
                  static_cast<double>(alone.attend_ns) * static_cast<double>(missing) /
                      static_cast<double>(alone.selected_blocks));
    }
    ahead_hits += tier.ahead_hits + tier.early_hits;
    serial_reads += serial.counters().tier.misses;
    for (double* x : {&pair.prr, &pair.serial, &pair.limit}) *x /= kStepsAPair;
    result.pairs.push_back(pair);
  }
  if (serial_reads > 0) {
    result.hidden = static_cast<double>(ahead_hits) / static_cast<double>(serial_reads);
    const auto steps = static_cast<double>(pairs * kStepsAPair * kPrrLayers);
    std::fprintf(stderr,
                 "%s: serial reads %.1f blocks a layer, prr %.0f%% of them while it selects\n",
                 name.c_str(), static_cast<double>(serial_reads) / steps, 100 * result.hidden);
  }
  return result;
}

void Print(const Case& result, size_t threads, bool json) {
  std::vector<double> ratios;
  std::vector<double> fractions;
  for (const Pair& pair : result.pairs) {
    ratios.push_back(pair.serial / pair.prr);
    fractions.push_back(pair.limit / pair.prr);
  }
  const double median = Quantile(ratios, 0.5);
  const size_t at =
      static_cast<size_t>(std::find(ratios.begin(), ratios.end(), median) - ratios.begin());
  const double spread = (Quantile(ratios, 0.75) - Quantile(ratios, 0.25)) / median;
  const double ours = 1e6 * result.pairs[at].prr;
  const double peer = 1e6 * result.pairs[at].serial;
  if (json) {
    std::printf(
        "{\"bench\": \"attention-prr\", \"case\": \"%s\", \"ours\": %.6g, \"peer\": %.6g, "
        "\"peer_name\": \"serial\", \"unit\": \"us\", \"ratio\": %.4g, ",
        result.name.c_str(), ours, peer, median);
    if (result.limited) {
      std::printf("\"limit_fraction\": %.4g, \"read_meanwhile\": %.3g, ", Quantile(fractions, 0.5),
                  result.hidden);
    }
    std::printf("\"spread\": %.3g, \"threads\": %zu}\n", spread, threads);
  } else {
    std::printf("%-20s %8.0f us  serial %8.0f us  ratio %5.2f", result.name.c_str(), ours, peer,
                median);
    if (result.limited) std::printf("  %.2f of the limit", Quantile(fractions, 0.5));
    std::printf("\n");
  }
  std::fflush(stdout);
}

void Fill(PrrModel& model, size_t tokens, const std::vector<Side*>& sides, size_t from) {
  std::vector<PrrModel::Target> targets;
  for (const Side* side : sides) targets.push_back({side->decoder.get(), side->whole});
  for (size_t t = from; t < tokens; t += kTraceBlock) model.AppendBlock(targets);
}

void ForkAt(size_t tokens, const std::vector<Side*>& sides) {
  for (Side* side : sides) {
    if (side->id != 0) side->decoder->Free(side->id);
    side->id = side->decoder->Fork(side->whole, tokens);
  }
}

// What a read must take so that serial's reads of a step take as long as its selection.
uint64_t FindInterval(PrrModel& model, size_t tokens, Side& serial, Side& memory) {
  ForkAt(tokens, {&serial, &memory});
  constexpr size_t kSteps = 40;
  for (size_t i = 0; i < kWarmSteps + kSteps; ++i) {
    if (i == kWarmSteps) {
      serial.decoder->ResetCounters();
      memory.decoder->ResetCounters();
    }
    model.Advance(tokens + i);
    Step(model, serial, nullptr);
    Step(model, memory, nullptr);
  }
  const uint64_t reads = std::max<uint64_t>(1, serial.counters().tier.misses);
  const uint64_t interval = memory.counters().select_ns / reads;
  std::fprintf(stderr,
               "at %zuK a selection takes %.0f us a layer: reads are limited to one in %.1f us "
               "(the disk alone: %.1f us)\n",
               tokens / 1024, Microseconds(memory.counters().select_ns) / (kSteps * kPrrLayers),
               Microseconds(interval), Microseconds(serial.counters().attend_ns / reads));
  return interval;
}

void RunFile(const std::vector<TraceParameters>& parameters, const Options& options) {
  uint64_t interval_ns = 0;
  {
    PrrModel model(parameters);
    const size_t longest = *std::max_element(std::begin(kContexts), std::end(kContexts)) * 1024;
    Side prr = MakeTieredSide(Policy::kPrr, kPrrBudget, options, &interval_ns, true);
    Side serial = MakeTieredSide(Policy::kSerial, kPrrBudget, options, &interval_ns, false);
    Side memory = MakeSide(PrrOptions(Policy::kSerial, longest + 4096));
    Side memory_prr = MakeSide(PrrOptions(Policy::kPrr, kRateContext * 1024 + 4096));
    std::fprintf(stderr, "filling %zu tokens into %s\n", longest,
                 serial.decoder->tier()->description().c_str());
    Fill(model, kRateContext * 1024, {&prr, &serial, &memory, &memory_prr}, 0);
    Fill(model, longest, {&prr, &serial, &memory}, kRateContext * 1024);
    const uint64_t interval = FindInterval(model, kRateContext * 1024, serial, memory);
    for (const size_t thousands : {size_t{32}, kRateContext}) {
      Crew crew(options.threads);
      ForkAt(thousands * 1024, {&memory, &memory_prr});
      Print(Measure("memory " + std::to_string(thousands) + "K", model, thousands * 1024,
                    memory_prr, memory, nullptr, 0, options.pairs, &crew),
            options.threads, options.json);
    }
    interval_ns = interval;
    for (const size_t thousands : kContexts) {
      ForkAt(thousands * 1024, {&prr, &serial, &memory});
      Print(Measure("file " + std::to_string(thousands) + "K", model, thousands * 1024, prr, serial,
                    &memory, interval_ns, options.pairs, nullptr),
            1, options.json);
    }
  }
  // The same with more hot blocks, of the shortest context.
  const size_t tokens = kContexts[0] * 1024;
  PrrModel model(parameters);
  std::vector<Side> sides;
  for (const size_t hot : kHotBudgets) {
    for (const Policy policy : {Policy::kPrr, Policy::kSerial}) {
      sides.push_back(MakeTieredSide(policy, hot, options, &interval_ns, policy == Policy::kPrr));
    }
  }
  sides.push_back(MakeSide(PrrOptions(Policy::kSerial, tokens + 4096)));
  std::vector<Side*> all;
  for (Side& side : sides) all.push_back(&side);
  Fill(model, tokens, all, 0);
  for (size_t i = 0; i < std::size(kHotBudgets); ++i) {
    ForkAt(tokens, {all[2 * i], all[2 * i + 1], all.back()});
    const double share =
        100.0 * static_cast<double>(kHotBudgets[i] * kTraceBlock) / static_cast<double>(tokens);
    char name[64];
    std::snprintf(name, sizeof(name), "file %zuK hot %.3g%%", tokens / 1024, share);
    Print(Measure(name, model, tokens, *all[2 * i], *all[2 * i + 1], all.back(), interval_ns,
                  options.pairs, nullptr),
          1, options.json);
  }
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      options.json = true;
    } else if (argument == "--folder" && i + 1 < argc) {
      options.folder = argv[++i];
    } else if (argument == "--threads" && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      options.threads = static_cast<size_t>(std::atoi(argv[++i]));
    } else {
      std::fprintf(stderr,
                   "usage: bench_attention_prr [--json] [--folder FOR_THE_FILES] [--threads N]\n");
      return 2;
    }
  }
  RunFile(ReadTraceParameters(OFFPATH_SELECT_TRACES), options);
  return 0;
}

}  // namespace
}  // namespace offpath::bench

int main(int argc, char** argv) {
  return offpath::bench::RunMain("bench_attention_prr", offpath::bench::Main, argc, argv);
}
