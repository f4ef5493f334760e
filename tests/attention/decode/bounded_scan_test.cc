// Selection by bounds within a decoder: the same blocks as by the flat scan, always.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "offpath/base/error.h"
#include "tests/attention/decode/model_run.h"

namespace offpath::attention {
namespace {

using testing::HasSubstr;

constexpr size_t kTokens = 6200;  // 387 blocks: three groups of bounds, and landmarks behind them

DecoderOptions ScanOptions(Scan scan, const char* selector, Policy policy = Policy::kSerial,
                           Predictor predictor = Predictor::kEma) {
  PolicyOptions options = PolicyOf(policy, selector, 9);
  options.dense_layers = 0;
  options.predictor = predictor;
  options.scan = scan;
  options.bounded_from = 1;
  return OptionsOf({KvType::kF16, options});
}

// Two decoders that are given the same calls, a flat one and one by bounds.
class Twins {
 public:
  Twins(const char* selector, Policy policy, Predictor predictor)
      : flat_(ScanOptions(Scan::kFlat, selector, policy, predictor)),
        bounded_(ScanOptions(Scan::kBounded, selector, policy, predictor)) {}

  void Both(const std::function<void(Decoder&)>& call) {
    call(flat_);
    call(bounded_);
  }
  SequenceId Create() {
    const SequenceId id = flat_.Create();
    EXPECT_EQ(bounded_.Create(), id);
    return id;
  }
  SequenceId Fork(SequenceId from, size_t tokens) {
    const SequenceId id = flat_.Fork(from, tokens);
    EXPECT_EQ(bounded_.Fork(from, tokens), id);
    return id;
  }
  void Append(SequenceId id, size_t layer, const std::vector<float>& rows) {
    constexpr size_t kRow = kKvHeads * kDim;
    const TokenRows tokens = {.keys = rows.data(),
                              .values = rows.data(),
                              .key_stride = kRow,
                              .value_stride = kRow,
                              .count = rows.size() / kRow};
    Both([&](Decoder& decoder) { decoder.Append(id, layer, tokens); });
  }
  void Step(SequenceId id, size_t layer, const std::vector<float>& query) {
    std::vector<float> outputs[2];
    size_t number = 0;
    Both([&](Decoder& decoder) {
      std::vector<float>& output = outputs[number++];
      output.resize(query.size());
      decoder.Attend(id, layer, {query.data(), query.size(), kDim, 1},
                     {output.data(), query.size(), kDim}, {});
    });
    for (size_t h = 0; h < kKvHeads; ++h) {
      ASSERT_EQ(bounded_.LastSelection(id, layer, h), flat_.LastSelection(id, layer, h))
          << "sequence " << id << ", layer " << layer << ", head " << h << ", "
          << flat_.Tokens(id, layer) << " tokens";
    }
    // Which blocks were speculated on may differ, and with them the order of sums.
    for (size_t i = 0; i < query.size(); ++i) ASSERT_NEAR(outputs[1][i], outputs[0][i], 2e-5);
  }

  Decoder& bounded() { return bounded_; }

 private:
  Decoder flat_;
  Decoder bounded_;
};

// Keys of one kind for each run: what bounds rule out and what they cannot.
std::vector<float> RowsOf(std::mt19937_64& random, size_t tokens, int kind) {
  std::normal_distribution<float> normal;
  std::vector<float> rows(tokens * kKvHeads * kDim);
  for (size_t i = 0; i < rows.size(); ++i) {
    const float x = normal(random);
    const auto step = static_cast<float>(i / (16 * kKvHeads * kDim) % 5);
    rows[i] = kind == 0     ? x
              : kind == 1   ? std::round(x)     // many scores alike
              : kind == 2   ? 0.05F * x + step  // blocks in clusters
              : i % 97 == 0 ? 1000 * x
                            : 0.01F * x;  // outliers
  }
  return rows;
}

TEST(BoundedScan, SelectsWhatTheFlatScanSelectsThroughForksAndCuts) {
  const Predictor predictors[] = {Predictor::kPrevious, Predictor::kEma, Predictor::kRegression};
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const char* selectors[] = {"quest", "mean-std", "arkvale", "infllm"};
    Twins twins(selectors[seed % 4], seed % 2 == 0 ? Policy::kPrr : Policy::kSerial,
                predictors[seed % 3]);
    const int kind = static_cast<int>(seed / 3 % 4);
    std::mt19937_64 random(seed);
    std::vector<SequenceId> sequences = {twins.Create()};
    for (size_t layer = 0; layer < kLayers; ++layer) {
      twins.Append(sequences[0], layer, RowsOf(random, kTokens, kind));
    }
    std::vector<float> query = RowsOf(random, kGroup, 0);
    for (size_t step = 0; step < 60; ++step) {
      const size_t at = random() % sequences.size();
      const SequenceId id = sequences[at];
      const size_t tokens = twins.bounded().Tokens(id, 0);
      const size_t dice = random() % 12;
      if (dice == 0 && sequences.size() < 4) {
        sequences.push_back(twins.Fork(id, tokens - random() % std::min<size_t>(tokens, 3000)));
        continue;
      }
      if (dice == 1 && tokens > 600) {
        const size_t left = tokens - random() % 400;
        twins.Both([&](Decoder& decoder) { decoder.Truncate(id, left); });
      } else if (dice == 2 && sequences.size() > 1) {
        twins.Both([&](Decoder& decoder) { decoder.Free(id); });
        sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(at));
        continue;
      }
      // Queries turn slowly, and at times at once: the seed is of no use then.
      const std::vector<float> turn = RowsOf(random, kGroup, 0);
      for (size_t i = 0; i < query.size(); ++i) {
        query[i] = dice == 3 ? -query[i] : 0.9F * query[i] + 0.4F * turn[i];
      }
      const size_t more = 1 + random() % 40;
      for (size_t layer = 0; layer < kLayers; ++layer) {
        twins.Append(id, layer, RowsOf(random, more, kind));
        ASSERT_NO_FATAL_FAILURE(twins.Step(id, layer, query));
      }
    }
  }
}

TEST(BoundedScan, FitsBudgetsThatAlwaysKeptBlocksFill) {
  for (const size_t budget : {size_t{16}, size_t{32}, size_t{64}, size_t{80}}) {
    Trajectory runs[2];
    for (const Scan scan : {Scan::kFlat, Scan::kBounded}) {
      DecoderOptions options = ScanOptions(scan, "arkvale");
      options.policy.budget_tokens = budget;
      runs[scan == Scan::kBounded ? 1 : 0] = RunModel(options, 300, 20, 1);
    }
    EXPECT_EQ(runs[1].selections, runs[0].selections) << budget;
    EXPECT_EQ(runs[1].outputs, runs[0].outputs) << budget;
  }
}

TEST(BoundedScan, ResultsAreTheSameBitsForAnyNumberOfWorkers) {
  const DecoderOptions options = ScanOptions(Scan::kBounded, "quest", Policy::kPrr);
  const Trajectory one = RunModel(options, 4200, 4, 1);
  EXPECT_EQ(RunModel(options, 4200, 4, 3).outputs, one.outputs);
}

TEST(BoundedScan, ASelectorWithoutBoundsIsRefusedByName) {
  for (const char* selector : {"shadowkv", "infllm-v2", "streaming", "oracle"}) {
    Decoder decoder(ScanOptions(Scan::kFlat, selector));
    decoder.Create();
    try {
      Decoder bounded(ScanOptions(Scan::kBounded, selector));
      ADD_FAILURE() << selector;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(std::string(error.message()), HasSubstr(selector));
    }
  }
}

}  // namespace
}  // namespace offpath::attention
