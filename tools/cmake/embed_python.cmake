# cmake -DFOLDER=runtime/plugin/python -DOUTPUT=code_scripts.cpp -P embed_python.cmake
#   writes the definitions of cohort::plugin::sample_script(), judge_script() and worker_script()
#   (code_scripts.hpp).
set(code "// Made from runtime/plugin/python/*.py by tools/cmake/embed_python.cmake.\n")
string(APPEND code "#include \"runtime/plugin/code/code_scripts.hpp\"\n\nnamespace cohort::plugin {\n")
file(READ ${FOLDER}/sample.py sample_text)
# So is a plugin's child, whose last part serves the others.
foreach(part world gem package agent tool)
  file(READ ${FOLDER}/worker_${part}.py part_text)
  string(APPEND worker_text "${part_text}")
endforeach()
file(READ ${FOLDER}/worker.py part_text)
string(APPEND worker_text "${part_text}")
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
