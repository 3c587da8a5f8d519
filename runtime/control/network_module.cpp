#include "runtime/control/network_module.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <caf/io/middleman_actor_impl.hpp>
#include <caf/io/network/acceptor.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/stream.hpp>
#include <caf/policy/tcp.hpp>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/log.hpp"
#include "runtime/control/gate.hpp"
#include "runtime/control/messages.hpp"
#include "runtime/control/system.hpp"
#include "runtime/control/wire_check.hpp"

namespace cohort::control::detail {

namespace {

namespace io = caf::io;
namespace network = caf::io::network;
using network::rw_state;

/// Reads and writes of one connection, with or without TLS, as caf's streams want them.
class Channel {
 public:
  Channel(std::unique_ptr<TlsSession> tls, std::string peer)
      : tls_(std::move(tls)), peer_(std::move(peer)) {}

  rw_state read_some(size_t& count, int socket, void* to, size_t size) {
    if (is_refused_) return rw_state::failure;
    if (!tls_) return caf::policy::tcp::read_some(count, socket, to, size);
    return judge(tls_->read({static_cast<char*>(to), size}, count));
  }
  rw_state write_some(size_t& count, int socket, const void* from, size_t size) {
    count = 0;
    if (is_refused_) return rw_state::failure;
    if (!tls_) return caf::policy::tcp::write_some(count, socket, from, size);
    if (size == 0) return rw_state::indeterminate;
    return judge(tls_->write({static_cast<const char*>(from), size}, count));
  }
  bool must_read_more(int, size_t threshold) const {
    return tls_ && tls_->pending_bytes() >= threshold;
  }
  void refuse(std::string_view why) {
    if (!std::exchange(is_refused_, true)) log::warn("connection with {}: {}", peer_, why);
  }

 private:
  rw_state judge(TlsResult result) {
    if (result != TlsResult::failed) return rw_state::success;
    if (tls_->failure() != "closed by the peer")
      log::warn("connection with {}: {}", peer_, tls_->failure());
    is_refused_ = true;  // a session that failed is never used again
    return rw_state::failure;
  }
  std::unique_ptr<TlsSession> tls_;
  std::string peer_;
  bool is_refused_ = false;
};

class Stream final : public network::stream {
 public:
  Stream(network::default_multiplexer& loop, int socket, Channel channel)
      : stream(loop, socket), channel_(std::move(channel)) {}
  void handle_event(network::operation operation) override {
    handle_event_impl(operation, channel_);
  }
  Channel& channel() { return channel_; }

 private:
  Channel channel_;
};

class Scribe final : public io::scribe {
 public:
  Scribe(network::default_multiplexer& loop, Connection connection)
      : scribe(network::conn_hdl_from_socket(connection.socket.get())),
        place_(std::move(connection.place)),
        stream_(loop, connection.socket.get(),
                Channel(std::move(connection.tls), std::move(connection.peer))) {
    connection.socket.release();  // the stream closes it
  }
  void configure_read(io::receive_policy::config policy) override {
    if (policy.second > k_max_message_bytes) {  // WIRE-1
      stream_.channel().refuse("a message is longer than any of ours");
      policy = io::receive_policy::exactly(1);
    }
    stream_.configure_read(policy);
    if (!std::exchange(is_launched_, true)) stream_.start(this);
  }
  void ack_writes(bool enable) override { stream_.ack_writes(enable); }
  std::vector<char>& wr_buf() override { return stream_.wr_buf(); }
  std::vector<char>& rd_buf() override { return stream_.rd_buf(); }
  bool consume(caf::execution_unit* context, const void* bytes, size_t size) override {
    auto fine = check_.take(stream_.backend().system(), {static_cast<const char*>(bytes), size});
    if (fine) return scribe::consume(context, bytes, size);
    end(fine.error().detail);  // WIRE-3
    return true;               // the channel says it: false would leave the broker in the dark
  }
  void graceful_shutdown() override {
    stream_.graceful_shutdown();
    detach(&stream_.backend(), false);
  }
  void flush() override {
    if (stream_.wr_buf().size() > k_max_unsent_bytes) {  // WIRE-2
      end("the peer does not read");
      return;
    }
    stream_.flush(this);
  }
  std::string addr() const override {
    auto address = network::remote_addr_of_fd(stream_.fd());
    return address ? *address : std::string();
  }
  uint16_t port() const override {
    auto port = network::remote_port_of_fd(stream_.fd());
    return port ? *port : uint16_t{0};
  }
  void add_to_loop() override { stream_.activate(this); }
  void remove_from_loop() override { stream_.passivate(); }

