// attention-llama: the time of a whole token of a model at 8K of context, and the perplexity, under
// sparse policies beside llama.cpp's own dense flash attention.
//
// Time: both sides hold the same context and take a step in turn, each the next token of the text;
// what the steps added is taken back now and then, so that the context stays where it is.
// Perplexity: of the tokens at positions 6144 to 8191 of windows of real text, the ones before
// added at once and densely, these one a step.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/llama/session.h"
#include "adapters/llama/text_loss.h"
#include "bench/attention/llama/text_windows.h"
#include "bench/base/quantile.h"
#include "bench/base/run.h"
#include "offpath/base/error.h"
#include "offpath/lane/cores.h"

namespace offpath::bench {
namespace {

using attention::Policy;
using attention::PolicyOptions;
using llama::Session;
using llama::SessionOptions;
using llama::Token;

constexpr size_t kWindow = 8192;
constexpr size_t kPrefix = 6144;
constexpr size_t kBestWindows = 8, kOtherWindows = 2;
constexpr size_t kSteps = 32;  // before the context is cut back

struct Options {
  bool json = false;
  bool all = false;
  bool perplexity = true;
  size_t pairs = 161;
  std::string model = OFFPATH_MODELS "/SmolLM2-135M-Instruct.Q4_1.gguf";
};

struct Setting {
  Policy policy = Policy::kSerial;
  std::string selector;
  size_t budget = 512;
  size_t windows = kOtherWindows;

  std::string name() const {
    return std::string(PolicyName(policy)) + " " + selector +
           (budget == 512 ? "" : " " + std::to_string(budget));
  }
};

std::vector<Setting> Settings(bool all) {
  std::vector<Setting> settings = {
      {.policy = Policy::kSerial, .selector = "i4-keys", .windows = kBestWindows},
      {.policy = Policy::kPrr, .selector = "i4-keys", .windows = kBestWindows},
      {.policy = Policy::kSerial, .selector = "quest", .windows = kBestWindows}};
  if (!all) return settings;
  for (const size_t budget : {256, 512, 1024, 2048}) {
    // infllm-v2 attends to all of a window: it selects from 8,192 tokens on.
    for (const char* selector : {"quest", "mean-std", "arkvale", "infllm", "shadowkv", "streaming",
                                 "double-sparsity", "i4-keys", "oracle"}) {
      const bool measured = std::any_of(settings.begin(), settings.end(), [&](const Setting& s) {
        return s.selector == selector && s.budget == budget;
      });
      if (measured) continue;
      settings.push_back({.policy = Policy::kSerial, .selector = selector, .budget = budget});
    }
  }
  settings.push_back({.policy = Policy::kReuse, .selector = "quest"});
  settings.push_back({.policy = Policy::kReuse, .selector = "i4-keys"});
  return settings;
}

SessionOptions OptionsOf(const Setting* setting, size_t threads) {
  SessionOptions options = {.threads = threads, .context = kWindow + kSteps};
  if (setting != nullptr) {
    options.policy = {
        .policy = setting->policy, .selector = setting->selector, .budget_tokens = setting->budget};
  }
  return options;
}

double Seconds(Session& session, Token token) {
  const uint64_t before = session.decode_ns();
  session.Decode(0, {&token, 1});
  return 1e-9 * static_cast<double>(session.decode_ns() - before);
}

struct Times {
  double ours = 0, peer = 0;  // seconds, of the pair with the median ratio
  double ratio = 0, spread = 0;
};

// `native` holds the window's tokens, and does again afterwards.
Times Measure(const llama::Model& model, const Setting& setting, size_t threads, Session& native,
              const std::vector<Token>& text, size_t pairs) {
  const auto ours = MakeSession(model, OptionsOf(&setting, threads));
  ours->Decode(0, text);
  std::vector<double> ratios;
  std::vector<std::pair<double, double>> times;
  for (size_t i = 0; times.size() < pairs; ++i) {
    if (i > 0 && i % kSteps == 0) {
      for (Session* session : {ours.get(), &native}) session->Truncate(0, kWindow);
    }
    const Token token = text[i % text.size()];
    const double our_time = Seconds(*ours, token), peer_time = Seconds(native, token);
    if (i < kSteps / 4) continue;  // warm
    times.emplace_back(our_time, peer_time);
    ratios.push_back(peer_time / our_time);
  }
  native.Truncate(0, kWindow);
  const double median = Quantile(ratios, 0.5);
  const auto at =
      static_cast<size_t>(std::find(ratios.begin(), ratios.end(), median) - ratios.begin());
  return {.ours = times[at].first,
          .peer = times[at].second,
          .ratio = median,
          .spread = (Quantile(ratios, 0.75) - Quantile(ratios, 0.25)) / median};
}

// Of the first `windows` windows; losses of native dense attention are kept.
class Perplexities {
 public:
  Perplexities(const llama::Model& model, std::vector<std::vector<Token>> windows)
      : model_(model), windows_(std::move(windows)) {}

