// Verification finds what opening cannot see.
#include "offpath/graph/store/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "offpath/graph/store/store.h"
#include "tests/base/expect_error.h"
#include "tests/graph/store/store_fixture.h"

namespace offpath::graph {
namespace {

using testing::HasSubstr;

std::string All(const VerifyReport& report) {
  std::string text;
  for (const auto& problem : report.problems) text += problem.file + ": " + problem.message + "\n";
  return text;
}

TEST(Verify, AWholeStoreHasNoProblems) {
  const TempFolder folder;
  WriteSmallStore(folder / "g");
  uint64_t last = 0;
  uint64_t total = 0;
  const auto report = VerifyStore(folder / "g", [&](std::string_view, uint64_t done, uint64_t all) {
    last = done;
    total = all;
  });
  EXPECT_TRUE(report.ok()) << All(report);
  EXPECT_EQ(report.files, 15);
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, report.bytes);
}

TEST(Verify, ThereMustBeAStore) {
  const TempFolder folder;
  EXPECT_ERROR(VerifyStore(folder / "none"), ErrorCode::kNotFound, "none");
}

// Every single bit of every file: found, or the store reads as before (padding in the manifest).
TEST(Verify, NoFlippedBitGoesUnnoticed) {
  const TempFolder folder;
  WriteSmallStore(folder / "g");
  size_t flips = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "g")) {
    const std::string path = entry.path().string();
    const std::string whole = ReadFile(path);
    // All bits of the small files' data and of every 13th byte elsewhere.
    for (size_t byte = 0; byte < whole.size(); byte += byte + 64 < whole.size() ? 13 : 1) {
      std::string flipped = whole;
      flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << (byte % 8)));
      WriteFile(path, flipped);
      ++flips;
      const auto report = VerifyStore(folder / "g");
      if (!report.ok()) continue;
      EXPECT_EQ(entry.path().filename(), "store.json") << "byte " << byte;
      EXPECT_EQ(FormatManifest(ReadManifest(folder / "g")), whole) << "byte " << byte;
    }
    WriteFile(path, whole);
  }
  EXPECT_GT(flips, 500);
}

// Overwrites an element and makes the checksum fit, as a faulty writer would.
template <typename T>
void Overwrite(const std::string& folder, const std::string& file, size_t index, T value) {
  const std::string path = folder + "/" + file;
  std::string content = ReadFile(path);
  const size_t header = 10 + static_cast<unsigned char>(content[8]);
  std::memcpy(content.data() + header + index * sizeof(T), &value, sizeof(T));
  WriteFile(path, content);
  char crc[9];
  std::snprintf(crc, sizeof(crc), "%08x", Crc32c(std::as_bytes(std::span(content))));
  const std::function<void(nlohmann::json&)> visit = [&](nlohmann::json& value_or_object) {
    if (value_or_object.is_object() && value_or_object.value("file", "") == file) {
      value_or_object["crc32c"] = crc;
    }
    if (!value_or_object.is_structured()) return;
    for (auto& child : value_or_object) visit(child);
  };
  EditManifest(folder, visit);
}

