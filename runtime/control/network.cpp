#include "runtime/control/network.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

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
