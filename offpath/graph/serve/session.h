// One client of a memory node: reads its requests, answers them on worker threads.
//
// Run() or Refuse() belongs to one thread and returns when the conversation is over. Drain() and
// Abort() may be called from any thread. The destructor waits for the channel's close timeout where
// the client does not take what was queued for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "offpath/graph/protocol/message_stream.h"
#include "offpath/graph/serve/memory_node.h"
#include "offpath/graph/serve/request_handler.h"

namespace offpath::graph {

class Session {
 public:
  // `info` is what the client is told of the store.
  Session(std::shared_ptr<const Store> store, const MemoryNodeOptions& options,
          const StoreInfo& info, std::unique_ptr<wire::Channel> channel);
  ~Session();

  void Run() noexcept;
  // In place of Run(): tells the client why it is not served, in a second or not at all.
  void Refuse(const Error& reason) noexcept;
  // Refuses what is asked from now on, and ends when what was asked before is answered.
  void Drain();
  // Ends at once.
  void Abort() noexcept;

  const std::string& peer() const noexcept { return channel_->peer(); }
  uint64_t batches() const noexcept { return batches_.load(); }
  uint64_t requests() const noexcept { return requests_.load(); }
  wire::ChannelStats channel_stats() const noexcept { return channel_->stats(); }

 private:
  void ReadRequests();
  MessageReader::Message NextRequest(MessageReader& reader);
  void OpenPlanOf(const MessageReader::Message& message);
  Task DecodeTask(const MessageReader::Message& message);
  void Work() noexcept;
  void SendError(uint32_t stream, const Error& error);
  void Log(const std::string& line) const;

  std::shared_ptr<const Store> store_;
  const MemoryNodeOptions options_;
  StoreInfo info_;
  std::unique_ptr<wire::Channel> channel_;
  std::atomic<uint64_t> batches_{0}, requests_{0};

  std::map<uint32_t, std::shared_ptr<const OpenPlan>> plans_;  // by stream; the reader's alone

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  uint64_t id_bytes_ = 0;  // of tasks_
  size_t working_ = 0;     // tasks being answered
  bool draining_ = false;  // refuse new tasks
  bool closed_ = false;    // workers end
  std::vector<std::thread> workers_;
};

}  // namespace offpath::graph
