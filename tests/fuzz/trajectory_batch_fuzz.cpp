// Any bytes as the header and the columns of a batch of trajectories.
#include <cstdint>
#include <string>

#include "runtime/base/check.hpp"
#include "runtime/proto/codec.hpp"
#include "runtime/proto/trajectory_head.hpp"
#include "tests/fuzz/bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cohort;
  test::FuzzBytes in(data, size);
  const std::string_view header = in.piece(in.number<uint16_t>());
  const std::string_view columns = in.rest();
  auto batch = proto::decode_batch(test::bytes_of(header), test::bytes_of(columns));
  const auto head = proto::decode_head(test::bytes_of(header));
  if (!batch) {
    COHORT_CHECK(batch.error().code == Errc::corrupt, "unreadable is corrupt");
    return 0;
  }
  if (head && batch->size() == 1)
    COHORT_CHECK(
        head->key == batch->front().key && head->metrics.size() == batch->front().metrics.size(),
        "a head is of the trajectory that the batch has");
  size_t bytes = 0;
  for (const proto::Trajectory& x : *batch) {
    bytes += x.tokens.size() * sizeof(int32_t);
    COHORT_CHECK(x.response_mask.empty() || x.response_mask.size() == x.tokens.size(), "mask");
    for (const proto::Turn& turn : x.turns)
      COHORT_CHECK(turn.response_end <= x.tokens.size(), "turns lie inside the tokens");
  }
  COHORT_CHECK(bytes <= columns.size(), "no column holds more than what came");
  const proto::Encoded again = proto::encode_batch(*batch);
  auto twice = proto::decode_batch(test::bytes_of(again.header), again.columns.bytes());
  COHORT_CHECK(twice && twice->size() == batch->size(), "what was read can be written and read");
  return 0;
}
