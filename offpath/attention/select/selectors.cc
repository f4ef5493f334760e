// The names of the selectors, and what all of them share.
#include "offpath/attention/select/selectors.h"

#include <algorithm>
#include <array>

#include "offpath/attention/kv/kv_shape.h"
#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

struct Entry {
  SelectorInfo info;
  std::shared_ptr<const Selector> (*make)(const SelectorShape& shape);
};

template <typename Kind>
std::shared_ptr<const Selector> Make(const SelectorShape& shape) {
  return std::make_shared<Kind>(shape);
}

const std::vector<Entry>& Entries() {
  static const std::vector<Entry> kEntries = {
      {{"quest", "bounding box of a block's keys", 16}, Make<QuestSelector>},
      {{"mean-std", "mean and standard deviation of a block's keys", 16}, Make<MeanStdSelector>},
      {{"arkvale", "centre and mean distance of a block's keys", 32}, Make<ArkValeSelector>},
      {{"infllm", "mean of a block's four strongest keys", 128}, Make<InfLlmSelector>},
      {{"infllm-v2", "softmax over means of overlapping stretches", 64}, Make<InfLlmV2Selector>},
      {{"shadowkv", "means of 8 tokens, outlying chunks kept", 16}, Make<ShadowKvSelector>},
      {{"streaming", "the first four tokens and the latest", 16}, Make<StreamingSelector>},
      {{"double-sparsity", "softmax over an eighth of the channels", 16},
       Make<DoubleSparsitySelector>},
      {{"i4-keys", "softmax over keys of 4 bits", 16}, Make<I4KeysSelector>},
      {{"oracle", "the true softmax mass of every block", 16}, Make<OracleSelector>}};
  return kEntries;
}

}  // namespace

AlwaysKept KeptWithin(const AlwaysKept& published, size_t budget) noexcept {
  return {.sinks = std::min(published.sinks, budget / 4),
          .window = std::max<size_t>(1, std::min(published.window, budget / 2)),
          .priority = std::min(published.priority, budget / 4)};
}

const std::vector<SelectorInfo>& Selectors() {
  static const std::vector<SelectorInfo> kInfos = [] {
    std::vector<SelectorInfo> list;
    for (const Entry& entry : Entries()) list.push_back(entry.info);
    return list;
  }();
  return kInfos;
}

std::shared_ptr<const Selector> MakeSelector(std::string_view name, const SelectorShape& shape) {
  std::string names;
  for (const Entry& entry : Entries()) {
    if (entry.info.name == name) {
      SelectorShape full = shape;
      if (full.block_tokens == 0) full.block_tokens = entry.info.block_tokens;
      CheckShape(
          {.type = KvType::kF16, .head_dim = full.head_dim, .block_tokens = full.block_tokens});
      auto selector = entry.make(full);
      const LandmarkShape landmarks = selector->landmarks();
      if (landmarks.stride != 0 && full.block_tokens % landmarks.stride != 0) {
        throw Error(ErrorCode::kInvalidArgument,
                    std::string(name) + " has a landmark every " +
                        std::to_string(landmarks.stride) + " tokens, which blocks of " +
                        std::to_string(full.block_tokens) + " are not a multiple of");
      }
      return selector;
    }
    names += names.empty() ? "" : ", ";
    names += entry.info.name;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "no selector '" + std::string(name) + "'; there are " + names);
}

}  // namespace offpath::attention
