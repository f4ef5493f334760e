#include "offpath/wire/channel.h"

#include "offpath/base/error.h"

namespace offpath::wire {

SendBuffer& SendBuffer::operator=(SendBuffer&& other) noexcept {
  if (this != &other) {
    if (channel_ != nullptr) channel_->ReleaseSend(slot_);
    channel_ = std::exchange(other.channel_, nullptr);
    slot_ = other.slot_;
    payload_ = std::exchange(other.payload_, {});
  }
  return *this;
}

SendBuffer::~SendBuffer() {
  if (channel_ != nullptr) channel_->ReleaseSend(slot_);
}

ReceivedFrame& ReceivedFrame::operator=(ReceivedFrame&& other) noexcept {
  if (this != &other) {
    if (channel_ != nullptr) channel_->ReleaseReceive(slot_);
    channel_ = std::exchange(other.channel_, nullptr);
    slot_ = other.slot_;
    tag_ = other.tag_;
    payload_ = std::exchange(other.payload_, {});
  }
  return *this;
}

ReceivedFrame::~ReceivedFrame() {
  if (channel_ != nullptr) channel_->ReleaseReceive(slot_);
}

SendBuffer Channel::LeaseSend(size_t slot, std::span<std::byte> payload) noexcept {
  SendBuffer buffer;
  buffer.channel_ = this;
  buffer.slot_ = slot;
  buffer.payload_ = payload;
  return buffer;
}

ReceivedFrame Channel::LeaseReceive(size_t slot, const FrameTag& tag,
                                    std::span<const std::byte> payload) noexcept {
  ReceivedFrame frame;
  frame.channel_ = this;
  frame.slot_ = slot;
  frame.tag_ = tag;
  frame.payload_ = payload;
  return frame;
}

size_t Channel::TakeSlot(SendBuffer& buffer, size_t payload_bytes) const {
  if (buffer.channel_ != this) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "Send() to " + peer() + " needs a buffer that AcquireSend() of the same channel returned");
  }
  if (payload_bytes > buffer.payload_.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "a frame of " + std::to_string(payload_bytes) + " bytes to " + peer() +
                    " is above max_payload(), which is " + std::to_string(buffer.payload_.size()));
  }
  buffer.channel_ = nullptr;
  buffer.payload_ = {};
  return buffer.slot_;
}

}  // namespace offpath::wire
