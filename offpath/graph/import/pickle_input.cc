#include "offpath/graph/import/pickle_input.h"

#include "offpath/base/error.h"

namespace offpath::graph {

std::string_view PickleInput::Take(uint64_t count) {
  if (count > bytes_.size() - position_) Fail("is cut short");
  const std::string_view result = bytes_.substr(position_, static_cast<size_t>(count));
  position_ += static_cast<size_t>(count);
  return result;
}

std::string_view PickleInput::TakeLine() {
  const size_t end = bytes_.find('\n', position_);
  if (end == std::string_view::npos) Fail("is cut short");
  const std::string_view line = Take(end - position_);
  ++position_;
  return line;
}

void PickleInput::Fail(std::string_view problem) const {
  throw Error(ErrorCode::kCorruptData, context_ + ": the pickle " + std::string(problem) +
                                           " at byte " + std::to_string(position_));
}

void PickleInput::Refuse(std::string_view what) const {
  throw Error(ErrorCode::kUnsupported, context_ + ": " + std::string(what) + " at byte " +
                                           std::to_string(position_) +
                                           ": only arrays, CSR matrices, dictionaries, lists, "
                                           "numbers and strings are read from a pickle");
}

}  // namespace offpath::graph
