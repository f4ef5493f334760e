#include <zlib.h>

#include "offpath/base/npy.h"
#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"

namespace offpath {
namespace {

void Append(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

struct Entry {
  std::string name;
  std::string content;
  bool deflate = false;
  uint32_t claimed_bytes = 0;  // 0: the truth
};

std::string Deflate(const std::string& content) {
  std::string out(compressBound(content.size()) + 64, '\0');
  z_stream stream = {};
  // Raw, as zip has it.
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A zip archive, written from the format's description so that it can lie.
std::string MakeZip(const std::vector<Entry>& entries) {
  std::string zip;
  std::string directory;
  for (const Entry& entry : entries) {
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(entry.content.data()),
                           static_cast<uInt>(entry.content.size()));
    const std::string data = entry.deflate ? Deflate(entry.content) : entry.content;
    std::string common;
    Append(common, 20, 2);
    Append(common, 0, 2);
    Append(common, entry.deflate ? 8 : 0, 2);
    Append(common, 0, 4);
    Append(common, crc, 4);
    Append(common, data.size(), 4);
    Append(common, entry.claimed_bytes != 0 ? entry.claimed_bytes : entry.content.size(), 4);
    Append(common, entry.name.size(), 2);
    Append(common, 0, 2);
    Append(directory, 0x02014B50, 4);
    Append(directory, 20, 2);
    directory += common;
    directory.append(10, '\0');
    Append(directory, zip.size(), 4);
    directory += entry.name;
    Append(zip, 0x04034B50, 4);
    zip += common + entry.name + data;
  }
  const size_t directory_offset = zip.size();
  zip += directory;
  Append(zip, 0x06054B50, 4);
  Append(zip, 0, 4);
  Append(zip, entries.size(), 2);
  Append(zip, entries.size(), 2);
  Append(zip, directory.size(), 4);
  Append(zip, directory_offset, 4);
  Append(zip, 0, 2);
  return zip;
}

std::string Text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Npz, ReadsStoredAndDeflatedArrays) {
  const TempFolder folder;
  const std::string large(3'000'000, 'z');
  WriteFile(folder / "a.npz",
            MakeZip({{"data.npy", "stored"}, {"indices.npy", large, true}, {"e.npy", ""}}));
  const auto arrays = ReadNpz(folder / "a.npz", 3'000'006);
  ASSERT_EQ(arrays.size(), 3);
  EXPECT_EQ(Text(arrays.at("data")), "stored");
  EXPECT_TRUE(Text(arrays.at("indices")) == large);
  EXPECT_TRUE(arrays.at("e").empty());
}

TEST(Npz, TheCapHoldsForTheSumOfWhatIsInflated) {
  const std::string zip =
      MakeZip({{"a.npy", std::string(1000, 'a'), true}, {"b.npy", std::string(1000, 'b'), true}});
  EXPECT_NO_THROW(ParseNpz(BytesOf(zip), "x.npz", 2000));
  EXPECT_ERROR(ParseNpz(BytesOf(zip), "x.npz", 1999), ErrorCode::kResourceExhausted,
               "x.npz: b: inflates to more than is allowed");
  EXPECT_ERROR(ParseNpz(BytesOf(zip), "x.npz", 0), ErrorCode::kResourceExhausted, "x.npz: a");
}

TEST(Npz, ADirectoryThatLiesAboutASizeCannotMakeItAllocate) {
  // 1 KiB of zeros in a few bytes, said to be 4 GiB: what comes is less, which is corrupt.
  const std::string zip = MakeZip({{"a.npy", std::string(1024, '\0'), true, 0xFFFFFFF0}});
  EXPECT_ERROR(ParseNpz(BytesOf(zip), "x.npz", ~uint64_t{0} >> 1), ErrorCode::kCorruptData,
               "x.npz");
}

TEST(Npz, DamageIsAnErrorThatNamesTheFile) {
  const TempFolder folder;
  const std::string zip = MakeZip({{"a.npy", std::string(100, 'a'), false}});
  std::string flipped = zip;
  flipped[60] ^= 1;
  EXPECT_ERROR(ParseNpz(BytesOf(flipped), "x.npz", 1 << 20), ErrorCode::kCorruptData,
               "x.npz: a: CRC error");
  for (size_t size = 0; size < zip.size(); ++size) {
    EXPECT_ERROR(ParseNpz(BytesOf(zip).first(size), "x.npz", 1 << 20), ErrorCode::kCorruptData,
                 "x.npz");
  }
  EXPECT_ERROR(ReadNpz(folder / "missing.npz", 1), ErrorCode::kNotFound, "missing.npz");
}

TEST(Npz, WhatIsNotAnArrayIsAnError) {
  EXPECT_ERROR(ParseNpz(BytesOf(MakeZip({{"run.sh", "x"}})), "x.npz", 100), ErrorCode::kCorruptData,
               "'run.sh'");
  EXPECT_ERROR(ParseNpz(BytesOf(MakeZip({{"a.npy", "x"}, {"a.npy", "y"}})), "x.npz", 100),
               ErrorCode::kCorruptData, "'a' twice");
}

}  // namespace
}  // namespace offpath
