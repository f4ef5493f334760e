#include "bench/attention/llama/text_windows.h"

#include <cerrno>
#include <fstream>
#include <iterator>

#include "offpath/base/error.h"

namespace offpath::bench {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) ThrowErrno(errno, "reading the text " + path + " (scripts/texts.sh makes it)");
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

std::vector<std::vector<llama::Token>> TextWindows(const llama::Model& model,
                                                   const std::vector<std::string>& files,
                                                   size_t windows, size_t tokens) {
  std::vector<std::string> texts;
  for (const std::string& file : files) texts.push_back(ReadText(file));
  std::vector<std::vector<llama::Token>> all;
  for (size_t i = 0; i < windows; ++i) {
    const std::string& text = texts[i % texts.size()];
    const size_t each = (windows + texts.size() - 1) / texts.size();
    const size_t line = text.find('\n', text.size() / each * (i / texts.size()));
    // No token of these texts is longer than 8 bytes on average.
    all.push_back(model.Tokenize(std::string_view(text).substr(line + 1, 8 * tokens), true));
    if (all.back().size() < tokens) {
      throw Error(ErrorCode::kInvalidArgument, files[i % texts.size()] + " is too short for " +
                                                   std::to_string(windows) + " windows of " +
                                                   std::to_string(tokens) + " tokens");
    }
    all.back().resize(tokens);
  }
  return all;
}

}  // namespace offpath::bench
