#pragma once
/// The rendezvous of ranks in several processes, for tests: a table behind an actor of its own on
/// loopback, as a run's node keeps it. Free of torch and CAF for those who include it.
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/compute/collectives/collectives.hpp"

namespace cohort::tests {

/// Asks the table at 127.0.0.1:`port`. Throws if nobody is there. A request waits 10 s at most.
std::shared_ptr<compute::Rendezvous> connect_table(uint16_t port);

/// Keeps a table in this process.
class TableKeeper {
 public:
  TableKeeper();
  ~TableKeeper();
  uint16_t port() const;
  std::shared_ptr<compute::Rendezvous> rendezvous() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Keeps a table in a process of its own, which is started first: this one has no threads to fork.
class ForkedTable {
 public:
  ForkedTable();
  ~ForkedTable() { end(); }
  ForkedTable(const ForkedTable&) = delete;
  uint16_t port() const { return port_; }
  /// Kills the keeper.
  void end();

 private:
  pid_t pid_ = -1;
  uint16_t port_ = 0;
};

}  // namespace cohort::tests
