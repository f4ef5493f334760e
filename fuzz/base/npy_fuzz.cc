// Any bytes read as a .npy give an array inside those bytes or an Error.
#include <cstdint>
#include <string>

#include "offpath/base/error.h"
#include "offpath/base/npy.h"

namespace {

void Read(std::span<const std::byte> bytes) {
  try {
    const auto view = offpath::ParseNpy(bytes, "fuzz");
    const uint64_t count = view.header.element_count();
    if (view.data.size() != count * view.header.item_bytes) __builtin_trap();
    if (offpath::NpyTypeSize(view.header.type) == 0) return;  // strings
    for (uint64_t i = 0; i < count; ++i) view.Real(i);
  } catch (const offpath::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Read(std::as_bytes(std::span(data, size)));
  // And as a dict behind a magic number and length that are right, with a little data.
  const std::string dict(reinterpret_cast<const char*>(data), size);
  std::string file = "\x93NUMPY";
  file += {'\x01', '\0', static_cast<char>(size & 0xFF), static_cast<char>(size >> 8)};
  file += dict + std::string(64, '\x7F');
  Read(std::as_bytes(std::span(file)));
  const std::string plain = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  file = "\x93NUMPY";
  file += {'\x01', '\0', static_cast<char>((plain.size() + size) & 0xFF),
           static_cast<char>((plain.size() + size) >> 8)};
  file += plain + dict + std::string(64, '\x7F');
  Read(std::as_bytes(std::span(file)));
  return 0;
}
