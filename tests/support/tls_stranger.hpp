#pragma once
/// A TLS client with or without a certificate, for the tests of what listens. Owner: the test.
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "runtime/control/credentials.hpp"
#include "tests/support/raw_socket.hpp"

namespace cohort::test {

/// Shakes hands as a client that believes any server and shows `credentials`, if there are some.
/// Returns what the server sends afterwards: its first words to a member, nothing to a stranger.
inline std::string first_words_over_tls(uint16_t port, const control::Credentials* credentials,
                                        int version = TLS1_3_VERSION) {
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                            SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), version);
  SSL_CTX_set_max_proto_version(context.get(), version);
  if (credentials != nullptr) {
    SSL_CTX_use_certificate_file(context.get(), credentials->certificate_file.c_str(),
                                 SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context.get(), credentials->key_file.c_str(), SSL_FILETYPE_PEM);
  }
  RawSocket socket(port);
  timeval limit{5, 0};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
  SSL_set_fd(ssl.get(), socket.fd());
  char words[64];
  if (SSL_connect(ssl.get()) != 1) return {};
  const int got = SSL_read(ssl.get(), words, sizeof(words));
  return got > 0 ? std::string(words, static_cast<size_t>(got)) : std::string();
}

}  // namespace cohort::test
