// Policies in a model: what must be equal is, and all of them run.
#include "tests/adapters/llama/session_fixture.h"

namespace offpath::llama {
namespace {

using attention::Policy;
using attention::PolicyOptions;

constexpr size_t kBeginning = 400, kSteps = 12;

std::vector<std::vector<float>> TextLogits(const Model& model, const PolicyOptions& policy,
                                           const attention::TierOptions& tier = {}) {
  const auto session = MakeSession(
      model, {.threads = 1, .context = 512, .chunk = 200, .policy = policy, .tier = tier});
  return LogitsOfText(*session, RandomTokens(50, kBeginning + kSteps), kBeginning);
}

TEST(SessionPolicies, PrrEqualsSerial) {
  const WrittenModel model;
  for (const char* selector : {"quest", "mean-std", "arkvale", "shadowkv", "oracle"}) {
    PolicyOptions policy = {
        .policy = Policy::kSerial, .selector = selector, .dense_layers = 1, .budget_tokens = 96};
    const auto serial = TextLogits(*model, policy);
    policy.policy = Policy::kPrr;
    for (const auto predictor : {attention::Predictor::kPrevious, attention::Predictor::kEma,
                                 attention::Predictor::kRegression}) {
      policy.predictor = predictor;
      policy.speculated_blocks = 8;
      const auto prr = TextLogits(*model, policy);
      for (size_t i = 0; i < serial.size(); ++i) {
        EXPECT_LT(Difference(serial[i], prr[i]), 1e-3) << selector << ", step " << i;
      }
    }
  }
}

TEST(SessionPolicies, ABudgetOfAllIsDense) {
  const WrittenModel model;
  const auto dense = TextLogits(*model, {});
  for (Policy policy : {Policy::kSerial, Policy::kReuse, Policy::kPrr}) {
    EXPECT_EQ(TextLogits(*model, {.policy = policy, .budget_tokens = 512}), dense)
        << attention::PolicyName(policy);
  }
}

// With the highest weights a sparse step is close, with others it is not: so the selection reaches
// the model's attention.
TEST(SessionPolicies, AreSparse) {
  const WrittenModel model;
  const auto dense = TextLogits(*model, {});
  const auto of = [&](const char* selector) {
    return TextLogits(
        *model,
        {.policy = Policy::kSerial, .selector = selector, .dense_layers = 0, .budget_tokens = 192});
  };
  const auto oracle = of("oracle"), streaming = of("streaming");
  double oracle_error = 0, streaming_error = 0;
  for (size_t i = 1; i < dense.size(); ++i) {
    oracle_error += Difference(dense[i], oracle[i]);
    streaming_error += Difference(dense[i], streaming[i]);
  }
  EXPECT_GT(oracle_error, 0);
  EXPECT_LT(oracle_error, 0.7 * streaming_error);
}

TEST(SessionPolicies, AreTheSameFromATier) {
  const WrittenModel model;
  const TempFolder folder;
  for (Policy policy : {Policy::kSerial, Policy::kReuse, Policy::kPrr}) {
    const PolicyOptions options = {.policy = policy, .budget_tokens = 96, .speculated_blocks = 8};
    attention::TierOptions tier;
    tier.folder = folder.path().string();
    tier.hot_blocks = 6;
    EXPECT_EQ(TextLogits(*model, options, tier), TextLogits(*model, options))
        << attention::PolicyName(policy);
  }
}

}  // namespace
}  // namespace offpath::llama
