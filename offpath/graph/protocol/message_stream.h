// Messages of any length over a channel whose frames are bounded.
//
// A message is one frame, or several on the same stream with kMoreFrames set in all but the last.
// Messages of different streams may interleave.
//
// Threading: SendMessage may be called from several threads on one channel, for different streams.
// A MessageReader belongs to the one thread that receives.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "offpath/base/deadline.h"
#include "offpath/graph/protocol/messages.h"
#include "offpath/wire/channel.h"

namespace offpath::graph {

inline constexpr uint16_t kMoreFrames = 0x8000;

void SendMessage(wire::Channel& channel, MessageType type, uint32_t stream,
                 std::span<const std::byte> bytes, Deadline deadline);

// Encodes and sends one of the messages of messages.h.
template <typename Message>
void SendEncoded(wire::Channel& channel, MessageType type, uint32_t stream, const Message& message,
                 Deadline deadline) {
  ByteWriter writer;
  Encode(message, writer);
  SendMessage(channel, type, stream, writer.bytes(), deadline);
}

class MessageReader {
 public:
  // `max_bytes` caps a message, and all unfinished ones together.
  MessageReader(wire::Channel& channel, uint64_t max_bytes)
      : channel_(channel), max_bytes_(max_bytes) {}

  struct Message {
    MessageType type = MessageType::kError;
    uint32_t stream = 0;
    std::span<const std::byte> bytes;  // valid until the next call
  };
  // The next whole message; throws what Receive throws, and kCorruptData where a message breaks the
  // rules above or its cap.
  Message Next(Deadline deadline);

 private:
  struct Partial {
    uint16_t type = 0;
    uint64_t next_sequence = 0;
    std::vector<std::byte> bytes;
  };
  wire::Channel& channel_;
  uint64_t max_bytes_;
  uint64_t pending_bytes_ = 0;
  wire::ReceivedFrame frame_;        // holds the bytes of a message of one frame
  std::vector<std::byte> complete_;  // holds the bytes of a longer one
  std::unordered_map<uint32_t, Partial> partial_;
};

}  // namespace offpath::graph
