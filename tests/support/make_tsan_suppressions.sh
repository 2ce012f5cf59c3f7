#!/bin/sh
# Prints a suppression file for ThreadSanitizer: one line per library that BINARY loads. Distributions ship them without
# instrumentation, so their locks are invisible and every hand-over through them would look like a race.
# usage: make_tsan_suppressions.sh BINARY > FILE
set -eu
ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// {
  count = split($3, parts, "/")
  name = parts[count]
  if (name !~ /^(libc|libm|libpthread|libdl|librt|libresolv|libgcc_s|libstdc\+\+)\.so/) print "called_from_lib:" name
}' | sort -u
# Templates and inline functions of these libraries that were compiled into our objects, and generated code.
cat <<'END'
race:^grpc::
race:^grpc_
race:^google::protobuf
race:^embps::v1::
race:^embps::rpc::
END
