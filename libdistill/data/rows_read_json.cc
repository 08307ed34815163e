#include "libdistill/data/rows_read_json.h"

#include <nlohmann/json.hpp>

namespace distill {

using Json = nlohmann::ordered_json;

void WriteRowsRead(const RowsRead& rows, Json& object) {
  object["chunks"] = rows.chunks;
  object["rows"] = rows.rows;
  object["bad_rows"] = rows.bad.count;
  object["first_bad_rows"] = rows.bad.first;
}

RowsRead ReadRowsRead(const Json& object) {
  return {.chunks = object.at("chunks"),
          .rows = object.at("rows"),
          .bad = {object.at("bad_rows"), object.at("first_bad_rows")}};
}

Json WriteCountedRows(const CountedRows& rows) { return {{"count", rows.count}, {"places", rows.places}}; }

CountedRows ReadCountedRows(const Json& object) { return {object.at("count"), object.at("places")}; }

}  // namespace distill
