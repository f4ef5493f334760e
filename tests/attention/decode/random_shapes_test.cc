// Shapes, types, budgets and lengths at random, every policy and selector: each decode step against
// attention by its definition to the blocks that the policy says, whoever else decodes beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "offpath/attention/decode/team_threads.h"
#include "offpath/base/error.h"
#include "tests/attention/decode/expected_output.h"
#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8};
constexpr Policy kPolicies[] = {Policy::kDense, Policy::kSerial, Policy::kReuse, Policy::kPrr};

template <typename Value, size_t kCount>
Value OneOf(std::mt19937_64& random, const Value (&values)[kCount]) {
  return values[random() % kCount];
}

DecoderOptions RandomOptions(std::mt19937_64& random) {
  DecoderOptions options;
  constexpr size_t kDims[] = {64, 88, 100, 128, 256};
  constexpr size_t kBlocks[] = {16, 32, 64, 128};
  constexpr size_t kGroups[] = {1, 3, 5, 6, 7, 8, 16};
  constexpr Predictor kPredictors[] = {Predictor::kPrevious, Predictor::kEma,
                                       Predictor::kRegression};
  const size_t dim = OneOf(random, kDims);
  const size_t block = OneOf(random, kBlocks);
  options.cache = {.shape = {.type = OneOf(random, kTypes), .head_dim = dim, .block_tokens = block},
                   .layers = 1,
                   .kv_heads = 1 + random() % 3,
                   .memory_bytes = size_t{64} << 20};
  options.query_heads = options.cache.kv_heads * OneOf(random, kGroups);
  constexpr size_t kWindows[] = {0, 0, 0, 1, 20, 5000};
  constexpr float kCaps[] = {0, 0, 3};
  options.layers = {{.scale = 1 / std::sqrt(static_cast<float>(dim)),
                     .soft_cap = OneOf(random, kCaps),
                     .window = OneOf(random, kWindows)}};
  PolicyOptions& policy = options.policy;
  policy.policy = OneOf(random, kPolicies);
  policy.selector = Selectors()[random() % Selectors().size()].name;
  policy.dense_layers = 0;
  constexpr size_t kBudgets[] = {1, 2, 5, 1000};  // blocks
  policy.budget_tokens = OneOf(random, kBudgets) * block + random() % block;
  policy.speculated_blocks = random() % 9;
  policy.predictor = OneOf(random, kPredictors);
  policy.bounded_from = 1;
  const std::string_view name = policy.selector;
  const bool bounds = name == "quest" || name == "mean-std" || name == "arkvale";
  policy.scan = bounds && random() % 2 == 0 ? Scan::kBounded : Scan::kFlat;
  return options;
}

// One sequence of a decoder, with rows of its own.
class Stream {
 public:
  Stream(Decoder& decoder, uint64_t seed) : decoder_(decoder), random_(seed) {
    id_ = decoder_.Create();
  }

  void Append(size_t tokens) {
    const size_t row = decoder_.options().cache.kv_heads * Dim();
    const std::vector<float> rows = RandomFloats(random_(), 2 * tokens * row);
    decoder_.Append(id_, 0, {rows.data(), rows.data() + tokens * row, row, row, tokens});
  }
  std::vector<float> Step(TeamThreads& team) {
    Append(1);
    query_ = RandomFloats(random_(), decoder_.options().query_heads * Dim());
    std::vector<float> out(query_.size());
    team.Run([&](const Worker& worker) {
      decoder_.Attend(id_, 0, {query_.data(), query_.size(), Dim(), 1},
                      {out.data(), query_.size(), Dim()}, worker);
    });
    return out;
  }
  // The last step's output: of its selection, with reuse of the one before and the newest block.
  void Check(const std::vector<float>& out) {
    const size_t heads = decoder_.options().cache.kv_heads;
    const auto blocks = static_cast<uint32_t>(decoder_.cache().Blocks(id_, 0));
    BlockSets attended(heads);
    for (size_t h = 0; h < heads; ++h) {
      const std::vector<uint32_t>& selected = decoder_.LastSelection(id_, 0, h);
      std::vector<uint32_t>& set = attended[h] = selected;
      if (selected.empty()) {
        for (uint32_t b = 0; b < blocks; ++b) set.push_back(b);
      } else if (decoder_.options().policy.policy == Policy::kReuse && !last_.empty() &&
                 !last_[h].empty()) {
        set = last_[h];
        if (set.back() + 1 != blocks) set.push_back(blocks - 1);
        const size_t budget = decoder_.options().policy.budget_tokens / Block();
        ASSERT_LE(set.size(), budget + 1);
        // The oldest behind the sinks makes room; sinks of a selector are no more than a quarter.
        if (set.size() > budget) {
          const auto selector = MakeSelector(decoder_.options().policy.selector,
                                             {.head_dim = Dim(), .block_tokens = Block()});
          const size_t sinks = KeptWithin(selector->kept(), budget).sinks;
          set.erase(set.begin() + static_cast<std::ptrdiff_t>(std::min(sinks, budget - 1)));
        }
      }
    }
    last_.assign(heads, {});
    for (size_t h = 0; h < heads; ++h) last_[h] = decoder_.LastSelection(id_, 0, h);
    const Expected expected =
        AttendToBlocks(decoder_.cache(), id_, 0, query_, decoder_.options().layers[0], attended);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected.output[i], 4e-6 + expected.allowance) << "element " << i;
    }
  }

 private:
  size_t Dim() const { return decoder_.options().cache.shape.head_dim; }
  size_t Block() const { return decoder_.options().cache.shape.block_tokens; }

  Decoder& decoder_;
  std::mt19937_64 random_;
  SequenceId id_ = 0;
  std::vector<float> query_;
  BlockSets last_;
};

