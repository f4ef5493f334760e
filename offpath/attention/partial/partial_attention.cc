// AttendPartial: SIMD bodies, compiled once a target.
//
// Heads are taken in tiles of up to four and tokens in chunks whose scores stay in the L1 cache:
// the scores of a chunk, their exponentials, then the sum of values, during which each row of keys
// and of values is loaded and converted once for the whole tile.
#include "offpath/attention/partial/partial_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

// A body for each target costs seconds of compilation; what lies between SSE2 and AVX2, and the
// extensions of AVX-512 that this file does not use, gain nothing.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "offpath/attention/partial/partial_attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "offpath/attention/partial/kv_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kMaxTile = 4;        // heads
constexpr size_t kChunkTokens = 256;  // whose scores are held: 4 KiB a tile
constexpr size_t kCacheLine = 64;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Some blocks of the list, at most kChunkTokens tokens, and the tile of heads that attends to them.
struct Chunk {
  const PartialInput& in;
  const HeadBlockLayout& layout;
  std::span<const BlockSpan> blocks;
  std::span<const BlockSpan> next;  // what follows in the list, as many or fewer
  const float* query;               // of the tile's first head
  size_t slots;                     // blocks.size() * block_tokens
};

// Memory is kept busy all the time: while keys are read, the values of the same block come, and
// while values are read, the keys of the next chunk. Into L2, which a chunk of any type fits.
HWY_INLINE void PrefetchLines(const std::byte* at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(at + i, 0, 2);
}

// Scores of the chunk's tokens, a row a head; slots outside the spans score -infinity.
template <KvType kType, size_t kHeads>
HWY_INLINE void Score(const Chunk& chunk, float (*scores)[kChunkTokens]) {
  const FloatTag df;
  const size_t lanes = hn::Lanes(df);
  const PartialInput& in = chunk.in;
  const size_t dim = in.shape.head_dim;
  const auto scale = hn::Set(df, in.scale);
  size_t slot = 0;
  for (const BlockSpan& span : chunk.blocks) {
    const std::byte* keys = span.block + chunk.layout.keys;
    const std::byte* values = span.block + chunk.layout.values;
    [[maybe_unused]] const auto* scales =
        reinterpret_cast<const float*>(span.block + chunk.layout.key_scales);
    for (size_t first = 0; first < in.shape.block_tokens; first += lanes, slot += lanes) {
      const std::byte* strip =
          keys + first / kStripTokens * kStripTokens * dim * ElementBytes(kType);
      const size_t lane = first % kStripTokens;
      // Two sums a head: one chain of additions a head would wait for its own latency.
      FloatVec even[kHeads];
      FloatVec odd[kHeads];
      for (size_t h = 0; h < kHeads; ++h) even[h] = odd[h] = hn::Zero(df);
      for (size_t d = 0; d < dim; d += 4) {
        if (lane == 0) {
          constexpr size_t kElement = ElementBytes(kType);
          PrefetchLines(values + (first * dim + d * kStripTokens) * kElement,
                        4 * kStripTokens * kElement);
        }
        FloatVec k0;
        FloatVec k1;
        FloatVec k2;
        FloatVec k3;
        LoadKeys<kType>(strip, d, lane, k0, k1, k2, k3);
        for (size_t h = 0; h < kHeads; ++h) {
          const float* q = chunk.query + h * in.query_stride + d;
          even[h] = hn::MulAdd(k0, hn::Set(df, q[0]), even[h]);
          odd[h] = hn::MulAdd(k1, hn::Set(df, q[1]), odd[h]);
          even[h] = hn::MulAdd(k2, hn::Set(df, q[2]), even[h]);
          odd[h] = hn::MulAdd(k3, hn::Set(df, q[3]), odd[h]);
        }
      }
      auto factor = scale;
      if constexpr (kType == KvType::kI8) factor = hn::Mul(scale, hn::Load(df, scales + first));
      for (size_t h = 0; h < kHeads; ++h) {
        hn::Store(hn::Mul(hn::Add(even[h], odd[h]), factor), df, scores[h] + slot);
      }
    }
    // Unwritten slots hold anything.
    for (size_t h = 0; h < kHeads; ++h) {
      float* row = scores[h] + slot - in.shape.block_tokens;
      std::fill(row, row + span.begin, -kInfinity);
      std::fill(row + span.end, row + in.shape.block_tokens, -kInfinity);
    }
  }
}

