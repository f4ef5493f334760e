#include "offpath/cli/attention_compare.h"

#include <algorithm>
#include <memory>

#include "adapters/llama/native_prefill.h"
#include "adapters/llama/sampler.h"
#include "adapters/llama/text_loss.h"

namespace offpath::cli {
namespace {

// Of a session: the text that all begin with, and a copy of it that goes on.
constexpr size_t kBeginning = 0, kCopy = 1;

std::vector<std::unique_ptr<llama::Session>> Open(const llama::Model& model,
                                                  const ComparePlan& plan) {
  std::vector<std::unique_ptr<llama::Session>> sessions;
  for (const NamedSetting& setting : plan.settings) {
    ModelOptions options =
        setting.options.policy == kNative ? NativeOf(setting.options) : setting.options;
    options.session.sequences = 2;
    if (options.session.context == 0) {
      options.session.context = plan.prompt.size() + std::max(plan.tokens, plan.further.size());
    }
    sessions.push_back(OpenSession(model, options));
  }
  return sessions;
}

// One more token of a setting, and what its step took.
void Step(llama::Session& session, llama::Sampler& sampler, std::span<const float> logits,
          SettingResult& result) {
  const llama::Token token = sampler.Choose(logits);
  result.written.push_back(token);
  attention::Decoder* const decoder = session.decoder();
  const attention::DecodeCounters before =
      decoder != nullptr ? decoder->counters() : attention::DecodeCounters{};
  const uint64_t begin = session.decode_ns();
  session.Decode(kCopy, {&token, 1});
  result.steps.seconds += Seconds(session.decode_ns() - begin);
  ++result.steps.steps;
  if (decoder == nullptr) return;
  const attention::DecodeCounters& after = decoder->counters();
  if (after.predicted_blocks == before.predicted_blocks) return;
  result.coverage.push_back(Share(after.covered_blocks - before.covered_blocks,
                                  after.selected_blocks - before.selected_blocks));
}

}  // namespace

CompareResult Compare(const llama::Model& model, const ComparePlan& plan,
                      const Progress& progress) {
  const std::vector<std::unique_ptr<llama::Session>> sessions = Open(model, plan);
  CompareResult all;
  all.settings.resize(sessions.size());
  std::vector<llama::TakingSequence> takers;
  for (const auto& session : std::span(sessions).subspan(1)) {
    takers.push_back({.session = session.get(), .sequence = kBeginning});
  }
  PrefillNatively(*sessions[0], kBeginning, takers, plan.prompt, progress);
  all.prefill_s = Seconds(sessions[0]->decode_ns());
  // All have these.
  const std::span<const float> logits = sessions[0]->Logits(kBeginning);
  const std::vector<float> first(logits.begin(), logits.end());

  for (const auto& session : sessions) {
    session->Copy(kBeginning, kCopy, plan.prompt.size());
    if (session->decoder() != nullptr) session->decoder()->ResetCounters();
  }
  llama::Sampler likeliest({});
  for (size_t i = 0; i < plan.tokens; ++i) {
    progress("writing on", i, plan.tokens);
    for (size_t s = 0; s < sessions.size(); ++s) {
      Step(*sessions[s], likeliest, i == 0 ? first : sessions[s]->Logits(kCopy), all.settings[s]);
    }
  }
  for (size_t s = 0; s < sessions.size(); ++s) {
    llama::Session& session = *sessions[s];
    if (session.decoder() != nullptr) {
      all.settings[s].steps.counters = session.decoder()->counters();
    }
    if (plan.further.empty() || session.options().tier.enabled()) continue;
    session.Copy(kBeginning, kCopy, plan.prompt.size());
    size_t done = s * plan.further.size();
    all.settings[s].perplexity =
        LossOfContinuation(session, kCopy, first, plan.further, [&] {
          progress("foretelling the text", ++done, sessions.size() * plan.further.size());
        }).perplexity();
  }
  return all;
}

}  // namespace offpath::cli
