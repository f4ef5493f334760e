// bench_attention_prefill [--json] [PART...]: causal attention of the last 512 tokens of a context,
// by the decoder, against attention to each token's list of blocks by itself, and against the
// multiply-adds that the machine gives at most. Cases are TYPE SHAPE CONTEXT THREADS; with PARTs,
// those that have all of them.
//
// The two take turns, and give the same bits, which is checked first. For i8, which multiplies
// 16 bits by 8 in two steps of 8 bits (partial_attention.h), half of the bytes' rate is the most.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "bench/attention/dense/cases.h"
#include "bench/attention/dense/kv_rows.h"
#include "bench/attention/dense/limits.h"
#include "bench/attention/dense/team_time.h"
#include "bench/base/clock.h"
#include "bench/base/quantile.h"
#include "bench/base/run.h"
#include "offpath/attention/decode/decoder.h"
#include "offpath/attention/partial/partial_attention.h"
#include "offpath/base/error.h"

namespace offpath::bench {
namespace {

using namespace attention;

constexpr size_t kContexts[] = {8, 32};  // thousands of tokens
constexpr size_t kTokens = 512;
constexpr size_t kBlockTokens = 64;
constexpr double kSeconds = 2;  // of rounds, a case
constexpr size_t kFewestRounds = 3;

class Contest {
 public:
  Contest(const Model& model, KvType type, size_t context)
      : model_(model),
        context_(context),
        decoder_(OptionsOf(model, type, context)),
        sequence_(decoder_.Create()),
        queries_(kTokens * Row()),
        ours_(queries_.size()),
        single_(queries_.size()) {
    const KvRows rows(model.kv_heads * model.head_dim);
    for (size_t t = 0; t < context; t += KvRows::kTokens) {
      decoder_.Append(sequence_, 0,
                      {.keys = rows.Chunk(0, t / KvRows::kTokens, 0),
                       .values = rows.Chunk(0, t / KvRows::kTokens, 1),
                       .key_stride = rows.width(),
                       .value_stride = rows.width(),
                       .count = KvRows::kTokens});
    }
    std::mt19937_64 random(2);
    std::normal_distribution<float> normal;
    for (float& x : queries_) x = 2.5F * normal(random);
  }

  double TimeOurs(size_t threads) {
    const QueryRows queries = {.rows = queries_.data(),
                               .token_stride = Row(),
                               .head_stride = model_.head_dim,
                               .tokens = kTokens};
    const OutputRows output = {
        .rows = ours_.data(), .token_stride = Row(), .head_stride = model_.head_dim};
    return TimeTeam(threads, [&](const Worker& worker) {
      decoder_.Attend(sequence_, 0, queries, output, worker);
    });
  }

  double TimeSingle(size_t threads) {
    return TimeTeam(threads, [&](const Worker& worker) {
      std::vector<BlockSpan> spans;
      for (size_t t = worker.index; t < kTokens; t += worker.count) {
        for (size_t head = 0; head < model_.kv_heads; ++head) AttendToken(t, head, spans);
      }
    });
  }

  bool Agrees() const { return ours_ == single_; }

  double multiply_adds() const {
    const double seen = static_cast<double>(context_) - (kTokens - 1) / 2.0;
    return 2.0 * seen * static_cast<double>(kTokens * Row());
  }

 private:
  static DecoderOptions OptionsOf(const Model& model, KvType type, size_t context) {
    const KvShape shape = {.type = type, .head_dim = model.head_dim, .block_tokens = kBlockTokens};
    DecoderOptions options;
    options.cache = {
        .shape = shape,
        .layers = 1,
        .kv_heads = model.kv_heads,
        .memory_bytes = context / kBlockTokens * model.kv_heads * LayOutHeadBlock(shape).bytes};
    options.query_heads = model.query_heads;
    options.layers.assign(1, {.scale = 1 / std::sqrt(static_cast<float>(model.head_dim))});
    return options;
  }

  size_t Row() const { return model_.query_heads * model_.head_dim; }

