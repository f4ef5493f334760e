#include "offpath/attention/profile/budget_json.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

#include "offpath/attention/profile/machine.h"
#include "offpath/base/error.h"
#include "offpath/base/json_fields.h"
#include "offpath/base/mapped_file.h"
#include "offpath/base/write_at.h"

namespace offpath::attention {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kFormat = "offpath-budgets";
constexpr uint64_t kVersion = 1;
constexpr int kMaxDepth = 6;
constexpr size_t kMaxRows = 256;
constexpr size_t kMaxTimes = 256;
constexpr uint64_t kMaxTokens = uint64_t{1} << 40;
constexpr uint64_t kMaxBlocks = uint64_t{1} << 32;
constexpr uint64_t kMaxCount = 1 << 20;  // layers, heads, threads, cores
constexpr uint64_t kMaxNs = uint64_t{1} << 60;

MachineIdentity ParseMachine(const json& value, const std::string& where) {
  JsonFields fields(value, where);
  MachineIdentity machine;
  machine.cpu = fields.Text("cpu");
  machine.cores = fields.Number("cores", 1, kMaxCount);
  machine.target = fields.Text("target");
  fields.Finish();
  return machine;
}

ProfileShape ParseShape(const json& value, const std::string& where) {
  JsonFields fields(value, where);
  ProfileShape shape;
  // What names and KV shapes there are is theirs to say; the file is what is wrong.
  const auto check = [&](const char* field, auto parse) {
    try {
      return parse();
    } catch (const Error& error) {
      FailJson(fields.Path(field), "is no good: " + std::string(error.message()));
    }
  };
  shape.layers = fields.Number("layers", 1, kMaxCount);
  shape.query_heads = fields.Number("query_heads", 1, kMaxCount);
  shape.kv_heads = fields.Number("kv_heads", 1, kMaxCount);
  shape.kv.head_dim = fields.Number("head_dim", 1, kMaxCount);
  const std::string type = fields.Text("type");
  shape.kv.type = check("type", [&] { return ParseKvType(type); });
  shape.kv.block_tokens = fields.Number("block_tokens", 1, kMaxCount);
  shape.selector = fields.Text("selector");
  const std::string scan = fields.Text("scan");
  shape.scan = check("scan", [&] { return ParseScan(scan); });
  const std::string predictor = fields.Text("predictor");
  shape.predictor = check("predictor", [&] { return ParsePredictor(predictor); });
  shape.budget_tokens = fields.Number("budget_tokens", 1, kMaxTokens);
  shape.threads = fields.Number("threads", 1, kMaxCount);
  const std::string tier = fields.Text("tier");
  if (tier != ProfiledTierName(ProfiledTier::kMemory) &&
      tier != ProfiledTierName(ProfiledTier::kFile)) {
    FailJson(fields.Path("tier"), "is '" + tier + "', not memory or file");
  }
  shape.tier =
      tier == ProfiledTierName(ProfiledTier::kFile) ? ProfiledTier::kFile : ProfiledTier::kMemory;
  shape.hot_blocks = fields.Number("hot_blocks", 0, kMaxBlocks);
  check("head_dim", [&] {
    CheckShape(shape.kv);
    return 0;
  });
  fields.Finish();
  return shape;
}

BudgetRow ParseRow(const json& value, const std::string& where) {
  JsonFields fields(value, where);
  BudgetRow row;
  row.tokens = fields.Number("tokens", 1, kMaxTokens);
  row.selection_ns = fields.Number("selection_ns", 0, kMaxNs);
  row.window_ns = fields.Number("window_ns", 0, kMaxNs);
  row.overhead_ns = fields.Number("overhead_ns", 0, kMaxNs);
  row.saving_ns = fields.Number("saving_ns", 0, kMaxNs);
  const json& times = fields.List("times", kMaxTimes);
  for (size_t i = 0; i < times.size(); ++i) {
    JsonFields time(times[i], fields.Path("times[" + std::to_string(i) + "]"));
    row.times.push_back(
        {.blocks = time.Number("blocks", 1, kMaxBlocks), .ns = time.Number("ns", 0, kMaxNs)});
    time.Finish();
  }
  const uint64_t fits = fields.Number("fits", 0, kMaxBlocks);
  if (fits != FittingBlocks(row)) {
    FailJson(fields.Path("fits"), "is " + std::to_string(fits) +
                                      ", which does not follow from the row: it gives " +
                                      std::to_string(FittingBlocks(row)));
  }
  fields.Finish();
  return row;
}

ordered_json RowJson(const BudgetRow& row) {
  ordered_json times = ordered_json::array();
  for (const SpeculationTime& time : row.times) {
    times.push_back({{"blocks", time.blocks}, {"ns", time.ns}});
  }
  return {{"tokens", row.tokens},
          {"selection_ns", row.selection_ns},
          {"window_ns", row.window_ns},
          {"overhead_ns", row.overhead_ns},
          {"saving_ns", row.saving_ns},
          {"fits", FittingBlocks(row)},
          {"times", times}};
}

}  // namespace

