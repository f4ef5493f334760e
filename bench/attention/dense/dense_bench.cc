// bench_attention_dense [--json] [PART...]: dense decode attention of a layer, by the decoder with
// the dense policy, against llama.cpp's over the same keys and values and against what the machine
// gives at most. Cases are TYPE SHAPE CONTEXT THREADS; with PARTs, those that have all of them.
//
// Layers are taken in turns, so many that what is read again has left the last-level cache. A round
// times passes over all layers by us and passes that only read our blocks, alternately, and one by
// the peer, which takes many times as long. The limit is the slower of that reading and of the
// multiply-adds at the rate that this processor reaches. The results are checked against each other
// before anything is timed.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "bench/attention/dense/cases.h"
#include "bench/attention/dense/kv_rows.h"
#include "bench/attention/dense/limits.h"
#include "bench/attention/dense/llama_attention.h"
#include "bench/attention/dense/team_time.h"
#include "bench/base/clock.h"
#include "bench/base/quantile.h"
#include "bench/base/run.h"
#include "offpath/attention/decode/decoder.h"
#include "offpath/base/error.h"

namespace offpath::bench {
namespace {

using namespace attention;

constexpr size_t kContexts[] = {8, 32, 128, 512};  // thousands of tokens
constexpr size_t kBlockTokens = 128;  // the largest: runs of memory that the processor streams
constexpr double kSeconds = 2;        // of rounds, a case
constexpr size_t kPasses = 5;         // of ours, a round
constexpr size_t kFewestRounds = 3;
constexpr size_t kMostRounds = 101;
// In f16, llama.cpp adds up values in f16; of q8_0, it rounds the query to 8 bits as well.
constexpr double kAgreement = 0.05;

size_t LayersOf(const Model& model, KvType type, size_t tokens) {
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const size_t beyond = cache > 0 ? 2 * static_cast<size_t>(cache) : size_t{2} << 30;
  const size_t layer = 2 * tokens * model.kv_heads * model.head_dim * ElementBytes(type);
  return std::max<size_t>(1, beyond / layer + 1);
}

// A context of a model's shape, ours and llama.cpp's.
class Contest {
 public:
  Contest(const Model& model, KvType type, size_t tokens)
      : model_(model),
        layers_(LayersOf(model, type, tokens)),
        rows_(model.kv_heads * model.head_dim),
        decoder_(OptionsOf(model, type, tokens, layers_)),
        sequence_(decoder_.Create()),
        peer_({.quantized = type == KvType::kI8,
               .query_heads = model.query_heads,
               .kv_heads = model.kv_heads,
               .head_dim = model.head_dim,
               .tokens = tokens,
               .layers = layers_},
              rows_),
        query_(model.query_heads * model.head_dim),
        output_(query_.size()),
        multiply_adds_(2.0 * static_cast<double>(layers_ * tokens * query_.size())),
        multiply_add_rate_(MultiplyAddRate(type == KvType::kI8)) {
    for (size_t layer = 0; layer < layers_; ++layer) {
      for (size_t t = 0; t < tokens; t += KvRows::kTokens) {
        decoder_.Append(sequence_, layer,
                        {.keys = rows_.Chunk(layer, t / KvRows::kTokens, 0),
                         .values = rows_.Chunk(layer, t / KvRows::kTokens, 1),
                         .key_stride = rows_.width(),
                         .value_stride = rows_.width(),
                         .count = KvRows::kTokens});
      }
    }
    ListMemory(tokens);
    std::mt19937_64 random(2);
    std::normal_distribution<float> normal;
    for (float& x : query_) x = 2.5F * normal(random);
  }

  size_t layers() const { return layers_; }
  void Start(size_t threads) { peer_.Start(threads); }

