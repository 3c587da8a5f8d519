#pragma once
/// The meaning of LaTeX commands, plain names and Unicode characters. Tables; immutable.
#include <string_view>

#include "runtime/tasks/scorers/math_tokens.hpp"

namespace cohort::tasks::math {

enum class Role : uint8_t {
  token,   // stands for a token
  skip,    // sets type
  space,   // white space
  text,    // its argument is words
  font,    // its argument is mathematics
  roman,   // \mathrm, \operatorname: a function, a unit or a letter
  accent,  // makes another variable of a letter
  greek,   // a variable by its name
  begin,
  end,
  argument,  // takes an argument that is of no meaning: \hspace
};

struct Meaning {
  Role role = Role::token;
  Tok kind = Tok::symbol;
  char mark = 0;
};

/// Returns the meaning of \name, nullptr if it has none here.
const Meaning* command(std::string_view name);
/// Returns the meaning of a run of letters outside of commands ("sin", "pi", "or"), or nullptr.
const Meaning* plain_name(std::string_view name);
/// True for a unit or another word that is no product of letters: "cm", "yes". Lower case.
bool is_known_word(std::string_view lower);
/// Returns the LaTeX that stands for the UTF-8 character at the beginning of `text`, empty if there
/// is none. `size`: the character's bytes.
std::string_view latex_of(std::string_view text, size_t& size);

}  // namespace cohort::tasks::math
