#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "runtime/base/descriptor.hpp"
#include "runtime/publish/ports.hpp"

namespace cohort::publish {
namespace {

constexpr uint32_t k_magic = 0x31504843;  // "CHP1"
constexpr std::string_view k_scheme = "shm://";
constexpr size_t k_text_bytes = 2048;
constexpr uint32_t k_listener = ~uint32_t{0};  // tags of epoll; below: cards
constexpr uint32_t k_first_caller = uint32_t{1} << 31;
constexpr int k_connect_seconds = 10;

Error io_failure(const std::string& what) {
  return {Errc::io, fmt::format("publish: {}: {}", what, std::strerror(errno))};
}

class Mapping {
 public:
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  }
  static Expected<Mapping> of(const Descriptor& file, size_t size_bytes, int protection) {
    void* at = ::mmap(nullptr, size_bytes, protection, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) return io_failure(fmt::format("cannot map {} bytes", size_bytes));
    Mapping mapping;
    mapping.bytes_ = {static_cast<std::byte*>(at), size_bytes};
    return mapping;
  }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// One message of a connection: this, then text_bytes; a window travels as a descriptor beside it.
struct Packet {
  enum class Type : uint32_t { window = 1, note = 2 };
  uint32_t magic = k_magic;
  Type type = Type::note;
  uint32_t card = 0;
  uint32_t text_bytes = 0;
  uint64_t window_bytes = 0;
  Note note;
};

struct Outbound {
  Packet packet;
  tensor::Buffer text;
};

/// Room for one descriptor beside a message.
union Control {
  cmsghdr header;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

enum class Written { done, full, lost };

Written write_packet(int socket, const Outbound& out, int window) {
  std::array<iovec, 2> parts{
      iovec{const_cast<Packet*>(&out.packet), sizeof(Packet)},
      iovec{const_cast<std::byte*>(out.text.bytes().data()), out.text.size_bytes()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = out.text.empty() ? 1 : 2;
  Control control{};
  if (out.packet.type == Packet::Type::window && out.packet.window_bytes > 0) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &window, sizeof(int));
  }
  while (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == ENOBUFS ? Written::full : Written::lost;
  }
  return Written::done;
}

struct Inbound {
  Packet packet;
  tensor::Buffer text;
  Descriptor window;
};

enum class Read { done, empty, lost, wrong };

Read read_packet(int socket, Inbound& in) {
  std::array<std::byte, k_text_bytes> text;
  std::array<iovec, 2> parts{iovec{&in.packet, sizeof(Packet)}, iovec{text.data(), text.size()}};
  Control control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t size = 0;
  while ((size = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EINTR || errno == ECONNRESET) continue;  // what came before a reset can be read
    return errno == EAGAIN ? Read::empty : Read::lost;
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header))
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
      size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);  // padding has room for two
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        in.window = Descriptor(fd);
      }
    }
  if (size == 0) return Read::lost;
  if (static_cast<size_t>(size) < sizeof(Packet) || in.packet.magic != k_magic ||
      in.packet.text_bytes != static_cast<size_t>(size) - sizeof(Packet))
    return Read::wrong;
  if (in.packet.text_bytes > 0)
    in.text = tensor::Buffer::copy_of({text.data(), in.packet.text_bytes});
  return Read::done;
}

