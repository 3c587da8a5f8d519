#include "tools/actor-node/pages_client.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <utility>

#include "runtime/control/credentials.hpp"

namespace cohort {
namespace {

constexpr int k_page_limit_s = 2;
constexpr size_t k_page_bytes_max = size_t{16} << 20;
constexpr std::string_view k_http = "http://", k_https = "https://";
constexpr const char* k_certificate_name = "cohort";  // of the cluster's certificate

}  // namespace

bool is_pages_address(const std::string& text) {
  return text.starts_with(k_http) || text.starts_with(k_https);
}

struct PagesClient::Client {
  httplib::Client http;
};

PagesClient::PagesClient() = default;
PagesClient::PagesClient(PagesClient&&) noexcept = default;
PagesClient& PagesClient::operator=(PagesClient&&) noexcept = default;
PagesClient::~PagesClient() = default;

Expected<PagesClient> PagesClient::open(const std::string& url, const ClusterAccess& access) {
  const bool has_tls = url.starts_with(k_https);
  std::string place = url.substr((has_tls ? k_https : k_http).size());
  if (place.ends_with('/')) place.pop_back();
  auto address = control::parse_address(place);
  if (!address)
    return Error{Errc::invalid_argument,
                 fmt::format("{}: an address of pages is http://HOST:PORT/, as `dashboard:` says "
                             "it: {}",
                             url, address.error().detail)};
  PagesClient pages;
  pages.url_ = url;
  const std::string host = has_tls ? k_certificate_name : address->host;
  pages.client_.reset(new Client{httplib::Client(
      fmt::format("{}{}", has_tls ? k_https : k_http, control::to_text({host, address->port})))});
  httplib::Client& http = pages.client_->http;
  if (has_tls) {
    COHORT_ASSIGN(const control::SystemOptions options, system_options(access));
    if (!options.credentials)
      return Error{Errc::denied,
                   fmt::format("{}: its token and certificate are in the cluster's keys: say "
                               "--keys DIR (or COHORT_KEYS)",
                               url)};
    COHORT_ASSIGN(const std::string token, control::load_dashboard_token(*options.credentials));
    http.set_hostname_addr_map({{k_certificate_name, httplib::hosted_at(address->host)}});
    http.set_ca_cert_path(options.credentials->ca_file);
    http.set_bearer_token_auth(token);
  }
  http.set_connection_timeout(k_page_limit_s);
  http.set_read_timeout(k_page_limit_s);
  http.set_write_timeout(k_page_limit_s);
  return pages;
}

Expected<std::string> PagesClient::get(const std::string& path) {
  std::string body;
  const auto reply = client_->http.Get(path, [&](const char* data, size_t size) {
    body.append(data, size);
    return body.size() <= k_page_bytes_max;
  });
  if (!reply)
    return Error{Errc::closed,
                 fmt::format("{} does not answer ({})", url_, httplib::to_string(reply.error()))};
  if (reply->status == 401)
    return Error{Errc::denied, fmt::format("{} refuses the token: --keys is to be the folder of "
                                           "that cluster",
                                           url_)};
  if (reply->status != 200)
    return Error{Errc::not_found, fmt::format("{} answers {} to {}: is it a dashboard of this "
                                              "version?",
                                              url_, reply->status, path)};
  return body;
}

}  // namespace cohort
