#pragma once
/// Raw TCP peers for the tests of what listens, and what they cost this process. Owner: the test.
/// Every wait has an end.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace cohort::test {

/// A TCP connection to loopback.
class RawSocket {
 public:
  explicit RawSocket(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  RawSocket(RawSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), is_open_(other.is_open_) {}
  ~RawSocket() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool is_open() const { return is_open_; }
  int fd() const { return fd_; }
  bool send(std::string_view bytes) const {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  /// Returns what comes until the other side closes or `limit_ms` have passed in silence.
  std::string receive_all(int limit_ms, bool& was_closed) const {
    std::string all;
    was_closed = false;
    char buffer[4096];
    for (;;) {
      pollfd item{fd_, POLLIN, 0};
      if (::poll(&item, 1, limit_ms) <= 0) return all;
      const ssize_t got = ::recv(fd_, buffer, sizeof(buffer), 0);
      if (got <= 0) {
        was_closed = true;
        return all;
      }
      all.append(buffer, static_cast<size_t>(got));
    }
  }

 private:
  int fd_;
  bool is_open_ = false;
};

inline size_t resident_bytes() {
  size_t total = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%zu %zu", &total, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

inline size_t open_descriptors() {
  std::error_code ignored;
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

/// Lets this process open `count` files, or says that it may not.
inline bool allow_descriptors(rlim_t count) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= count) return true;
  limit.rlim_cur = std::min(count, limit.rlim_max);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= count;
}

}  // namespace cohort::test
