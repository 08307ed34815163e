// How far rows were read, within what data sets keep with their tokens; inside data/ only.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "libdistill/data/rows.h"

namespace distill {

// "chunks", "rows", "bad_rows" and "first_bad_rows" of an object; reading throws nlohmann's exceptions.
void WriteRowsRead(const RowsRead& rows, nlohmann::ordered_json& object);
RowsRead ReadRowsRead(const nlohmann::ordered_json& object);

// {"count": 2, "places": [...]}
nlohmann::ordered_json WriteCountedRows(const CountedRows& rows);
CountedRows ReadCountedRows(const nlohmann::ordered_json& object);

}  // namespace distill
