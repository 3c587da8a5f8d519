#pragma once
/// The YAML's spelling of each enum, in the order of its values.
#include <span>
#include <string_view>

#include "runtime/config/enums.hpp"

namespace cohort::config {

std::span<const std::string_view> names_of(Dialect);
std::span<const std::string_view> names_of(Pipeline);
std::span<const std::string_view> names_of(Platform);
std::span<const std::string_view> names_of(Grouping);
std::span<const std::string_view> names_of(NormScope);
std::span<const std::string_view> names_of(RatioType);
std::span<const std::string_view> names_of(CorrectionType);
std::span<const std::string_view> names_of(ImportanceSampling);
std::span<const std::string_view> names_of(BatchAdjustMode);
std::span<const std::string_view> names_of(SchedulerType);
std::span<const std::string_view> names_of(ModelDtype);
std::span<const std::string_view> names_of(AttnImplementation);
std::span<const std::string_view> names_of(ModelType);
std::span<const std::string_view> names_of(Strategy);
std::span<const std::string_view> names_of(PlacementMode);
std::span<const std::string_view> names_of(OffloadPolicy);
std::span<const std::string_view> names_of(CacheArrival);
std::span<const std::string_view> names_of(Determinism);
std::span<const std::string_view> names_of(SandboxMode);
std::span<const std::string_view> names_of(PromptTruncation);

}  // namespace cohort::config
