#pragma once
/// How a run cuts what a config cuts by layers, products and sequences (TP, PP, CP, Ulysses). Only
/// a rollout cuts products (TP). What trains is cut by ZeRO, whose result is the same to the bit
/// for any number of cards, and its experts by EP; what is frozen is whole on each of its cards.
/// Pure.
#include <string>
#include <string_view>

#include "runtime/config/run_config.hpp"

namespace cohort::config {

struct StateCut {
  int64_t zero_stage = 0;        // over all cards of the role
  bool offloads_params = false;  // they come to a card unit by unit
};

/// Returns how a run cuts the state of a role that trains. A cut of the model (TP, PP) becomes
/// stage 3, which leaves no card more of it. Beside experts that are cut (EP), and under an
/// adapter, the model is whole on each card otherwise: stage 2 at most.
StateCut state_cut_of(const WorkerConfig& role);

/// Returns what a run does instead of the cut that the config asks of the role `name`; empty: it
/// makes that cut, or there is none.
std::string cut_in_run(std::string_view name, const WorkerConfig& role, bool is_trained);

}  // namespace cohort::config
