// Any bytes as a data file of WordNet, and a file that is right with bytes changed.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/graph/import/wordnet_reader.h"

namespace {

void Read(std::string_view bytes, offpath::graph::WordnetPart part) {
  try {
    offpath::graph::ReadWordnetFile(bytes, part, "input");
  } catch (const offpath::Error&) {  // the one allowed way to refuse
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using offpath::graph::WordnetPart;
  if (size == 0) return 0;
  const auto part = static_cast<WordnetPart>(data[0] % 4);
  Read({reinterpret_cast<const char*>(data + 1), size - 1}, part);

  std::string good =
      "00000000 29 v 02 breathe 0 take_a_breath 1 002 * 00000200 v 0000 + 03110323 a 0101 "
      "02 + 02 00 + 08 01 | draw air  \n"
      "00000115 30 v 01 spin(p) 0 000 00 | turn  \n";
  for (size_t i = 1; i + 2 <= size; i += 2) {
    good[data[i] % good.size()] = static_cast<char>(data[i + 1]);
  }
  Read(good, WordnetPart::kVerb);
  return 0;
}
