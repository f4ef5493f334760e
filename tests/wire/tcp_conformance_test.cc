#include "tests/wire/conformance.h"

namespace offpath::wire {

namespace {

Transport Tcp(const std::string& name, const std::string& host) {
  return {name,
          [host](const ChannelOptions& options) {
            return ListenTcp({host, 0}, options);
          },
          [](const std::string& address, const ChannelOptions& options, Deadline deadline) {
            return ConnectTcp(ParseTcpAddress(address), options, deadline);
          }};
}

INSTANTIATE_TEST_SUITE_P(Tcp, ChannelConformance, testing::Values(Tcp("IPv4", "127.0.0.1")),
                         TransportName);

}  // namespace

}  // namespace offpath::wire
