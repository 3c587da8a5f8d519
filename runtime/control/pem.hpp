#pragma once
/// Shared by reading and writing credentials: OpenSSL's objects with their ends, Z85, X25519.
/// Internal to runtime/control. Pure; value types.
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort::control::detail {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* x) const {
    Free(x);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;

/// Names of the files in a folder of credentials.
inline constexpr const char *k_authority_pem = "ca.pem", *k_certificate_pem = "node.pem",
                            *k_key_pem = "node.key", *k_curve_public = "curve.public",
                            *k_curve_secret = "curve.secret",
                            *k_dashboard_token = "dashboard.token";

inline constexpr size_t k_curve_bytes = 32, k_z85_chars = 40;
using CurveKey = std::array<unsigned char, k_curve_bytes>;

/// ZeroMQ's text form of 32 bytes (rfc.zeromq.org/spec/32).
std::string z85_text(const CurveKey& key);
/// Returns nullopt unless `text` is 40 characters of Z85 within its range.
std::optional<CurveKey> z85_key(std::string_view text);

/// Returns the public half of a CURVE (X25519) secret.
Expected<CurveKey> curve_public_of(const CurveKey& secret);

/// Returns OpenSSL's last reason, or "no reason given", and forgets the others.
std::string openssl_reason();

}  // namespace cohort::control::detail
