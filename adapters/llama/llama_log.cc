#include "adapters/llama/llama_log.h"

#include <ggml.h>
#include <llama.h>

#include <exception>
#include <mutex>

namespace offpath::llama {
namespace {

thread_local LlamaLog* innermost = nullptr;
// A line may come in pieces, which go with its first.
thread_local bool keeps_line = false;

}  // namespace

void KeepLog(int level, const char* text) noexcept {
  if (level != GGML_LOG_LEVEL_CONT) {
    keeps_line = level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN;
  }
  if (!keeps_line || innermost == nullptr) return;
  try {
    innermost->Add(text);
  } catch (const std::exception&) {
    // No memory for a line: the message goes without it.
  }
}

LlamaLog::LlamaLog() : outer_(innermost) {
  static std::once_flag taken;
  std::call_once(taken, [] {
    llama_log_set([](ggml_log_level level, const char* text, void*) { KeepLog(level, text); },
                  nullptr);
  });
  innermost = this;
}

LlamaLog::~LlamaLog() { innermost = outer_; }

void LlamaLog::Add(const char* text) {
  for (const char* c = text; *c != '\0'; ++c) lines_ += *c == '\n' ? ' ' : *c;
  if (lines_.size() > kMaxBytes) lines_.erase(0, lines_.size() - kMaxBytes);
}

std::string LlamaLog::Errors() const {
  const size_t end = lines_.find_last_not_of(' ');
  return end == std::string::npos ? "no reason given" : lines_.substr(0, end + 1);
}

}  // namespace offpath::llama
