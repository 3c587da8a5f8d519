#include "runtime/base/listen.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

namespace cohort {

bool is_loopback(std::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  in_addr v4{};
  if (::inet_pton(AF_INET, std::string(host).c_str(), &v4) == 1)
    return ntohl(v4.s_addr) >> 24 == 127;
  return host == "localhost" || host == "::1";
}

Expected<void> check_exposure(std::string_view host, Exposure exposure) {
  if (exposure.has_credentials || exposure.is_insecure || is_loopback(host)) return {};
  return Error{Errc::denied,
               fmt::format("{} is beyond loopback, and there are no credentials: make some with "
                           "`actor-node keys new DIR`, copy DIR to every host and say --keys DIR "
                           "(or --insecure, if nobody else can reach this network)",
                           host)};
}

}  // namespace cohort
