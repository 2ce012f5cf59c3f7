// Malformed requests, one row each: what is wrong, what answers, and the word that the error text has to hold.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "proto/base/error.h"
#include "tests/support/test_server.h"

namespace embps {

// The server under test holds StockClient::table() (100 x 4, INT64 ids, SGD, all elements 1) and `adam` (10 x 2, INT32
// ids, Adam).
struct MalformedTarget {
  StockClient& client;
  v1::Table adam;
  v1::PushGradRequest last_push;  // applied; a later push may ask to forget only what lies below it
};

struct MalformedCase {
  std::string name;
  std::string method;  // "/package.Service/Method"
  Reason reason = Reason::kMalformed;
  std::string text;  // part of the error message: the field that is wrong
  // Serialised messages, more than one only for streams. Called just before they are sent.
  std::function<std::vector<std::string>(MalformedTarget&)> frames;
};

using MalformedCases = std::vector<MalformedCase>;

void AddLookupCases(MalformedCases& cases);
void AddPushCases(MalformedCases& cases);
void AddTableCases(MalformedCases& cases);
void AddRowCases(MalformedCases& cases);
void AddFramingCases(MalformedCases& cases);

}  // namespace embps
