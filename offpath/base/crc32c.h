// CRC32C (Castagnoli), as used by iSCSI and ext4, in hardware where the processor has it (ISA-L).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace offpath {

// The checksum of `bytes`; pass the checksum of what came before to go on.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t previous = 0) noexcept;

// The checksum of A followed by B from crc(A), crc(B) and B's length, without reading either again.
uint32_t Crc32cCombine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) noexcept;

// 8 hexadecimal digits in lower case.
std::string Crc32cText(uint32_t checksum);

}  // namespace offpath
