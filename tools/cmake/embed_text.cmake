# cmake -DINPUT=a.py -DOUTPUT=a.cpp -DHEADER=runtime/x/a.hpp -DFUNCTION=cohort::x::a_text -P embed_text.cmake
#   writes the definition of `std::string_view FUNCTION()`, declared in HEADER: the text of INPUT.
file(READ ${INPUT} text)
string(LENGTH "${text}" left)
set(code "// Made from ${INPUT} by tools/cmake/embed_text.cmake.\n#include \"${HEADER}\"\n\n")
string(APPEND code "std::string_view ${FUNCTION}() {\n  static constexpr char k_text[] =\n")
set(at 0)
# In pieces: compilers may refuse literals over 64 KiB.
while(left GREATER 0)
  string(SUBSTRING "${text}" ${at} 8000 piece)
  string(APPEND code "R\"cohort_text(${piece})cohort_text\"\n")
  math(EXPR at "${at} + 8000")
  math(EXPR left "${left} - 8000")
endwhile()
string(APPEND code "      ;\n  return {k_text, sizeof k_text - 1};\n}\n")
file(WRITE ${OUTPUT} "${code}")
