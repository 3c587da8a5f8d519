// The npu platform where torch_npu is missing, is not torch_npu, is for another torch, or shows no
// device: each has its own message. The libraries loaded here are stand-ins built by this test
// (tests/support/npu_stand_in.cpp), for the load path alone: torch_npu itself was never run.
#include "runtime/compute/device/npu/npu_library.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/compute/device/device.hpp"
#include "tests/support/child_process.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;

/// Sets an environment variable for a test's length.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    if (before != nullptr) before_ = before;
    had_ = before != nullptr;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() { had_ ? ::setenv(name_, before_.c_str(), 1) : ::unsetenv(name_); }
  Environment(const Environment&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool had_ = false;
};

/// What a child process that loads `library` hears of the npu platform: what a library registers
/// stays in its process.
std::string text_with(const std::string& library) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("COHORT_TORCH_NPU", library.c_str(), 1);
    const auto opened = open_device(DeviceKind::npu, 0);
    const std::string text =
        opened ? "opened"
               : std::string(to_string(opened.error().code)) + ": " + opened.error().detail;
    const bool is_told = ::write(ends[1], text.data(), text.size()) >= 0;
    ::_exit(is_told ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child died: " << text;
  return text;
}

struct LoadCase {
  const char* name;
  const char* library;
  std::vector<const char*> says;
};

class NpuLoad : public testing::TestWithParam<LoadCase> {};

TEST_P(NpuLoad, SaysWhatIsWrongAndWhatToDo) {
  const std::string text = text_with(GetParam().library);
  EXPECT_TRUE(text.starts_with("unsupported: npu")) << text;
  for (const char* part : GetParam().says)
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

INSTANTIATE_TEST_SUITE_P(
    Libraries, NpuLoad,
    testing::Values(
        LoadCase{"missing", "/nowhere/libtorch_npu.so", {"/nowhere", "there is no"}},
        LoadCase{"not_torch_npu", COHORT_STAND_IN_PLAIN, {"registers no device", "not torch_npu"}},
        LoadCase{"old_abi", COHORT_STAND_IN_OLD_ABI, {"old C++ ABI", "_GLIBCXX_USE_CXX11_ABI=0"}},
        LoadCase{"other_torch", COHORT_STAND_IN_OTHER_TORCH, {"another torch", "installed with"}},
        LoadCase{"python", COHORT_STAND_IN_PYTHON, {"built for Python", "PRELOAD"}},
        LoadCase{"no_device",
                 COHORT_STAND_IN_NO_DEVICE,
                 {"there is no such device", "ASCEND_RT_VISIBLE_DEVICES", "/dev/davinci"}}),
    [](const auto& one) { return one.param.name; });

TEST(NpuLibrary, IsLookedForWhereTheEnvironmentPoints) {
  const test::TempFolder folder;
  const fs::path site = folder.path() / "lib/python3.11/site-packages";
  fs::create_directories(site / "torch_npu/lib");
  std::ofstream(site / "torch_npu/lib/libtorch_npu.so") << "x";
  const std::string library = (site / "torch_npu/lib/libtorch_npu.so").string();
  {
    const Environment venv("VIRTUAL_ENV", folder.path().string());
    ASSERT_FALSE(find_torch_npu().empty());
    EXPECT_EQ(find_torch_npu().front(), library);
  }
  {
    const Environment path("PYTHONPATH", "/nowhere:" + site.string());
    ASSERT_FALSE(find_torch_npu().empty());
    EXPECT_EQ(find_torch_npu().front(), library);
  }
  for (const fs::path& said :
       {site, site / "torch_npu", site / "torch_npu/lib", fs::path(library)}) {
    const Environment named("COHORT_TORCH_NPU", said.string());
    EXPECT_EQ(find_torch_npu(), std::vector<std::string>{library}) << said;
  }
  const Environment named("COHORT_TORCH_NPU", folder.path().string());
  EXPECT_TRUE(find_torch_npu().empty()) << "who names a place means that place";
}

TEST(NpuLibrary, MustBeForThisTorch) {
  const test::TempFolder folder;
  fs::create_directories(folder.path() / "lib");
  const std::string library = (folder.path() / "lib/libtorch_npu.so").string();
  EXPECT_TRUE(check_npu_version(library, "2.1.0").has_value()) << "no version.py, nothing said";
  std::ofstream(folder.path() / "version.py") << "__version__ = '2.1.0.post6'\n";
  EXPECT_TRUE(check_npu_version(library, "2.1.2").has_value());
  const auto other = check_npu_version(library, "1.13.1");
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, Errc::unsupported);
  for (const char* part : {"2.1.0.post6", "torch 2.1;", "1.13.1", "CMAKE_PREFIX_PATH"})
    EXPECT_NE(other.error().detail.find(part), std::string::npos) << other.error().detail;
}

TEST(NpuLibrary, LoadErrorsAreExplained) {
  const auto said = [](const char* text) { return explain_load_error(text, "2.1.0"); };
  EXPECT_NE(said("libascendcl.so: cannot open shared object file").find("set_env.sh"),
            std::string::npos);
  EXPECT_NE(said("libtorch_python.so: cannot open shared object file").find("PRELOAD"),
            std::string::npos);
  EXPECT_NE(said("x.so: undefined symbol: _ZN2at4_ops5zerosEv").find("another torch"),
            std::string::npos);
  EXPECT_NE(said("x.so: undefined symbol: _ZN3c105ErrorC2ENSt7__cxx1112basic_stringE")
                .find("another torch"),
            std::string::npos)
      << "the new ABI's own names are not the old one's";
  EXPECT_EQ(said("invalid ELF header"), "invalid ELF header");
}

TEST(NpuLibrary, CollectivesSayWhyHcclIsNotThere) {
  const Environment named("COHORT_TORCH_NPU", "/nowhere");
  GroupOptions options;
  options.name = "g";
  options.rendezvous = Rendezvous::in_process();
  options.backend = CollectiveBackend::hccl;
  options.device = open_device(DeviceKind::cpu, 0).value();
  const auto group = Collectives::join(options);
  ASSERT_FALSE(group.has_value());
  EXPECT_EQ(group.error().code, Errc::unsupported);
  EXPECT_NE(group.error().detail.find("hccl"), std::string::npos) << group.error().detail;
}

}  // namespace
}  // namespace cohort::compute
