#include "runtime/control/system.hpp"

#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>

#include "runtime/control/messages.hpp"

namespace cohort::control {

SystemConfig::SystemConfig(const SystemOptions& options) {
  add_message_types<caf::id_block::cohort>();
  add_error_category(caf::atom("cohort"),
                     [](uint8_t code, caf::atom_value, const caf::message& context) {
                       std::string text(to_string(static_cast<Errc>(code)));
                       if (context.match_elements<std::string>())
                         text += ": " + context.get_as<std::string>(0);
                       return text;
                     });
  if (options.has_network) load<caf::io::middleman>();
  if (options.has_network && options.credentials) {
    load<caf::openssl::manager>();
    openssl_cafile = options.credentials->ca_file;
    openssl_certificate = options.credentials->certificate_file;
    openssl_key = options.credentials->key_file;
  }
  caf::put(content, k_insecure_key, options.is_insecure);
  set("scheduler.policy", options.is_test ? caf::atom("testing") : caf::atom("sharing"));
  set("scheduler.max-threads", static_cast<size_t>(options.scheduler_threads));
}

}  // namespace cohort::control
