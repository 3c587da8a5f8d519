#pragma once
/// Inside of Writer, shared by writer.cpp (append, sync) and writer_open.cpp (recovery).
/// Private to this folder. `mutex` guards all but the members that open() sets.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/stream/format.hpp"
#include "runtime/stream/stream_file.hpp"
#include "runtime/stream/writer.hpp"

namespace cohort::stream {

struct Writer::State {
  ~State();

  // -- set by open() ----------------------------------------------------------
  std::filesystem::path folder;
  WriterOptions options;
  uint64_t stream_id = 0;
  FolderLock lock;
  Recovered recovered;

  std::mutex sync_mutex;  // one sync at a time; taken before `mutex`
  mutable std::mutex mutex;
  std::shared_ptr<File> file;  // current segment; sync() keeps it alive while it works
  uint32_t segment = 0;
  uint64_t offset = 0;        // where the next record goes
  uint64_t written_back = 0;  // up to here the disk was told to begin
  uint64_t next_number = 0;
  std::vector<std::shared_ptr<File>> unsynced;  // finished segments that sync() has not seen
  bool is_folder_dirty = false;                 // a new name in the folder is not durable yet
  File index;  // sidecar of the current segment, if it could be made
  uint64_t index_offset = 0;
  std::vector<Block> index_pending;  // entries not written yet
  std::optional<Error> broken;       // set when the file's state is not known any more
  bool is_closed = false;
  WriterStats stats;

  // -- recovery (writer_open.cpp) ---------------------------------------------
  Expected<void> start();
  Expected<void> recover(std::vector<uint32_t> segments);
  Expected<bool> drop_headless(uint32_t segment_number);
  Expected<void> continue_segment(uint32_t number, uint64_t size_bytes,
                                  const std::vector<RecordInfo>& records);

  // -- with `mutex` held ------------------------------------------------------
  Expected<void> create_segment(uint32_t number, uint64_t record_size);
  Expected<void> roll(uint64_t record_size);
  Expected<RecordId> write(RecordInfo info, uint64_t checksum, std::span<const std::byte> header,
                           std::span<const std::byte> columns);
  void flush_index();
  void finish_segment();
};

}  // namespace cohort::stream
