// How much a decoder of given options speculates (PolicyOptions::speculated_blocks, ::speculation).
//
// Thread-safe: pure.
#pragma once

#include <cstddef>

#include "offpath/attention/decode/decoder.h"

namespace offpath::attention {

// Blocks that a KV head speculates on at a context of so many tokens: 0 but for prr.
size_t SpeculatedBlocks(const DecoderOptions& options, size_t tokens) noexcept;
// They are read ahead alone, and attended to with the others once the selection holds them.
bool ReadsAheadAlone(const DecoderOptions& options) noexcept;
// The most of any context.
size_t MostSpeculatedBlocks(const DecoderOptions& options) noexcept;

}  // namespace offpath::attention
