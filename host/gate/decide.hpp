#pragma once
// The decisions, without a socket: what is asked for, what it resolves to, what becomes of it. Order: the
// form of the host, the class of a literal, names with a meaning of their own, the allow-list, then the class
// of every address the name has. A name that is not allowed is never resolved, so a lookup carries nothing
// out.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gate/policy.hpp"
#include "gate/request.hpp"

namespace hitchrail::gate {

struct Verdict {
  enum class Next { refuse, resolve, dial } next = Next::refuse;
  gatewire::Record record{};       // complete unless next is resolve
  int status = 403;                // of the answer to a refused request
  std::string name;                // resolve
  std::vector<Address> addresses;  // dial: in this order
};

Verdict judge_head(const Document& document, const Head& head);
// For next == resolve. One denied address refuses the name: who answers with a private address beside a
// public one wants the second try to go there. `is_own` tells whether an address is one of this machine's.
void judge_addresses(Verdict& verdict, std::vector<Address> addresses,
                     const std::function<bool(const Address&)>& is_own);
gatewire::Record relay_record(const gatewire::Listener& listener, std::uint32_t index);

// The whole answer to a refused request.
std::string refusal(int status, std::string_view reason);

}  // namespace hitchrail::gate
