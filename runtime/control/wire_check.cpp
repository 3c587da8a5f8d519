#include "runtime/control/wire_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <caf/binary_deserializer.hpp>
#include <caf/io/basp/header.hpp>
#include <caf/proxy_registry.hpp>
#include <set>
#include <string>
#include <vector>

namespace cohort::control::detail {

namespace {

namespace basp = caf::io::basp;

constexpr std::string_view k_message_prefix = "@<>";

/// The types of our messages, and of CAF's own between nodes: no streams, groups, settings,
/// buffers, and no messages of the sockets' layer.
constexpr auto k_types_of_caf = std::to_array<std::string_view>(
    {"@actor",  "@addr",   "@atom",     "@down",      "@error", "@exit", "@i16",
     "@i32",    "@i64",    "@i8",       "@message",   "@node",  "@str",  "@strong_actor_ptr",
     "@strset", "@strvec", "@timespan", "@timestamp", "@u16",   "@u32",  "@u64",
     "@u8",     "@unit",   "bool"});

/// Reads as caf::binary_deserializer does, within bounds, and remembers what was wrong first: CAF
/// forgets an error inside of a message in a message.
class BoundedSource final : public caf::deserializer {
 public:
  BoundedSource(caf::execution_unit& context, std::string_view bytes)
      : deserializer(&context),
        source_(&context, bytes.data(), bytes.size()),
        ours_(context.system().config().value_factories_by_name) {}
  /// Empty: nothing was wrong.
  const std::string& why() const { return why_; }
  caf::error refuse(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return caf::sec::invalid_argument;
  }

  caf::error begin_object(uint16_t& type, std::string& name) override {
    if (auto error = read(source_.begin_object(type, name))) return error;
    if (type != 0 || !std::string_view(name).starts_with(k_message_prefix))
      return refuse("an object that is no message");
    if (++nested_ > k_max_nested) return refuse("messages in messages, without end");
    return check_types(std::string_view(name).substr(k_message_prefix.size()));
  }
  caf::error end_object() override {
    --nested_;
    return caf::none;
  }
  caf::error begin_sequence(size_t& size) override {
    if (auto error = read(source_.begin_sequence(size))) return error;
    if (size > source_.remaining()) return refuse("a sequence longer than what came");
    return caf::none;
  }
  caf::error end_sequence() override { return caf::none; }
  caf::error apply_raw(size_t size, void* to) override { return read(source_.apply_raw(size, to)); }

 protected:
  caf::error apply_impl(int8_t& x) override { return read(source_.apply(x)); }
  caf::error apply_impl(uint8_t& x) override { return read(source_.apply(x)); }
  caf::error apply_impl(int16_t& x) override { return read(source_.apply(x)); }
  caf::error apply_impl(uint16_t& x) override { return read(source_.apply(x)); }
  caf::error apply_impl(int32_t& x) override { return read(source_.apply(x)); }
  caf::error apply_impl(uint32_t& x) override { return read(source_.apply(x)); }
  caf::error apply_impl(int64_t& x) override { return read(source_.apply(x)); }
  caf::error apply_impl(uint64_t& x) override { return read(source_.apply(x)); }
  caf::error apply_impl(std::string& x) override { return read(source_.apply(x)); }
  caf::error apply_impl(std::u16string& x) override { return read(source_.apply(x)); }
  caf::error apply_impl(std::u32string& x) override { return read(source_.apply(x)); }
  caf::error apply_impl(float&) override { return of_caf(); }
  caf::error apply_impl(double&) override { return of_caf(); }
  caf::error apply_impl(long double&) override { return of_caf(); }

 private:
  caf::error read(caf::error error) {
    return error ? refuse("bytes that cannot be read") : caf::none;
  }
  caf::error of_caf() { return refuse("a number in CAF's own form"); }  // exact.hpp
  /// `names`: "" or "+type+type…".
  caf::error check_types(std::string_view names) {
    if (names.empty()) --nested_;  // CAF does not end an object that has nothing in it
    while (!names.empty()) {
      if (names.front() != '+') return refuse("a message without types");
      names.remove_prefix(1);
      const std::string_view name = names.substr(0, names.find('+'));
      const bool is_ours = name.starts_with("cohort::") && ours_.contains(std::string(name));
      if (!is_ours && std::ranges::find(k_types_of_caf, name) == k_types_of_caf.end())
        return refuse(fmt::format("a message of type \"{}\"", name.substr(0, 64)));
      names.remove_prefix(name.size());
    }
    return caf::none;
  }

