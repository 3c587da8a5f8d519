#include "runtime/control/network.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>

#include "runtime/control/network_module.hpp"
#include "runtime/control/sockets.hpp"

namespace cohort::control {

Expected<Address> parse_address(const std::string& text, bool may_be_any) {
  const Error bad{Errc::invalid_argument, fmt::format("\"{}\" is no address: say HOST:PORT", text)};
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad;
  Address address{text.substr(0, colon), 0};
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data() + colon + 1, end, address.port);
  if (error != std::errc{} || rest != end || (address.port == 0 && !may_be_any)) return bad;
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

Expected<std::string> address_towards(const Address& peer) {
  COHORT_ASSIGN(const detail::AddressList found, detail::resolve(peer.host, peer.port, false));
  Error error{Errc::not_found, fmt::format("no way to {}", peer.host)};
  for (addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    const Descriptor socket(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    std::array<char, NI_MAXHOST> text{};
    const bool is_there =
        ::connect(socket.get(), each->ai_addr, each->ai_addrlen) == 0 &&
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0;
    if (!is_there) error.detail = fmt::format("no way to {}: {}", peer.host, std::strerror(errno));
    if (is_there) return std::string(text.data());
  }
  return error;
}

Expected<void> check_listen(const caf::actor_system& system, const std::string& host) {
  const auto* config = dynamic_cast<const SystemConfig*>(&system.config());
  if (config == nullptr) return check_exposure(host, {});
  return check_exposure(host, {.has_credentials = config->options().credentials.has_value(),
                               .is_insecure = config->options().is_insecure});
}

namespace detail {

namespace {

Error no_network() {
  return {Errc::unsupported, "this actor system was made without SystemOptions::has_network"};
}

/// Why a connection came to nothing, and what to do: the two mistakes with credentials by name.
Error no_actor(const Address& address, const caf::error& error, bool has_credentials) {
  const Error cause = from_caf(error);
  if (!has_credentials && error == caf::sec::disconnect_during_handshake)
    return {Errc::closed,
            fmt::format("{} hung up at the first word: it serves only members of its cluster. Say "
                        "--keys DIR (or COHORT_KEYS=DIR), a copy of the folder of keys that it has",
                        to_text(address))};
  if (has_credentials && cause.code == Errc::denied)
    return {Errc::closed,
            fmt::format("{} does not show the keys of this cluster ({}): both ends need copies of "
                        "one folder of `actor-node keys new`, named by --keys or COHORT_KEYS",
                        to_text(address), cause.detail)};
  return {Errc::closed, fmt::format("no actor at {}: {}", to_text(address), cause.to_string())};
}

}  // namespace

Expected<uint16_t> publish(caf::actor_system& system, caf::strong_actor_ptr actor,
                           Signatures signatures, const Address& address) {
  COHORT_TRY(check_listen(system, address.host));
  const auto network = network_actor(system);
  if (!network) return no_network();
  Expected<uint16_t> result = no_network();
  caf::scoped_actor self{system};
  self->request(network, caf::infinite, caf::publish_atom::value, address.port, std::move(actor),
                std::move(signatures), address.host, true)
      .receive([&](uint16_t port) { result = port; },
               [&](const caf::error& error) {
                 result = Error{Errc::io, "cannot listen on " + to_text(address) + ": " +
                                              from_caf(error).to_string()};
               });
  return result;
}

Expected<caf::strong_actor_ptr> connect(caf::actor_system& system, const Signatures& wanted,
                                        const Address& address) {
  const auto network = network_actor(system);
  if (!network) return no_network();
  Expected<caf::strong_actor_ptr> result = no_network();
  caf::scoped_actor self{system};
  // The second term: for the first word of the peer that took the connection.
  const auto* config = dynamic_cast<const SystemConfig*>(&system.config());
  const std::chrono::milliseconds limit(
      k_dial_ms + (config == nullptr ? 0 : config->options().peer_timeout_ms));
  const bool has_credentials = config != nullptr && config->options().credentials.has_value();
  self->request(network, limit, caf::connect_atom::value, address.host, address.port)
      .receive(
          [&](const caf::node_id&, caf::strong_actor_ptr& found, const Signatures& offered) {
            const bool fits =
                std::includes(offered.begin(), offered.end(), wanted.begin(), wanted.end());
            if (found == nullptr)
              result = Error{Errc::closed, "no actor is published at " + to_text(address)};
            else if (!fits)
              result = Error{Errc::protocol, "the actor at " + to_text(address) +
                                                 " does not speak what is asked of it: are both "
                                                 "of the same version of Cohort?"};
            else
              result = std::move(found);
          },
          [&](const caf::error& error) { result = no_actor(address, error, has_credentials); });
  return result;
}

}  // namespace detail

}  // namespace cohort::control
