// Scores and sums of values of a chunk in f32, for every type and target.
//
// Keys and values are loaded and converted once for a tile of up to four rows.
// Included once a target by chunk_kernels.cc (Highway's foreach_target).
// clang-format off
#if defined(OFFPATH_ATTENTION_PARTIAL_CHUNK_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OFFPATH_ATTENTION_PARTIAL_CHUNK_SUMS_INL_H_
#undef OFFPATH_ATTENTION_PARTIAL_CHUNK_SUMS_INL_H_
#else
#define OFFPATH_ATTENTION_PARTIAL_CHUNK_SUMS_INL_H_
#endif
// clang-format on

#include <cstddef>

#include "hwy/highway.h"
#include "offpath/attention/partial/chunk_kernels.h"
#include "offpath/attention/partial/kv_load-inl.h"
#include "offpath/attention/partial/read_ahead.h"
#include "offpath/attention/partial/unrolled-inl.h"

// After hwy/highway.h:
#include "offpath/base/simd_target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {

// Sums that the registers hold beside what is added to them.
constexpr size_t kSums = HWY_CAP_GE512 ? 16 : 8;

// One vector of tokens: where its keys start, and the first of them in the strip.
struct KeyVector {
  const std::byte* strip;
  size_t lane;
};

// The dot products of kRows queries with kVectors vectors of keys, in scores[row][vector * lanes].
template <KvType kType, size_t kRows, size_t kVectors>
HWY_INLINE void DotKeys(const KeyVector* keys, const float* queries, size_t dim, ReadAhead& ahead,
                        float (*scores)[kChunkTokens], size_t slot) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  const size_t lanes = hn::Lanes(df);
  FloatVec sums[kRows][kVectors];
  Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
    Unrolled<kVectors>([&](auto v) OFFPATH_INLINE_BODY { sums[r][v] = hn::Zero(df); });
  });
  const auto add = [&](size_t d, auto part) OFFPATH_INLINE_BODY {
    FloatVec k[kVectors];
    Unrolled<kVectors>([&](auto v) OFFPATH_INLINE_BODY {
      k[v] = LoadKey<kType, part>(keys[v].strip, d, keys[v].lane);
    });
    Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
      const auto q = hn::Set(df, queries[r * kMaxHeadDim + d + part]);
      Unrolled<kVectors>([&](auto v)
                             OFFPATH_INLINE_BODY { sums[r][v] = hn::MulAdd(k[v], q, sums[r][v]); });
    });
  };
  constexpr size_t kRun = KeyRun(kType);
  for (size_t d = 0; d < dim; d += kRun) {
    ahead.Read(kRun * kVectors * lanes * ElementBytes(kType));
    Unrolled<kRun>([&](auto part) OFFPATH_INLINE_BODY { add(d, part); });
  }
  Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
    Unrolled<kVectors>([&](auto v) OFFPATH_INLINE_BODY {
      hn::Store(sums[r][v], df, scores[r] + slot + v * lanes);
    });
  });
}

// Scores of the chunk's slots, a row each; what slots outside the spans score is unspecified.
template <KvType kType, size_t kRows>
HWY_INLINE void Score(const ChunkInput& in, const float* queries, ReadAhead& ahead,
                      float (*scores)[kChunkTokens]) {
  namespace hn = hwy::HWY_NAMESPACE;
  const size_t lanes = hn::Lanes(FloatTag());
  const size_t dim = in.shape.head_dim;
  const size_t offset = LayOutHeadBlock(in.shape).keys;
  const size_t strip_bytes = kStripTokens * dim * ElementBytes(kType);
  // As many vectors of tokens as the registers hold sums: queries are loaded once for all of them,
  // and with fewer than 16 sums they wait for each other (29 against 25 cycles for 24 multiply-adds
  // of 3 rows).
  constexpr size_t kNarrow = kRows > kSums / 4 ? kSums / 4 : 4;
  constexpr size_t kWide = HWY_CAP_GE512 && kRows < 4 ? 8 : kNarrow;
  KeyVector keys[kChunkTokens];
  size_t count = 0;
  for (const BlockSpan& span : in.blocks) {
    const std::byte* strip = span.block + offset;
    for (size_t t = 0; t < in.shape.block_tokens; t += kStripTokens) {
      for (size_t lane = 0; lane < kStripTokens; lane += lanes) {
        keys[count++] = {.strip = strip, .lane = lane};
      }
      strip += strip_bytes;
    }
  }
  // The last is scored again where they are not a multiple.
  for (; count % kNarrow != 0; ++count) keys[count] = keys[count - 1];
  size_t v = 0;
  for (; v + kWide <= count; v += kWide) {
    DotKeys<kType, kRows, kWide>(keys + v, queries, dim, ahead, scores, v * lanes);
  }
  if constexpr (kWide != kNarrow) {
    for (; v < count; v += kNarrow) {
      DotKeys<kType, kRows, kNarrow>(keys + v, queries, dim, ahead, scores, v * lanes);
    }
  }
}

