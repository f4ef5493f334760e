#include "offpath/wire/frame_reader.h"

#include <algorithm>
#include <utility>

#include "offpath/base/crc32c.h"
#include "offpath/base/error.h"

namespace offpath::wire {

namespace {

// The most that one read takes of a payload, so that the checksum finds it in the second-level
// cache.
constexpr size_t kReadBytes = size_t{256} << 10;

}  // namespace

FrameReader::FrameReader(size_t max_payload, std::string peer)
    : max_payload_(max_payload), peer_(std::move(peer)) {}

FrameReader::Need FrameReader::Next() {
  switch (state_) {
    case State::kHeader:
      if (header_filled_ < kFrameHeaderBytes) return Need::kBytes;
      header_ = DecodeFrameHeader(header_bytes_, max_payload_, peer_);
      header_filled_ = 0;
      state_ = header_.kind == FrameKind::kData ? State::kBuffer : State::kComplete;
      return header_.kind == FrameKind::kData ? Need::kBuffer : Need::kFrame;
    case State::kBuffer:
      return Need::kBuffer;
    case State::kPayload:
      if (payload_filled_ < payload_.size()) return Need::kBytes;
      CheckPayload();
      state_ = State::kComplete;
      return Need::kFrame;
    case State::kComplete:
      return Need::kFrame;
  }
  throw Error(ErrorCode::kInternal, "a frame reader's state is out of range");
}

void FrameReader::GiveBuffer(std::span<std::byte> buffer) noexcept {
  payload_ = buffer.first(header_.payload_bytes);
  payload_filled_ = 0;
  payload_crc_ = 0;
  state_ = State::kPayload;
}

std::span<iovec> FrameReader::Room() noexcept {
  const iovec header_room = {header_bytes_.data() + header_filled_,
                             kFrameHeaderBytes - header_filled_};
  if (state_ != State::kPayload) {
    room_[0] = header_room;
    return std::span(room_).first(1);
  }
  const size_t missing = payload_.size() - payload_filled_;
  room_[0] = {payload_.data() + payload_filled_, std::min(missing, kReadBytes)};
  room_[1] = header_room;
  return std::span(room_).first(missing <= kReadBytes ? 2 : 1);
}

void FrameReader::Advance(size_t bytes) noexcept {
  if (state_ == State::kPayload) {
    const auto piece = payload_.subspan(payload_filled_);
    const auto arrived = piece.first(std::min(bytes, piece.size()));
    payload_crc_ = Crc32c(arrived, payload_crc_);
    payload_filled_ += arrived.size();
    bytes -= arrived.size();
  }
  header_filled_ += bytes;
}

void FrameReader::CheckPayload() const {
  if (payload_crc_ == header_.payload_crc) return;
  throw Error(ErrorCode::kCorruptData,
              "frame from " + peer_ + " (type " + std::to_string(header_.tag.type) + ", stream " +
                  std::to_string(header_.tag.stream) + ", sequence " +
                  std::to_string(header_.tag.sequence) + ") does not match its checksum");
}

FrameHeader FrameReader::TakeFrame() noexcept {
  payload_ = {};
  state_ = State::kHeader;
  return header_;
}

}  // namespace offpath::wire
