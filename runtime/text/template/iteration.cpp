/// Iteration, lengths and arguments.
#include <fmt/format.h>

#include "runtime/text/template/printing.hpp"
#include "runtime/text/template/runtime.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text::jinja {

Runtime::~Runtime() {
  for (const auto& value : kept_) value->clear();
}

bool is_iterable(const Value& x) {
  switch (x.kind()) {
    case Kind::undefined:
    case Kind::text:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::dict_view:
    case Kind::range:
    case Kind::iterator:
      return true;
    default:
      return false;
  }
}

Items::Items(Runtime& run, Value iterable) : run_(run), iterable_(std::move(iterable)) {
  if (is_iterable(iterable_)) return;
  fail("TypeError", fmt::format("'{}' object is not iterable", type_name(iterable_)));
}

bool Items::next(Value& item) {
  run_.budget.step();
  switch (iterable_.kind()) {
    case Kind::text: {
      const auto& text = iterable_.text();
      if (at_ >= text.size()) return false;
      const size_t size = utf8_size(text[at_]);
      item = make_text(run_.budget, text.substr(at_, size));
      at_ += size;
      return true;
    }
    case Kind::list:
    case Kind::tuple:
      if (at_ >= iterable_.items().size()) return false;
      item = iterable_.items()[at_++];
      return true;
    case Kind::dict:
      if (at_ >= iterable_.dict().entries.size()) return false;
      item = iterable_.dict().entries[at_++].first;
      return true;
    case Kind::dict_view: {
      const auto& view = iterable_.as<DictView>();
      const auto& entries = view.dict.dict().entries;
      if (at_ >= entries.size()) return false;
      const auto& [key, value] = entries[at_++];
      item = view.part == DictView::Part::keys     ? key
             : view.part == DictView::Part::values ? value
                                                   : make_tuple(run_.budget, {key, value});
      return true;
    }
    case Kind::range: {
      const auto& range = iterable_.as<Range>();
      if (static_cast<Integer>(at_) >= range.size()) return false;
      item = Value::integer(range.at(static_cast<Integer>(at_++)));
      return true;
    }
    case Kind::iterator: {
      auto& shared = iterable_.mutable_as<Iterator>();
      if (shared.next < shared.items.size()) {
        item = shared.items[shared.next++];
        return true;
      }
      if (const auto end = std::move(shared.end)) throw *end;
      return false;
    }
    default:
      return false;  // undefined, and what has ended
  }
}

std::vector<Value> items_of(Runtime& run, const Value& iterable) {
  Items items(run, iterable);
  std::vector<Value> all;
  if (!iterable.is(Kind::text) && !iterable.is(Kind::iterator)) {
    const size_t count = length_of(iterable);
    run.budget.check_room(count, sizeof(Value));
    all.reserve(count);
  }
  for (Value item; items.next(item);) all.push_back(std::move(item));
  return all;
}

size_t length_of(const Value& x) {
  switch (x.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::text:
      return x.text_object().length;
    case Kind::list:
    case Kind::tuple:
      return x.items().size();
    case Kind::dict:
      return x.dict().entries.size();
    case Kind::dict_view:
      return x.as<DictView>().dict.dict().entries.size();
    case Kind::range:
      return static_cast<size_t>(x.as<Range>().size());
    default:
      fail("TypeError", fmt::format("object of type '{}' has no len()", type_name(x)));
  }
}

Bound::Bound(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> names, size_t required)
    : function_(function), values_(names.size()) {
  if (arguments.positional.size() > names.size())
    fail("TypeError", fmt::format("{}() takes at most {} argument(s), {} given", function,
                                  names.size(), arguments.positional.size()));
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t at = 0;
    for (const auto known : names) {
      if (known == name) break;
      ++at;
    }
    if (at == names.size())
      fail("TypeError",
           fmt::format("{}() got an unexpected keyword argument '{}'", function, name));
    if (has(at))
      fail("TypeError", fmt::format("{}() got multiple values for argument '{}'", function, name));
    values_[at] = value;
  }
  for (size_t i = 0; i < required; ++i)
    if (!has(i))
      fail("TypeError",
           fmt::format("{}() missing required argument '{}'", function, std::data(names)[i]));
}

Integer index_value(const Value& x) {
  check_defined(x);
  if (x.is_whole()) return x.whole();
  fail("TypeError", fmt::format("'{}' object cannot be interpreted as an integer", type_name(x)));
}
Integer Bound::whole(size_t i, Integer otherwise) const {
  return has(i) ? index_value(values_[i]) : otherwise;
}
const std::string& Bound::text(size_t i) const {
  check_defined(values_[i]);
  if (!values_[i].is(Kind::text))
    fail("TypeError",
         fmt::format("{}() argument must be str, not {}", function_, type_name(values_[i])));
  return values_[i].text();
}

}  // namespace cohort::text::jinja
