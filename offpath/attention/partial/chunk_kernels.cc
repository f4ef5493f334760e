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
#include "offpath/attention/partial/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <KvType kType>
constexpr bool kBytes = HWY_TARGET == HWY_AVX3_DL&& kType == KvType::kI8;

// Turns scores into weights and takes the row's maximum and sum along. Returns what becomes of what
// was summed before; `any` is set where a token counts.
HWY_INLINE float Soften(const ChunkInput& in, size_t slots, float* scores, float& max, float& sum,
                        bool& any) {
  if (in.soft_cap > 0) SoftCap(in.soft_cap, scores, slots);
  const float largest = MaxOf(scores, slots);
  // Also where either is NaN, so that it stays.
  const float next = largest <= max ? max : largest;
  if (next == -kInfinity) {
    std::fill_n(scores, slots, 0.0F);
    return 1;
  }
  any = true;
  const float keep = next == max ? 1 : std::exp(max - next);
  sum = sum * keep + Exponentials(next, scores, slots);
  if (!(next < kInfinity)) sum = std::numeric_limits<float>::quiet_NaN();
  max = next;
  return keep;
}

template <KvType kType, size_t kRows>
void AttendTile(const ChunkInput& in, const QueryPanel& panel, size_t first, ReadAhead& ahead,
                const RowStates& states) {
  HWY_ALIGN float scores[kRows][kChunkTokens];
  const size_t slots = in.blocks.size() * in.shape.block_tokens;
  if constexpr (kBytes<kType>) {
#if HWY_TARGET == HWY_AVX3_DL
    ScoreBytes<kRows>(in, panel, first, ahead, scores);
#endif
  } else {
    Score<kType, kRows>(in, panel.rows + first * kMaxHeadDim, ahead, scores);
  }
  float keep[kRows];
  bool any = false;
  for (size_t r = 0; r < kRows; ++r) {
    ScaleAndMask<kType == KvType::kI8>(in, scores[r]);
    keep[r] = Soften(in, slots, scores[r], states.max[first + r], states.sum[first + r], any);
    if constexpr (kType == KvType::kI8) ScaleWeights(in, scores[r]);
  }
  if (!any) return;
  float* output = states.output + first * in.shape.head_dim;
  if constexpr (kBytes<kType>) {
#if HWY_TARGET == HWY_AVX3_DL
    ByteWeights weights[kRows];
    for (size_t r = 0; r < kRows; ++r) RoundWeights(scores[r], slots, weights[r]);
    AddByteValues<kRows>(in, weights, keep, ahead, output);
#endif
  } else {
    AddValues<kType, kRows>(in, scores, keep, ahead, output);
  }
}

template <KvType kType>
void AttendRows(const ChunkInput& in, const QueryPanel& panel, size_t first, size_t count,
                const RowStates& states) {
  ReadAhead ahead(in.next, LayOutHeadBlock(in.shape).bytes);
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
                   const RowStates& states) {
  switch (in.shape.type) {
    case KvType::kF32:
      return AttendRows<KvType::kF32>(in, panel, first, count, states);
    case KvType::kF16:
      return AttendRows<KvType::kF16>(in, panel, first, count, states);
    case KvType::kBF16:
      return AttendRows<KvType::kBF16>(in, panel, first, count, states);
    case KvType::kI8:
      return AttendRows<KvType::kI8>(in, panel, first, count, states);
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
                 const RowStates& states) noexcept {
  HWY_DYNAMIC_DISPATCH(AttendChunkOn)(in, panel, first, count, states);
}

}  // namespace offpath::attention
#endif
