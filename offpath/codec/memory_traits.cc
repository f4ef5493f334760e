#include "offpath/codec/memory_traits.h"

#include <unistd.h>

#include <algorithm>

namespace offpath::codec {

size_t StreamThreshold() noexcept {
  static const size_t kThreshold = [] {
#ifdef _SC_LEVEL3_CACHE_SIZE
    const long last_level = sysconf(_SC_LEVEL3_CACHE_SIZE);
#else
    const long last_level = 0;
#endif
    constexpr size_t kUnknown = size_t{32} << 20;
    return std::max(last_level > 0 ? static_cast<size_t>(last_level) : kUnknown, size_t{1} << 20);
  }();
  return kThreshold;
}

}  // namespace offpath::codec
