// Any bytes as the payload of a message between nodes: what CAF's deserializer makes of them with
// our types. A stranger gets no message here (TLS-1); this bounds what a broken member can do.
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <cstdint>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/control/messages.hpp"
#include "runtime/control/system.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cohort;
  static control::SystemConfig config({.scheduler_threads = 1, .credentials = {}, .is_test = true});
  static caf::actor_system system(config);
  caf::binary_deserializer source(system, reinterpret_cast<const char*>(data), size);
  caf::message message;
  if (message.load(source)) return 0;
  std::vector<char> bytes;
  caf::binary_serializer sink(system, bytes);
  COHORT_CHECK(!message.save(sink), "what was read can be written");
  // Numbers travel with as many bytes as they need, or more; text and lists as they are.
  COHORT_CHECK(bytes.size() <= 64 * size + 4096, "a message is not much longer than what came");
  return 0;
}
