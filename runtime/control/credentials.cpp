#include "runtime/control/credentials.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "runtime/control/sockets.hpp"

namespace cohort::control {

namespace {

using namespace detail;
namespace fs = std::filesystem;

constexpr size_t k_max_file_bytes = 64 << 10;
constexpr std::string_view k_copy_again =
    "copy the folder again, whole, or make a new one with `actor-node keys new DIR`";

Error refuse(const fs::path& path, std::string_view what, std::string_view remedy = k_copy_again) {
  return {Errc::invalid_argument, fmt::format("{} {}: {}", path.string(), what, remedy)};
}

/// Reads a file whose owner alone may change it and, if it is secret, read it. The check and the
/// read are of one open file, not of a path twice.
Expected<std::string> read_file(const fs::path& path, bool is_secret) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0)
    return Error{errno == ENOENT ? Errc::not_found : Errc::invalid_argument,
                 fmt::format("{}: {}: {}", path.string(), std::strerror(errno), k_copy_again)};
  if (!S_ISREG(info.st_mode)) return refuse(path, "is no file");
  const uid_t me = ::geteuid();
  if (me != 0 && info.st_uid != me && info.st_uid != 0)
    return refuse(path, fmt::format("belongs to user {}", info.st_uid),
                  "keys belong to the user that runs actor-node, or to root");
  if ((info.st_mode & (is_secret ? 077U : 022U)) != 0)
    return refuse(path,
                  fmt::format("has mode {:04o}: others can {} it", info.st_mode & 07777U,
                              is_secret ? "read" : "change"),
                  fmt::format("`chmod {} {}`, and make new keys if others were there",
                              is_secret ? "600" : "go-w", path.string()));
  std::string text(k_max_file_bytes, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size == text.size()) return refuse(path, "is too long");
  text.resize(size);
  return text;
}

Expected<Certificate> read_certificate(const fs::path& path) {
  COHORT_ASSIGN(const std::string text, read_file(path, false));
  Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Certificate x(bio ? PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr) : nullptr);
  if (!x) return refuse(path, fmt::format("holds no whole certificate ({})", openssl_reason()));
  return x;
}

/// Keys have no passphrase; without this OpenSSL would ask the terminal for one.
int no_passphrase(char*, int, int, void*) { return -1; }

Expected<Key> read_key(const fs::path& path) {
  COHORT_ASSIGN(const std::string text, read_file(path, true));
  Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Key key(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr) : nullptr);
  if (!key) return refuse(path, fmt::format("holds no whole key ({})", openssl_reason()));
  return key;
}

Expected<CurveKey> read_curve(const fs::path& path, bool is_secret) {
  COHORT_ASSIGN(std::string text, read_file(path, is_secret));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const auto key = z85_key(text);
  if (!key) return refuse(path, "holds no whole CURVE key (40 characters of Z85)");
  return *key;
}

int64_t seconds_of(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? ::timegm(&parts) : 0;
}

std::string date_of(int64_t seconds) {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

/// The authority has signed the certificate, both are valid today, and the key is the
/// certificate's.
Expected<void> check_chain(const Credentials& x, X509* authority, X509* certificate,
                           EVP_PKEY* key) {
  if (X509_check_private_key(certificate, key) != 1)
    return refuse(x.key_file,
                  fmt::format("is not the key of {} ({})", x.certificate_file, openssl_reason()));
  std::unique_ptr<X509_STORE, Freed<X509_STORE_free>> store(X509_STORE_new());
  std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>> context(X509_STORE_CTX_new());
  if (!store || !context || X509_STORE_add_cert(store.get(), authority) != 1 ||
      X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr) != 1)
    return Error{Errc::internal, "cannot check certificates: " + openssl_reason()};
  if (X509_verify_cert(context.get()) == 1) return {};
  const int code = X509_STORE_CTX_get_error(context.get());
  openssl_reason();  // nothing stays behind for the next caller
  const std::string dates =
      fmt::format("(valid {} to {})", date_of(seconds_of(X509_get0_notBefore(certificate))),
                  date_of(seconds_of(X509_get0_notAfter(certificate))));
  if (code == X509_V_ERR_CERT_HAS_EXPIRED)
    return refuse(x.certificate_file, "has expired " + dates,
                  "make new keys with `actor-node keys new DIR` and copy DIR to every host");
  if (code == X509_V_ERR_CERT_NOT_YET_VALID)
    return refuse(x.certificate_file, "is not valid yet " + dates, "set this host's clock");
  return refuse(x.certificate_file, fmt::format("was not signed by {} ({})", x.ca_file,
                                                X509_verify_cert_error_string(code)));
}

