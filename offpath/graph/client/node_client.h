// One connection to a memory node: connects, checks what it serves, opens a plan, and asks.
//
// Not thread-safe. Every call has a deadline; a failed call leaves the connection unusable unless
// it threw a NodeError.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "offpath/graph/protocol/message_stream.h"
#include "offpath/graph/protocol/messages.h"
#include "offpath/wire/channel.h"

namespace offpath::graph {

// What the node itself answered, as against a connection or a message that failed.
class NodeError : public Error {
 public:
  explicit NodeError(const Error& error) : Error(error.code(), error.message()) {}
};

inline constexpr uint32_t kPlanStream = 1;
inline constexpr uint32_t kFirstRequestStream = 16;

class NodeClient {
 public:
  // A request to stop, from any thread, ends every wait of this connection, now or later, with
  // kUnavailable.
  NodeClient(const std::string& address, const wire::ChannelOptions& options, Deadline deadline,
             const std::stop_token& stop = {});

  const StoreInfo& info() const noexcept { return info_; }
  wire::Channel& channel() noexcept { return *channel_; }
  const std::string& name() const noexcept { return name_; }  // "the memory node at HOST:PORT"

  PlanOpened OpenPlan(const BatchPlan& plan, Deadline deadline);

  template <typename Request>
  void Send(MessageType type, uint32_t stream, const Request& request, Deadline deadline) {
    SendEncoded(*channel_, type, stream, request, deadline);
  }
  // The next message; a kError message is thrown as the node's Error.
  MessageReader::Message Next(Deadline deadline);
  // Next() on a stream, of a type; anything else is kCorruptData.
  MessageReader::Message Expect(MessageType type, uint32_t stream, Deadline deadline);

 private:
  struct CloseChannel {
    wire::Channel* channel;
    void operator()() const noexcept { channel->Close(); }
  };

  std::string name_;
  std::unique_ptr<wire::Channel> channel_;
  std::stop_callback<CloseChannel> closer_;  // after channel_, which it uses
  MessageReader reader_;
  StoreInfo info_;
};

}  // namespace offpath::graph
