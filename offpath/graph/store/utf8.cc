#include "offpath/graph/store/utf8.h"

#include <cstddef>

namespace offpath::graph {

bool IsUtf8(std::string_view text) noexcept {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) continue;
    if (lead < 0xC2 || lead > 0xF4) return false;
    const size_t more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    if (text.size() - i < more) return false;
    // The second byte's range is narrower after four of the lead bytes.
    const auto second = static_cast<unsigned char>(text[i]);
    const int least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const int most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (second < least || second > most) return false;
    for (size_t k = 1; k < more; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return false;
    }
    i += more;
  }
  return true;
}

}  // namespace offpath::graph
