#include "runtime/control/tls.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/check.hpp"

namespace cohort::control::detail {

namespace {

// OpenSSL's own socket BIO writes with write(), and a peer that has gone would raise SIGPIPE.
int socket_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))), data,
                              static_cast<size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int socket_read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))), data,
                             static_cast<size_t>(size), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long socket_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

bool set_protocol(SSL_CTX* context, TlsPeers peers) {
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                   SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  // A connection proves itself anew each time; without tickets there is nothing to replay.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context,
                     peers == TlsPeers::anyone ? SSL_VERIFY_NONE
                                               : SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     nullptr);
  SSL_CTX_set_verify_depth(context, 1);
  SSL_CTX_set_max_cert_list(context, static_cast<long>(k_max_hello_bytes));
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_num_tickets(context, 0) == 1;
}

}  // namespace

Expected<std::shared_ptr<TlsContext>> TlsContext::open(const Credentials& x, TlsPeers peers) {
  std::shared_ptr<TlsContext> result(new TlsContext);
  result->context_.reset(SSL_CTX_new(TLS_method()));
  result->method_.reset(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cohort socket"));
  SSL_CTX* context = result->native();
  BIO_METHOD* method = result->method_.get();
  if (context == nullptr || method == nullptr || !set_protocol(context, peers) ||
      BIO_meth_set_write(method, socket_write) != 1 ||
      BIO_meth_set_read(method, socket_read) != 1 || BIO_meth_set_ctrl(method, socket_control) != 1)
    return Error{Errc::internal, "cannot set up TLS: " + openssl_reason()};
  auto refuse = [&](const std::string& file) {
    return Error{Errc::invalid_argument, fmt::format("{}: {}", file, openssl_reason())};
  };
  // Keys have no passphrase; without this OpenSSL would ask the terminal for one.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_certificate_file(context, x.certificate_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return refuse(x.certificate_file);
  if (SSL_CTX_use_PrivateKey_file(context, x.key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return refuse(x.key_file);
  if (SSL_CTX_load_verify_file(context, x.ca_file.c_str()) != 1) return refuse(x.ca_file);
  return result;
}

TlsSession::TlsSession(std::shared_ptr<TlsContext> context, int socket, TlsSide side)
    : context_(std::move(context)), ssl_(SSL_new(context_->native())) {
  BIO* bio = BIO_new(context_->socket_method());
  COHORT_CHECK(ssl_ != nullptr && bio != nullptr, "TLS: out of memory");
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  side == TlsSide::server ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
}

TlsResult TlsSession::judge(int result) {
  const int socket_error = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_NONE:
      return TlsResult::done;
    case SSL_ERROR_WANT_READ:
      return TlsResult::wants_input;
    case SSL_ERROR_WANT_WRITE:
      return TlsResult::wants_output;
    case SSL_ERROR_ZERO_RETURN:
      failure_ = "closed by the peer";
      break;
    case SSL_ERROR_SYSCALL:
      failure_ = socket_error == 0 ? "closed by the peer" : std::strerror(socket_error);
      break;
    default: {
      const long verdict = SSL_get_verify_result(ssl_.get());
      failure_ = verdict == X509_V_OK ? openssl_reason() : X509_verify_cert_error_string(verdict);
    }
  }
  ERR_clear_error();
  return TlsResult::failed;
}

TlsResult TlsSession::handshake() {
  ERR_clear_error();
  errno = 0;
  const TlsResult result = judge(SSL_do_handshake(ssl_.get()));
  const bool is_asking = result == TlsResult::wants_input || result == TlsResult::wants_output;
  if (is_asking && BIO_number_read(SSL_get_rbio(ssl_.get())) > k_max_hello_bytes) {
    failure_ = "more than a handshake takes";
    return TlsResult::failed;
  }
  return result;
}

TlsResult TlsSession::read(std::span<char> to, size_t& count) {
  ERR_clear_error();
  errno = 0;
  count = 0;
  const int result = SSL_read_ex(ssl_.get(), to.data(), to.size(), &count);
  return result == 1 ? TlsResult::done : judge(result);
}

TlsResult TlsSession::write(std::span<const char> from, size_t& count) {
  ERR_clear_error();
  errno = 0;
  count = 0;
  const int result = SSL_write_ex(ssl_.get(), from.data(), from.size(), &count);
  return result == 1 ? TlsResult::done : judge(result);
}

size_t TlsSession::pending_bytes() const { return static_cast<size_t>(SSL_pending(ssl_.get())); }

}  // namespace cohort::control::detail