HWY_NOINLINE void SoftCap(float cap, float* scores, size_t count) {
  const FloatTag df;
  const auto c = hn::Set(df, cap);
  const auto inverse = hn::Set(df, 1 / cap);
  for (size_t i = 0; i < count; i += hn::Lanes(df)) {
    const auto s = hn::Load(df, scores + i);
    const auto capped = hn::Mul(c, hn::Tanh(df, hn::Mul(s, inverse)));
    const auto empty = hn::Eq(s, hn::Set(df, -kInfinity));
    hn::Store(hn::IfThenElse(empty, s, capped), df, scores + i);
  }
}

// The largest of the scores; NaN where one is NaN.
HWY_INLINE float MaxOf(const float* scores, size_t count) {
  const FloatTag df;
  auto max = hn::Set(df, -kInfinity);
  auto ordered = hn::Eq(max, max);
  for (size_t i = 0; i < count; i += hn::Lanes(df)) {
    const auto s = hn::Load(df, scores + i);
    max = hn::Max(max, s);
    ordered = hn::And(ordered, hn::Eq(s, s));
  }
  if (!hn::AllTrue(df, ordered)) return std::numeric_limits<float>::quiet_NaN();
  return hn::GetLane(hn::MaxOfLanes(df, max));
}

// scores := exp(scores - max); returns their sum. max is finite.
HWY_INLINE float Exponentials(float max, float* scores, size_t count) {
  const FloatTag df;
  const auto m = hn::Set(df, max);
  const auto floor = hn::Set(df, -1000.0F);  // whose exponential is 0; Exp takes no infinity
  auto sum = hn::Zero(df);
  for (size_t i = 0; i < count; i += hn::Lanes(df)) {
    const auto e = hn::Exp(df, hn::Max(hn::Sub(hn::Load(df, scores + i), m), floor));
    hn::Store(e, df, scores + i);
    sum = hn::Add(sum, e);
  }
  return hn::GetLane(hn::SumOfLanes(df, sum));
}

// Columns [d, d + kVectors * Lanes(d)) of the outputs: output * keep + the sum of weights * values.
template <KvType kType, size_t kHeads, size_t kVectors, class D>
HWY_INLINE void AddValueColumns(D df, const Chunk& chunk, const float (*weights)[kChunkTokens],
                                const float* keep, size_t d, float* output) {
  const size_t lanes = hn::Lanes(df);
  const size_t dim = chunk.in.shape.head_dim;
  hn::Vec<D> sums[kHeads][kVectors];
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t v = 0; v < kVectors; ++v) {
      sums[h][v] = hn::Mul(hn::LoadU(df, output + h * dim + d + v * lanes), hn::Set(df, keep[h]));
    }
  }
  const size_t row_bytes = dim * ElementBytes(kType);
  size_t slot = 0;
  for (size_t i = 0; i < chunk.blocks.size(); ++i) {
    const BlockSpan& span = chunk.blocks[i];
    const std::byte* values = span.block + chunk.layout.values;
    const std::byte* next_keys =
        d == 0 && i < chunk.next.size() ? chunk.next[i].block + chunk.layout.keys : nullptr;
    for (size_t t = span.begin; t < span.end; ++t) {
      if (next_keys != nullptr) PrefetchLines(next_keys + t * row_bytes, row_bytes);
      const std::byte* row = values + t * row_bytes + d * ElementBytes(kType);
      for (size_t v = 0; v < kVectors; ++v) {
        const auto value = LoadValues<kType>(df, row + v * lanes * ElementBytes(kType));
        for (size_t h = 0; h < kHeads; ++h) {
          sums[h][v] = hn::MulAdd(value, hn::Set(df, weights[h][slot + t]), sums[h][v]);
        }
      }
    }
    slot += chunk.in.shape.block_tokens;
  }
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[h][v], df, output + h * dim + d + v * lanes);
    }
  }
}

template <KvType kType, size_t kHeads>
HWY_INLINE void AddValues(const Chunk& chunk, const float (*weights)[kChunkTokens],
                          const float* keep, float* output) {
  // As many sums as the registers hold beside a value and a weight.
  constexpr size_t kVectors = 8 / kHeads;
  const FloatTag df;
  const hn::CappedTag<float, 4> narrow;
  const size_t dim = chunk.in.shape.head_dim;
  const size_t lanes = hn::Lanes(df);
  size_t d = 0;
  for (; d + kVectors * lanes <= dim; d += kVectors * lanes) {
    AddValueColumns<kType, kHeads, kVectors>(df, chunk, weights, keep, d, output);
  }
  for (; d + lanes <= dim; d += lanes) {
    AddValueColumns<kType, kHeads, 1>(df, chunk, weights, keep, d, output);
  }
  for (; d < dim; d += hn::Lanes(narrow)) {
    AddValueColumns<kType, kHeads, 1>(narrow, chunk, weights, keep, d, output);
  }
}