  caf::binary_deserializer source_;
  const caf::actor_system_config::value_factory_string_map& ours_;
  int nested_ = 0;
  std::string why_;
};

/// Actors of other processes are nobody while we only look.
class NoProxies final : public caf::proxy_registry::backend {
 public:
  caf::strong_actor_ptr make_proxy(caf::node_id, caf::actor_id) override { return nullptr; }
  void set_last_hop(caf::node_id*) override {}
};

/// CAF takes the actor of a link message for a proxy of its own making.
bool links_an_actor_of_ours(const caf::message& message, const caf::node_id& here) {
  if (!message.match_elements<caf::atom_value, caf::strong_actor_ptr>()) return false;
  const auto what = message.get_as<caf::atom_value>(0);
  if (what != caf::link_atom::value && what != caf::unlink_atom::value) return false;
  const auto& who = message.get_as<caf::strong_actor_ptr>(1);
  return who != nullptr && who->nid == here;
}

caf::error read_message(BoundedSource& source, const caf::node_id& here) {
  std::vector<caf::strong_actor_ptr> stages;
  caf::message message;
  if (auto error = source(stages)) return error;
  if (!stages.empty()) return source.refuse("a message by way of other actors");
  if (auto error = message.load(source)) return error;
  if (links_an_actor_of_ours(message, here))
    return source.refuse("a link to an actor that is not theirs");
  return caf::none;
}

caf::error read_payload(BoundedSource& source, BaspKind kind, const caf::node_id& here) {
  caf::node_id from, to;
  switch (kind) {
    case BaspKind::server_handshake: {
      std::vector<std::string> applications;
      caf::actor_id actor = 0;
      std::set<std::string> signatures;
      return source(from, applications, actor, signatures);
    }
    case BaspKind::client_handshake:
      return source(from);
    case BaspKind::routed_message:
      if (auto error = source(from, to)) return error;
      return read_message(source, here);
    case BaspKind::direct_message:
      return read_message(source, here);
    case BaspKind::monitor_message:
      return source(from, to);
    case BaspKind::down_message: {
      caf::error reason;
      return source(from, to, reason);
    }
    case BaspKind::heartbeat:
      break;
  }
  return source.refuse("a payload that nobody announced");
}

Error protocol_error(const std::string& why) {
  return {Errc::protocol, "the peer sends " + why + ": is it of the same version of Cohort?"};
}

}  // namespace

Expected<void> check_payload(caf::actor_system& system, BaspKind kind, std::string_view payload) {
  NoProxies nobody;
  caf::proxy_registry proxies(system, nobody);
  caf::scoped_execution_unit context(&system);
  context.proxy_registry_ptr(&proxies);
  BoundedSource source(context, payload);
  try {  // CAF's variants throw on a tag that they do not know
    if (read_payload(source, kind, system.node())) source.refuse("bytes that cannot be read");
  } catch (const std::exception& error) {
    return protocol_error(fmt::format("bytes that cannot be read ({})", error.what()));
  }
  if (!source.why().empty()) return protocol_error(source.why());
  return {};
}

Expected<void> WireCheck::take_header(std::string_view bytes) {
  if (bytes.size() != basp::header_size) return protocol_error("half a header");
  auto big_endian = [&](size_t at, size_t size) {
    uint64_t x = 0;
    for (char byte : bytes.substr(at, size)) x = x << 8 | static_cast<uint8_t>(byte);
    return x;
  };
  constexpr size_t k_flags_at = 3, k_payload_at = 4, k_receiver_at = 24;
  const auto kind = static_cast<uint8_t>(bytes[0]);
  if (kind > static_cast<uint8_t>(BaspKind::heartbeat))
    return protocol_error("an unknown operation");
  kind_ = static_cast<BaspKind>(kind);
  has_payload_next_ = big_endian(k_payload_at, 4) != 0;
  if (has_payload_next_ == (kind_ == BaspKind::heartbeat))
    return protocol_error("a header that does not fit its operation");
  const bool is_message = kind_ == BaspKind::direct_message || kind_ == BaspKind::routed_message;
  const bool is_named = (bytes[k_flags_at] & basp::header::named_receiver_flag) != 0;
  if (is_message && is_named &&
      big_endian(k_receiver_at, 8) != static_cast<uint64_t>(caf::atom("SpawnServ")))
    return protocol_error("a message to an actor inside of CAF");
  return {};
}

Expected<void> WireCheck::take(caf::actor_system& system, std::string_view bytes) {
  if (!has_payload_next_) return take_header(bytes);
  has_payload_next_ = false;
  return check_payload(system, kind_, bytes);
}

}  // namespace cohort::control::detail
