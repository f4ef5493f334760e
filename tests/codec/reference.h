// Plain references of the codec, one element at a time, written from the contract alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "offpath/codec/rows.h"

namespace offpath::codec {

uint16_t ReferenceF16(float x);
float ReferenceFromF16(uint16_t bits);
uint16_t ReferenceBF16(float x);

// As EncodeRows and DecodeRows (`stride` == dim).
std::vector<std::byte> ReferenceEncode(const RowFormat& format, const EncodeInput& in,
                                       size_t* first_bad);
std::vector<float> ReferenceDecode(const RowFormat& format, const std::byte* in, size_t rows,
                                   size_t dim);

}  // namespace offpath::codec
