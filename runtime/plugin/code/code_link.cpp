#include "runtime/plugin/code/code_link.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace cohort::plugin {
namespace {

constexpr size_t k_length_bytes = 4;

void append_length(std::string& to, size_t value) {
  for (size_t i = 0; i < k_length_bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xff);
}

size_t length_at(std::string_view text) {
  size_t value = 0;
  for (size_t i = 0; i < k_length_bytes; ++i)
    value |= size_t{static_cast<unsigned char>(text[i])} << (8 * i);
  return value;
}

/// Returns nothing if the fields do not fill the body exactly.
std::optional<CodeFrame> parse(std::string_view body) {
  if (body.empty()) return std::nullopt;
  CodeFrame frame{body[0], {}};
  body.remove_prefix(1);
  while (!body.empty()) {
    if (body.size() < k_length_bytes) return std::nullopt;
    size_t size = length_at(body);
    body.remove_prefix(k_length_bytes);
    if (size > body.size()) return std::nullopt;
    frame.fields.emplace_back(body.substr(0, size));
    body.remove_prefix(size);
  }
  return frame;
}

}  // namespace

CodeLink::CodeLink(std::shared_ptr<SandboxedProcess> process, size_t max_bytes)
    : process_(std::move(process)), max_bytes_(max_bytes) {}

void CodeLink::push_program(std::string_view bytes) {
  append_length(output_, bytes.size());
  output_ += bytes;
}

void CodeLink::push(const CodeFrame& frame) {
  size_t size = 1;
  for (const std::string& field : frame.fields) size += k_length_bytes + field.size();
  append_length(output_, size);
  output_ += frame.letter;
  for (const std::string& field : frame.fields) {
    append_length(output_, field.size());
    output_ += field;
  }
}

void CodeLink::transfer() {
  write_some();
  read_some();
}

void CodeLink::write_some() {
  while (has_output()) {
    ssize_t put = ::write(process_->in(), output_.data() + sent_, output_.size() - sent_);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return;
    if (put <= 0) {  // it reads no more; what it has said can still be read
      sent_ = output_.size();
      break;
    }
    sent_ += static_cast<size_t>(put);
  }
  output_.clear();
  sent_ = 0;
}

void CodeLink::read_some() {
  std::array<char, 65536> buffer;
  // A helper that writes without end must not keep us here, nor fill our memory.
  while (is_open_ && input_.size() - taken_ <= max_bytes_ + k_length_bytes) {
    ssize_t got = ::read(process_->out(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      is_open_ = false;
      return;
    }
    input_.append(buffer.data(), static_cast<size_t>(got));
  }
}

std::optional<CodeFrame> CodeLink::pop() {
  std::string_view rest = std::string_view(input_).substr(taken_);
  if (is_broken_ || rest.size() < k_length_bytes) return std::nullopt;
  size_t size = length_at(rest);
  if (size == 0 || size > max_bytes_) {
    is_broken_ = true;
    return std::nullopt;
  }
  if (rest.size() < k_length_bytes + size) return std::nullopt;
  std::optional<CodeFrame> frame = parse(rest.substr(k_length_bytes, size));
  is_broken_ = !frame;
  taken_ += k_length_bytes + size;
  if (taken_ == input_.size()) {
    input_.clear();
    taken_ = 0;
  }
  return frame;
}

void wait_for(CodeLink* a, CodeLink* b, int timeout_ms) {
  std::array<pollfd, 4> items;
  nfds_t count = 0;
  for (CodeLink* link : {a, b}) {
    if (link == nullptr || !link->is_open()) continue;
    items[count++] = {link->process().out(), POLLIN, 0};
    if (link->has_output()) items[count++] = {link->process().in(), POLLOUT, 0};
  }
  ::poll(items.data(), count, timeout_ms);
  for (CodeLink* link : {a, b})
    if (link != nullptr) link->transfer();
}

}  // namespace cohort::plugin
