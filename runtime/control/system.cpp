#include "runtime/control/system.hpp"

#include <caf/io/all.hpp>

#include "runtime/control/messages.hpp"
#include "runtime/control/network_module.hpp"

namespace cohort::control {

SystemConfig::SystemConfig(const SystemOptions& options) : options_(options) {
  add_message_types<caf::id_block::cohort>();
  add_message_types<caf::id_block::cohort_cluster>();
  add_error_category(caf::atom("cohort"),
                     [](uint8_t code, caf::atom_value, const caf::message& context) {
                       std::string text(to_string(static_cast<Errc>(code)));
                       if (context.match_elements<std::string>())
                         text += ": " + context.get_as<std::string>(0);
                       return text;
                     });
  if (options.has_network) {
    load<caf::io::middleman>();
    load<detail::NetworkModule>();
    set("middleman.enable-automatic-connections", false);
    set("middleman.heartbeat-interval",
        caf::timespan(std::chrono::milliseconds(options.heartbeat_ms)));
    set("middleman.connection-timeout",
        caf::timespan(std::chrono::milliseconds(options.peer_timeout_ms)));
  }
  // What comes from other processes is read by the network's own thread: an actor may wait for an
  // answer from there on the scheduler's only one (control_rendezvous).
  caf::put(content, "middleman.workers", size_t{0});
  set("scheduler.policy", options.is_test ? caf::atom("testing") : caf::atom("sharing"));
  set("scheduler.max-threads", static_cast<size_t>(options.scheduler_threads));
}

}  // namespace cohort::control
