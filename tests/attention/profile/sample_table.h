// A budget table that is right, for tests to change.
#pragma once

#include "offpath/attention/profile/budget_table.h"

namespace offpath::attention {

inline BudgetTable SampleTable() {
  return {.machine = {.cpu = "AMD EPYC", .cores = 2, .target = "AVX2"},
          .shape = {.layers = 30,
                    .query_heads = 9,
                    .kv_heads = 3,
                    .kv = {.type = KvType::kF16, .head_dim = 64, .block_tokens = 16},
                    .selector = "quest",
                    .scan = Scan::kFlat,
                    .predictor = Predictor::kEma,
                    .budget_tokens = 512,
                    .threads = 2,
                    .tier = ProfiledTier::kMemory,
                    .hot_blocks = 0},
          .rows = {{.tokens = 4096,
                    .selection_ns = 9000,
                    .window_ns = 3000,
                    .overhead_ns = 100,
                    .saving_ns = 5000,
                    .times = {{2, 1000}, {4, 2500}}},
                   {.tokens = 16384,
                    .selection_ns = 30000,
                    .window_ns = 20000,
                    .overhead_ns = 500,
                    .saving_ns = 5000,
                    .times = {{2, 900}, {4, 2000}, {32, 15000}}}}};
}

}  // namespace offpath::attention
