#include "offpath/graph/serve/session.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

namespace offpath::graph {
namespace {

// The longest message of a client: a plan or a frontier of 2^28 ids.
constexpr uint64_t kMaxRequestBytes = uint64_t{1} << 31;
constexpr auto kRefusalTimeout = std::chrono::seconds(1);

// Whether the channel itself failed, so that nothing more can be said on it.
bool EndsTheChannel(const Error& error) {
  return error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kTimeout;
}

}  // namespace

Session::Session(std::shared_ptr<const Store> store, const MemoryNodeOptions& options,
                 const StoreInfo& info, std::unique_ptr<wire::Channel> channel)
    : store_(std::move(store)), options_(options), info_(info), channel_(std::move(channel)) {}

Session::~Session() {
  Abort();
  for (std::thread& worker : workers_) worker.join();
}

void Session::Log(const std::string& line) const {
  if (options_.log) options_.log(line);
}

void Session::Run() noexcept {
  try {
    SendEncoded(*channel_, MessageType::kStoreInfo, 0, info_,
                Deadline::After(options_.send_timeout));
    for (size_t i = 0; i < options_.workers; ++i) workers_.emplace_back([this] { Work(); });
    ReadRequests();
  } catch (const std::exception& error) {
    Log(channel_->peer() + ": " + error.what());
  }
  Abort();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void Session::Refuse(const Error& reason) noexcept {
  try {
    SendEncoded(*channel_, MessageType::kError, 0, reason, Deadline::After(kRefusalTimeout));
  } catch (const std::exception& error) {
    Log(channel_->peer() + ": " + error.what());
  }
  Abort();
}

void Session::Drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  // With nothing left to answer, closing wakes the reader, which ends the session; otherwise the
  // worker that answers the last task does it.
  if (tasks_.empty() && working_ == 0) channel_->Close();
}

void Session::Abort() noexcept {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
  channel_->Close();
}

void Session::ReadRequests() {
  MessageReader reader(*channel_, kMaxRequestBytes);
  while (true) {
    const auto message = NextRequest(reader);
    ++requests_;
    try {
      if (message.type == MessageType::kOpenPlan) {
        OpenPlanOf(message);
        continue;
      }
      Task task = DecodeTask(message);
      const std::lock_guard lock(mutex_);
      if (draining_) {
        throw Error(ErrorCode::kUnavailable, "the memory node is shutting down");
      }
      if (tasks_.size() >= options_.max_requests) {
        throw Error(ErrorCode::kResourceExhausted,
                    "more than " + std::to_string(options_.max_requests) +
                        " requests are waiting: ask for fewer batches ahead");
      }
      if (id_bytes_ + task.id_bytes() > options_.max_id_bytes) {
        throw Error(ErrorCode::kResourceExhausted,
                    "requests that wait would hold more than " +
                        std::to_string(options_.max_id_bytes) +
                        " bytes of node ids: ask for fewer batches ahead, or smaller ones");
      }
      id_bytes_ += task.id_bytes();
      tasks_.push_back(std::move(task));
      changed_.notify_one();
    } catch (const Error& error) {
      SendError(message.stream, error);
      // Bytes that do not decode leave nothing to trust in what follows.
      if (error.code() == ErrorCode::kCorruptData) throw;
    } catch (const std::bad_alloc&) {
      SendError(message.stream, Error(ErrorCode::kResourceExhausted, "no memory for the request"));
    }
  }
}

// Bytes that arrive, and answers that are on their way, are no silence.
MessageReader::Message Session::NextRequest(MessageReader& reader) {
  const bool planned = !plans_.empty();
  while (true) {
    const uint64_t heard = channel_->stats().bytes_received;
    try {
      return reader.Next(Deadline::After(planned ? options_.idle_timeout : options_.plan_timeout));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kTimeout) throw;
    }
    {
      const std::lock_guard lock(mutex_);
      if (!tasks_.empty() || working_ != 0) continue;
    }
    if (channel_->stats().bytes_received != heard) continue;
    if (planned) {
      // It is told by the connection's end, after which it connects again when it needs to.
      throw Error(ErrorCode::kTimeout, "the client was silent for longer than one with a plan may");
    }
    const Error silent(ErrorCode::kTimeout,
                       "the client opened no plan, and was silent for longer than a client "
                       "without a plan may be: connect again");
    SendError(0, silent);
    throw Error(silent);
  }
}

