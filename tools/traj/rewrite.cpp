#include "tools/traj/rewrite.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/stream/format.hpp"
#include "runtime/stream/stream_file.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::traj {
namespace {

namespace fs = std::filesystem;

Error io_error(const fs::path& path, std::string_view what, int code) {
  return {Errc::io, fmt::format("{}: {}: {}", path.string(), what, std::strerror(code))};
}

/// One number for all that a record must keep: type, key, header and columns.
uint64_t digest_of(const stream::Record& record) {
  const stream::RecordInfo& info = record.info;
  const proto::TrajectoryKey key = info.key.trajectory.value_or(proto::TrajectoryKey{});
  const std::array<uint64_t, 8> words = {
      static_cast<uint64_t>(info.type),
      uint64_t{info.key.step.has_value()} | uint64_t{info.key.trajectory.has_value()} << 1,
      info.key.step.value_or(0),
      static_cast<uint64_t>(key.kind),
      key.group,
      key.index,
      info.key.attempt,
      stream::body_checksum(record.header(), record.columns())};
  return tensor::checksum64(std::as_bytes(std::span(words)));
}

/// Which record of a key is the newest of all sources.
struct Place {
  size_t source = 0;
  uint64_t number = 0;
  bool operator==(const Place&) const = default;
};
using Newest = std::map<proto::TrajectoryKey, Place>;

class Rewriter {
 public:
  Rewriter(const RewriteOptions& options,
           const std::function<Expected<bool>(const stream::Record&)>& is_chosen)
      : options_(options), is_chosen_(is_chosen) {}

  Expected<RewriteReport> run() {
    COHORT_TRY(lock_sources());
    COHORT_TRY(choose_target());
    COHORT_TRY(find_newest());
    COHORT_TRY(make_room());
    Expected<void> result = write();
    if (result) result = prove();
    if (result) result = put_in_place();
    std::error_code ignored;
    fs::remove_all(unfinished_, ignored);  // half a stream, or the one that was replaced
    if (!result) return result.error();
    return std::move(report_);
  }

 private:
  Expected<void> lock_sources() {
    std::map<fs::path, fs::path> names;  // by what they are
    for (const fs::path& source : options_.sources) {
      std::error_code code;
      const auto [other, is_new] = names.try_emplace(fs::canonical(source, code), source);
      if (code) return io_error(source, "path", code.value());
      if (!is_new)
        return Error{Errc::invalid_argument,
                     fmt::format("{} and {} are the same stream; name each run once",
                                 other->second.string(), source.string())};
      auto lock = stream::FolderLock::take(source);
      if (!lock && lock.error().code == Errc::closed)
        return Error{Errc::closed, source.string() +
                                       ": a run is writing to this stream; wait "
                                       "until it has ended"};
      if (!lock) return lock.error();
      locks_.push_back(std::move(*lock));
    }
    return {};
  }

  Expected<void> choose_target() {
    std::error_code code;  // a link to a stream stays a link to it
    target_ = options_.out.empty() ? fs::canonical(options_.sources.front(), code) : options_.out;
    if (code) return io_error(options_.sources.front(), "path", code.value());
    if (!target_.has_filename()) target_ = target_.parent_path();  // "OUT/"
    unfinished_ = target_;
    unfinished_ += ".unfinished";
    folder_ = options_.out.empty() ? unfinished_ : unfinished_ / "stream";
    std::error_code ignored;
    if (!options_.out.empty() && fs::exists(target_, ignored))
      return Error{Errc::invalid_argument, target_.string() +
                                               ": is there already; name a folder "
                                               "to make"};
    return {};
  }

  Expected<void> find_newest() {
    for (size_t i = 0; i < options_.sources.size(); ++i) {
      COHORT_ASSIGN(const stream::Index index, stream::Index::load(options_.sources[i]));
      for (const uint32_t segment : index.stream().segments)
        report_.source_bytes += size_of(options_.sources[i], segment);
      for (const stream::RecordInfo& info : index.trajectories()) {
        const auto [at, is_new] = newest_.try_emplace(*info.key.trajectory, Place{i, info.number});
        if (!is_new && !options_.last_wins)
          return Error{Errc::invalid_argument,
                       fmt::format("{} and {} both have the trajectory {}; --last-wins takes the "
                                   "later one's",
                                   options_.sources[at->second.source].string(),
                                   options_.sources[i].string(), proto::to_string(at->first))};
        at->second = {i, info.number};
      }
    }
    return {};
  }

