// The chunk kernels, compiled once a target.
#include "offpath/attention/partial/chunk_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

// A body for each target costs seconds of compilation; what lies between SSE2 and AVX2 gains
// nothing. AVX3_DL has the dot products of bytes.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "offpath/attention/partial/chunk_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "hwy/highway.h"
#include "offpath/attention/partial/chunk_sums-inl.h"
#include "offpath/attention/partial/chunk_vnni-inl.h"
#include "offpath/attention/partial/softmax-inl.h"

// After hwy/highway.h:
#include "offpath/base/simd_target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <KvType kType>
constexpr bool kBytes = HWY_TARGET == HWY_AVX3_DL&& kType == KvType::kI8;

bool HasNan(const float* scores, size_t count) {
  return std::any_of(scores, scores + count, [](float x) { return std::isnan(x); });
}

// What becomes of rows' states before a chunk's weights are added.
template <size_t kRows>
struct Softened {
  float keep[kRows] = {};     // what was summed before, times this
  float largest[kRows] = {};  // of a row's weights; i8 only
  bool any = false;           // a token counts
};

// Turns products into weights and takes the rows' maxima and sums along.
template <KvType kType, size_t kRows>
HWY_INLINE Softened<kRows> Soften(const ChunkInput& in, ReadAhead& ahead,
                                  float (*scores)[kChunkTokens], float* max, float* sum) {
  constexpr bool kScales = kType == KvType::kI8;
  const size_t slots = in.blocks.size() * in.shape.block_tokens;
  Softened<kRows> softened;
  float largest[kRows];
  FindLargest<kScales, kRows>(in, scores, largest);
  float next[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    // Also where either is NaN, so that it stays.
    next[r] = largest[r] <= max[r] ? max[r] : largest[r];
    softened.keep[r] = next[r] == max[r] ? 1 : std::exp(max[r] - next[r]);
    if (next[r] == kEmpty && !HasNan(scores[r], slots)) {
      // -infinity less any of these is not NaN.
      next[r] = 0;
      continue;
    }
    max[r] = next[r];
    softened.any = true;
  }
  if (!softened.any) return softened;
  float sums[kRows];
  Exponentials<kScales, kRows>(in, ahead, next, scores, sums, softened.largest);
  for (size_t r = 0; r < kRows; ++r) {
    sum[r] = next[r] < kInfinity ? sum[r] * softened.keep[r] + sums[r]
                                 : std::numeric_limits<float>::quiet_NaN();
  }
  return softened;
}

template <KvType kType, size_t kRows>
void AttendTile(const ChunkInput& in, const QueryPanel& panel, size_t first, ReadAhead& ahead,
                const RowStates& states) {
  HWY_ALIGN float scores[kRows][kChunkTokens];
  [[maybe_unused]] const size_t slots = in.blocks.size() * in.shape.block_tokens;
  if constexpr (kBytes<kType>) {
#if HWY_TARGET == HWY_AVX3_DL
    ScoreBytes<kRows>(in, panel, first, ahead, scores);
#endif
  } else {
    Score<kType, kRows>(in, panel.rows + first * kMaxHeadDim, ahead, scores);
  }
  const Softened<kRows> softened =
      Soften<kType, kRows>(in, ahead, scores, states.max + first, states.sum + first);
  if (!softened.any) return;
  float* output = states.output + first * in.shape.head_dim;
  if constexpr (kBytes<kType>) {
#if HWY_TARGET == HWY_AVX3_DL
    ByteWeights weights[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      RoundWeights(scores[r], slots, softened.largest[r], ahead, weights[r]);
    }
    AddByteValues<kRows>(in, weights, softened.keep, ahead, output);
#endif
  } else {
    AddValues<kType, kRows>(in, scores, softened.keep, ahead, output);
  }
}

template <KvType kType>
void AttendRows(const ChunkInput& in, const QueryPanel& panel, size_t first, size_t count,
                ReadAhead& ahead, const RowStates& states) {
  const size_t end = first + count;
  while (first < end) {
    // Five rows as three and two: a tile of one is the least efficient.
    const size_t tile = end - first == 5 ? 3 : std::min<size_t>(end - first, 4);
    switch (tile) {
      case 1:
        AttendTile<kType, 1>(in, panel, first, ahead, states);
        break;
      case 2:
        AttendTile<kType, 2>(in, panel, first, ahead, states);
        break;
      case 3:
        AttendTile<kType, 3>(in, panel, first, ahead, states);
        break;
      default:
        AttendTile<kType, 4>(in, panel, first, ahead, states);
        break;
    }
    first += tile;
  }
}

}  // namespace

void SetPanelRowOn(QueryPanel& panel, size_t row, const float* query, const KvShape& shape) {
  std::memcpy(panel.rows + row * kMaxHeadDim, query, shape.head_dim * sizeof(float));
#if HWY_TARGET == HWY_AVX3_DL
  if (shape.type == KvType::kI8) RoundQuery(panel, row, shape.head_dim);
#endif
}

void AttendChunkOn(const ChunkInput& in, const QueryPanel& panel, size_t first, size_t count,
                   ReadAhead& ahead, const RowStates& states) {
  switch (in.shape.type) {
    case KvType::kF32:
      return AttendRows<KvType::kF32>(in, panel, first, count, ahead, states);
    case KvType::kF16:
      return AttendRows<KvType::kF16>(in, panel, first, count, ahead, states);
    case KvType::kBF16:
      return AttendRows<KvType::kBF16>(in, panel, first, count, ahead, states);
    case KvType::kI8:
      return AttendRows<KvType::kI8>(in, panel, first, count, ahead, states);
  }
}

}  // namespace offpath::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace offpath::attention {
HWY_EXPORT(SetPanelRowOn);
HWY_EXPORT(AttendChunkOn);

void SetPanelRow(QueryPanel& panel, size_t row, const float* query, const KvShape& shape) noexcept {
  HWY_DYNAMIC_DISPATCH(SetPanelRowOn)(panel, row, query, shape);
}

void AttendChunk(const ChunkInput& in, const QueryPanel& panel, size_t first, size_t count,
                 ReadAhead& ahead, const RowStates& states) noexcept {
  HWY_DYNAMIC_DISPATCH(AttendChunkOn)(in, panel, first, count, ahead, states);
}

}  // namespace offpath::attention
#endif
