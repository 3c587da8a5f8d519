#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>
#include <vector>

#include "runtime/control/credentials.hpp"
#include "runtime/control/pem.hpp"

namespace cohort::control {

namespace {

using namespace detail;
namespace fs = std::filesystem;

constexpr int64_t k_day_seconds = 86400;
constexpr int k_max_valid_days = 36500;

Error failed(std::string_view what) {
  return {Errc::internal, fmt::format("{}: {}", what, openssl_reason())};
}

Error io_error(const fs::path& path, std::string_view what) {
  return {Errc::io, fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno))};
}

Expected<Key> new_key() {
  Key key(EVP_EC_gen("P-256"));
  if (!key) return failed("cannot make a P-256 key");
  return key;
}

bool add_extension(X509* certificate, X509* issuer, int id, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, id, value));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

struct Validity {
  int64_t from, to;
};

/// A certificate of `key`, without extensions, not signed.
Expected<Certificate> new_certificate(EVP_PKEY* key, const char* name, Validity validity) {
  Certificate x(X509_new());
  unsigned char serial[16];
  if (!x || RAND_bytes(serial, sizeof(serial)) != 1) return failed("cannot make a certificate");
  serial[0] &= 0x7f;  // a serial number is positive
  serial[0] |= 0x40;
  std::unique_ptr<BIGNUM, Freed<BN_free>> number(BN_bin2bn(serial, sizeof(serial), nullptr));
  X509_NAME* subject = X509_get_subject_name(x.get());
  const bool is_done =
      number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x.get())) != nullptr &&
      X509_set_version(x.get(), X509_VERSION_3) == 1 && X509_set_pubkey(x.get(), key) == 1 &&
      ASN1_TIME_set(X509_getm_notBefore(x.get()), validity.from) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(x.get()), validity.to) != nullptr &&
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(name), -1, -1, 0) == 1;
  if (!is_done) return failed("cannot make a certificate");
  return x;
}

Expected<Certificate> new_authority(EVP_PKEY* key, Validity validity) {
  COHORT_ASSIGN(Certificate x, new_certificate(key, "cohort cluster", validity));
  const bool is_done =
      X509_set_issuer_name(x.get(), X509_get_subject_name(x.get())) == 1 &&
      add_extension(x.get(), x.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
      add_extension(x.get(), x.get(), NID_key_usage, "critical,keyCertSign") &&
      add_extension(x.get(), x.get(), NID_subject_key_identifier, "hash") &&
      X509_sign(x.get(), key, EVP_sha256()) > 0;
  if (!is_done) return failed("cannot sign the authority's certificate");
  return x;
}

Expected<Certificate> new_node(EVP_PKEY* key, X509* authority, EVP_PKEY* authority_key,
                               Validity validity) {
  COHORT_ASSIGN(Certificate x, new_certificate(key, "cohort node", validity));
  const bool is_done =
      X509_set_issuer_name(x.get(), X509_get_subject_name(authority)) == 1 &&
      add_extension(x.get(), authority, NID_basic_constraints, "critical,CA:FALSE") &&
      add_extension(x.get(), authority, NID_key_usage, "critical,digitalSignature") &&
      add_extension(x.get(), authority, NID_ext_key_usage, "serverAuth,clientAuth") &&
      // Members ask for no name; clients of the dashboard (curl, Prometheus) cannot do without one.
      add_extension(x.get(), authority, NID_subject_alt_name, "DNS:cohort") &&
      add_extension(x.get(), authority, NID_authority_key_identifier, "keyid:always") &&
      X509_sign(x.get(), authority_key, EVP_sha256()) > 0;
  if (!is_done) return failed("cannot sign the node's certificate");
  return x;
}

struct File {
  const char* name;
  std::string text;
};

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

Expected<std::string> certificate_text(X509* x) {
  Bio bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), x) != 1) return failed("cannot write a certificate");
  return text_of(bio.get());
}

