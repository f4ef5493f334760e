// Reuse attends to what the step before selected and the block that began since, whatever became
// of the sequence in between.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/attention/decode/expected_output.h"
#include "tests/attention/decode/model_run.h"
#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

constexpr size_t kLayer = 2;  // the first that Quest makes sparse

// A sequence, and what its next step is to attend to.
struct Follower {
  SequenceId id = 0;
  BlockSets last = BlockSets(kKvHeads);  // selected by the last step
};

class Reuse : public testing::TestWithParam<KvType> {
 protected:
  void Append(SequenceId id, size_t tokens) {
    for (size_t layer = 0; layer < kLayers; ++layer) {
      AppendTokens(*decoder_, id, layer, model_, tokens);
    }
  }
  BlockSets ToAttend(const Follower& sequence, const AlwaysKept& kept) const {
    const auto newest = static_cast<uint32_t>(decoder_->cache().Blocks(sequence.id, kLayer) - 1);
    BlockSets sets = sequence.last;
    for (size_t h = 0; h < kKvHeads; ++h) {
      std::vector<uint32_t>& set = sets[h];
      if (set.empty()) set = decoder_->LastSelection(sequence.id, kLayer, h);
      if (set.back() == newest) continue;
      if (set.size() == kBudget) {
        set.erase(set.begin() + static_cast<std::ptrdiff_t>(kept.sinks));
      }
      set.push_back(newest);
    }
    return sets;
  }
  void Step(Follower& sequence, const AlwaysKept& kept) {
    Append(sequence.id, 1);
    const std::vector<float> query = model_.Row(kKvHeads * kGroup);
    std::vector<float> out(query.size());
    decoder_->Attend(sequence.id, kLayer, {query.data(), query.size(), kDim, 1},
                     {out.data(), query.size(), kDim}, {});
    const Expected expected =
        AttendToBlocks(decoder_->cache(), sequence.id, kLayer, query,
                       decoder_->options().layers[kLayer], ToAttend(sequence, kept));
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected.output[i], 2e-6 + expected.allowance)
          << decoder_->Tokens(sequence.id, kLayer) << " tokens";
    }
    for (size_t h = 0; h < kKvHeads; ++h) {
      sequence.last[h] = decoder_->LastSelection(sequence.id, kLayer, h);
    }
  }

  static constexpr size_t kBudget = 6;  // blocks
  std::unique_ptr<Decoder> decoder_;
  Model model_{5};
};

TEST_P(Reuse, AttendsToTheLastStepsSetAlsoAfterForksAndCuts) {
  for (const char* selector : {"quest", "mean-std", "arkvale", "infllm", "shadowkv", "streaming",
                               "double-sparsity", "oracle"}) {
    SCOPED_TRACE(selector);
    decoder_ =
        std::make_unique<Decoder>(OptionsOf({GetParam(), PolicyOf(Policy::kReuse, selector)}));
    const AlwaysKept kept =
        KeptWithin(MakeSelector(selector, {.head_dim = kDim, .block_tokens = 16})->kept(), kBudget);
    Follower first = {.id = decoder_->Create()};
    Append(first.id, 400);
    for (size_t step = 0; step < 20; ++step) ASSERT_NO_FATAL_FAILURE(Step(first, kept));
    // A fork goes on from the same step; what of its set was cut is gone.
    Follower fork = {.id = decoder_->Fork(first.id, 330), .last = first.last};
    for (std::vector<uint32_t>& set : fork.last) {
      std::erase_if(set, [](uint32_t block) { return block >= 330 / 16; });
    }
    for (size_t step = 0; step < 10; ++step) {
      ASSERT_NO_FATAL_FAILURE(Step(first, kept));
      ASSERT_NO_FATAL_FAILURE(Step(fork, kept));
    }
    decoder_->Truncate(first.id, 304);
    for (std::vector<uint32_t>& set : first.last) {
      std::erase_if(set, [](uint32_t block) { return block >= 304 / 16; });
    }
    for (size_t step = 0; step < 10; ++step) ASSERT_NO_FATAL_FAILURE(Step(first, kept));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Reuse,
                         testing::Values(KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8),
                         [](const auto& test) { return std::string(KvTypeName(test.param)); });

}  // namespace
}  // namespace offpath::attention
