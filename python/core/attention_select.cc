#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "offpath/attention/select/block_scorer.h"
#include "offpath/attention/select/selection_index.h"
#include "offpath/attention/select/selector.h"
#include "offpath/attention/select/top_blocks.h"
#include "offpath/base/error.h"
#include "python/core/arrays.h"
#include "python/core/attention_bindings.h"
#include "python/core/kv_cache_handle.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

using attention::SelectionIndex;
using attention::Selector;
using attention::SequenceId;

struct SelectorHandle {
  std::shared_ptr<const Selector> selector;
};

// The summaries of one sequence of a cache.
class IndexHandle {
 public:
  IndexHandle(const SelectorHandle& selector, const KvCacheHandle& cache, SequenceId id)
      : selector_(selector.selector),
        cache_(cache),
        id_(id),
        index_(selector.selector, cache.cache->options()) {}

  std::vector<float> Scores(size_t layer, size_t kv_head, const Rows& queries, float scale) {
    const std::lock_guard lock(*cache_.mutex);
    Check(layer, kv_head);
    if (queries.shape(0) == 0 || queries.shape(1) != selector_->head_dim()) {
      throw Error(ErrorCode::kInvalidArgument, "queries of shape [" +
                                                   std::to_string(queries.shape(0)) + ", " +
                                                   std::to_string(queries.shape(1)) +
                                                   "]: they are [heads that share the KV head, " +
                                                   std::to_string(selector_->head_dim()) + "]");
    }
    index_.Update(*cache_.cache, id_, layer);
    const attention::GroupQuery query = {.rows = queries.data(),
                                         .stride = queries.shape(1),
                                         .heads = queries.shape(0),
                                         .scale = scale};
    scorer_.Prepare(*selector_, index_, {.layer = layer, .kv_head = kv_head}, query,
                    cache_.cache->Tokens(id_, layer));
    scorer_.Multiply(0, scorer_.landmarks());
    scorer_.Combine(index_.WholeBlocks(layer));
    return {scorer_.scores().begin(), scorer_.scores().end()};
  }

  std::vector<float> Priorities(size_t layer, size_t kv_head) {
    const std::lock_guard lock(*cache_.mutex);
    Check(layer, kv_head);
    index_.Update(*cache_.cache, id_, layer);
    const std::span<const float> held = index_.Priorities(layer, kv_head);
    return {held.begin(), held.end()};
  }

 private:
  void Check(size_t layer, size_t kv_head) const {
    const attention::KvCacheOptions& options = cache_.cache->options();
    if (layer < options.layers && kv_head < options.kv_heads) return;
    throw Error(ErrorCode::kInvalidArgument, "layer " + std::to_string(layer) + ", KV head " +
                                                 std::to_string(kv_head) + " of a cache of " +
                                                 std::to_string(options.layers) + " layers and " +
                                                 std::to_string(options.kv_heads) + " KV heads");
  }

  std::shared_ptr<const Selector> selector_;
  KvCacheHandle cache_;
  SequenceId id_;
  SelectionIndex index_;
  attention::BlockScorer scorer_;
};

std::vector<float> FeatureQuery(const SelectorHandle& handle, const Rows& queries) {
  const Selector& selector = *handle.selector;
  if (queries.shape(0) == 0 || queries.shape(1) != selector.head_dim()) {
    throw Error(ErrorCode::kInvalidArgument, "queries of another head_dim than the selector's " +
                                                 std::to_string(selector.head_dim()));
  }
  std::vector<float> features(selector.rows(queries.shape(0)) * selector.landmarks().features);
  selector.Project({.rows = queries.data(), .stride = queries.shape(1), .heads = queries.shape(0)},
                   features.data());
  return features;
}

