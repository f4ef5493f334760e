// bench_attention_select [--json] [CONTEXT...]: exact selection from bounds against the flat scan,
// one thread, Quest's landmarks of blocks of 16 tokens, head_dim 64, 32 blocks selected.
//
// Keys and queries are drawn from processes fitted to the KV heads of a model (select_traces.h). A
// step takes each head in turn, by both ways, which see the same queries; each selection is checked
// against the other's before anything is timed. Both sides' time is that of a whole selection, from
// the feature query to the ascending list of blocks. The seed is the 48 landmarks that
// scored highest in the last step.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "bench/attention/select_traces.h"
#include "bench/base/clock.h"
#include "bench/base/quantile.h"
#include "bench/base/run.h"
#include "offpath/attention/select/bounded_selection.h"
#include "offpath/attention/select/landmark_scores.h"
#include "offpath/attention/select/selectors.h"
#include "offpath/attention/select/top_blocks.h"

namespace offpath::bench {
namespace {

using namespace attention;

constexpr size_t kBudget = 32;      // blocks
constexpr size_t kSteps = 33;       // the first gives the seed
constexpr size_t kModelHeads = 90;  // KV heads of all layers: what a decode step goes through
constexpr size_t kBeyondCaches = size_t{128} << 20;
constexpr size_t kContexts[] = {8, 32, 64, 128, 256, 512, 1024};  // thousands of tokens

struct Result {
  double flat_bytes = 0;  // of a selection
  double bytes = 0;
  double memory = 0;   // of the bounds, over that of the landmarks
  double refined = 0;  // of all landmarks
  double scored = 0;
  double flat_seconds = 0;  // medians
  double seconds = 0;
  double ratio = 0;
  double spread = 0;  // of the ratio, the middle half
};

// A KV head with a context, and both ways to select from it.
class Head {
 public:
  Head(const TraceParameters& parameters, size_t tokens, uint64_t seed)
      : selector_({.head_dim = kTraceDim, .block_tokens = kTraceBlock}),
        trace_(parameters, seed),
        tokens_(tokens),
        table_(2 * kTraceDim),
        bounds_(2 * kTraceDim),
        query_(2 * kTraceDim) {
    std::vector<float> keys(kTraceBlock * kTraceDim);
    std::vector<float> features(2 * kTraceDim);
    for (size_t block = 0; block < tokens / kTraceBlock; ++block) {
      trace_.NextBlock(keys.data());
      selector_.Summarize(keys.data(), features.data());
      table_.Append(features.data());
    }
    bounds_.Update(table_);
    scores_.resize(table_.landmarks());
    flat_top_.Reserve(table_.landmarks());
    bounded_.Reserve(table_.landmarks());
  }

  // The query of the next step; the selection of the last becomes the seed.
  void Advance() {
    std::vector<float> rows(kTraceGroup * kTraceDim);
    trace_.NextQuery(tokens_++, rows.data());
    selector_.Project({.rows = rows.data(), .stride = kTraceDim, .heads = kTraceGroup},
                      query_.data());
    seed_.clear();
    bounded_.BestScored(kBudget * 3 / 2, seed_);
  }

  void SelectFlat() {
    ScoreLandmarks(table_, {.rows = query_.data(), .count = 1}, 0, table_.landmarks(),
                   scores_.data(), scores_.size());
    flat_.clear();
    flat_top_.Select({.scores = scores_, .priorities = {}, .blocks = scores_.size() + 1}, {},
                     kBudget, flat_);
  }

  void SelectBounded() {
    ours_.clear();
    bounded_.Select({.table = table_,
                     .bounds = bounds_,
                     .query = query_.data(),
                     .seed = seed_,
                     .first = 0,
                     .end = table_.landmarks(),
                     .count = kBudget - 1},
                    ours_);
    ours_.push_back(static_cast<uint32_t>(table_.landmarks()));  // the last block, always kept
  }

  bool Agree() const { return flat_ == ours_; }
  const BoundedCounters& counters() const { return bounded_.counters(); }
  const LandmarkTable& table() const { return table_; }
  const BoundedTable& bounds() const { return bounds_; }

