// Frames of a producer, as a consumer's session takes them: any bytes, and any header under a right
// checksum, so that what is behind the checksum is reached.
#include <cstdint>
#include <cstring>

#include "runtime/base/check.hpp"
#include "runtime/tensor/checksum.hpp"
#include "runtime/transport/receiver_session.hpp"
#include "tests/fuzz/bytes.hpp"

namespace {

using namespace cohort;
using namespace cohort::transport;
using detail::Part;
using detail::Session;

constexpr uint64_t k_credit_bytes = 1 << 16, k_chunk_bytes = 1024;

Part part_of(std::string_view bytes) {
  Part part(bytes.size());
  if (!bytes.empty()) std::memcpy(part.mutable_bytes().data(), bytes.data(), bytes.size());
  return part;
}

/// A frame that the input describes roughly, with sizes that can be right: otherwise hardly one
/// would get past check_data.
FrameHeader header_of(test::FuzzBytes& in, const Session& session, uint8_t how) {
  FrameHeader header = in.number<FrameHeader>();
  header.magic = k_frame_magic;
  header.kind = FrameKind::data;
  if ((how & 1) != 0) header.seq = session.next_seq();
  if ((how & 2) != 0) header.chunk = session.next_chunk();
  if ((how & 4) != 0) header.body_bytes %= 2 * k_credit_bytes;
  if ((how & 8) != 0)
    header.chunk_count = static_cast<uint32_t>(chunk_count_of(header.body_bytes, k_chunk_bytes));
  if ((how & 16) != 0) header.header_bytes %= 64;
  return header;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  test::FuzzBytes raw(data, size);
  if (auto header = unseal(test::bytes_of(raw.rest())))
    (void)check_data(*header, size, 0, k_chunk_bytes, k_credit_bytes);

  test::FuzzBytes in(data, size);
  const bool verifies = (in.number<uint8_t>() & 1) != 0;
  Session session(1, 1, {1, 1, "run", "producer", 1, 0, k_chunk_bytes, 1000}, k_credit_bytes,
                  verifies);
  uint64_t delivered = 0;
  for (int frames = 0; frames < 64 && !in.empty(); ++frames) {
    const auto how = in.number<uint8_t>();
    FrameHeader header = header_of(in, session, how);
    const uint64_t body_bytes = chunk_size_of(header.body_bytes, k_chunk_bytes, header.chunk);
    const std::string payload(in.piece(header.chunk == 0 ? header.header_bytes % 4096 : 0));
    std::string body(in.piece((how & 32) != 0 ? 4096 : body_bytes % 4096));
    if ((how & 64) != 0) body.resize(body_bytes % 4096);
    header.body_checksum = tensor::checksum64(test::bytes_of(body));
    auto outcome = session.on_data(header, test::bytes_of(payload), part_of(body));
    if (!outcome) {
      COHORT_CHECK(outcome.error().code == Errc::protocol, "what breaks the format is named");
      return 0;
    }
    if (*outcome == Session::Outcome::message) {
      const Message message = session.take();
      COHORT_CHECK(message.body.size_bytes() == header.body_bytes, "the body is whole");
      COHORT_CHECK(message.body.size_bytes() + message.header.size() <= k_credit_bytes, "LINK-3");
      ++delivered;
      if ((how & 128) != 0) session.ack(delivered);
    }
    COHORT_CHECK(session.next_seq() == delivered + 1, "LINK-1: each once and in order");
    COHORT_CHECK(session.acked_seq() <= delivered, "LINK-2");
  }
  return 0;
}