std::string Describe(uint64_t seed, const DecoderOptions& options, size_t prompt) {
  const KvShape& shape = options.cache.shape;
  return "seed " + std::to_string(seed) + ": " + std::string(PolicyName(options.policy.policy)) +
         " " + options.policy.selector + " " + std::string(ScanName(options.policy.scan)) + ", " +
         std::string(KvTypeName(shape.type)) + ", dim " + std::to_string(shape.head_dim) +
         ", blocks of " + std::to_string(shape.block_tokens) + ", " +
         std::to_string(options.query_heads) + "/" + std::to_string(options.cache.kv_heads) +
         " heads, window " + std::to_string(options.layers[0].window) + ", budget " +
         std::to_string(options.policy.budget_tokens) + ", prompt " + std::to_string(prompt);
}

TEST(RandomShapes, EveryStepIsAttentionToWhatThePolicySaysAloneAndBesideOthers) {
  TeamThreads one(1);
  TeamThreads two(2);
  size_t sparse = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    std::mt19937_64 random(seed);
    const DecoderOptions options = RandomOptions(random);
    const size_t prompts[] = {random() % 15, options.cache.shape.block_tokens - 1, 270,
                              300 + random() % 300};
    const size_t prompt = OneOf(random, prompts);
    SCOPED_TRACE(Describe(seed, options, prompt));
    Decoder alone(options);
    Stream stream(alone, seed);
    Decoder together(options);
    Stream same(together, seed);
    Stream neighbour(together, seed + 1000);
    if (prompt > 0) {
      stream.Append(prompt);
      same.Append(prompt);
    }
    neighbour.Append(1 + random() % 400);
    for (size_t step = 0; step < 5; ++step) {
      const std::vector<float> out = stream.Step(one);
      ASSERT_NO_FATAL_FAILURE(stream.Check(out));
      neighbour.Step(one);
      ASSERT_EQ(same.Step(step == 3 ? two : one), out) << "step " << step;
    }
    sparse += alone.counters().sparse_steps;
  }
  EXPECT_GT(sparse, 60U);
}

// Scores far below what a kernel may have taken as its -infinity, and sums that are exact in f32:
// queries and keys are whole numbers.
TEST(RandomShapes, ScoresBelowAnySentinelWeighAsAllOthers) {
  constexpr size_t kDim = 64;
  constexpr size_t kTokens = 400;
  for (const KvType type : kTypes) {
    for (const Policy policy : kPolicies) {
      for (const SelectorInfo& info : Selectors()) {
        DecoderOptions options;
        options.cache = {.shape = {.type = type, .head_dim = kDim, .block_tokens = 16},
                         .layers = 1,
                         .kv_heads = 1,
                         .memory_bytes = size_t{8} << 20};
        options.query_heads = 2;
        options.layers = {{.scale = 1.0F / 64}};
        options.policy = {.policy = policy,
                          .selector = std::string(info.name),
                          .dense_layers = 0,
                          .budget_tokens = 96,
                          .speculated_blocks = 6};
        Decoder decoder(options);
        const SequenceId id = decoder.Create();
        std::vector<float> keys(kTokens * kDim, -256);
        for (size_t t = 0; t < kTokens; ++t) keys[t * kDim] = static_cast<float>(t * 7 % 9);
        const std::vector<float> values = RandomFloats(1, kTokens * kDim);
        std::vector<float> query(2 * kDim, 256);
        query[0] = query[kDim] = 16;
        std::vector<float> out(2 * kDim);
        decoder.Append(id, 0, {keys.data(), values.data(), kDim, kDim, kTokens - 2});
        for (size_t t = kTokens - 2; t < kTokens; ++t) {
          decoder.Append(id, 0, {keys.data() + t * kDim, values.data() + t * kDim, kDim, kDim, 1});
          decoder.Attend(id, 0, {query.data(), 2 * kDim, kDim, 1}, {out.data(), 2 * kDim, kDim},
                         {});
        }
        // The query is the same as the step's before, and no block has begun: so is the selection.
        BlockSets attended = {decoder.LastSelection(id, 0, 0)};
        if (attended[0].empty()) {
          for (uint32_t b = 0; b < kTokens / 16; ++b) attended[0].push_back(b);
        }
        const Expected expected =
            AttendToBlocks(decoder.cache(), id, 0, query, options.layers[0], attended);
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_NEAR(out[i], expected.output[i], 4e-6 + expected.allowance)
              << KvTypeName(type) << " " << PolicyName(policy) << " " << info.name;
        }
      }
    }
  }
}

TEST(RandomShapes, ABudgetOfNothingIsRefusedByName) {
  for (const Policy policy : {Policy::kSerial, Policy::kReuse, Policy::kPrr}) {
    std::mt19937_64 random(3);
    DecoderOptions options = RandomOptions(random);
    options.policy.policy = policy;
    options.policy.budget_tokens = 0;
    try {
      Decoder decoder(options);
      ADD_FAILURE() << PolicyName(policy);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("a budget of 0 tokens"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace offpath::attention