Expected<std::string> key_text(EVP_PKEY* key) {
  Bio bio(BIO_new(BIO_s_secmem()));
  if (!bio ||
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return failed("cannot write a key");
  return text_of(bio.get());
}

Expected<std::string> token_text() {
  std::array<unsigned char, 32> bytes{};
  if (RAND_priv_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    return failed("no random bytes");
  return fmt::format("{:02x}\n", fmt::join(bytes, ""));
}

/// KEYS-1: the authority's key ends here.
Expected<std::vector<File>> new_files(Validity validity) {
  COHORT_ASSIGN(Key authority_key, new_key());
  COHORT_ASSIGN(Key node_key, new_key());
  COHORT_ASSIGN(Certificate authority, new_authority(authority_key.get(), validity));
  COHORT_ASSIGN(Certificate node,
                new_node(node_key.get(), authority.get(), authority_key.get(), validity));
  CurveKey secret{};
  if (RAND_priv_bytes(secret.data(), static_cast<int>(secret.size())) != 1)
    return failed("no random bytes");
  COHORT_ASSIGN(CurveKey curve, curve_public_of(secret));
  std::vector<File> files;
  COHORT_ASSIGN(std::string authority_pem, certificate_text(authority.get()));
  COHORT_ASSIGN(std::string node_pem, certificate_text(node.get()));
  COHORT_ASSIGN(std::string node_key_pem, key_text(node_key.get()));
  files.push_back({k_authority_pem, std::move(authority_pem)});
  files.push_back({k_certificate_pem, std::move(node_pem)});
  files.push_back({k_key_pem, std::move(node_key_pem)});
  files.push_back({k_curve_public, z85_text(curve) + "\n"});
  files.push_back({k_curve_secret, z85_text(secret) + "\n"});
  COHORT_ASSIGN(std::string token, token_text());
  files.push_back({k_dashboard_token, std::move(token)});
  return files;
}

Expected<void> write_file(const fs::path& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return io_error(path, "cannot be made");
  const ssize_t wrote = ::write(fd, text.data(), text.size());
  const bool is_whole = wrote == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  const Error error = is_whole ? Error{} : io_error(path, "cannot be written");
  ::close(fd);
  if (!is_whole) return error;
  return {};
}

void sync_folder(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);  // a file system that cannot sync a folder has nothing better to offer
  ::close(fd);
}

/// A folder beside its target, gone with the object unless it has been put in place.
class NewFolder {
 public:
  static Expected<NewFolder> make(const fs::path& target) {
    std::error_code error;
    fs::create_directories(target.parent_path(), error);
    std::string path = target.string() + ".new-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return io_error(path, "cannot be made");  // 0700
    return NewFolder(path, target);
  }
  NewFolder(NewFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), target_(std::move(other.target_)) {}
  NewFolder& operator=(NewFolder&&) = delete;
  ~NewFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  const fs::path& path() const { return path_; }

  Expected<void> put_in_place() {
    sync_folder(path_);
    if (::rename(path_.c_str(), target_.c_str()) != 0) {
      if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR)
        return io_error(target_, "cannot be put in place");
      return Error{Errc::invalid_argument,
                   fmt::format("{} exists and is not an empty folder: name another one. Keys that "
                               "a cluster uses are never written over",
                               target_.string())};
    }
    path_.clear();
    sync_folder(target_.parent_path());
    return {};
  }

 private:
  NewFolder(fs::path path, fs::path target) : path_(std::move(path)), target_(std::move(target)) {}
  fs::path path_, target_;
};

}  // namespace

Expected<void> make_credentials(const std::string& folder, const NewCredentials& options) {
  if (options.valid_days < 1 || options.valid_days > k_max_valid_days)
    return Error{Errc::invalid_argument, fmt::format("keys are valid for 1 to {} days, not {}",
                                                     k_max_valid_days, options.valid_days)};
  std::error_code error;
  fs::path target = fs::absolute(folder, error).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // "keys/"
  if (folder.empty() || error || !target.has_filename())
    return Error{Errc::invalid_argument, fmt::format("\"{}\" names no folder", folder)};
  const int64_t now = options.now != 0 ? options.now : std::time(nullptr);
  COHORT_ASSIGN(const std::vector<File> files,
                new_files({now - k_day_seconds, now + options.valid_days * k_day_seconds}));
  COHORT_ASSIGN(NewFolder temporary, NewFolder::make(target));
  for (const File& file : files) COHORT_TRY(write_file(temporary.path() / file.name, file.text));
  return temporary.put_in_place();
}

}  // namespace cohort::control
