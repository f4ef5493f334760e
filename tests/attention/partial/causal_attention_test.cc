#include "offpath/attention/partial/causal_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "offpath/attention/kv/head_block.h"
#include "offpath/base/buffer.h"
#include "tests/attention/partial/reference.h"
#include "tests/base/simd_targets.h"

namespace offpath::attention {
namespace {

constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8};

// A KV head's tokens in blocks, and the queries of the last of them. Slots beyond the tokens hold
// the bits of NaN.
struct Case {
  KvShape shape;
  size_t heads;
  size_t context;
  size_t tokens;  // with queries
  std::vector<float> query;
  std::vector<Buffer<std::byte>> memory = {};
  std::vector<const std::byte*> blocks = {};
  float scale;
  float soft_cap = 0;
  size_t window = 0;
  size_t sinks = 0;

  size_t head_stride() const { return shape.head_dim + 3; }
  size_t token_stride() const { return heads * head_stride() + 5; }
  size_t first() const { return context - tokens; }
  CausalInput input() const {
    return {.shape = shape,
            .query = query.data(),
            .token_stride = token_stride(),
            .head_stride = head_stride(),
            .tokens = tokens,
            .heads = heads,
            .first = first(),
            .blocks = blocks,
            .scale = scale,
            .soft_cap = soft_cap,
            .window = window,
            .sinks = sinks};
  }
};

std::vector<float> RandomRow(std::mt19937_64& random, size_t size, float scale) {
  std::normal_distribution<float> normal;
  std::vector<float> row(size);
  for (float& x : row) x = normal(random) * scale;
  return row;
}

Case RandomCase(std::mt19937_64& random, const KvShape& shape, size_t heads, size_t context,
                size_t tokens) {
  Case made = {.shape = shape,
               .heads = heads,
               .context = context,
               .tokens = tokens,
               .query = {},
               .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim))};
  made.query = RandomRow(random, tokens * made.token_stride(), 2);
  for (size_t t = 0; t < context; ++t) {
    if (t % shape.block_tokens == 0) {
      Buffer<std::byte> block(LayOutHeadBlock(shape).bytes);
      std::memset(block.data(), 0xFF, block.size());
      made.blocks.push_back(block.data());
      made.memory.push_back(std::move(block));
    }
    const std::vector<float> rows = RandomRow(random, 2 * shape.head_dim, 1);
    WriteTokens(shape, made.memory.back().data(), t % shape.block_tokens,
                {.keys = rows.data(), .values = rows.data() + shape.head_dim, .count = 1});
  }
  return made;
}

struct Result {
  std::vector<float> rows;  // [tokens, heads, head_dim]
  std::vector<float> lse;   // [tokens, heads]
};

// In calls of so many tokens each.
Result Attend(const Case& made, const std::vector<size_t>& calls) {
  const size_t dim = made.shape.head_dim;
  Result result = {.rows = std::vector<float>(made.tokens * made.heads * dim, -7),
                   .lse = std::vector<float>(made.tokens * made.heads, -7)};
  size_t done = 0;
  for (const size_t tokens : calls) {
    CausalInput in = made.input();
    in.query += done * in.token_stride;
    in.first += done;
    in.tokens = tokens;
    AttendCausal(in, {.rows = result.rows.data() + done * made.heads * dim,
                      .token_stride = made.heads * dim,
                      .head_stride = dim,
                      .lse = result.lse.data() + done * made.heads});
    done += tokens;
  }
  EXPECT_EQ(done, made.tokens);
  return result;
}

bool IsSeen(const Case& made, size_t position, size_t by) {
  return position <= by &&
         (made.window == 0 || position + made.window > by || position < made.sinks);
}

ReferenceInput ReferenceOf(const Case& made, size_t token, size_t head) {
  const size_t dim = made.shape.head_dim;
  ReferenceInput in;
  const float* q = made.query.data() + token * made.token_stride() + head * made.head_stride();
  in.query.assign(q, q + dim);
  in.scale = made.scale;
  in.soft_cap = made.soft_cap;
  std::vector<float> key(dim);
  std::vector<float> value(dim);
  for (size_t t = 0; t < made.context; ++t) {
    if (!IsSeen(made, t, made.first() + token)) continue;
    const size_t block = t / made.shape.block_tokens;
    ReadToken(made.shape, made.blocks[block], t % made.shape.block_tokens, key.data(),
              value.data());
    in.keys.emplace_back(key.begin(), key.end());
    in.values.emplace_back(value.begin(), value.end());
  }
  return in;
}

void ExpectRowMatchesReference(const Case& made, const Result& result, size_t token, size_t head) {
  const size_t dim = made.shape.head_dim;
  const ReferenceInput in = ReferenceOf(made, token, head);
  const ReferenceState expected = ReferenceAttend(in);
  const Allowance allowance = AllowanceOf(made.shape.type, in);
  const size_t row = token * made.heads + head;
  ASSERT_NEAR(result.lse[row], expected.max + std::log(expected.sum), 2e-5 + allowance.score)
      << "token " << token << ", head " << head;
  for (size_t d = 0; d < dim; ++d) {
    ASSERT_NEAR(result.rows[row * dim + d], expected.output[d] / expected.sum,
                5e-5 + allowance.output)
        << "token " << token << ", head " << head << ", column " << d;
  }
}

