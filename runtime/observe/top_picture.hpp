#pragma once
/// The picture of `actor-node top`: a run or a cluster as its dashboard shows it, in lines of text.
/// Pure. What the console of a run draws too (console.hpp) is drawn by it.
#include <memory>
#include <string>
#include <vector>

#include "runtime/observe/browse_data.hpp"
#include "runtime/observe/dashboard_data.hpp"

namespace cohort::observe {

struct TopData {
  DashboardData data;
  std::shared_ptr<const FlowView> flow;  // null: nobody has looked
  std::string trouble;                   // why the data are not of now; empty: they are
};

struct TopSize {
  size_t columns = 80;
  size_t rows = 0;  // 0: as many as there is to say
  bool color = false;
};

/// Returns at most `rows` lines, each of at most `columns` cells. TOP-1: the diagnosis, and what is
/// wrong with the data, are never cut for what stands above or below them, unless there are fewer
/// than six rows.
std::vector<std::string> top_picture(const TopData& top, double now, const TopSize& size);

}  // namespace cohort::observe
