#include "runtime/control/network.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace cohort::control {

Expected<Address> parse_address(const std::string& text) {
  const Error bad{Errc::invalid_argument, fmt::format("\"{}\" is no address: say HOST:PORT", text)};
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad;
  Address address{text.substr(0, colon), 0};
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data() + colon + 1, end, address.port);
  if (error != std::errc{} || rest != end || address.port == 0) return bad;
  const bool is_bracketed = address.host.front() == '[' && address.host.back() == ']';
  if (is_bracketed) address.host = address.host.substr(1, address.host.size() - 2);
  if (address.host.empty() || (!is_bracketed && address.host.find(':') != std::string::npos))
    return bad;
  return address;
}

std::string to_text(const Address& address) {
  return address.host.find(':') == std::string::npos
             ? fmt::format("{}:{}", address.host, address.port)
             : fmt::format("[{}]:{}", address.host, address.port);
}

bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  return host == "localhost" || host == "::1";
}

Expected<std::string> address_towards(const Address& peer) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (int code =
          ::getaddrinfo(peer.host.c_str(), std::to_string(peer.port).c_str(), &hints, &found);
      code != 0)
    return Error{Errc::not_found, fmt::format("{}: {}", peer.host, ::gai_strerror(code))};
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> guard(found, ::freeaddrinfo);
  Error error{Errc::not_found, fmt::format("no way to {}", peer.host)};
  for (addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const int fd = ::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    std::array<char, NI_MAXHOST> text{};
    const bool is_there = ::connect(fd, each->ai_addr, each->ai_addrlen) == 0 &&
                          ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                          ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(),
                                        text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
    if (!is_there) error.detail = fmt::format("no way to {}: {}", peer.host, std::strerror(errno));
    ::close(fd);
    if (is_there) return std::string(text.data());
  }
  return error;
}

Expected<void> check_listen(const caf::actor_system& system, const std::string& host) {
  if (is_loopback(host) || system.has_openssl_manager() ||
      caf::get_or(system.config(), k_insecure_key, false))
    return {};
  return Error{Errc::denied,
               fmt::format("will not listen on {} without credentials: make some with `actor-node "
                           "keys new DIR`, copy DIR to every host and say --keys DIR (or "
                           "--insecure, if nobody else can reach this network)",
                           host)};
}

}  // namespace cohort::control
