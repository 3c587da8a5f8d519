#include "runtime/columnar/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/descriptor.hpp"

namespace cohort::columnar {

Expected<MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return Error{Errc::not_found, std::strerror(errno)};
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return Error{Errc::io, std::strerror(errno)};
  if (!S_ISREG(info.st_mode)) return Error{Errc::not_found, "is no file"};
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return MappedFile({});
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return Error{Errc::io, std::strerror(errno)};
  return MappedFile({static_cast<const char*>(data), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace cohort::columnar
