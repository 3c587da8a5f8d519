#pragma once
/// Session: one version at one card, from begin to its end: a state machine over a port. Owner and
/// thread: the Member's thread. Internal to runtime/publish; member.hpp has its promises.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/publish/copy.hpp"
#include "runtime/publish/member.hpp"
#include "runtime/publish/program.hpp"
#include "runtime/publish/shelf.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::publish {

using plan::ReshardTransfer;

/// What one chunk adds to a sum; sums do not depend on the order of chunks.
inline uint64_t chunk_sum(const Note& note) {
  return mix64(note.checksum + mix64(uint64_t{note.transfer} << 32 ^ mix64(note.offset)));
}

/// Index of the entry of a card, or the size.
template <class T>
size_t index_of(const std::vector<T>& entries, uint32_t card) {
  auto at = std::ranges::lower_bound(entries, card, {}, &T::card);
  if (at == entries.end() || at->card != card) return entries.size();
  return static_cast<size_t>(at - entries.begin());
}

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
  Session(const Setup& setup, Port& port, uint64_t version)
      : setup_(&setup),
        program_(setup.program),
        port_(&port),
        version_(version),
        start_(now_seconds()),
        streams_(program_->destinations.size()),
        lanes_(program_->senders.size()),
        is_received_(program_->receives.size(), false),
        staged_(program_->receives.size()),
        shelf_(port, setup.slots, setup.chunk_bytes) {
    report_.version = version;
    report_.received_by_step.assign(setup.copies->plan().steps.size(), 0);
    for (const Turn& turn : program_->turns) staged_sends_left_.push_back(turn.staged_sends);
  }
  uint64_t version() const { return version_; }

  /// A note of this version.
  Expected<void> on_note(PortEvent event) {
    const Note& note = event.note;
    if (note.plan != program_->fingerprint)
      return failure(Errc::protocol, name(event.peer) +
                                         " made another plan: give all members the "
                                         "same model, layouts and options");
    size_t sender = index_of(program_->senders, event.peer);
    size_t destination = index_of(program_->destinations, event.peer);
    bool is_from_sender = note.kind == NoteKind::data || note.kind == NoteKind::sent;
    if (is_from_sender ? sender == lanes_.size() : destination == streams_.size())
      return failure(Errc::protocol, name(event.peer) + " has no part in what this card exchanges");
    switch (note.kind) {
      case NoteKind::data:
        return on_data(sender, event);
      case NoteKind::sent:
        return on_sent(sender, note);
      case NoteKind::stored:
        return on_stored(destination, note);
      case NoteKind::grant:
        on_grant(destination, note);
        return {};
      case NoteKind::taken:
        return take_back(destination, note.bytes);
      case NoteKind::failed:
        break;  // the member's
    }
    return failure(Errc::protocol, name(event.peer) + " sent a note of an unknown kind");
  }
  /// A port without windows: the peer has the next chunk.
  Expected<void> on_taken(uint32_t peer) {
    size_t destination = index_of(program_->destinations, peer);
    COHORT_CHECK(destination < streams_.size(), "PUBLISH: a chunk came back that was not sent");
    Stream& stream = streams_[destination];
    if (stream.is_stored) return {};  // the peer's word was faster than the wire's
    return take_back(destination, stream.chunks_taken + 1);
  }
  /// Does the next piece of work, a chunk for each peer at most. Returns false if there is none
  /// before the next event.
  Expected<bool> step() {
    if (local_next_ < program_->local_copies.size()) return copy_some();
    if (!is_open_) {
      if (port_->held_bytes() > 0) return false;  // of an older version: PUBLISH-3 counts it too
      is_open_ = true;
      scratch_bytes_ = 0;
      std::vector<std::byte>().swap(scratch_);
      grant();
    }
    tell_taken();
    COHORT_ASSIGN(bool has_moved, flush_outbox());
    for (size_t i = 0; i < streams_.size(); ++i) {
      COHORT_ASSIGN(bool has_sent, send_some(i));
      has_moved = has_moved || has_sent;
    }
    count_staging();
    return has_moved;
  }
  bool is_done() const {
    return is_open_ && outbox_.empty() && std::ranges::all_of(streams_, &Stream::is_stored) &&
           std::ranges::all_of(lanes_, &Lane::is_stored);
  }
  bool is_only_receiving() const {
    return is_open_ && std::ranges::all_of(streams_, &Stream::is_stored);
  }
  /// The event that it waits for, for a timeout's text.
  std::string waits_for() const {
    std::string text;
    auto add = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
    if (!is_open_)
      add(fmt::format("the wire to give up {} bytes of an older version", port_->held_bytes()));
    for (size_t i = 0; i < lanes_.size(); ++i)
      if (!lanes_[i].is_stored)
        add(fmt::format("{} of {} bytes from {}", program_->senders[i].bytes - lanes_[i].bytes,
                        program_->senders[i].bytes, name(program_->senders[i].card)));
    for (size_t i = 0; i < streams_.size(); ++i) {
      const Stream& x = streams_[i];
      if (x.is_stored) continue;
      std::string card = name(program_->destinations[i].card);
      if (!x.in_flight.empty())
        add(fmt::format("{} to take {} chunks", card, x.in_flight.size()));
      else if (x.next < program_->destinations[i].sends.size())
        add("a grant of " + card);
      else
        add("the acknowledgement of " + card);
    }
    return text.empty() ? "nothing" : text;
  }
  PublishReport report() const {
    PublishReport report = report_;
    const auto& cards = setup_->copies->plan().cards;
    for (size_t i = 0; i < streams_.size(); ++i)
      report.sent_to.push_back(
          {cards[program_->destinations[i].card], streams_[i].bytes, streams_[i].sum});
    if (report.kept_bytes > 0)
      report.sent_to.push_back({cards[program_->card], report.kept_bytes, report_.sum});
    std::ranges::sort(report.sent_to, {}, &ShardSum::card);
    for (const Lane& lane : lanes_) report.sum += lane.sum;
    report.seconds = now_seconds() - start_;
    return report;
  }

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

  /// What a card keeps goes from buffer to buffer, a chunk at a time, under the same sums.
  Expected<bool> copy_some() {
    uint32_t index = program_->local_copies[local_next_];
    const ReshardTransfer& x = transfer(index);
    if (!local_from_) {
      local_from_ = source_runs(x);
      local_to_ = address(setup_->copies->target_parts(x), family(index), *setup_->target, 1);
      local_offset_ = 0;
    }
    uint64_t all = setup_->copies->packed_bytes(x);
    uint64_t bytes = std::min(setup_->chunk_bytes, all - local_offset_);
    scratch_.resize(setup_->chunk_bytes);
    scratch_bytes_ = setup_->chunk_bytes;
    std::span<std::byte> packed{scratch_.data(), bytes};
    gather(*local_from_, local_offset_, packed, setup_->widen);
    Note note = make_note(NoteKind::data);
    note.transfer = index;
    note.offset = local_offset_;
    note.checksum = tensor::checksum64(packed);
    report_.sum += chunk_sum(note);
    scatter(*local_to_, local_offset_, packed);
    report_.kept_bytes += bytes;
    local_offset_ += bytes;
    count_staging();
    if (local_offset_ == all) {
      ++local_next_;
      local_from_.reset();
    }
    return true;
  }
  void grant() {
    const auto& turns = program_->turns;
    uint64_t send_room = streams_.empty() ? 0 : setup_->slots * setup_->chunk_bytes;
    uint64_t limit = 2 * program_->bucket_bytes - send_room;
    while (turns_granted_ < turns.size()) {
      const Turn& turn = turns[turns_granted_];
      uint64_t staged = reserved_bytes_ + staged_bytes(turn) + scratch_bytes_;
      bool is_ahead = turns_granted_ > turns_released_;
      if (turns_granted_ > turns_released_ + 1 || (is_ahead && staged > limit)) break;
      reserved_bytes_ += staged_bytes(turn);
      for (uint32_t sender : turn.senders) {
        Note note = make_note(NoteKind::grant);
        note.round = turn.round;
        post(program_->senders[sender].card, note);
      }
      ++turns_granted_;
    }
  }
  /// A window's owner is its sender: there the receiver stages only what it will pass on.
  uint64_t staged_bytes(const Turn& turn) const {
    return port_->has_windows() ? turn.passed_on_bytes : turn.bytes;
  }
  /// Once for all that was taken since the last time.
  void tell_taken() {
    if (!port_->has_windows()) return;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i].chunks == lanes_[i].chunks_told) continue;
      lanes_[i].chunks_told = lanes_[i].chunks;
      Note note = make_note(NoteKind::taken);
      note.bytes = lanes_[i].chunks;
      post(program_->senders[i].card, note);
    }
  }
  void post(uint32_t peer, const Note& note) { outbox_.emplace_back(peer, note); }
  Expected<bool> flush_outbox() {
    bool has_moved = false;
    for (size_t left = outbox_.size(); left > 0; --left) {
      auto [peer, note] = outbox_.front();
      outbox_.pop_front();
      COHORT_ASSIGN(bool is_sent, put(peer, note, {}));
      if (!is_sent) outbox_.emplace_back(peer, note);
      has_moved = has_moved || is_sent;
    }
    return has_moved;
  }
  Expected<bool> put(uint32_t card, const Note& note, tensor::Buffer body) {
    auto is_sent = port_->send(card, note, std::move(body));
    if (!is_sent) return failure(Errc::closed, name(card) + " is gone: " + is_sent.error().detail);
    return *is_sent;
  }
  Expected<bool> send_some(size_t destination) {
    Stream& stream = streams_[destination];
    const Destination& to = program_->destinations[destination];
    if (stream.next == to.sends.size()) {
      if (stream.is_told) return false;
      Note note = make_note(NoteKind::sent);
      note.bytes = stream.bytes;
      note.checksum = stream.sum;
      COHORT_ASSIGN(stream.is_told, put(to.card, note, {}));
      return stream.is_told;
    }
    const Outgoing& out = to.sends[stream.next];
    if (!may_send(stream, out)) return false;
    Shelf::Chunk* chunk = chunk_for(stream, out);
    if (chunk == nullptr) return false;
    Note note = chunk->note;
    note.transfer = out.transfer;
    note.round = transfer(out.transfer).round;
    COHORT_ASSIGN(bool is_sent, put(to.card, note, chunk->body));
    if (!is_sent) return false;
    ++chunk->in_flight;
    chunk->wanted -= std::min(chunk->wanted, 1u);
    stream.in_flight.push_back(shelf_.index(*chunk));
    finish_send(stream, out, note);
    return true;
  }
  bool may_send(const Stream& stream, const Outgoing& out) const {
    if (!stream.granted_round || transfer(out.transfer).round > *stream.granted_round)
      return false;  // PUBLISH-4
    return receives_done_ >= out.receives_done;
  }
  /// The stream's next chunk from the shelf, where another destination may have had it packed.
  Shelf::Chunk* chunk_for(Stream& stream, const Outgoing& out) {
    if (auto* packed = shelf_.find(out.group, stream.offset)) return packed;
    uint64_t bytes = std::min(setup_->chunk_bytes, out.bytes - stream.offset);
    Shelf::Chunk* chunk = shelf_.take(bytes, is_furthest_behind(out));
    if (chunk == nullptr) return nullptr;
    Note note = make_note(NoteKind::data);
    note.offset = stream.offset;
    note.bytes = bytes;
    note.place = chunk->note.place;
    chunk->note = note;
    chunk->group = out.group;
    chunk->offset = stream.offset;
    chunk->wanted = count_wanting(stream, out);
    report_.packed_bytes += bytes;
    std::span<std::byte> room = shelf_.room(*chunk);
    fill(stream, out, room);
    chunk->note.checksum = tensor::checksum64(room);
    return chunk;
  }
  /// Destinations that are to be sent this stretch in the same round, and have not been. One that
  /// has granted nothing yet keeps nobody waiting.
  uint32_t count_wanting(const Stream& stream, const Outgoing& out) const {
    uint32_t count = 0, round = transfer(out.transfer).round;
    for (const Use& use : program_->groups[out.group]) {
      const Stream& x = streams_[use.destination];
      const Outgoing& send = program_->destinations[use.destination].sends[use.send];
      bool is_ahead = x.next < use.send || (x.next == use.send && x.offset <= stream.offset);
      bool is_same = transfer(send.transfer).round == round;
      count += is_ahead && is_same && x.granted_round ? 1 : 0;
    }
    return count;
  }
  /// Nobody waits for somebody who is behind him without end: the plan's earliest send that is
  /// left, of all cards, needs nothing but what is on its way, and finds room here.
  bool is_furthest_behind(const Outgoing& out) const {
    for (size_t i = 0; i < streams_.size(); ++i) {
      const auto& sends = program_->destinations[i].sends;
      if (streams_[i].next < sends.size() && sends[streams_[i].next].transfer < out.transfer)
        return false;
    }
    return true;
  }
  void fill(Stream& stream, const Outgoing& out, std::span<std::byte> packed) {
    if (out.staged != k_none) return read_staged(out.staged, stream.offset, packed);
    const ReshardTransfer& x = transfer(out.transfer);
    if (!stream.runs) stream.runs = source_runs(x);
    gather(*stream.runs, stream.offset, packed, setup_->widen);
  }
  void read_staged(uint32_t receive, uint64_t begin, std::span<std::byte> packed) const {
    uint64_t end = begin + packed.size();
    for (const Staged& x : staged_[receive]) {
      uint64_t from = std::max(begin, x.offset);
      uint64_t to = std::min(end, x.offset + x.bytes.size_bytes());
      if (from < to)
        std::memcpy(packed.data() + (from - begin), x.bytes.bytes().data() + (from - x.offset),
                    to - from);
    }
  }
  RunList source_runs(const ReshardTransfer& x) const {
    uint32_t family = setup_->copies->plan().pieces[x.piece].family;
    return address(setup_->copies->source_parts(x), family, *setup_->source, setup_->widen);
  }
  void finish_send(Stream& stream, const Outgoing& out, const Note& note) {
    ++stream.chunks;
    stream.bytes += note.bytes;
    stream.sum += chunk_sum(note);
    stream.offset += note.bytes;
    report_.sent_bytes += note.bytes;
    count_staging();
    if (stream.offset < out.bytes) return;
    ++stream.next;
    stream.offset = 0;
    stream.runs.reset();
    if (out.turn == k_none) return;
    --staged_sends_left_[out.turn];
    release_turns();
  }
  /// The destination has taken so many chunks since the version began.
  Expected<void> take_back(size_t destination, uint64_t chunks) {
    Stream& stream = streams_[destination];
    if (chunks > stream.chunks)
      return failure(Errc::protocol, fmt::format("{} has taken {} chunks, {} were sent",
                                                 name(program_->destinations[destination].card),
                                                 chunks, stream.chunks));
    for (; stream.chunks_taken < chunks; ++stream.chunks_taken) {
      shelf_.release(stream.in_flight.front());
      stream.in_flight.pop_front();
    }
    return {};
  }
  Expected<void> on_data(size_t sender, PortEvent& event) {
    Lane& lane = lanes_[sender];
    const Note& note = event.note;
    const Sender& from = program_->senders[sender];
    COHORT_TRY(check_data(lane, from, note, event.body.size_bytes()));
    uint32_t receive = from.receives[lane.next];
    const Incoming& in = program_->receives[receive];
    COHORT_ASSIGN(std::span<const std::byte> plain, body_of(event, from.card));
    COHORT_TRY(verify(note, from.card, plain));
    const ReshardTransfer& x = transfer(in.transfer);
    if (lane.offset == 0)
      lane.runs = address(setup_->copies->target_parts(x), family(in.transfer), *setup_->target, 1);
    scatter(*lane.runs, lane.offset, plain);
    if (in.is_passed_on)
      staged_[receive].push_back({note.offset, port_->has_windows() ? tensor::Buffer::copy_of(plain)
                                                                    : std::move(event.body)});
    ++lane.chunks;
    lane.offset += note.bytes;
    lane.bytes += note.bytes;
    lane.sum += chunk_sum(note);
    report_.received_bytes += note.bytes;
    report_.received_by_step[x.step] += note.bytes;
    if (lane.offset < in.bytes) return {};
    lane.offset = 0;
    ++lane.next;
    finish_receive(receive);
    return {};
  }
  /// The chunk as it travelled. A window is its owner's: what the note says of it is checked.
  Expected<std::span<const std::byte>> body_of(const PortEvent& event, uint32_t from) {
    if (!port_->has_windows()) return event.body.bytes();
    const Note& note = event.note;
    std::span<const std::byte> window = port_->window_of(event.peer);
    if (note.place > window.size() || note.bytes > window.size() - note.place)
      return failure(Errc::protocol, name(from) + " sends what is not in its window");
    return window.subspan(note.place, note.bytes);
  }
  Expected<void> check_data(const Lane& lane, const Sender& sender, const Note& note,
                            size_t body_bytes) const {
    std::string from = name(sender.card);
    if (lane.next == sender.receives.size())
      return failure(Errc::protocol, from + " sends more than the plan says");
    const Incoming& in = program_->receives[sender.receives[lane.next]];
    if (note.transfer != in.transfer || note.offset != lane.offset || note.bytes == 0 ||
        note.bytes > in.bytes - lane.offset)
      return failure(Errc::protocol,
                     fmt::format("{} sends byte {} of transfer {}, expected is byte {} of {}", from,
                                 note.offset, note.transfer, lane.offset, in.transfer));
    if (in.turn >= turns_granted_)
      return failure(Errc::protocol, from + " sends what it was not granted (PUBLISH-4)");
    if (!port_->has_windows() && body_bytes != note.bytes)
      return failure(Errc::protocol,
                     fmt::format("{} sends {} bytes for {}", from, body_bytes, note.bytes));
    return {};
  }
  Expected<void> verify(const Note& note, uint32_t from, std::span<const std::byte> plain) const {
    uint64_t checksum = tensor::checksum64(plain);
    if (checksum == note.checksum) return {};
    const plan::ReshardPlan& plan = setup_->copies->plan();
    const plan::ReshardPiece& piece = plan.pieces[transfer(note.transfer).piece];
    return failure(
        Errc::corrupt,
        fmt::format(
            "{} bytes of {} (layers {} to {}) from {} are damaged: checksum {:016x}, its "
            "note says {:016x}; publish again, and suspect that host's memory if it repeats",
            note.bytes, plan.model.tensors[piece.family].name, piece.first_layer, piece.end_layer,
            name(from), checksum, note.checksum));
  }
  void finish_receive(uint32_t receive) {
    is_received_[receive] = true;
    while (receives_done_ < is_received_.size() && is_received_[receives_done_]) ++receives_done_;
    release_turns();
  }
  void release_turns() {
    const auto& turns = program_->turns;
    while (turns_released_ < turns_granted_ &&
           receives_done_ >= turns[turns_released_].receives_end &&
           staged_sends_left_[turns_released_] == 0) {
      uint32_t begin = turns_released_ == 0 ? 0 : turns[turns_released_ - 1].receives_end;
      for (uint32_t i = begin; i < turns[turns_released_].receives_end; ++i)
        std::vector<Staged>().swap(staged_[i]);
      reserved_bytes_ -= staged_bytes(turns[turns_released_]);
      ++turns_released_;
    }
    if (is_open_) grant();
  }
  Expected<void> on_sent(size_t sender, const Note& note) {
    Lane& lane = lanes_[sender];
    const Sender& from = program_->senders[sender];
    if (lane.is_stored)
      return failure(Errc::protocol, name(from.card) + " says twice that it sent");
    if (lane.bytes != from.bytes || note.bytes != lane.bytes || note.checksum != lane.sum)
      return failure(Errc::corrupt,
                     fmt::format("{} says it sent {} bytes of sum {:016x}, here are {} of {:016x}, "
                                 "planned were {} (PUBLISH-1)",
                                 name(from.card), note.bytes, note.checksum, lane.bytes, lane.sum,
                                 from.bytes));
    lane.is_stored = true;
    Note answer = make_note(NoteKind::stored);
    answer.checksum = lane.sum;
    post(from.card, answer);
    return {};
  }
  Expected<void> on_stored(size_t destination, const Note& note) {
    Stream& stream = streams_[destination];
    if (!stream.is_told || note.checksum != stream.sum)
      return failure(Errc::corrupt, name(program_->destinations[destination].card) +
                                        " acknowledges another sum than was sent (PUBLISH-1)");
    stream.is_stored = true;
    return take_back(destination, stream.chunks);
  }
  void on_grant(size_t destination, const Note& note) {
    Stream& stream = streams_[destination];
    stream.granted_round = std::max(stream.granted_round.value_or(0), note.round);
  }
  Note make_note(NoteKind kind) const {
    Note note;
    note.kind = kind;
    note.from = program_->card;
    note.version = version_;
    note.plan = program_->fingerprint;
    return note;
  }
  Error failure(Errc code, const std::string& what) const {
    return {code, fmt::format("publish of version {}: {} (seen by {})", version_, what,
                              name(program_->card))};
  }
  std::string name(uint32_t card) const {
    const auto& labels = setup_->options->labels;
    if (card < labels.size() && !labels[card].empty()) return labels[card];
    return fmt::format("card {}", setup_->copies->plan().cards[card].value);
  }
  const ReshardTransfer& transfer(uint32_t index) const {
    return setup_->copies->plan().transfers[index];
  }
  uint32_t family(uint32_t index) const {
    return setup_->copies->plan().pieces[transfer(index).piece].family;
  }
  void count_staging() {
    uint64_t staged = reserved_bytes_ + shelf_.held_bytes() + scratch_bytes_;
    report_.staging_peak = std::max(report_.staging_peak, staged);
    COHORT_CHECK(staged <= 2 * program_->bucket_bytes,
                 "PUBLISH-3: more than two buckets are staged");
  }

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
