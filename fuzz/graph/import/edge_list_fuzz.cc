// Any bytes as an edge list. What is read as integers reads as strings too, to the same numbers.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "offpath/base/error.h"
#include "offpath/graph/import/edge_list_parser.h"

using namespace offpath::graph;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto third = static_cast<ThirdColumn>(data[0] % 4);
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  size_t integer_position = 0, string_position = 0;
  uint64_t integer_line = 0, string_line = 0;
  IntegerEdge integers{};
  EdgeLine strings;
  try {
    while (NextIntegerEdge(text, integer_position, integer_line, third, "input", integers)) {
      int64_t src = -1, dst = -1;
      const bool same = NextEdge(text, string_position, string_line, third, "input", strings) &&
                        ParseNodeId(strings.src, src) && ParseNodeId(strings.dst, dst) &&
                        src == integers.src && dst == integers.dst &&
                        strings.weight == integers.weight && strings.time == integers.time &&
                        string_position == integer_position && string_line == integer_line;
      if (!same) std::abort();
    }
  } catch (const offpath::Error&) {  // the one allowed way to refuse
  }
  try {
    for (size_t position = 0; NextEdge(text, position, string_line, third, "input", strings);) {
      if (strings.src.empty() || strings.dst.empty() || position > text.size()) std::abort();
    }
  } catch (const offpath::Error&) {
  }
  return 0;
}
