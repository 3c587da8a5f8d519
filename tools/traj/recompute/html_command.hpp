#pragma once
/// `traj html`: one trajectory as a page, with the texts of the run's tokenizer and the advantages
/// of the run's own config. Errors as those of traj_commands.hpp.
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/base/trajectory_kind.hpp"

namespace cohort::traj {

struct HtmlOptions {
  std::string run;
  std::string key;  // STEP/GROUP/INDEX
  TrajectoryKind kind = TrajectoryKind::train;
  std::string file;  // "-": stdout; empty: KIND-STEP-GROUP-INDEX.html
};
/// What the stream or the tokenizer does not give is left out, and the page says so.
Expected<void> html(const HtmlOptions& options);

}  // namespace cohort::traj
