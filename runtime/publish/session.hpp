#pragma once
/// Session: one version at one card, from begin to its end: a state machine over a port. Owner and
/// thread: the Member's thread. Internal to runtime/publish; member.hpp has its promises.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/publish/copy.hpp"
#include "runtime/publish/member.hpp"
#include "runtime/publish/program.hpp"
#include "runtime/publish/shelf.hpp"

namespace cohort::publish {

/// Returns Errc::invalid_argument for a card outside the plan, a plan of byte tables only, types
/// that do not fit.
Expected<void> check_options(const MemberOptions& options);

/// The plan as a member sees it; made once.
struct Setup {
  const MemberOptions* options = nullptr;
  const plan::ReshardCopies* copies = nullptr;
  const Program* program = nullptr;
  uint64_t widen = 1;        // bytes of a source's element over those of what travels
  uint64_t chunk_bytes = 0;  // whole elements
  size_t slots = 0;          // chunks that may be on their way to others
  PartTable* source = nullptr;
  PartTable* target = nullptr;
};

class Session {
 public:
  Session(const Setup& setup, Port& port, uint64_t version);
  uint64_t version() const { return version_; }

  /// A note of this version.
  Expected<void> on_note(PortEvent event);
  /// A port without windows: the peer has the next chunk.
  Expected<void> on_taken(uint32_t peer);
  /// Does the next piece of work, a chunk for each peer at most. Returns false if there is none
  /// before the next event.
  Expected<bool> step();
  bool is_done() const;
  bool is_only_receiving() const;
  /// The event that it waits for, for a timeout's text.
  std::string waits_for() const;
  PublishReport report() const;

 private:
  /// To one destination.
  struct Stream {
    size_t next = 0;      // of Destination::sends
    uint64_t offset = 0;  // packed bytes of it that are gone
    std::optional<RunList> runs;
    std::optional<uint32_t> granted_round;
    bool is_told = false, is_stored = false;
    uint64_t bytes = 0, sum = 0;
    std::deque<size_t> in_flight;  // slots of the shelf
    uint64_t chunks = 0, chunks_taken = 0;
  };
  /// From one sender.
  struct Lane {
    size_t next = 0;  // of Sender::receives
    uint64_t offset = 0;
    std::optional<RunList> runs;
    uint64_t bytes = 0, sum = 0;
    uint64_t chunks = 0, chunks_told = 0;  // out of the sender's window, and it knows
    bool is_stored = false;
  };
  struct Staged {
    uint64_t offset = 0;
    tensor::Buffer bytes;
  };

  Expected<bool> copy_some();
  void grant();
  uint64_t staged_bytes(const Turn& turn) const;
  void tell_taken();
  void post(uint32_t peer, const Note& note);
  Expected<bool> flush_outbox();
  Expected<bool> put(uint32_t card, const Note& note, tensor::Buffer body);
  Expected<bool> send_some(size_t destination);
  bool may_send(const Stream& stream, const Outgoing& out) const;
  Shelf::Chunk* chunk_for(Stream& stream, const Outgoing& out);
  uint32_t count_wanting(const Stream& stream, const Outgoing& out) const;
  bool is_furthest_behind(const Outgoing& out) const;
  void fill(Stream& stream, const Outgoing& out, std::span<std::byte> packed);
  void read_staged(uint32_t receive, uint64_t begin, std::span<std::byte> packed) const;
  RunList source_runs(const plan::ReshardTransfer& x) const;
  void finish_send(Stream& stream, const Outgoing& out, const Note& note);
  Expected<void> take_back(size_t destination, uint64_t chunks);
  Expected<void> on_data(size_t sender, PortEvent& event);
  Expected<std::span<const std::byte>> body_of(const PortEvent& event, uint32_t from);
  Expected<void> check_data(const Lane& lane, const Sender& sender, const Note& note,
                            size_t body_bytes) const;
  Expected<void> verify(const Note& note, uint32_t from, std::span<const std::byte> plain) const;
  void finish_receive(uint32_t receive);
  void release_turns();
  Expected<void> on_sent(size_t sender, const Note& note);
  Expected<void> on_stored(size_t destination, const Note& note);
  void on_grant(size_t destination, const Note& note);
  Note make_note(NoteKind kind) const;
  Error failure(Errc code, const std::string& what) const;
  std::string name(uint32_t card) const;
  const plan::ReshardTransfer& transfer(uint32_t index) const;
  uint32_t family(uint32_t transfer) const;
  void count_staging();

  const Setup* setup_;
  const Program* program_;
  Port* port_;
  uint64_t version_;
  double start_;
  PublishReport report_;
  size_t local_next_ = 0;
  uint64_t local_offset_ = 0;
  std::optional<RunList> local_from_, local_to_;
  std::vector<Stream> streams_;
  std::vector<Lane> lanes_;
  std::vector<bool> is_received_;            // by receive
  uint32_t receives_done_ = 0;               // the first so many are complete
  std::vector<std::vector<Staged>> staged_;  // by receive
  std::vector<uint32_t> staged_sends_left_;  // by turn
  size_t turns_granted_ = 0, turns_released_ = 0;
  uint64_t reserved_bytes_ = 0;  // of turns that are granted and not released
  uint64_t scratch_bytes_ = 0;
  Shelf shelf_;
  bool is_open_ = false;  // local copies are done
  std::vector<std::byte> scratch_;
  std::deque<std::pair<uint32_t, Note>> outbox_;
};

}  // namespace cohort::publish
