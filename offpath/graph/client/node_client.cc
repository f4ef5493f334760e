#include "offpath/graph/client/node_client.h"

namespace offpath::graph {
namespace {

// Adjacency lists of a frontier are the longest messages of a node.
constexpr uint64_t kMaxReplyBytes = uint64_t{1} << 34;

}  // namespace

NodeClient::NodeClient(const std::string& address, const wire::ChannelOptions& options,
                       Deadline deadline, const std::stop_token& stop)
    : name_("the memory node at " + address),
      channel_(wire::ConnectTcp(wire::ParseTcpAddress(address), options, deadline, stop)),
      closer_(stop, CloseChannel{channel_.get()}),
      reader_(*channel_, kMaxReplyBytes),
      info_(DecodeStoreInfo(Expect(MessageType::kStoreInfo, 0, deadline).bytes)) {}

PlanOpened NodeClient::OpenPlan(const BatchPlan& plan, Deadline deadline) {
  Send(MessageType::kOpenPlan, kPlanStream, plan, deadline);
  return DecodePlanOpened(Expect(MessageType::kPlanOpened, kPlanStream, deadline).bytes);
}

MessageReader::Message NodeClient::Next(Deadline deadline) {
  const auto message = reader_.Next(deadline);
  if (message.type == MessageType::kError) {
    throw NodeError(DecodeError(message.bytes, name_));
  }
  return message;
}

MessageReader::Message NodeClient::Expect(MessageType type, uint32_t stream, Deadline deadline) {
  const auto message = Next(deadline);
  if (message.type != type || message.stream != stream) {
    throw Error(ErrorCode::kCorruptData,
                name_ + " sent message type " + std::to_string(static_cast<int>(message.type)) +
                    " on stream " + std::to_string(message.stream) + " where type " +
                    std::to_string(static_cast<int>(type)) + " on stream " +
                    std::to_string(stream) + " was expected");
  }
  return message;
}

}  // namespace offpath::graph
