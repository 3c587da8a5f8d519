#pragma once
/// One producer session at the consumer: the order of frames, the assembly of bodies, the
/// acknowledgement window and the credit. No socket, no clock. Internal to runtime/transport.
/// Thread: the Receiver's pump.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/proto/link_hello.hpp"
#include "runtime/transport/frame.hpp"
#include "runtime/transport/link.hpp"
#include "runtime/transport/socket.hpp"

namespace cohort::transport::detail {

class Session {
 public:
  /// `slot` tells a session from an earlier one of the same id.
  Session(uint64_t id, uint64_t slot, const proto::LinkHello& hello, uint64_t credit_bytes,
          bool verifies_bodies);

  enum class Outcome { message, progress, duplicate, gap, corrupt };
  /// Takes a data frame; on `message` take() returns it. Returns Errc::protocol if the frame breaks
  /// the format or the credit (LINK-3).
  Expected<Outcome> on_data(const FrameHeader& header, std::span<const std::byte> payload,
                            Part body);
  Message take();
  /// LINK-2: marks `seq` acknowledged; acked_seq() moves when it was the lowest. Unknown seq: no
  /// effect.
  void ack(uint64_t seq);
  /// Drops a half-assembled body; its chunks will be sent again from the first.
  void drop_assembly();
  /// Is (seq, chunk) behind the frame that is expected next?
  bool is_gap(uint64_t seq, uint32_t chunk) const;
  /// Checks the claim of a returning producer. Returns Errc::protocol.
  Expected<void> check_return(const proto::LinkHello& hello) const;

  uint64_t id() const { return id_; }
  uint64_t slot() const { return slot_; }
  const std::string& name() const { return name_; }
  uint64_t next_seq() const { return next_seq_; }
  uint32_t next_chunk() const { return next_chunk_; }
  uint64_t acked_seq() const { return acked_seq_; }
  uint64_t granted() const { return released_ + credit_bytes_; }

  // Kept by the pump.
  int64_t last_heard = 0;
  bool is_lost = false, is_dirty = false, is_resend_asked = false;
  int corrupt_streak = 0;
  bool more_follows = false;  // said the last data frame
  uint32_t handshake = 0;     // number of its last hello, said with every answer
  uint64_t announced = 0;     // granted() of the last ack frame
  int64_t dirty_since = 0;

 private:
  struct Window {  // one message between delivery and cumulative acknowledgement
    uint64_t cost = 0;
    bool is_acked = false;
  };
  void take_chunk(const FrameHeader& header, Part body);

  const uint64_t id_, slot_;
  const std::string name_;
  const uint64_t chunk_bytes_, credit_bytes_;
  const bool verifies_bodies_;
  uint64_t next_seq_, acked_seq_;
  uint32_t next_chunk_ = 0;
  uint64_t received_,
      released_;               // [bytes of cost] delivered and acknowledged since the session began
  std::deque<Window> window_;  // acked_seq_ + 1 … next_seq_ - 1
  // The message under assembly. Chunks that lie side by side in memory (inproc slices of one
  // Buffer) are adopted as they are; the first one that does not moves all to `body_`.
  Message message_;
  uint64_t cost_ = 0, body_bytes_ = 0;
  std::vector<Part> chunks_;
  size_t adjacent_bytes_ = 0;
  tensor::Buffer body_;
  size_t filled_bytes_ = 0;
};

}  // namespace cohort::transport::detail
