#pragma once
/// Verbs for stream tests: a folder that goes away, streams of known records, cutting and flipping.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/stream/reader.hpp"
#include "runtime/stream/stream_file.hpp"
#include "runtime/stream/verify.hpp"
#include "runtime/stream/writer.hpp"

namespace cohort::stream::test {

class StreamFolder {
 public:
  StreamFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort_stream_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~StreamFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  StreamFolder(const StreamFolder&) = delete;
  StreamFolder& operator=(const StreamFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path segment(uint32_t number) const { return segment_path(path_, number); }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline proto::Trajectory small_trajectory(uint64_t step, uint32_t group, uint32_t index,
                                          size_t tokens = 20, uint32_t attempt = 0) {
  proto::Trajectory x;
  x.run_id = "test-run";
  x.key = {proto::TrajectoryKind::train, step, group, index};
  x.attempt = attempt;
  x.tag = "FrozenLake";
  x.stop_reason = index % 2 == 0 ? "goal" : "hole";
  x.score = index % 2 == 0 ? 1 : 0;
  x.weight_version_min = x.weight_version_max = step;
  for (size_t i = 0; i < tokens; ++i) {
    x.tokens.push_back(static_cast<int32_t>(100 + i));
    x.response_mask.push_back(i >= tokens / 2);
    x.behavior_logp.push_back(i >= tokens / 2 ? -0.5F : 0.0F);
    x.token_versions.push_back(static_cast<uint32_t>(step));
  }
  auto end = static_cast<uint32_t>(tokens);
  x.turns.push_back({end / 2, end, 1.0F, true, true, "P_O\nG__", "<answer>Right</answer>"});
  x.reward_parts.push_back({"env", x.score, 1.0, ""});
  return x;
}

/// Small segments, so that a few records fill several.
inline WriterOptions small_segments(size_t segment_bytes = size_t{1} << 20,
                                    Compression compression = Compression::none) {
  return {.run_id = "test-run",
          .segment_bytes = segment_bytes,
          .preallocate = false,
          .compression = compression};
}

/// Appends `steps` steps of 2 x 2 trajectories with a JSON step_result each; returns all infos.
inline void fill(const std::filesystem::path& folder, uint64_t steps, WriterOptions options,
                 bool is_closed = true) {
  auto writer = Writer::open(folder, std::move(options));
  ASSERT_TRUE(writer) << writer.error().detail;
  ASSERT_TRUE(writer->append_json(RecordType::run_config, R"({"yaml":"a: 1","run_id":"x"})"));
  for (uint64_t step = 0; step < steps; ++step) {
    for (uint32_t i = 0; i < 4; ++i)
      ASSERT_TRUE(writer->append_trajectory(small_trajectory(step, i / 2, i % 2)));
    ASSERT_TRUE(writer->append_json(RecordType::step_result,
                                    R"({"step":)" + std::to_string(step) + R"(,"loss":0.5})"));
  }
  if (is_closed) {
    ASSERT_TRUE(writer->close());
  }
}

/// Returns the intact records in order; counts damages.
inline std::vector<Record> read_all(const std::filesystem::path& folder,
                                    size_t* damages = nullptr) {
  std::vector<Record> records;
  auto reader = Reader::open(folder);
  while (reader) {
    auto record = reader->next();
    if (!record) {
      if (damages != nullptr) ++*damages;
      continue;
    }
    if (!*record) break;
    records.push_back(std::move(**record));
  }
  return records;
}

inline std::vector<RecordInfo> infos_of(const std::vector<Record>& records) {
  std::vector<RecordInfo> infos;
  for (const Record& record : records) infos.push_back(record.info);
  return infos;
}

}  // namespace cohort::stream::test
