// What our attention makes of the queries, keys and values of each layer, against what llama.cpp's
// own made of them.
#include <filesystem>

#include "adapters/llama/trace_recorder.h"
#include "offpath/base/npy.h"
#include "tests/adapters/llama/session_fixture.h"

namespace offpath::llama {
namespace {

using attention::Decoder;
using attention::DecoderOptions;
using attention::KvType;

// As an observer of a native session: attends to the same rows.
class Attending {
 public:
  Attending(size_t layers, size_t tokens, KvType type)
      : layers_(layers), tokens_(tokens), type_(type) {}

  void Observe(const LayerRows& rows) {
    const LayerGeometry& geometry = rows.geometry;
    if (decoder_ == nullptr) Make(geometry);
    const size_t row = geometry.kv_heads * geometry.head_dim;
    const size_t output_row = geometry.query_heads * geometry.head_dim;
    decoder_->Append(sequence_, rows.layer,
                     {.keys = rows.keys,
                      .values = rows.values,
                      .key_stride = row,
                      .value_stride = row,
                      .count = rows.count});
    std::vector<float> ours(rows.count * output_row);
    decoder_->Attend(
        sequence_, rows.layer,
        {.rows = rows.queries,
         .token_stride = rows.query_token_stride,
         .head_stride = rows.query_head_stride,
         .tokens = rows.count},
        {.rows = ours.data(), .token_stride = output_row, .head_stride = geometry.head_dim}, {});
    for (size_t i = 0; i < ours.size(); ++i) {
      const double difference = std::abs(static_cast<double>(ours[i]) - rows.outputs[i]);
      // In this form a NaN stays.
      if (!(difference <= largest)) largest = difference;
      largest_output = std::max(largest_output, std::abs(rows.outputs[i]));
      sum_ += difference;
    }
    compared_ += ours.size();
  }
  double mean() const { return sum_ / static_cast<double>(compared_); }

  double largest = 0;
  float largest_output = 0;

 private:
  void Make(const LayerGeometry& geometry) {
    DecoderOptions options;
    options.query_heads = geometry.query_heads;
    options.layers.assign(layers_, {.scale = geometry.scale, .soft_cap = geometry.soft_cap});
    options.cache = {
        .shape = {.type = type_, .head_dim = geometry.head_dim, .block_tokens = 16},
        .layers = layers_,
        .kv_heads = geometry.kv_heads,
        .memory_bytes = layers_ * geometry.kv_heads * (tokens_ + 32) * geometry.head_dim * 16};
    decoder_ = std::make_unique<Decoder>(options);
    sequence_ = decoder_->Create();
  }

  size_t layers_, tokens_;
  KvType type_;
  std::unique_ptr<Decoder> decoder_;
  attention::SequenceId sequence_ = 0;
  double sum_ = 0;
  size_t compared_ = 0;
};

// Prefill in two chunks, and decode steps.
void ExpectTheSameOutputs(const Model& model, std::span<const Token> text, double mean,
                          double largest) {
  for (KvType type : {KvType::kF32, KvType::kF16}) {
    Attending attending(model.shape().layers, text.size(), type);
    const auto session = MakeNativeSession(
        model, {.threads = 1,
                .context = text.size(),
                .chunk = text.size() / 2,
                .observe = [&](const LayerRows& rows) { attending.Observe(rows); }});
    session->Decode(0, text.first(text.size() - 4));
    for (size_t i = text.size() - 4; i < text.size(); ++i) session->Decode(0, text.subspan(i, 1));
    const double scale = attending.largest_output;
    EXPECT_GT(scale, 0);
    EXPECT_LT(attending.mean(), mean * scale) << attention::KvTypeName(type);
    EXPECT_LT(attending.largest, largest * scale) << attention::KvTypeName(type);
  }
}

// Seen in SmolLM2: a mean of 7e-4 and at most 0.08 where outputs go to 8.6.
constexpr double kMean = 7e-4 / 8.6, kLargest = 0.08 / 8.6;

class LayerOutputs : public testing::TestWithParam<TinyModel> {};

TEST_P(LayerOutputs, EqualTheNativeOnes) {
  const WrittenModel model(GetParam());
  ExpectTheSameOutputs(*model, RandomTokens(110, 200), kMean, kLargest);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LayerOutputs,
                         testing::Values(TinyModel{}, TinyModel{.architecture = "qwen2"},
                                         TinyModel{.architecture = "qwen3"},
                                         TinyModel{
                                             .query_heads = 5, .kv_heads = 1, .head_dim = 88}),
                         [](const auto& tested) {
                           return tested.param.architecture + "_" +
                                  std::to_string(tested.param.head_dim);
                         });

TEST(LayerOutputsOfSmolLm2, EqualTheNativeOnes) {
  const std::string path = OFFPATH_MODELS "/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is not there: scripts/models.sh fetches it";
  }
  const Model model(path);
  std::string text;
  for (size_t i = 0; i < 20; ++i)
    text += "The river runs past mill number " + std::to_string(i) + ". ";
  ExpectTheSameOutputs(model, model.Tokenize(text, true), kMean, kLargest);
}

TEST(TraceRecorder, RecordsANativeSession) {
  const WrittenModel model;
  const TempFolder folder;
  const std::vector<Token> text = RandomTokens(111, 120);
  const auto record = [&](const char* name, auto make) {
    TraceRecorder recorder(3, 8);
    const auto session =
        make(*model, {.threads = 1, .context = 128, .chunk = 50, .observe = recorder.observer()});
    session->Decode(0, text);
    recorder.Write(folder / name, false);
    const NpyFile file(folder / name + "/keys.npy");
    EXPECT_EQ(file.header().shape, (std::vector<uint64_t>{120, 3, 2, 32}));
    std::vector<double> keys(120 * 3 * 2 * 32);
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = file.view().Real(i);
    return keys;
  };
  const auto native = record("native", MakeNativeSession), ours = record("ours", MakeSession);
  // The first layer's keys come before any attention.
  const size_t row = 2 * 32;
  for (size_t t = 0; t < text.size(); ++t) {
    for (size_t i = 0; i < row; ++i) {
      ASSERT_EQ(native[t * 3 * row + i], ours[t * 3 * row + i]) << t << ", " << i;
    }
  }
}

}  // namespace
}  // namespace offpath::llama