  // The root mean square of the differences over that of our results.
  double Disagreement() {
    double differences = 0;
    double squares = 0;
    for (size_t layer = 0; layer < layers_; ++layer) {
      AttendLayer(layer, {});
      const float* theirs = peer_.Attend(layer, query_.data());
      for (size_t i = 0; i < output_.size(); ++i) {
        differences += std::pow(static_cast<double>(theirs[i]) - output_[i], 2);
        squares += std::pow(output_[i], 2);
      }
    }
    peer_.Pause();
    return std::sqrt(differences / squares);
  }

  double TimeOurs(size_t threads) {
    return TimeTeam(threads, [&](const Worker& worker) {
      for (size_t layer = 0; layer < layers_; ++layer) AttendLayer(layer, worker);
    });
  }

  double TimePeer() {
    peer_.Attend(0, query_.data());  // wakes the threads
    const double begin = Now();
    for (size_t layer = 0; layer < layers_; ++layer) peer_.Attend(layer, query_.data());
    const double seconds = Now() - begin;
    peer_.Pause();
    return seconds;
  }

  double TimeReading(size_t threads, size_t ahead) {
    return TimeTeam(threads,
                    [&](const Worker& worker) {
                      size_t sum = 0;
                      for (size_t i = worker.index; i < memory_.size(); i += worker.count) {
                        sum += ReadAll(memory_[i], ahead);
                      }
                      sums_[worker.index % std::size(sums_)] = sum;
                    }) *
           share_read_;
  }

  double MultiplyAddSeconds(size_t threads) const {
    return multiply_adds_ / multiply_add_rate_ / static_cast<double>(threads);
  }

 private:
  static DecoderOptions OptionsOf(const Model& model, KvType type, size_t tokens, size_t layers) {
    const KvShape shape = {.type = type, .head_dim = model.head_dim, .block_tokens = kBlockTokens};
    const size_t blocks = tokens / kBlockTokens * layers * model.kv_heads;
    DecoderOptions options;
    options.cache = {.shape = shape,
                     .layers = layers,
                     .kv_heads = model.kv_heads,
                     .memory_bytes = blocks * LayOutHeadBlock(shape).bytes};
    options.query_heads = model.query_heads;
    options.layers.assign(layers, {.scale = 1 / std::sqrt(static_cast<float>(model.head_dim))});
    return options;
  }

  void AttendLayer(size_t layer, const Worker& worker) {
    decoder_.Attend(
        sequence_, layer,
        {.rows = query_.data(),
         .token_stride = query_.size(),
         .head_stride = model_.head_dim,
         .tokens = 1},
        {.rows = output_.data(), .token_stride = output_.size(), .head_stride = model_.head_dim},
        worker);
  }

  // The blocks' memory in its order, in pieces of at most 512 KiB.
  void ListMemory(size_t tokens) {
    const KvCache& cache = decoder_.cache();
    const size_t bytes = LayOutHeadBlock(cache.options().shape).bytes;
    std::vector<const std::byte*> blocks;
    for (size_t layer = 0; layer < layers_; ++layer) {
      for (size_t head = 0; head < model_.kv_heads; ++head) {
        for (size_t b = 0; b < tokens / kBlockTokens; ++b) {
          blocks.push_back(cache.HeadBlock(sequence_, layer, head, b));
        }
      }
    }
    std::sort(blocks.begin(), blocks.end(), std::less<>());
    size_t read = 0;
    for (size_t i = 0; i < blocks.size();) {
      const size_t first = i;
      while (i < blocks.size() && blocks[i] == blocks[first] + (i - first) * bytes &&
             (i - first) * bytes < (size_t{512} << 10)) {
        ++i;
      }
      memory_.emplace_back(blocks[first], (i - first) * bytes / 256 * 256);
      read += memory_.back().size();
    }
    share_read_ = static_cast<double>(blocks.size() * bytes) / static_cast<double>(read);
  }

