// What llama.cpp logs, for the messages of our errors instead of the terminal.
//
// llama.cpp has one log for the process. The first LlamaLog takes it over for good: nothing of it
// is printed any more. While a LlamaLog lives, the errors and warnings that its thread causes are
// kept.
//
// Not thread-safe: an object belongs to the thread that made it; any number of threads may each
// have one.
#pragma once

#include <string>

namespace offpath::llama {

class LlamaLog {
 public:
  LlamaLog();
  ~LlamaLog();
  LlamaLog(const LlamaLog&) = delete;
  LlamaLog& operator=(const LlamaLog&) = delete;

  // The last lines, without line ends: at most kMaxBytes. "no reason given" where there is none.
  std::string Errors() const;

 private:
  static constexpr size_t kMaxBytes = 1000;

  void Add(const char* text);

  LlamaLog* outer_;
  std::string lines_;

  friend void KeepLog(int level, const char* text) noexcept;
};

}  // namespace offpath::llama
