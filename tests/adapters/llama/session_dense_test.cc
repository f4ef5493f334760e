// Dense attention of ours against llama.cpp's own, in models of each supported kind.
#include "tests/adapters/llama/session_fixture.h"

namespace offpath::llama {
namespace {

using attention::KvType;

class DenseSession : public testing::TestWithParam<TinyModel> {};

// llama.cpp rounds keys, values and queries to f16.
constexpr double kHalves = 1e-2;

TEST_P(DenseSession, EqualsTheNativeOne) {
  const WrittenModel model(GetParam());
  const std::vector<Token> tokens = RandomTokens(2, 160);
  SessionOptions options = {.threads = 1, .context = 256, .chunk = 64};
  const auto native = LogitsOfText(*MakeNativeSession(*model, options), tokens, 150);
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8}) {
    options.type = type;
    const auto ours = LogitsOfText(*MakeSession(*model, options), tokens, 150);
    const double allowed = type == KvType::kF32 || type == KvType::kF16 ? kHalves : 6 * kHalves;
    for (size_t i = 0; i < native.size(); ++i) {
      EXPECT_LT(Difference(native[i], ours[i]), allowed)
          << attention::KvTypeName(type) << ", step " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DenseSession,
    testing::Values(TinyModel{}, TinyModel{.architecture = "qwen2"},
                    TinyModel{.architecture = "qwen3"},
                    TinyModel{.query_heads = 5, .kv_heads = 1, .head_dim = 88},
                    TinyModel{.query_heads = 8, .kv_heads = 8, .head_dim = 100},
                    TinyModel{.layers = 1, .query_heads = 16, .kv_heads = 1, .head_dim = 16},
                    TinyModel{.query_heads = 4, .head_dim = 16, .window = 16, .soft_cap = 1}),
    [](const auto& tested) {
      const TinyModel& model = tested.param;
      return model.architecture + "_" + std::to_string(model.query_heads) + "x" +
             std::to_string(model.head_dim) + "_" + std::to_string(model.kv_heads);
    });

TEST(Session, HasTheSameBitsWithAnyNumberOfThreads) {
  const WrittenModel model;
  const std::vector<Token> tokens = RandomTokens(3, 120);
  std::vector<std::vector<std::vector<float>>> runs;
  for (size_t threads : {1, 2}) {
    runs.push_back(
        LogitsOfText(*MakeSession(*model, {.threads = threads, .context = 128}), tokens, 100));
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST(Session, TakesALongAdditionInPieces) {
  const WrittenModel model;
  const std::vector<Token> tokens = RandomTokens(4, 203);
  const auto whole =
      LogitsOfText(*MakeSession(*model, {.threads = 1, .context = 256, .chunk = 256}), tokens, 201);
  for (size_t chunk : {4, 50, 200}) {
    const auto cut = LogitsOfText(
        *MakeSession(*model, {.threads = 1, .context = 256, .chunk = chunk}), tokens, 201);
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_LT(Difference(whole[i], cut[i]), kHalves);
  }
}

TEST(Session, CountsTimeAndSteps) {
  const WrittenModel model;
  const auto session = MakeSession(*model, {.threads = 1, .context = 128});
  session->Decode(0, RandomTokens(5, 100));
  session->Decode(0, RandomTokens(6, 1));
  EXPECT_GT(session->decode_ns(), 0U);
  ASSERT_NE(session->decoder(), nullptr);
  EXPECT_EQ(session->decoder()->counters().dense_steps, 3U) << "a step a layer";
  EXPECT_EQ(session->Tokens(0), 101U);
}

}  // namespace
}  // namespace offpath::llama
