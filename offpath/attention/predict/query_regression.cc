#include "offpath/attention/predict/query_regression.h"

#include <algorithm>
#include <cmath>

namespace offpath::attention {
namespace {

constexpr double kDamping = 1e-3;
constexpr size_t kBlocksAtOnce = 512;  // sums that stay in the first-level cache

double Dot(std::span<const float> a, std::span<const float> b) noexcept {
  // Four sums, so that one addition does not wait for the last.
  double sums[4] = {};
  const size_t count = std::min(a.size(), b.size());
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (size_t j = 0; j < 4; ++j) sums[j] += double{a[i + j]} * double{b[i + j]};
  }
  for (; i < count; ++i) sums[0] += double{a[i]} * double{b[i]};
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Solves (a + damping) x = b in place of b. a [n, n], symmetric and positive semidefinite, becomes
// its Cholesky factor.
void SolveDamped(std::span<double> a, size_t n, std::span<double> b) noexcept {
  double trace = 0;
  for (size_t i = 0; i < n; ++i) trace += a[i * n + i];
  // Queries that are all zero say nothing; the tiny rest keeps the pivots positive.
  const double damping = kDamping * trace / static_cast<double>(n) + 1e-30;
  for (size_t i = 0; i < n; ++i) a[i * n + i] += damping;
  for (size_t j = 0; j < n; ++j) {
    double pivot = a[j * n + j];
    for (size_t k = 0; k < j; ++k) pivot -= a[j * n + k] * a[j * n + k];
    pivot = std::sqrt(std::max(pivot, damping));
    a[j * n + j] = pivot;
    for (size_t i = j + 1; i < n; ++i) {
      double sum = a[i * n + j];
      for (size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = sum / pivot;
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
}

}  // namespace

void QueryRegression::Truncate(size_t blocks) {
  if (blocks >= blocks_) return;
  blocks_ = blocks;
  for (Step& step : history_) step.scores.resize(blocks);
}

void QueryRegression::Observe(std::span<const float> query, std::span<const float> scores) {
  const bool finite = std::ranges::all_of(query, [](float x) { return std::isfinite(x); });
  float lowest = INFINITY;
  for (const float score : scores) lowest = score < lowest ? score : lowest;
  if (!finite || lowest == INFINITY) return;

  Truncate(scores.size());
  const auto seen = [&](size_t block) {
    return std::isnan(scores[block]) ? lowest : scores[block];
  };
  for (Step& step : history_) {
    step.scores.resize(scores.size());
    for (size_t b = blocks_; b < scores.size(); ++b) step.scores[b] = seen(b);
  }
  blocks_ = scores.size();

  const size_t at = history_.size() < steps_ ? history_.size() : next_;
  if (at == history_.size()) {
    history_.emplace_back();
    gram_.resize(steps_ * steps_);
  }
  next_ = (at + 1) % steps_;
  Step& step = history_[at];
  step.query.assign(query.begin(), query.end());
  step.scores.resize(blocks_);
  for (size_t b = 0; b < blocks_; ++b) step.scores[b] = seen(b);
  for (size_t i = 0; i < history_.size(); ++i) {
    const double product = Dot(history_[i].query, step.query);
    gram_[i * steps_ + at] = product;
    gram_[at * steps_ + i] = product;
  }
}

void QueryRegression::Predict(std::span<const float> query, std::vector<float>& out) const {
  const size_t n = history_.size();
  out.assign(n == 0 ? 0 : blocks_, 0);
  if (n == 0) return;
  factor_.resize(n * n);
  solution_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    std::copy_n(gram_.begin() + static_cast<ptrdiff_t>(i * steps_), n,
                factor_.begin() + static_cast<ptrdiff_t>(i * n));
    solution_[i] = Dot(history_[i].query, query);
  }
  SolveDamped(factor_, n, solution_);
  for (size_t first = 0; first < blocks_; first += kBlocksAtOnce) {
    const size_t count = std::min(kBlocksAtOnce, blocks_ - first);
    float* sums = out.data() + first;
    for (size_t i = 0; i < n; ++i) {
      const auto weight = static_cast<float>(solution_[i]);
      const float* scores = history_[i].scores.data() + first;
      for (size_t b = 0; b < count; ++b) sums[b] += weight * scores[b];
    }
  }
}

}  // namespace offpath::attention
