// Attention by its definition, in f64: what the kernels are held against.
#pragma once

#include <cstddef>
#include <vector>

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

}  // namespace offpath::attention
