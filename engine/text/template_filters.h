// The filters on sequences and mappings, for the table in template_filters.cpp. Must never know syntax.
#pragma once

#include "engine/text/template_program.h"

namespace slipstream::jinja {

#define SLIP_FILTER(name) Value name(Evaluator& evaluator, const Value& input, const Arguments& arguments)
SLIP_FILTER(filter_attr);
SLIP_FILTER(filter_batch);
SLIP_FILTER(filter_dictsort);
SLIP_FILTER(filter_first);
SLIP_FILTER(filter_groupby);
SLIP_FILTER(filter_items);
SLIP_FILTER(filter_join);
SLIP_FILTER(filter_last);
SLIP_FILTER(filter_length);
SLIP_FILTER(filter_list);
SLIP_FILTER(filter_map);
SLIP_FILTER(filter_max);
SLIP_FILTER(filter_min);
SLIP_FILTER(filter_reject);
SLIP_FILTER(filter_rejectattr);
SLIP_FILTER(filter_reverse);
SLIP_FILTER(filter_select);
SLIP_FILTER(filter_selectattr);
SLIP_FILTER(filter_slice);
SLIP_FILTER(filter_sort);
SLIP_FILTER(filter_sum);
SLIP_FILTER(filter_unique);
#undef SLIP_FILTER

}  // namespace slipstream::jinja
