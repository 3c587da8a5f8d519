#pragma once
/// A copy of a run's folder in which trajectories or rows are changed, as damage nobody announced
/// would: each record is whole, and says something else.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/stream/reader.hpp"
#include "runtime/stream/writer.hpp"

namespace cohort::test {

/// Writes RUN with every trajectory handed to `edit` first to `to`, and the text of the config to
/// `edit_config`; checkpoints are linked.
inline void copy_run(
    const std::filesystem::path& run, const std::filesystem::path& to,
    const std::function<void(proto::Trajectory&)>& edit,
    const std::function<void(std::string&)>& edit_config = [](std::string&) {}) {
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
      std::string text(record->text());
      if (info.type == stream::RecordType::run_config) {
        auto json = nlohmann::ordered_json::parse(text);
        std::string yaml = json.at("yaml");
        edit_config(yaml);
        json["yaml"] = yaml;
        text = json.dump();
      }
      ASSERT_TRUE(writer->append_json(info.type, text));
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
