#pragma once
/// What lets processes of one cluster trust each other: mutual TLS for control messages, CURVE for
/// trajectories and weights. One folder, made by `actor-node keys new DIR`, the same on every host;
/// whoever has it belongs to the cluster. Pure but for reading and writing the folder.
#include <string>

#include "runtime/base/error.hpp"

namespace cohort::control {

struct Credentials {
  std::string folder;
  std::string ca_file, certificate_file, key_file;  // PEM
  std::string curve_public, curve_secret;           // Z85, 40 characters: the cluster's pair
};

/// Writes a new cluster's credentials to `folder`, which is made (0700) and must hold none yet.
/// Returns Errc::io, Errc::invalid_argument.
Expected<void> make_credentials(const std::string& folder);

/// Returns Errc::not_found or Errc::invalid_argument naming the file: missing, unreadable, expired,
/// readable by others, not a pair.
Expected<Credentials> load_credentials(const std::string& folder);

}  // namespace cohort::control
