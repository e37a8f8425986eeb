#include "gate/decide.hpp"

#include <algorithm>

#include "gate/report.hpp"

namespace hitchrail::gate {
namespace {

using namespace gatewire;

std::uint8_t reason_of(AddressClass kind) {
  switch (kind) {
    case class_metadata:
      return reason_metadata;
    case class_loopback:
      return reason_loopback;
    case class_link_local:
    case class_private:
      return reason_private;
    default:
      return reason_reserved;
  }
}

void refuse(Verdict& verdict, std::uint8_t reason, int status, AddressClass kind = class_none) {
  verdict.next = Verdict::Next::refuse;
  verdict.record.allowed = 0;
  verdict.record.reason = reason;
  verdict.record.address_class = kind == class_public ? class_none : kind;
  verdict.status = status;
}

void allow(Verdict& verdict) {
  verdict.next = Verdict::Next::dial;
  verdict.record.allowed = 1;
  verdict.record.reason = reason_host_rule;
}

void judge_host(const Document& document, const Host& host, Verdict& verdict) {
  const bool literal = host.kind == Host::Kind::literal || host.kind == Host::Kind::odd;
  if (host.kind == Host::Kind::invalid) {
    refuse(verdict, reason_invalid, 400);
    return;
  }
  set_host(verdict.record, host.name);
  const AddressClass kind = literal ? classify(host.address) : classify_name(host.name);
  if (kind != class_public) {
    refuse(verdict, reason_of(kind), 403, kind);
    return;
  }
  if (host.kind == Host::Kind::odd) {
    refuse(verdict, reason_invalid, 400);
    return;
  }
  verdict.record.rule = match(document, host.name, verdict.record.port);
  if (verdict.record.rule == 0) {
    refuse(verdict, reason_default_deny, 403);
  } else if (literal) {
    judge_addresses(verdict, {host.address}, [](const Address&) { return false; });
  } else {
    verdict.next = Verdict::Next::resolve;
    verdict.name = host.name;
  }
}

}  // namespace

Verdict judge_head(const Document& document, const Head& head) {
  Verdict verdict;
  verdict.record.count = 1;
  verdict.record.protocol = protocol_connect;
  switch (head.state) {
    case Head::State::connect:
      verdict.record.port = head.port;
      judge_host(document, parse_host(head.host), verdict);
      break;
    case Head::State::method:
      verdict.record.protocol = protocol_http;
      refuse(verdict, reason_method, 405);
      break;
    case Head::State::too_large:
      refuse(verdict, reason_bad_request, 431);
      break;
    default:
      refuse(verdict, reason_bad_request, 400);
  }
  return verdict;
}

void judge_addresses(Verdict& verdict, std::vector<Address> addresses,
                     const std::function<bool(const Address&)>& is_own) {
  if (addresses.empty()) {
    refuse(verdict, reason_unresolved, 502);
    return;
  }
  for (const Address& address : addresses) {
    const AddressClass kind = classify(address);
    if (kind != class_public) {
      refuse(verdict, reason_of(kind), 403, kind);
      return;
    }
    if (is_own(address)) {  // whatever it looks like from elsewhere, from here it is this machine
      refuse(verdict, reason_loopback, 403, class_loopback);
      return;
    }
  }
  verdict.addresses = std::move(addresses);
  allow(verdict);
}

Record relay_record(const Listener& listener, std::uint32_t index) {
  Record record{};
  record.count = 1;
  record.allowed = 1;
  record.reason = reason_relay;
  record.protocol = protocol_relay;
  record.port = listener.port;
  record.rule = index + 1;
  Address address{};
  std::copy(std::begin(listener.address), std::end(listener.address), address.begin());
  set_host(record, to_text(address));
  return record;
}

std::string refusal(int status, std::string_view reason) {
  const char* phrase = status == 400   ? "Bad Request"
                       : status == 405 ? "Method Not Allowed"
                       : status == 408 ? "Request Timeout"
                       : status == 431 ? "Request Header Fields Too Large"
                       : status == 502 ? "Bad Gateway"
                                       : "Forbidden";
  const std::string body = "{\"error\":\"" + std::string(reason) + "\"}\n";
  return "HTTP/1.1 " + std::to_string(status) + " " + phrase + "\r\n" +
         (status == 405 ? "Allow: CONNECT\r\n" : "") +
         "Content-Type: application/json\r\nConnection: close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace hitchrail::gate
