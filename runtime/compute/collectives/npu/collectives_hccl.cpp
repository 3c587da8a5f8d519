// HCCL as an engine of device_group.hpp, by its C interface: c10d's "hccl" is made in Python only
// (torch.distributed.Backend.register_backend). An exchange is one HcclBatchSendRecv, which reduces
// nothing (COLL-1). Never run on a card: docs/npu.md.
#include <array>

#include "runtime/compute/collectives/collectives_backends.hpp"
#include "runtime/compute/collectives/device_group.hpp"
#include "runtime/compute/device/npu/npu_library.hpp"

namespace cohort::compute {
namespace {

constexpr int k_data_int8 = 0;            // HCCL_DATA_TYPE_INT8
constexpr int k_send = 0, k_receive = 1;  // HcclSendRecvType
constexpr int k_event_complete = 1;       // ACL_EVENT_RECORDED_STATUS_COMPLETE

/// HcclSendRecvItem, as the C interface lays it out.
struct SendReceiveItem {
  int type = k_send;
  void* bytes = nullptr;
  uint64_t count = 0;
  int data_type = k_data_int8;
  uint32_t remote_rank = 0;
};
static_assert(sizeof(SendReceiveItem) == 32);

/// HcclRootInfo: 4108 bytes, opaque.
using RootInfo = std::array<char, 4108>;

class HcclEngine final : public ExchangeEngine {
 public:
  HcclEngine(std::shared_ptr<Device> device, const NpuCalls& calls)
      : device_(std::move(device)), calls_(calls) {}
  ~HcclEngine() override {
    if (is_abandoned_) return;  // closing waits for peers that may be gone
    if (event_ != nullptr) calls_.destroy_event(event_);
    if (comm_ != nullptr) calls_.hccl_comm_destroy(comm_);
    if (stream_ != nullptr) calls_.destroy_stream(stream_);
  }

  Expected<void> connect(const GroupOptions& options) {
    COHORT_TRY(done("aclrtSetDevice", calls_.set_device(device_->info().index)));
    COHORT_TRY(done("aclrtCreateStream", calls_.create_stream(&stream_)));
    COHORT_TRY(done("aclrtCreateEvent", calls_.create_event(&event_)));
    COHORT_ASSIGN(const RootInfo root, share_root(options));
    return done("HcclCommInitRootInfo",
                calls_.hccl_comm_init_root_info(static_cast<uint32_t>(options.size), root.data(),
                                                static_cast<uint32_t>(options.rank), &comm_));
  }

  Expected<void> start(Sent send, Received receive) override {
    COHORT_TRY(device_->finish());  // the exchange is on a stream that torch does not know
    items_.clear();
    for (size_t r = 0; r < send.size(); ++r) {
      if (!send[r].empty())
        items_.push_back({k_send, const_cast<std::byte*>(send[r].data()), send[r].size(),
                          k_data_int8, static_cast<uint32_t>(r)});
      if (!receive[r].empty())
        items_.push_back({k_receive, receive[r].data(), receive[r].size(), k_data_int8,
                          static_cast<uint32_t>(r)});
    }
    COHORT_TRY(done("aclrtSetDevice", calls_.set_device(device_->info().index)));
    if (!items_.empty())
      COHORT_TRY(done("HcclBatchSendRecv",
                      calls_.hccl_batch_send_recv(
                          items_.data(), static_cast<uint32_t>(items_.size()), comm_, stream_)));
    return done("aclrtRecordEvent", calls_.record_event(event_, stream_));
  }

  Expected<bool> is_done() override {
    int status = 0;
    COHORT_TRY(done("aclrtQueryEventStatus", calls_.query_event_status(event_, &status)));
    return status == k_event_complete;
  }

  void abandon() override { is_abandoned_ = true; }

 private:
  Expected<void> done(const char* call, int code) const {
    if (code == 0) return {};
    const bool is_hccl = std::string_view(call).starts_with("Hccl");
    const char* text = is_hccl && calls_.hccl_get_error_string != nullptr
                           ? calls_.hccl_get_error_string(code)
                           : nullptr;
    return Error{Errc::closed,
                 fmt::format("{}: error {}{}{}; CANN's log: ~/ascend/log", call, code,
                             text == nullptr ? "" : ", ", text == nullptr ? "" : text)};
  }

  /// Rank 0 makes the root's address, the others read it from the rendezvous.
  Expected<RootInfo> share_root(const GroupOptions& options) {
    const std::string key = options.name + "/hccl_root";
    RootInfo root = {};
    if (options.rank == 0) {
      COHORT_TRY(done("HcclGetRootInfo", calls_.hccl_get_root_info(root.data())));
      COHORT_TRY(options.rendezvous->put(key, std::string(root.data(), root.size())));
      return root;
    }
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(options.timeout_ms);
    for (;;) {
      COHORT_ASSIGN(const auto found, options.rendezvous->get(key));
      if (found && found->size() == root.size()) {
        std::copy(found->begin(), found->end(), root.begin());
        return root;
      }
      if (std::chrono::steady_clock::now() >= end)
        return Error{Errc::timeout,
                     fmt::format("rank 0 told no HCCL root within {} ms", options.timeout_ms)};
      std::this_thread::sleep_for(std::chrono::milliseconds(k_roll_poll_ms));
    }
  }

  std::shared_ptr<Device> device_;
  NpuCalls calls_;
  void *stream_ = nullptr, *event_ = nullptr, *comm_ = nullptr;
  std::vector<SendReceiveItem> items_;  // live until the exchange is done
  bool is_abandoned_ = false;
};

/// The first call that this CANN lacks, or nullptr.
const char* missing_call(const NpuCalls& c) {
  if (c.hccl_batch_send_recv == nullptr) return "HcclBatchSendRecv (CANN 8.0 and newer)";
  if (c.hccl_get_root_info == nullptr) return "HcclGetRootInfo";
  if (c.hccl_comm_init_root_info == nullptr) return "HcclCommInitRootInfo";
  if (c.hccl_comm_destroy == nullptr) return "HcclCommDestroy";
  if (c.set_device == nullptr) return "aclrtSetDevice";
  if (c.create_stream == nullptr || c.destroy_stream == nullptr) return "aclrtCreateStream";
  if (c.create_event == nullptr || c.destroy_event == nullptr) return "aclrtCreateEvent";
  if (c.record_event == nullptr || c.query_event_status == nullptr) return "aclrtRecordEvent";
  return nullptr;
}

Expected<std::unique_ptr<ExchangeEngine>> make_engine(const GroupOptions& options) {
  COHORT_ASSIGN(const NpuLibrary library, load_torch_npu());
  if (const char* missing = missing_call(library.calls))
    return Error{Errc::unsupported,
                 fmt::format("the CANN that {} loads has no {}; choose gloo (staged through the "
                             "host), or install a newer CANN",
                             library.path, missing)};
  auto engine = std::make_unique<HcclEngine>(options.device, library.calls);
  COHORT_TRY(engine->connect(options));
  return std::unique_ptr<ExchangeEngine>(std::move(engine));
}

}  // namespace

Expected<std::unique_ptr<Collectives>> join_hccl(const GroupOptions& options) {
  if (auto library = load_torch_npu(); !library)
    return library.error().with_context(fmt::format("group {}: backend hccl", options.name));
  return join_devices(options, make_engine);
}

}  // namespace cohort::compute