 private:
  QuestSelector selector_;
  Trace trace_;
  size_t tokens_;
  LandmarkTable table_;
  BoundedTable bounds_;
  std::vector<float> query_;
  std::vector<float> scores_;
  TopBlocks flat_top_;
  BoundedSelection bounded_;
  std::vector<uint32_t> seed_;
  std::vector<uint32_t> flat_;
  std::vector<uint32_t> ours_;
};

Result Measure(const std::vector<TraceParameters>& parameters, size_t tokens) {
  std::vector<Head> heads;
  // As many as the model has, or fewer where their landmarks are beyond any cache.
  const size_t flat_bytes = tokens / kTraceBlock * 2 * kTraceDim * sizeof(uint16_t);
  const size_t rounds = std::clamp<size_t>(kBeyondCaches / flat_bytes / parameters.size(), 1,
                                           kModelHeads / parameters.size());
  heads.reserve(rounds * parameters.size());
  for (size_t i = 0; i < rounds * parameters.size(); ++i) {
    heads.emplace_back(parameters[i % parameters.size()], tokens, i + 1);
  }
  Result result;
  std::vector<double> flat;
  std::vector<double> ours;
  std::vector<double> ratios;
  for (size_t step = 0; step < kSteps; ++step) {
    double flat_step = 0;
    double our_step = 0;
    for (Head& head : heads) {
      head.Advance();
      const double begin = ThreadNow();
      head.SelectFlat();
      const double middle = ThreadNow();
      head.SelectBounded();
      our_step += ThreadNow() - middle;
      flat_step += middle - begin;
      if (!head.Agree()) {
        std::fprintf(stderr, "bench_attention_select: the selections differ at %zu tokens\n",
                     tokens);
        std::exit(1);
      }
      if (step == 0) continue;
      const auto share = 1 / static_cast<double>((kSteps - 1) * heads.size());
      const auto landmarks = static_cast<double>(head.table().landmarks());
      result.flat_bytes += share * static_cast<double>(head.table().bytes());
      result.bytes += share * static_cast<double>(head.counters().bytes);
      result.refined += share * static_cast<double>(head.counters().refined) / landmarks;
      result.scored += share * static_cast<double>(head.counters().scored) / landmarks;
      result.memory += share * static_cast<double>(head.bounds().bytes()) /
                       static_cast<double>(head.table().bytes());
    }
    if (step == 0) continue;
    flat.push_back(flat_step / static_cast<double>(heads.size()));
    ours.push_back(our_step / static_cast<double>(heads.size()));
    ratios.push_back(flat_step / our_step);
  }
  result.flat_seconds = Quantile(flat, 0.5);
  result.seconds = Quantile(ours, 0.5);
  result.ratio = result.flat_seconds / result.seconds;
  result.spread = (Quantile(ratios, 0.75) - Quantile(ratios, 0.25)) / Quantile(ratios, 0.5);
  return result;
}

struct Line {
  std::string name;
  double ours = 0;
  double peer = 0;
  const char* peer_name = "";
  const char* unit = "";
  double spread = 0;
};

void Print(const Line& line, bool json) {
  const double ratio = line.peer / line.ours;
  if (json) {
    std::printf(
        "{\"bench\": \"attention-select\", \"case\": \"%s\", \"ours\": %.6g, \"peer\": %.6g, "
        "\"peer_name\": \"%s\", \"unit\": \"%s\", \"ratio\": %.4g, \"spread\": %.3g}\n",
        line.name.c_str(), line.ours, line.peer, line.peer_name, line.unit, ratio, line.spread);
  } else {
    std::printf("%-20s %10.4g  %-4s %10.4g  %-8s ratio %5.2f\n", line.name.c_str(), line.ours,
                line.peer_name, line.peer, line.unit, ratio);
  }
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  bool json = false;
  std::vector<size_t> contexts;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    size_t thousands = 0;
    const auto end = argument.data() + argument.size();
    if (argument == "--json") {
      json = true;
    } else if (std::from_chars(argument.data(), end, thousands).ptr == end && thousands > 0) {
      contexts.push_back(thousands);
    } else {
      std::fprintf(stderr, "usage: bench_attention_select [--json] [THOUSANDS_OF_TOKENS...]\n");
      return 2;
    }
  }
  if (contexts.empty()) contexts.assign(std::begin(kContexts), std::end(kContexts));
  const std::vector<TraceParameters> parameters = ReadTraceParameters(OFFPATH_SELECT_TRACES);
  double bytes_a_block_at_128 = 0;
  for (const size_t thousands : contexts) {
    const Result result = Measure(parameters, thousands * 1024);
    const std::string name = thousands == 1024 ? "1M" : std::to_string(thousands) + "K";
    const size_t count = thousands * 1024 / kTraceBlock;
    const auto blocks = static_cast<double>(count);
    std::fprintf(stderr,
                 "%s: fine bounds of %.2f%%, scores of %.3f%% of the blocks; the bounds take "
                 "%.2f of the landmarks' memory\n",
                 name.c_str(), 100 * result.refined, 100 * result.scored, result.memory);
    Print({"bytes " + name, result.bytes, result.flat_bytes, "flat", "bytes", 0}, json);
    Print({"time " + name, result.seconds * 1e6, result.flat_seconds * 1e6, "flat", "us",
           result.spread},
          json);
    if (thousands == 128) bytes_a_block_at_128 = result.bytes / blocks;
    if (bytes_a_block_at_128 > 0 && thousands > 128) {
      Print({"bytes a block " + name, result.bytes / blocks, bytes_a_block_at_128, "128K", "bytes",
             0},
            json);
    }
  }
  return 0;
}

}  // namespace
}  // namespace offpath::bench

int main(int argc, char** argv) {
  return offpath::bench::RunMain("bench_attention_select", offpath::bench::Main, argc, argv);
}
