#include "offpath/graph/import/edge_list_parser.h"

#include <charconv>
#include <cmath>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {

constexpr size_t kShown = 60;  // bytes of a bad line in its message

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == ',' || c == '\r'; }

std::string Printable(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kShown)) shown += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kShown ? shown + "..." : shown;
}

[[noreturn]] void Fail(std::string_view context, uint64_t line, std::string_view text,
                       std::string_view problem) {
  throw Error(ErrorCode::kCorruptData, std::string(context) + ": line " + std::to_string(line) +
                                           " " + std::string(problem) + ": '" + Printable(text) +
                                           "'");
}

void SkipBlanks(const char*& at, const char* end) {
  while (at != end && IsBlank(*at)) ++at;
}

std::string_view Token(const char*& at, const char* end) {
  SkipBlanks(at, end);
  const char* begin = at;
  while (at != end && !IsBlank(*at) && *at != '\n') ++at;
  return {begin, static_cast<size_t>(at - begin)};
}

// What stands behind the two ids, up to the line's end.
void ParseRest(const char*& at, const char* end, std::string_view whole, uint64_t line,
               ThirdColumn third, std::string_view context, double& weight, int64_t& time) {
  const std::string_view token = Token(at, end);
  if (token.empty()) {
    if (third == ThirdColumn::kWeight || third == ThirdColumn::kTime) {
      Fail(context, line, whole, "lacks its third column");
    }
    return;
  }
  const char* token_end = token.data() + token.size();
  if (third == ThirdColumn::kNone) {
    Fail(context, line, whole,
         "has more than two columns (say what the third is: --weights, --times or "
         "--ignore-columns)");
  }
  if (third == ThirdColumn::kWeight) {
    const auto [parsed_to, error] = std::from_chars(token.data(), token_end, weight);
    if (error != std::errc{} || parsed_to != token_end || !std::isfinite(weight) || weight < 0) {
      Fail(context, line, whole, "has a weight that is not a number from 0 on");
    }
  }
  if (third == ThirdColumn::kTime) {
    const auto [parsed_to, error] = std::from_chars(token.data(), token_end, time);
    if (error != std::errc{} || parsed_to != token_end) {
      Fail(context, line, whole, "has a time that is not an integer");
    }
  }
  if (third != ThirdColumn::kIgnore && !Token(at, end).empty()) {
    Fail(context, line, whole, "has more than three columns");
  }
}

std::string_view LineFrom(const char* begin, const char* end) {
  const std::string_view rest(begin, static_cast<size_t>(end - begin));
  return rest.substr(0, rest.find('\n'));
}

// Moves to the next line with an edge; false at the end.
bool FindEdge(const char*& at, const char* end, uint64_t& line) {
  while (at != end) {
    const char* begin = at;
    SkipBlanks(at, end);
    if (at == end) return false;
    if (*at != '\n' && *at != '#' && *at != '%') {
      at = begin;
      ++line;
      return true;
    }
    while (at != end && *at != '\n') ++at;
    if (at != end) ++at;
    ++line;
  }
  return false;
}

void PassLineEnd(const char*& at, const char* end) {
  while (at != end && *at != '\n') ++at;
  if (at != end) ++at;
}

// Digits up to something else; false where there are none or too many.
bool ParseDigits(const char*& at, const char* end, int64_t& out) {
  const char* begin = at;
  uint64_t value = 0;
  while (at != end) {
    const auto digit = static_cast<unsigned>(*at) - '0';
    if (digit > 9) break;
    value = value * 10 + digit;
    ++at;
  }
  out = static_cast<int64_t>(value);
  // 18 digits always fit; 19 may not, and are read again by the careful way.
  if (at - begin <= 18) return at != begin;
  return ParseNodeId({begin, static_cast<size_t>(at - begin)}, out);
}

}  // namespace

bool ParseNodeId(std::string_view token, int64_t& out) noexcept {
  const char* end = token.data() + token.size();
  const auto [parsed_to, error] = std::from_chars(token.data(), end, out);
  return error == std::errc{} && parsed_to == end && out >= 0 && token[0] != '-';
}

bool NextEdge(std::string_view text, size_t& position, uint64_t& line, ThirdColumn third,
              std::string_view context, EdgeLine& out) {
  const char* at = text.data() + position;
  const char* end = text.data() + text.size();
  const bool found = FindEdge(at, end, line);
  if (found) {
    const char* begin = at;
    out.src = Token(at, end);
    out.dst = Token(at, end);
    if (out.dst.empty()) Fail(context, line, LineFrom(begin, end), "has one column");
    ParseRest(at, end, LineFrom(begin, end), line, third, context, out.weight, out.time);
    PassLineEnd(at, end);
  }
  position = static_cast<size_t>(at - text.data());
  return found;
}

bool NextIntegerEdge(std::string_view text, size_t& position, uint64_t& line, ThirdColumn third,
                     std::string_view context, IntegerEdge& out) {
  const char* at = text.data() + position;
  const char* end = text.data() + text.size();
  const bool found = FindEdge(at, end, line);
  if (found) {
    const char* begin = at;
    SkipBlanks(at, end);
    const bool has_src = ParseDigits(at, end, out.src) && at != end && IsBlank(*at);
    SkipBlanks(at, end);
    const bool has_dst =
        has_src && ParseDigits(at, end, out.dst) && (at == end || IsBlank(*at) || *at == '\n');
    if (!has_dst) {
      Fail(context, line, LineFrom(begin, end), "is not two node numbers from 0 to 2^63 - 1");
    }
    const bool two_columns = third == ThirdColumn::kNone || third == ThirdColumn::kIgnore;
    if (at != end && *at == '\n' && two_columns) {
      ++at;  // the plain case: two numbers and the end
    } else {
      ParseRest(at, end, LineFrom(begin, end), line, third, context, out.weight, out.time);
      PassLineEnd(at, end);
    }
  }
  position = static_cast<size_t>(at - text.data());
  return found;
}

}  // namespace offpath::graph