  void AttendToken(size_t token, size_t head, std::vector<BlockSpan>& spans) {
    const size_t end = context_ - kTokens + token + 1;
    spans.clear();
    for (size_t first = 0; first < end; first += kBlockTokens) {
      spans.push_back(
          {.block = decoder_.cache().HeadBlock(sequence_, 0, head, first / kBlockTokens),
           .begin = 0,
           .end = static_cast<uint32_t>(std::min(kBlockTokens, end - first))});
    }
    const size_t group = model_.query_heads / model_.kv_heads;
    const size_t at = token * Row() + head * group * model_.head_dim;
    std::vector<float> max(group);
    std::vector<float> sum(group);
    const PartialStates states = {.output = single_.data() + at,
                                  .max = max.data(),
                                  .sum = sum.data(),
                                  .heads = group,
                                  .head_dim = model_.head_dim};
    AttendPartial({.shape = decoder_.options().cache.shape,
                   .query = queries_.data() + at,
                   .query_stride = model_.head_dim,
                   .heads = group,
                   .blocks = spans,
                   .scale = decoder_.options().layers[0].scale},
                  states);
    Finish(states, nullptr);
  }

  const Model& model_;
  size_t context_;
  Decoder decoder_;
  SequenceId sequence_;
  std::vector<float> queries_;
  std::vector<float> ours_;
  std::vector<float> single_;
};

struct Round {
  double ours, single;
};

void Measure(Contest& contest, const std::string& name, size_t threads, double rate, bool json) {
  contest.TimeOurs(threads);
  contest.TimeSingle(threads);
  if (!contest.Agrees()) throw Error(ErrorCode::kInternal, name + ": the results differ");
  std::vector<Round> rounds;
  for (const double end = Now() + kSeconds;
       rounds.size() < kFewestRounds || rounds.size() % 2 == 0 || Now() < end;) {
    rounds.push_back({.ours = contest.TimeOurs(threads), .single = contest.TimeSingle(threads)});
  }
  std::vector<double> ratios;
  std::vector<double> fractions;
  const double limit = contest.multiply_adds() / rate / static_cast<double>(threads);
  for (const Round& round : rounds) {
    ratios.push_back(round.single / round.ours);
    fractions.push_back(limit / round.ours);
  }
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end(), [](const Round& a, const Round& b) {
    return a.single / a.ours < b.single / b.ours;
  });
  // Of multiply-adds, two operations each.
  const double ours = 2e-9 * contest.multiply_adds() / middle->ours;
  const double single = 2e-9 * contest.multiply_adds() / middle->single;
  const double ratio = Quantile(ratios, 0.5);
  const double spread = (Quantile(ratios, 0.75) - Quantile(ratios, 0.25)) / ratio;
  const double fraction = Quantile(fractions, 0.5);
  if (json) {
    std::printf(
        "{\"bench\": \"attention-prefill\", \"case\": \"%s\", \"ours\": %.6g, \"peer\": %.6g, "
        "\"peer_name\": \"token by token\", \"unit\": \"GFLOP/s\", \"ratio\": %.4g, "
        "\"limit_fraction\": %.4g, \"spread\": %.3g, \"samples\": %zu}\n",
        name.c_str(), ours, single, ratio, fraction, spread, rounds.size());
  } else {
    std::printf("%-24s %7.1f GFLOP/s, token by token %7.1f, ratio %5.2f, %5.1f%% of the limit\n",
                name.c_str(), ours, single, ratio, 100 * fraction);
  }
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  CaseOptions options;
  if (!options.Parse("bench_attention_prefill", argc, argv)) return 2;
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8}) {
    const double rate = MultiplyAddRate(type == KvType::kI8);
    for (const Model& model : kModels) {
      for (const size_t context : kContexts) {
        for (const size_t threads : {1, 2}) {
          const std::string name = CaseName(type, model, context, threads);
          if (!options.Wants(name)) continue;
          Contest contest(model, type, context * 1024);
          Measure(contest, name, threads, rate, options.json());
        }
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace offpath::bench

int main(int argc, char** argv) {
  return offpath::bench::RunMain("bench_attention_prefill", offpath::bench::Main, argc, argv);
}
