// Any bytes as the payload of a hello, a welcome or a reject; what parses says the same again.
#include <cstdint>

#include "runtime/base/check.hpp"
#include "runtime/proto/link_hello.hpp"
#include "tests/fuzz/bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cohort;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  auto hello = proto::decode_hello(bytes);
  COHORT_CHECK(hello || hello.error().code == Errc::corrupt, "unreadable is corrupt");
  if (hello) {
    COHORT_CHECK(hello->run_id.size() + hello->name.size() <= size, "no longer than what came");
    auto again = proto::decode_hello(test::bytes_of(proto::encode_hello(*hello)));
    COHORT_CHECK(again && again->name == hello->name && again->first_seq == hello->first_seq,
                 "hello");
  }
  auto welcome = proto::decode_welcome(bytes);
  COHORT_CHECK(welcome || welcome.error().code == Errc::corrupt, "unreadable is corrupt");
  if (welcome) {
    auto again = proto::decode_welcome(test::bytes_of(proto::encode_welcome(*welcome)));
    COHORT_CHECK(again && again->granted == welcome->granted, "welcome");
  }
  const Error error = proto::decode_reject(bytes);
  COHORT_CHECK(error.code != Errc::none, "a reject is an error");
  return 0;
}
