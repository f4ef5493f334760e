// Lines of an edge list: two ids, and perhaps a third column, between blanks, tabs or commas.
//
// Lines that start with '#' or '%' and empty lines are skipped; "\r\n" ends a line as "\n" does. A
// pure function of the text and the first line's number; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace offpath::graph {

enum class ThirdColumn {
  kNone,    // a third column is an Error
  kIgnore,  // and any that follow
  kWeight,  // a number, finite and not negative
  kTime,    // an integer
};

struct EdgeLine {
  std::string_view src, dst;
  double weight = 0;
  int64_t time = 0;
};

// Reads the next edge from text[position, end), which holds whole lines (the last may lack its
// "\n"); moves `position` behind its line and counts lines in `line`. Returns false at the end.
// Throws kCorruptData naming `context` and the line.
bool NextEdge(std::string_view text, size_t& position, uint64_t& line, ThirdColumn third,
              std::string_view context, EdgeLine& out);

// The same for ids that are integers from 0 on; throws where one is not.
struct IntegerEdge {
  int64_t src, dst;
  double weight = 0;
  int64_t time = 0;
};
bool NextIntegerEdge(std::string_view text, size_t& position, uint64_t& line, ThirdColumn third,
                     std::string_view context, IntegerEdge& out);

// Whether the whole token is an integer from 0 to 2^63 - 1.
bool ParseNodeId(std::string_view token, int64_t& out) noexcept;

}  // namespace offpath::graph
