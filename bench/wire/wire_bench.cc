// bench_wire [--json] [--seconds S]: tcp channels against plain sockets on loopback.
//
// The peer is the limit at once: a loop of blocking send() and recv() over one connection, with the
// same write sizes, no framing and no checksums. Both sides run in this process, each pair of runs
// one after the other; the pair with the median ratio is printed. Sequence numbers and byte counts
// are checked, payloads by the channel's own checksums. memcpy of the same amount is given for
// scale: loopback tcp copies each byte twice.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/wire/channel.h"

namespace {

using Clock = std::chrono::steady_clock;
using offpath::Deadline;
using offpath::wire::Channel;
using offpath::wire::ChannelOptions;

constexpr size_t kPairs = 7;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

[[noreturn]] void Fail(const std::string& what) {
  fmt::print(stderr, "bench_wire: {}\n", what);
  std::exit(1);
}

Deadline Patience() { return Deadline::After(std::chrono::seconds(60)); }

// What one run moved, and what that took.
struct Run {
  double gigabytes = 0;
  double seconds = 0;
  double cpu_seconds = 0;
  double rate() const { return gigabytes / seconds; }          // GB/s
  double cpu_cost() const { return cpu_seconds / gigabytes; }  // s/GB, both sides together
};

struct Channels {
  std::unique_ptr<Channel> client;
  std::unique_ptr<Channel> server;
};

Channels ConnectChannels(size_t max_payload) {
  ChannelOptions options;
  options.max_payload = max_payload;
  const auto listener = offpath::wire::ListenTcp({"127.0.0.1", 0}, options);
  auto client = std::async(std::launch::async, [&] {
    return offpath::wire::ConnectTcp(offpath::wire::ParseTcpAddress(listener->address()), options,
                                     Patience());
  });
  auto server = listener->Accept(Patience());
  return {client.get(), std::move(server)};
}

Run RunChannel(Channels& channels, size_t frame_bytes, size_t frames) {
  const double cpu = ProcessCpuSeconds();
  const auto start = Clock::now();
  std::thread sender([&] {
    for (size_t i = 0; i < frames; ++i) {
      channels.client->Send(channels.client->AcquireSend(Patience()), {1, 1, i}, frame_bytes,
                            Patience());
    }
  });
  for (size_t i = 0; i < frames; ++i) {
    const auto frame = channels.server->Receive(Patience());
    if (frame.tag().sequence != i || frame.payload().size() != frame_bytes) Fail("a frame is lost");
  }
  const double seconds = Seconds(Clock::now() - start);
  sender.join();
  return {1e-9 * static_cast<double>(frame_bytes * frames), seconds, ProcessCpuSeconds() - cpu};
}

// Two connected blocking sockets.
class RawPair {
 public:
  RawPair() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* name = reinterpret_cast<sockaddr*>(&address);
    sender_ = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, name, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, name, &length) != 0 || connect(sender_, name, length) != 0) {
      Fail("cannot connect plain sockets");
    }
    receiver_ = accept(listener, nullptr, nullptr);
    close(listener);
    const int on = 1;
    setsockopt(sender_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(receiver_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  RawPair(const RawPair&) = delete;
  RawPair& operator=(const RawPair&) = delete;
  ~RawPair() {
    close(sender_);
    close(receiver_);
  }
  int sender() const { return sender_; }
  int receiver() const { return receiver_; }

 private:
  int sender_ = -1;
  int receiver_ = -1;
};

void SendAll(int fd, const char* data, size_t bytes) {
  while (bytes != 0) {
    const ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL);
    if (sent <= 0) Fail("a plain socket broke");
    data += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

Run RunRaw(const RawPair& pair, size_t write_bytes, size_t writes) {
  std::vector<char> out(write_bytes, 'x');
  std::vector<char> in(size_t{256} << 10);
  const double cpu = ProcessCpuSeconds();
  const auto start = Clock::now();
  std::thread sender([&] {
    for (size_t i = 0; i < writes; ++i) SendAll(pair.sender(), out.data(), out.size());
  });
  for (size_t left = write_bytes * writes; left != 0;) {
    const ssize_t got = recv(pair.receiver(), in.data(), std::min(left, in.size()), 0);
    if (got <= 0) Fail("a plain socket broke");
    left -= static_cast<size_t>(got);
  }
  const double seconds = Seconds(Clock::now() - start);
  sender.join();
  return {1e-9 * static_cast<double>(write_bytes * writes), seconds, ProcessCpuSeconds() - cpu};
}

// Seconds a round trip of `bytes`.
double ChannelRoundTrip(Channels& channels, size_t bytes, size_t rounds) {
  std::thread echo([&] {
    for (size_t i = 0; i < rounds; ++i) {
      const auto frame = channels.server->Receive(Patience());
      channels.server->Send(channels.server->AcquireSend(Patience()), frame.tag(),
                            frame.payload().size(), Patience());
    }
  });
  const auto start = Clock::now();
  for (size_t i = 0; i < rounds; ++i) {
    channels.client->Send(channels.client->AcquireSend(Patience()), {1, 1, i}, bytes, Patience());
    if (channels.client->Receive(Patience()).tag().sequence != i) Fail("an echo is lost");
  }
  const double seconds = Seconds(Clock::now() - start);
  echo.join();
  return seconds / static_cast<double>(rounds);
}

double RawRoundTrip(const RawPair& pair, size_t bytes, size_t rounds) {
  const auto receive = [bytes](int fd, char* data) {
    if (recv(fd, data, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) {
      Fail("a plain socket broke");
    }
  };
  std::thread echo([&] {
    std::vector<char> data(bytes);
    for (size_t i = 0; i < rounds; ++i) {
      receive(pair.receiver(), data.data());
      SendAll(pair.receiver(), data.data(), bytes);
    }
  });
  std::vector<char> data(bytes);
  const auto start = Clock::now();
  for (size_t i = 0; i < rounds; ++i) {
    SendAll(pair.sender(), data.data(), bytes);
    receive(pair.sender(), data.data());
  }
  const double seconds = Seconds(Clock::now() - start);
  echo.join();
  return seconds / static_cast<double>(rounds);
}

double MemcpyRate() {
  constexpr size_t kBytes = size_t{64} << 20;
  std::vector<char> from(kBytes, 'x');
  std::vector<char> to(kBytes, 'y');
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    std::memcpy(to.data(), from.data(), kBytes);
    best = std::max(best, 1e-9 * kBytes / Seconds(Clock::now() - start));
    from[static_cast<size_t>(i)] = to[kBytes - 1];
  }
  return best;
}

struct Pair {
  double ours = 0;
  double peer = 0;
};

struct Report {
  std::string name;
  std::string unit;
  bool more_is_better = true;
  std::vector<Pair> pairs;
};

void Print(const Report& report, double memcpy_rate, bool json) {
  const auto ratio = [&](const Pair& pair) {
    return report.more_is_better ? pair.ours / pair.peer : pair.peer / pair.ours;
  };
  std::vector<Pair> pairs = report.pairs;
  std::sort(pairs.begin(), pairs.end(),
            [&](const Pair& a, const Pair& b) { return ratio(a) < ratio(b); });
  const Pair median = pairs[pairs.size() / 2];
  const double spread = ratio(pairs[pairs.size() * 3 / 4]) - ratio(pairs[pairs.size() / 4]);
  if (json) {
    fmt::print(
        "{{\"bench\": \"wire-tcp\", \"case\": \"{}\", \"ours\": {:.6g}, \"peer\": {:.6g}, "
        "\"peer_name\": \"plain sockets\", \"unit\": \"{}\", \"ratio\": {:.4f}, "
        "\"limit_fraction\": {:.4f}, \"spread\": {:.4f}, \"samples\": {}, "
        "\"memcpy GB/s\": {:.4g}}}\n",
        report.name, median.ours, median.peer, report.unit, ratio(median), ratio(median), spread,
        pairs.size(), memcpy_rate);
  } else {
    fmt::print("{:<24} {:>10.4g} {:<8} plain sockets {:>10.4g}   ratio {:.2f} (spread {:.2f})\n",
               report.name, median.ours, report.unit, median.peer, ratio(median), spread);
  }
  std::fflush(stdout);
}

void Throughput(const std::string& name, size_t frame_bytes, double seconds, double memcpy_rate,
                bool json) {
  Channels channels = ConnectChannels(frame_bytes);
  const RawPair raw;
  // Warm up, and size the runs by what was seen.
  const size_t few = std::max<size_t>(16, (size_t{32} << 20) / frame_bytes);
  RunChannel(channels, frame_bytes, few);
  const Run seen = RunRaw(raw, frame_bytes, few);
  const size_t frames =
      std::max(few, static_cast<size_t>(seconds / seen.seconds * static_cast<double>(few)));
  Report rate{name, "GB/s", true, {}};
  Report cpu{"cpu " + name, "s/GB", false, {}};
  for (size_t i = 0; i < kPairs; ++i) {
    const Run ours = RunChannel(channels, frame_bytes, frames);
    const Run peer = RunRaw(raw, frame_bytes, frames);
    rate.pairs.push_back({ours.rate(), peer.rate()});
    cpu.pairs.push_back({ours.cpu_cost(), peer.cpu_cost()});
  }
  Print(rate, memcpy_rate, json);
  Print(cpu, memcpy_rate, json);
}

void RoundTrips(size_t bytes, double seconds, double memcpy_rate, bool json) {
  Channels channels = ConnectChannels(std::max<size_t>(bytes, 4096));
  const RawPair raw;
  constexpr size_t kFew = 500;
  ChannelRoundTrip(channels, bytes, kFew);
  const double seen = RawRoundTrip(raw, bytes, kFew);
  const auto rounds = static_cast<size_t>(seconds / seen) + kFew;
  Report report{fmt::format("round trip {}B", bytes), "us", false, {}};
  for (size_t i = 0; i < kPairs; ++i) {
    const double ours = ChannelRoundTrip(channels, bytes, rounds);
    report.pairs.push_back({1e6 * ours, 1e6 * RawRoundTrip(raw, bytes, rounds)});
  }
  Print(report, memcpy_rate, json);
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  double seconds = 0.3;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--seconds" && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else {
      fmt::print(stderr, "usage: bench_wire [--json] [--seconds OF_ONE_RUN]\n");
      return 2;
    }
  }
  try {
    const double memcpy_rate = MemcpyRate();
    if (!json) fmt::print("memcpy {:.3g} GB/s\n", memcpy_rate);
    Throughput("1MiB frames", size_t{1} << 20, seconds, memcpy_rate, json);
    Throughput("64KiB frames", size_t{64} << 10, seconds, memcpy_rate, json);
    Throughput("1KiB frames", size_t{1} << 10, seconds, memcpy_rate, json);
    RoundTrips(64, seconds, memcpy_rate, json);
  } catch (const offpath::Error& error) {
    Fail(error.what());
  }
  return 0;
}
