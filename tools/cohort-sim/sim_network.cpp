#include "tools/cohort-sim/sim_network.hpp"

#include <algorithm>

namespace cohort::sim {

uint64_t Network::bind(Process& process, const std::string& service, Take take) {
  uint64_t address = world_.fresh_id();
  if (!freed_.empty() && world_.chance(0.4)) {  // a port that was somebody's
    auto at = freed_.begin() + world_.pick(0, static_cast<int64_t>(freed_.size()) - 1);
    address = *at;
    freed_.erase(at);
  }
  consumers_[address] = {&process, process.life, std::make_shared<Take>(std::move(take)), 0};
  directory_[service] = address;
  return address;
}

void Network::unbind(uint64_t address) {
  consumers_.erase(address);
  freed_.push_back(address);
}

uint64_t Network::resolve(const std::string& service) const {
  auto found = directory_.find(service);
  return found == directory_.end() ? 0 : found->second;
}

void Network::attach(uint64_t session, Process& process, Take take) {
  producers_[session] = {&process, process.life, std::make_shared<Take>(std::move(take)), 0};
}

bool Network::is_cut(const Process& a, const Process& b) const {
  return cuts_.contains(std::minmax(&a, &b));
}

void Network::cut(const Process& a, const Process& b) { cuts_.insert(std::minmax(&a, &b)); }

void Network::heal() {
  cuts_.clear();
  for (Held& message : std::exchange(held_, {})) send_control(std::move(message));
}

int64_t Network::arrival(int64_t& last) {
  int64_t time = world_.now() + world_.pick(0, 2);
  if (world_.chance(harm.late)) return time + world_.pick(1, harm.late_ms);  // others overtake it
  last = std::max(last, time);
  return last;
}

void Network::carry(const Process& from, End& to, Frame frame) {
  if (is_cut(from, *to.process) || world_.chance(harm.drop)) return;
  if (world_.chance(harm.damage)) {
    if (frame.chunk.empty() || world_.chance(0.5)) {
      frame.is_whole = false;
    } else {
      frame.chunk = tensor::Buffer::copy_of(frame.chunk.bytes());
      auto bytes = frame.chunk.mutable_bytes();
      bytes[static_cast<size_t>(world_.pick(0, static_cast<int64_t>(bytes.size()) - 1))] ^=
          std::byte{1};
    }
  }
  int copies = world_.chance(harm.twice) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    auto take = to.take;
    Frame copy = i + 1 < copies ? frame : std::move(frame);
    world_.deliver(
        *to.process, arrival(to.last),
        [take, held = std::make_shared<Frame>(std::move(copy))] { (*take)(std::move(*held)); });
  }
}

bool Network::to_consumer(const Process& from, uint64_t address, Frame frame) {
  auto found = consumers_.find(address);
  if (found == consumers_.end() || found->second.life != found->second.process->life) return false;
  carry(from, found->second, std::move(frame));
  return true;
}

bool Network::to_producer(const Process& from, Frame frame) {
  auto found = producers_.find(frame.session);
  if (found == producers_.end() || found->second.life != found->second.process->life) return false;
  carry(from, found->second, std::move(frame));
  return true;
}

void Network::control(const Process& from, Process& to, uint64_t life, std::function<void()> what) {
  Held message{&from, &to, life, std::move(what)};
  if (is_cut(from, to))
    held_.push_back(std::move(message));
  else
    send_control(std::move(message));
}

void Network::control_late(const Process& from, Process& to, uint64_t life,
                           std::function<void()> what) {
  if (!world_.chance(harm.late_words)) return control(from, to, life, std::move(what));
  if (to.life != life) return;
  world_.deliver(to, world_.now() + world_.pick(1, 1000), std::move(what));
}

void Network::send_control(Held message) {
  if (message.to->life != message.life) return;
  int64_t& last = control_last_[{message.from, message.to}];
  last = std::max(last, world_.now() + world_.pick(0, 2));
  world_.deliver(*message.to, last, std::move(message.what));
}

}  // namespace cohort::sim
