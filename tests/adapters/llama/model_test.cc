// Which files are models that can be run, and what is said of the others.
#include "adapters/llama/model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/adapters/llama/tiny_model.h"
#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"

namespace offpath::llama {
namespace {

TEST(Model, HasItsShape) {
  const TempFolder folder;
  WriteTinyModel({}, folder / "tiny.gguf");
  const Model model(folder / "tiny.gguf");
  EXPECT_EQ(model.shape().architecture, "llama");
  EXPECT_EQ(model.shape().layers, 3U);
  EXPECT_EQ(model.shape().query_heads, 6U);
  EXPECT_EQ(model.shape().kv_heads, 2U);
  EXPECT_EQ(model.shape().head_dim, 32U);
  EXPECT_EQ(model.shape().context, 4096U);
  EXPECT_EQ(model.shape().vocabulary, 97U);
  EXPECT_ERROR((model.Tokenize("text", true)), ErrorCode::kUnsupported, "no tokenizer");
}

TEST(Model, IsRefusedWhereItsArchitectureIsNotKnown) {
  const TempFolder folder;
  WriteTinyModel({.architecture = "gemma"}, folder / "gemma.gguf");
  EXPECT_ERROR((Model(folder / "gemma.gguf")), ErrorCode::kUnsupported,
               "its architecture is gemma");
}

TEST(Model, IsRefusedWhereItIsAMixtureOfExperts) {
  const TempFolder folder;
  WriteTinyModel({.experts = 4}, folder / "experts.gguf");
  EXPECT_ERROR((Model(folder / "experts.gguf")), ErrorCode::kUnsupported,
               "it is a mixture of 4 experts");
}

TEST(Model, GemmaWithItsSlidingWindowsIsRefusedByName) {
  const std::string path = OFFPATH_MODELS "/gemma-3-270m-q4_k_m.gguf";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is not there: scripts/models.sh gemma3 fetches it";
  }
  EXPECT_ERROR((Model(path)), ErrorCode::kUnsupported, "its architecture is gemma3");
}

// A number of 4 bytes behind its key and type.
std::string WithNumber(std::string bytes, const std::string& key, uint32_t number) {
  const size_t at = bytes.find(key) + key.size() + sizeof(uint32_t);
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(number >> 8 * i);
  return bytes;
}

// llama.cpp ends the process for some of these.
TEST(Model, IsRefusedWhereItsNumbersCannotBe) {
  const TempFolder folder;
  WriteTinyModel({}, folder / "tiny.gguf");
  const std::string bytes = ReadFile(folder / "tiny.gguf");
  constexpr uint32_t kMinusOne = 0xBF800000, kNan = 0x7FC00000;  // f32
  const std::pair<const char*, uint32_t> lies[] = {
      {"llama.block_count", 0},
      {"llama.block_count", 4},
      {"llama.block_count", 513},
      {"llama.block_count", UINT32_MAX},
      {"llama.attention.head_count", 0},
      {"llama.attention.head_count", UINT32_MAX},
      {"llama.attention.head_count_kv", 0},
      {"llama.attention.head_count_kv", 1U << 24},
      {"llama.attention.layer_norm_rms_epsilon", kMinusOne},
      {"llama.attention.layer_norm_rms_epsilon", kNan},
      {"llama.embedding_length", UINT32_MAX},
      {"llama.feed_forward_length", 0},
      {"llama.rope.dimension_count", 0},  // no rotary embedding
  };
  for (const auto& [key, number] : lies) {
    SCOPED_TRACE(std::string(key) + " " + std::to_string(number));
    WriteFile(folder / "lie.gguf", WithNumber(bytes, key, number));
    EXPECT_ERROR((Model(folder / "lie.gguf")), ErrorCode::kCorruptData, "lie.gguf");
  }
}

TEST(Model, IsRefusedWhereItsFileIsNotWhole) {
  const TempFolder folder;
  EXPECT_ERROR((Model(folder / "none.gguf")), ErrorCode::kNotFound, "none.gguf");
  WriteFile(folder / "text.gguf", "not a model");
  EXPECT_ERROR((Model(folder / "text.gguf")), ErrorCode::kCorruptData, "text.gguf");
  WriteTinyModel({}, folder / "tiny.gguf");
  std::ifstream in(folder / "tiny.gguf", std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  for (size_t kept : {bytes.size() / 100, bytes.size() / 2, bytes.size() - 1}) {
    WriteFile(folder / "cut.gguf", std::string_view(bytes).substr(0, kept));
    EXPECT_ERROR((Model(folder / "cut.gguf")), ErrorCode::kCorruptData, "cut.gguf");
  }
}

}  // namespace
}  // namespace offpath::llama
