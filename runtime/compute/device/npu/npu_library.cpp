#include "runtime/compute/device/npu/npu_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;

constexpr const char* k_library = "libtorch_npu.so";
constexpr const char* k_in_site_packages = "torch_npu/lib/libtorch_npu.so";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream stream(list);
  for (std::string part; std::getline(stream, part, ':');)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

void add_if_file(const fs::path& path, std::vector<std::string>& found) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) found.push_back(path.string());
}

/// prefix/lib*/python3*/{site,dist}-packages.
void add_of_prefix(const fs::path& prefix, std::vector<std::string>& found) {
  std::error_code ignored;
  for (const char* lib : {"lib", "lib64"}) {
    for (fs::directory_iterator at(prefix / lib, ignored), end; !ignored && at != end; ++at) {
      if (!at->path().filename().string().starts_with("python3")) continue;
      add_if_file(at->path() / "site-packages" / k_in_site_packages, found);
      add_if_file(at->path() / "dist-packages" / k_in_site_packages, found);
    }
    ignored.clear();
  }
}

/// "2.1" of "2.1.0.post6".
std::string major_minor(const std::string& version) {
  const size_t first = version.find('.');
  const size_t second = first == std::string::npos ? first : version.find('.', first + 1);
  return version.substr(0, second);
}

template <class F>
void find_call(void* library, const char* name, F*& call) {
  call = reinterpret_cast<F*>(::dlsym(library, name));
}

NpuCalls find_calls(void* library) {
  NpuCalls c;
  find_call(library, "aclrtGetMemInfo", c.get_mem_info);
  find_call(library, "aclrtGetSocName", c.get_soc_name);
  find_call(library, "aclrtSetDevice", c.set_device);
  find_call(library, "aclrtCreateStream", c.create_stream);
  find_call(library, "aclrtDestroyStream", c.destroy_stream);
  find_call(library, "aclrtCreateEvent", c.create_event);
  find_call(library, "aclrtDestroyEvent", c.destroy_event);
  find_call(library, "aclrtRecordEvent", c.record_event);
  find_call(library, "aclrtQueryEventStatus", c.query_event_status);
  find_call(library, "_ZN9torch_npu8init_npuEa", c.init_npu);
  find_call(library, "HcclGetRootInfo", c.hccl_get_root_info);
  find_call(library, "HcclCommInitRootInfo", c.hccl_comm_init_root_info);
  find_call(library, "HcclBatchSendRecv", c.hccl_batch_send_recv);
  find_call(library, "HcclCommDestroy", c.hccl_comm_destroy);
  find_call(library, "HcclGetErrorString", c.hccl_get_error_string);
  return c;
}

Expected<void> preload(const std::string& list) {
  for (const std::string& path : split(list)) {
    if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
      return Error{Errc::unsupported,
                   fmt::format("npu: COHORT_TORCH_NPU_PRELOAD: {}", ::dlerror())};
  }
  return {};
}

Expected<NpuLibrary> load(const std::string& path) {
  COHORT_TRY(check_npu_version(path, COHORT_TORCH_VERSION));
  COHORT_TRY(preload(environment("COHORT_TORCH_NPU_PRELOAD")));
  // GLOBAL: CANN's libraries look for each other's symbols. What it registers stays: never closed.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    return Error{Errc::unsupported,
                 fmt::format("npu: {} cannot be loaded: {}", path,
                             explain_load_error(::dlerror(), COHORT_TORCH_VERSION))};
  return NpuLibrary{path, find_calls(library)};
}

}  // namespace

std::vector<std::string> find_torch_npu() {
  std::vector<std::string> found;
  if (const std::string said = environment("COHORT_TORCH_NPU"); !said.empty()) {
    for (const fs::path& path :
         {fs::path(said), fs::path(said) / k_library, fs::path(said) / "lib" / k_library,
          fs::path(said) / k_in_site_packages})
      add_if_file(path, found);
    return found;  // who names a place means that place
  }
  for (const std::string& folder : split(environment("PYTHONPATH")))
    add_if_file(fs::path(folder) / k_in_site_packages, found);
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string prefix = environment(name); !prefix.empty()) add_of_prefix(prefix, found);
  for (const char* prefix : {"/usr/local", "/usr"}) add_of_prefix(prefix, found);
  return found;
}

