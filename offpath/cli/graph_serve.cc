// `offpath graph serve`: a memory node over a store, on a lane.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/option_checks.h"
#include "offpath/codec/rows.h"
#include "offpath/graph/serve/memory_node.h"
#include "offpath/graph/store/store.h"
#include "offpath/lane/lane.h"

namespace offpath::cli {
namespace {

constexpr uint64_t kMostBlock = uint64_t{1} << 24;  // as many columns as a row can have
constexpr double kMostQuota = 1e6;                  // percent; a lane's own bound
constexpr uint64_t kMostWorkers = 1024;
constexpr uint64_t kMostClients = 65536;
constexpr double kMostBatchMib = 1 << 20;

struct Options {
  std::string store;
  std::string listen = "127.0.0.1:7077";
  bool unauthenticated = false;
  std::string cores;
  double quota = 0;
  std::string features = "f32";
  uint32_t block = 0;
  std::string rounding = "nearest";
  size_t workers = 0;
  size_t max_clients = 64;
  double max_batch_mib = 1024;
  double frame_mib = 1;
  size_t send_buffers = 8;
  double grace_s = 10;
  bool json = false;
  bool quiet = false;
};

codec::RowFormat FormatOf(const Options& options) {
  codec::RowFormat format;
  format.type = codec::ParseRowType(options.features);
  format.block = options.block;
  format.rounding = options.rounding == "stochastic" ? codec::Rounding::kStochastic
                                                     : codec::Rounding::kNearestEven;
  return format;
}

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

void PrintEnd(const Options& options, const graph::MemoryNodeStats& stats, const LaneUsage& usage) {
  if (options.json) {
    PrintJsonLine({{"event", "stopped"},
                   {"clients", stats.clients_total},
                   {"requests", stats.requests},
                   {"batches", stats.batches},
                   {"bytes_sent", stats.bytes_sent},
                   {"cpu_s", Seconds(usage.cpu)},
                   {"wall_s", Seconds(usage.wall)},
                   {"throttled_s", Seconds(usage.throttled)}});
    return;
  }
  std::printf(
      "served %llu clients, %llu requests, %llu near batches, %.1f MB; %.1f s of processor\n",
      static_cast<unsigned long long>(stats.clients_total),
      static_cast<unsigned long long>(stats.requests),
      static_cast<unsigned long long>(stats.batches), static_cast<double>(stats.bytes_sent) / 1e6,
      Seconds(usage.cpu));
}

void Serve(const Options& options) {
  // Before any thread starts, so that all are in the lane.
  LaneSpec spec;
  if (!options.cores.empty()) spec.cores = ParseCoreList(options.cores);
  spec.quota_percent = options.quota;
  const Lane lane(spec);
  const LaneReport& report = lane.report();
  if (!report.message.empty()) std::fprintf(stderr, "%s\n", report.message.c_str());

  graph::MemoryNodeOptions node_options;
  node_options.listen = wire::ParseTcpAddress(options.listen);
  node_options.unauthenticated = options.unauthenticated;
  node_options.workers = options.workers != 0 ? options.workers : report.cores.size();
  node_options.max_clients = options.max_clients;
  node_options.max_batch_bytes = static_cast<uint64_t>(options.max_batch_mib * 1048576);
  node_options.features = FormatOf(options);
  node_options.channel.max_payload = static_cast<size_t>(options.frame_mib * 1048576);
  node_options.channel.send_buffers = options.send_buffers;
  auto log_mutex = std::make_shared<std::mutex>();
  if (!options.quiet) {
    node_options.log = [log_mutex](const std::string& line) {
      const std::lock_guard lock(*log_mutex);
      std::fprintf(stderr, "%s\n", line.c_str());
    };
  }
  // Noted from here on, so that a signal during the start is not lost.
  const StopSignals signals;
  graph::MemoryNode node(graph::Store::Open(options.store), node_options);
  node.Start();
  if (options.json) {
    PrintJsonLine({{"event", "listening"},
                   {"address", node.address()},
                   {"cores", report.cores},
                   {"quota_set", report.quota_set},
                   {"message", report.message}});
  } else {
    std::printf(
        "serving %s on %s (cores %s%s)\n", options.store.c_str(), node.address().c_str(),
        FormatCoreList(report.cores).c_str(),
        report.quota_set
            ? (", quota " + std::to_string(static_cast<int>(options.quota)) + "% of a core").c_str()
            : "");
    std::fflush(stdout);
  }
  while (!signals.Wait(Deadline::After(std::chrono::hours(24)))) {
  }
  node.Stop(std::chrono::nanoseconds(static_cast<int64_t>(options.grace_s * 1e9)));
  PrintEnd(options, node.stats(), lane.Usage());
}

}  // namespace

void AddGraphServe(CLI::App& graph) {
  auto options = std::make_shared<Options>();
  CLI::App* command = graph.add_subcommand(
      "serve", "Be a memory node: sample, quantize and stream batches of a store");
  command->add_option("STORE", options->store, "The store's folder")->required();
  command->add_option("--listen", options->listen, "Address to listen on; port 0 chooses one")
      ->capture_default_str()
      ->check(ParsedBy(wire::ParseTcpAddress));
  command->add_flag("--unauthenticated", options->unauthenticated,
                    "Serve on an address that is not loopback; anyone who reaches it can read the "
                    "graph");
  command->add_option("--cores", options->cores, "Cores to run on, such as 0 or 0,2-3")
      ->check(ParsedBy(ParseCoreList));
  command->add_option("--quota", options->quota, "Processor time in percent of one core")
      ->check(Number(0, kMostQuota));
  command
      ->add_option("--features", options->features,
                   "How feature rows travel where the client leaves it to the node: f32 f16 bf16 "
                   "i8 i4 i2")
      ->capture_default_str()
      ->check(ParsedBy(codec::ParseRowType));
  command
      ->add_option("--block", options->block,
                   "Columns that share a scale (i8, i4, i2); 0: the whole row")
      ->capture_default_str()
      ->check(WholeNumber(0, kMostBlock));
  command->add_option("--rounding", options->rounding, "nearest or stochastic")
      ->check(CLI::IsMember({"nearest", "stochastic"}))
      ->capture_default_str();
  command->add_option("--workers", options->workers, "Threads a client; 0: one a core")
      ->check(WholeNumber(0, kMostWorkers));
  command->add_option("--max-clients", options->max_clients, "Clients at once")
      ->capture_default_str()
      ->check(WholeNumber(1, kMostClients));
  command
      ->add_option("--max-batch-mib", options->max_batch_mib,
                   "Refuse a batch whose nodes and edges take more, 32 bytes an edge, in MiB")
      ->check(Number(1, kMostBatchMib))
      ->capture_default_str();
  command->add_option("--frame-mib", options->frame_mib, "Largest frame, in MiB")
      ->check(Number(0.0625, 64))
      ->capture_default_str();
  command->add_option("--send-buffers", options->send_buffers, "Frames in flight a client")
      ->check(WholeNumber(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--grace", options->grace_s, "Seconds to finish accepted requests after SIGTERM")
      ->check(Number(0, 3600))
      ->capture_default_str();
  command->add_flag("--json", options->json, kJsonHelp);
  command->add_flag("--quiet", options->quiet, "Do not log clients that come and go");
  command->footer(
      "Example:\n  offpath graph serve rmat.store --listen 127.0.0.1:7077 --cores 0 --quota 50 "
      "--features i8");
  command->callback([options] { Serve(*options); });
}

}  // namespace offpath::cli
