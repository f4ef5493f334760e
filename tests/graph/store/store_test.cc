// Opening a store: what was written is there, and what lies is named.
#include "offpath/graph/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/expect_error.h"
#include "tests/graph/store/sparse_store.h"
#include "tests/graph/store/store_fixture.h"

namespace offpath::graph {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Store, HasWhatWasWritten) {
  const TempFolder folder;
  WriteSmallStore(folder / "g");
  const auto store = Store::Open(folder / "g");
  EXPECT_EQ(store->description(), "small");
  EXPECT_FALSE(store->homogeneous());
  const NodeType& user = store->node_types()[store->NodeTypeIndex("user")];
  EXPECT_EQ(user.count, 4);
  EXPECT_EQ(user.features.dim, 2);
  EXPECT_THAT(std::span(user.features.data, 8), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(user.labels, ElementsAre(0, 2, -1, 1));
  EXPECT_EQ(user.num_classes, 3);
  EXPECT_THAT(user.splits.at("train"), ElementsAre(3, 0));
  EXPECT_THAT(user.splits.at("test"), IsEmpty());
  EXPECT_THAT(user.original_ids, ElementsAre(10, 20, -5, 40));
  EXPECT_EQ(store->NodeName(0, 0), "ann");
  EXPECT_EQ(store->NodeName(0, 1), "");
  EXPECT_EQ(store->NodeName(0, 3), "çelik");
  EXPECT_EQ(store->NodeName(1, 0), "");
  EXPECT_EQ(store->node_types()[1].features.data, nullptr);

  const EdgeType& follows = store->edge_types()[store->EdgeTypeIndex("user", "follows", "user")];
  EXPECT_THAT(std::span(follows.csc.indptr, 5), ElementsAre(0, 1, 1, 5, 5));
  std::vector<int64_t> sources, ids;
  for (uint64_t i = 0; i < 5; ++i) {
    sources.push_back(follows.csc.indices[i]);
    ids.push_back(follows.csc.edge_ids[i]);
  }
  EXPECT_THAT(sources, ElementsAre(3, 0, 1, 1, 2));
  EXPECT_THAT(ids, ElementsAre(0, 2, 1, 3, 4));
  EXPECT_THAT(std::span(follows.csc.weights, 5), ElementsAre(.5F, 2, 1, 3, 0));
  EXPECT_THAT(std::span(follows.csc.times, 5), ElementsAre(7, 5, 6, 4, 3));
  EXPECT_EQ(follows.features.rows, 5);
  const EdgeType& of = store->edge_types()[1];
  EXPECT_EQ(of.csc.edge_ids.data, nullptr);
  EXPECT_EQ(of.csc.weights, nullptr);
  EXPECT_EQ(of.csc.num_src, 3);
  EXPECT_NO_THROW(store->CheckIntact());
}

TEST(Store, NamesThatDoNotExistAreAnsweredWithThoseThatDo) {
  const TempFolder folder;
  WriteSmallStore(folder / "g");
  const auto store = Store::Open(folder / "g");
  EXPECT_ERROR(store->NodeTypeIndex("usr"), ErrorCode::kNotFound, "user, item");
  EXPECT_ERROR(store->NodeTypeIndex(""), ErrorCode::kNotFound, "user, item");
  EXPECT_ERROR(store->EdgeTypeIndex("user", "likes", "user"), ErrorCode::kNotFound,
               "(user, follows, user), (item, of, user)");
  EXPECT_ERROR(store->NodeName(0, 4), ErrorCode::kInvalidArgument, "node 4");
  EXPECT_ERROR(store->NodeName(7, 0), ErrorCode::kInvalidArgument, "type number 7");
  EXPECT_ERROR(Store::Open(folder / "nothing"), ErrorCode::kNotFound, "offpath graph import");
}

// Each edit of the manifest must be refused with a message that names the field.
TEST(Store, ManifestThatLiesIsRefusedByField) {
  const TempFolder folder;
  WriteSmallStore(folder / "g");
  const std::string whole = ReadFile(folder / "g/store.json");
  struct Lie {
    const char* field;
    std::function<void(json&)> edit;
  };
  const auto node = [](json& m) -> json& { return m["node_types"][0]; };
  const auto edge = [](json& m) -> json& { return m["edge_types"][0]; };
  const std::vector<Lie> lies = {
      {"format", [](json& m) { m["format"] = "zip"; }},
      {"format", [](json& m) { m.erase("format"); }},
      {"version", [](json& m) { m["version"] = 2; }},
      {"version", [](json& m) { m["version"] = "1"; }},
      {"version", [](json& m) { m["version"] = -1; }},
      {"description", [](json& m) { m["description"] = 7; }},
      {"node_types", [](json& m) { m["node_types"] = json::object(); }},
      {"node_types", [](json& m) { m.erase("node_types"); }},
      {"node_types", [](json& m) { m["node_types"] = json(std::vector<int>(5000)); }},
      {"node_types[0]", [&](json& m) { m["node_types"][0] = 3; }},
      {"node_types[1].name", [&](json& m) { m["node_types"][1]["name"] = "user"; }},
      {"node_types[0].name", [&](json& m) { node(m)["name"] = "a/b"; }},
      {"node_types[0].name", [&](json& m) { node(m)["name"] = ""; }},
      {"node_types[0].count", [&](json& m) { node(m)["count"] = -1; }},
      {"node_types[0].count", [&](json& m) { node(m)["count"] = 4.0; }},
      {"node_types[0].count", [&](json& m) { node(m)["count"] = uint64_t{1} << 63; }},
      {"node_types[0].features.shape", [&](json& m) { node(m)["count"] = 5; }},
      {"node_types[0]", [&](json& m) { node(m)["colour"] = "red"; }},
      {"node_types[0]", [&](json& m) { node(m).erase("name_bytes"); }},
      {"node_types[0].features.file", [&](json& m) { node(m)["features"]["file"] = "../x.npy"; }},
      {"node_types[0].features.file",
       [&](json& m) { node(m)["features"]["file"] = "/etc/passwd"; }},
      {"node_types[0].features.file", [&](json& m) { node(m)["features"]["file"] = "..npy"; }},
      {"node_types[0].features.file", [&](json& m) { node(m)["features"]["file"] = "store.json"; }},
      {"node_types[0].labels.file",
       [&](json& m) { node(m)["labels"]["file"] = node(m)["features"]["file"]; }},
      {"node_types[0].features.dtype", [&](json& m) { node(m)["features"]["dtype"] = "<f8"; }},
      {"node_types[0].features.dtype", [&](json& m) { node(m)["features"]["dtype"] = nullptr; }},
      {"node_types[0].features.shape", [&](json& m) { node(m)["features"]["shape"] = {4}; }},
      {"node_types[0].features.shape",
       [&](json& m) {
         node(m)["features"]["shape"] = {4, int64_t{1} << 40};
       }},
      {"node_types[0].features.shape",
       [&](json& m) {
         node(m)["features"]["shape"] = {4, "2"};
       }},
      {"node_types[0].features.bytes", [&](json& m) { node(m)["features"]["bytes"] = 3; }},
      {"node_types[0].features.crc32c", [&](json& m) { node(m)["features"]["crc32c"] = "xyz"; }},
      {"node_types[0].splits", [&](json& m) { node(m)["splits"] = json::array(); }},
      {"node_types[0].splits.a b",
       [&](json& m) { node(m)["splits"]["a b"] = node(m)["splits"]["train"]; }},
      {"edge_types[0].src", [&](json& m) { edge(m)["src"] = "nobody"; }},
      {"edge_types[0].dst", [&](json& m) { edge(m)["dst"] = 5; }},
      {"edge_types[0].num_edges", [&](json& m) { edge(m)["num_edges"] = uint64_t{1} << 60; }},
      {"edge_types[0].num_edge_ids", [&](json& m) { edge(m)["num_edge_ids"] = 4; }},
      {"edge_types[1].num_edge_ids", [&](json& m) { m["edge_types"][1]["num_edge_ids"] = 9; }},
      {"edge_types[0].indices", [&](json& m) { edge(m).erase("indices"); }},
      {"edge_types[0].indices.dtype", [&](json& m) { edge(m)["indices"]["dtype"] = "<f4"; }},
      {"edge_types[1]",
       [&](json& m) {
         m["edge_types"][1]["src"] = "user";
         m["edge_types"][1]["relation"] = "follows";
       }},
  };
  for (const Lie& lie : lies) {
    WriteFile(folder / "g/store.json", whole);
    EditManifest(folder / "g", lie.edit);
    try {
      Store::Open(folder / "g");
      ADD_FAILURE() << lie.field << " was believed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(lie.field));
      EXPECT_THAT(error.what(), testing::HasSubstr("store.json"));
    }
  }
}

TEST(Store, ManifestThatIsNoManifestIsRefused) {
  const TempFolder folder;
  WriteSmallStore(folder / "g");
  const std::string whole = ReadFile(folder / "g/store.json");
  const auto open = [&](const std::string& text) {
    WriteFile(folder / "g/store.json", text);
    Store::Open(folder / "g");
  };
  EXPECT_ERROR(open(""), ErrorCode::kCorruptData, "store.json");
  EXPECT_ERROR(open("[]"), ErrorCode::kCorruptData, "not an object");
  EXPECT_ERROR(open(whole.substr(0, whole.size() / 2)), ErrorCode::kCorruptData, "not JSON");
  EXPECT_ERROR(open(std::string(100000, '[')), ErrorCode::kCorruptData, "store.json");
  EXPECT_ERROR(open("{\"format\": 1, \"format\": 2}"), ErrorCode::kCorruptData, "twice");
  EXPECT_ERROR(open(std::string((16 << 20) + 1, ' ')), ErrorCode::kCorruptData, "16 MiB");
  std::string edited = whole;
  edited.replace(edited.find("small"), 5, "large");
  EXPECT_ERROR(open(edited), ErrorCode::kCorruptData, "crc32c");
}

TEST(Store, FileThatIsNotAsTheManifestSaysIsNamed) {
  const TempFolder folder;
  WriteSmallStore(folder / "g");
  const std::string path = folder / "g/edges-0-indptr.npy";
  const std::string whole = ReadFile(path);
  const auto open = [&](const std::string& content) {
    WriteFile(path, content);
    Store::Open(folder / "g");
  };
  EXPECT_ERROR(open(whole.substr(0, whole.size() - 1)), ErrorCode::kCorruptData, "edges-0-indptr");
  EXPECT_ERROR(open(whole + "x"), ErrorCode::kCorruptData, "edges-0-indptr");
  EXPECT_ERROR(open(""), ErrorCode::kCorruptData, "edges-0-indptr");
  std::string other = whole;
  other.replace(other.find("<i8"), 3, "<f8");
  EXPECT_ERROR(open(other), ErrorCode::kCorruptData, "dtype <f8");
  std::string shape = whole;
  shape.replace(shape.find("(5,"), 3, "(4,");
  EXPECT_ERROR(open(shape), ErrorCode::kCorruptData, "shape [4]");
  std::string first = whole;
  first[first.size() - 40] = 1;
  EXPECT_ERROR(open(first), ErrorCode::kCorruptData, "runs from 1 to 5");
  std::string last = whole;
  last[last.size() - 8] = 6;
  EXPECT_ERROR(open(last), ErrorCode::kCorruptData, "runs from 0 to 6");
  std::filesystem::remove(path);
  EXPECT_ERROR(Store::Open(folder / "g"), ErrorCode::kNotFound, "edges-0-indptr");
}

TEST(Store, TruncationWhileItIsOpenIsNamed) {
  const TempFolder folder;
  WriteSmallStore(folder / "g");
  const auto store = Store::Open(folder / "g");
  std::filesystem::resize_file(folder / "g/edges-0-indices.npy", 10);
  EXPECT_ERROR(store->CheckIntact(), ErrorCode::kCorruptData, "edges-0-indices.npy");
}

TEST(Store, KeepsItsDataWhenItIsReplaced) {
  const TempFolder folder;
  WriteSmallStore(folder / "g");
  const auto store = Store::Open(folder / "g");
  WriteSmallStore(folder / "g", true, "new");
  EXPECT_THAT(store->node_types()[0].labels, ElementsAre(0, 2, -1, 1));
  EXPECT_NO_THROW(store->CheckIntact());
  EXPECT_EQ(Store::Open(folder / "g")->description(), "new");
}

TEST(Store, HoldsMoreThanTwoToThe31Edges) {
  const TempFolder folder;
  const uint64_t edges = (uint64_t{1} << 31) + 1000;
  MakeSparseStore(folder / "g", 100, edges, {3, 5, 99});
  const auto store = Store::Open(folder / "g");
  const CscView& csc = store->edge_types()[0].csc;
  EXPECT_EQ(csc.num_edges, static_cast<int64_t>(edges));
  EXPECT_EQ(csc.indptr[99], static_cast<int64_t>(edges - 3));
  EXPECT_EQ(csc.indices[edges - 1], 99);
  EXPECT_EQ(csc.indices[edges - 4], 0);
}

}  // namespace
}  // namespace offpath::graph
