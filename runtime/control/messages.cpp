#include "runtime/control/messages.hpp"

#include "runtime/control/system.hpp"

namespace cohort::control {

std::string receiver_name(std::string_view role, CardId card) {
  return std::string(role) + "@" + std::to_string(card.value);
}

caf::error to_caf(const Error& error) {
  return {static_cast<uint8_t>(error.code), caf::atom("cohort"), caf::make_message(error.detail)};
}

Error from_caf(const caf::error& error) {
  if (error.category() == caf::atom("cohort")) {
    const caf::message& context = error.context();
    std::string detail =
        context.match_elements<std::string>() ? context.get_as<std::string>(0) : "";
    return {static_cast<Errc>(error.code()), std::move(detail)};
  }
  if (error == caf::sec::request_timeout)
    return {Errc::timeout, "no answer within the request's time limit"};
  if (error == caf::sec::request_receiver_down)
    return {Errc::closed, "the actor died before it answered"};
  return {Errc::internal, caf::to_string(error)};
}

Failure failure_of(Role role, std::string phase, const caf::error& error) {
  Error e = from_caf(error);
  return {std::string(to_string(role)), std::move(phase), e.to_string(), e.code == Errc::closed};
}

Failure failure_of_link(std::string_view role, const std::string& link, const Error& error) {
  return {std::string(role), "link", link + ": " + error.to_string(), false, false, link};
}

caf::error to_error(const std::exception_ptr& leaked) {
  try {
    std::rethrow_exception(leaked);
  } catch (const std::exception& e) {
    return to_caf({Errc::internal, std::string("exception left a handler: ") + e.what()});
  } catch (...) {
    return to_caf({Errc::internal, "exception of an unknown type left a handler"});
  }
}

CardReply reply_to(const CardCommand& command) {
  CardReply reply;
  reply.id = command.id;
  reply.version = command.version;
  return reply;
}

}  // namespace cohort::control
