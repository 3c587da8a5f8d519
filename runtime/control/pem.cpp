#include "runtime/control/pem.hpp"

#include <openssl/err.h>

namespace cohort::control::detail {

namespace {

constexpr std::string_view k_z85_digits =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
static_assert(k_z85_digits.size() == 85);

}  // namespace

std::string z85_text(const CurveKey& key) {
  std::string text(k_z85_chars, '0');
  for (size_t word = 0; word < k_curve_bytes / 4; ++word) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | key[4 * word + i];
    for (size_t i = 5; i-- > 0; value /= 85) text[5 * word + i] = k_z85_digits[value % 85];
  }
  return text;
}

std::optional<CurveKey> z85_key(std::string_view text) {
  if (text.size() != k_z85_chars) return std::nullopt;
  CurveKey key{};
  for (size_t word = 0; word < k_curve_bytes / 4; ++word) {
    uint64_t value = 0;
    for (size_t i = 0; i < 5; ++i) {
      const size_t digit = k_z85_digits.find(text[5 * word + i]);
      if (digit == std::string_view::npos) return std::nullopt;
      value = value * 85 + digit;
    }
    if (value > UINT32_MAX) return std::nullopt;
    for (size_t i = 0; i < 4; ++i)
      key[4 * word + i] = static_cast<unsigned char>(value >> (24 - 8 * i));
  }
  return key;
}

Expected<CurveKey> curve_public_of(const CurveKey& secret) {
  Key pair(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, secret.data(), secret.size()));
  CurveKey key{};
  size_t size = key.size();
  if (!pair || EVP_PKEY_get_raw_public_key(pair.get(), key.data(), &size) != 1)
    return Error{Errc::internal, "X25519: " + openssl_reason()};
  return key;
}

std::string openssl_reason() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

}  // namespace cohort::control::detail
