#include "adapters/llama/context.h"

#include <ggml-cpu.h>
#include <llama.h>

#include <algorithm>
#include <string>

#include "adapters/llama/llama_log.h"
#include "offpath/base/error.h"

namespace offpath::llama {
namespace {

// What llama_decode() returns beside 0 and errors below it.
constexpr int kNoRoom = 1;
constexpr int kAborted = 2;

ggml_type TypeOf(ContextOptions::CacheType type) noexcept {
  switch (type) {
    case ContextOptions::CacheType::kF16:
      return GGML_TYPE_F16;
    case ContextOptions::CacheType::kF32:
      return GGML_TYPE_F32;
    case ContextOptions::CacheType::kQ8:
      return GGML_TYPE_Q8_0;
  }
  return GGML_TYPE_F16;
}

llama_context_params ParametersOf(const ContextOptions& options) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(options.cells);
  params.n_batch = params.n_ubatch = static_cast<uint32_t>(options.batch_tokens);
  params.n_seq_max = static_cast<uint32_t>(options.sequences);
  // Logits are kept for so many tokens, and not for a whole batch.
  params.n_outputs_max = params.n_seq_max;
  params.n_threads = params.n_threads_batch = static_cast<int32_t>(options.threads);
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  params.type_k = params.type_v = TypeOf(options.cache_type);
  params.offload_kqv = false;
  params.op_offload = false;
  // One graph for all sequences of a batch, in the batch's order.
  params.kv_unified = true;
  params.cb_eval = options.on_node;
  params.cb_eval_user_data = options.on_node_data;
  params.abort_callback = options.aborts;
  params.abort_callback_data = options.aborts_data;
  return params;
}

llama_seq_id IdOf(size_t sequence) noexcept { return static_cast<llama_seq_id>(sequence); }
llama_pos PositionOf(size_t token) noexcept { return static_cast<llama_pos>(token); }

}  // namespace

void Context::Free::operator()(llama_context* context) const noexcept { llama_free(context); }
void Context::Free::operator()(ggml_threadpool* pool) const noexcept { ggml_threadpool_free(pool); }

struct Context::Batch {
  llama_batch batch;
  size_t capacity;

  explicit Batch(size_t tokens)
      : batch(llama_batch_init(static_cast<int32_t>(tokens), 0, 1)), capacity(tokens) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() { llama_batch_free(batch); }
};

Context::Context(const Model& model, const ContextOptions& options)
    : vocabulary_(model.shape().vocabulary), batch_(std::make_unique<Batch>(options.batch_tokens)) {
  const LlamaLog log;
  ggml_threadpool_params pool = ggml_threadpool_params_default(static_cast<int>(options.threads));
  // Its threads would spin for a tenth of a second after a batch, on cores that others may want by
  // then: two contexts in turn, two threads each on two cores, took 30 ms a token for 12.
  pool.poll = 0;
  pool_.reset(ggml_threadpool_new(&pool));
  context_.reset(llama_init_from_model(model.handle(), ParametersOf(options)));
  if (pool_ == nullptr || context_ == nullptr) {
    throw Error(ErrorCode::kResourceExhausted,
                "llama.cpp cannot make a context of " + std::to_string(options.cells) +
                    " tokens for the model " + model.path() + ": " + log.Errors());
  }
  llama_attach_threadpool(context_.get(), pool_.get(), pool_.get());
}

Context::~Context() = default;

Context::Outcome Context::Run(std::span<const BatchToken> tokens) {
  llama_batch& batch = batch_->batch;
  if (tokens.empty() || tokens.size() > batch_->capacity) {
    throw Error(ErrorCode::kInvalidArgument, "a batch of " + std::to_string(tokens.size()) +
                                                 " tokens: this context takes 1 to " +
                                                 std::to_string(batch_->capacity));
  }
  batch.n_tokens = static_cast<int32_t>(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch.token[i] = tokens[i].token;
    batch.pos[i] = PositionOf(tokens[i].position);
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = IdOf(tokens[i].sequence);
    batch.logits[i] = tokens[i].logits ? 1 : 0;
  }
  const LlamaLog log;
  const int status = llama_decode(context_.get(), batch);
  if (status == 0) return Outcome::kDone;
  if (status == kAborted) return Outcome::kAborted;
  if (status == kNoRoom) {
    throw Error(ErrorCode::kResourceExhausted, "llama.cpp's own cache has no room for a batch of " +
                                                   std::to_string(tokens.size()) +
                                                   " tokens: give it more context");
  }
  throw Error(ErrorCode::kInternal, "llama.cpp did not decode a batch of " +
                                        std::to_string(tokens.size()) + " tokens: " + log.Errors());
}

std::span<const float> Context::Logits(size_t i) const {
  const float* logits = llama_get_logits_ith(context_.get(), static_cast<int32_t>(i));
  if (logits == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "no logits were asked for of token " + std::to_string(i) + " of the batch");
  }
  return {logits, vocabulary_};
}

void Context::ForgetAll() { llama_memory_seq_rm(llama_get_memory(context_.get()), -1, 0, -1); }

void Context::Forget(size_t sequence, size_t from_token) {
  llama_memory_seq_rm(llama_get_memory(context_.get()), IdOf(sequence), PositionOf(from_token), -1);
}

void Context::Copy(size_t from, size_t to, size_t tokens) {
  Forget(to, 0);
  llama_memory_seq_cp(llama_get_memory(context_.get()), IdOf(from), IdOf(to), 0,
                      PositionOf(tokens));
}

}  // namespace offpath::llama
