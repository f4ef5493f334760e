#include "offpath/attention/partial/partial_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "offpath/attention/kv/head_block.h"
#include "offpath/base/buffer.h"
#include "tests/attention/partial/reference.h"
#include "tests/base/simd_targets.h"

namespace offpath::attention {
namespace {

constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Blocks of random tokens; slots beyond those written hold the bits of NaN.
struct Case {
  KvShape shape;
  size_t heads;
  size_t query_stride;
  std::vector<float> query;
  std::vector<Buffer<std::byte>> memory;
  std::vector<BlockSpan> spans;
  float scale;
  float soft_cap = 0;

  PartialInput input() const {
    return {.shape = shape,
            .query = query.data(),
            .query_stride = query_stride,
            .heads = heads,
            .blocks = spans,
            .scale = scale,
            .soft_cap = soft_cap};
  }
};

Case RandomCase(std::mt19937_64& random, KvShape shape, size_t heads, size_t blocks) {
  std::normal_distribution<float> normal;
  Case made = {.shape = shape,
               .heads = heads,
               .query_stride = shape.head_dim + random() % 5,
               .query = {},
               .memory = {},
               .spans = {},
               .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim))};
  made.query.resize(heads * made.query_stride);
  for (float& x : made.query) x = normal(random) * 2;
  std::vector<float> keys(shape.block_tokens * shape.head_dim);
  std::vector<float> values(keys.size());
  for (size_t b = 0; b < blocks; ++b) {
    Buffer<std::byte> block(LayOutHeadBlock(shape).bytes);
    std::memset(block.data(), 0xFF, block.size());
    for (float& x : keys) x = normal(random);
    for (float& x : values) x = normal(random);
    const auto end = static_cast<uint32_t>(random() % 3 == 0 ? random() % (shape.block_tokens + 1)
                                                             : shape.block_tokens);
    const auto begin = static_cast<uint32_t>(random() % 4 == 0 ? random() % (end + 1) : 0);
    WriteTokens(shape, block.data(), 0,
                {.keys = keys.data(),
                 .values = values.data(),
                 .key_stride = shape.head_dim,
                 .value_stride = shape.head_dim,
                 .count = end});
    made.spans.push_back({.block = block.data(), .begin = begin, .end = end});
    made.memory.push_back(std::move(block));
  }
  return made;
}

struct Result {
  std::vector<float> output, max, sum;

  Result(size_t heads, size_t dim) : output(heads * dim, -7), max(heads, -7), sum(heads, -7) {}
  PartialStates view(size_t dim) {
    return {.output = output.data(),
            .max = max.data(),
            .sum = sum.data(),
            .heads = max.size(),
            .head_dim = dim};
  }
};

Result Attend(const PartialInput& in) {
  Result result(in.heads, in.shape.head_dim);
  AttendPartial(in, result.view(in.shape.head_dim));
  return result;
}

// What the blocks hold, exactly: errors that remain are those of the kernel's arithmetic.
ReferenceInput ReferenceOf(const Case& made, size_t head) {
  const size_t dim = made.shape.head_dim;
  ReferenceInput in;
  const float* q = made.query.data() + head * made.query_stride;
  in.query.assign(q, q + dim);
  in.scale = made.scale;
  in.soft_cap = made.soft_cap;
  std::vector<float> key(dim);
  std::vector<float> value(dim);
  for (const BlockSpan& span : made.spans) {
    for (size_t t = span.begin; t < span.end; ++t) {
      ReadToken(made.shape, span.block, t, key.data(), value.data());
      in.keys.emplace_back(key.begin(), key.end());
      in.values.emplace_back(value.begin(), value.end());
    }
  }
  return in;
}

