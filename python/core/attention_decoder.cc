#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "offpath/attention/decode/decoder.h"
#include "offpath/attention/decode/team_threads.h"
#include "offpath/attention/profile/budget_json.h"
#include "offpath/base/error.h"
#include "python/core/arrays.h"
#include "python/core/attention_bindings.h"
#include "python/core/kv_cache_handle.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

using attention::Decoder;
using attention::DecoderOptions;
using attention::SequenceId;

class DecoderHandle {
 public:
  DecoderHandle(const DecoderOptions& options, size_t threads)
      : decoder_(options), team_(threads) {}

  template <typename Call>
  auto Locked(Call call) {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    return call(decoder_);
  }

  void Append(SequenceId id, size_t layer, const TokenArray& keys, const TokenArray& values) {
    Locked([&](Decoder& decoder) {
      const attention::KvCacheOptions& cache = decoder.options().cache;
      decoder.Append(id, layer, TokenRowsOf(keys, values, cache.kv_heads, cache.shape.head_dim));
    });
  }

  std::vector<float> Attend(SequenceId id, size_t layer, const TokenArray& queries) {
    return Locked([&](Decoder& decoder) {
      const attention::QueryRows rows = RowsOf(queries);
      std::vector<float> output(queries.size());
      team_.Run([&](const attention::Worker& worker) {
        decoder.Attend(id, layer, rows,
                       {.rows = output.data(),
                        .token_stride = rows.token_stride,
                        .head_stride = rows.head_stride},
                       worker);
      });
      return output;
    });
  }

  void FitPredictor(SequenceId id, size_t layer, const TokenArray& queries) {
    Locked([&](Decoder& decoder) {
      const attention::QueryRows rows = RowsOf(queries);
      team_.Run(
          [&](const attention::Worker& worker) { decoder.FitPredictor(id, layer, rows, worker); });
    });
  }

 private:
  attention::QueryRows RowsOf(const TokenArray& queries) const {
    const size_t heads = decoder_.options().query_heads;
    const size_t dim = decoder_.options().cache.shape.head_dim;
    if (queries.shape(0) == 0 || queries.shape(1) != heads || queries.shape(2) != dim) {
      throw Error(ErrorCode::kInvalidArgument,
                  "queries of shape [" + std::to_string(queries.shape(0)) + ", " +
                      std::to_string(queries.shape(1)) + ", " + std::to_string(queries.shape(2)) +
                      "], not [tokens, " + std::to_string(heads) + ", " + std::to_string(dim) +
                      "]");
    }
    return {.rows = queries.data(),
            .token_stride = heads * dim,
            .head_stride = dim,
            .tokens = queries.shape(0)};
  }

  std::mutex mutex_;  // held by every call, which runs without the GIL
  Decoder decoder_;
  attention::TeamThreads team_;
};

nb::dict CountersOf(DecoderHandle& handle) {
  const attention::DecodeCounters c =
      handle.Locked([](Decoder& decoder) { return decoder.counters(); });
  nb::dict dict;
  dict["append_ns"] = c.append_ns;
  dict["prefill_ns"] = c.prefill_ns;
  dict["dense_ns"] = c.dense_ns;
  dict["select_ns"] = c.select_ns;
  dict["attend_ns"] = c.attend_ns;
  dict["merge_ns"] = c.merge_ns;
  dict["spare_ns"] = c.spare_ns;
  dict["dense_steps"] = c.dense_steps;
  dict["sparse_steps"] = c.sparse_steps;
  dict["early_speculations"] = c.early_speculations;
  dict["withheld_steps"] = c.withheld_steps;
  dict["selected_blocks"] = c.selected_blocks;
  dict["predicted_blocks"] = c.predicted_blocks;
  dict["covered_blocks"] = c.covered_blocks;
  dict["context_blocks"] = c.context_blocks;
  return dict;
}

}  // namespace