void Session::OpenPlanOf(const MessageReader::Message& message) {
  if (plans_.size() >= options_.max_plans && plans_.count(message.stream) == 0) {
    throw Error(ErrorCode::kResourceExhausted,
                std::to_string(options_.max_plans) + " plans are open: close a stream first");
  }
  BatchPlan asked = DecodeBatchPlan(message.bytes);
  uint64_t id_bytes = sizeof(int64_t) * asked.nodes.size();
  for (const auto& [stream, open] : plans_) {
    if (stream != message.stream) id_bytes += sizeof(int64_t) * open->plan().nodes.size();
  }
  if (id_bytes > options_.max_id_bytes) {
    throw Error(ErrorCode::kResourceExhausted,
                "the client's plans would hold more than " + std::to_string(options_.max_id_bytes) +
                    " bytes of input nodes: name a split, or close a stream first");
  }
  auto plan = std::make_shared<const OpenPlan>(store_, std::move(asked), options_.features);
  const uint64_t seeds = std::min(plan->plan().batch_size, plan->order().count());
  if (seeds > options_.max_batch_bytes / kSampledBytesAnEdge) {
    throw Error(ErrorCode::kResourceExhausted,
                "a batch would have " + std::to_string(seeds) +
                    " seeds: " + BatchCapHint(options_.max_batch_bytes));
  }
  // Made once here so that a plan that does not fit the graph is refused before any batch.
  const NeighborSampler checked(SampleGraphOf(*store_), plan->plan().sample);
  PlanOpened opened;
  opened.seeds = plan->order().count();
  opened.batches = plan->order().batches();
  opened.features = plan->plan().features;
  plans_[message.stream] = std::move(plan);
  SendEncoded(*channel_, MessageType::kPlanOpened, message.stream, opened,
              Deadline::After(options_.send_timeout));
}

Task Session::DecodeTask(const MessageReader::Message& message) {
  Task task;
  task.type = message.type;
  task.stream = message.stream;
  const auto plan_of = [this](uint32_t stream) {
    const auto found = plans_.find(stream);
    if (found == plans_.end()) {
      throw Error(ErrorCode::kNotFound, "no plan is open on stream " + std::to_string(stream));
    }
    return found->second;
  };
  switch (message.type) {
    case MessageType::kBatchRequest:
      task.batch = DecodeBatchRequest(message.bytes);
      task.plan = plan_of(task.batch.plan);
      break;
    case MessageType::kHopRequest:
      task.hop = DecodeHopRequest(message.bytes);
      task.plan = plan_of(task.hop.plan);
      break;
    case MessageType::kAdjacencyRequest:
      task.adjacency = DecodeAdjacencyRequest(message.bytes);
      break;
    case MessageType::kRowsRequest:
      task.rows = DecodeRowsRequest(message.bytes);
      break;
    case MessageType::kSplitRequest:
      task.split = DecodeSplitRequest(message.bytes);
      break;
    default:
      throw Error(
          ErrorCode::kCorruptData,
          "message type " + std::to_string(static_cast<int>(message.type)) + " is not a request");
  }
  return task;
}

void Session::Work() noexcept {
  RequestHandler handler(store_, *channel_, options_.send_timeout, options_.max_batch_bytes);
  while (true) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
      if (closed_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      id_bytes_ -= task.id_bytes();
      ++working_;
    }
    try {
      try {
        handler.Answer(task);
        batches_ += task.type == MessageType::kBatchRequest;
      } catch (const Error& error) {
        if (EndsTheChannel(error)) throw;
        Log(channel_->peer() + ": " + error.what());
        SendError(task.stream, error);
      } catch (const std::bad_alloc&) {
        SendError(task.stream, Error(ErrorCode::kResourceExhausted,
                                     "no memory for the batch: use smaller batches or fan-outs"));
      }
    } catch (const std::exception& error) {
      Log(channel_->peer() + ": " + error.what());
      Abort();
    }
    const std::lock_guard lock(mutex_);
    --working_;
    if (draining_ && tasks_.empty() && working_ == 0) channel_->Close();
  }
}

void Session::SendError(uint32_t stream, const Error& error) {
  SendEncoded(*channel_, MessageType::kError, stream, error,
              Deadline::After(options_.send_timeout));
}

}  // namespace offpath::graph
