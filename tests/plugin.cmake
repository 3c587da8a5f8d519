# Tests of runtime/plugin.