void ExpectMatchesReference(const Case& made) {
  const size_t dim = made.shape.head_dim;
  Result result = Attend(made.input());
  std::vector<float> lse(made.heads);
  Finish(result.view(dim), lse.data());
  for (size_t h = 0; h < made.heads; ++h) {
    const ReferenceInput in = ReferenceOf(made, h);
    const ReferenceState expected = ReferenceAttend(in);
    if (expected.sum == 0) {
      ASSERT_EQ(lse[h], -kInfinity);
      for (size_t d = 0; d < dim; ++d) ASSERT_EQ(result.output[h * dim + d], 0);
      continue;
    }
    const Allowance allowance = AllowanceOf(made.shape.type, in);
    // Scores are sums of head_dim products of about 2: f32 loses some units of 2^-24 of them.
    ASSERT_NEAR(lse[h], expected.max + std::log(expected.sum), 2e-5 + allowance.score)
        << "head " << h;
    double squares = 0;
    for (size_t d = 0; d < dim; ++d) {
      const double want = expected.output[d] / expected.sum;
      ASSERT_NEAR(result.output[h * dim + d], want, 5e-5 + allowance.output)
          << "head " << h << " column " << d;
      squares += (result.output[h * dim + d] - want) * (result.output[h * dim + d] - want);
    }
    // The bounds are for rounding errors that all have one sign.
    ASSERT_LT(std::sqrt(squares / static_cast<double>(dim)),
              allowance.output == 0 ? 5e-5 : 2e-5 + allowance.output / 20)
        << "head " << h;
  }
}

