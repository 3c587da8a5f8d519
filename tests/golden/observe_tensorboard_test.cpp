/// The bytes of our event files against those that the tensorboard package was seen to read: after
/// a change run tools/golden/make_tensorboard_golden.py, which says how.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/observe/tensorboard.hpp"
#include "tests/support/event_file.hpp"
#include "tests/support/observe_files.hpp"

namespace cohort::observe {
namespace {

TensorBoardOptions options_at(const std::filesystem::path& folder, double start_s) {
  auto now_s = std::make_shared<double>(start_s);
  TensorBoardOptions options;
  options.folder = folder;
  options.host = "golden";
  options.clock = [now_s] { return *now_s += 0.25; };
  return options;
}

NamedHistograms histograms_of(uint64_t step) {
  return {{"rollout/score", {-1, 2, {step, 0, 3}}}, {"rewards/acc", {0.5, 0.5, {4}}}};
}

void write_steps(TensorBoardWriter& writer, uint64_t first, uint64_t last, double shift) {
  for (uint64_t step = first; step <= last; ++step) {
    MetricRow row(step);
    row.set("val/success", 0.25 * static_cast<double>(step) + shift);
    row.set("param_hash", "not a number");
    row.set("actor/lr", 1e-3);
    ASSERT_TRUE(writer.scalars(row).has_value());
    ASSERT_TRUE(writer.histograms(step, histograms_of(step)).has_value());
    ASSERT_TRUE(writer.text("rollout/answer", step, fmt::format("step {} \xff", step)).has_value());
  }
}

TEST(TensorBoardGolden, BytesAreThoseThatWereRead) {
  sample::TemporaryFolder folder;
  auto first = TensorBoardWriter::open(options_at(folder / "run", 1700000000));
  ASSERT_TRUE(first.has_value()) << first.error().to_string();
  ASSERT_TRUE(first->text("config", 0, "seed: 1\n").has_value());
  write_steps(*first, 1, 4, 0);
  ASSERT_TRUE(first->close().has_value());
  auto options = options_at(folder / "run", 1700000100);
  options.resume_step = 3;
  auto second = TensorBoardWriter::open(options);
  ASSERT_TRUE(second.has_value()) << second.error().to_string();
  write_steps(*second, 3, 5, 0.125);
  MetricRow single(5);
  single.set("single", -2.5);
  ASSERT_TRUE(second->scalars(single).has_value());
  ASSERT_TRUE(second->close().has_value());
  EXPECT_EQ(first->path().filename(), "events.out.tfevents.1700000000.golden.cohort");
  sample::expect_golden("tensorboard_first.bin", sample::read_all(first->path()));
  sample::expect_golden("tensorboard_resumed.bin", sample::read_all(second->path()));
}

TEST(TensorBoardGolden, WhatTensorBoardReadIsOfTheseBytes) {
  auto folder = std::filesystem::path(std::getenv("COHORT_SOURCE_DIR")) / "tests/golden/data";
  auto seen = nlohmann::json::parse(sample::read_all(folder / "tensorboard_read.json"));
  for (const char* name : {"tensorboard_first.bin", "tensorboard_resumed.bin"}) {
    std::string bytes = sample::read_all(folder / name);
    EXPECT_EQ(seen["files"][name]["crc32c"],
              crc32c(std::as_bytes(std::span(bytes.data(), bytes.size()))));
  }
  // steps 3 and 4 of the first file are gone: the resumed one starts at 3
  auto expected = nlohmann::json::parse("[[1,0.25],[2,0.5],[3,0.875],[4,1.125],[5,1.375]]");
  EXPECT_EQ(seen["scalars"]["val/success"], expected);
  EXPECT_EQ(seen["scalars"]["single"], nlohmann::json::parse("[[5,-2.5]]"));
  EXPECT_EQ(seen["texts"]["config"], nlohmann::json::parse(R"([[0,"seed: 1\n"]])"));
  // This reader drops the scalars of an earlier session alone; TensorBoard's server all of them.
  EXPECT_EQ(seen["texts"]["rollout/answer"].size(), 7U);
  EXPECT_EQ(seen["texts"]["rollout/answer"][0], nlohmann::json::parse("[1,\"step 1 \\ufffd\"]"));
  auto spread = nlohmann::json::parse("[5,[[-1.0,0.0,5.0],[0.0,1.0,0.0],[1.0,2.0,3.0]]]");
  EXPECT_EQ(seen["histograms"]["rollout/score"][6], spread);
  EXPECT_EQ(seen["histograms"]["rewards/acc"][0], nlohmann::json::parse("[1,[[0.0,1.0,4.0]]]"));
  for (const char* kind : {"scalars", "tensors"})
    EXPECT_FALSE(seen["listed"][kind].empty()) << "tags of TensorBoard's data provider";
}

TEST(TensorBoardGolden, AHistogramIsATensorOfEdgesAndCounts) {
  sample::TemporaryFolder folder;
  auto writer = TensorBoardWriter::open(options_at(folder / "run", 1700000000));
  ASSERT_TRUE(writer.has_value());
  ASSERT_TRUE(writer->histograms(3, histograms_of(3)).has_value());
  ASSERT_TRUE(writer->histograms(4, {}).has_value());
  const auto values = test::summary_values(sample::read_all(writer->path()));
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0].step, 3U);
  EXPECT_EQ(values[0].tag, "rollout/score");
  EXPECT_EQ(values[0].plugin, "histograms");
  EXPECT_EQ(values[0].shape, (std::vector<uint64_t>{3, 3}));
  EXPECT_EQ(values[0].numbers, (std::vector<double>{-1, 0, 3, 0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(values[1].numbers, (std::vector<double>{0, 1, 4}));
}

}  // namespace
}  // namespace cohort::observe
