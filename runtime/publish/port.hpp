#pragma once
/// Port: a card's end of the wires to the other cards of its publish group. Owner: the card's
/// Member, whose thread alone calls it. Two kinds of wire: where memory can be shared (one process,
/// one host) a card has a window that its peers read, puts what it sends there, once for all of
/// them, and only a note travels; elsewhere the bytes travel behind the note. Notes from one peer
/// arrive in order, none is lost while both live.
/// Bound: events that next() has not returned are at most the receiver's grant, plus a few notes
/// for each peer.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tensor/buffer.hpp"

namespace cohort::publish {

enum class NoteKind : uint32_t {
  data = 1,    // a chunk of a transfer is in the sender's window, or in the body
  grant = 2,   // the receiver: rounds up to `round` may be sent
  sent = 3,    // the sender: that was all; bytes and sum over them
  stored = 4,  // the receiver: all of yours is here and agrees with your sum
  failed = 5,  // from the member that saw it first: this version is over; the reason is in the body
  taken = 6,   // the receiver: so many chunks of yours are out of your window
};

/// A note on the wire: little-endian, 64 bytes.
struct Note {
  NoteKind kind = NoteKind::data;
  uint32_t from = 0;      // index of ReshardPlan::cards
  uint64_t version = 0;   // a note of another version than the receiver's changes nothing
  uint64_t plan = 0;      // fingerprint of the plan: both ends must have made the same
  uint32_t transfer = 0;  // data: index of ReshardPlan::transfers
  uint32_t round = 0;     // data, grant; failed: the Errc
  uint64_t offset = 0;    // data: first packed byte of the chunk
  uint64_t bytes = 0;     // data: of the chunk; sent: of all; taken: chunks since the version began
  uint64_t checksum = 0;  // data: xxh3 of the chunk; sent, stored: sum over chunks
  uint64_t place = 0;     // data in a window: its first byte there
};
static_assert(sizeof(Note) == 64);

struct PortEvent {
  enum class Kind : uint8_t { note = 0, lost = 1, taken = 2 };
  Kind kind = Kind::note;
  uint32_t peer = 0;
  Note note;            // taken: its version and bytes
  tensor::Buffer body;  // data of a port without windows; the text of `failed`
  std::string reason;   // lost
};

class Port {
 public:
  virtual ~Port() = default;
  /// For the other cards' connect(); below 1 KiB.
  virtual std::string endpoint() const = 0;
  /// Endpoints by index of ReshardPlan::cards; empty: nothing is exchanged with that card.
  /// `window_bytes` is what others may read here. A peer that is not there is an event `lost`.
  /// Returns Errc::invalid_argument for an endpoint of another kind, Errc::io.
  virtual Expected<void> connect(uint32_t own, const std::vector<std::string>& endpoints,
                                 uint64_t window_bytes) = 0;
  /// Versions up to this one are over, the last of them by a failure: gives up the window for a new
  /// one, so that a peer that still reads there finds the old bytes; the port drops data of those
  /// versions.
  virtual Expected<void> forget(uint64_t version) = 0;
  /// The own window; empty where bytes travel behind notes.
  virtual std::span<std::byte> window() = 0;
  /// The peer's window: of any size, empty before its first note. The caller checks places that its
  /// notes name there.
  virtual std::span<const std::byte> window_of(uint32_t peer) = 0;
  virtual bool has_windows() const = 0;
  /// A port without windows answers data by an event `taken`, which counts 1, once the peer has
  /// it. Returns false if the wire is full: again after the next event. Errc::closed: the peer is
  /// gone.
  virtual Expected<bool> send(uint32_t peer, const Note& note, tensor::Buffer body) = 0;
  /// Bytes of data that were handed to send() and that the port still holds, of any version.
  virtual uint64_t held_bytes() const = 0;
  /// Never waits.
  virtual std::optional<PortEvent> next() = 0;
  /// Readable when next() or send() may have become possible.
  virtual int wait_fd() const = 0;
};

}  // namespace cohort::publish
