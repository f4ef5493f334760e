// What feeds a BatchStream's queue: threads that ask a memory node, in one of the modes.
//
// A source holds its connections, makes them again when they are lost, and gives the numbers of
// unfinished batches back to the queue, so that nothing is lost or changed. Its destructor ends its
// threads at once, whatever they wait for.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "offpath/graph/client/batch_stream.h"
#include "offpath/graph/client/node_client.h"
#include "offpath/graph/client/reorder_queue.h"

namespace offpath::graph {

// What all connections of a stream share.
struct StreamSetup {
  std::string address;
  BatchPlan plan;
  BatchStreamOptions options;
  StoreInfo info;     // of the first connection
  PlanOpened opened;  // of the first connection
  BatchPool pool;
  ReorderQueue queue;
  std::stop_source stop;
  std::atomic<uint64_t> batches{0}, bytes_received{0}, bytes_sent{0}, reconnects{0};

  StreamSetup(std::string node, BatchPlan batch_plan, const BatchStreamOptions& stream_options)
      : address(std::move(node)),
        plan(std::move(batch_plan)),
        options(stream_options),
        pool(stream_options.prefetch + 2),
        queue(stream_options.prefetch) {
    // What is left unsent when a stream ends are requests whose answers nobody waits for.
    options.channel.close_timeout =
        std::min<std::chrono::nanoseconds>(options.channel.close_timeout, kCloseTimeout);
  }

  // A connection with the plan open; throws kInvalidArgument where the store, or the form that
  // features come in, is another one than at first. A node without a free place is kUnavailable
  // once it had one: the connection that was lost may still hold it.
  std::unique_ptr<NodeClient> Connect(Deadline deadline);
  // Ends every wait of every thread, from any thread.
  void Stop() {
    queue.Close();
    stop.request_stop();
  }

 private:
  static constexpr auto kCloseTimeout = std::chrono::milliseconds(500);

  std::unique_ptr<NodeClient> Dial(Deadline deadline) const;
  void CheckFirst(const NodeClient& client, const StoreInfo& store, const PlanOpened& reply) const;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
};

std::unique_ptr<BatchSource> MakeNearSource(StreamSetup& setup, std::unique_ptr<NodeClient> first);
std::unique_ptr<BatchSource> MakeHopSource(StreamSetup& setup, std::unique_ptr<NodeClient> first);

// Whether an Error means that the connection is lost and another try may help.
bool WorthRetrying(const Error& error) noexcept;

}  // namespace offpath::graph
