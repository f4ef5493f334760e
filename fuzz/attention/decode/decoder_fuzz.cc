// Any order of calls with any numbers, given to two decoders that must select alike: one serial
// with the flat scan, one by what the input says. They refuse the same calls, and nothing but an
// Error refuses.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "offpath/attention/decode/decoder.h"
#include "offpath/base/error.h"
#include "offpath/base/random.h"

namespace {

using namespace offpath::attention;

constexpr size_t kLayers = 2;
constexpr size_t kKvHeads = 2;
constexpr size_t kGroup = 2;
constexpr size_t kDim = 8;
constexpr size_t kRow = kKvHeads * kDim;
constexpr size_t kQuery = kGroup * kRow;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {
    for (size_t i = 0; i < size; ++i) key_ = offpath::Combine(key_, data[i]);
  }
  // Behind the input's bytes, others that follow from them: a short input makes many calls too.
  size_t Next() {
    const size_t at = at_++;
    return at < size_ ? data_[at] : offpath::Draw(key_, at) & 255;
  }
  // Rows from a seed; a number or two may be anything.
  std::vector<float> Rows(size_t count) {
    const uint64_t seed = Next() % 5;
    std::vector<float> rows(count);
    for (size_t i = 0; i < count; ++i) {
      rows[i] = static_cast<float>(static_cast<int8_t>(offpath::Draw(seed, i) & 255)) / 64;
    }
    for (size_t left = Next() % 16 == 0 ? 1 + Next() % 2 : 0; left > 0; --left) {
      uint32_t bits = 0;
      for (size_t i = 0; i < 4; ++i) bits = bits << 8 | static_cast<uint32_t>(Next());
      rows[(Next() * 256 + Next()) % count] = std::bit_cast<float>(bits);
    }
    return rows;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
  uint64_t key_ = 0;
};

DecoderOptions OptionsOf(KvType type, const PolicyOptions& policy) {
  DecoderOptions options;
  options.cache = {.shape = {.type = type, .head_dim = kDim, .block_tokens = 16},
                   .layers = kLayers,
                   .kv_heads = kKvHeads,
                   .memory_bytes = size_t{1} << 21};
  options.query_heads = kKvHeads * kGroup;
  options.layers.assign(kLayers, {.scale = 0.4F});
  options.policy = policy;
  return options;
}

template <typename Call>
std::optional<offpath::ErrorCode> CodeOf(Call call) {
  try {
    call();
  } catch (const offpath::Error& error) {
    return error.code();
  }
  return std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const auto type = static_cast<KvType>(input.Next() % 4);
  const char* selectors[] = {"quest",    "mean-std", "arkvale",         "infllm",
                             "shadowkv", "oracle",   "double-sparsity", "i4-keys"};
  const size_t selector = input.Next() % std::size(selectors);
  PolicyOptions serial = {.policy = Policy::kSerial,
                          .selector = selectors[selector],
                          .dense_layers = 0,
                          .budget_tokens = 16 * (1 + input.Next() % 6)};
  PolicyOptions other = serial;
  if (input.Next() % 4 != 0) other.policy = Policy::kPrr;
  other.speculated_blocks = input.Next() % 20;
  other.predictor = static_cast<Predictor>(input.Next() % 3);
  if (selector < 4 && input.Next() % 2 == 0) {
    other.scan = Scan::kBounded;
    other.bounded_from = 1;
  }
  Decoder a(OptionsOf(type, serial));
  Decoder b(OptionsOf(type, other));
  const auto both = [&](auto call) {
    const auto code = CodeOf([&] { call(a); });
    if (CodeOf([&] { call(b); }) != code) std::abort();
    return !code;
  };
  std::vector<SequenceId> ids = {1};  // the first that Create() gives
  if (a.Create() != 1 || b.Create() != 1) std::abort();
  for (size_t calls = 0; calls < 16; ++calls) {
    const SequenceId id = ids[input.Next() % ids.size()];
    const size_t kind = input.Next() % 8;
    const size_t layer = input.Next() % kLayers;
    if (kind <= 1) {
      // Up to whole groups of bounds, so that these are met too.
      const size_t tokens = kind == 0 ? 1 + input.Next() % 3 : 16 * input.Next();
      if (tokens == 0) continue;
      const std::vector<float> rows = input.Rows(tokens * kRow);
      const TokenRows in = {rows.data(), rows.data(), kRow, kRow, tokens};
      for (size_t l = 0; l < (kind == 0 ? kLayers : layer + 1); ++l) {
        both([&](Decoder& decoder) { decoder.Append(id, l, in); });
      }
    } else if (kind <= 4) {
      const std::vector<float> query = input.Rows(kQuery);
      std::vector<float> output(kQuery);
      const bool well = both([&](Decoder& decoder) {
        decoder.Attend(id, layer, {query.data(), kQuery, kDim, 1}, {output.data(), kQuery, kDim},
                       {});
      });
      for (size_t h = 0; well && h < kKvHeads; ++h) {
        if (a.LastSelection(id, layer, h) != b.LastSelection(id, layer, h)) std::abort();
      }
    } else if (kind == 5) {
      const size_t tokens = input.Next() * 16 + input.Next() % 16;
      both([&](Decoder& decoder) { decoder.Truncate(id, tokens); });
    } else if (kind == 6 && ids.size() < 4) {
      const size_t tokens = input.Next() * 16 + input.Next() % 16;
      SequenceId made = 0;
      if (both([&](Decoder& decoder) { made = decoder.Fork(id, tokens); })) ids.push_back(made);
    } else if (kind == 7) {
      const std::vector<float> queries = input.Rows(2 * kQuery);
      both([&](Decoder& decoder) {
        decoder.FitPredictor(id, layer, {queries.data(), kQuery, kDim, 2}, {});
      });
    }
  }
  return 0;
}
