#include "offpath/graph/import/pickle_strings.h"

#include <charconv>

namespace offpath::graph {

std::string UnescapePickleString(std::string_view line, const PickleInput& input) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      text += line[i];
      continue;
    }
    if (++i == line.size()) input.Fail("has a string that ends in a backslash");
    constexpr std::string_view kEscapes = "\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t escape = kEscapes.find(line[i]); escape != std::string_view::npos) {
      text += kMeanings[escape];
    } else if (line[i] == 'x' && line.size() - i > 2) {
      unsigned value = 0;
      const char* end = line.data() + i + 3;
      if (std::from_chars(line.data() + i + 1, end, value, 16).ptr != end) {
        input.Fail("has a string with a bad \\x");
      }
      text += static_cast<char>(value);
      i += 2;
    } else {
      input.Fail("has a string with an unknown escape");
    }
  }
  return text;
}

std::string Latin1OfUtf8(std::string_view text, const PickleInput& input) {
  std::string latin;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      latin += text[i];
    } else if ((byte == 0xC2 || byte == 0xC3) && i + 1 < text.size() &&
               (static_cast<unsigned char>(text[i + 1]) & 0xC0) == 0x80) {
      const auto next = static_cast<unsigned char>(text[++i]);
      latin += static_cast<char>(((byte & 3U) << 6) | (next & 0x3FU));
    } else {
      input.Fail("encodes a string that does not fit latin1");
    }
  }
  return latin;
}

std::string PrintableName(std::string_view text) {
  constexpr size_t kMost = 80;
  std::string result(text.substr(0, kMost));
  for (char& c : result) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return text.size() > kMost ? result + "..." : result;
}

}  // namespace offpath::graph
