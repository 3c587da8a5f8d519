#include "runtime/proto/link_hello.hpp"

#include <limits>

#include "runtime/proto/cohort.pb.h"

namespace cohort::proto {

namespace {

template <class Message>
Expected<Message> parse(std::span<const std::byte> bytes, const char* what) {
  Message message;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return Error{Errc::corrupt, std::string(what) + " does not parse"};
  return message;
}

}  // namespace

std::string encode_hello(const LinkHello& hello) {
  wire::LinkHello out;
  out.set_protocol_min(hello.protocol_min);
  out.set_protocol_max(hello.protocol_max);
  out.set_run_id(hello.run_id);
  out.set_name(hello.name);
  out.set_first_seq(hello.first_seq);
  out.set_first_position(hello.first_position);
  out.set_chunk_bytes(hello.chunk_bytes);
  out.set_heartbeat_ms(hello.heartbeat_ms);
  out.set_service(hello.service);
  return out.SerializeAsString();
}

std::string encode_welcome(const LinkWelcome& welcome) {
  wire::LinkWelcome out;
  out.set_protocol(welcome.protocol);
  out.set_next_seq(welcome.next_seq);
  out.set_next_chunk(welcome.next_chunk);
  out.set_acked_seq(welcome.acked_seq);
  out.set_granted(welcome.granted);
  out.set_credit_bytes(welcome.credit_bytes);
  out.set_name(welcome.name);
  return out.SerializeAsString();
}

std::string encode_reject(const Error& error) {
  wire::LinkReject out;
  out.set_code(static_cast<uint32_t>(error.code));
  out.set_detail(error.detail);
  return out.SerializeAsString();
}

Expected<LinkHello> decode_hello(std::span<const std::byte> bytes) {
  COHORT_ASSIGN(wire::LinkHello in, parse<wire::LinkHello>(bytes, "link hello"));
  return LinkHello{in.protocol_min(), in.protocol_max(), in.run_id(),
                   in.name(),         in.first_seq(),    in.first_position(),
                   in.chunk_bytes(),  in.heartbeat_ms(), in.service()};
}

Expected<LinkWelcome> decode_welcome(std::span<const std::byte> bytes) {
  COHORT_ASSIGN(wire::LinkWelcome in, parse<wire::LinkWelcome>(bytes, "link welcome"));
  return LinkWelcome{in.protocol(), in.next_seq(),     in.next_chunk(), in.acked_seq(),
                     in.granted(),  in.credit_bytes(), in.name()};
}

Error decode_reject(std::span<const std::byte> bytes) {
  auto in = parse<wire::LinkReject>(bytes, "link reject");
  if (!in) return in.error();
  bool is_known = in->code() > 0 && in->code() <= static_cast<uint32_t>(Errc::denied);
  return {is_known ? static_cast<Errc>(in->code()) : Errc::protocol, in->detail()};
}

}  // namespace cohort::proto
