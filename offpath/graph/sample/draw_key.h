// The keys of a batch's random draws, and the draws themselves.
//
// Draw i for node v in hop h of batch b is Draw(NodeKey(HopKey(...), v), i): a pure function of
// (seed, epoch, batch, hop, edge type, node). Changing anything here changes every batch that every
// user has ever made: the values are fixed by a test.
#pragma once

#include <cstdint>

#include "offpath/base/random.h"
#include "offpath/graph/sample/sampler.h"

namespace offpath::graph {

constexpr uint64_t HopKey(uint64_t seed, const BatchNumber& number, uint64_t hop,
                          uint64_t edge_type) noexcept {
  return Combine(Combine(Combine(Combine(Mix64(seed), number.epoch), number.batch), hop),
                 edge_type);
}

constexpr uint64_t NodeKey(uint64_t hop_key, int64_t node) noexcept {
  return Draw(hop_key, static_cast<uint64_t>(node));
}

}  // namespace offpath::graph
