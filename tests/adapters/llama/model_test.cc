// Which files are models that can be run, and what is said of the others.
#include "adapters/llama/model.h"

#include <gtest/gtest.h>

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