// Weights that carry the values' scales.
HWY_INLINE void ScaleWeights(const Chunk& chunk, float* weights) {
  float* at = weights;
  for (const BlockSpan& span : chunk.blocks) {
    const auto* scales = reinterpret_cast<const float*>(span.block + chunk.layout.value_scales);
    for (size_t t = span.begin; t < span.end; ++t) at[t] *= scales[t];
    at += chunk.in.shape.block_tokens;
  }
}

template <KvType kType, size_t kHeads>
void AttendChunk(const Chunk& chunk, float* output, float* max, float* sum) {
  HWY_ALIGN float scores[kHeads][kChunkTokens];
  Score<kType, kHeads>(chunk, scores);
  float keep[kHeads];
  bool nothing = true;
  for (size_t h = 0; h < kHeads; ++h) {
    if (chunk.in.soft_cap > 0) SoftCap(chunk.in.soft_cap, scores[h], chunk.slots);
    const float largest = MaxOf(scores[h], chunk.slots);
    // Also where either is NaN, so that it stays.
    const float next = largest <= max[h] ? max[h] : largest;
    if (next == -kInfinity) {
      keep[h] = 1;
      std::fill_n(scores[h], chunk.slots, 0.0F);
      continue;
    }
    nothing = false;
    keep[h] = std::exp(max[h] - next);
    sum[h] = sum[h] * keep[h] + Exponentials(next, scores[h], chunk.slots);
    if (!(next < kInfinity)) sum[h] = std::numeric_limits<float>::quiet_NaN();
    max[h] = next;
    if constexpr (kType == KvType::kI8) ScaleWeights(chunk, scores[h]);
  }
  if (!nothing) AddValues<kType, kHeads>(chunk, scores, keep, output);
}

template <KvType kType, size_t kHeads>
void AttendTile(const PartialInput& in, size_t first_head, const PartialStates& out) {
  const HeadBlockLayout layout = LayOutHeadBlock(in.shape);
  const size_t blocks_a_chunk = kChunkTokens / in.shape.block_tokens;
  for (size_t i = 0; i < in.blocks.size(); i += blocks_a_chunk) {
    const size_t count = std::min(blocks_a_chunk, in.blocks.size() - i);
    const Chunk chunk = {
        .in = in,
        .layout = layout,
        .blocks = in.blocks.subspan(i, count),
        .next = in.blocks.subspan(i + count).first(std::min(count, in.blocks.size() - i - count)),
        .query = in.query + first_head * in.query_stride,
        .slots = count * in.shape.block_tokens};
    AttendChunk<kType, kHeads>(chunk, out.output + first_head * out.head_dim, out.max + first_head,
                               out.sum + first_head);
  }
}

template <KvType kType>
void Attend(const PartialInput& in, const PartialStates& out) {
  size_t head = 0;
  while (head < in.heads) {
    // Five heads as three and two: a tile of one head is the least efficient.
    const size_t left = in.heads - head;
    const size_t tile = left == 5 ? 3 : std::min(left, kMaxTile);
    switch (tile) {
      case 1:
        AttendTile<kType, 1>(in, head, out);
        break;
      case 2:
        AttendTile<kType, 2>(in, head, out);
        break;
      case 3:
        AttendTile<kType, 3>(in, head, out);
        break;
      default:
        AttendTile<kType, 4>(in, head, out);
        break;
    }
    head += tile;
  }
}

}  // namespace

void AttendPartialOn(const PartialInput& in, const PartialStates& out) {
  switch (in.shape.type) {
    case KvType::kF32:
      return Attend<KvType::kF32>(in, out);
    case KvType::kF16:
      return Attend<KvType::kF16>(in, out);
    case KvType::kBF16:
      return Attend<KvType::kBF16>(in, out);
    case KvType::kI8:
      return Attend<KvType::kI8>(in, out);
  }
}

}  // namespace offpath::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace offpath::attention {
HWY_EXPORT(AttendPartialOn);

void AttendPartial(const PartialInput& in, const PartialStates& out) noexcept {
  Clear(out);
  HWY_DYNAMIC_DISPATCH(AttendPartialOn)(in, out);
}

}  // namespace offpath::attention
#endif
