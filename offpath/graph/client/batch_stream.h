// A trainer's view of a memory node: batches of a plan, in order, fetched ahead.
//
// However the node is asked (Mode), and however often it is killed and restarted on the way, the
// batches are the same bits. A lost connection is retried until retry_timeout has passed without a
// batch; a node that comes back with another store, or sends features in another form, is refused.
// The destructor does not wait for the node.
//
// Threading: Start(), Next() and the destructor from one thread. Batches may outlive the stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "offpath/graph/protocol/batch.h"
#include "offpath/graph/protocol/batch_plan.h"
#include "offpath/graph/protocol/messages.h"
#include "offpath/wire/channel.h"

namespace offpath::graph {

enum class BatchMode : uint8_t {
  kNear,  // the node samples, gathers and quantizes; one request a batch
  kRpc,   // the node samples one hop a request, the trainer then fetches the rows (as DistDGL does)
  kPull,  // the node only stores: the trainer reads adjacency lists and rows, and samples itself
};
// "near", "rpc", "pull"; throws kInvalidArgument listing them.
BatchMode ParseBatchMode(std::string_view name);

struct BatchStreamOptions {
  BatchMode mode = BatchMode::kNear;
  size_t prefetch = 4;  // batches asked for ahead of the one that is being used, 1 to 65536
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(30);  // for the first connection
  std::chrono::nanoseconds batch_timeout = std::chrono::seconds(60);    // the node's silence
  std::chrono::nanoseconds retry_timeout = std::chrono::seconds(60);    // without a batch
  wire::ChannelOptions channel = {};
};

struct BatchStreamStats {
  uint64_t batches = 0;
  uint64_t bytes_received = 0;  // payloads of frames, over all connections
  uint64_t bytes_sent = 0;
  uint64_t reconnects = 0;  // lost connections that were made again
};

class BatchStream {
 public:
  // Connects and opens the plan. Throws kInvalidArgument for options that are out of range and a
  // plan that is beyond the protocol's caps, kUnavailable or kTimeout naming the address, and the
  // node's Error for a plan that does not fit its store.
  BatchStream(const std::string& address, BatchPlan plan, BatchStreamOptions options = {});
  ~BatchStream();
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  const StoreInfo& info() const noexcept;
  uint64_t seeds() const noexcept;    // input nodes of the plan
  uint64_t batches() const noexcept;  // an epoch
  codec::RowFormat feature_format() const noexcept;

  // Begins batches [first, first + count) of an epoch; what was left of the range before is
  // dropped.
  void Start(uint64_t epoch, uint64_t first, uint64_t count);
  // The next batch, or null after the last. Throws kTimeout, kUnavailable or the node's Error.
  std::shared_ptr<Batch> Next();
  // Next(), for at most `wait`: kTimeout after it without an end to the stream.
  std::shared_ptr<Batch> Next(std::chrono::nanoseconds wait);
  // Waits for up to `wait` until Next() has something to say at once, an Error too; false where it
  // has not. A caller that looks for interrupts in between cannot tell by Next()'s kTimeout, which
  // may be the node's.
  bool Ready(std::chrono::nanoseconds wait);

  BatchStreamStats stats() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What a node holds, and the node numbers of a split: a connection for a moment.
StoreInfo FetchStoreInfo(const std::string& address, std::chrono::nanoseconds timeout);
std::vector<int64_t> FetchSplit(const std::string& address, uint32_t node_type,
                                const std::string& split, std::chrono::nanoseconds timeout);

}  // namespace offpath::graph
