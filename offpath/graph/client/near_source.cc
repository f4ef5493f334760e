// Near batches: one connection, one thread that asks ahead and receives.
#include <algorithm>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include "offpath/graph/client/batch_receiver.h"
#include "offpath/graph/client/batch_source.h"
#include "offpath/graph/client/retry_patience.h"

namespace offpath::graph {
namespace {

// How long the thread waits or listens before it looks at the queue again.
constexpr auto kPoll = std::chrono::milliseconds(50);

class NearSource final : public BatchSource {
 public:
  NearSource(StreamSetup& setup, std::unique_ptr<NodeClient> first)
      : setup_(setup),
        asked_of_each_(WholeBatch(setup.plan, setup.info)),
        client_(std::move(first)),
        thread_([this] { Run(); }) {}

  ~NearSource() override {
    setup_.Stop();
    thread_.join();
  }

 private:
  struct Asked {
    ReorderQueue::Ticket ticket;
    std::unique_ptr<BatchReceiver> receiver;
    bool begun = false;
  };

  void Run() noexcept {
    RetryPatience patience(setup_.options);
    while (!setup_.queue.closed()) {
      if (setup_.queue.failed()) {
        patience.Restart();
        setup_.queue.WaitForClose(kPoll);
        continue;
      }
      try {
        if (client_ == nullptr) {
          client_ = setup_.Connect(patience.AttemptDeadline());
          ++setup_.reconnects;
        }
        const Progress progress = AskAndReceive();
        if (progress == Progress::kBatch) patience.Restart();
        if (progress == Progress::kPart) patience.Heard();
      } catch (const Error& error) {
        Disconnect();
        patience.NoteFailure(error, setup_.queue);
        setup_.queue.WaitForClose(patience.NextPause());
      } catch (...) {
        Disconnect();
        setup_.queue.Fail(std::current_exception());
      }
    }
    client_.reset();
  }

  void Disconnect() {
    for (auto& [stream, asked] : asked_) setup_.queue.Return(asked.ticket);
    asked_.clear();
    idle_.clear();
    client_.reset();
  }

  enum class Progress : uint8_t { kNone, kPart, kBatch };

  // Asks for what the window allows, then takes one message. kBatch also where there is nothing to
  // ask.
  Progress AskAndReceive() {
    while (const auto ticket = asked_.empty() ? setup_.queue.Take(kPoll) : setup_.queue.TryTake()) {
      const uint32_t stream = next_stream_++;
      if (next_stream_ == 0) next_stream_ = kFirstRequestStream;
      Asked& asked = asked_[stream];
      asked.ticket = *ticket;
      client_->Send(MessageType::kBatchRequest, stream, BatchRequest{kPlanStream, ticket->number},
                    Deadline::After(setup_.options.batch_timeout));
      silent_since_ = Deadline::Clock::now();
    }
    if (asked_.empty()) {
      silent_since_ = Deadline::Clock::now();
      return Progress::kBatch;
    }
    MessageReader::Message message;
    try {
      message = client_->Next(Deadline::After(kPoll));
    } catch (const Error& error) {
      const auto silence = Deadline::Clock::now() - silent_since_;
      if (error.code() != ErrorCode::kTimeout) throw;
      if (silence < setup_.options.batch_timeout) return Progress::kNone;
      throw Error(ErrorCode::kTimeout,
                  client_->name() + " sent nothing while batch " +
                      std::to_string(asked_.begin()->second.ticket.number.batch) +
                      " was waited for");
    }
    silent_since_ = Deadline::Clock::now();
    return Receive(message);
  }

  Progress Receive(const MessageReader::Message& message) {
    const auto found = asked_.find(message.stream);
    if (found == asked_.end()) {
      throw Error(ErrorCode::kCorruptData, client_->name() + " answered stream " +
                                               std::to_string(message.stream) +
                                               ", which was not asked");
    }
    Asked& asked = found->second;
    if ((message.type == MessageType::kBatchBegin) == asked.begun) {
      throw Error(ErrorCode::kCorruptData, client_->name() + " began a batch twice, or never");
    }
    switch (message.type) {
      case MessageType::kBatchBegin:
        Begin(asked, DecodeBatchBegin(message.bytes));
        break;
      case MessageType::kStructure:
        asked.receiver->TakeStructure(message.bytes);
        break;
      case MessageType::kRows:
        asked.receiver->TakeRows(message.bytes);
        break;
      case MessageType::kBatchEnd: {
        std::shared_ptr<Batch> batch = asked.receiver->End(DecodeBatchEnd(message.bytes));
        setup_.bytes_received += batch->costs.bytes_received;
        ++setup_.batches;
        setup_.queue.Put(asked.ticket, std::move(batch));
        idle_.push_back(std::move(asked.receiver));
        asked_.erase(found);
        return Progress::kBatch;
      }
      default:
        throw Error(ErrorCode::kCorruptData, client_->name() + " sent message type " +
                                                 std::to_string(static_cast<int>(message.type)) +
                                                 " within a batch");
    }
    return Progress::kPart;
  }

  void Begin(Asked& asked, const BatchBegin& begin) {
    if (begin.number.epoch != asked.ticket.number.epoch ||
        begin.number.batch != asked.ticket.number.batch) {
      throw Error(ErrorCode::kCorruptData, client_->name() + " sent another batch than asked");
    }
    const uint64_t before = begin.number.batch * setup_.plan.batch_size;
    if (begin.seeds != std::min(setup_.plan.batch_size, setup_.opened.seeds - before)) {
      throw Error(ErrorCode::kCorruptData, client_->name() + " sent a batch of " +
                                               std::to_string(begin.seeds) +
                                               " seeds, which the plan does not have");
    }
    if (idle_.empty()) {
      idle_.push_back(std::make_unique<BatchReceiver>(setup_.info, setup_.opened.features));
    }
    asked.receiver = std::move(idle_.back());
    idle_.pop_back();
    std::shared_ptr<Batch> batch = setup_.pool.Acquire();
    batch->seed_type = setup_.plan.seed_type;
    asked.receiver->Begin(begin, asked_of_each_, std::move(batch));
    asked.begun = true;
  }

  StreamSetup& setup_;
  const AskedBatch asked_of_each_;
  std::unique_ptr<NodeClient> client_;
  std::map<uint32_t, Asked> asked_;                   // by stream
  std::vector<std::unique_ptr<BatchReceiver>> idle_;  // kept for their scratch memory
  uint32_t next_stream_ = kFirstRequestStream;
  Deadline::Clock::time_point silent_since_ = Deadline::Clock::now();
  std::thread thread_;  // last: it uses the rest
};

}  // namespace

std::unique_ptr<BatchSource> MakeNearSource(StreamSetup& setup, std::unique_ptr<NodeClient> first) {
  return std::make_unique<NearSource>(setup, std::move(first));
}

}  // namespace offpath::graph
