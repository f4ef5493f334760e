#include "offpath/wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "offpath/base/crc32c.h"
#include "offpath/base/error.h"
#include "offpath/wire/frame_batch.h"
#include "offpath/wire/frame_reader.h"
#include "offpath/wire/hello.h"

namespace offpath::wire {

namespace {

using testing::HasSubstr;

using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

constexpr size_t kCap = 1000;

HeaderBytes Encoded(const FrameHeader& header) {
  HeaderBytes bytes{};
  EncodeFrameHeader(header, bytes);
  return bytes;
}

// Writes a field and makes the checksum right again, as a peer with a bug or bad intent would.
template <typename T>
HeaderBytes WithField(HeaderBytes bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  const uint32_t crc = Crc32c(std::span<const std::byte>(bytes).first(28));
  std::memcpy(bytes.data() + 28, &crc, sizeof(crc));
  return bytes;
}

std::string CorruptionIn(const std::function<void()>& decode) {
  try {
    decode();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_THAT(error.what(), HasSubstr("node-a"));
    return error.what();
  }
  return "accepted";
}

std::string CorruptionIn(const HeaderBytes& bytes) {
  return CorruptionIn([&] { DecodeFrameHeader(bytes, kCap, "node-a"); });
}

TEST(FrameHeader, DecodesToWhatWasEncoded) {
  const FrameHeader header{FrameKind::kData, {0xabcd, 0x12345678, 0x1122334455667788}, 1000, 42};
  const FrameHeader decoded = DecodeFrameHeader(Encoded(header), kCap, "node-a");
  EXPECT_EQ(decoded.kind, FrameKind::kData);
  EXPECT_EQ(decoded.tag.type, header.tag.type);
  EXPECT_EQ(decoded.tag.stream, header.tag.stream);
  EXPECT_EQ(decoded.tag.sequence, header.tag.sequence);
  EXPECT_EQ(decoded.payload_bytes, header.payload_bytes);
  EXPECT_EQ(decoded.payload_crc, header.payload_crc);
}

TEST(FrameHeader, HasTheDocumentedBytes) {
  const HeaderBytes bytes = Encoded({FrameKind::kData, {0x0201, 0x06050403, 0x77}, 3, 0xddccbbaa});
  const std::array<uint8_t, 28> expected = {
      'O', 'F', 'P',  'F', 1, 0, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 3,    0,
      0,   0,   0x77, 0,   0, 0, 0,    0,    0,    0,    0xaa, 0xbb, 0xcc, 0xdd};
  EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), expected.size()), 0);
}

TEST(FrameHeader, EveryFlippedBitIsNoticed) {
  const HeaderBytes good = Encoded({FrameKind::kData, {1, 2, 3}, 100, 7});
  for (size_t bit = 0; bit < 8 * kFrameHeaderBytes; ++bit) {
    HeaderBytes bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_NE(CorruptionIn(bytes), "accepted") << "bit " << bit;
  }
}

TEST(FrameHeader, AFieldThatLiesIsNamed) {
  const HeaderBytes good = Encoded({FrameKind::kData, {1, 2, 3}, 100, 7});
  EXPECT_THAT(CorruptionIn(WithField<uint32_t>(good, 0, 0)), HasSubstr("magic"));
  EXPECT_THAT(CorruptionIn(WithField<uint8_t>(good, 4, 2)), HasSubstr("version 2"));
  EXPECT_THAT(CorruptionIn(WithField<uint8_t>(good, 5, 9)), HasSubstr("kind 9"));
  EXPECT_THAT(CorruptionIn(WithField<uint32_t>(good, 12, 1001)), HasSubstr("1001"));
  EXPECT_THAT(CorruptionIn(WithField<uint32_t>(good, 12, 0xffffffff)), HasSubstr("agreed 1000"));
  EXPECT_THAT(CorruptionIn(Encoded({FrameKind::kGoodbye, {}, 1, 0})), HasSubstr("goodbye"));
}

TEST(Hello, DecodesToWhatWasEncoded) {
  const Hello hello = DecodeHello(EncodeHello({kWireVersion, 123456}), "node-a");
  EXPECT_EQ(hello.version, kWireVersion);
  EXPECT_EQ(hello.max_payload, 123456u);
}

TEST(Hello, EveryFlippedBitIsNoticed) {
  const auto good = EncodeHello({kWireVersion, 4096});
  for (size_t bit = 0; bit < 8 * kHelloBytes; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_THROW(DecodeHello(bytes, "node-a"), Error) << "bit " << bit;
  }
}

TEST(Hello, AnotherVersionIsUnsupportedAndBothAreNamed) {
  try {
    DecodeHello(EncodeHello({7, 4096}), "node-a");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("node-a speaks wire version 7, this build 1"));
  }
}

TEST(Hello, OffersOutsideTheCapAreRefused) {
  for (const uint32_t offer : {uint32_t{0}, uint32_t{kMaxPayloadCap + 1}, uint32_t{0xffffffff}}) {
    EXPECT_THAT(CorruptionIn([&] {
                  DecodeHello(EncodeHello({kWireVersion, offer}), "node-a");
                }),
                HasSubstr(std::to_string(offer)));
  }
}

