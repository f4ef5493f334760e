// A stream of valid frames, cut into arbitrary reads, with arbitrary bytes written over part of it:
// the reader returns exactly the frames before the damage and then kCorruptData, or all of them
// where nothing was changed. Never a wrong frame, a hang, or a byte outside its buffers.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "offpath/base/crc32c.h"
#include "offpath/base/error.h"
#include "offpath/wire/frame.h"
#include "offpath/wire/frame_reader.h"

namespace {

using offpath::wire::EncodeFrameHeader;
using offpath::wire::FrameHeader;
using offpath::wire::FrameKind;
using offpath::wire::FrameReader;
using offpath::wire::kFrameHeaderBytes;

constexpr size_t kMaxPayload = 300;

// The fuzzer's decisions; zeros once they run out.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : left_(data, size) {}
  uint8_t Next() {
    if (left_.empty()) return 0;
    const uint8_t value = left_.front();
    left_ = left_.subspan(1);
    return value;
  }

 private:
  std::span<const uint8_t> left_;
};

struct Stream {
  std::vector<std::byte> bytes;
  std::vector<size_t> ends;  // of each frame
};

Stream ValidStream(Choices& choices) {
  Stream stream;
  const size_t frames = choices.Next() % 6;
  for (size_t i = 0; i < frames; ++i) {
    const std::vector<std::byte> payload(choices.Next() + choices.Next() % 45,
                                         std::byte{choices.Next()});
    std::array<std::byte, kFrameHeaderBytes> header{};
    const bool goodbye = choices.Next() % 16 == 1;
    EncodeFrameHeader({goodbye ? FrameKind::kGoodbye : FrameKind::kData,
                       {choices.Next(), choices.Next(), i},
                       goodbye ? 0 : static_cast<uint32_t>(payload.size()),
                       goodbye ? 0 : offpath::Crc32c(payload)},
                      header);
    stream.bytes.insert(stream.bytes.end(), header.begin(), header.end());
    if (!goodbye) stream.bytes.insert(stream.bytes.end(), payload.begin(), payload.end());
    stream.ends.push_back(stream.bytes.size());
  }
  return stream;
}

// Overwrites a few bytes; returns where the first change is, or the end.
size_t Damage(std::vector<std::byte>& bytes, Choices& choices) {
  const std::vector<std::byte> before = bytes;
  if (!bytes.empty()) {
    const size_t at = (choices.Next() * size_t{256} + choices.Next()) % bytes.size();
    const size_t count = std::min<size_t>(choices.Next() % 5, bytes.size() - at);
    for (size_t i = 0; i < count; ++i) bytes[at + i] = std::byte{choices.Next()};
  }
  return static_cast<size_t>(std::mismatch(bytes.begin(), bytes.end(), before.begin()).first -
                             bytes.begin());
}

// Fills the reader's room from `bytes`, as much as one read brings.
size_t Feed(FrameReader& reader, std::span<const std::byte> bytes, size_t step) {
  size_t taken = 0;
  for (const iovec& room : reader.Room()) {
    const size_t count = std::min({room.iov_len, bytes.size() - taken, step - taken});
    if (count != 0) std::memcpy(room.iov_base, bytes.data() + taken, count);
    taken += count;
  }
  if (taken != 0) reader.Advance(taken);
  return taken;
}

void CheckFrame(const Stream& original, size_t index, const FrameHeader& header,
                std::span<const std::byte> payload) {
  if (index >= original.ends.size()) std::abort();
  const size_t begin = index == 0 ? 0 : original.ends[index - 1];
  const auto expected = std::span(original.bytes)
                            .subspan(begin, original.ends[index] - begin)
                            .subspan(kFrameHeaderBytes);
  if (header.tag.sequence != index) std::abort();
  if (!std::ranges::equal(payload, expected)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Choices choices(data, size);
  const Stream original = ValidStream(choices);
  std::vector<std::byte> bytes = original.bytes;
  const size_t damaged_at = Damage(bytes, choices);
  const bool damaged = damaged_at != bytes.size();
  const auto intact = static_cast<size_t>(
      std::ranges::count_if(original.ends, [&](size_t end) { return end <= damaged_at; }));

  FrameReader reader(kMaxPayload, "fuzz");
  std::vector<std::byte> buffer(kMaxPayload);
  std::span<const std::byte> rest = bytes;
  size_t frames = 0;
  try {
    for (;;) {
      switch (reader.Next()) {
        case FrameReader::Need::kBytes: {
          const size_t taken = Feed(reader, rest, size_t{1} + choices.Next() * 3);
          rest = rest.subspan(taken);
          if (taken == 0) {
            // Nothing was wrong with what there was. Damage that a checksum of 32 bits does not see
            // would have to be wider than four bytes.
            if (damaged || frames != intact || !reader.at_boundary()) std::abort();
            return 0;
          }
          break;
        }
        case FrameReader::Need::kBuffer:
          if (reader.header().payload_bytes > kMaxPayload) std::abort();
          reader.GiveBuffer(buffer);
          break;
        case FrameReader::Need::kFrame: {
          const FrameHeader header = reader.TakeFrame();
          CheckFrame(original, frames, header,
                     std::span<const std::byte>(buffer).first(header.payload_bytes));
          ++frames;
          break;
        }
      }
    }
  } catch (const offpath::Error& error) {
    if (error.code() != offpath::ErrorCode::kCorruptData) std::abort();
    if (!damaged || frames != intact) std::abort();
  }
  return 0;
}
