#pragma once
/// TLS 1.3 between processes of one cluster: both sides show the cluster's certificate, and nothing
/// else is believed (but TlsPeers::anyone). Names of hosts are not checked: a holder of the
/// cluster's key is a member, wherever it runs. Internal to runtime/control. Thread-safety:
/// TlsContext is thread-safe and lives as long as the last of its sessions; a TlsSession belongs to
/// one thread at a time.
///   TLS-1 nothing that a peer sends is interpreted before its certificate has been verified; until
///         then it can make us hold at most k_max_hello_bytes of one connection.
#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/control/credentials.hpp"
#include "runtime/control/pem.hpp"

namespace cohort::control::detail {

/// The bytes that a peer may send until it is known: a handshake of ours takes less than 2 KiB.
inline constexpr size_t k_max_hello_bytes = 16 << 10;

enum class TlsResult { done, wants_input, wants_output, failed };
enum class TlsSide { server, client };
/// The peers that may connect: only those that show the cluster's certificate, or, at a server that
/// asks for something else (the dashboard for its token), anyone.
enum class TlsPeers { members, anyone };

class TlsContext {
 public:
  /// Reads the files once; later changes to them have no effect. Errc::invalid_argument.
  static Expected<std::shared_ptr<TlsContext>> open(const Credentials& credentials,
                                                    TlsPeers peers = TlsPeers::members);
  SSL_CTX* native() const { return context_.get(); }
  const BIO_METHOD* socket_method() const { return method_.get(); }

 private:
  TlsContext() = default;
  std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context_;
  std::unique_ptr<BIO_METHOD, Freed<BIO_meth_free>> method_;
};

/// One connection over a socket that it does not own. No call blocks if the socket does not.
class TlsSession {
 public:
  TlsSession(std::shared_ptr<TlsContext> context, int socket, TlsSide side);
  TlsResult handshake();
  /// `count` is 0 unless done. A connection that the peer closed has failed.
  TlsResult read(std::span<char> to, size_t& count);
  TlsResult write(std::span<const char> from, size_t& count);
  /// Returns bytes that were decrypted but not read: the socket will not announce them.
  size_t pending_bytes() const;
  /// Why it failed.
  const std::string& failure() const { return failure_; }

 private:
  TlsResult judge(int result);
  std::shared_ptr<TlsContext> context_;
  std::unique_ptr<SSL, Freed<SSL_free>> ssl_;
  std::string failure_;
};

}  // namespace cohort::control::detail
