#include "offpath/graph/protocol/message_stream.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace offpath::graph {

void SendMessage(wire::Channel& channel, MessageType type, uint32_t stream,
                 std::span<const std::byte> bytes, Deadline deadline) {
  uint64_t sequence = 0;
  do {
    wire::SendBuffer buffer = channel.AcquireSend(deadline);
    const size_t count = std::min(bytes.size(), buffer.payload().size());
    if (count != 0) std::memcpy(buffer.payload().data(), bytes.data(), count);
    bytes = bytes.subspan(count);
    wire::FrameTag tag;
    tag.type =
        static_cast<uint16_t>(static_cast<uint16_t>(type) | (bytes.empty() ? 0 : kMoreFrames));
    tag.stream = stream;
    tag.sequence = sequence++;
    channel.Send(std::move(buffer), tag, count, deadline);
  } while (!bytes.empty());
}

MessageReader::Message MessageReader::Next(Deadline deadline) {
  const auto corrupt = [this](const char* problem) {
    return Error(ErrorCode::kCorruptData, channel_.peer() + " sent a message that " + problem);
  };
  while (true) {
    frame_ = wire::ReceivedFrame();  // gives the buffer back before waiting for the next frame
    frame_ = channel_.Receive(deadline);
    const wire::FrameTag tag = frame_.tag();
    const uint16_t type = tag.type & static_cast<uint16_t>(~kMoreFrames);
    const bool more = (tag.type & kMoreFrames) != 0;
    const auto found = partial_.find(tag.stream);
    if (found == partial_.end() && !more) {
      return {static_cast<MessageType>(type), tag.stream, frame_.payload()};
    }
    if (found == partial_.end() && partial_.size() >= 1024) {
      throw corrupt("is one of too many unfinished ones");
    }
    Partial& partial = found == partial_.end() ? partial_[tag.stream] : found->second;
    if (partial.next_sequence == 0) partial.type = type;
    if (partial.type != type || partial.next_sequence != tag.sequence) {
      throw Error(ErrorCode::kCorruptData,
                  channel_.peer() + " sent frame " + std::to_string(tag.sequence) + " of type " +
                      std::to_string(type) + " on stream " + std::to_string(tag.stream) +
                      " where frame " + std::to_string(partial.next_sequence) + " of type " +
                      std::to_string(partial.type) + " was due");
    }
    ++partial.next_sequence;
    const auto payload = frame_.payload();
    pending_bytes_ += payload.size();
    if (pending_bytes_ > max_bytes_) throw corrupt("is above the cap on its length");
    partial.bytes.insert(partial.bytes.end(), payload.begin(), payload.end());
    if (more) continue;
    complete_ = std::move(partial.bytes);
    pending_bytes_ -= complete_.size();
    partial_.erase(tag.stream);
    return {static_cast<MessageType>(type), tag.stream, complete_};
  }
}

}  // namespace offpath::graph
