// Files by their lines, and what a file that cannot be read gives.
#include "runtime/base/read_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/child_process.hpp"

namespace cohort {
namespace {

using Lines = std::vector<std::pair<uint64_t, std::string>>;

Expected<Lines> lines_of(const std::filesystem::path& path) {
  Lines lines;
  COHORT_TRY(for_each_line(path, [&](std::string_view line, uint64_t number) -> Expected<void> {
    if (line == "bad") return Error{Errc::config, "line " + std::to_string(number)};
    lines.emplace_back(number, line);
    return {};
  }));
  return lines;
}

TEST(ForEachLine, CountsTheBlankOnesThatItLeavesOut) {
  test::TempFolder folder;
  const auto file = folder.path() / "rows";
  std::ofstream(file) << "a\n\n \t\r\nb \nlast";
  EXPECT_EQ(*lines_of(file), (Lines{{1, "a"}, {4, "b "}, {5, "last"}}));
  std::ofstream(file, std::ios::trunc) << "";
  EXPECT_TRUE(lines_of(file)->empty());
}

TEST(ForEachLine, AnErrorOfALineEndsTheReading) {
  test::TempFolder folder;
  const auto file = folder.path() / "rows";
  std::ofstream(file) << "a\nbad\nb\n";
  EXPECT_EQ(lines_of(file).error().detail, "line 2");
}

TEST(ForEachLine, ReadsAPipe) {
  test::TempFolder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::jthread writer([&] { std::ofstream(pipe) << "a\nb\n"; });
  EXPECT_EQ(*lines_of(pipe), (Lines{{1, "a"}, {2, "b"}}));
}

TEST(ForEachLine, SaysWhyAFileCannotBeRead) {
  test::TempFolder folder;
  const auto missing = lines_of(folder.path() / "missing");
  EXPECT_EQ(missing.error().code, Errc::not_found);
  EXPECT_EQ(missing.error().detail,
            (folder.path() / "missing").string() + ": No such file or directory");
  const auto of_folder = lines_of(folder.path());
  EXPECT_EQ(of_folder.error().code, Errc::io);
  EXPECT_EQ(of_folder.error().detail, folder.path().string() + ": Is a directory");
}

// A file of /proc fails in the same way where its process has ended since it was opened.
TEST(Slurp, GivesWhatCouldBeRead) {
  test::TempFolder folder;
  EXPECT_EQ(test::slurp(folder.path()), "");
  std::ofstream(folder.path() / "file") << "a";
  EXPECT_EQ(test::slurp(folder.path() / "file"), "a");
}

}  // namespace
}  // namespace cohort