Expected<std::string> sha256_of(const std::string& path) {
  COHORT_ASSIGN(const Certificate x, read_certificate(path));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (X509_digest(x.get(), EVP_sha256(), digest, &size) != 1)
    return Error{Errc::internal, "cannot hash " + path + ": " + openssl_reason()};
  return fmt::format("{:02x}", fmt::join(digest, digest + size, ""));
}

Expected<void> check_folder(const fs::path& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0)
    return Error{Errc::not_found,
                 fmt::format("{}: {}: make the cluster's keys with `actor-node keys new DIR`, and "
                             "copy DIR to every host",
                             folder.string(), std::strerror(errno))};
  if (!S_ISDIR(info.st_mode)) return refuse(folder, "is no folder", "name the folder of the keys");
  const bool is_shared = (info.st_mode & 022U) != 0 && (info.st_mode & S_ISVTX) == 0;
  if (is_shared)
    return refuse(folder, "can be changed by others",
                  fmt::format("`chmod 700 {}`", folder.string()));
  return {};
}

}  // namespace

Expected<Credentials> load_credentials(const std::string& folder) {
  std::error_code error;
  const fs::path path = fs::absolute(folder, error);
  if (folder.empty() || error)
    return Error{Errc::invalid_argument, fmt::format("\"{}\" names no folder", folder)};
  COHORT_TRY(check_folder(path));
  Credentials x;
  x.folder = path;
  x.ca_file = path / k_authority_pem;
  x.certificate_file = path / k_certificate_pem;
  x.key_file = path / k_key_pem;
  COHORT_ASSIGN(const Certificate authority, read_certificate(x.ca_file));
  COHORT_ASSIGN(const Certificate certificate, read_certificate(x.certificate_file));
  COHORT_ASSIGN(const Key key, read_key(x.key_file));
  COHORT_TRY(check_chain(x, authority.get(), certificate.get(), key.get()));
  COHORT_ASSIGN(const CurveKey curve, read_curve(path / k_curve_public, false));
  COHORT_ASSIGN(const CurveKey secret, read_curve(path / k_curve_secret, true));
  COHORT_ASSIGN(const CurveKey derived, curve_public_of(secret));
  if (derived != curve)
    return refuse(path / k_curve_secret, fmt::format("is not the secret of {}", k_curve_public));
  x.curve_public = z85_text(curve);
  x.curve_secret = z85_text(secret);
  x.expires_at = seconds_of(X509_get0_notAfter(certificate.get()));
  return x;
}

Expected<std::string> load_dashboard_token(const Credentials& credentials) {
  constexpr size_t k_chars_min = 32;
  const fs::path path = fs::path(credentials.folder) / k_dashboard_token;
  COHORT_ASSIGN(std::string token, read_file(path, true));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const bool is_plain = std::ranges::all_of(token, [](char c) { return c > ' ' && c < '\x7f'; });
  if (token.size() < k_chars_min || !is_plain)
    return refuse(
        path, fmt::format("holds no token of at least {} characters without blanks", k_chars_min));
  return token;
}

Expected<CredentialsInfo> describe_credentials(const Credentials& credentials) {
  CredentialsInfo info;
  COHORT_ASSIGN(info.authority_sha256, sha256_of(credentials.ca_file));
  COHORT_ASSIGN(info.certificate_sha256, sha256_of(credentials.certificate_file));
  info.curve_public = credentials.curve_public;
  info.expires = date_of(credentials.expires_at);
  info.days_left = (credentials.expires_at - std::time(nullptr)) / 86400;
  return info;
}

}  // namespace cohort::control
