#include "offpath/graph/import/pickle_reader.h"

#include "offpath/base/error.h"
#include "offpath/graph/import/pickle_machine.h"

namespace offpath::graph {

Pickle::Pickle(std::string_view bytes, std::string_view context) : context_(context) {
  if (bytes.size() > kMaxPickleBytes) {
    throw Error(ErrorCode::kResourceExhausted,
                context_ + ": a pickle of more than " + std::to_string(kMaxPickleBytes) + " bytes");
  }
  PickleMachine(*this, bytes).Run();
}

void Pickle::Fail(std::string_view what, std::string_view problem) const {
  throw Error(ErrorCode::kCorruptData,
              context_ + ": " + std::string(what) + " " + std::string(problem));
}

}  // namespace offpath::graph
