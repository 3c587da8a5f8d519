// Roles of a job: degrees, shards, bytes of each object per card, KV caches.
#include <algorithm>
#include <set>

#include "runtime/plan/estimate/job_parts.hpp"

namespace cohort::plan::job {
namespace {

RoleKind kind_of(const RoleJob& job) {
  if (job.name == Role::actor_train) return RoleKind::train;
  if (job.name == Role::critic) return RoleKind::critic;
  if (is_frozen(job.name)) return RoleKind::reference;
  return serves(job) ? RoleKind::infer : RoleKind::reference;
}

Error bad_role(const RoleJob& job, const std::string& what) {
  return {Errc::invalid_argument, job.name + ": " + what};
}

Expected<void> check_degrees(const RoleJob& job) {
  constexpr uint32_t k_degree_max = 1u << 16;
  for (uint32_t degree : {job.tp, job.pp, job.cp, job.ep, job.expert_tp})
    if (degree == 0 || degree > k_degree_max)
      return bad_role(job, "a parallel degree is not in 1..65536");
  uint64_t unit = uint64_t{job.tp} * job.pp * job.cp, cards = job.cards.size();
  if (cards % unit != 0)
    return bad_role(
        job, fmt::format("{} cards are not a multiple of TP*PP*CP = {}*{}*{} = {}; nearest numbers "
                         "of cards that work: {}",
                         cards, job.tp, job.pp, job.cp, unit, nearest_multiples(cards, unit)));
  uint64_t width = cards / job.pp, experts = uint64_t{job.ep} * job.expert_tp;
  if (job.ep > 1 && width % experts != 0)
    return bad_role(
        job, "expert parallel " + std::to_string(job.ep) + " * expert TP " +
                 std::to_string(job.expert_tp) + " does not divide the " + std::to_string(width) +
                 " cards of a stage; nearest that work: " + nearest_divisors(width, experts));
  if (job.zero_stage > 3)
    return bad_role(job, "ZeRO stage " + std::to_string(job.zero_stage) +
                             " does not exist; the stages are 0 to 3");
  if (job.zero_shards > 0 && (cards / (uint64_t{job.tp} * job.pp)) % job.zero_shards != 0)
    return bad_role(
        job, fmt::format("{} cards per copy do not divide the {} replicas; nearest that work: {}",
                         job.zero_shards, cards / (uint64_t{job.tp} * job.pp),
                         nearest_divisors(cards / (uint64_t{job.tp} * job.pp), job.zero_shards)));
  return {};
}

Expected<void> check_numbers(const RoleJob& job) {
  constexpr uint64_t k_max = uint64_t{1} << 24;
  for (auto [name, value] : std::initializer_list<std::pair<const char*, uint64_t>>{
           {"micro batch", job.packed_tokens > 0 ? 1 : job.micro_batch},
           {"log-prob micro batch", job.log_prob_micro_batch},
           {"KV block", job.block_tokens},
           {"max running sequences", job.max_running}})
    if (value == 0 || value > k_max)
      return bad_role(job, std::string(name) + " " + std::to_string(value) + " is not in 1..2^24");
  if (job.param_bytes != 1 && job.param_bytes != 2 && job.param_bytes != 4)
    return bad_role(job, std::to_string(job.param_bytes) + " bytes per parameter: 1, 2 or 4");
  if (!(job.memory_utilization > 0 && job.memory_utilization <= 1))
    return bad_role(job, "memory utilization is not in (0, 1]");
  for (uint64_t value :
       {job.packed_tokens, job.logits_chunk_tokens, job.max_model_len, job.max_batched_tokens})
    if (value > k_max) return bad_role(job, std::to_string(value) + " tokens are over 2^24");
  if (job.threads == 0 || job.threads > 4096)
    return bad_role(job, std::to_string(job.threads) + " threads per card are not in 1..4096");
  return {};
}

/// Bytes of one cut object: dense and expert elements over the cards that share them.
struct CutBytes {
  uint64_t bytes = 0;
  std::string arithmetic;
};
CutBytes cut_bytes(const RoleFacts& role, uint64_t element_bytes, bool is_cut) {
  uint32_t dense_ways = 1, expert_ways = 1;
  if (is_cut) {
    dense_ways = role.job.zero_shards > 0 ? role.job.zero_shards : role.ways;
    expert_ways = std::min(dense_ways, role.expert_ways);
  }
  CutBytes out;
  out.bytes =
      (divide_up(role.shard.dense, dense_ways) + divide_up(role.shard.experts, expert_ways)) *
      element_bytes;
  auto part = [&](uint64_t elements, uint32_t ways) {
    return text(elements) + (ways > 1 ? " / " + std::to_string(ways) + " ranks" : "");
  };
  out.arithmetic = part(role.shard.dense, dense_ways);
  if (role.shard.experts > 0)
    out.arithmetic =
        "(" + out.arithmetic + " + experts " + part(role.shard.experts, expert_ways) + ")";
  out.arithmetic += " * " + std::to_string(element_bytes) + " B";
  return out;
}

void put(RoleFacts& role, Object object, CutBytes value, bool is_on_host) {
  role.card_bytes[object] = is_on_host ? 0 : value.bytes;
  if (is_on_host) role.host_bytes[object] = value.bytes;
  role.numbers.push_back({std::string(to_string(object)), is_on_host ? 0 : value.bytes,
                          value.arithmetic + (is_on_host ? ", in host memory" : "")});
}

void put_builtin(RoleFacts& role, const ModelShape& shape,
                 const std::map<Object, uint64_t>& bytes) {
  const uint32_t ways = role.trains() ? role.cut.ep : 1;
  const std::string experts = ways > 1 ? fmt::format(", experts over {} cards", ways) : "";
  uint64_t elements = flat_element_count(shape, role.head, ways);
  for (auto [object, size] : bytes) {
    role.card_bytes[object] = size;
    uint64_t each = size / std::max<uint64_t>(elements, 1);
    std::string arithmetic =
        fmt::format("{} elements with padding{} * {} B", text(elements), experts, each);
    if (role.job.lora && object != Object::infer_params)
      arithmetic = fmt::format("adapter of rank {}{}", role.job.lora->rank,
                               object == Object::train_params
                                   ? fmt::format(", and the model, frozen: {} elements * {} B",
                                                 text(elements), role.job.param_bytes)
                                   : "");
    else if (each * elements != size)
      arithmetic = fmt::format("ZeRO {} over {} cards{}, each tensor's part rounded up: {} * 4 B",
                               role.job.zero_stage, role.ways, experts, text(size / 4));
    role.numbers.push_back({std::string(to_string(object)), size, arithmetic});
  }
}

/// A frozen training engine: at stage 0 the f32 copy beside bf16 parameters is there too.
uint64_t frozen_bytes(const ModelShape& shape, HeadKind head, const TrainMemory& memory) {
  return train_bytes(shape, memory, head).at(Object::train_params);
}

/// A teacher comes and goes with the parameters of its student.
void put_teacher(RoleFacts& role) {
  if (!role.job.teacher) return;
  const uint64_t bytes = frozen_bytes(*role.job.teacher, HeadKind::language,
                                      builtin_train_memory(role.job.param_bytes));
  role.card_bytes[Object::train_params] += bytes;
  for (PlanNumber& number : role.numbers) {
    if (number.name != to_string(Object::train_params)) continue;
    number.value += bytes;
    number.arithmetic += fmt::format(", and the teacher: {} B", text(bytes));
  }
}

void put_trained(RoleFacts& role) {
  bool is_critic = role.kind == RoleKind::critic;
  Object params = is_critic ? Object::critic_params : Object::train_params;
  Object grads = is_critic ? Object::critic_grads : Object::grads;
  Object optimizer = is_critic ? Object::critic_optimizer : Object::optimizer;
  const RoleJob& job = role.job;
  if (is_builtin_whole(role)) {
    TrainMemory memory = builtin_memory(role);
    put_builtin(
        role, role.shape,
        is_critic ? critic_bytes(role.shape, memory) : train_bytes(role.shape, memory, role.head));
    for (auto [object, bytes] : train_host_bytes(role.shape, memory))
      if (bytes > 0) role.host_bytes[object == Object::train_params ? params : optimizer] = bytes;
    put_teacher(role);
    return;
  }
  StateBytes state = state_of(job.engine, job.param_bytes);
  uint32_t stage = job.engine == Engine::fsdp ? 3 : job.zero_stage;
  put(role, params, cut_bytes(role, state.params, stage >= 3), job.offload_params);
  // Offloaded gradients leave the card as they are reduced.
  put(role, grads, cut_bytes(role, state.grads, stage >= 2), job.offload_optimizer && stage >= 2);
  put(role, optimizer, cut_bytes(role, state.optimizer, stage >= 1), job.offload_optimizer);
  if (!job.swap_optimizer || job.offload_optimizer) return;
  // MindSpeed's swap streams master weights and moments in 16 pieces.
  constexpr uint64_t k_pieces = 16;
  role.host_bytes[optimizer] = role.card_bytes[optimizer];
  role.card_bytes[optimizer] = divide_up(role.card_bytes[optimizer], k_pieces);
  role.numbers.back().value = role.card_bytes[optimizer];
  role.numbers.back().arithmetic += " / 16 pieces, the rest in host memory";
}

InferMemory served_memory(const RoleFacts& role) {
  InferMemory memory = builtin_infer_memory(role.job.param_bytes, role.is_on_cpu);
  memory.kv_block_tokens = role.job.block_tokens;
  if (memory.panel_columns > 0)
    memory.panel_columns = std::max<uint64_t>(role.job.panel_columns, 2);
  return memory;
}

/// Weights and cache come and go together. The cache: whole blocks, the same in each lane.
void put_judge(RoleFacts& role) {
  const RoleJob& job = role.job;
  const InferMemory memory = served_memory(role);
  const uint64_t weights = infer_bytes(role.shape, memory).at(Object::infer_params);
  const uint64_t unit = job.block_tokens * job.threads;
  role.kv_tokens = divide_up(job.kv_tokens, unit) * unit;
  role.kv_token_bytes = kv_bytes_per_token(role.shape, memory);
  const uint64_t bytes = weights + role.kv_tokens * role.kv_token_bytes;
  role.card_bytes[Object::ref_params] = bytes;
  role.numbers.push_back(
      {std::string(to_string(Object::ref_params)), bytes,
       fmt::format("weights {} B, and a cache of {} tokens * {} B", text(weights),
                   text(role.kv_tokens), text(role.kv_token_bytes))});
}

void put_frozen(RoleFacts& role) {
  const RoleJob& job = role.job;
  if (job.is_judge) return put_judge(role);
  if (is_builtin_whole(role)) {
    put_builtin(role, role.shape,
                {{Object::ref_params, frozen_bytes(role.shape, role.head, builtin_memory(role))}});
    return;
  }
  bool is_cut = job.zero_stage >= 3 || job.engine == Engine::fsdp;
  put(role, Object::ref_params, cut_bytes(role, job.param_bytes, is_cut), job.offload_params);
}

void put_served(RoleFacts& role) {
  const RoleJob& job = role.job;
  if (job.engine == Engine::builtin && job.pp == 1) {
    const ModelShape part = model::tp_part(role.shape, job.tp);
    const InferMemory memory = served_memory(role);
    auto bytes = infer_bytes(part, memory);
    bytes.erase(Object::kv_cache);
    put_builtin(role, part, bytes);
    role.kv_token_bytes = kv_bytes_per_token(part, memory);
    return;
  }
  put(role, Object::infer_params, cut_bytes(role, job.param_bytes, false), false);
  uint64_t element = job.kv_element_bytes > 0 ? job.kv_element_bytes : job.param_bytes;
  role.kv_token_bytes = kv_bytes_on_card(role.shape, role.cut, element);
}

Expected<RoleFacts> work_out_role(const JobSpec& spec, const RoleJob& job) {
  RoleFacts role;
  role.job = job;
  role.kind = kind_of(job);
  role.is_on_cpu = spec.card.name == "cpu";
  role.shape = job.model ? *job.model : spec.model;
  const bool has_value = role.kind == RoleKind::critic || job.has_value_head;
  role.head = has_value ? HeadKind::value : HeadKind::language;
  if (auto valid = check_shape(role.shape); !valid) return valid.error().with_context(job.name);
  COHORT_TRY(check_numbers(job));
  COHORT_TRY(check_degrees(job));
  role.cut = {job.tp, job.pp, job.ep, job.ep > 1 ? job.expert_tp : job.tp, job.layers_per_stage};
  COHORT_TRY(check_cut(role.shape, role.cut, job.name));
  if (role.cut.layers_per_stage.empty())
    role.cut.layers_per_stage = stage_layers(role.shape.num_hidden_layers, job.pp);
  auto cards = static_cast<uint32_t>(job.cards.size());
  role.ways = cards / (job.tp * job.pp);
  role.expert_ways = cards / job.pp / (role.cut.ep * role.cut.expert_tp);
  role.stage = largest_stage(role.shape, role.cut, role.head);
  role.layers = role.cut.layers_per_stage[role.stage];
  role.shard = shard_elements(role.shape, role.cut, role.stage, role.head);
  role.max_model_len = job.max_model_len > 0 ? job.max_model_len : sequence_length(spec);
  if (role.trains())
    put_trained(role);
  else if (role.kind == RoleKind::infer)
    put_served(role);
  else
    put_frozen(role);
  add_transients(spec, role);
  return role;
}

Expected<void> check_names(const JobSpec& spec) {
  std::set<std::string> names;
  for (const RoleJob& job : spec.roles) {
    if (job.name.empty()) return Error{Errc::invalid_argument, "job: a role has no name"};
    if (!names.insert(job.name).second)
      return Error{Errc::invalid_argument, "job: role " + job.name + " is there twice"};
    constexpr size_t k_cards_max = 65536;
    if (job.cards.size() > k_cards_max)
      return Error{Errc::invalid_argument, job.name + ": over 65,536 cards"};
    std::set<CardId> cards(job.cards.begin(), job.cards.end());
    if (cards.size() != job.cards.size())
      return Error{Errc::placement, job.name + ": a card is named twice; name each once"};
  }
  return {};
}

}  // namespace

bool serves(const RoleJob& job) {
  return job.name == Role::actor_infer || job.engine == Engine::vllm ||
         job.engine == Engine::sglang;
}

bool is_builtin_whole(const RoleFacts& role) {
  return role.job.engine == Engine::builtin && role.job.tp * role.job.pp == 1;
}

TrainMemory builtin_memory(const RoleFacts& role) {
  TrainMemory memory = builtin_train_memory(role.job.param_bytes);
  memory.shards = std::max(role.ways, 1u);
  memory.zero_stage = role.job.zero_stage;
  memory.offload_optimizer = role.job.offload_optimizer;
  memory.offload_params = role.job.offload_params;
  memory.swap_optimizer = role.job.swap_optimizer && !role.job.offload_optimizer;
  memory.lora = role.job.lora;
  memory.expert_ways = role.trains() ? role.cut.ep : 1;
  return memory;
}

uint64_t sequence_length(const JobSpec& spec) {
  return spec.sequence_length > 0 ? spec.sequence_length
                                  : spec.prompt_length + spec.response_length;
}

uint64_t sum_of(const std::vector<TransientBytes>& transients) {
  uint64_t sum = 0;
  for (const TransientBytes& x : transients) sum += x.bytes;
  return sum;
}

std::string text(uint64_t value) { return with_thousands(value); }

uint32_t node_of(const JobSpec& spec, CardId card) {
  uint32_t per_node = spec.cards_per_node > 0 ? spec.cards_per_node : spec.card.cards_per_node;
  return per_node == 0 ? 0 : card.value / per_node;
}

Expected<std::vector<RoleFacts>> work_out_roles(const JobSpec& spec) {
  COHORT_TRY(check_names(spec));
  constexpr uint64_t k_tokens_max = uint64_t{1} << 24;
  if (sequence_length(spec) == 0 || sequence_length(spec) > k_tokens_max)
    return Error{Errc::invalid_argument, fmt::format("job: sequence_length {} is not in 1..2^24; "
                                                     "set it, or prompt_length and response_length",
                                                     sequence_length(spec))};
  std::vector<RoleFacts> roles;
  for (const RoleJob& job : spec.roles) {
    if (job.cards.empty()) continue;
    COHORT_ASSIGN(RoleFacts role, work_out_role(spec, job));
    roles.push_back(std::move(role));
  }
  if (roles.empty())
    return Error{Errc::placement, "job: no role has cards; give one a device_mapping"};
  return roles;
}

namespace {

/// A card that both classes use: there the reference is away while others generate.
bool shares_cards(const std::vector<RoleFacts>& roles, const RoleFacts& role) {
  for (const RoleFacts& other : roles) {
    if (other.trains() == role.trains()) continue;
    for (CardId card : role.job.cards)
      if (std::ranges::find(other.job.cards, card) != other.job.cards.end()) return true;
  }
  return false;
}

/// Bytes of frozen roles on the fullest of the role's cards while it generates.
uint64_t beside(const std::vector<RoleFacts>& roles, const RoleFacts& role, bool has_work_space) {
  if (shares_cards(roles, role)) return 0;
  uint64_t most = 0;
  for (CardId card : role.job.cards) {
    uint64_t bytes = 0;
    for (const RoleFacts& other : roles)
      if (other.kind == RoleKind::reference &&
          std::ranges::find(other.job.cards, card) != other.job.cards.end())
        bytes +=
            other.card_bytes.at(Object::ref_params) + (has_work_space ? sum_of(other.log_prob) : 0);
    most = std::max(most, bytes);
  }
  return most;
}

uint64_t minus(uint64_t from, uint64_t bytes) { return from > bytes ? from - bytes : 0; }

struct CacheRoom {
  uint64_t asked = 0, room = 0;  // tokens, whole blocks
  std::string arithmetic;
};

CacheRoom room_of(const JobSpec& spec, const std::vector<RoleFacts>& roles, RoleFacts& role) {
  const RoleJob& job = role.job;
  bool is_cpu = spec.card.name == "cpu";  // work space lies outside the budget there
  uint64_t weights = role.card_bytes.at(Object::infer_params);
  uint64_t other = beside(roles, role, !is_cpu);
  uint64_t budget = minus(spec.card.capacity_bytes, spec.card.reserve_bytes);
  uint64_t work = is_cpu ? 0 : sum_of(role.generate);
  // Whole blocks, in the built-in engine the same number for each lane.
  uint64_t unit = job.block_tokens * (job.engine == Engine::builtin ? job.threads : 1);
  auto tokens = [&](uint64_t bytes) {
    return bytes / std::max<uint64_t>(role.kv_token_bytes * unit, 1) * unit;
  };
  CacheRoom out;
  out.room = tokens(minus(budget, weights + work + other));
  if (job.engine == Engine::builtin) {
    uint64_t want = job.kv_tokens > 0 ? job.kv_tokens : job.max_running * role.max_model_len;
    out.asked = divide_up(want, job.block_tokens) * job.block_tokens / unit * unit;
    out.arithmetic = "asked " + text(out.asked) + ", room " + text(out.room) + ": budget " +
                     text(budget) + " - weights " + text(weights);
    if (work + other > 0) out.arithmetic += " - beside " + text(work + other);
    return out;
  }
  auto share =
      static_cast<uint64_t>(job.memory_utilization * static_cast<double>(spec.card.capacity_bytes));
  out.asked = tokens(minus(share, weights + work));
  std::string percent = std::to_string(static_cast<int>(job.memory_utilization * 100 + 0.5));
  out.arithmetic = percent + " % of " + text(spec.card.capacity_bytes) + " - weights " +
                   text(weights) + " - work space " + text(work);
  if (out.room < out.asked)
    out.arithmetic += ", cut to budget " + text(budget) + " - beside " + text(other);
  return out;
}

}  // namespace

void size_caches(const JobSpec& spec, std::vector<RoleFacts>& roles,
                 std::vector<PlanWarning>& warnings) {
  for (RoleFacts& role : roles) {
    if (role.kind != RoleKind::infer) continue;
    const RoleJob& job = role.job;
    CacheRoom cache = room_of(spec, roles, role);
    uint64_t fitting = std::min(cache.asked, cache.room);
    uint64_t least = divide_up(role.max_model_len, job.block_tokens) * job.block_tokens;
    if (job.engine == Engine::builtin) least *= job.threads;  // a sequence for each lane
    role.is_cache_too_small = fitting < least;
    role.kv_tokens = std::max(fitting, least);
    uint64_t bytes = role.kv_tokens * role.kv_token_bytes;
    role.card_bytes[Object::kv_cache] = bytes;
    role.numbers.push_back({"kv_cache", bytes,
                            text(role.kv_tokens) + " tokens * " + text(role.kv_token_bytes) +
                                " B (" + cache.arithmetic + ")"});
    if (role.is_cache_too_small)
      warnings.push_back(
          {job.name + ".kv_cache", job.name + ": " + text(fitting) +
                                       " tokens of KV cache are less than one sequence of " +
                                       text(role.max_model_len) + " (max_model_len)"});
    else if (cache.room < cache.asked && job.engine != Engine::builtin)
      warnings.push_back({job.name + ".gpu_memory_utilization",
                          job.name + ": the reference on the same cards leaves " +
                              text(cache.room) + " tokens of KV cache, not the " +
                              text(cache.asked) + " of its memory utilization"});
  }
}

}  // namespace cohort::plan::job
