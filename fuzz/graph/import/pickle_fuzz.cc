// Any bytes as a pickle, and as the matrix, array or dictionary that it may hold.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "offpath/base/error.h"
#include "offpath/graph/import/pickle_arrays.h"
#include "offpath/graph/import/pickle_reader.h"
#include "tests/graph/import/pickle_builder.h"

namespace {

template <typename Body>
void Try(Body body) {
  try {
    body();
  } catch (const offpath::Error&) {  // the one allowed way to refuse
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace offpath::graph;
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  // Half of the runs change bytes of a pickle that is right, to get past its front.
  if (data[0] % 2 == 1) {
    std::string good = data[0] % 4 == 1 ? CsrPickle({2, 0, 1}, 3) : OneHotPickle({0, 2, 1}, 3);
    for (size_t i = 0; i + 3 <= bytes.size(); i += 3) {
      const size_t place =
          static_cast<uint8_t>(bytes[i]) * 256U + static_cast<uint8_t>(bytes[i + 1]);
      good[place % good.size()] = bytes[i + 2];
    }
    bytes = good;
  }
  Try([&] {
    const Pickle pickle(bytes, "input");
    Try([&] { ReadPickledArray(pickle, pickle.root(), "the array"); });
    Try([&] { ReadPickledCsr(pickle, pickle.root(), "the matrix"); });
  });
  return 0;
}
