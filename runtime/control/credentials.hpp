#pragma once
/// The trust between processes of one cluster: mutual TLS for control messages, CURVE for
/// trajectories and weights. One folder, made by `actor-node keys new DIR`, the same on every host;
/// a process that can read it belongs to the cluster. Pure but for reading and writing the folder.
///   KEYS-1 the authority's private key is forgotten when the folder has been made: there is no way
///          to a second certificate of this cluster; a leaked folder is replaced by a new one.
///   KEYS-2 a folder appears under its name when it is whole, readable by its owner alone at any
///          time.
#include <cstdint>
#include <string>

#include "runtime/base/error.hpp"

namespace cohort::control {

struct Credentials {
  std::string folder;
  std::string ca_file, certificate_file, key_file;  // PEM
  std::string curve_public, curve_secret;           // Z85, 40 characters: the cluster's pair
  int64_t expires_at = 0;                           // seconds since 1970
};

struct NewCredentials {
  int valid_days = 730;
  int64_t now = 0;  // seconds since 1970; 0: the clock
};

/// Writes a new cluster's credentials to `folder`, which is made (0700, files 0600) and must be
/// empty if it exists. Valid from a day before now: clocks of hosts differ.
/// Returns Errc::io, Errc::invalid_argument.
Expected<void> make_credentials(const std::string& folder, const NewCredentials& options = {});

/// Returns Errc::not_found or Errc::invalid_argument naming the file: missing, unreadable, expired,
/// readable by others, not a pair, half-written.
Expected<Credentials> load_credentials(const std::string& folder);

/// Returns the password of the cluster's dashboards, 64 hex digits in a new folder. It opens them
/// and nothing else: it may be given to people and programs that are no members.
/// Returns Errc::not_found or Errc::invalid_argument naming the file.
Expected<std::string> load_dashboard_token(const Credentials& credentials);

/// Facts that tell two clusters apart and hold no secret.
struct CredentialsInfo {
  std::string authority_sha256, certificate_sha256;  // 64 hex digits
  std::string curve_public;
  std::string expires;  // "2028-11-21"
  int64_t days_left = 0;
};

/// Returns Errc::io if the files have gone since they were loaded.
Expected<CredentialsInfo> describe_credentials(const Credentials& credentials);

}  // namespace cohort::control