  double OverDense(const Setting& setting) {
    const size_t windows = std::min(setting.windows, windows_.size());
    if (dense_.size() < windows) {
      for (const llama::TextLoss& loss : Losses(nullptr, dense_.size(), windows)) {
        dense_.push_back(loss);
      }
    }
    llama::TextLoss sparse, dense;
    for (const llama::TextLoss& loss : Losses(&setting, 0, windows)) sparse += loss;
    for (size_t i = 0; i < windows; ++i) dense += dense_[i];
    return sparse.perplexity() / dense.perplexity();
  }

 private:
  // Of windows [begin, end), by llama.cpp's own attention without a setting. A session a core, of
  // one thread each: two threads of one session would wait for each other at every layer.
  std::vector<llama::TextLoss> Losses(const Setting* setting, size_t begin, size_t end) const {
    std::vector<llama::TextLoss> losses(end - begin);
    std::atomic<size_t> next = begin;
    std::vector<std::future<void>> workers(std::min(AvailableCores().size(), end - begin));
    for (std::future<void>& worker : workers) {
      worker = std::async(std::launch::async, [&] {
        const SessionOptions options = OptionsOf(setting, 1);
        const auto session =
            setting != nullptr ? MakeSession(model_, options) : MakeNativeSession(model_, options);
        for (size_t i = next++; i < end; i = next++) {
          std::fprintf(stderr, "perplexity of %s, window %zu of %zu\n",
                       setting != nullptr ? setting->name().c_str() : "dense llama.cpp", i + 1,
                       end);
          losses[i - begin] = LossOfText(*session, windows_[i], kPrefix);
        }
      });
    }
    for (std::future<void>& worker : workers) worker.get();
    return losses;
  }

  const llama::Model& model_;
  std::vector<std::vector<Token>> windows_;
  std::vector<llama::TextLoss> dense_;
};

void Print(const Setting& setting, size_t threads, const Times& times, double perplexity,
           bool json) {
  const std::string name = "8K " + std::to_string(threads) + "t " + setting.name();
  if (!json) {
    std::printf("%-28s %7.2f ms  llama.cpp %7.2f ms  ratio %5.2f", name.c_str(), 1e3 * times.ours,
                1e3 * times.peer, times.ratio);
    if (perplexity > 0) std::printf("  perplexity over dense %.4f", perplexity);
    std::printf("\n");
  } else {
    std::printf(
        "{\"bench\": \"attention-llama\", \"case\": \"%s\", \"ours\": %.6g, \"peer\": %.6g, "
        "\"peer_name\": \"llama.cpp\", \"unit\": \"ms a token\", \"ratio\": %.4g, "
        "\"spread\": %.3g, \"budget\": %zu, \"threads\": %zu",
        name.c_str(), 1e3 * times.ours, 1e3 * times.peer, times.ratio, times.spread, setting.budget,
        threads);
    if (perplexity > 0) std::printf(", \"perplexity\": %.5g", perplexity);
    std::printf("}\n");
  }
  std::fflush(stdout);
}

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      options.json = true;
    } else if (argument == "--all") {
      options.all = true;
    } else if (argument == "--no-perplexity") {
      options.perplexity = false;
    } else if (argument == "--pairs" && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      options.pairs = static_cast<size_t>(std::atoi(argv[++i])) | 1;
    } else if (argument == "--model" && i + 1 < argc) {
      options.model = argv[++i];
    } else {
      return false;
    }
  }
  return true;
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: bench_attention_llama [--json] [--all] [--no-perplexity] [--pairs N] "
                 "[--model FILE]\n"
                 "--all: all selectors and budgets, not the best three alone\n");
    return 2;
  }
  const llama::Model model(options.model);
  auto windows = TextWindows(model, {OFFPATH_TEXTS "/bible.txt", OFFPATH_TEXTS "/anarchism.txt"},
                             kBestWindows, kWindow);
  const std::vector<Token> text = windows[0];
  Perplexities perplexities(model, std::move(windows));
  std::map<size_t, std::unique_ptr<Session>> natives;
  for (const size_t threads : {1, 2}) {
    std::fprintf(stderr, "%zu tokens by llama.cpp's own attention, %zu threads\n", kWindow,
                 threads);
    natives[threads] = MakeNativeSession(model, OptionsOf(nullptr, threads));
    natives[threads]->Decode(0, text);
  }
  for (const Setting& setting : Settings(options.all)) {
    std::vector<Times> times;
    for (const size_t threads : {1, 2}) {
      times.push_back(Measure(model, setting, threads, *natives[threads], text, options.pairs));
    }
    const double perplexity = options.perplexity ? perplexities.OverDense(setting) : 0;
    for (const size_t threads : {1, 2}) {
      Print(setting, threads, times[threads - 1], perplexity, options.json);
    }
  }
  return 0;
}

}  // namespace
}  // namespace offpath::bench

int main(int argc, char** argv) {
  return offpath::bench::RunMain("bench_attention_llama", offpath::bench::Main, argc, argv);
}
