// Names and numbers that users, streams and the wire show (base/role, base/trajectory_kind).
#include <gtest/gtest.h>

#include "runtime/base/role.hpp"
#include "runtime/base/trajectory_kind.hpp"

namespace cohort {
namespace {

TEST(Role, EveryNameFindsItsRole) {
  for (size_t i = 0; i < k_role_names.size(); ++i) {
    const auto role = static_cast<Role>(i);
    EXPECT_EQ(to_string(role), k_role_names[i]);
    EXPECT_EQ(role_of(k_role_names[i]), role);
  }
  EXPECT_EQ(to_string(Role::actor_infer), "actor_infer");
  EXPECT_EQ(to_string(Role::node), "node");
  EXPECT_EQ(to_string(static_cast<Role>(200)), "unknown");
  EXPECT_FALSE(role_of("unknown"));
  EXPECT_FALSE(role_of(""));
}

TEST(TrajectoryKind, NumbersAndNamesAreThoseOfStreams) {
  EXPECT_EQ(static_cast<int>(TrajectoryKind::warm_start), 3);
  EXPECT_EQ(to_string(TrajectoryKind::val_greedy), "val_greedy");
  EXPECT_EQ(to_string(static_cast<TrajectoryKind>(9)), "unknown");
  EXPECT_EQ(to_string(TrajectoryKey{TrajectoryKind::train, 3, 1, 0}),
            "train/step 3/group 1/index 0");
}

}  // namespace
}  // namespace cohort