Expected<void> check_npu_version(const std::string& library, const std::string& torch_version) {
  std::ifstream file(fs::path(library).parent_path().parent_path() / "version.py");
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find('\'');
    const size_t end = line.find('\'', begin + 1);
    if (!line.starts_with("__version__") || end == std::string::npos) continue;
    const std::string version = line.substr(begin + 1, end - begin - 1);
    if (major_minor(version) == major_minor(torch_version)) return {};
    return Error{Errc::unsupported,
                 fmt::format("npu: {} is torch_npu {}, which is for torch {}; this build's torch "
                             "is {}: build Cohort against the torch that torch_npu was installed "
                             "with (cmake -DCMAKE_PREFIX_PATH=$(python3 -c "
                             "'import torch;print(torch.utils.cmake_prefix_path)'))",
                             library, version, major_minor(version), torch_version)};
  }
  return {};
}

std::string explain_load_error(const std::string& text, const std::string& torch_version) {
  auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  const bool is_symbol = has("undefined symbol");
  if (is_symbol && (has(" Py") || has(" _Py")))
    return text +
           ": this torch_npu was built for Python; set COHORT_TORCH_NPU_PRELOAD to the "
           "libpython3.x.so and libtorch_python.so of its environment, or use torch_npu's build "
           "without Python (libtorch_npu)";
  const bool is_torch =
      has("_ZN3c10") || has("_ZNK3c10") || has("_ZN2at") || has("_ZNK2at") || has("_ZN5torch");
  if (is_symbol && is_torch && has("Ss") && !has("__cxx11"))
    return fmt::format(
        "{}: it was built with the old C++ ABI (_GLIBCXX_USE_CXX11_ABI=0), this "
        "program with the new one; install the torch and torch_npu that are built "
        "with ABI 1 (aarch64 wheels, or torch 2.7 and newer)",
        text);
  if (is_symbol && is_torch)
    return fmt::format(
        "{}: it was built against another torch than this program's {}; build "
        "Cohort against the torch that torch_npu was installed with",
        text, torch_version);
  if (has("libascend") || has("libhccl") || has("libge_") || has("libgraph") || has("libacl") ||
      has("libmsprof") || has("libruntime"))
    return text +
           ": CANN's libraries are not found; source its environment first, e.g. "
           "/usr/local/Ascend/ascend-toolkit/set_env.sh, and the driver's libraries "
           "(/usr/local/Ascend/driver/lib64) must be in LD_LIBRARY_PATH";
  if (has("libtorch_python") || has("libpython"))
    return text +
           ": this torch_npu was built for Python; set COHORT_TORCH_NPU_PRELOAD to the "
           "libpython3.x.so and libtorch_python.so of its environment";
  return text;
}

Expected<NpuLibrary> load_torch_npu() {
  static std::mutex mutex;
  static std::optional<NpuLibrary> loaded;
  std::lock_guard lock(mutex);
  if (loaded) return *loaded;
  const std::vector<std::string> found = find_torch_npu();
  const std::string said = environment("COHORT_TORCH_NPU");
  if (found.empty())
    return Error{
        Errc::unsupported,
        said.empty()
            ? std::string("npu: torch_npu is not installed: no ") + k_in_site_packages +
                  " under PYTHONPATH, VIRTUAL_ENV, CONDA_PREFIX, /usr/local or /usr; "
                  "install torch_npu, or set COHORT_TORCH_NPU to libtorch_npu.so"
            : fmt::format("npu: COHORT_TORCH_NPU is '{}': there is no {} there", said, k_library)};
  COHORT_ASSIGN(loaded, load(found.front()));
  return *loaded;
}

}  // namespace cohort::compute