TEST(Verify, WrongValuesWithRightChecksumsAreNamed) {
  const auto found = [](const std::string& file, size_t index, auto value) {
    const TempFolder folder;
    WriteSmallStore(folder / "g");
    Overwrite(folder / "g", file, index, value);
    return All(VerifyStore(folder / "g"));
  };
  EXPECT_THAT(found("edges-0-indptr.npy", 1, int64_t{6}),
              HasSubstr("edges-0-indptr.npy: entry 1 is 6"));
  EXPECT_THAT(found("edges-0-indptr.npy", 3, int64_t{0}), HasSubstr("entry 3 is 0"));
  EXPECT_THAT(found("edges-0-indptr.npy", 4, int64_t{-5}), HasSubstr("entry 4 is -5"));
  EXPECT_THAT(found("edges-0-indices.npy", 4, uint32_t{4}),
              HasSubstr("edges-0-indices.npy: entry 4 is 4, out of range for 4 source nodes"));
  EXPECT_THAT(found("edges-0-indices.npy", 1, uint32_t{3}), HasSubstr("out of order"));
  EXPECT_THAT(found("edges-0-edge_ids.npy", 4, uint32_t{9}),
              HasSubstr("edges-0-edge_ids.npy: entry 4 is 9, out of range for 5 edge ids"));
  EXPECT_THAT(found("edges-0-edge_ids.npy", 4, uint32_t{3}), HasSubstr("an edge id used before"));
  EXPECT_THAT(found("edges-0-edge_ids.npy", 3, uint32_t{0}), HasSubstr("out of order"));
  EXPECT_THAT(found("edges-0-weights.npy", 2, -1.0F), HasSubstr("entry 2 is -1"));
  EXPECT_THAT(found("edges-0-features.npy", 2, std::nanf("")), HasSubstr("not finite"));
  EXPECT_THAT(found("nodes-0-features.npy", 7, HUGE_VALF), HasSubstr("entry 7 is inf"));
  EXPECT_THAT(found("nodes-0-labels.npy", 0, int64_t{3}), HasSubstr("entry 0 is 3, no class"));
  EXPECT_THAT(found("nodes-0-labels.npy", 0, int64_t{-2}), HasSubstr("entry 0 is -2, no class"));
  EXPECT_THAT(found("nodes-0-split-train.npy", 1, int64_t{4}), HasSubstr("entry 1 is 4"));
  EXPECT_THAT(found("nodes-0-name_offsets.npy", 2, int64_t{99}), HasSubstr("entry 2 is 99"));
  EXPECT_THAT(found("nodes-0-name_bytes.npy", 0, '\xFF'), HasSubstr("name 0 is not UTF-8"));
  EXPECT_THAT(found("nodes-0-original_ids.npy", 0, int64_t{-7}), testing::IsEmpty());
}

TEST(Verify, IdsFarApartTakeNoLongerAndRepeatedOnesAreFound) {
  const TempFolder folder;
  StoreWriter writer(folder / "g", {});
  const size_t n = writer.AddNodeType("n", 3);
  // Kept ids that are not the edges' positions.
  writer.AppendEdges(writer.AddEdgeType(n, "to", n), std::vector<int64_t>{2, 1, 0},
                     std::vector<int64_t>{2, 1, 0});
  writer.Commit();
  // As if 2^47 edges had come in and all but three been dropped; a pass for each 2^31 would take
  // hours.
  EditManifest(folder / "g", [](nlohmann::json& manifest) {
    manifest["edge_types"][0]["num_edge_ids"] = int64_t{1} << 47;
  });
  EXPECT_THAT(All(VerifyStore(folder / "g")), testing::IsEmpty());
  Overwrite(folder / "g", "edges-0-edge_ids.npy", 2, uint32_t{2});
  EXPECT_THAT(All(VerifyStore(folder / "g")), HasSubstr("entry 2 is 2, an edge id used before"));
}

TEST(Verify, AnIndptrThatIsCutMeanwhileIsReportedAndNeverFollowed) {
  // At every step of the check, one of which lies between indptr's own check and its use, which
  // then reads zeros: its edges seem to be the last node's, 3, and not those of one beyond it.
  bool used = false;
  for (int step = 1, steps = step + 1; step < steps; ++step) {
    TempFolder folder;
    WriteSmallStore(folder / "g");
    int passed = 0;
    const auto cut = [&](std::string_view, uint64_t, uint64_t) {
      if (++passed == step) std::filesystem::resize_file(folder / "g/edges-0-indptr.npy", 0);
    };
    for (const VerifyProblem& problem : VerifyStore(folder / "g", cut).problems) {
      if (problem.message.find("an edge into node") == std::string::npos) continue;
      used = true;
      EXPECT_THAT(problem.message, HasSubstr("an edge into node 3,"));
    }
    steps = passed;
  }
  EXPECT_TRUE(used) << "no step lies there";
}

TEST(Verify, ReportsEveryBrokenFileAndGoesOn) {
  const TempFolder folder;
  WriteSmallStore(folder / "g");
  std::filesystem::remove(folder / "g/nodes-0-labels.npy");
  std::filesystem::resize_file(folder / "g/edges-1-indices.npy", 70);
  WriteFile(folder / "g/edges-0-times.npy", "not an array");
  const std::string all = All(VerifyStore(folder / "g"));
  EXPECT_THAT(all, HasSubstr("nodes-0-labels.npy: "));
  EXPECT_THAT(all, HasSubstr("edges-1-indices.npy: "));
  EXPECT_THAT(all, HasSubstr("edges-0-times.npy: "));
}

}  // namespace
}  // namespace offpath::graph
