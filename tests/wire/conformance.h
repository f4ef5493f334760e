// What every transport promises, tested once for all of them.
//
// A transport joins with one line in its own test file, linked with conformance.cc and
// conformance_end.cc:
//
//   INSTANTIATE_TEST_SUITE_P(Tcp, ChannelConformance, testing::Values(TcpTransport()),
//   TransportName);
//
// Each test makes its own listener and peers; nothing is shared between tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "offpath/base/deadline.h"
#include "offpath/base/error.h"
#include "offpath/wire/channel.h"

namespace offpath::wire {

struct Transport {
  std::string name;
  std::function<std::unique_ptr<Listener>(const ChannelOptions&)> listen;
  // `address` is the listener's. Also called in a child process.
  std::function<std::unique_ptr<Channel>(const std::string& address, const ChannelOptions&,
                                         Deadline)>
      connect;
};

inline void PrintTo(const Transport& transport, std::ostream* out) { *out << transport.name; }

inline std::string TransportName(const testing::TestParamInfo<Transport>& info) {
  return info.param.name;
}

struct ChannelPair {
  std::unique_ptr<Channel> client;
  std::unique_ptr<Channel> server;
};

// Long enough for a loaded machine under a sanitizer; no test that passes waits for it.
inline Deadline Soon() { return Deadline::After(std::chrono::seconds(60)); }
// For what must not happen.
inline Deadline Briefly() { return Deadline::After(std::chrono::milliseconds(50)); }

// Sends `payload` as one frame.
void SendBytes(Channel& channel, const FrameTag& tag, const std::vector<std::byte>& payload,
               Deadline deadline = Soon());
// Bytes that depend on the seed and the position.
std::vector<std::byte> Pattern(size_t bytes, uint64_t seed);
std::vector<std::byte> PayloadOf(const ReceivedFrame& frame);

// The Error that `action` throws; a test failure and kInternal where it throws none.
Error ErrorOf(const std::function<void()>& action);

class ChannelConformance : public testing::TestWithParam<Transport> {
 protected:
  ChannelPair Connect(const ChannelOptions& client_options, const ChannelOptions& server_options);
  ChannelPair Connect(const ChannelOptions& options) { return Connect(options, options); }
  static ChannelOptions Small() {
    ChannelOptions options;
    options.max_payload = 4096;
    options.send_buffers = 4;
    options.receive_buffers = 4;
    return options;
  }
};

}  // namespace offpath::wire
