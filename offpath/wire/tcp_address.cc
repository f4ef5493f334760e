#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>

#include <charconv>
#include <string>
#include <string_view>

#include "offpath/base/error.h"
#include "offpath/wire/channel.h"

namespace offpath::wire {

namespace {

[[noreturn]] void FailAddress(const std::string& text, std::string_view problem) {
  throw Error(ErrorCode::kInvalidArgument,
              "address '" + text + "' " + std::string(problem) +
                  "; write HOST:PORT or [IPV6]:PORT, such as 127.0.0.1:7000 or [::1]:7000");
}

}  // namespace

TcpAddress ParseTcpAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) FailAddress(text, "has no port");
  TcpAddress address;
  address.host = text.substr(0, colon);
  if (address.host.size() >= 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
    // A scope such as %eth0 may follow the number.
    const std::string number = address.host.substr(0, address.host.find('%'));
    in6_addr parsed{};
    if (inet_pton(AF_INET6, number.c_str(), &parsed) != 1) {
      FailAddress(text, "has brackets around what is not an IPv6 address");
    }
  } else if (address.host.find_first_of("[]:") != std::string::npos) {
    FailAddress(text, "needs brackets around its IPv6 address");
  }
  if (address.host.empty()) FailAddress(text, "has no host");
  for (const char c : address.host) {
    if (c <= ' ' || c == 0x7f || c == '/') FailAddress(text, "has a host that cannot be one");
  }
  const char* begin = text.data() + colon + 1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, address.port);
  if (begin == end || error != std::errc() || stop != end) {
    FailAddress(text, "has a port that is not a number from 0 to 65535");
  }
  return address;
}

std::string FormatTcpAddress(const TcpAddress& address) {
  const bool ipv6 = address.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

bool IsLoopback(const TcpAddress& address) {
  if (strcasecmp(address.host.c_str(), "localhost") == 0) return true;
  in_addr v4{};
  if (inet_pton(AF_INET, address.host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, address.host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace offpath::wire