// Columns [d, d + kVectors * Lanes(df)) of the outputs: output * keep + the sum of weights *
// values.
template <KvType kType, size_t kRows, size_t kVectors, class D>
HWY_INLINE void AddValueColumns(D df, const ChunkInput& in, const float (*weights)[kChunkTokens],
                                const float* keep, size_t d, ReadAhead& ahead, float* output) {
  namespace hn = hwy::HWY_NAMESPACE;
  const size_t lanes = hn::Lanes(df);
  const size_t dim = in.shape.head_dim;
  hn::Vec<D> sums[kRows][kVectors];
  Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
    Unrolled<kVectors>([&](auto v) OFFPATH_INLINE_BODY {
      sums[r][v] = hn::Mul(hn::LoadU(df, output + r * dim + d + v * lanes), hn::Set(df, keep[r]));
    });
  });
  const auto add = [&](const std::byte* values, size_t slot, auto part) OFFPATH_INLINE_BODY {
    hn::Vec<D> weight[kRows];
    Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
      weight[r] = Held(hn::Set(df, weights[r][slot + part]));
    });
    Unrolled<kVectors>([&](auto v) OFFPATH_INLINE_BODY {
      const auto value = LoadValue<kType, part>(df, values, d + v * lanes);
      Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
        sums[r][v] = hn::MulAdd(value, weight[r], sums[r][v]);
      });
    });
  };
  const size_t offset = LayOutHeadBlock(in.shape).values;
  size_t slot = 0;
  for (const BlockSpan& span : in.blocks) {
    const std::byte* values = span.block + offset;
    // Tokens of a run that lie outside the span have a weight of 0, and codes are finite.
    constexpr size_t kRun = ValueRun(kType);
    for (size_t t = span.begin / kRun * kRun; t < span.end; t += kRun) {
      const std::byte* run = values + t * dim * ElementBytes(kType);
      ahead.Read(kRun * kVectors * lanes * ElementBytes(kType));
      Unrolled<kRun>([&](auto part) OFFPATH_INLINE_BODY { add(run, slot + t, part); });
    }
    slot += in.shape.block_tokens;
  }
  Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
    Unrolled<kVectors>([&](auto v) OFFPATH_INLINE_BODY {
      hn::StoreU(sums[r][v], df, output + r * dim + d + v * lanes);
    });
  });
}

template <KvType kType, size_t kRows>
HWY_INLINE void AddValues(const ChunkInput& in, const float (*weights)[kChunkTokens],
                          const float* keep, ReadAhead& ahead, float* output) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr size_t kVectors = kRows > kSums / 4 ? kSums / 4 : 4;
  const FloatTag df;
  const hn::CappedTag<float, 4> narrow;
  const size_t dim = in.shape.head_dim;
  const size_t lanes = hn::Lanes(df);
  size_t d = 0;
  for (; d + kVectors * lanes <= dim; d += kVectors * lanes) {
    AddValueColumns<kType, kRows, kVectors>(df, in, weights, keep, d, ahead, output);
  }
  for (size_t r = 0; r < kRows; ++r) {
    size_t rest = d;
    for (; rest + lanes <= dim; rest += lanes) {
      AddValueColumns<kType, 1, 1>(df, in, weights + r, keep + r, rest, ahead, output + r * dim);
    }
    for (; rest < dim; rest += hn::Lanes(narrow)) {
      AddValueColumns<kType, 1, 1>(narrow, in, weights + r, keep + r, rest, ahead,
                                   output + r * dim);
    }
  }
}

}  // namespace offpath::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
