// Any bytes as the payload of BASP between nodes: what is let through (WIRE-3) CAF reads to the
// end, and it is not much. A stranger gets no payload here (TLS-1); this bounds what a broken
// member can do. The first byte is the operation.
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/control/system.hpp"
#include "runtime/control/wire_check.hpp"

namespace {

using namespace cohort;
using control::detail::BaspKind;

class NoProxies final : public caf::proxy_registry::backend {
 public:
  caf::strong_actor_ptr make_proxy(caf::node_id, caf::actor_id) override { return nullptr; }
  void set_last_hop(caf::node_id*) override {}
};

struct Payload {
  caf::node_id from, to;
  std::vector<std::string> applications;
  caf::actor_id actor = 0;
  std::set<std::string> signatures;
  std::vector<caf::strong_actor_ptr> stages;
  caf::message message;
  caf::error reason;
};

/// As caf::io::basp::instance reads, and writes, each kind.
template <class Processor>
caf::error process(Processor& f, BaspKind kind, Payload& x) {
  auto message = [&]() -> caf::error {
    if (auto error = f(x.stages)) return error;
    if constexpr (Processor::reads_state)
      return x.message.save(f);
    else
      return x.message.load(f);
  };
  switch (kind) {
    case BaspKind::server_handshake:
      return f(x.from, x.applications, x.actor, x.signatures);
    case BaspKind::client_handshake:
      return f(x.from);
    case BaspKind::routed_message:
      if (auto error = f(x.from, x.to)) return error;
      return message();
    case BaspKind::direct_message:
      return message();
    case BaspKind::monitor_message:
      return f(x.from, x.to);
    case BaspKind::down_message:
      return f(x.from, x.to, x.reason);
    case BaspKind::heartbeat:
      break;
  }
  COHORT_CHECK(false, "a heartbeat has no payload that is let through");
  return caf::none;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Never destroyed: what CAF needs for it is gone when a process exits.
  static auto& config = *new control::SystemConfig({.scheduler_threads = 1, .is_test = true});
  static auto& system = *new caf::actor_system(config);
  if (size == 0) return 0;
  const auto kind = static_cast<BaspKind>(data[0] % 7);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (!control::detail::check_payload(system, kind, bytes)) return 0;

  NoProxies nobody;
  caf::proxy_registry proxies(system, nobody);
  caf::scoped_execution_unit context(&system);
  context.proxy_registry_ptr(&proxies);
  Payload payload;
  caf::binary_deserializer source(&context, bytes.data(), bytes.size());
  COHORT_CHECK(!process(source, kind, payload), "WIRE-3: CAF reads what was let through");
  std::vector<char> again;
  caf::binary_serializer sink(&context, again);
  COHORT_CHECK(!process(sink, kind, payload), "what was read can be written");
  COHORT_CHECK(again.size() <= 2 * size + 64, "and is not much longer than what came");
  return 0;
}