  const Model& model_;
  size_t layers_;
  KvRows rows_;
  Decoder decoder_;
  SequenceId sequence_;
  LlamaAttention peer_;
  std::vector<float> query_;
  std::vector<float> output_;
  std::vector<std::span<const std::byte>> memory_;
  double share_read_ = 1;  // all bytes over those of whole groups of lines
  double multiply_adds_;
  double multiply_add_rate_;
  volatile size_t sums_[64] = {};
};

struct Round {
  double ours, peer;
};

// The distance at which reading is fastest.
size_t BestAhead(Contest& contest, size_t threads) {
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (const size_t ahead : {0, 1024, 4096}) {
      const double seconds = contest.TimeReading(threads, ahead);
      if (seconds >= least) continue;
      least = seconds;
      best = ahead;
    }
  }
  return best;
}

void Measure(Contest& contest, const std::string& name, size_t threads, bool json) {
  contest.Start(threads);
  const double disagreement = contest.Disagreement();
  if (!(disagreement < kAgreement)) {
    throw Error(ErrorCode::kInternal, name + ": the results differ by " +
                                          std::to_string(disagreement) + " of their size");
  }
  const size_t ahead = BestAhead(contest, threads);
  std::vector<Round> rounds;
  std::vector<double> fractions;
  for (const double end = Now() + kSeconds; rounds.size() < kFewestRounds ||
                                            rounds.size() % 2 == 0 ||
                                            (Now() < end && rounds.size() < kMostRounds);) {
    std::vector<double> ours;
    for (size_t pass = 0; pass < kPasses; ++pass) {
      ours.push_back(contest.TimeOurs(threads));
      const double reading = contest.TimeReading(threads, ahead);
      fractions.push_back(std::max(reading, contest.MultiplyAddSeconds(threads)) / ours.back());
    }
    rounds.push_back({.ours = Quantile(ours, 0.5), .peer = contest.TimePeer()});
  }
  std::vector<double> ratios;
  for (const Round& round : rounds) {
    ratios.push_back(round.peer / round.ours);
  }
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end(), [](const Round& a, const Round& b) {
    return a.peer / a.ours < b.peer / b.ours;
  });
  const double unit = 1e6 / static_cast<double>(contest.layers());
  const double ratio = Quantile(ratios, 0.5);
  const double spread = (Quantile(ratios, 0.75) - Quantile(ratios, 0.25)) / ratio;
  const double fraction = Quantile(fractions, 0.5);
  if (json) {
    std::printf(
        "{\"bench\": \"attention-dense\", \"case\": \"%s\", \"ours\": %.6g, \"peer\": %.6g, "
        "\"peer_name\": \"llama.cpp\", \"unit\": \"us a layer\", \"ratio\": %.4g, "
        "\"limit_fraction\": %.4g, \"spread\": %.3g, \"samples\": %zu, \"disagreement\": %.2g}\n",
        name.c_str(), middle->ours * unit, middle->peer * unit, ratio, fraction, spread,
        rounds.size(), disagreement);
  } else {
    std::printf("%-24s %10.1f us a layer, llama.cpp %10.1f, ratio %5.2f, %5.1f%% of the limit\n",
                name.c_str(), middle->ours * unit, middle->peer * unit, ratio, 100 * fraction);
  }
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  CaseOptions options;
  if (!options.Parse("bench_attention_dense", argc, argv)) return 2;
  for (const KvType type : {KvType::kF16, KvType::kI8}) {
    for (const Model& model : kModels) {
      for (const size_t context : kContexts) {
        std::vector<std::pair<std::string, size_t>> cases;
        for (const size_t threads : {1, 2}) {
          const std::string name = CaseName(type, model, context, threads);
          if (options.Wants(name)) cases.emplace_back(name, threads);
        }
        if (cases.empty()) continue;
        std::fprintf(stderr, "%s: writing keys and values\n", cases[0].first.c_str());
        Contest contest(model, type, context * 1024);
        for (const auto& [name, threads] : cases) Measure(contest, name, threads, options.json());
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace offpath::bench

int main(int argc, char** argv) {
  return offpath::bench::RunMain("bench_attention_dense", offpath::bench::Main, argc, argv);
}