 private:
  void end(std::string_view why) {
    stream_.channel().refuse(why);
    stream_.wr_buf().clear();
    ::shutdown(stream_.fd(), SHUT_RDWR);  // wakes the loop, which asks the channel
  }

  const std::shared_ptr<void> place_;
  bool is_launched_ = false;
  WireCheck check_;
  Stream stream_;
};

/// Stands between the Gate's announcements and CAF's loop.
class Arrivals final : public network::acceptor {
 public:
  Arrivals(network::default_multiplexer& loop, int announcements) : acceptor(loop, announcements) {}
  void handle_event(network::operation operation) override { handle_event_impl(operation, *this); }
  /// One arrival for each number that can be read; the Doorman takes it from the Gate.
  bool try_accept(int& announcement, int announcements) const {
    uint64_t one = 0;
    if (::read(announcements, &one, sizeof(one)) != sizeof(one)) return false;
    announcement = announcements;
    return true;
  }
};

class Doorman final : public io::doorman {
 public:
  Doorman(network::default_multiplexer& loop, std::string host, std::unique_ptr<Gate> gate,
          int announcements)
      : doorman(network::accept_hdl_from_socket(announcements)),
        host_(std::move(host)),
        gate_(std::move(gate)),
        arrivals_(loop, announcements) {}
  bool new_connection() override {
    auto connection = gate_->take();
    if (!connection || detached()) return false;
    auto scribe = caf::make_counted<Scribe>(arrivals_.backend(), std::move(*connection));
    const io::connection_handle handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    return doorman::new_connection(&arrivals_.backend(), handle);
  }
  void graceful_shutdown() override {
    arrivals_.graceful_shutdown();
    detach(&arrivals_.backend(), false);
  }
  void launch() override { arrivals_.start(this); }
  std::string addr() const override { return host_; }
  uint16_t port() const override { return gate_->port(); }
  void add_to_loop() override { arrivals_.activate(this); }
  void remove_from_loop() override { arrivals_.passivate(); }

 private:
  const std::string host_;
  const std::unique_ptr<Gate> gate_;
  Arrivals arrivals_;
};

class NetworkActor final : public io::middleman_actor_impl {
 public:
  NetworkActor(caf::actor_config& config, caf::actor broker, std::shared_ptr<TlsContext> tls)
      : middleman_actor_impl(config, std::move(broker)), tls_(std::move(tls)) {}
  const char* name() const override { return "network"; }

 protected:
  caf::expected<io::scribe_ptr> connect(const std::string& host, uint16_t port) override {
    auto connection = dial(host, port, tls_, k_dial_ms);
    if (!connection) return to_caf(connection.error());
    return caf::make_counted<Scribe>(loop(), std::move(*connection));
  }
  caf::expected<io::doorman_ptr> open(uint16_t port, const char* host, bool) override {
    const std::string text = host == nullptr ? "" : host;
    auto gate = Gate::open({.host = text, .port = port, .tls = tls_});
    if (!gate) return to_caf(gate.error());
    const int announcements = (*gate)->announcements().release();
    return caf::make_counted<Doorman>(loop(), text, std::move(*gate), announcements);
  }

 private:
  network::default_multiplexer& loop() {
    return dynamic_cast<network::default_multiplexer&>(system().middleman().backend());
  }
  const std::shared_ptr<TlsContext> tls_;
};

constexpr caf::atom_value k_registry_name = caf::atom("cohortnet");

}  // namespace

caf::actor_system::module* NetworkModule::make(caf::actor_system& system,
                                               caf::detail::type_list<>) {
  return new NetworkModule(system);
}

void NetworkModule::init(caf::actor_system_config& config) {
  const auto& options = dynamic_cast<const SystemConfig&>(config).options();
  if (!options.credentials) return;
  auto tls = TlsContext::open(*options.credentials);
  COHORT_CHECK(tls.has_value(), tls ? "" : tls.error().to_string());
  tls_ = std::move(*tls);
}

void NetworkModule::start() {
  auto broker = system_.middleman().named_broker<io::basp_broker>(caf::atom("BASP"));
  auto actor = system_.spawn<NetworkActor, caf::detached + caf::hidden>(std::move(broker), tls_);
  system_.registry().put(k_registry_name, actor);
  actor_ = std::move(actor);
}

void NetworkModule::stop() {
  system_.registry().erase(k_registry_name);
  caf::scoped_actor self{system_, true};
  self->send_exit(actor_, caf::exit_reason::kill);
  self->wait_for(actor_);
  actor_ = nullptr;
}

io::middleman_actor network_actor(caf::actor_system& system) {
  return caf::actor_cast<io::middleman_actor>(system.registry().get(k_registry_name));
}

}  // namespace cohort::control::detail