TEST(PartialAttention, EqualsTheReferenceForEveryTypeShapeAndGroup) {
  ForEveryTarget([] {
    std::mt19937_64 random(1);
    constexpr size_t kGroups[] = {1, 2, 3, 4, 5, 6, 7, 8, 16};
    size_t next_group = 0;  // each of the groups with each of the types, in turns
    for (const KvType type : kTypes) {
      for (const size_t dim : {4, 12, 64, 88, 100, 128, 256}) {
        for (int round = 0; round < 3; ++round) {
          const size_t heads = kGroups[next_group++ % std::size(kGroups)];
          const size_t tokens = size_t{16} << random() % 4;
          const KvShape shape = {.type = type, .head_dim = dim, .block_tokens = tokens};
          // Across the chunks in which the kernel takes tokens.
          const size_t blocks = random() % (500 / tokens);
          SCOPED_TRACE(std::string(KvTypeName(type)) + ", " + std::to_string(heads) + " heads of " +
                       std::to_string(dim) + ", " + std::to_string(blocks) + " blocks of " +
                       std::to_string(tokens));
          ExpectMatchesReference(RandomCase(random, shape, heads, blocks));
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(PartialAttention, SoftCapIsAppliedBeforeTokensAreLeftOut) {
  ForEveryTarget([] {
    std::mt19937_64 random(2);
    for (const KvType type : kTypes) {
      Case made = RandomCase(random, {.type = type, .head_dim = 64, .block_tokens = 32}, 3, 9);
      made.soft_cap = 1.5F;
      ExpectMatchesReference(made);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(PartialAttention, ListsThatAreAttendedToApartMergeIntoTheWhole) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 40; ++round) {
    const KvShape shape = {.type = kTypes[round % 4], .head_dim = 64, .block_tokens = 16};
    Case made = RandomCase(random, shape, 1 + random() % 8, 2 + random() % 30);
    std::shuffle(made.spans.begin(), made.spans.end(), random);
    PartialInput in = made.input();
    Result whole = Attend(in);
    const size_t first = random() % (made.spans.size() + 1);
    in.blocks = std::span(made.spans).first(first);
    Result merged = Attend(in);
    in.blocks = std::span(made.spans).subspan(first);
    Result rest = Attend(in);
    Merge(merged.view(64), rest.view(64));
    Finish(whole.view(64), nullptr);
    Finish(merged.view(64), nullptr);
    for (size_t i = 0; i < whole.output.size(); ++i) {
      // i8 weights are rounded to the largest of their chunk, and chunks are cut otherwise here.
      ASSERT_NEAR(merged.output[i], whole.output[i], shape.type == KvType::kI8 ? 1e-4 : 2e-5);
    }
  }
}

TEST(PartialAttention, NoBlocksAndBlocksWithoutTokensAreTheEmptySet) {
  std::mt19937_64 random(4);
  for (const KvType type : kTypes) {
    Case made = RandomCase(random, {.type = type, .head_dim = 20, .block_tokens = 16}, 5, 40);
    for (BlockSpan& span : made.spans) span.begin = span.end;
    PartialInput in = made.input();
    for (const bool blocks : {true, false}) {
      if (!blocks) in.blocks = {};
      const Result result = Attend(in);
      EXPECT_EQ(result.max, std::vector<float>(5, -kInfinity));
      EXPECT_EQ(result.sum, std::vector<float>(5, 0.0F));
      EXPECT_EQ(result.output, std::vector<float>(100, 0.0F));
    }
  }
}

TEST(PartialAttention, LargeScoresDoNotOverflow) {
  std::mt19937_64 random(5);
  for (const KvType type : kTypes) {
    Case made = RandomCase(random, {.type = type, .head_dim = 32, .block_tokens = 16}, 2, 20);
    made.scale = 1e4F;
    Result result = Attend(made.input());
    ASSERT_TRUE(IsFinite(result.view(32)));
    std::vector<float> lse(2);
    Finish(result.view(32), lse.data());
    for (size_t h = 0; h < 2; ++h) {
      const ReferenceState expected = ReferenceAttend(ReferenceOf(made, h));
      EXPECT_NEAR(lse[h] / expected.max, 1, 1e-5);
    }
  }
}

TEST(PartialAttention, AHeadDoesNotDependOnTheOthersOfItsGroup) {
  std::mt19937_64 random(6);
  for (const KvType type : kTypes) {
    Case made = RandomCase(random, {.type = type, .head_dim = 64, .block_tokens = 16}, 4, 30);
    const Result together = Attend(made.input());
    for (size_t h = 0; h < 4; ++h) {
      PartialInput in = made.input();
      in.query += h * in.query_stride;
      in.heads = 1;
      const Result alone = Attend(in);
      EXPECT_EQ(alone.max[0], together.max[h]);
      EXPECT_EQ(alone.sum[0], together.sum[h]);
      EXPECT_TRUE(std::equal(alone.output.begin(), alone.output.end(),
                             together.output.begin() + static_cast<std::ptrdiff_t>(h * 64)));
    }
  }
}

TEST(PartialAttention, NanAndInfinityAreToldAndOtherHeadsAreNot) {
  std::mt19937_64 random(7);
  for (const KvType type : kTypes) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
      Case made = RandomCase(random, {.type = type, .head_dim = 16, .block_tokens = 16}, 3, 20);
      made.query[made.query_stride + 5] = bad;
      Result result = Attend(made.input());
      const auto head = [&](size_t h) {
        return PartialStates{.output = result.output.data() + h * 16,
                             .max = result.max.data() + h,
                             .sum = result.sum.data() + h,
                             .heads = 1,
                             .head_dim = 16};
      };
      EXPECT_FALSE(IsFinite(head(1)));
      EXPECT_TRUE(IsFinite(head(0)));
      EXPECT_TRUE(IsFinite(head(2)));
    }
  }
}

TEST(PartialAttention, ANanInAKeyIsTold) {
  std::mt19937_64 random(8);
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
    Case made = RandomCase(random, {.type = type, .head_dim = 16, .block_tokens = 16}, 2, 6);
    std::vector<float> rows(16 * 16, 1.0F);
    const TokenRows tokens = {.keys = rows.data(),
                              .values = rows.data(),
                              .key_stride = 16,
                              .value_stride = 16,
                              .count = 16};
    made.spans[4].begin = 0;
    made.spans[4].end = 16;
    WriteTokens(made.shape, made.memory[4].data(), 0, tokens);
    Result finite = Attend(made.input());
    EXPECT_TRUE(IsFinite(finite.view(16)));
    rows[11 * 16 + 3] = std::numeric_limits<float>::quiet_NaN();
    WriteTokens(made.shape, made.memory[4].data(), 0, tokens);
    Result result = Attend(made.input());
    EXPECT_FALSE(IsFinite(result.view(16)));
  }
}

}  // namespace
}  // namespace offpath::attention
