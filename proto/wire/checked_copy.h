// The one pass over bulk: unaligned bytes in, aligned arrays out, every value checked on the way, at the speed of
// memory. SIMD by run-time dispatch; the same bits on every CPU. Internal to proto/wire.
#pragma once
#include <cstddef>
#include <cstdint>

#include "embps/v1/types.pb.h"

namespace embps::wire {

// Each copies `count` elements and returns false when one is not valid; the copy is complete all the same. `source` has
// no alignment, `out` that of its type.

// 0 <= id - row_begin < row_count, as unsigned 64 bit; row_count <= 2^63.
bool CopyIds64(const char* source, size_t count, int64_t row_begin, int64_t row_count, int64_t* out);
// The same for int32 ids, sign-extended first.
bool CopyIds32(const char* source, size_t count, int64_t row_begin, int64_t row_count, int64_t* out);
// 0 <= length <= max_length; adds the lengths to *sum (wraps if one is not valid).
bool CopyLengths(const char* source, size_t count, int64_t max_length, int64_t* out, int64_t* sum);
// Finite; fp16 and bf16 become fp32, exactly. streaming_stores: past the cache; the caller ends with FlushStores().
bool CopyFinite(const char* source, size_t count, v1::DataType type, bool streaming_stores, float* out);
void FlushStores();

// The same checks without a copy.
bool AllIdsInRange(const char* source, size_t count, int id_bytes, int64_t row_count);
bool AllFinite(const char* source, size_t count, v1::DataType type);

// How many of the aligned ids are >= bound.
int64_t CountAtLeast(const int64_t* ids, size_t count, int64_t bound);

// rows of row_bytes from a dense source to out + i * stride_bytes.
void CopyRows(const char* source, size_t rows, size_t row_bytes, size_t stride_bytes, bool streaming_stores, char* out);

}  // namespace embps::wire
