#pragma once
/// A copy of a run's folder in which trajectories or rows are changed, as damage nobody announced
/// would: each record is whole, and says something else.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "runtime/stream/reader.hpp"
#include "runtime/stream/writer.hpp"

namespace cohort::test {

/// Writes RUN with every trajectory handed to `edit` first to `to`; checkpoints are linked.
inline void copy_run(const std::filesystem::path& run, const std::filesystem::path& to,
                     const std::function<void(proto::Trajectory&)>& edit) {
  std::filesystem::create_directories(to);
  std::filesystem::create_directory_symlink(run / "checkpoints", to / "checkpoints");
  std::filesystem::copy_file(run / "config.yaml", to / "config.yaml");
  auto reader = stream::Reader::open(run / "stream");
  ASSERT_TRUE(reader) << reader.error().detail;
  auto index = reader->index();
  ASSERT_TRUE(index) << index.error().detail;
  auto writer = stream::Writer::open(to / "stream", {.preallocate = false});
  ASSERT_TRUE(writer) << writer.error().detail;
  for (const stream::RecordInfo& info : (*index)->records()) {
    auto record = reader->read(info);
    ASSERT_TRUE(record) << record.error().detail;
    if (!info.key.trajectory) {
      ASSERT_TRUE(writer->append_json(info.type, record->text()));
      continue;
    }
    auto trajectory = record->trajectory();
    ASSERT_TRUE(trajectory) << trajectory.error().detail;
    edit(*trajectory);
    ASSERT_TRUE(writer->append_trajectory(*trajectory));
  }
  ASSERT_TRUE(writer->close());
}

}  // namespace cohort::test
