// The softmax mass of blocks from the products of all of their tokens.
//
// Thread-safe: pure, allocates nothing.
#pragma once

#include <cstddef>

#include "offpath/attention/select/selector.h"

namespace offpath::attention {

// scores [blocks] := sum over the heads of the softmax of scale times their products, summed over a
// block's tokens; 0 for blocks beyond the products. block_tokens is a multiple of 16. A product
// that is NaN or infinite makes all scores NaN.
void TokenMass(const Selector::Products& products, size_t block_tokens, size_t blocks,
               float* scores) noexcept;

}  // namespace offpath::attention
