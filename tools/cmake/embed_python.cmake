# cmake -DFOLDER=runtime/plugin/python -DOUTPUT=code_scripts.cpp -P embed_python.cmake
#   writes the definitions of cohort::plugin::sample_script(), judge_script() and worker_script()
#   (code_scripts.hpp).
set(code "// Made from runtime/plugin/python/*.py by tools/cmake/embed_python.cmake.\n")
string(APPEND code "#include \"runtime/plugin/code/code_scripts.hpp\"\n\nnamespace cohort::plugin {\n")
file(READ ${FOLDER}/sample.py sample_text)
# So is a plugin's child: its parts for environments, worlds of GEM and tools come first.
file(READ ${FOLDER}/worker_world.py worker_text)
file(READ ${FOLDER}/worker_gem.py worker_gem_text)
file(READ ${FOLDER}/worker_tool.py worker_tool_text)
file(READ ${FOLDER}/worker.py worker_end_text)
string(APPEND worker_text "${worker_gem_text}" "${worker_tool_text}"
  "${worker_end_text}")
# The judge is one program in two files.
file(READ ${FOLDER}/judge.py judge_text)
file(READ ${FOLDER}/judge_cases.py judge_cases_text)
string(APPEND judge_text "${judge_cases_text}")
foreach(name sample judge worker)
  # Lists of CMake are cut at semicolons, brackets shield them: the text is never one.
  string(APPEND code "\nstd::string_view ${name}_script() {\n  return R\"python_text(")
  string(APPEND code "${${name}_text}")
  string(APPEND code ")python_text\";\n}\n")
endforeach()
string(APPEND code "\n}  // namespace cohort::plugin\n")
file(WRITE ${OUTPUT} "${code}")