void BindDecoder(nb::module_& m) {
  nb::class_<DecoderHandle>(m, "Decoder")
      .def(
          "__init__",
          [](DecoderHandle* self, size_t layers, size_t query_heads, size_t kv_heads,
             size_t head_dim, size_t block_tokens, const std::string& type, size_t memory_bytes,
             float scale, float soft_cap, const std::vector<size_t>& windows,
             const std::string& policy, const std::string& extras, const std::string& selector,
             size_t budget_tokens, const std::string& scan,
             const std::optional<size_t>& speculated_blocks,
             const std::optional<std::string>& budgets, bool force_budgets,
             const std::string& predictor, size_t threads) {
            if (windows.size() != layers) {
              throw Error(ErrorCode::kInvalidArgument, std::to_string(windows.size()) +
                                                           " windows for " +
                                                           std::to_string(layers) + " layers");
            }
            DecoderOptions options;
            options.cache = {.shape = {.type = attention::ParseKvType(type),
                                       .head_dim = head_dim,
                                       .block_tokens = block_tokens},
                             .layers = layers,
                             .kv_heads = kv_heads,
                             .memory_bytes = memory_bytes};
            options.query_heads = query_heads;
            options.policy.policy = attention::ParsePolicy(policy);
            options.policy.extras = attention::ParseExtras(extras);
            options.policy.selector = selector;
            options.policy.budget_tokens = budget_tokens;
            options.policy.scan = attention::ParseScan(scan);
            if (speculated_blocks) options.policy.speculated_blocks = *speculated_blocks;
            options.policy.predictor = attention::ParsePredictor(predictor);
            for (const size_t window : windows) {
              options.layers.push_back({.scale = scale, .soft_cap = soft_cap, .window = window});
            }
            if (budgets) {
              options.policy.speculation = attention::ReadSpeculation(
                  *budgets, options, threads,
                  force_budgets ? attention::OtherTable::kForce : attention::OtherTable::kRefuse);
            }
            new (self) DecoderHandle(options, threads);
          },
          nb::arg("layers"), nb::arg("query_heads"), nb::arg("kv_heads"), nb::arg("head_dim"),
          nb::arg("block_tokens"), nb::arg("type"), nb::arg("memory_bytes"), nb::arg("scale"),
          nb::arg("soft_cap"), nb::arg("windows"), nb::arg("policy"), nb::arg("extras"),
          nb::arg("selector"), nb::arg("budget_tokens"), nb::arg("scan"),
          nb::arg("speculated_blocks").none(), nb::arg("budgets").none(), nb::arg("force_budgets"),
          nb::arg("predictor"), nb::arg("threads"))
      .def("create",
           [](DecoderHandle& self) {
             return self.Locked([](Decoder& decoder) { return decoder.Create(); });
           })
      .def(
          "fork",
          [](DecoderHandle& self, SequenceId from, size_t tokens) {
            return self.Locked([&](Decoder& decoder) { return decoder.Fork(from, tokens); });
          },
          nb::arg("sequence"), nb::arg("tokens"))
      .def(
          "truncate",
          [](DecoderHandle& self, SequenceId id, size_t tokens) {
            self.Locked([&](Decoder& decoder) { decoder.Truncate(id, tokens); });
          },
          nb::arg("sequence"), nb::arg("tokens"))
      .def(
          "free",
          [](DecoderHandle& self, SequenceId id) {
            self.Locked([&](Decoder& decoder) { decoder.Free(id); });
          },
          nb::arg("sequence"))
      .def(
          "tokens",
          [](DecoderHandle& self, SequenceId id, size_t layer) {
            return self.Locked([&](Decoder& decoder) { return decoder.Tokens(id, layer); });
          },
          nb::arg("sequence"), nb::arg("layer"))
      .def("append", &DecoderHandle::Append, nb::arg("sequence"), nb::arg("layer"), nb::arg("keys"),
           nb::arg("values"))
      .def(
          "attend",
          [](DecoderHandle& self, SequenceId id, size_t layer, const TokenArray& queries) {
            return ArrayOf(self.Attend(id, layer, queries),
                           {queries.shape(0), queries.shape(1), queries.shape(2)});
          },
          nb::arg("sequence"), nb::arg("layer"), nb::arg("queries"))
      .def("fit_predictor", &DecoderHandle::FitPredictor, nb::arg("sequence"), nb::arg("layer"),
           nb::arg("queries"))
      .def(
          "last_selection",
          [](DecoderHandle& self, SequenceId id, size_t layer, size_t kv_head) {
            return ArrayOf(self.Locked([&](Decoder& decoder) {
              const DecoderOptions& options = decoder.options();
              if (layer >= options.cache.layers || kv_head >= options.cache.kv_heads) {
                throw Error(ErrorCode::kInvalidArgument,
                            "layer " + std::to_string(layer) + ", KV head " +
                                std::to_string(kv_head) + " of " +
                                std::to_string(options.cache.layers) + " layers and " +
                                std::to_string(options.cache.kv_heads) + " KV heads");
              }
              return std::vector<uint32_t>(decoder.LastSelection(id, layer, kv_head));
            }));
          },
          nb::arg("sequence"), nb::arg("layer"), nb::arg("kv_head"))
      .def("counters", &CountersOf)
      .def("reset_counters", [](DecoderHandle& self) {
        self.Locked([](Decoder& decoder) { decoder.ResetCounters(); });
      });
}

}  // namespace offpath::python
