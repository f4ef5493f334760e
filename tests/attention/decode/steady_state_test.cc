// A decode step allocates nothing once it has seen its like: the program counts what is allocated
// between two blocks of a sequence, by all threads, the tier's included.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <span>
#include <vector>

#include "offpath/attention/decode/decoder.h"
#include "offpath/attention/decode/team_threads.h"
#include "offpath/base/buffer.h"
#include "tests/attention/random_floats.h"

namespace {

std::atomic<size_t> allocations = 0;

void* Count(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  allocations.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Count(std::malloc(bytes)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto line = static_cast<size_t>(alignment);
  return Count(std::aligned_alloc(line, (bytes + line - 1) / line * line));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace offpath::attention {
namespace {

constexpr size_t kBlock = 32;
constexpr size_t kPrompt = 40 * kBlock;
constexpr size_t kLayers = 3;
constexpr size_t kKvHeads = 2;
constexpr size_t kDim = 16;
constexpr size_t kRow = kKvHeads * kDim;
constexpr size_t kQueryRow = 3 * kRow;

struct Kind {
  Policy policy = Policy::kDense;
  const char* selector = "";
  Predictor predictor = Predictor::kEma;
  Scan scan = Scan::kFlat;
  Extras extras = Extras::kDrop;
};

DecoderOptions OptionsOf(const Kind& kind) {
  DecoderOptions options;
  options.cache = {.shape = {.type = KvType::kF16, .head_dim = kDim, .block_tokens = kBlock},
                   .layers = kLayers,
                   .kv_heads = kKvHeads,
                   .memory_bytes = size_t{64} << 20};
  options.query_heads = kQueryRow / kDim;
  options.layers.assign(kLayers, {.scale = 0.25F});
  options.policy.policy = kind.policy;
  options.policy.selector = kind.selector;
  options.policy.budget_tokens = 8 * kBlock;
  options.policy.speculated_blocks = 12;
  options.policy.predictor = kind.predictor;
  options.policy.scan = kind.scan;
  options.policy.extras = kind.extras;
  options.policy.bounded_from = 1;
  return options;
}

// Of the steps within a block, behind another block's.
size_t AllocationsOf(const DecoderOptions& options, size_t workers) {
  Decoder decoder(options);
  const SequenceId id = decoder.Create();
  const std::vector<float> prompt = RandomFloats(1, kPrompt * kRow);
  for (size_t layer = 0; layer < kLayers; ++layer) {
    decoder.Append(id, layer, {prompt.data(), prompt.data(), kRow, kRow, kPrompt});
  }
  constexpr size_t kSteps = 2 * kBlock - 1;  // the last would make a block whole
  const std::vector<float> rows = RandomFloats(2, kSteps * kRow);
  std::vector<float> queries = RandomFloats(3, kSteps * kQueryRow);
  for (size_t i = kQueryRow; i < queries.size(); ++i) {
    queries[i] = 0.9F * queries[i - kQueryRow] + 0.4F * queries[i];
  }
  std::vector<float> out(kQueryRow);
  TeamThreads team(workers);
  size_t step = 0;
  size_t layer = 0;
  const std::function<void(const Worker&)> attend = [&](const Worker& worker) {
    decoder.Attend(id, layer, {queries.data() + step * kQueryRow, kQueryRow, kDim, 1},
                   {out.data(), kQueryRow, kDim}, worker);
  };
  size_t before = 0;
  for (; step < kSteps; ++step) {
    // The first step of a block takes its page, and may be the first to spill and to read another.
    if (step == kBlock + 2) before = allocations + BufferAllocations();
    for (layer = 0; layer < kLayers; ++layer) {
      const float* row = rows.data() + step * kRow;
      decoder.Append(id, layer, {row, row, kRow, kRow, 1});
      team.Run(attend);
    }
  }
  return allocations + BufferAllocations() - before;
}

constexpr Kind kKinds[] = {
    {.policy = Policy::kSerial, .selector = "arkvale", .scan = Scan::kBounded},
    {.policy = Policy::kReuse, .selector = "infllm"},
    {.policy = Policy::kPrr, .selector = "arkvale"},
    {.policy = Policy::kPrr, .selector = "infllm", .predictor = Predictor::kRegression},
    {.policy = Policy::kPrr, .selector = "arkvale", .extras = Extras::kKeep},
    {.policy = Policy::kPrr,
     .selector = "mean-std",
     .predictor = Predictor::kPrevious,
     .scan = Scan::kBounded},
    {.policy = Policy::kSerial, .selector = "quest"},
    {.policy = Policy::kSerial, .selector = "shadowkv"},
    {.policy = Policy::kReuse, .selector = "streaming"}};
constexpr size_t kWithTier = 4;  // the first of them: what the others do besides is in memory

std::string NameOf(const Kind& kind) {
  return std::string(PolicyName(kind.policy)) + " " + kind.selector + " " +
         std::string(PredictorName(kind.predictor)) + " " + std::string(ScanName(kind.scan));
}

TEST(SteadyState, ADenseStepAllocatesNothing) {
  for (const size_t workers : {size_t{1}, size_t{2}}) {
    EXPECT_EQ(AllocationsOf(OptionsOf({}), workers), 0U) << workers;
  }
}

TEST(SteadyState, ASparseStepInMemoryAllocatesNothing) {
  for (const Kind& kind : kKinds) {
    for (const size_t workers : {size_t{1}, size_t{2}}) {
      EXPECT_EQ(AllocationsOf(OptionsOf(kind), workers), 0U) << NameOf(kind) << " " << workers;
    }
  }
}

TEST(SteadyState, ASparseStepWithATierAllocatesNothing) {
  for (const Kind& kind : std::span(kKinds).first(kWithTier)) {
    for (const bool io_uring : {true, false}) {
      DecoderOptions options = OptionsOf(kind);
      options.tier = {.folder = std::filesystem::temp_directory_path().string(),
                      .hot_blocks = 4,
                      .queue_depth = 8,
                      .io_uring = io_uring};
      EXPECT_EQ(AllocationsOf(options, 2), 0U) << NameOf(kind) << " " << io_uring;
    }
  }
}

TEST(SteadyState, WhatIsAllocatedIsCounted) {
  const size_t before = allocations;
  const std::vector<float> floats(100);
  EXPECT_EQ(allocations, before + 1) << floats.size();
}

}  // namespace
}  // namespace offpath::attention
