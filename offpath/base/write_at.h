// Writes that are whole or an Error.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace offpath {

// Writes all of `bytes` at `offset` of the file, however many calls that takes. Throws the Error of
// the system, with what was tried: "writing FILE".
void WriteAt(int fd, std::span<const std::byte> bytes, uint64_t offset, std::string_view what);

}  // namespace offpath