// Some of the rows, the first and the last among them: the reference is slow.
void ExpectMatchesReference(std::mt19937_64& random, const Case& made) {
  const Result result = Attend(made, {made.tokens});
  const size_t rows = made.tokens * made.heads;
  for (size_t i = 0; i < 12; ++i) {
    const size_t row = i == 0 ? 0 : i == 1 ? rows - 1 : random() % rows;
    ExpectRowMatchesReference(made, result, row / made.heads, row % made.heads);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(CausalAttention, EqualsTheReferenceForEveryTypeShapeAndGroup) {
  ForEveryTarget([] {
    std::mt19937_64 random(1);
    constexpr size_t kGroups[] = {1, 3, 5, 6, 7, 8, 16};
    size_t next = 0;
    for (const KvType type : kTypes) {
      for (const size_t dim : {64, 88, 100, 128}) {
        for (const size_t group : kGroups) {
          // Across the chunks in which keys are taken, and within a block.
          const size_t context = random() % 3 == 0 ? 1 + random() % 16 : 1 + random() % 420;
          const size_t tokens = 1 + random() % std::min<size_t>(context, 90);
          const KvShape shape = {
              .type = type, .head_dim = dim, .block_tokens = size_t{16} << next++ % 4};
          Case made = RandomCase(random, shape, group, context, tokens);
          if (random() % 2 == 0) made.window = 1 + random() % (context + 10);
          if (random() % 2 == 0) made.sinks = 1 + random() % (random() % 2 == 0 ? 8 : 300);
          if (random() % 3 == 0) made.soft_cap = 1.5F;
          SCOPED_TRACE(std::string(KvTypeName(type)) + ", " + std::to_string(group) + " heads of " +
                       std::to_string(dim) + ", blocks of " + std::to_string(shape.block_tokens) +
                       ", tokens " + std::to_string(tokens) + " of " + std::to_string(context) +
                       ", window " + std::to_string(made.window) + ", sinks " +
                       std::to_string(made.sinks));
          ExpectMatchesReference(random, made);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(CausalAttention, MoreHeadsThanATileHasRows) {
  std::mt19937_64 random(2);
  const KvShape shape = {.type = KvType::kF32, .head_dim = 8, .block_tokens = 16};
  ExpectMatchesReference(random, RandomCase(random, shape, 2 * kCausalTileRows + 3, 40, 3));
}

TEST(CausalAttention, TheSameBitsHoweverTheTokensAreCutIntoCalls) {
  ForEveryTarget([] {
    std::mt19937_64 random(3);
    for (int round = 0; round < 24; ++round) {
      const KvShape shape = {.type = kTypes[round % 4],
                             .head_dim = random() % 2 == 0 ? size_t{64} : size_t{20},
                             .block_tokens = size_t{16} << random() % 4};
      Case made = RandomCase(random, shape, 1 + random() % 8, 300, 1 + random() % 300);
      if (random() % 2 == 0) made.window = 1 + random() % 200;
      if (random() % 2 == 0) made.sinks = 1 + random() % 200;
      if (random() % 2 == 0) made.soft_cap = 2;
      const Result whole = Attend(made, {made.tokens});
      std::vector<size_t> calls;
      for (size_t left = made.tokens; left > 0; left -= calls.back()) {
        calls.push_back(std::min<size_t>(left, 1 + random() % (random() % 2 == 0 ? 5 : 150)));
      }
      const Result parts = Attend(made, calls);
      ASSERT_EQ(parts.lse, whole.lse);
      ASSERT_EQ(0, std::memcmp(parts.rows.data(), whole.rows.data(), whole.rows.size() * 4));
    }
  });
}

// Also what is in no window: a weight of 0 would not do, since 0 times infinity is NaN.
TEST(CausalAttention, WhatATokenDoesNotSeeHasNoEffect) {
  std::mt19937_64 random(4);
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
    Case made = RandomCase(random, {.type = type, .head_dim = 16, .block_tokens = 32}, 3, 200, 200);
    made.window = 20;
    made.sinks = 2;
    const Result before = Attend(made, {made.tokens});
    constexpr size_t kBad = 77;
    const std::vector<float> infinite(16, std::numeric_limits<float>::infinity());
    WriteTokens(made.shape, made.memory[kBad / 32].data(), kBad % 32,
                {.keys = infinite.data(), .values = infinite.data(), .count = 1});
    const Result after = Attend(made, {made.tokens});
    for (size_t row = 0; row < 600; ++row) {
      const bool seen = IsSeen(made, kBad, row / 3);
      EXPECT_EQ(std::isfinite(after.lse[row]), !seen) << "row " << row;
      if (seen) continue;
      EXPECT_EQ(after.lse[row], before.lse[row]) << "row " << row;
      EXPECT_TRUE(std::equal(after.rows.begin() + static_cast<std::ptrdiff_t>(row * 16),
                             after.rows.begin() + static_cast<std::ptrdiff_t>((row + 1) * 16),
                             before.rows.begin() + static_cast<std::ptrdiff_t>(row * 16)))
          << "row " << row;
    }
  }
}

TEST(CausalAttention, AQueryThatIsNotFiniteIsToldAndOtherRowsAreNot) {
  std::mt19937_64 random(5);
  for (const KvType type : kTypes) {
    Case made = RandomCase(random, {.type = type, .head_dim = 16, .block_tokens = 16}, 3, 150, 40);
    made.query[7 * made.token_stride() + made.head_stride() + 4] =
        std::numeric_limits<float>::quiet_NaN();
    const Result result = Attend(made, {made.tokens});
    for (size_t row = 0; row < 120; ++row) {
      EXPECT_EQ(std::isfinite(result.lse[row]), row != 7 * 3 + 1) << "row " << row;
    }
  }
}

}  // namespace
}  // namespace offpath::attention
