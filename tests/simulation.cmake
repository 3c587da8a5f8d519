# The cluster on a virtual clock (tools/cohort-sim); the long run is one command (docs/simulation.md).
cohort_test(simulation_test sim SOURCES sim/simulation_test.cpp DEPS cohort::simulation)
