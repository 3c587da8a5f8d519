#include "runtime/control/network.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/control/network_module.hpp"

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
  const auto* config = dynamic_cast<const SystemConfig*>(&system.config());
  const bool may_listen =
      config != nullptr && (config->options().credentials || config->options().is_insecure);
  if (is_loopback(host) || may_listen) return {};
  return Error{Errc::denied,
               fmt::format("will not listen on {} without credentials: make some with `actor-node "
                           "keys new DIR`, copy DIR to every host and say --keys DIR (or "
                           "--insecure, if nobody else can reach this network)",
                           host)};
}

namespace detail {

namespace {

Error no_network() {
  return {Errc::unsupported, "this actor system was made without SystemOptions::has_network"};
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
  self->request(network, caf::infinite, caf::connect_atom::value, address.host, address.port)
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
          [&](const caf::error& error) {
            result = Error{Errc::closed,
                           "no actor at " + to_text(address) + ": " + from_caf(error).to_string()};
          });
  return result;
}

}  // namespace detail

}  // namespace cohort::control