  /// What a killed process left is taken away, unless another one is at it.
  Expected<void> make_room() {
    std::error_code code;
    if (fs::exists(folder_, code)) {
      auto lock = stream::FolderLock::take(folder_);
      if (!lock && lock.error().code == Errc::closed)
        return Error{Errc::closed, folder_.string() + ": another traj is writing it"};
    }
    fs::remove_all(unfinished_, code);
    fs::create_directories(folder_, code);
    return code ? io_error(folder_, "cannot be made", code.value()) : Expected<void>();
  }

  Expected<void> write() {
    std::string run_id;
    for (size_t i = 0; i < options_.sources.size(); ++i) {
      COHORT_ASSIGN(stream::Reader reader, stream::Reader::open(options_.sources[i]));
      if (!writer_) {
        const auto as_it_is =
            reader.stream().is_packed ? stream::Compression::zstd : stream::Compression::none;
        COHORT_ASSIGN(writer_, stream::Writer::open(
                                   folder_, {.run_id = reader.stream().run_id,
                                             .compression = options_.compression.value_or(as_it_is),
                                             .expected_bytes = report_.source_bytes}));
      }
      COHORT_TRY(copy(reader, i));
    }
    return writer_->close();
  }

  Expected<void> copy(stream::Reader& reader, size_t source) {
    while (true) {
      auto record = reader.next();
      if (!record) {
        if (record.error().code != Errc::corrupt || !options_.drops_damaged) return record.error();
        ++report_.damaged;
        fmt::print(stderr, "traj: left out: {}\n", record.error().detail);
        continue;
      }
      if (!*record) return {};
      COHORT_TRY(copy(**record, source));
    }
  }

  Expected<void> copy(const stream::Record& record, size_t source) {
    Rewritten& of_type = report_.records[record.info.type];
    if (const auto& key = record.info.key.trajectory)
      if (!(newest_.at(*key) == Place{source, record.info.number})) {
        ++of_type.replaced;
        return {};
      }
    COHORT_ASSIGN(const bool is_kept, is_chosen_(record));
    if (!is_kept) {
      ++of_type.left_out;
      return {};
    }
    auto written =
        writer_->append_keyed(record.info.type, record.info.key, record.header(), record.columns());
    if (!written) return written.error();
    digests_.push_back(digest_of(record));
    ++of_type.kept;
    return {};
  }

  /// Reads the new stream from the disk's copy, record by record.
  Expected<void> prove() {
    COHORT_ASSIGN(stream::Reader reader, stream::Reader::open(folder_));
    size_t count = 0;
    while (true) {
      COHORT_ASSIGN(const auto record, reader.next());
      if (!record) break;
      if (count >= digests_.size() || digest_of(*record) != digests_[count])
        return Error{Errc::corrupt, fmt::format("{}: {} is not what was written; the disk or the "
                                                "memory of this machine is at fault",
                                                folder_.string(), record->info.describe())};
      ++count;
    }
    if (count != digests_.size())
      return Error{Errc::corrupt, fmt::format("{}: {} of {} records can be read back",
                                              folder_.string(), count, digests_.size())};
    for (const uint32_t segment : reader.stream().segments)
      report_.written_bytes += size_of(folder_, segment);
    return {};
  }

  Expected<void> put_in_place() {
    if (!options_.out.empty()) COHORT_TRY(stream::sync_folder(unfinished_));
    // In place the two folders change names in one step: there is no moment without a stream.
    const unsigned flags = options_.out.empty() ? RENAME_EXCHANGE : RENAME_NOREPLACE;
    if (::renameat2(AT_FDCWD, unfinished_.c_str(), AT_FDCWD, target_.c_str(), flags) != 0)
      return errno == EINVAL ? Error{Errc::unsupported,
                                     target_.string() +
                                         ": this file system cannot exchange two folders, or "
                                         "refuse to replace one; give -o OUT on another"}
                             : io_error(target_, "rename", errno);
    const fs::path parent = target_.parent_path();
    return stream::sync_folder(parent.empty() ? "." : parent);
  }

  static uint64_t size_of(const fs::path& folder, uint32_t segment) {
    std::error_code code;
    const uint64_t size = fs::file_size(stream::segment_path(folder, segment), code);
    return code ? 0 : size;
  }

  const RewriteOptions& options_;
  const std::function<Expected<bool>(const stream::Record&)>& is_chosen_;
  std::vector<stream::FolderLock> locks_;
  fs::path target_, unfinished_, folder_;  // folder_: of the new stream, inside unfinished_ or it
  Newest newest_;
  std::optional<stream::Writer> writer_;
  std::vector<uint64_t> digests_;  // of the records written, in order
  RewriteReport report_;
};

}  // namespace

Expected<RewriteReport> rewrite(
    const RewriteOptions& options,
    const std::function<Expected<bool>(const stream::Record&)>& is_chosen) {
  return Rewriter(options, is_chosen).run();
}

}  // namespace cohort::traj
