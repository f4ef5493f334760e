// Several settings of a model's attention on one text, from one native prefill: what `offpath
// attention compare` measures.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "adapters/llama/model.h"
#include "offpath/base/progress.h"
#include "offpath/cli/attention_settings.h"
#include "offpath/cli/attention_steps.h"

namespace offpath::cli {

struct ComparePlan {
  std::vector<NamedSetting> settings;    // the first is llama.cpp's own attention
  std::span<const llama::Token> prompt;  // read once, by the first
  size_t tokens = 64;                    // that each setting writes
  // What the text goes on with: foretold by each setting that has no tier, whose selections are
  // those of the same setting in memory.
  std::span<const llama::Token> further;
};

struct SettingResult {
  StepTimes steps;
  std::vector<double> coverage;  // of the selection by the speculation, step by step; empty without
  std::vector<llama::Token> written;
  double perplexity = 0;  // 0: not measured
};

struct CompareResult {
  double prefill_s = 0;
  std::vector<SettingResult> settings;
};

// A step of every setting in turn, so that what else the machine does falls on all of them; then
// the further text by each, from copies of the same beginning. Throws as the sessions do.
CompareResult Compare(const llama::Model& model, const ComparePlan& plan, const Progress& progress);

}  // namespace offpath::cli
