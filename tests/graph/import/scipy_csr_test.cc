// SciPy's matrices: which way edges point, and archives that contradict themselves.
#include "offpath/graph/import/scipy_csr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "offpath/graph/store/verify.h"
#include "tests/base/expect_error.h"
#include "tests/graph/import/edges_of.h"

namespace offpath::graph {
namespace {

using testing::ElementsAre;
using testing::Pair;

using Arrays = std::map<std::string, std::string>;

// [[0 1 2] [0 0 0] [3 0 4]] by rows.
Arrays Csr() {
  return {{"format", NpyText("csr", false)},
          {"shape", NpyBytes<int64_t>("<i8", "2,", {3, 3})},
          {"indptr", NpyBytes<int32_t>("<i4", "4,", {0, 2, 2, 4})},
          {"indices", NpyBytes<int32_t>("<i4", "4,", {1, 2, 0, 2})},
          {"data", NpyBytes<double>("<f8", "4,", {1, 2, 3, 4})}};
}

std::shared_ptr<const Store> Import(const TempFolder& folder, const Arrays& arrays,
                                    const ScipyOptions& options = {}) {
  WriteNpz(folder / "m.npz", arrays);
  ImportScipy(folder / "m.npz", options, folder / "g",
              {.replace = true, .description = {}, .progress = {}}, {});
  EXPECT_TRUE(VerifyStore(folder / "g").ok());
  return Store::Open(folder / "g");
}

TEST(ScipyCsr, ARowIsTheSourceOfItsEntries) {
  const TempFolder folder;
  const auto store = Import(folder, Csr(), {.weights = true, .nodes = {}});
  const CscView& csc = store->edge_types()[0].csc;
  EXPECT_TRUE(store->homogeneous());
  EXPECT_THAT(EdgesById(csc), ElementsAre(Pair(0, 1), Pair(0, 2), Pair(2, 0), Pair(2, 2)));
  EXPECT_THAT(std::span(csc.weights, 4), ElementsAre(3, 1, 2, 4));
  EXPECT_EQ(Import(folder, Csr())->edge_types()[0].csc.weights, nullptr);
}

TEST(ScipyCsr, AColumnIsTheDestinationInCsc) {
  const TempFolder folder;
  Arrays arrays = Csr();
  arrays["format"] = NpyText("csc", true);
  EXPECT_THAT(EdgesById(Import(folder, arrays)->edge_types()[0].csc),
              ElementsAre(Pair(1, 0), Pair(2, 0), Pair(0, 2), Pair(2, 2)));
}

TEST(ScipyCsr, CooHasPairs) {
  const TempFolder folder;
  const Arrays arrays = {{"format", NpyText("coo", false)},
                         {"shape", NpyBytes<int64_t>("<i8", "2,", {2, 2})},
                         {"row", NpyBytes<int32_t>("<i4", "2,", {1, 0})},
                         {"col", NpyBytes<int32_t>("<i4", "2,", {0, 0})},
                         {"data", NpyBytes<uint8_t>("|b1", "2,", {1, 1})}};
  EXPECT_THAT(EdgesById(Import(folder, arrays)->edge_types()[0].csc),
              ElementsAre(Pair(1, 0), Pair(0, 0)));
}

TEST(ScipyCsr, AMatrixThatIsNotSquareHasTwoNodeTypes) {
  const TempFolder folder;
  Arrays arrays = Csr();
  arrays["shape"] = NpyBytes<int64_t>("<i8", "2,", {3, 5});
  const auto store = Import(folder, arrays);
  EXPECT_EQ(store->node_types()[0].name, "row");
  EXPECT_EQ(store->node_types()[1].name, "col");
  EXPECT_EQ(store->edge_types()[0].csc.num_dst, 5);
  EXPECT_ERROR(Import(folder, arrays, {.both_ways = true, .nodes = {}}),
               ErrorCode::kInvalidArgument, "3 by 5");
}

TEST(ScipyCsr, EmptyMatricesAreGraphs) {
  const TempFolder folder;
  Arrays arrays = Csr();
  arrays["shape"] = NpyBytes<int64_t>("<i8", "2,", {0, 0});
  arrays["indptr"] = NpyBytes<int32_t>("<i4", "1,", {0});
  arrays["indices"] = NpyBytes<int32_t>("<i4", "0,", {});
  arrays["data"] = NpyBytes<double>("<f8", "0,", {});
  EXPECT_EQ(Import(folder, arrays)->node_types()[0].count, 0);
}

TEST(ScipyCsr, ArchivesThatContradictThemselvesAreNamed) {
  const TempFolder folder;
  const auto refuse = [&](const std::string& array, const std::string& bytes, ErrorCode code,
                          const char* part) {
    Arrays arrays = Csr();
    if (bytes.empty()) {
      arrays.erase(array);
    } else {
      arrays[array] = bytes;
    }
    EXPECT_ERROR(Import(folder, arrays), code, part);
  };
  const auto corrupt = ErrorCode::kCorruptData;
  for (const char* array : {"format", "shape", "indptr", "indices", "data"}) {
    refuse(array, "", corrupt, (std::string("'") + array + "' is missing").c_str());
  }
  refuse("format", NpyText("dia", false), ErrorCode::kUnsupported, "'dia'");
  refuse("format", NpyBytes<int64_t>("<i8", "1,", {3}), corrupt, "is not one string");
  refuse("shape", NpyBytes<int64_t>("<i8", "2,", {-3, 3}), corrupt, "m.npz: shape");
  refuse("shape", NpyBytes<int64_t>("<i8", "3,", {3, 3, 3}), corrupt, "two sizes");
  refuse("shape", NpyBytes<int64_t>("<i8", "2,", {4, 3}), corrupt, "4 entries where");
  refuse("indptr", NpyBytes<int32_t>("<i4", "4,", {0, 3, 2, 4}), corrupt, "falls at 2");
  refuse("indptr", NpyBytes<int32_t>("<i4", "4,", {1, 2, 2, 4}), corrupt, "start at 0");
  refuse("indptr", NpyBytes<int32_t>("<i4", "4,", {0, 2, 2, 5}), corrupt, "ends at 5");
  refuse("indptr", NpyBytes<int32_t>("<i4", "4,", {0, -2, 2, 4}), corrupt, "falls at 1");
  refuse("indices", NpyBytes<int32_t>("<i4", "4,", {1, 2, 0, 3}), ErrorCode::kInvalidArgument,
         "edge 3 (2 -> 3)");
  refuse("data", NpyBytes<double>("<f8", "3,", {1, 2, 3}), corrupt, "3 values for 4 entries");
  WriteFile(folder / "m.npz", "PK but no archive");
  EXPECT_ERROR(ImportScipy(folder / "m.npz", {}, folder / "h", {}, {}), corrupt, "m.npz");
}

}  // namespace
}  // namespace offpath::graph
