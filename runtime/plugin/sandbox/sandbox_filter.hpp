#pragma once
/// The seccomp filter of a sandbox: everything is allowed but calls that reach outside or widen the
/// kernel's attack surface (docs/sandbox.md lists it). Denied calls fail with EPERM, unknown
/// architectures (32 bit, x32) end the process. Values; built once per kind, thread-safe.
#include <linux/filter.h>

#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::plugin {

struct FilterKind {
  bool has_inet = false;  // INET and INET6 sockets too, not AF_UNIX alone
  // Where no pid namespace protects the others: no signals, no way out of the process group.
  bool is_unconfined = false;
  bool operator==(const FilterKind&) const = default;
};

/// Returns the program for this machine's architecture, as the kernel takes it. Returns
/// Errc::unsupported if libseccomp does not know the architecture.
Expected<std::vector<sock_filter>> seccomp_filter(const FilterKind& kind);

}  // namespace cohort::plugin
