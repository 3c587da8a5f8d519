#include "runtime/plugin/native/native_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <utility>

namespace cohort::plugin {
namespace {

/// The beginning of every table, in every version.
struct TableHead {
  uint32_t abi;
  uint32_t size_bytes;
};

std::string loader_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "no reason given" : text;
}

}  // namespace

NativeLibrary::NativeLibrary(std::string path, void* handle)
    : path_(std::move(path)), handle_(handle) {}

NativeLibrary::~NativeLibrary() { ::dlclose(handle_); }

Expected<std::shared_ptr<const NativeLibrary>> NativeLibrary::open(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::canonical(path, error);
  if (error) return Error{Errc::not_found, fmt::format("{}: no such plugin file", path)};
  void* handle = ::dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return Error{Errc::unsupported, fmt::format("{}: cannot be loaded: {}", path, loader_error())};
  return std::shared_ptr<const NativeLibrary>(new NativeLibrary(path, handle));
}

Expected<const void*> NativeLibrary::table(const char* symbol, uint32_t abi,
                                           size_t size_bytes) const {
  void* address = ::dlsym(handle_, symbol);
  if (address == nullptr)
    return Error{Errc::unsupported,
                 fmt::format("{}: does not export {}(): build it with the headers in "
                             "include/cohort (COHORT_REWARD, COHORT_ENVIRONMENT)",
                             path_, symbol)};
  const void* (*function)() = nullptr;
  static_assert(sizeof function == sizeof address);
  std::memcpy(&function, &address, sizeof function);
  const void* table = function();
  if (table == nullptr)
    return Error{Errc::unsupported, fmt::format("{}: {}() returned nothing", path_, symbol)};
  TableHead head{};
  std::memcpy(&head, table, sizeof head);
  if (head.abi != abi)
    return Error{Errc::unsupported,
                 fmt::format("{}: was built for version {} of the plugin interface, this program "
                             "speaks version {}: build it again with the headers of this "
                             "installation ({})",
                             path_, head.abi, abi,
                             head.abi > abi ? "or update Cohort" : "find_package(cohort)")};
  if (head.size_bytes < size_bytes)
    return Error{Errc::unsupported,
                 fmt::format("{}: its table has {} bytes, version {} has {}: build it again with "
                             "the headers of this installation",
                             path_, head.size_bytes, abi, size_bytes)};
  return table;
}

}  // namespace cohort::plugin
