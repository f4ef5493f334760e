#include "offpath/attention/profile/budget_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "offpath/attention/profile/machine.h"
#include "offpath/base/error.h"
#include "tests/attention/profile/sample_table.h"
#include "tests/base/temp_folder.h"

namespace offpath::attention {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

TEST(BudgetJson, WhatIsWrittenIsRead) {
  const TempFolder folder;
  BudgetTable table = SampleTable();
  table.machine = ThisMachine();
  WriteBudgetTable(table, folder / "budgets.json");
  EXPECT_EQ(ReadBudgetTable(folder / "budgets.json"), table);
  table.shape.tier = ProfiledTier::kFile;
  table.shape.hot_blocks = 64;
  WriteBudgetTable(table, folder / "budgets.json");
  EXPECT_EQ(ReadBudgetTable(folder / "budgets.json"), table);
  // Nothing else is left in the folder.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "."),
                          std::filesystem::directory_iterator()),
            1);
}

// The Error of a table with one value changed.
Error ErrorOf(const std::function<void(json&)>& change) {
  json root = json::parse(FormatBudgetTable(SampleTable()));
  change(root);
  try {
    ParseBudgetTable(root.dump(), "b.json");
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "was read: " << root.dump();
  return {ErrorCode::kInternal, ""};
}

TEST(BudgetJson, WhatIsWrongIsNamed) {
  const auto corrupt = [](const std::function<void(json&)>& change, const char* named) {
    const Error error = ErrorOf(change);
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << error.what();
    EXPECT_THAT(std::string(error.message()), AllOf(HasSubstr("b.json"), HasSubstr(named)));
  };
  corrupt([](json& t) { t.erase("rows"); }, "the table.rows is missing");
  corrupt([](json& t) { t["rows"] = json::array(); }, "no rows");
  corrupt([](json& t) { t["rows"] = 3; }, "rows is not a list");
  corrupt([](json& t) { t["rows"][0].erase("times"); }, "rows[0].times is missing");
  corrupt([](json& t) { t["rows"][1]["tokens"] = 100; }, "row 1");
  corrupt([](json& t) { t["rows"][1]["window_ns"] = -1; }, "rows[1].window_ns");
  corrupt([](json& t) { t["rows"][1]["window_ns"] = 1e30; }, "rows[1].window_ns");
  corrupt([](json& t) { t["rows"][1]["window_ns"] = 1; }, "rows[1].fits");
  corrupt([](json& t) { t["rows"][0]["times"][0]["blocks"] = 0; }, "rows[0].times[0].blocks");
  corrupt([](json& t) { t["shape"]["kv_heads"] = 0; }, "shape.kv_heads");
  corrupt([](json& t) { t["shape"]["head_dim"] = 7; }, "shape.head_dim");
  corrupt([](json& t) { t["shape"]["type"] = "f8"; }, "shape.type");
  corrupt([](json& t) { t["shape"]["predictor"] = "luck"; }, "shape.predictor");
  corrupt([](json& t) { t["shape"]["scan"] = "twice"; }, "shape.scan");
  corrupt([](json& t) { t["shape"]["tier"] = "tape"; }, "shape.tier");
  corrupt([](json& t) { t["machine"]["cpu"] = std::string(201, 'x'); }, "machine.cpu");
  corrupt([](json& t) { t["machine"]["cpu"] = "a\nb"; }, "machine.cpu");
  corrupt([](json& t) { t["more"] = 1; }, "does not know");
  corrupt([](json& t) { t["format"] = "offpath-store"; }, "format");
  EXPECT_EQ(ErrorOf([](json& t) { t["version"] = 2; }).code(), ErrorCode::kUnsupported);
}

TEST(BudgetJson, TextThatIsNoTableIsRefused) {
  const auto refused = [](const std::string& text) {
    EXPECT_THROW(ParseBudgetTable(text, "b.json"), Error) << text.substr(0, 40);
  };
  const std::string good = FormatBudgetTable(SampleTable());
  refused("");
  refused("null");
  for (size_t cut = 0; cut + 2 < good.size(); cut += 7) refused(good.substr(0, cut));
  refused(std::string(100000, '['));
  refused(std::string(kMaxBudgetBytes + 1, ' '));
  std::string twice = good;
  twice.insert(1, "\"version\": 1,");
  refused(twice);
}

TEST(BudgetJson, FilesThatCannotBeReadOrWrittenAreNamed) {
  const TempFolder folder;
  try {
    ReadBudgetTable(folder / "none.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(std::string(error.message()), HasSubstr("none.json"));
  }
  EXPECT_THROW(WriteBudgetTable(SampleTable(), folder / "no/where.json"), Error);
}

TEST(BudgetJson, ADecoderReadsWhatItsMachineAndShapeAllow) {
  const TempFolder folder;
  DecoderOptions options;
  options.cache.shape = {.type = KvType::kF16, .head_dim = 64, .block_tokens = 16};
  options.cache.layers = 30;
  options.cache.kv_heads = 3;
  options.query_heads = 9;
  options.policy.policy = Policy::kPrr;
  BudgetTable table = SampleTable();
  WriteBudgetTable(table, folder / "other.json");
  try {
    ReadSpeculation(folder / "other.json", options, 2, OtherTable::kRefuse);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(std::string(error.message()),
                AllOf(HasSubstr("other.json"), HasSubstr("another machine")));
  }
  const std::vector<SpeculationStep> forced =
      ReadSpeculation(folder / "other.json", options, 2, OtherTable::kForce);
  EXPECT_FALSE(forced.empty());
  table.machine = ThisMachine();
  WriteBudgetTable(table, folder / "own.json");
  EXPECT_EQ(ReadSpeculation(folder / "own.json", options, 2, OtherTable::kRefuse), forced);
  EXPECT_THROW(ReadSpeculation(folder / "own.json", options, 3, OtherTable::kRefuse), Error);
}

TEST(CpuModel, IsWhatTheProcessorSays) {
  EXPECT_EQ(CpuModel("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9B14 \nflags: x\n"),
            "AMD EPYC 9B14");
  EXPECT_EQ(CpuModel("CPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n"),
            "Arm 0x41 0xd0c 0x3");
  EXPECT_EQ(CpuModel(""), "unknown");
  EXPECT_EQ(CpuModel("model name\nmodel name :\nmodel name : \xff\n"), "?");
  EXPECT_EQ(CpuModel("model name : " + std::string(500, 'x')).size(), 200U);
}

}  // namespace
}  // namespace offpath::attention