BudgetTable ParseBudgetTable(std::string_view text, std::string_view context) {
  if (text.size() > kMaxBudgetBytes) FailJson(context, "is larger than 1 MiB: no budget table is");
  const json root = ParseJson(text, context, kMaxDepth);
  const std::string where = std::string(context) + ": the table";
  JsonFields fields(root, where);
  if (fields.Text("format") != kFormat) FailJson(fields.Path("format"), "is not offpath-budgets");
  const uint64_t version = fields.Number("version", 0, kMaxNs);
  if (version != kVersion) {
    throw Error(ErrorCode::kUnsupported,
                fields.Path("version") + " is " + std::to_string(version) +
                    "; this build reads 1: measure again with `offpath attention profile`");
  }
  BudgetTable table;
  table.machine = ParseMachine(fields.Get("machine"), fields.Path("machine"));
  table.shape = ParseShape(fields.Get("shape"), fields.Path("shape"));
  const json& rows = fields.List("rows", kMaxRows);
  for (size_t i = 0; i < rows.size(); ++i) {
    table.rows.push_back(ParseRow(rows[i], fields.Path("rows[" + std::to_string(i) + "]")));
  }
  fields.Finish();
  try {
    CheckBudgetTable(table);
  } catch (const Error& error) {
    FailJson(std::string(context) + ":", error.message());
  }
  return table;
}

std::string FormatBudgetTable(const BudgetTable& table) {
  CheckBudgetTable(table);
  const ProfileShape& shape = table.shape;
  ordered_json rows = ordered_json::array();
  for (const BudgetRow& row : table.rows) rows.push_back(RowJson(row));
  const ordered_json root = {{"format", kFormat},
                             {"version", kVersion},
                             {"machine",
                              {{"cpu", table.machine.cpu},
                               {"cores", table.machine.cores},
                               {"target", table.machine.target}}},
                             {"shape",
                              {{"layers", shape.layers},
                               {"query_heads", shape.query_heads},
                               {"kv_heads", shape.kv_heads},
                               {"head_dim", shape.kv.head_dim},
                               {"type", KvTypeName(shape.kv.type)},
                               {"block_tokens", shape.kv.block_tokens},
                               {"selector", shape.selector},
                               {"scan", ScanName(shape.scan)},
                               {"predictor", PredictorName(shape.predictor)},
                               {"budget_tokens", shape.budget_tokens},
                               {"threads", shape.threads},
                               {"tier", ProfiledTierName(shape.tier)},
                               {"hot_blocks", shape.hot_blocks}}},
                             {"rows", rows}};
  return root.dump(1) + "\n";
}

BudgetTable ReadBudgetTable(const std::string& path) {
  const MappedFile file(path, AccessPattern::kSequential);
  const auto bytes = file.bytes();
  if (bytes.size() > kMaxBudgetBytes) FailJson(path, "is larger than 1 MiB: no budget table is");
  // A copy: the parser must not meet a file that changes under it.
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  file.CheckIntact();
  return ParseBudgetTable(text, path);
}

std::vector<SpeculationStep> ReadSpeculation(const std::string& path, const DecoderOptions& options,
                                             size_t threads, OtherTable other) {
  const BudgetTable table = ReadBudgetTable(path);
  try {
    return SpeculationOf(table, ThisMachine(), ShapeOf(options, threads), other);
  } catch (const Error& error) {
    throw Error(error.code(), path + ": " + std::string(error.message()));
  }
}

void WriteBudgetTable(const BudgetTable& table, const std::string& path) {
  const std::string text = FormatBudgetTable(table);
  const std::string staged = path + ".new-" + std::to_string(getpid());
  const int fd = open(staged.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) ThrowErrno(errno, "making " + staged);
  try {
    WriteAt(fd, std::as_bytes(std::span(text)), 0, "writing " + staged);
    if (fsync(fd) != 0) ThrowErrno(errno, "writing " + staged);
    if (std::rename(staged.c_str(), path.c_str()) != 0) ThrowErrno(errno, "making " + path);
  } catch (...) {
    close(fd);
    unlink(staged.c_str());
    throw;
  }
  close(fd);
}

}  // namespace offpath::attention