std::vector<uint32_t> ChooseBlocks(const Floats& scores, size_t blocks, size_t budget, size_t sinks,
                                   size_t window, size_t priority,
                                   const std::optional<Floats>& priorities) {
  if (scores.size() > blocks) {
    throw Error(ErrorCode::kInvalidArgument, "scores of " + std::to_string(scores.size()) +
                                                 " blocks, of a sequence of " +
                                                 std::to_string(blocks));
  }
  if (priority > 0 && (!priorities || priorities->size() != scores.size())) {
    throw Error(ErrorCode::kInvalidArgument,
                "blocks are to be kept by priority: priorities must "
                "be given for as many blocks as scores");
  }
  attention::TopBlocks top;
  std::vector<uint32_t> chosen;
  top.Select({.scores = SpanOf(scores),
              .priorities = priorities ? SpanOf(*priorities) : std::span<const float>(),
              .blocks = blocks},
             {.sinks = sinks, .window = window, .priority = priority}, budget, chosen);
  return chosen;
}

}  // namespace

void BindSelection(nb::module_& m) {
  nb::class_<SelectorHandle>(m, "Selector")
      .def(
          "__init__",
          [](SelectorHandle* self, const std::string& name, size_t head_dim, size_t block_tokens) {
            new (self) SelectorHandle{attention::MakeSelector(
                name, {.head_dim = head_dim, .block_tokens = block_tokens})};
          },
          nb::arg("name"), nb::arg("head_dim"), nb::arg("block_tokens"))
      .def_prop_ro("name",
                   [](const SelectorHandle& self) { return std::string(self.selector->name()); })
      .def_prop_ro("block_tokens",
                   [](const SelectorHandle& self) { return self.selector->block_tokens(); })
      .def_prop_ro("dense_layers",
                   [](const SelectorHandle& self) { return self.selector->dense_layers(); })
      .def_prop_ro("dense_below",
                   [](const SelectorHandle& self) { return self.selector->dense_below(); })
      .def_prop_ro("kept",
                   [](const SelectorHandle& self) {
                     const attention::AlwaysKept kept = self.selector->kept();
                     return nb::make_tuple(kept.sinks, kept.window, kept.priority);
                   })
      .def(
          "feature_query",
          [](const SelectorHandle& self, const Rows& queries) {
            return ArrayOf(FeatureQuery(self, queries));
          },
          nb::arg("queries"));
  nb::class_<IndexHandle>(m, "SelectionIndex")
      .def(nb::init<const SelectorHandle&, const KvCacheHandle&, SequenceId>(), nb::arg("selector"),
           nb::arg("cache"), nb::arg("sequence"))
      .def(
          "scores",
          [](IndexHandle& self, size_t layer, size_t kv_head, const Rows& queries, float scale) {
            std::vector<float> scores;
            {
              const nb::gil_scoped_release released;
              scores = self.Scores(layer, kv_head, queries, scale);
            }
            return ArrayOf(std::move(scores));
          },
          nb::arg("layer"), nb::arg("kv_head"), nb::arg("queries"), nb::arg("scale"))
      .def(
          "priorities",
          [](IndexHandle& self, size_t layer, size_t kv_head) {
            std::vector<float> priorities;
            {
              const nb::gil_scoped_release released;
              priorities = self.Priorities(layer, kv_head);
            }
            return ArrayOf(std::move(priorities));
          },
          nb::arg("layer"), nb::arg("kv_head"));
  m.def(
      "choose_blocks",
      [](const Floats& scores, size_t blocks, size_t budget, size_t sinks, size_t window,
         size_t priority, const std::optional<Floats>& priorities) {
        return ArrayOf(ChooseBlocks(scores, blocks, budget, sinks, window, priority, priorities));
      },
      nb::arg("scores"), nb::arg("blocks"), nb::arg("budget"), nb::arg("sinks"), nb::arg("window"),
      nb::arg("priority"), nb::arg("priorities").none());
  m.def(
      "kept_within",
      [](size_t sinks, size_t window, size_t priority, size_t budget) {
        const attention::AlwaysKept kept =
            attention::KeptWithin({.sinks = sinks, .window = window, .priority = priority}, budget);
        return nb::make_tuple(kept.sinks, kept.window, kept.priority);
      },
      nb::arg("sinks"), nb::arg("window"), nb::arg("priority"), nb::arg("budget"));
  m.def("selectors", [] {
    nb::list list;
    for (const attention::SelectorInfo& info : attention::Selectors()) {
      list.append(
          nb::make_tuple(std::string(info.name), std::string(info.what), info.block_tokens));
    }
    return list;
  });
}

}  // namespace offpath::python
