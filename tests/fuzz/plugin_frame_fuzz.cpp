// Any bytes as the payload of each frame that a plugin's child or its supervisor reads.
#include <cstdint>

#include "runtime/base/check.hpp"
#include "runtime/plugin/child/plugin_frames.hpp"
#include "tests/fuzz/bytes.hpp"

namespace {

template <class T>
void check(const cohort::Expected<T>& x) {
  COHORT_CHECK(x || x.error().code == cohort::Errc::protocol, "FRAME-1");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cohort::plugin;
  cohort::test::FuzzBytes in(data, size);
  const auto what = in.number<uint8_t>();
  const std::string_view payload = in.rest();
  switch (what % 5) {
    case 0:
      return check(read_rows(payload)), 0;
    case 1:
      return check(read_results(payload)), 0;
    case 2:
      return check(read_world(payload)), 0;
    case 3:
      return check(read_failure(payload)), 0;
    default:
      return check(read_world_call(static_cast<Op>(what / 5 % 6), payload)), 0;
  }
}