sockaddr_un abstract_address(std::string_view name, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // sun_path[0] stays 0: the abstract namespace
  std::memcpy(address.sun_path + 1, name.data(),
              std::min(name.size(), sizeof(address.sun_path) - 1));
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

bool is_same_user(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
         credentials.uid == ::geteuid();
}

class SharedPort final : public Port {
 public:
  Expected<void> open() {
    uint64_t random = 0;
    if (::getrandom(&random, sizeof(random), 0) != sizeof(random)) return io_failure("getrandom");
    name_ = fmt::format("cohort.publish.{}.{:016x}", ::getpid(), random);
    listener_ = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
    socklen_t size = 0;
    sockaddr_un address = abstract_address(name_, size);
    if (!listener_ || !epoll_ ||
        ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_.get(), SOMAXCONN) != 0)
      return io_failure("cannot listen on a unix socket");
    return watch(listener_, k_listener, EPOLLIN, EPOLL_CTL_ADD);
  }

  std::string endpoint() const override { return std::string(k_scheme) + name_; }

  Expected<void> connect(uint32_t own, const std::vector<std::string>& endpoints,
                         uint64_t window_bytes) override {
    own_ = own;
    window_bytes_ = window_bytes;
    peers_.resize(endpoints.size());
    COHORT_TRY(renew_window());
    for (uint32_t i = 0; i < endpoints.size(); ++i) {
      if (endpoints[i].empty()) continue;
      if (!endpoints[i].starts_with(k_scheme))
        return Error{Errc::invalid_argument,
                     fmt::format("publish: {} is no endpoint of shared memory", endpoints[i])};
      // Of two cards the one with the lower index calls the other.
      if (own < i) COHORT_TRY(call(i, endpoints[i].substr(k_scheme.size())));
    }
    return {};
  }

  Expected<void> forget(uint64_t) override { return renew_window(); }

  Expected<void> renew_window() {
    window_ = Mapping();
    if (window_bytes_ > 0) {
      window_file_ = Descriptor(::memfd_create("cohort.publish", MFD_CLOEXEC | MFD_ALLOW_SEALING));
      if (!window_file_ || ::ftruncate(window_file_.get(), static_cast<off_t>(window_bytes_)) != 0)
        return io_failure(fmt::format("cannot make a window of {} bytes", window_bytes_));
      COHORT_ASSIGN(window_, Mapping::of(window_file_, window_bytes_, PROT_READ | PROT_WRITE));
      // From here on nobody but this mapping may write (Linux 5.1; gVisor and older ones lack it).
      [[maybe_unused]] int is_read_only =
          ::fcntl(window_file_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
      if (::fcntl(window_file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return io_failure("cannot seal a window");
    }
    for (uint32_t i = 0; i < peers_.size(); ++i)
      if (peers_[i].socket) write(i, window_packet());
    return {};
  }

  std::span<std::byte> window() override { return window_.bytes(); }
  std::span<const std::byte> window_of(uint32_t peer) override {
    return peers_[peer].window.bytes();
  }
  bool has_windows() const override { return true; }
  uint64_t held_bytes() const override { return 0; }
  int wait_fd() const override { return epoll_.get(); }

  Expected<bool> send(uint32_t peer, const Note& note, tensor::Buffer body) override {
    if (peers_[peer].is_lost) return Error{Errc::closed, "its process has ended"};
    Outbound out{{}, std::move(body)};
    out.packet.card = own_;
    out.packet.text_bytes = static_cast<uint32_t>(out.text.size_bytes());
    out.packet.note = note;
    write(peer, std::move(out));
    return true;
  }

  std::optional<PortEvent> next() override {
    if (events_.empty()) poll();
    if (events_.empty()) return std::nullopt;
    PortEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  struct Peer {
    Descriptor socket;
    Mapping window;
    std::deque<Outbound> waiting;  // the socket is full, or not there yet
    bool is_lost = false;
    bool is_watched_for_room = false;
  };

  Expected<void> watch(const Descriptor& fd, uint32_t tag, uint32_t events, int operation) {
    epoll_event event{};
    event.events = events;
    event.data.u32 = tag;
    if (::epoll_ctl(epoll_.get(), operation, fd.get(), &event) != 0) return io_failure("epoll");
    return {};
  }

  Expected<void> call(uint32_t peer, const std::string& name) {
    Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    timeval limit{k_connect_seconds, 0};
    socklen_t size = 0;
    sockaddr_un address = abstract_address(name, size);
    if (!socket) return io_failure("cannot make a unix socket");
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
      lose(peer, fmt::format("nobody listens at {}{}: {}", k_scheme, name, std::strerror(errno)));
      return {};
    }
    if (!is_same_user(socket.get())) {
      lose(peer, "its process belongs to another user");
      return {};
    }
    return attach(peer, std::move(socket), EPOLL_CTL_ADD);
  }

  Expected<void> attach(uint32_t peer, Descriptor socket, int operation) {
    Peer& x = peers_[peer];
    x.socket = std::move(socket);
    COHORT_TRY(watch(x.socket, peer, EPOLLIN, operation));
    x.waiting.push_front(window_packet());
    flush(peer);
    return {};
  }

  Outbound window_packet() const {
    Outbound out;
    out.packet.type = Packet::Type::window;
    out.packet.card = own_;
    out.packet.window_bytes = window_bytes_;
    return out;
  }

  void write(uint32_t peer, Outbound out) {
    peers_[peer].waiting.push_back(std::move(out));
    flush(peer);
  }

  void flush(uint32_t peer) {
    Peer& x = peers_[peer];
    if (!x.socket) return;
    Written written = Written::done;
    while (!x.waiting.empty() && written == Written::done) {
      written = write_packet(x.socket.get(), x.waiting.front(), window_file_.get());
      if (written == Written::done) x.waiting.pop_front();
    }
    if (written == Written::lost) return;  // the read side tells it, after what is still to read
    bool wants_room = written == Written::full;
    if (wants_room == x.is_watched_for_room) return;
    x.is_watched_for_room = wants_room;
    uint32_t events = EPOLLIN | (wants_room ? uint32_t{EPOLLOUT} : 0u);
    if (auto set = watch(x.socket, peer, events, EPOLL_CTL_MOD); !set)
      lose(peer, set.error().detail);
  }

  void poll() {
    std::array<epoll_event, 16> ready;
    int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
      uint32_t tag = ready[static_cast<size_t>(i)].data.u32;
      if (tag == k_listener) {
        accept();
        continue;
      }
      if (tag >= k_first_caller) {
        identify(tag);
        continue;
      }
      if (ready[static_cast<size_t>(i)].events & EPOLLOUT) flush(tag);
      receive(tag);
    }
  }

  void accept() {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket || !is_same_user(socket.get())) return;
    uint32_t tag = next_caller_++;
    if (watch(socket, tag, EPOLLIN, EPOLL_CTL_ADD)) callers_[tag] = std::move(socket);
  }

  /// A caller's first packet says which card it is; who says anything else is turned away.
  void identify(uint32_t tag) {
    auto caller = callers_.find(tag);
    if (caller == callers_.end()) return;
    Inbound in;
    Read read = read_packet(caller->second.get(), in);
    if (read == Read::empty) return;
    Descriptor socket = std::move(caller->second);
    callers_.erase(caller);
    uint32_t peer = in.packet.card;
    if (read != Read::done || in.packet.type != Packet::Type::window || peer >= own_ ||
        peers_[peer].socket || peers_[peer].is_lost)
      return;
    if (auto attached = attach(peer, std::move(socket), EPOLL_CTL_MOD); !attached)
      return lose(peer, attached.error().detail);
    take_window(peer, in);
  }

  void receive(uint32_t peer) {
    constexpr int k_batch = 64;
    for (int i = 0; i < k_batch && peers_[peer].socket; ++i) {
      Inbound in;
      Read read = read_packet(peers_[peer].socket.get(), in);
      if (read == Read::empty) return;
      if (read == Read::lost) return lose(peer, "its process has ended");
      if (read == Read::wrong) return lose(peer, "it sent what is no note");
      if (in.packet.type == Packet::Type::window)
        take_window(peer, in);
      else
        events_.push_back({PortEvent::Kind::note, peer, in.packet.note, std::move(in.text), {}});
    }
  }

  void take_window(uint32_t peer, Inbound& in) {
    peers_[peer].window = Mapping();
    if (in.packet.window_bytes == 0) return;
    struct stat status {};
    constexpr int k_seals = F_SEAL_SHRINK;
    bool is_safe = in.window && ::fstat(in.window.get(), &status) == 0 &&
                   static_cast<uint64_t>(status.st_size) == in.packet.window_bytes &&
                   (::fcntl(in.window.get(), F_GET_SEALS) & k_seals) == k_seals;
    if (!is_safe) return lose(peer, "its window is not of the size it says");
    auto mapping = Mapping::of(in.window, in.packet.window_bytes, PROT_READ);
    if (!mapping) return lose(peer, mapping.error().detail);
    peers_[peer].window = std::move(*mapping);
  }

  void lose(uint32_t peer, const std::string& reason) {
    Peer& x = peers_[peer];
    if (std::exchange(x.is_lost, true)) return;
    x.socket.close();
    x.waiting.clear();
    events_.push_back({PortEvent::Kind::lost, peer, {}, {}, reason});
  }

  std::string name_;
  Descriptor listener_, epoll_, window_file_;
  uint32_t own_ = 0;
  uint64_t window_bytes_ = 0;
  Mapping window_;
  std::vector<Peer> peers_;
  std::map<uint32_t, Descriptor> callers_;  // not yet identified
  uint32_t next_caller_ = k_first_caller;
  std::deque<PortEvent> events_;
};

}  // namespace

Expected<std::unique_ptr<Port>> open_shared_port() {
  auto port = std::make_unique<SharedPort>();
  COHORT_TRY(port->open());
  return std::unique_ptr<Port>(std::move(port));
}

}  // namespace cohort::publish
