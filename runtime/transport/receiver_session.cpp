#include "runtime/transport/receiver_session.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "runtime/tensor/checksum.hpp"

namespace cohort::transport::detail {

namespace {

// A smaller body is copied to an aligned pooled Buffer: zmq may keep it inside a receive buffer
// that it shares with its neighbours, and a copy of this size costs less than a cache miss or two.
constexpr size_t k_adopt_bytes = size_t{16} << 10;

}  // namespace

Session::Session(uint64_t id, uint64_t slot, const proto::LinkHello& hello, uint64_t credit_bytes,
                 bool verifies_bodies)
    : id_(id),
      slot_(slot),
      name_(hello.name),
      chunk_bytes_(hello.chunk_bytes),
      credit_bytes_(credit_bytes),
      verifies_bodies_(verifies_bodies),
      next_seq_(hello.first_seq),
      acked_seq_(hello.first_seq - 1),
      received_(hello.first_position),
      released_(hello.first_position) {}

Expected<void> Session::check_return(const proto::LinkHello& hello) const {
  if (hello.chunk_bytes == chunk_bytes_ && hello.first_seq >= 1 &&
      hello.first_seq <= acked_seq_ + 1 && hello.name == name_)
    return {};
  return Error{
      Errc::protocol,
      fmt::format("session comes back as {} with first message {} and chunks of {}, it was "
                  "{} with {} acknowledged and chunks of {}",
                  hello.name, hello.first_seq, hello.chunk_bytes, name_, acked_seq_, chunk_bytes_)};
}

bool Session::is_gap(uint64_t seq, uint32_t chunk) const {
  return seq > next_seq_ || (seq == next_seq_ && chunk > next_chunk_);
}

Expected<Session::Outcome> Session::on_data(const FrameHeader& header,
                                            std::span<const std::byte> payload, Part body) {
  COHORT_TRY(check_data(header, sizeof(FrameHeader) + payload.size(), body.bytes().size(),
                        chunk_bytes_, credit_bytes_));
  if (is_gap(header.seq, header.chunk)) return Outcome::gap;
  if (header.seq != next_seq_ || header.chunk != next_chunk_) return Outcome::duplicate;
  bool is_verified = header.chunk_count == 1 && !verifies_bodies_;  // later, by the reader
  if (!is_verified && !body.bytes().empty() &&
      tensor::checksum64(body.bytes()) != header.body_checksum)
    return Outcome::corrupt;
  uint64_t cost = cost_of(header.header_bytes, header.body_bytes);
  if (next_chunk_ == 0) {
    if (received_ + cost > granted())
      return Error{Errc::protocol, fmt::format("message {} ends at {}, granted is {}", header.seq,
                                               received_ + cost, granted())};
    message_.type = header.type;
    message_.header.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    cost_ = cost;
    body_bytes_ = header.body_bytes;
  } else if (cost != cost_ || header.type != message_.type) {
    return Error{Errc::protocol, fmt::format("chunk {} of message {} belongs to another message",
                                             header.chunk, header.seq)};
  }
  take_chunk(header, std::move(body));
  corrupt_streak = 0;
  is_resend_asked = false;
  if (++next_chunk_ != header.chunk_count) return Outcome::progress;
  next_chunk_ = 0;
  ++next_seq_;
  received_ += cost_;
  window_.push_back({cost_, false});
  return Outcome::message;
}

void Session::take_chunk(const FrameHeader& header, Part body) {
  std::span<const std::byte> bytes = body.bytes();
  if (header.chunk_count == 1 && bytes.size() < k_adopt_bytes) {
    message_.body = tensor::Buffer::copy_of(bytes);
    return;
  }
  if (body_.empty() && adjacent_bytes_ == filled_bytes_) {
    bool is_adjacent =
        chunks_.empty() || chunks_.front().bytes().data() + adjacent_bytes_ == bytes.data();
    if (is_adjacent) {
      adjacent_bytes_ += bytes.size();
      filled_bytes_ += bytes.size();
      chunks_.push_back(std::move(body));
      return;
    }
    body_ = tensor::Buffer::allocate(body_bytes_);
    size_t offset = 0;
    for (const Part& chunk : chunks_) {
      std::memcpy(body_.mutable_bytes().data() + offset, chunk.bytes().data(),
                  chunk.bytes().size());
      offset += chunk.bytes().size();
    }
    chunks_.clear();
  }
  std::memcpy(body_.mutable_bytes().data() + filled_bytes_, bytes.data(), bytes.size());
  filled_bytes_ += bytes.size();
}

Message Session::take() {
  if (!body_.empty()) {
    message_.body = std::move(body_);
  } else if (!chunks_.empty()) {
    auto owner = std::make_shared<std::vector<Part>>(std::move(chunks_));
    const std::byte* data = owner->front().bytes().data();
    message_.body = tensor::Buffer::adopt(data, adjacent_bytes_, std::move(owner));
  }
  Message message = std::move(message_);
  drop_assembly();
  return message;
}

void Session::drop_assembly() {
  message_ = {};
  chunks_.clear();
  body_ = {};
  adjacent_bytes_ = filled_bytes_ = 0;
  next_chunk_ = 0;
}

void Session::ack(uint64_t seq) {
  if (seq <= acked_seq_ || seq - acked_seq_ > window_.size()) return;
  Window& entry = window_[seq - acked_seq_ - 1];
  if (std::exchange(entry.is_acked, true)) return;
  released_ += entry.cost;
  while (!window_.empty() && window_.front().is_acked) {
    window_.pop_front();
    ++acked_seq_;
  }
}

}  // namespace cohort::transport::detail
