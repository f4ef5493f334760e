#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "offpath/attention/decode/decoder.h"
#include "offpath/attention/decode/team_threads.h"
#include "offpath/base/error.h"
#include "tests/attention/decode/model_run.h"

namespace offpath::attention {
namespace {

constexpr size_t kRow = kKvHeads * kGroup * kDim;

// A decoder with a prompt of 320 tokens in every layer, and a query like the prompt's last.
struct Prompted {
  explicit Prompted(const PolicyOptions& policy)
      : decoder(OptionsOf({KvType::kF32, policy})), id(decoder.Create()) {
    Model model(3);
    for (size_t layer = 0; layer < kLayers; ++layer) AppendTokens(decoder, id, layer, model, 320);
    std::vector<float> query = model.Row(kKvHeads * kGroup);
    for (size_t t = 0; t < 24; ++t) {
      const std::vector<float> turn = model.Row(kKvHeads * kGroup);
      for (size_t i = 0; i < kRow; ++i) query[i] = 0.95F * query[i] + 0.3F * turn[i];
      queries.insert(queries.end(), query.begin(), query.end());
    }
  }

  QueryRows Queries(size_t tokens) const {
    return {.rows = queries.data(), .token_stride = kRow, .head_stride = kDim, .tokens = tokens};
  }
  void Fit(size_t workers) {
    TeamThreads team(workers);
    for (size_t layer = 0; layer < kLayers; ++layer) {
      team.Run([&](const Worker& worker) { decoder.FitPredictor(id, layer, Queries(24), worker); });
    }
  }
  // The outputs of a decode step.
  std::vector<float> Step() {
    Model model(4);
    std::vector<float> out(kLayers * kRow);
    for (size_t layer = 0; layer < kLayers; ++layer) {
      AppendTokens(decoder, id, layer, model, 1);
      decoder.Attend(
          id, layer,
          {.rows = queries.data() + 23 * kRow, .token_stride = kRow, .head_stride = kDim},
          {out.data() + layer * kRow, kRow, kDim}, {});
    }
    return out;
  }

  Decoder decoder;
  SequenceId id;
  std::vector<float> queries;
};

PolicyOptions PrrWith(Predictor predictor) {
  PolicyOptions policy = PolicyOf(Policy::kPrr, "oracle", 9);
  policy.predictor = predictor;
  return policy;
}

TEST(FitPredictor, TheFirstStepAfterAFitIsPredictedAndItsResultIsTheSame) {
  for (const Predictor predictor : {Predictor::kEma, Predictor::kRegression}) {
    Prompted fitted(PrrWith(predictor));
    fitted.Fit(1);
    Prompted unfitted(PrrWith(predictor));
    const std::vector<float> a = fitted.Step();
    const std::vector<float> b = unfitted.Step();
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-6);
    EXPECT_EQ(unfitted.decoder.counters().predicted_blocks, 0U);
    const DecodeCounters counters = fitted.decoder.counters();
    EXPECT_GT(counters.covered_blocks * 10, counters.selected_blocks * 7)
        << PredictorName(predictor);
  }
}

TEST(FitPredictor, IsTheSameForAnyNumberOfWorkers) {
  Prompted one(PrrWith(Predictor::kEma));
  one.Fit(1);
  const std::vector<float> expected = one.Step();
  for (const size_t workers : {size_t{2}, size_t{3}, size_t{5}}) {
    Prompted many(PrrWith(Predictor::kEma));
    many.Fit(workers);
    EXPECT_EQ(many.Step(), expected);
    EXPECT_EQ(many.decoder.counters().covered_blocks, one.decoder.counters().covered_blocks);
  }
}

TEST(FitPredictor, DoesNothingForPoliciesThatDoNotPredict) {
  for (const Policy policy : {Policy::kDense, Policy::kSerial, Policy::kReuse}) {
    Prompted fitted(PolicyOf(policy, "oracle"));
    fitted.Fit(2);
    Prompted unfitted(PolicyOf(policy, "oracle"));
    EXPECT_EQ(fitted.Step(), unfitted.Step());
  }
}

TEST(FitPredictor, QueriesThatAreTooFewTooManyOrNotFiniteAreRefused) {
  Prompted prompted(PrrWith(Predictor::kEma));
  EXPECT_THROW(prompted.decoder.FitPredictor(prompted.id, 2, prompted.Queries(1), {}), Error);
  const SequenceId empty = prompted.decoder.Create();
  EXPECT_THROW(prompted.decoder.FitPredictor(empty, 2, prompted.Queries(2), {}), Error);
  prompted.queries[kRow + 1] = NAN;
  EXPECT_THROW(prompted.decoder.FitPredictor(prompted.id, 2, prompted.Queries(4), {}), Error);
}

}  // namespace
}  // namespace offpath::attention
