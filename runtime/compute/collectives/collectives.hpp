#pragma once
/// What the ranks of one group say to each other: the collectives of training and of tensor
/// parallel generation. One rank per card. The engine below is c10d's (Gloo on cpu, NCCL on cuda,
/// HCCL on npu), the links of the data plane, or none where all ranks are threads of one process
/// (memory); chosen when the group is joined; callers see bytes, on the host or, with
/// GroupOptions::device, on the device: what lies on the other side than the engine works on is
/// staged. Torch-free header.
///
/// Every rank calls the same operations in the same order with sizes that fit each other. One call
/// at a time per object; the calls of one rank may come from different threads, one after another.
/// COLL-1: no operation reduces: bytes arrive as they were sent, and the rank that adds them adds
/// in the order of the ranks. Results therefore do not depend on who arrives first. COLL-2: every
/// wait ends: after timeout_ms, or when a rank dies, with Errc::timeout or Errc::closed that names
/// operation, group, this rank and, if it is known, the rank that is missing with its label. After
/// an error the group is of no more use: every later call fails at once with the same error. join()
/// makes this process ignore SIGPIPE if it has no handler for it. Gloo's traffic is not encrypted:
/// `interface` is loopback or a network of its own.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::compute {

/// Where the ranks of a group find each other: a small table of keys. Thread-safe. Keys are at most
/// 1 KiB, values 64 KiB, a table 65,536 keys; Errc::capacity beyond. Ranks in several processes ask
/// one that is kept elsewhere: actors/node/control_rendezvous.hpp.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  /// For ranks that are threads of this process: every rank is given the same object.
  static std::shared_ptr<Rendezvous> in_process();

  /// Errc::closed when the process that keeps the table is gone.
  virtual Expected<void> put(const std::string& key, const std::string& value) = 0;
  /// Returns what the key holds afterwards: `value`, or what was there before.
  virtual Expected<std::string> put_if_absent(const std::string& key, const std::string& value) = 0;
  virtual Expected<std::optional<std::string>> get(const std::string& key) = 0;
  /// in_process() only: the object of a key, made by the first asker while no holder lives. Null in
  /// several processes.
  virtual std::shared_ptr<void> share(const std::string&,
                                      const std::function<std::shared_ptr<void>()>& /*make*/) {
    return nullptr;
  }
};

/// links: the data plane's (GroupOptions::open), the only one of the CPU platform whose bytes may
/// leave a host: it is authenticated and encrypted.
enum class CollectiveBackend : uint8_t { gloo = 0, nccl = 1, hccl = 2, memory = 3, links = 4 };
std::string_view to_string(CollectiveBackend backend);

/// The numbers are on the wire of links: append only.
enum class Collective : uint32_t { all_to_all = 0, all_gather = 1, broadcast = 2, barrier = 3 };
std::string_view to_string(Collective operation);

using Sent = std::span<const std::span<const std::byte>>;
using Received = std::span<const std::span<std::byte>>;

class Device;  // device.hpp
class Collectives;

struct GroupOptions {
  std::string name;  // one group, one name: e.g. "actor_train", "actor_infer.tp.0"
  int rank = 0;
  int size = 1;
  std::vector<std::string> labels;  // of the ranks in messages, e.g. "card 3"; may be empty
  std::shared_ptr<Rendezvous> rendezvous;
  CollectiveBackend backend = CollectiveBackend::gloo;
  std::string interface = "lo";  // gloo: network interface to listen on
  int timeout_ms = 600000;
  std::shared_ptr<Device> device;  // of this rank: needed by nccl and hccl; others stage its bytes
  /// links: joins over links, which this folder does not know (actors/node/link_collectives.hpp).
  std::function<Expected<std::unique_ptr<Collectives>>(const GroupOptions&)> open = {};
};

class Collectives {
 public:
  /// Returns once every rank has joined. Errc::timeout names the ranks that have not;
  /// Errc::unsupported a backend that this build or this machine lacks, with what to install.
  static Expected<std::unique_ptr<Collectives>> join(const GroupOptions& options);
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// send[r] goes to rank r, receive[r] is filled by rank r (own: copied). Sizes may differ and be
  /// 0.
  Expected<void> all_to_all(Sent send, Received receive) {
    return exchange(Collective::all_to_all, send, receive);
  }
  /// all[r] is filled with what rank r passed as `mine`; all[rank()] may be `mine` itself. Sizes
  /// may differ.
  Expected<void> all_gather(std::span<const std::byte> mine, Received all);
  Expected<void> broadcast(std::span<std::byte> bytes, int root);
  virtual Expected<void> barrier();
  /// Every operation is one of these; `operation` is for messages, and must be the same everywhere.
  virtual Expected<void> exchange(Collective operation, Sent send, Received receive) = 0;
  /// Bytes that this rank has sent to others so far.
  virtual uint64_t bytes_sent() const = 0;
  /// Ends waiting calls of this rank, from any thread, with Errc::cancelled and `reason`.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace cohort::compute