TEST(Hello, AWrongProtocolIsQuotedAtItsFirstBytes) {
  const std::string http = "GET";
  EXPECT_THAT(CorruptionIn([&] { CheckHelloPrefix(std::as_bytes(std::span(http)), "node-a"); }),
              HasSubstr("'GET'"));
  const std::string ours = "OFF";
  CheckHelloPrefix(std::as_bytes(std::span(ours)), "node-a");
  CheckHelloPrefix({}, "node-a");
}

struct Frame {
  FrameTag tag;
  std::vector<std::byte> payload;
};

std::vector<std::byte> Stream(const std::vector<Frame>& frames) {
  std::vector<std::byte> bytes;
  for (const Frame& frame : frames) {
    const HeaderBytes header =
        Encoded({FrameKind::kData, frame.tag, static_cast<uint32_t>(frame.payload.size()),
                 Crc32c(frame.payload)});
    bytes.insert(bytes.end(), header.begin(), header.end());
    bytes.insert(bytes.end(), frame.payload.begin(), frame.payload.end());
  }
  return bytes;
}

// Feeds `bytes` in pieces of at most `step` and returns the frames.
std::vector<Frame> Read(std::span<const std::byte> bytes, size_t step) {
  FrameReader reader(kCap, "node-a");
  std::vector<std::byte> buffer(kCap);
  std::vector<Frame> frames;
  for (;;) {
    switch (reader.Next()) {
      case FrameReader::Need::kBuffer:
        reader.GiveBuffer(buffer);
        break;
      case FrameReader::Need::kFrame: {
        const FrameHeader header = reader.TakeFrame();
        frames.push_back({header.tag, {buffer.begin(), buffer.begin() + header.payload_bytes}});
        break;
      }
      case FrameReader::Need::kBytes: {
        size_t taken = 0;
        for (const iovec& room : reader.Room()) {
          const size_t count = std::min({room.iov_len, bytes.size(), step - taken});
          if (count != 0) std::memcpy(room.iov_base, bytes.data(), count);
          bytes = bytes.subspan(count);
          taken += count;
        }
        if (taken == 0) {
          EXPECT_TRUE(reader.at_boundary());
          return frames;
        }
        reader.Advance(taken);
      }
    }
  }
}

std::vector<Frame> SomeFrames() {
  std::mt19937 random(7);
  std::vector<Frame> frames;
  for (const size_t size : {0, 1, 31, 32, 33, 0, 0, 999, 1000, 5}) {
    Frame frame{{static_cast<uint16_t>(size), 4, random()}, std::vector<std::byte>(size)};
    for (std::byte& byte : frame.payload) byte = static_cast<std::byte>(random());
    frames.push_back(std::move(frame));
  }
  return frames;
}

TEST(FrameBatch, TheStreamDoesNotDependOnHowWritesAreCut) {
  std::vector<Frame> frames = SomeFrames();
  const auto expected = Stream(frames);
  for (const size_t step : {1, 2, 31, 32, 33, 1000, 1032, 100000}) {
    FrameBatch batch;
    for (Frame& frame : frames) batch.Add(frame.tag, frame.payload);
    batch.Seal();
    std::vector<std::byte> written;
    size_t completed = 0;
    while (!batch.empty()) {
      size_t left = step;
      for (const iovec& piece : batch.pieces()) {
        const size_t count = std::min(left, piece.iov_len);
        const auto* bytes = static_cast<const std::byte*>(piece.iov_base);
        written.insert(written.end(), bytes, bytes + count);
        left -= count;
      }
      completed += batch.Advance(step - left);
    }
    EXPECT_EQ(completed, frames.size()) << "step " << step;
    EXPECT_EQ(written, expected) << "step " << step;
  }
}

TEST(FrameReader, FramesDoNotDependOnHowTheStreamIsCut) {
  const std::vector<Frame> frames = SomeFrames();
  const auto bytes = Stream(frames);
  for (const size_t step : {1, 2, 3, 7, 31, 32, 33, 64, 100, 1000, 1031, 1032, 1033, 100000}) {
    const std::vector<Frame> read = Read(bytes, step);
    ASSERT_EQ(read.size(), frames.size()) << "step " << step;
    for (size_t i = 0; i < frames.size(); ++i) {
      EXPECT_EQ(read[i].tag.sequence, frames[i].tag.sequence);
      EXPECT_EQ(read[i].payload, frames[i].payload) << "step " << step << ", frame " << i;
    }
  }
}

TEST(FrameReader, EveryFlippedBitOfAStreamIsNoticed) {
  const auto good = Stream({{{1, 2, 3}, std::vector<std::byte>(40, std::byte{5})}});
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_NE(CorruptionIn([&] { Read(bytes, 1000); }), "accepted") << "bit " << bit;
  }
}

}  // namespace

}  // namespace offpath::wire
