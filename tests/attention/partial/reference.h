// Attention by its definition, in f64: what the kernels are held against.
#pragma once

#include <cstddef>
#include <vector>

#include "offpath/attention/kv/kv_shape.h"

namespace offpath::attention {

// Of one query head to tokens in any order.
struct ReferenceInput {
  std::vector<double> query;                // [head_dim]
  std::vector<std::vector<double>> keys;    // [tokens][head_dim]
  std::vector<std::vector<double>> values;  // [tokens][head_dim]
  double scale = 1;
  double soft_cap = 0;  // 0: none
};

struct ReferenceState {
  std::vector<double> output;  // not divided by the sum
  double max = 0;
  double sum = 0;
};

double ReferenceScore(const ReferenceInput& in, size_t token);
// No tokens, and tokens that all score -infinity, give max = -infinity, sum = 0 and zeros.
ReferenceState ReferenceAttend(const ReferenceInput& in);

// What partial_attention.h allows a head's scores and outputs beyond the rounding of f32, on this
// processor.
struct Allowance {
  double score = 0;
  double output = 0;
};
Allowance AllowanceOf(KvType type, const ReferenceInput& in);

}  // namespace offpath::attention
