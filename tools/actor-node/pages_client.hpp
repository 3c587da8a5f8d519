#pragma once
/// Reads the pages of a dashboard (dashboard_server.hpp). Owner: one thread. Bound: 16 MiB a page,
/// 2 s without an answer.
#include <memory>
#include <string>

#include "runtime/base/error.hpp"
#include "tools/actor-node/cluster_options.hpp"

namespace cohort {

/// Whether the text is an address of pages: http:// or https://.
bool is_pages_address(const std::string& text);

class PagesClient {
 public:
  /// `url`: http://HOST:PORT/, or https:// of a dashboard beyond loopback, whose certificate and
  /// token are those of `access`. Errc::invalid_argument, Errc::denied; what load_credentials says.
  static Expected<PagesClient> open(const std::string& url, const ClusterAccess& access);
  PagesClient(PagesClient&&) noexcept;
  PagesClient& operator=(PagesClient&&) noexcept;
  ~PagesClient();

  /// Returns what the page says. Errc::closed if nobody answers, Errc::denied without the token,
  /// Errc::not_found.
  Expected<std::string> get(const std::string& path);
  const std::string& url() const { return url_; }

 private:
  struct Client;
  PagesClient();
  std::unique_ptr<Client> client_;
  std::string url_;
};

}  // namespace cohort
